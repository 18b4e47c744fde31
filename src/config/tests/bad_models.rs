use super::{assert_one_error, warnings};

/// Keys of a model beside `name: qwen`, `engine: vllm` and a pool; `§` stands where the error is.
const MODEL_KEYS: &[(&str, &str)] = &[
    ("profile: §chatt", "profile: unknown profile `chatt`; did you mean `chat`?"),
    ("aliases: [a, §qwen]", "aliases[1]: `qwen` is the name of a model already (line 2)"),
    ("aliases: [a, §a]", "aliases[1]: `a` is the name of an alias already (line 5)"),
    ("aliases: [§405]", "aliases[0]: must be text, found `405`: write \"405\" if you mean it"),
    ("aliases: [§true]", "aliases[0]: must be text, found `true`: write \"true\" if you mean it"),
    ("aliases: [§'']", "aliases[0]: must be text, found the text \"\""),
    ("aliases: [§~]", "aliases[0]: must be text, found nothing"),
    (
        "aliases: [§' a']",
        "aliases[0]: must be a name of at most 256 characters without control characters and outer blanks, found the text \" a\"",
    ),
    ("aliases: §a", "aliases: must be a list, found `a`"),
    ("adapters: [{ name: §qwen, path: /x }]", "adapters[0].name: `qwen` is the name of a model already (line 2)"),
    ("adapters: [§{ name: sql }]", "adapters[0].path: is missing: write a folder, a GGUF file (llama.cpp) or a hub id"),
    ("adapters: [§{ path: /x }]", "adapters[0].name: is missing: write the name that clients ask for"),
    (
        "adapters: [{ name: sql, path: /x, pinned: §'true' }]",
        "adapters[0].pinned: must be true or false, found the text \"true\"",
    ),
    (
        "adapters: [{ name: sql, path: /x }]\n    aliases: [§'qwen:sql']",
        "aliases[0]: can also be read as adapter `sql` of model `qwen`",
    ),
    (
        "max_loaded_adapters: §0",
        "max_loaded_adapters: must be at least 1, or left out when adapters are registered at start, found 0",
    ),
    ("max_loaded_adapters: §-1", "max_loaded_adapters: must be a whole number, 0 or more, found -1"),
    (
        "max_loaded_adapters: §1\n    adapters: [{ name: a, path: /a, pinned: true }, { name: b, path: /b, pinned: true }]",
        "max_loaded_adapters: must be at least 2, the number of pinned adapters, found 1",
    ),
];

#[test]
fn each_bad_key_of_a_model_has_one_error_at_its_place() {
    for (key, expected) in MODEL_KEYS {
        let pools = "pools: [{ name: edge, replicas: [{ url: 'http://h:1' }] }]";
        let text = format!("models:\n  - name: qwen\n    engine: vllm\n    {pools}\n    {key}\n");
        assert_one_error(&text, &format!("models[0].{expected}"));
    }
}

/// Pools of a model; `§` stands where the error is.
const POOLS: &[(&str, &str)] = &[
    ("§[]", ": must not be empty"),
    ("[§{ name: edge }]", "[0].replicas: is missing: write a list such as [{ url: \"http://127.0.0.1:8000\" }]"),
    ("[{ name: edge, replicas: §[] }]", "[0].replicas: must not be empty"),
    ("[§{ replicas: [{ url: 'http://h:1' }] }]", "[0].name: is missing: write a name for status and metrics"),
    (
        "[{ name: edge, priority: §-1, replicas: [{ url: 'http://h:1' }] }]",
        "[0].priority: must be a whole number, 0 or more, found -1",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://h:1' }] }, { name: §edge, replicas: [{ url: 'http://h:2' }] }]",
        "[1].name: the model has a pool of this name already (line 4)",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://h:1' }, { url: §'http://H:1/' }] }]",
        "[0].replicas[1].url: the model has the replica h:1 already (line 4)",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://[::1]:1' }] }, { name: b, replicas: [{ url: §'http://[0:0::1]:1' }] }]",
        "[1].replicas[0].url: the model has the replica [::1]:1 already (line 4)",
    ),
    (
        "[{ name: edge, replicas: [§{ weight: 1 }] }]",
        "[0].replicas[0].url: is missing: write a URL such as http://127.0.0.1:8000",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://h:1', weight: §0 }] }]",
        "[0].replicas[0].weight: must be above 0, found 0",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://h:1', weight: §-.inf }] }]",
        "[0].replicas[0].weight: must be a finite number, found -.inf",
    ),
    (
        "[{ name: edge, replicas: [{ url: 'http://h:1', weight: §NaN }] }]",
        "[0].replicas[0].weight: must be a finite number, found `NaN`",
    ),
];

