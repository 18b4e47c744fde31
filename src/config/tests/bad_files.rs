use super::{MODELS, assert_one_error, errors};
use crate::config::{Checked, Config};

/// Sections beside a good `models`; `§` stands where the error is.
const SECTIONS: &[(&str, &str)] = &[
    ("server: { §lisen: ['127.0.0.1:1'] }", "server.lisen: unknown key; did you mean `listen`?"),
    ("server: { §max-body: 1MiB }", "server.max-body: unknown key; did you mean `max_body`?"),
    ("retry: { §colour: red }", "retry.colour: unknown key; known are attempts, budget"),
    ("§severs: {}", "severs: unknown key; did you mean `server`?"),
    ("server: §[]", "server: must be a mapping of keys to values, found a list"),
    (
        "server: { listen: §localhost:80 }",
        "server.listen: must be an IP address and a port, such as 127.0.0.1:8080 or [::]:8080, found `localhost:80`",
    ),
    (
        "server: { listen: ['127.0.0.1:1', §7] }",
        "server.listen[1]: must be an IP address and a port, such as 127.0.0.1:8080 or [::]:8080, found 7",
    ),
    ("server: { listen: §[] }", "server.listen: must not be empty"),
    ("server: { listen: §{} }", "server.listen: must be a list, found a mapping"),
    (
        "server: { listen: §'127.0.0.1:9090' }",
        "server.listen: 127.0.0.1:9090 clashes with 127.0.0.1:9090, server.admin_listen",
    ),
    (
        "server: { listen: ['0.0.0.0:1', §'[::]:5'], admin_listen: '10.0.0.1:5' }",
        "server.listen[1]: [::]:5 clashes with 10.0.0.1:5, server.admin_listen",
    ),
    (
        "server: { listen: ['0.0.0.0:1', §'127.0.0.1:1'] }",
        "server.listen[1]: 127.0.0.1:1 clashes with 0.0.0.0:1, another of server.listen",
    ),
    (
        "server: §{ admin_listen: '127.0.0.1:8080' }",
        "server: admin_listen 127.0.0.1:8080 clashes with the default of listen",
    ),
    ("server: { threads: §0 }", "server.threads: must be auto or a whole number from 1 to 1024, found 0"),
    ("server: { threads: §many }", "server.threads: must be auto or a whole number from 1 to 1024, found `many`"),
    ("server: { max_body: §32MB }", "server.max_body: has the unknown unit `MB`: use one of B, KiB, MiB, GiB"),
    ("server: { max_body: §0 }", "server.max_body: must be above 0 and at most 1024GiB, found 0"),
    ("server: { max_body: §-1MiB }", "server.max_body: must be a size such as 32MiB, 512KiB or 1048576, found `-1MiB`"),
    ("server: { max_body: §0.3B }", "server.max_body: must be a whole number of bytes, found `0.3B`"),
    ("server: { max_body: §9999999GiB }", "server.max_body: must be above 0 and at most 1024GiB, found `9999999GiB`"),
    ("timeouts: { connect: §2 }", "timeouts.connect: needs a unit: write 2s or 2ms"),
    ("timeouts: { connect: §2sec }", "timeouts.connect: has the unknown unit `sec`: use one of ms, s, m, h"),
    ("timeouts: { connect: §0s }", "timeouts.connect: must be above 0, found `0s`"),
    ("timeouts: { connect: §25h }", "timeouts.connect: must be at most 24h, found `25h`"),
    (
        "timeouts: { connect: §99999999999999999999999999h }",
        "timeouts.connect: must be at most 24h, found `99999999999999999999999999h`",
    ),
    ("timeouts: { connect: §fast }", "timeouts.connect: must be a duration such as 250ms, 2s or 5m, found `fast`"),
    ("timeouts: { connect: §1.2.3s }", "timeouts.connect: must be a duration such as 250ms, 2s or 5m, found `1.2.3s`"),
    ("timeouts:\n  connect§: ", "timeouts.connect: must be a duration such as 250ms, 2s or 5m, found nothing"),
    ("scheduler: { target_waiting: §0.5 }", "scheduler.target_waiting: must be at least 1, found 0.5"),
    (
        "scheduler: { target_inflight: §'8' }",
        "scheduler.target_inflight: must be a finite number, found the text \"8\"",
    ),
    ("scheduler: { kv_ceiling: §0 }", "scheduler.kv_ceiling: must be above 0 and at most 1, found 0"),
    ("scheduler: { kv_ceiling: §1.01 }", "scheduler.kv_ceiling: must be above 0 and at most 1, found 1.01"),
    ("scheduler: { kv_ceiling: §.nan }", "scheduler.kv_ceiling: must be a finite number, found .nan"),
    (
        "scheduler: { session_load_factor: §1e999 }",
        "scheduler.session_load_factor: must be a finite number, found 1e999",
    ),
    ("health: { trip_after: §0 }", "health.trip_after: must be at least 1, found 0"),
    ("health: { trip_after: §1.5 }", "health.trip_after: must be a whole number, 0 or more, found 1.5"),
    ("retry: { attempts: §11 }", "retry.attempts: must be at most 10, found 11"),
    ("retry: { budget: §1.5 }", "retry.budget: must be from 0 to 1, found 1.5"),
    (
        "log: { level: §'pointsman=loud' }",
        "log.level: must be a level (error, warn, info, debug, trace) or a filter such as pointsman=debug, found the text \"pointsman=loud\"",
    ),
    ("log: { format: §xml }", "log.format: must be pretty or json, found `xml`"),
    ("log: { access: §on }", "log.access: must be true or false, found `on`"),
    ("profiles: { §chat: { scorers: [] } }", "profiles.chat: `chat` is a built-in profile: choose another name"),
    (
        "profiles: { §'a b': { scorers: [] } }",
        "profiles.a b: a profile's name is at most 64 ASCII characters without blanks",
    ),
    (
        "profiles: { mine: §{} }",
        "profiles.mine.scorers: is missing: write a list such as [{ queue: 2 }, { session: 3 }], or []",
    ),
    (
        "profiles: { mine: { scorers: [], filters: [§breaker] } }",
        "profiles.mine.filters[0]: unknown filter `breaker`; known are breaker-open, pool-priority, adapter-affinity",
    ),
    (
        "profiles: { mine: { scorers: [], filters: [§braker-open] } }",
        "profiles.mine.filters[0]: unknown filter `braker-open`; did you mean `breaker-open`?",
    ),
    (
        "profiles: { mine: { scorers: [], filters: [breaker-open, §breaker-open] } }",
        "profiles.mine.filters[1]: is given twice",
    ),
    (
        "profiles: { mine: { scorers: [{ §queu: 1 }] } }",
        "profiles.mine.scorers[0].queu: unknown scorer `queu`; did you mean `queue`?",
    ),
    ("profiles: { mine: { scorers: [{ queue: §0 }] } }", "profiles.mine.scorers[0].queue: must be above 0, found 0"),
    (
        "profiles: { mine: { scorers: [{ queue: §.inf }] } }",
        "profiles.mine.scorers[0].queue: must be a finite number, found .inf",
    ),
    (
        "profiles: { mine: { scorers: [{ queue: 1 }, §{ queue: 2 }] } }",
        "profiles.mine.scorers[1]: is given twice: add the weights up",
    ),
    (
        "profiles: { mine: { scorers: [§{ queue: 2, kv: 1 }] } }",
        "profiles.mine.scorers[0]: must be one scorer and its weight, such as { queue: 2 }",
    ),
    (
        "profiles: { mine: { scorers: [§queue] } }",
        "profiles.mine.scorers[0]: must be a mapping of keys to values, found `queue`",
    ),
    (
        "profiles: { mine: { scorers: [], picker: §p3c } }",
        "profiles.mine.picker: unknown picker `p3c`; did you mean `p2c`?",
    ),
    (
        "profiles: { mine: { scorers: [], picker: §softmax(hot) } }",
        "profiles.mine.picker: `softmax(hot)` has an argument that the picker does not take",
    ),
    ("default_model: §qwem", "default_model: unknown model `qwem`; did you mean `qwen`?"),
    ("explain: { headers: §yes }", "explain.headers: must be true or false, found `yes`"),
    ("retry: {}\n§retry: {}", "retry: is given twice, before in line 1"),
    ("retry:\n  attempts: 1\n  §\"attempts\": 2", "retry.attempts: is given twice, before in line 2"),
    ("retry: { ? §[attempts] : 1 }", "retry: a key must be text"),
    ("a: &a { attempts: 1 }\nretry: { §<<: *a }", "retry: merge keys (`<<`) are not supported"),
    ("retry: { attempts: §!!int 1 }", "has a tag: tags such as `!!str` are not supported"),
];

