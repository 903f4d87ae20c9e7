//! Tests of `alerts`: the receivers of messages.

use std::time::Duration;

use insta::assert_snapshot;
use mainstay_core::{
    config::{Alert, AlertCommand, AlertKind, Flapping, Glob, Receiver, Webhook},
    ids::ServerName,
};

use crate::world::{findings, read};

fn text(alerts: &str) -> String {
    format!("{{\"mcpServers\": {{}}, \"alerts\":\n{alerts}}}")
}

/// The alerts of a file without findings.
fn alerts(written: &str) -> Vec<Alert> {
    assert_eq!(findings(&text(written)), "", "{written}");
    read("c.json", &text(written)).unwrap().config.alerts
}

#[test]
fn the_least_that_can_be_said_is_a_receiver() {
    let [hook, command] = &alerts(
        r#"[{"webhook": {"url": "https://h/${TOKEN}", "headers": {"X-Key": "k"}}},
            {"command": ["notify", "--key=${TOKEN}"]}]"#,
    )[..] else {
        panic!("two alerts")
    };
    let Receiver::Webhook(Webhook { url, headers }) = &hook.to else {
        panic!("a webhook")
    };
    assert_eq!(url.expose(), "https://h/t0ken");
    assert_eq!(headers[0].0, "x-key");
    assert_eq!(
        command.to,
        Receiver::Command(AlertCommand {
            program: "notify".to_owned(),
            args: vec!["--key=t0ken".to_owned()]
        })
    );
    for alert in [hook, command] {
        assert_eq!(alert.on, AlertKind::ALL);
        assert_eq!(alert.servers, []);
        assert_eq!(alert.after, Duration::from_secs(60));
        assert_eq!(alert.timeout, Duration::from_secs(10));
        let usual = Flapping {
            losses: 3,
            within: Duration::from_secs(600),
        };
        assert_eq!(alert.flapping, usual);
        assert!(!format!("{alert:?}").contains("t0ken"));
    }
}

#[test]
fn everything_can_be_said() {
    let found = alerts(
        r#"[{"on": ["server_down", "recovered"], "servers": ["prod-*", "db"], "command": ["x"],
             "afterMs": 0, "timeoutMs": 500, "flapping": {"losses": 5, "withinMs": 1000}}]"#,
    );
    let alert = &found[0];
    assert_eq!(alert.on, [AlertKind::ServerDown, AlertKind::Recovered]);
    assert_eq!(alert.servers, [Glob::new("prod-*"), Glob::new("db")]);
    assert_eq!(alert.after, Duration::ZERO);
    assert_eq!(alert.timeout, Duration::from_millis(500));
    let flapping = Flapping {
        losses: 5,
        within: Duration::from_secs(1),
    };
    assert_eq!(alert.flapping, flapping);

    let check = |kind, server, expected| {
        let server = ServerName::new(server).unwrap();
        assert_eq!(alert.is_about(kind, &server), expected, "{kind:?} {server}");
    };
    check(AlertKind::ServerDown, "prod-web", true);
    check(AlertKind::Recovered, "db", true);
    check(AlertKind::ServerDown, "test", false);
    check(AlertKind::Flapping, "db", false);
}

#[test]
fn a_bad_alert_fails_the_file() {
    assert_snapshot!(findings(&text(r#"[
  {"on": ["down"], "servers": "x", "command": []},
  {"on": [], "webhook": {"url": "h", "headers": {"a b": ""}}, "afterMs": -1, "flapping": {"losses": 1, "withinMs": 0}},
  {"webhook": {}, "timeoutMs": 0},
  {"webhook": {"url": "${NOPE}"}, "command": ["x"]},
  {"command": ["${NOPE}", 1]},
  {"afterms": 5},
  "x"
]"#)), @r#"
    error config.json:3:11: alerts[0].on[0]: expected "server_down", "flapping", "tools_vanished", "certificate" or "recovered", found "down"
    error config.json:3:31: alerts[0].servers: expected an array, found a string
    error config.json:3:47: alerts[0].command: a command needs the name of a program
    error config.json:4:10: alerts[1].on: an alert about nothing; leave `on` out for everything
    error config.json:4:33: alerts[1].webhook.url: the URL must begin with http:// or https://
    error config.json:4:50: alerts[1].webhook.headers["a b"]: not a header name: letters, digits and !#$%&'*+-.^_`|~ only
    error config.json:4:74: alerts[1].afterMs: expected a time of at least 0 and at most a year
    error config.json:4:101: alerts[1].flapping.losses: expected a whole number of at least 2
    error config.json:4:116: alerts[1].flapping.withinMs: expected a time greater than 0 and of at most a year
    error config.json:5:15: alerts[2].webhook: a webhook needs a `url`
    error config.json:5:32: alerts[2].timeoutMs: expected a time greater than 0 and of at most a year
    error config.json:6:46: alerts[3].command: an alert has a `webhook` or a `command`, not both (make two of it)
    error config.json:7:16: alerts[4].command[0]: variable "NOPE" is not set (set it, or give a default: ${NOPE:-…})
    error config.json:7:27: alerts[4].command[1]: expected a string, found a number
    error config.json:8:3: alerts[5]: an alert needs a `webhook` or a `command`
    error config.json:9:3: alerts[6]: expected an object, found a string
    "#);
    assert_snapshot!(findings(&text("{}")), @"error config.json:2:1: alerts: expected an array, found an object");
}
