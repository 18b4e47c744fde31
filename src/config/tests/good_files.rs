use super::{MODELS, warnings};
use crate::config::Config;
use crate::scheduler::scorer::Scorer;
use std::time::Duration;

fn parse(text: &str) -> Config {
    Config::parse(text, "x.yaml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

#[test]
fn units_scale_durations_and_sizes() {
    for (text, millis) in [("250ms", 250), ("2s", 2000), ("'1.5 s'", 1500), ("5m", 300_000), ("24h", 86_400_000)] {
        let config = parse(&format!("timeouts: {{ connect: {text} }}\n{MODELS}"));
        assert_eq!(config.timeouts.connect, Duration::from_millis(millis), "{text}");
    }
    for (text, bytes) in [("1", 1), ("100B", 100), ("512KiB", 524_288), ("1.5MiB", 1_572_864), ("2GiB", 2 << 30)] {
        assert_eq!(parse(&format!("server: {{ max_body: {text} }}\n{MODELS}")).server.max_body, bytes, "{text}");
    }
}

#[test]
fn one_address_may_stand_without_a_list() {
    let one = parse(&format!("server: {{ listen: '[::1]:0' }}\n{MODELS}"));
    assert_eq!(one.server.listen, ["[::1]:0".parse().expect("an address")]);
}

#[test]
fn port_0_clashes_with_nothing() {
    let config =
        parse(&format!("server: {{ listen: ['127.0.0.1:0', '127.0.0.1:0'], admin_listen: '127.0.0.1:0' }}\n{MODELS}"));
    assert_eq!(config.server.listen.len(), 2);
}

#[test]
fn equal_ports_on_different_addresses_do_not_clash() {
    let config =
        parse(&format!("server: {{ listen: ['127.0.0.1:5', '[::1]:5'], admin_listen: '127.0.0.2:5' }}\n{MODELS}"));
    assert_eq!(config.server.listen.len(), 2);
}

#[test]
fn threads_are_a_number_or_those_of_the_machine() {
    assert_eq!(parse(&format!("server: {{ threads: 3 }}\n{MODELS}")).server.threads.get(), 3);
    let auto = parse(&format!("server: {{ threads: auto }}\n{MODELS}")).server.threads;
    assert_eq!(auto, std::thread::available_parallelism().expect("a CPU"));
}

#[test]
fn a_profile_of_the_file_is_built_from_its_parts_and_found() {
    let text = "profiles: { mine: { scorers: [{ load(12): 2 }] } }\n".to_owned();
    let config = parse(&(text + &MODELS.replace("name: qwen", "name: qwen, profile: mine")));
    let mine = &config.models[0].profile;
    let chat = &config.profiles["chat"];
    assert_eq!((&*mine.name, &mine.filters, mine.picker), ("mine", &chat.filters, chat.picker));
    assert_eq!(mine.scorers, [(Scorer::Load(12.0), 2.0)]);
    assert_eq!(config.profiles.keys().collect::<Vec<_>>(), ["batch", "chat", "debug", "long-context", "mine"]);
}

#[test]
fn pools_come_by_rising_priority() {
    let pools = "[{ name: c, priority: 2, replicas: [{ url: 'http://h:3' }] }, { name: a, replicas: [{ url: 'http://h:1' }] }, \
                 { name: b, replicas: [{ url: 'http://h:2' }] }]";
    let config = parse(&format!("models: [{{ name: q, engine: vllm, pools: {pools} }}]"));
    let names: Vec<_> = config.models[0].pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn hosts_have_one_form() {
    for (url, name) in [
        ("http://LOCALHOST:80/", "localhost:80"),
        ("HTTP://10.0.0.1:8000", "10.0.0.1:8000"),
        ("http://[0:0:0::1]:80", "[::1]:80"),
        ("http://vllm-0.vllm_headless:80", "vllm-0.vllm_headless:80"),
    ] {
        let config = parse(&MODELS.replace("http://h:1", url));
        assert_eq!(config.models[0].pools[0].replicas[0].name(), name);
    }
}

#[test]
fn the_default_model_may_be_named_by_an_alias() {
    let models = MODELS.replace("name: qwen", "name: qwen, aliases: [gpt]");
    assert_eq!(parse(&format!("default_model: gpt\n{models}")).default_model.as_deref(), Some("qwen"));
}

#[test]
fn names_with_colons_are_fine_while_they_mean_one_thing() {
    let config = parse(
        &MODELS.replace("name: qwen", "name: 'qwen:7b', aliases: ['gpt:sql'], adapters: [{ name: sql, path: /x }]"),
    );
    assert_eq!(config.models[0].name, "qwen:7b");
}

#[test]
fn aliases_of_yaml_are_resolved() {
    let text = "models:\n  - name: a\n    engine: vllm\n    pools: &pools [{ name: e, replicas: [{ url: 'http://h:1' }] }]\n  - { name: b, engine: vllm, pools: *pools }\n";
    assert_eq!(parse(text).models[0].pools, parse(text).models[1].pools);
    let warnings = warnings(text);
    assert!(warnings.starts_with("x.yaml:4:49: models[1].pools[0].replicas[0].url: another model"), "{warnings}");
}

#[test]
fn sections_without_keys_mean_the_defaults() {
    let text = format!("server:\nscheduler: {{}}\nprofiles:\nretry: ~\n{MODELS}");
    assert_eq!(parse(&text), parse(MODELS));
}

#[test]
fn a_byte_order_mark_and_windows_lines_are_fine() {
    assert_eq!(parse(&format!("\u{feff}retry: {{}}\r\n{}", MODELS.replace('\n', "\r\n"))), parse(MODELS));
}