#[test]
fn each_bad_section_has_one_error_at_its_place() {
    for (section, expected) in SECTIONS {
        let extra = "x.yaml:1:1: a: unknown key; known are server, scheduler, timeouts, health, admission, retry, log, explain, profiles, models, default_model";
        let (text, place) = super::unmark(&format!("{section}\n{MODELS}"));
        let errors = errors(&text).replace(&format!("{extra}\n"), "");
        assert_eq!(errors, format!("x.yaml:{}:{}: {expected}", place.line, place.column), "{section}");
    }
}

#[test]
fn text_that_is_no_configuration_is_refused_where_it_goes_wrong() {
    for (text, expected) in [
        ("§", "is empty: write at least `models`"),
        ("§\n# only a comment\n", "is empty: write at least `models`"),
        ("§---\n...\n", "is empty: write at least `models`"),
        ("§just words", "must be a mapping of keys to values, found `just words`"),
        ("§retry: {}", "models: is missing: write at least one model"),
        ("models§: ", "models: must not be empty"),
        ("models: {}\n§---\nmodels: {}", "starts a second document: a configuration is one document"),
        ("models: &a [§*a]", "is an alias inside its own anchor"),
        ("models: [1, 2\n§", "is not YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("a: §*nowhere", "is not YAML: while parsing node, found unknown anchor"),
    ] {
        assert_one_error(text, expected);
    }
}

#[test]
fn ten_different_errors_are_told_at_once_in_the_order_of_lines() {
    let text = r#"server:
  listen: ["127.0.0.1:8080", "127.0.0.1:9090"]
  max_body: 32MB
  treads: 4
scheduler: { kv_ceiling: 1.5 }
timeouts: { connect: 2 }
profiles:
  mine: { filters: [nothing-open], scorers: [{ queue: -1 }] }
default_model: llama
models:
  - name: qwen
    profile: fast
    engine: vllm
    pools:
      - name: edge
        replicas: [{ url: "https://h:1", weight: -1 }]
"#;
    let expected = "\
x.yaml:2:30: server.listen[1]: 127.0.0.1:9090 clashes with 127.0.0.1:9090, server.admin_listen
x.yaml:3:13: server.max_body: has the unknown unit `MB`: use one of B, KiB, MiB, GiB
x.yaml:4:3: server.treads: unknown key; did you mean `threads`?
x.yaml:5:26: scheduler.kv_ceiling: must be above 0 and at most 1, found 1.5
x.yaml:6:22: timeouts.connect: needs a unit: write 2s or 2ms
x.yaml:8:21: profiles.mine.filters[0]: unknown filter `nothing-open`; known are breaker-open, pool-priority, adapter-affinity
x.yaml:8:55: profiles.mine.scorers[0].queue: must be above 0, found -1
x.yaml:9:16: default_model: unknown model `llama`; known are qwen
x.yaml:12:14: models[0].profile: unknown profile `fast`; known are batch, chat, debug, long-context
x.yaml:16:27: models[0].pools[0].replicas[0].url: must be http://host:port: TLS to replicas is not supported
x.yaml:16:50: models[0].pools[0].replicas[0].weight: must be above 0, found -1";
    assert_eq!(errors(text), expected);
}

#[test]
fn aliases_cannot_blow_a_file_up() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let copies = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{copies}]\n"));
    }
    let errors = errors(&text);
    assert!(errors.contains("is too much: more than 100000 values, those copied by aliases included"), "{errors}");
}