#[test]
fn each_bad_pool_has_one_error_at_its_place() {
    for (pools, expected) in POOLS {
        let text = format!("models:\n  - name: qwen\n    engine: vllm\n    pools: {pools}\n");
        assert_one_error(&text, &format!("models[0].pools{expected}"));
    }
}

#[test]
fn only_plain_http_urls_with_a_port_name_replicas() {
    for (url, reason) in [
        ("https://h:1", "TLS to replicas is not supported"),
        ("ftp://h:1", "only the scheme http is supported"),
        ("h:1", "it does not begin with http://"),
        ("http://h", "it has no port"),
        ("http://[::1]", "it has no port"),
        ("http://h:", "its port is not a number from 1 to 65535"),
        ("http://h:0", "its port is not a number from 1 to 65535"),
        ("http://h:+1", "its port is not a number from 1 to 65535"),
        ("http://h:65536", "its port is not a number from 1 to 65535"),
        ("http://h:1/v1", "it has a path, which is not supported: requests keep their own"),
        ("http://h:1/?a=b", "it has a query, which is not supported"),
        ("http://h:1#top", "it has a fragment, which is not supported"),
        ("http://me:secret@h:1", "it holds credentials, which are not supported"),
        ("http://:1", "it has no host"),
        ("http://::1:80", "an IPv6 address needs brackets, as in http://[::1]:8000"),
        ("http://[::g]:80", "its host is not an IPv6 address"),
        ("http://256.0.0.1:80", "its host is not an IPv4 address"),
        ("http://a b:80", "its host is not a host name"),
        ("http://ä:80", "its host is not a host name"),
    ] {
        let text =
            format!("models: [{{ name: q, engine: vllm, pools: [{{ name: e, replicas: [{{ url: §'{url}' }}] }}] }}]");
        assert_one_error(&text, &format!("models[0].pools[0].replicas[0].url: must be http://host:port: {reason}"));
    }
}

#[test]
fn an_unknown_engine_is_refused() {
    let text = "models: [{ name: q, engine: §tgi, pools: [{ name: e, replicas: [{ url: 'http://h:1' }] }] }]";
    assert_one_error(text, "models[0].engine: must be vllm or llamacpp, found `tgi`");
}

#[test]
fn llamacpp_takes_no_adapter_slots() {
    let pools = "pools: [{ name: e, replicas: [{ url: 'http://h:1' }] }]";
    let text = format!("models: [{{ name: q, engine: llamacpp, max_loaded_adapters: §2, {pools} }}]");
    let reason = "must be left out for llamacpp: llama.cpp keeps all its adapters from the start";
    assert_one_error(&text, &format!("models[0].max_loaded_adapters: {reason}"));
}

#[test]
fn two_models_cannot_share_a_name() {
    let model = |names: &str, port| {
        format!("  - {{ {names}, engine: vllm, pools: [{{ name: e, replicas: [{{ url: 'http://h:{port}' }}] }}] }}\n")
    };
    let text =
        format!("models:\n{}{}", model("name: a, adapters: [{ name: sql, path: /x }]", 1), model("name: §sql", 2));
    assert_one_error(&text, "models[1].name: `sql` is the name of an adapter already (line 2)");
}

#[test]
fn unwise_settings_are_warned_of() {
    let pools = "[{ name: e, replicas: [{ url: 'http://h:1' }] }]";
    let model = format!("name: q, engine: vllm, pools: {pools}");
    for (text, expected) in [
        (
            format!("timeouts: {{ upstream_idle: 5s }}\nmodels: [{{ {model} }}]"),
            "x.yaml:1:28: timeouts.upstream_idle: should be below 5s",
        ),
        (
            format!("health: {{ trip_for: 31s }}\nmodels: [{{ {model} }}]"),
            "x.yaml:1:21: health.trip_for: should be at most 30s",
        ),
        (
            format!("health: {{ readout_max_age: 250ms }}\nmodels: [{{ {model} }}]"),
            "x.yaml:1:9: health: readout_max_age should be above",
        ),
        (
            format!("models: [{{ {} }}]", model.replace("name: e", "name: e, priority: 1")),
            "x.yaml:1:42: models[0].pools: no pool has priority 0",
        ),
        (
            format!("models: [{{ {model} }}, {{ {} }}]", model.replace("name: q", "name: r")),
            "x.yaml:1:156: models[1].pools[0].replicas[0].url: another model has the replica h:1 too (line 1)",
        ),
        (
            format!(
                "models: [{{ max_loaded_adapters: 1, adapters: [{{ name: a, path: /a, pinned: true }}, {{ name: b, path: /b }}], {model} }}]"
            ),
            "x.yaml:1:33: models[0].max_loaded_adapters: leaves no slot",
        ),
    ] {
        let warnings = warnings(&text);
        assert!(warnings.starts_with(expected) && warnings.lines().count() == 1, "{warnings}\n{text}");
    }
}
