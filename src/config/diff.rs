//! What changes between two checked configurations, as lines for people. Pure; it never decides whether to apply them.

use super::checked::{Adapter, Admission, Config, Model, Tenant};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What a change of configuration would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Taken over at once, one line each.
    pub applied: Vec<String>,
    /// Settings that wait for a restart, one line each.
    pub restart: Vec<String>,
}

impl Changes {
    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty() && self.restart.is_empty()
    }
}

/// From one configuration to another, taking `old` for the one that the process started with.
pub fn changes(old: &Config, new: &Config) -> Changes {
    Changes { applied: applied(old, new), restart: restart(old, new) }
}

/// Settings that are read once, when the process starts.
pub fn restart(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Lines::default();
    lines.setting("server.listen", &old.server.listen, &new.server.listen);
    lines.setting("server.admin_listen", &old.server.admin_listen, &new.server.admin_listen);
    lines.setting("server.threads", &old.server.threads, &new.server.threads);
    lines.setting("health.probe_timeout", &old.health.probe_timeout, &new.health.probe_timeout);
    lines.setting("log.level", &old.log.level, &new.log.level);
    lines.setting("log.format", &old.log.format, &new.log.format);
    lines.setting("log.access", &old.log.access, &new.log.access);
    lines.0
}

/// Everything that a running process takes over.
pub fn applied(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Lines::default();
    lines.server(old, new);
    lines.setting("scheduler", &old.thresholds, &new.thresholds);
    lines.setting("timeouts", &old.timeouts, &new.timeouts);
    let at_once = |config: &Config| {
        let mut health = config.health.clone();
        health.probe_timeout = old.health.probe_timeout;
        health
    };
    lines.setting("health", &at_once(old), &at_once(new));
    lines.admission(&old.admission, &new.admission);
    lines.setting("retry", &old.retry, &new.retry);
    lines.setting("explain", &old.explain, &new.explain);
    lines.setting("default_model", &old.default_model, &new.default_model);
    lines.entries("profile", &old.profiles, &new.profiles, |lines, name, _, _| {
        lines.0.push(format!("profile {name} changed"));
    });
    lines.entries("model", &by_name(old), &by_name(new), |lines, name, old, new| lines.model(name, old, new));
    lines.0
}

fn by_name(config: &Config) -> BTreeMap<String, &Model> {
    config.models.iter().map(|model| (model.name.clone(), model)).collect()
}

fn adapters(model: &Model) -> BTreeMap<String, &Adapter> {
    model.adapters.iter().map(|adapter| (adapter.name.clone(), adapter)).collect()
}