#[test]
fn deep_nesting_is_refused_in_every_style() {
    let by_alias = "a: &a [[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]\nb: [[[[[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]]]]\n";
    let ours = "is nested deeper than 32 levels";
    for (text, expected) in [
        ("- ".repeat(100_000), ours),
        ("? ".repeat(100_000), ours),
        (format!("{}{}", "[".repeat(40), "]".repeat(40)), ours),
        (by_alias.to_owned(), ours),
        ("[".repeat(100_000), "is not YAML: recursion limit exceeded"),
    ] {
        let errors = errors(&text);
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn control_characters_of_the_file_do_not_reach_the_terminal() {
    let text = errors(&format!("\"\\e[31m\": 1\nlog: {{ format: \"\\e[2J{}\" }}\n{MODELS}", "x".repeat(100)));
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[31m") && text.contains('…'), "{text}");
}

#[test]
fn passwords_of_urls_are_not_repeated() {
    let text = errors(&MODELS.replace("http://h:1", "http://me:hunter2@h:1"));
    assert!(text.contains("it holds credentials") && !text.contains("hunter2"), "{text}");
}

#[test]
fn a_missing_key_is_not_told_when_a_typo_explains_it() {
    let text = MODELS.replace("name: qwen", "nmae: qwen");
    assert_eq!(errors(&text), "x.yaml:1:12: models[0].nmae: unknown key; did you mean `name`?");
}

#[test]
fn references_to_what_could_not_be_read_are_not_told() {
    let unnamed = format!("{}default_model: qwen\n", MODELS.replace("name: qwen", "name: []"));
    assert_eq!(errors(&unnamed), "x.yaml:1:18: models[0].name: must be text, found a list");
    let profiles = "profiles: { mine: { scorers: 5 } }\n";
    let broken = format!("{profiles}{}", MODELS.replace("name: qwen", "name: qwen, profile: mine"));
    assert_eq!(errors(&broken), "x.yaml:1:30: profiles.mine.scorers: must be a list, found 5");
}

#[test]
fn bytes_that_are_not_utf8_are_refused_at_their_place() {
    let errors = Checked::read(&b"retry: {}\n# \xc3\xa9 \xff\n"[..], "x.yaml").expect_err("not UTF-8");
    assert_eq!(errors.to_string(), "x.yaml:2:5: is not UTF-8");
}

#[test]
fn a_huge_file_is_refused_before_it_is_read() {
    let errors = Checked::read(std::io::repeat(b'#'), "x.yaml").expect_err("endless");
    assert_eq!(errors.to_string(), "x.yaml: is larger than 4 MiB");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("missing.yaml");
    for (path, reason) in [(missing.as_path(), "No such file"), (folder.path(), "directory")] {
        let errors = Config::load(path).expect_err("unreadable").to_string();
        assert!(errors.starts_with(&format!("{}: cannot be read: ", path.display())), "{errors}");
        assert!(errors.contains(reason), "{errors}");
    }
}
