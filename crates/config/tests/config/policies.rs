//! Tests of `preset` and its settings, at the top of the file and in an entry
//! (docs/dev/requirements.md, "Contradictions, and what Mainstay does").

use std::time::Duration;

use insta::assert_snapshot;
use mainstay_core::{
    config::{Config, Launch, ListChanged, PathOrder, ServerConfig},
    health::{HealthAction, ProbeMethod},
    lifecycle::{InitialFailure, Policy, Preset, ReconnectMode, RestartMode},
};

use crate::world::{entry_findings, findings, read, server};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// The policy of an entry with these keys.
fn policy(fields: &str) -> Policy {
    server(&format!(r#"{{"command": "x", {fields}}}"#)).policy
}

/// A file with the keys `top` at the top, and the keys `entry` in its only server.
fn config(top: &str, entry: &str) -> Config {
    let text = format!(r#"{{{top}, "mcpServers": {{"s": {{"command": "x"{entry}}}}}}}"#);
    assert_eq!(findings(&text), "", "{text}");
    read("c.json", &text).unwrap().config
}

fn under(top: &str, entry: &str) -> ServerConfig {
    config(top, entry).servers.remove(0)
}

#[test]
fn y_every_preset_has_its_word() {
    assert_eq!(
        server(r#"{"command": "x"}"#).policy,
        Preset::Default.policy()
    );
    for preset in Preset::ALL {
        let statement = format!(r#""preset": "{}""#, preset.as_str());
        assert_eq!(policy(&statement), preset.policy());
        assert_eq!(under(&statement, "").policy, preset.policy());
    }
}

#[test]
fn y_every_knob_of_reconnect() {
    let found = policy(
        r#""reconnect": {"mode": "manual", "maxAttempts": 7, "initialDelayMs": 500, "maxDelayMs": 1000,
            "multiplier": 1.5, "jitter": 0.2, "unauthorizedDelayMs": 60000, "initialFailure": "error", "onCall": false, "forgiveAfterMs": 0}"#,
    );
    let mut expected = Policy::default();
    expected.reconnect.mode = ReconnectMode::Manual;
    expected.reconnect.max_attempts = Some(7);
    expected.reconnect.initial_delay = MS(500);
    expected.reconnect.max_delay = MS(1000);
    expected.reconnect.multiplier = 1.5;
    expected.reconnect.jitter = 0.2;
    expected.reconnect.unauthorized_delay = MS(60_000);
    expected.reconnect.initial_failure = InitialFailure::Error;
    expected.reconnect.on_call = false;
    expected.reconnect.forgive_after = Duration::ZERO;
    assert_eq!(found, expected);
    assert_eq!(
        policy(r#""preset": "router", "reconnect": {"maxAttempts": 0}"#)
            .reconnect
            .max_attempts,
        None
    );
}

#[test]
fn y_every_knob_of_health() {
    let found = policy(
        r#""health": {"intervalMs": 5000, "jitter": 0, "timeoutMs": 1000, "method": "tools_list",
            "threshold": 2, "action": "event", "hangAfterMs": 60000, "unansweredCalls": 5}"#,
    );
    let mut expected = Policy::default();
    expected.health.interval = Some(MS(5000));
    expected.health.jitter = 0.0;
    expected.health.timeout = MS(1000);
    expected.health.method = ProbeMethod::ToolsList;
    expected.health.threshold = 2;
    expected.health.action = HealthAction::Event;
    expected.health.hang_after = MS(60_000);
    expected.health.unanswered_calls = Some(5);
    assert_eq!(found, expected);
    for (word, action) in [
        ("verify", HealthAction::Verify),
        ("reconnect", HealthAction::Reconnect),
        ("log", HealthAction::Log),
    ] {
        let found = policy(&format!(r#""health": {{"action": "{word}"}}"#));
        assert_eq!(found.health.action, action);
    }
    let none = policy(r#""health": {"unansweredCalls": 0}"#);
    assert_eq!(none.health.unanswered_calls, None);
}

#[test]
fn health_can_be_off_in_many_words() {
    for off in [
        r#""health": "off""#,
        r#""health": false"#,
        r#""health": {"intervalMs": 0}"#,
        r#""health": {"action": "off"}"#,
        r#""health": {"action": "off", "intervalMs": 0}"#,
        r#""healthCheckIntervalMs": 0"#,
        r#""health": "off", "healthCheckIntervalMs": 0"#,
    ] {
        assert_eq!(policy(off).health.interval, None, "{off}");
    }
}

#[test]
fn y_every_knob_of_restart() {
    let found =
        policy(r#""restart": {"mode": "as_reconnect", "maxAttempts": 9, "resetAfterMs": 1000}"#);
    let mut expected = Policy::default();
    expected.restart.mode = RestartMode::AsReconnect;
    expected.restart.max_attempts = Some(9);
    expected.restart.reset_after = MS(1000);
    assert_eq!(found, expected);
    let mode = |word| {
        policy(&format!(r#""restart": {{"mode": "{word}"}}"#))
            .restart
            .mode
    };
    assert_eq!(mode("on_crash"), RestartMode::OnCrash);
    assert_eq!(mode("never"), RestartMode::Never);
    let forever = policy(r#""restart": {"maxAttempts": 0}"#);
    assert_eq!(forever.restart.max_attempts, None);
}

/// A30, A31: the aliases of documents 000 and 001 are outside of the objects, and may repeat settings
/// in them.
#[test]
fn a30_a31_older_names() {
    let found = policy(
        r#""maxRetries": 3, "initialDelayMs": 500, "maxDelayMs": 1000, "forgiveAfterMs": 0,
           "hangAfterMs": 9000, "healthCheckIntervalMs": 15000, "autoReconnect": true,
           "reconnect": {"maxAttempts": 3, "mode": "auto"}, "health": {"intervalMs": 15000}"#,
    );
    assert_eq!(found.reconnect.max_attempts, Some(3));
    assert_eq!(found.reconnect.initial_delay, MS(500));
    assert_eq!(found.reconnect.max_delay, MS(1000));
    assert_eq!(found.reconnect.forgive_after, Duration::ZERO);
    assert_eq!(found.health.hang_after, MS(9000));
    assert_eq!(found.health.interval, Some(MS(15_000)));
}

#[test]
fn a18_whether_to_reconnect() {
    let check = |fields: &str, expected| {
        assert_eq!(policy(fields).reconnect.mode, expected, "{fields}");
    };
    check(r#""autoReconnect": false"#, ReconnectMode::Off);
    check(r#""auto_reconnect": false"#, ReconnectMode::Off);
    check(
        r#""preset": "manual", "autoReconnect": true"#,
        ReconnectMode::Auto,
    );
    check(r#""reconnect": {"mode": "off"}"#, ReconnectMode::Off);
    // `mode` refines the boolean.
    check(
        r#""autoReconnect": false, "reconnect": {"mode": "manual"}"#,
        ReconnectMode::Manual,
    );
}

#[test]
fn y21_call_retry() {
    assert!(!server(r#"{"command": "x"}"#).call_retry);
    assert!(server(r#"{"command": "x", "callRetry": true}"#).call_retry);
    assert!(under(r#""callRetry": true"#, "").call_retry);
    assert!(!under(r#""callRetry": true"#, r#", "callRetry": false"#).call_retry);
    assert!(!under(r#""callRetry": true"#, r#", "preset": "manual""#).call_retry);
}

#[test]
fn list_changed_may_stand_at_the_top() {
    let check = |top: &str, entry: &str, expected| {
        assert_eq!(under(top, entry).list_changed, expected, "{top} {entry}");
    };
    let ignored = r#""listChanged": "ignore""#;
    check(r#""callRetry": false"#, "", ListChanged::Propagate);
    check(ignored, "", ListChanged::Ignore);
    check(
        ignored,
        r#", "listChanged": "propagate""#,
        ListChanged::Propagate,
    );
    check(ignored, r#", "preset": "default""#, ListChanged::Propagate);
}

/// The entry overrides the top, and a preset sets all policies.
#[test]
fn y_which_statement_wins() {
    let top = r#""preset": "router", "reconnect": {"maxAttempts": 9}, "health": {"intervalMs": 5000}, "connectTimeoutMs": 1000"#;
    let check = |entry: &str, attempts, interval: Option<u64>, timeout: u64| {
        let policy = under(top, entry).policy;
        assert_eq!(policy.reconnect.max_attempts, attempts, "{entry}");
        assert_eq!(policy.health.interval, interval.map(MS), "{entry}");
        assert_eq!(policy.connect_timeout, MS(timeout), "{entry}");
        policy
    };
    let inherited = check("", Some(9), Some(5000), 1000);
    assert_eq!(inherited.health.method, ProbeMethod::Http);
    check(
        r#", "reconnect": {"maxAttempts": 2}"#,
        Some(2),
        Some(5000),
        1000,
    );
    check(r#", "preset": "manual""#, None, None, 30_000);
    check(
        r#", "preset": "manual", "health": {"intervalMs": 7000}"#,
        None,
        Some(7000),
        30_000,
    );
}

/// B13: the flag sets the default of the file. A preset alone does not count as a setting of the file.
#[test]
fn b13_the_health_interval_of_the_command_line() {
    let check = |top: &str, entry: &str, expected: Option<u64>| {
        let config = config(top, entry).with_health_interval(Some(MS(1000)));
        let found = config.servers[0].policy.health.interval;
        assert_eq!(found, expected.map(MS), "{top} {entry}");
    };
    check(r#""preset": "default""#, "", Some(1000));
    check(r#""preset": "manual""#, "", Some(1000));
    check(r#""health": {"timeoutMs": 1}"#, "", Some(1000));
    check(r#""health": {"intervalMs": 5000}"#, "", Some(5000));
    check(r#""health": "off""#, "", None);
    check(r#""health": "off""#, r#", "preset": "default""#, Some(1000));
    check(
        r#""preset": "manual""#,
        r#", "health": {"intervalMs": 5000}"#,
        Some(5000),
    );
    check(
        r#""preset": "manual""#,
        r#", "healthCheckIntervalMs": 5000"#,
        Some(5000),
    );

    let never = config(r#""preset": "default""#, "").with_health_interval(None);
    assert_eq!(never.servers[0].policy.health.interval, None);
}

#[test]
fn y6_limits_of_preset_desktop() {
    assert_eq!(
        server(r#"{"command": "x", "preset": "desktop"}"#).max_message_bytes,
        1024 * 1024
    );
    assert_eq!(
        server(r#"{"command": "x", "preset": "desktop", "maxMessageBytes": 5}"#).max_message_bytes,
        5
    );
    assert_snapshot!(entry_findings(r#"{"command": "x", "preset": "desktop", "timeout": 300001}"#), @"problem config.json:2:50: mcpServers.s.timeout: Server s: timeout must be between 1000-300000ms (`timeout` is in milliseconds; `timeout_s` is in seconds)");
}

/// J12, Y4
#[test]
fn y4_strict_tool_names() {
    let check = |top: &str, entry: &str, expected: bool| {
        let strict = under(top, entry).withheld.strict_names;
        assert_eq!(strict, expected, "{top} and {entry}");
    };
    for preset in Preset::ALL {
        let statement = format!(r#""preset": "{}""#, preset.as_str());
        check(&statement, "", preset == Preset::Desktop);
        check(
            r#""strictToolNames": true"#,
            &format!(", {statement}"),
            preset == Preset::Desktop,
        );
    }
    check(r#""strictToolNames": true"#, "", true);
    check(
        r#""strictToolNames": true"#,
        r#", "strictToolNames": false"#,
        false,
    );
    check(
        r#""preset": "desktop", "strictToolNames": false"#,
        "",
        false,
    );
    assert_snapshot!(findings(r#"{"strictToolNames": "yes", "mcpServers": {}}"#), @"error config.json:1:21: strictToolNames: expected true or false, found a string");
}

/// D6
#[test]
fn d6_the_standard_places_come_first_under_desktop() {
    for preset in Preset::ALL {
        let statement = format!(r#""preset": "{}""#, preset.as_str());
        let Launch::Stdio(launch) = under(&statement, "").launch else {
            panic!("not stdio")
        };
        let first = launch.path_order == PathOrder::StandardFirst;
        assert_eq!(first, preset == Preset::Desktop, "{statement}");
    }
}

#[test]
fn what_is_wrong_with_a_policy() {
    assert_snapshot!(entry_findings(r#"{
  "command": "x", "preset": "deflaut", "callRetry": 1, "connectTimeoutMs": 0,
  "reconnect": {
    "mode": "on", "maxAttempts": -1, "initialDelayMs": 99, "maxDelayMs": "1s", "multiplier": 0.5,
    "jitter": 1.01, "initialFailure": "warn", "onCall": "yes", "forgiveAfterMs": -1, "maxRetries": 5
  },
  "health": {"intervalMs": -1, "jitter": -0.1, "timeoutMs": 0, "method": "get", "threshold": 0, "action": "kill", "hangAfterMs": 0},
  "restart": {"mode": "always", "maxAttempts": 1.5, "resetAfterMs": true, "maxattempts": 1},
  "maxRetries": 0
}"#), @r#"
    problem config.json:3:29: mcpServers.s.preset: expected "default", "persistent", "router", "bounded", "desktop" or "manual", found "deflaut"
    problem config.json:3:53: mcpServers.s.callRetry: expected true or false, found a number
    problem config.json:3:76: mcpServers.s.connectTimeoutMs: expected a time greater than 0 and of at most a year
    problem config.json:5:13: mcpServers.s.reconnect.mode: expected "auto", "manual" or "off", found "on"
    problem config.json:5:34: mcpServers.s.reconnect.maxAttempts: expected a whole number of at least 0
    problem config.json:5:56: mcpServers.s.reconnect.initialDelayMs: expected at least 100 ms
    problem config.json:5:74: mcpServers.s.reconnect.maxDelayMs: expected milliseconds, found a string
    problem config.json:5:94: mcpServers.s.reconnect.multiplier: expected a number from 1 to 1000
    problem config.json:6:15: mcpServers.s.reconnect.jitter: expected a number from 0 to 1
    problem config.json:6:39: mcpServers.s.reconnect.initialFailure: expected "retry" or "error", found "warn"
    problem config.json:6:57: mcpServers.s.reconnect.onCall: expected true or false, found a string
    problem config.json:6:82: mcpServers.s.reconnect.forgiveAfterMs: expected a time of at least 0 and at most a year
    problem config.json:8:28: mcpServers.s.health.intervalMs: expected a time of at least 0 and at most a year
    problem config.json:8:42: mcpServers.s.health.jitter: expected a number from 0 to 1
    problem config.json:8:61: mcpServers.s.health.timeoutMs: expected a time greater than 0 and of at most a year
    problem config.json:8:74: mcpServers.s.health.method: expected "ping", "tools_list" or "http", found "get"
    problem config.json:8:94: mcpServers.s.health.threshold: expected a whole number of at least 1
    problem config.json:8:107: mcpServers.s.health.action: expected "verify", "reconnect", "event", "log" or "off", found "kill"
    problem config.json:8:130: mcpServers.s.health.hangAfterMs: expected a time greater than 0 and of at most a year
    problem config.json:9:23: mcpServers.s.restart.mode: expected "on_crash", "as_reconnect" or "never", found "always"
    problem config.json:9:48: mcpServers.s.restart.maxAttempts: expected a whole number of at least 0
    problem config.json:9:69: mcpServers.s.restart.resetAfterMs: expected milliseconds, found a boolean
    problem config.json:10:17: mcpServers.s.maxRetries: expected a whole number of at least 1
    warning config.json:6:86: mcpServers.s.reconnect.maxRetries: unknown key
    warning config.json:9:75: mcpServers.s.restart.maxattempts: unknown key (did you mean `maxAttempts`?)
    "#);
    assert_snapshot!(entry_findings(r#"{"command": "x", "health": true}"#), @"problem config.json:2:28: mcpServers.s.health: expected an object, found a boolean");
    assert_snapshot!(entry_findings(r#"{"command": "x", "reconnect": "auto", "restart": []}"#), @"
    problem config.json:2:31: mcpServers.s.reconnect: expected an object, found a string
    problem config.json:2:50: mcpServers.s.restart: expected an object, found an array
    ");
}

#[test]
fn what_contradicts_itself() {
    assert_snapshot!(entry_findings(r#"{"command": "x",
  "reconnect": {"maxAttempts": 5, "initialDelayMs": 1000, "maxDelayMs": 1000, "forgiveAfterMs": 0},
  "maxRetries": 3, "initialDelayMs": 2000, "maxDelayMs": 2000, "forgiveAfterMs": 1}"#), @"
    problem config.json:4:17: mcpServers.s.maxRetries: contradicts mcpServers.s.reconnect.maxAttempts
    problem config.json:4:38: mcpServers.s.initialDelayMs: contradicts mcpServers.s.reconnect.initialDelayMs
    problem config.json:4:58: mcpServers.s.maxDelayMs: contradicts mcpServers.s.reconnect.maxDelayMs
    problem config.json:4:82: mcpServers.s.forgiveAfterMs: contradicts mcpServers.s.reconnect.forgiveAfterMs
    ");
    assert_snapshot!(entry_findings(r#"{"command": "x", "autoReconnect": false, "reconnect": {"mode": "auto"}}"#), @"problem config.json:2:35: mcpServers.s.autoReconnect: contradicts mcpServers.s.reconnect.mode");
    assert_snapshot!(entry_findings(r#"{"command": "x", "autoReconnect": true, "reconnect": {"mode": "manual"}}"#), @"problem config.json:2:35: mcpServers.s.autoReconnect: contradicts mcpServers.s.reconnect.mode");
    assert_snapshot!(entry_findings(r#"{"command": "x", "health": "off", "healthCheckIntervalMs": 5000}"#), @"problem config.json:2:60: mcpServers.s.healthCheckIntervalMs: contradicts that it is off");
    assert_snapshot!(entry_findings(r#"{"command": "x", "health": {"action": "off", "intervalMs": 5000}}"#), @"problem config.json:2:60: mcpServers.s.health.intervalMs: contradicts that it is off");
    assert_snapshot!(entry_findings(r#"{"command": "x", "health": {"intervalMs": 5000}, "healthCheckIntervalMs": 6000}"#), @"problem config.json:2:75: mcpServers.s.healthCheckIntervalMs: contradicts mcpServers.s.health.intervalMs");
}

/// A wrong policy at the top is an error of the file, reported once.
#[test]
fn a_wrong_policy_at_the_top_fails_the_file() {
    assert_snapshot!(findings(r#"{
  "mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}},
  "preset": 1, "reconnect": {"jitter": 2}, "health": [], "maxAttemptsPerSecond": 0, "startup": {"maxConcurrent": 0}
}"#), @r#"
    error config.json:3:13: preset: expected "default", "persistent", "router", "bounded", "desktop" or "manual", found a number
    error config.json:3:40: reconnect.jitter: expected a number from 0 to 1
    error config.json:3:54: health: expected an object, found an array
    error config.json:3:82: maxAttemptsPerSecond: expected a whole number of at least 1
    error config.json:3:114: startup.maxConcurrent: expected a whole number of at least 1
    "#);
}

#[test]
fn settings_of_the_fleet() {
    let found = config(
        r#""maxAttemptsPerSecond": 5, "startup": {"maxConcurrent": 3, "waitMs": 1}"#,
        "",
    );
    assert_eq!(found.max_attempts_per_second, 5);
    assert_eq!(found.max_concurrent_starts, Some(3));
    assert_eq!(Config::default().max_attempts_per_second, 50);
    assert_eq!(Config::default().max_concurrent_starts, None);
}

/// The table of the user's guide is current.
#[test]
fn y_the_guide_shows_the_presets() {
    let guide = include_str!("../../../../docs/configuration.md");
    let rows = guide.lines().filter_map(|line| {
        let mut cells = line
            .trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim_matches([' ', '`']));
        let key = cells.next().filter(|key| key.contains('.'))?;
        Some((key, cells.collect::<Vec<_>>()))
    });
    let rows: Vec<_> = rows.filter(|(_, cells)| cells.len() == 6).collect();
    assert_eq!(rows.len(), 21);
    for (key, cells) in rows {
        for (preset, cell) in Preset::ALL.into_iter().zip(cells) {
            // A cell begins with the value. `–` marks a setting that has no effect.
            let (group, knob) = key.split_once('.').unwrap();
            let value = match cell.split(' ').next().unwrap() {
                "–" => continue,
                number
                    if number.parse::<f64>().is_ok() || number == "true" || number == "false" =>
                {
                    number.to_owned()
                }
                word => format!("\"{word}\""),
            };
            let statement = format!(r#""preset": "{}""#, preset.as_str());
            let explicit = format!(r#"{statement}, "{group}": {{"{knob}": {value}}}"#);
            assert_eq!(policy(&explicit), preset.policy(), "{statement} {key}");
        }
    }
}