/// A replica's name to its pool, the pool's priority and its weight.
fn replicas(model: &Model) -> BTreeMap<String, (&str, u32, f64)> {
    let of_pool =
        |pool: &'_ super::checked::Pool| pool.replicas.iter().map(super::checked::Replica::name).collect::<Vec<_>>();
    let mut found = BTreeMap::new();
    for pool in &model.pools {
        for (name, replica) in of_pool(pool).into_iter().zip(&pool.replicas) {
            found.insert(name, (pool.name.as_str(), pool.priority, replica.weight));
        }
    }
    found
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn setting<T: PartialEq + Debug>(&mut self, name: &str, old: &T, new: &T) {
        if old != new {
            self.0.push(format!("{name}: {old:?} -> {new:?}"));
        }
    }

    fn server(&mut self, old: &Config, new: &Config) {
        let (old, new) = (&old.server, &new.server);
        self.setting("server.max_body", &old.max_body, &new.max_body);
        self.setting("server.max_buffered", &old.max_buffered, &new.max_buffered);
        self.setting("server.max_connections", &old.max_connections, &new.max_connections);
        self.setting("server.header_timeout", &old.header_timeout, &new.header_timeout);
        self.setting("server.keepalive", &old.keepalive, &new.keepalive);
        self.setting("server.body_timeout", &old.body_timeout, &new.body_timeout);
        self.setting("server.drain_timeout", &old.drain_timeout, &new.drain_timeout);
    }

    /// Tenants are told by name alone: their keys are secrets.
    fn admission(&mut self, old: &Admission, new: &Admission) {
        let limits = |admission: &Admission| Admission { tenants: Vec::new(), ..admission.clone() };
        self.setting("admission", &limits(old), &limits(new));
        let by_name = |admission: &Admission| -> BTreeMap<String, Tenant> {
            admission.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.clone())).collect()
        };
        self.entries("admission: tenant", &by_name(old), &by_name(new), |lines, name, _, _| {
            lines.0.push(format!("admission: tenant {name} changed"));
        });
    }

    /// Removed, changed and added entries, each group by name.
    fn entries<T: PartialEq>(
        &mut self,
        what: &str,
        old: &BTreeMap<String, T>,
        new: &BTreeMap<String, T>,
        changed: impl Fn(&mut Self, &str, &T, &T),
    ) {
        for (name, before) in old {
            match new.get(name) {
                None => self.0.push(format!("{what} {name} removed")),
                Some(after) if before != after => changed(self, name, before, after),
                Some(_) => {}
            }
        }
        let added = new.keys().filter(|name| !old.contains_key(*name));
        self.0.extend(added.map(|name| format!("{what} {name} added")));
    }

    fn model(&mut self, name: &str, old: &Model, new: &Model) {
        let of = |what: &str| format!("model {name}: {what}");
        self.setting(&of("engine"), &old.engine, &new.engine);
        self.setting(&of("profile"), &old.profile.name, &new.profile.name);
        self.setting(&of("aliases"), &old.aliases, &new.aliases);
        self.setting(&of("max_loaded_adapters"), &old.max_loaded_adapters, &new.max_loaded_adapters);
        self.setting(&of("adapters_dir"), &old.adapters_dir, &new.adapters_dir);
        self.entries(&of("adapter"), &adapters(old), &adapters(new), |lines, adapter, old, new| {
            lines.setting(&format!("model {name}: adapter {adapter}"), old, new);
        });
        self.entries(&of("replica"), &replicas(old), &replicas(new), |lines, replica, old, new| {
            lines.setting(&format!("model {name}: replica {replica} (pool, priority, weight)"), old, new);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "test.yaml").unwrap()
    }

    const OLD: &str = "models: [{name: m, engine: vllm, adapters: [{name: a, path: /a}], pools: [{name: p, replicas: [{url: 'http://h:1'}, {url: 'http://h:2'}]}]}]";

    #[test]
    fn the_same_file_changes_nothing() {
        assert!(changes(&config(OLD), &config(OLD)).is_empty());
    }

    #[test]
    fn replicas_adapters_and_aliases_are_named() {
        let new = OLD
            .replace("http://h:2", "http://h:3")
            .replace("name: a,", "name: b,")
            .replace("engine: vllm", "engine: vllm, aliases: [x]");
        let applied = changes(&config(OLD), &config(&new)).applied;
        let expected = [
            "model m: aliases: [] -> [\"x\"]",
            "model m: adapter a removed",
            "model m: adapter b added",
            "model m: replica h:2 removed",
            "model m: replica h:3 added",
        ];
        assert_eq!(applied, expected);
    }

    #[test]
    fn settings_read_at_the_start_need_a_restart() {
        let new = format!(
            "server: {{threads: 3, listen: '127.0.0.1:1', max_body: 1MiB}}\nhealth: {{probe_timeout: 9s}}\n{OLD}"
        );
        let found = changes(&config(OLD), &config(&new));
        let named: Vec<_> = found.restart.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(named, ["server.listen", "server.threads", "health.probe_timeout"]);
        assert_eq!(found.applied, ["server.max_body: 33554432 -> 1048576"]);
    }

    #[test]
    fn a_profile_and_a_timeout_that_change_are_named() {
        let new = format!("timeouts: {{connect: 1s}}\n{}", OLD.replace("engine: vllm", "engine: vllm, profile: batch"));
        let applied = changes(&config(OLD), &config(&new)).applied;
        assert!(applied[0].starts_with("timeouts: ") && applied[1].starts_with("model m: profile: "), "{applied:?}");
    }
}
