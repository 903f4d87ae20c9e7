//! Tests of the plan of a reload.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use mainstay_config::{ReloadPlan, plan::ServerAction};
use mainstay_core::{
    config::{Config, ServerConfig},
    ids::ServerName,
};
use proptest::prelude::*;

use crate::world::read;

fn config(text: &str) -> Config {
    read("c.json", text).unwrap().config
}

/// A file with these servers.
fn servers(servers: &str) -> Config {
    config(&format!(r#"{{"mcpServers": {{{servers}}}}}"#))
}

/// The plan from one entry of a server to another.
fn entry(old: &str, new: &str) -> String {
    let old = servers(&format!(r#""s": {old}"#));
    let new = servers(&format!(r#""s": {new}"#));
    ReloadPlan::between(&old, &new).to_string()
}

#[test]
fn a28_every_action() {
    let old = servers(
        r#"
        "same": {"command": "x"},
        "gone": {"command": "x"},
        "moved": {"command": "x"},
        "tuned": {"command": "x"},
        "off": {"command": "x"},
        "on": {"command": "x", "disabled": true}"#,
    );
    let new = config(
        r#"{"mcpServers": {
        "new": {"command": "x"},
        "idle": {"command": "x", "autoStart": false},
        "moved": {"command": "y", "args": ["1"]},
        "same": {"command": "x"},
        "tuned": {"command": "x", "timeout": 5000, "disabledTools": ["rm"]},
        "off": {"command": "x", "enabled": false},
        "on": {"command": "x"}
    }, "naming": "slash", "http": {"maxBodyBytes": 1}, "alerts": [{"command": ["notify"]}]}"#,
    );
    let plan = ReloadPlan::between(&old, &new);
    assert!(!plan.is_empty());
    assert_snapshot!(plan, @"
    + new    is added and started
    + idle   is added, not started
    ~ moved  is restarted if it runs (command, args)
    ~ tuned  changes without a restart (timeout, disabledTools)
    ~ off    is stopped (enabled)
    ~ on     is started (enabled)
    - gone   is stopped and removed
    = 1 unchanged
    the order of the servers changes
    settings that change: naming, alerts
    settings that need a restart of Mainstay: http.maxBodyBytes
    ");
}

#[test]
fn what_restarts_a_server_and_what_does_not() {
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "x"}"#), @"nothing changes");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"url": "http://h"}"#), @"~ s  is restarted if it runs (transport, maxSessions)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": 1}"#), @"~ s  is restarted if it runs (problems)");
    assert_snapshot!(entry(r#"{"command": 1}"#, r#"{"command": "x"}"#), @"~ s  is restarted if it runs (problems)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "x", "env": {"A": "1"}, "cwd": "/", "inheritEnv": false}"#), @"~ s  is restarted if it runs (env, cwd, inheritEnv)");
    assert_snapshot!(entry(r#"{"url": "http://h"}"#, r#"{"url": "http://i", "bearerToken": "t", "type": "sse"}"#), @"~ s  is restarted if it runs (url, headers, transport)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "x", "preset": "router"}"#), @"~ s  changes without a restart (reconnect, restart, health)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "x", "connectTimeoutMs": 1, "startTimeoutMs": 1, "callRetry": true, "maxSessions": 1, "maxMessageBytes": 1, "roots": ["file:///a"], "isolation": "shared", "healthCheckUrl": "http://h", "result": {"maxInlineBytes": 2000}}"#), @"~ s  changes without a restart (maxMessageBytes, result, maxSessions, isolation, roots, healthCheckUrl, connectTimeoutMs, startTimeoutMs, callRetry)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "y", "autoStart": false}"#), @"~ s  is restarted if it runs (command, autoStart)");
    assert_snapshot!(entry(r#"{"command": "x"}"#, r#"{"command": "x", "disabled": true}"#), @"~ s  is stopped (enabled)");
    assert_snapshot!(entry(r#"{"command": "x", "disabled": true}"#, r#"{"command": "y", "disabled": true}"#), @"~ s  changes without a restart (command)");
}

/// D6: a process keeps the PATH with which it was started.
#[test]
fn a_preset_that_orders_path_otherwise_restarts_processes() {
    let (desktop, strict) = (
        r#"{"command": "x", "preset": "desktop"}"#,
        r#"{"command": "x", "strictToolNames": true}"#,
    );
    assert!(
        entry(r#"{"command": "x"}"#, desktop).starts_with("~ s  is restarted if it runs (preset")
    );
    assert_eq!(
        entry(r#"{"command": "x"}"#, strict),
        "~ s  changes without a restart (strictToolNames)"
    );
}

#[test]
fn secrets_are_not_shown() {
    let old = r#"{"command": "x", "env": {"K": "s3cret1"}, "args": ["s3cret2"]}"#;
    let new = r#"{"url": "http://h/?k=s3cret3", "headers": {"x": "s3cret4"}}"#;
    for plan in [entry(old, new), entry(new, old)] {
        assert!(!plan.contains("s3cret"), "{plan}");
    }
}

const ENTRIES: &[&str] = &[
    r#"{"command": "x"}"#,
    r#"{"command": "x", "args": ["1"]}"#,
    r#"{"command": "x", "timeout": 5000}"#,
    r#"{"command": "x", "disabled": true}"#,
    r#"{"command": "y", "disabled": true}"#,
    r#"{"command": "x", "autoStart": false}"#,
    r#"{"command": "x", "preset": "manual", "health": "off"}"#,
    r#"{"command": "x", "preset": "manual"}"#,
    r#"{"url": "http://h"}"#,
    r#"{"url": "http://h", "bearerToken": "t"}"#,
    r#"{"url": 1}"#,
    r#"{"url": 1, "command": []}"#,
];

fn any_config() -> impl Strategy<Value = Config> {
    let names = Just(vec!["a", "b", "c", "d", "e"]).prop_shuffle();
    let entries = prop::collection::vec(prop::sample::select(ENTRIES), 0..=5);
    let settings = prop::sample::select(vec!["", r#","naming": "slash""#, r#","pageSize": 5"#]);
    (names, entries, settings).prop_map(|(names, entries, settings)| {
        let entries: Vec<_> = names
            .iter()
            .zip(entries)
            .map(|(name, entry)| format!("\"{name}\": {entry}"))
            .collect();
        config(&format!(
            r#"{{"mcpServers": {{{}}}{settings}}}"#,
            entries.join(",")
        ))
    })
}

fn named<'c>(config: &'c Config, name: &ServerName) -> &'c ServerConfig {
    config
        .servers
        .iter()
        .find(|server| server.name == *name)
        .unwrap()
}

/// The servers that connect at the start.
fn started_servers(config: &Config) -> BTreeSet<ServerName> {
    let started = config.servers.iter().filter(|s| s.connects_at_start());
    started.map(|server| server.name.clone()).collect()
}

proptest! {
    #[test]
    fn the_plan_leads_from_the_old_servers_to_the_new(old in any_config(), new in any_config()) {
        let plan = ReloadPlan::between(&old, &new);
        let (mut servers, mut up) = (Vec::new(), started_servers(&old));
        for change in &plan.servers {
            match change.action {
                ServerAction::Unchanged => servers.push(named(&old, &change.name).clone()),
                ServerAction::Removed => {}
                ServerAction::Added | ServerAction::AddedIdle => {
                    prop_assert!(old.servers.iter().all(|server| server.name != change.name));
                    servers.push(named(&new, &change.name).clone());
                }
                ServerAction::Changed => {
                    let (old, new) = (named(&old, &change.name), named(&new, &change.name));
                    prop_assert!(old != new && (old.launch == new.launch || !new.enabled));
                    servers.push(new.clone());
                }
                ServerAction::Started | ServerAction::Stopped | ServerAction::Relaunched => {
                    servers.push(named(&new, &change.name).clone());
                }
            }
            match change.action {
                ServerAction::Added | ServerAction::Started => drop(up.insert(change.name.clone())),
                ServerAction::Removed | ServerAction::Stopped => drop(up.remove(&change.name)),
                ServerAction::AddedIdle | ServerAction::Relaunched | ServerAction::Changed | ServerAction::Unchanged => {}
            }
        }
        prop_assert_eq!(&servers, &new.servers);
        // A running server keeps running if it only lost `autoStart`.
        let mut expected = started_servers(&new);
        let running = started_servers(&old);
        let enabled = new.servers.iter().filter(|server| server.enabled);
        expected.extend(enabled.map(|server| server.name.clone()).filter(|name| running.contains(name)));
        prop_assert_eq!(up, expected);
        prop_assert_eq!(plan.is_empty(), old == new);
    }

    #[test]
    fn there_is_no_way_from_a_configuration_to_itself(config in any_config()) {
        let plan = ReloadPlan::between(&config, &config);
        prop_assert!(plan.is_empty());
        prop_assert_eq!(plan.to_string(), "nothing changes");
    }
}
