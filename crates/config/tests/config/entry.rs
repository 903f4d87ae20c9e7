//! Tests of one server's entry: transports, fields, aliases, limits.

use std::{path::Path, time::Duration};

use insta::assert_snapshot;
use mainstay_core::{
    config::{
        HttpTransport, InheritEnv, Isolation, Launch, ListChanged, Root, ServerConfig, StdioLaunch,
    },
    lifecycle::{Policy, ReconnectMode},
};

use crate::world::{entry_findings as findings, http, read, server, stdio};

/// `stdio`, or the transport of HTTP.
fn reached(entry: &str) -> String {
    match server(entry).launch {
        Launch::Stdio(_) => "stdio".to_owned(),
        Launch::Http(launch) => format!("{:?}", launch.transport),
        Launch::Broken(broken) => format!("broken: {}", broken.problem),
        Launch::Unapproved => "unapproved".to_owned(),
    }
}

#[test]
fn a11_a23_stdio_and_its_defaults() {
    let entry = server(r#"{"command": "npx"}"#);
    let launch = StdioLaunch {
        command: "npx".to_owned(),
        ..StdioLaunch::default()
    };
    assert_eq!(
        entry,
        ServerConfig::new(entry.name.clone(), Launch::Stdio(launch))
    );
    assert_eq!(entry.call_timeout, Duration::from_secs(30));
    assert_eq!(entry.max_call_timeout, Duration::from_secs(600));
    assert_eq!(entry.max_sessions, 8);
    assert_eq!(entry.policy.reconnect.mode, ReconnectMode::Auto);
    assert!(entry.connects_at_start());

    let launch =
        stdio(r#"{"command": "npx", "args": ["-y", "pkg"], "env": {"A": "1"}, "cwd": "/srv"}"#);
    assert_eq!(launch.args, ["-y", "pkg"]);
    assert_eq!(launch.env["A"].expose(), "1");
    assert_eq!(launch.cwd.as_deref(), Some(Path::new("/srv")));
}

#[test]
fn null_means_left_out() {
    let launch = stdio(
        r#"{"command": "x", "args": null, "env": null, "cwd": null, "url": null, "timeout": null}"#,
    );
    assert_eq!(
        launch,
        StdioLaunch {
            command: "x".to_owned(),
            ..StdioLaunch::default()
        }
    );
}

#[test]
fn a11_cwd_starts_at_home_or_at_the_file() {
    let check = |cwd: &str, expected: &str| {
        let launch = stdio(&format!(r#"{{"command": "x", "cwd": "{cwd}"}}"#));
        assert_eq!(launch.cwd.as_deref(), Some(Path::new(expected)), "{cwd}");
    };
    check("~", "/home/me");
    check("~/src", "/home/me/src");
    check("data", "/etc/mainstay/data");
    check("~other", "/etc/mainstay/~other");
}

#[test]
fn a12_remote_fields() {
    let launch = http(
        r#"{"url": "https://h/mcp/", "headers": {"X-Key": "k", "x-two": "b c"}, "bearerToken": "t"}"#,
    );
    assert_eq!(launch.url, "https://h/mcp/");
    let headers: Vec<_> = launch
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()))
        .collect();
    assert_eq!(
        headers,
        [
            ("x-key", "k"),
            ("x-two", "b c"),
            ("authorization", "Bearer t")
        ]
    );
    assert_eq!(server(r#"{"url": "http://h"}"#).max_sessions, 64);
}

#[test]
fn e4_an_empty_token_is_no_header() {
    assert_eq!(
        http(r#"{"url": "http://h", "bearerToken": ""}"#).headers,
        []
    );
    assert_eq!(
        http(r#"{"url": "http://h", "bearerToken": "${NONE:-}"}"#).headers,
        []
    );
}

#[test]
fn a13_y13_every_spelling_of_the_transport() {
    let check = |fields: &str, expected: &str| {
        assert_eq!(reached(&format!("{{{fields}}}")), expected, "{fields}");
    };
    check(r#""command": "x""#, "stdio");
    check(r#""command": "x", "type": "stdio""#, "stdio");
    check(r#""command": "x", "transport": "STDIO""#, "stdio");
    check(r#""command": "x", "type": "local""#, "stdio");
    check(r#""url": "http://h""#, "Detect");
    check(r#""serverUrl": "http://h""#, "Detect");
    check(r#""httpUrl": "http://h""#, "StreamableHttp");
    check(r#""url": "http://h", "type": "sse""#, "Sse");
    check(r#""url": "http://h", "transport": "sse""#, "Sse");
    for spelling in [
        "http",
        "streamable-http",
        "streamableHttp",
        "streamable_http",
        "remote-streamable",
    ] {
        check(
            &format!(r#""url": "http://h", "type": "{spelling}""#),
            "StreamableHttp",
        );
        check(
            &format!(r#""url": "http://h", "transport": "{spelling}""#),
            "StreamableHttp",
        );
    }
    check(r#""url": "http://h", "type": "remote""#, "Detect");
    check(
        r#""url": "http://h", "type": "remote", "transport": "sse""#,
        "Sse",
    );
    check(
        r#""url": "http://h", "type": "http", "transport": "streamable-http""#,
        "StreamableHttp",
    );
    // With both `command` and `url`, `type` decides. Empty keys cause no warning.
    check(
        r#""command": "x", "type": "stdio", "url": "", "headers": {}, "bearerToken": """#,
        "stdio",
    );
    check(
        r#""url": "http://h", "type": "sse", "command": "", "args": []"#,
        "Sse",
    );
    check(r#""url": "http://h", "command": """#, "Detect");
    check(r#""command": "x", "url": """#, "stdio");
    // A file for several clients may have both keys.
    check(r#""url": "http://h", "serverUrl": "http://h""#, "Detect");
}

#[test]
fn a13_unknown_and_contradictory_transports() {
    assert_snapshot!(findings(r#"{"url": "ws://h", "type": "websocket"}"#), @r#"
    problem config.json:2:9: mcpServers.s.url: the URL must begin with http:// or https://
    problem config.json:2:27: mcpServers.s.type: unknown transport "websocket" (expected "stdio", "http" or "sse")
    "#);
    assert_snapshot!(findings(r#"{"url": "http://h", "transport": 1}"#), @"problem config.json:2:34: mcpServers.s.transport: expected a string, found a number");
    assert_snapshot!(findings(r#"{"url": "http://h", "type": "sse", "transport": "http"}"#), @"problem config.json:2:49: mcpServers.s.transport: contradicts what is said of the transport elsewhere in the entry");
    assert_snapshot!(findings(r#"{"url": "http://h", "command": "x"}"#), @"
    problem config.json:2:1: mcpServers.s: `command` and a URL are both given (say which is meant by `type`)
    warning config.json:2:32: mcpServers.s.command: not used by a remote server
    ");
    assert_snapshot!(findings(r#"{"url": "http://h", "httpUrl": "http://i"}"#), @"problem config.json:2:32: mcpServers.s.httpUrl: differs from mcpServers.s.url, and a server has one URL");
}

#[test]
fn a14_a24_what_is_missing() {
    assert_snapshot!(findings("{}"), @"problem config.json:2:1: mcpServers.s: Server s: command is required");
    assert_snapshot!(findings(r#"{"command": "", "type": "stdio"}"#), @"problem config.json:2:13: mcpServers.s.command: Server s: command is required (it is empty)");
    assert_snapshot!(findings(r#"{"command": 5}"#), @"problem config.json:2:13: mcpServers.s.command: Server s: command is required (expected a string, found a number)");
    assert_snapshot!(findings(r#"{"comand": "npx"}"#), @r"
    problem config.json:2:1: mcpServers.s: Server s: command is required (it has `comand`; did you mean `command`?)
    warning config.json:2:2: mcpServers.s.comand: unknown key (did you mean `command`?)
    ");
    assert_snapshot!(findings(r#"{"type": "http", "urll": "http://h"}"#), @r"
    problem config.json:2:1: mcpServers.s: Server s: url is required (it has `urll`; did you mean `url`?)
    warning config.json:2:18: mcpServers.s.urll: unknown key (did you mean `url`?)
    ");
    assert_snapshot!(findings(r#"{"type": "sse"}"#), @"problem config.json:2:1: mcpServers.s: Server s: url is required");
    assert_snapshot!(findings(r#"{"type": "http", "url": ["http://h"]}"#), @"problem config.json:2:25: mcpServers.s.url: Server s: url is required (expected a string, found an array)");
    assert_snapshot!(findings(r#""npx""#), @"problem config.json:2:1: mcpServers.s: expected an object, found a string");
    assert_snapshot!(findings("null"), @"problem config.json:2:1: mcpServers.s: expected an object, found null");
}

#[test]
fn a15_server_type() {
    assert_eq!(
        reached(r#"{"serverType": "local", "command": "x", "bearerToken": "", "id": "1"}"#),
        "stdio"
    );
    assert_eq!(
        reached(r#"{"serverType": "remote", "remoteUrl": "http://h"}"#),
        "Sse"
    );
    assert_eq!(
        reached(r#"{"serverType": "remote-streamable", "remoteUrl": "http://h"}"#),
        "StreamableHttp"
    );
    assert_snapshot!(findings(r#"{"serverType": "remote-streamable"}"#), @"problem config.json:2:1: mcpServers.s: remoteUrl required for remote-streamable server");
    assert_snapshot!(findings(r#"{"serverType": "remote"}"#), @"problem config.json:2:1: mcpServers.s: remoteUrl required for remote server");
    assert_snapshot!(findings(r#"{"serverType": "local"}"#), @"problem config.json:2:1: mcpServers.s: command required for local server");
    assert_snapshot!(findings(r#"{"serverType": "carrier-pigeon", "command": "x"}"#), @"problem config.json:2:16: mcpServers.s.serverType: Unsupported server type: carrier-pigeon");
}

#[test]
fn a16_a17_y9_timeouts() {
    let check = |fields: &str, timeout: Duration, limit: Duration| {
        let entry = server(&format!(r#"{{"command": "x", {fields}}}"#));
        assert_eq!(
            (entry.call_timeout, entry.max_call_timeout),
            (timeout, limit),
            "{fields}"
        );
    };
    let (ms, s) = (Duration::from_millis, Duration::from_secs);
    check(r#""timeout": 1000"#, s(1), s(600));
    check(
        r#""timeout": 1500.5"#,
        Duration::from_micros(1_500_500),
        s(600),
    );
    check(r#""timeout": 300000"#, s(300), s(3000));
    check(r#""timeout": 3600000"#, s(3600), s(36_000));
    check(r#""timeout_s": 2.5"#, ms(2500), s(600));
    check(
        r#""timeout_s": 120, "maxTimeoutMs": 120000"#,
        s(120),
        s(120),
    );
    assert_eq!(
        server(r#"{"command": "x", "connectTimeoutMs": 90000}"#)
            .policy
            .connect_timeout,
        s(90)
    );
    assert_eq!(Policy::default().connect_timeout, s(30));
    let start = |fields: &str| {
        let entry = server(&format!(r#"{{"command": "x"{fields}}}"#));
        (entry.policy.start_timeout, entry.longest_start())
    };
    assert_eq!(start(""), (s(600), s(600)));
    assert_eq!(start(r#", "startTimeoutMs": 60000"#), (s(60), s(60)));
    assert_eq!(
        start(r#", "startTimeoutMs": 60000, "connectTimeoutMs": 90000"#),
        (s(60), s(90))
    );
    assert_eq!(server(r#"{"url": "http://h"}"#).longest_start(), s(30));
}

/// A limit below a second is probably in another unit.
#[test]
fn limits_below_a_second_are_warned_of() {
    assert_snapshot!(findings(r#"{"command": "x", "timeout_s": 0.06}"#), @"warning config.json:2:31: mcpServers.s.timeout_s: 60 ms is too short for most servers (the number is in seconds)");
    assert_snapshot!(findings(r#"{"command": "x", "connectTimeoutMs": 120, "startTimeoutMs": 999}"#), @"
    warning config.json:2:38: mcpServers.s.connectTimeoutMs: 120 ms is too short for most servers (the number is in milliseconds)
    warning config.json:2:61: mcpServers.s.startTimeoutMs: 999 ms is too short for most servers (the number is in milliseconds)
    ");
    assert_snapshot!(findings(r#"{"command": "x", "timeout_s": 1, "connectTimeoutMs": 1000}"#), @"");
}

#[test]
fn a16_a17_y9_wrong_timeouts() {
    assert_snapshot!(findings(r#"{"command": "x", "timeout": 30}"#), @"problem config.json:2:29: mcpServers.s.timeout: Server s: timeout must be between 1000-300000ms (`timeout` is in milliseconds; `timeout_s` is in seconds)");
    assert_snapshot!(findings(r#"{"command": "x", "timeout": "30s"}"#), @"problem config.json:2:29: mcpServers.s.timeout: Server s: timeout must be a number (found a string)");
    assert_snapshot!(findings(r#"{"command": "x", "timeout": 1e300}"#), @"problem config.json:2:29: mcpServers.s.timeout: expected a time greater than 0 and of at most a year");
    assert_snapshot!(findings(r#"{"command": "x", "timeout_s": 0}"#), @"problem config.json:2:31: mcpServers.s.timeout_s: expected a time greater than 0 and of at most a year");
    assert_snapshot!(findings(r#"{"command": "x", "timeout_s": -1}"#), @"problem config.json:2:31: mcpServers.s.timeout_s: expected a time greater than 0 and of at most a year");
    assert_snapshot!(findings(r#"{"command": "x", "timeout_s": true}"#), @"problem config.json:2:31: mcpServers.s.timeout_s: expected a number, found a boolean");
    assert_snapshot!(findings(r#"{"command": "x", "timeout": 2000, "timeout_s": 2}"#), @"problem config.json:2:48: mcpServers.s.timeout_s: `timeout` (milliseconds) and `timeout_s` (seconds) are both given");
    assert_snapshot!(findings(r#"{"command": "x", "maxTimeoutMs": 1000, "connectTimeoutMs": "1"}"#), @"
    problem config.json:2:34: mcpServers.s.maxTimeoutMs: below the timeout itself, which is 30000 ms
    problem config.json:2:60: mcpServers.s.connectTimeoutMs: expected milliseconds, found a string
    ");
}

#[test]
fn a18_to_a21_switches() {
    let check = |fields: &str, enabled, starts, reconnects| {
        let entry = server(&format!(r#"{{"command": "x", {fields}}}"#));
        assert_eq!(
            (
                entry.enabled,
                entry.connects_at_start(),
                entry.policy.reconnect.mode == ReconnectMode::Auto
            ),
            (enabled, starts, reconnects),
            "{fields}"
        );
    };
    check(r#""enabled": true"#, true, true, true);
    check(r#""enabled": false"#, false, false, true);
    check(r#""disabled": true"#, false, false, true);
    check(r#""disabled": false, "enabled": true"#, true, true, true);
    check(r#""autoStart": false"#, true, false, true);
    check(r#""auto_reconnect": false"#, true, true, false);
    check(r#""autoReconnect": false"#, true, true, false);
    check(
        r#""autoReconnect": false, "auto_reconnect": false"#,
        true,
        true,
        false,
    );
    assert_snapshot!(findings(r#"{"command": "x", "enabled": true, "disabled": true}"#), @"problem config.json:2:47: mcpServers.s.disabled: `enabled` and `disabled` contradict each other");
    assert_snapshot!(findings(r#"{"command": "x", "auto_reconnect": true, "autoReconnect": false}"#), @"problem config.json:2:59: mcpServers.s.autoReconnect: `auto_reconnect` and `autoReconnect` contradict each other");
    assert_snapshot!(findings(r#"{"command": "x", "enabled": "yes", "autoStart": 1}"#), @"
    problem config.json:2:29: mcpServers.s.enabled: expected true or false, found a string
    problem config.json:2:49: mcpServers.s.autoStart: expected true or false, found a number
    ");
}

#[test]
fn a22_a24_env_and_args_of_the_wrong_type() {
    assert_snapshot!(findings(r#"{"command": "x", "env": ["A=1"]}"#), @"problem config.json:2:25: mcpServers.s.env: expected an object, found an array");
    assert_snapshot!(findings(r#"{"command": "x", "env": {"A": {}, "B": null, "C=": "1", "": "1"}}"#), @r#"
    problem config.json:2:31: mcpServers.s.env.A: expected a string, found an object
    problem config.json:2:46: mcpServers.s.env["C="]: not a variable's name: empty, or with '=' or NUL
    problem config.json:2:57: mcpServers.s.env[""]: not a variable's name: empty, or with '=' or NUL
    "#);
    assert_snapshot!(findings(r#"{"command": "x", "args": "-y pkg"}"#), @"problem config.json:2:26: mcpServers.s.args: Server s: args must be an array (found a string)");
    assert_snapshot!(findings(r#"{"command": "x", "args": ["-p", 80, null]}"#), @"
    problem config.json:2:33: mcpServers.s.args[1]: expected a string, found a number
    problem config.json:2:37: mcpServers.s.args[2]: expected a string, found null
    ");
    assert_snapshot!(findings(r#"{"command": "x", "cwd": 1, "disabledTools": ["a", 1]}"#), @"
    problem config.json:2:25: mcpServers.s.cwd: expected a string, found a number
    problem config.json:2:51: mcpServers.s.disabledTools[1]: expected a string, found a number
    ");
}

#[test]
fn numbers_and_booleans_in_env_are_texts_with_a_warning() {
    let text = r#"{"mcpServers": {"s": {"command": "x", "env": {"PORT": 80, "DEBUG": true}}}}"#;
    let parsed = read("c.json", text).unwrap();
    let Launch::Stdio(launch) = &parsed.config.servers[0].launch else {
        panic!("broken")
    };
    assert_eq!(
        (launch.env["PORT"].expose(), launch.env["DEBUG"].expose()),
        ("80", "true")
    );
    assert_snapshot!(parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
    mcpServers.s.env.PORT: a number is taken as the text "80"
    mcpServers.s.env.DEBUG: a boolean is taken as the text "true"
    "#);
}

#[test]
fn large_results_are_cut_where_it_says_so() {
    let limit = |entry| server(entry).max_inline_bytes;
    assert_eq!(limit(r#"{"command": "x"}"#), None);
    assert_eq!(limit(r#"{"command": "x", "result": {}}"#), None);
    let entry = r#"{"command": "x", "result": {"maxInlineBytes": 20000}}"#;
    assert_eq!(limit(entry), Some(20_000));
    assert_snapshot!(findings(r#"{"command": "x", "result": {"maxInlineBytes": 1023, "max": 1}}"#), @"
    problem config.json:2:47: mcpServers.s.result.maxInlineBytes: expected a whole number of at least 1024
    warning config.json:2:53: mcpServers.s.result.max: unknown key
    ");
}

#[test]
fn a31_limits_roots_and_health() {
    let entry = server(
        r#"{
        "command": "x", "disabledTools": ["rm"], "maxSessions": 2, "maxMessageBytes": 1048576, "isolation": "session", "listChanged": "ignore",
        "roots": ["file:///a", {"uri": "file:///b", "name": "B"}],
        "healthCheckUrl": "http://h/health?key=${TOKEN}", "healthCheckIntervalMs": 15000
    }"#,
    );
    assert_eq!(*entry.withheld.disabled, ["rm".to_owned()]);
    assert_eq!(
        (entry.max_sessions, entry.max_message_bytes),
        (2, 1_048_576)
    );
    assert_eq!(entry.isolation, Some(Isolation::Session));
    assert_eq!(entry.list_changed, ListChanged::Ignore);
    let root = |uri: &str, name: Option<&str>| Root {
        uri: uri.to_owned(),
        name: name.map(str::to_owned),
    };
    assert_eq!(
        entry.roots,
        [root("file:///a", None), root("file:///b", Some("B"))]
    );
    assert_eq!(
        entry.health_check_url.unwrap().expose(),
        "http://h/health?key=t0ken"
    );
    assert_eq!(entry.policy.health.interval, Some(Duration::from_secs(15)));
    assert_snapshot!(findings(r#"{
  "command": "x", "maxSessions": 0, "maxMessageBytes": "1M", "isolation": "none",
  "roots": ["/a", {"name": "B"}, 1, {"uri": "file:///b", "nmae": "B"}], "healthCheckUrl": "h"
}"#), @r#"
    problem config.json:3:34: mcpServers.s.maxSessions: expected a whole number of at least 1
    problem config.json:3:56: mcpServers.s.maxMessageBytes: expected a whole number of at least 1
    problem config.json:3:75: mcpServers.s.isolation: expected "shared" or "session", found "none"
    problem config.json:4:13: mcpServers.s.roots[0]: a root is a URI (such as file:///home/me/project)
    problem config.json:4:19: mcpServers.s.roots[1]: a root needs a `uri`
    problem config.json:4:34: mcpServers.s.roots[2]: expected a string, found a number
    problem config.json:4:91: mcpServers.s.healthCheckUrl: the URL must begin with http:// or https://
    warning config.json:4:58: mcpServers.s.roots[3].nmae: unknown key
    "#);
}

/// The key of an entry overrides the key at the top. A key without effect is reported.
#[test]
fn isolation_at_the_top_and_in_an_entry() {
    let text = r#"{"isolation": "session", "mcpServers": {
        "default": {"command": "x"},
        "own": {"command": "x", "isolation": "shared"},
        "preset": {"command": "x", "preset": "router"}
    }}"#;
    let parsed = read("config.json", text).unwrap();
    let found = parsed.config.servers.iter().map(|server| server.isolation);
    let expected = [Isolation::Session, Isolation::Shared, Isolation::Session];
    assert_eq!(found.collect::<Vec<_>>(), expected.map(Some));
    assert_eq!(server(r#"{"command": "x"}"#).isolation, None);
    assert_snapshot!(findings(r#"{"url": "http://h", "isolation": "session", "protocol": "modern"}"#), @r#"warning config.json:2:34: mcpServers.s.isolation: has no effect with `protocol`: a server of 2026-07-28 keeps no sessions, and is shared"#);
    assert_snapshot!(findings(r#"{"url": "http://h", "isolation": true}"#), @r#"problem config.json:2:34: mcpServers.s.isolation: expected "shared" or "session", found a boolean"#);
}

#[test]
fn y15_inherit_env() {
    let check = |value: &str, expected| {
        let launch = stdio(&format!(r#"{{"command": "x", "inheritEnv": {value}}}"#));
        assert_eq!(launch.inherit_env, expected, "{value}");
    };
    check("true", InheritEnv::Process);
    check("false", InheritEnv::None);
    check(r#""process""#, InheritEnv::Process);
    check(r#""loginShell""#, InheritEnv::LoginShell);
    check(r#""none""#, InheritEnv::None);
    assert_snapshot!(findings(r#"{"command": "x", "inheritEnv": "some"}"#), @r#"problem config.json:2:32: mcpServers.s.inheritEnv: expected "process", "loginShell" or "none", found "some""#);
    assert_snapshot!(findings(r#"{"command": "x", "inheritEnv": 0}"#), @r#"problem config.json:2:32: mcpServers.s.inheritEnv: expected "process", "loginShell" or "none", found a number"#);
}

#[test]
fn urls_and_headers_are_checked() {
    assert_snapshot!(findings(r#"{"url": "localhost:80"}"#), @"problem config.json:2:9: mcpServers.s.url: the URL must begin with http:// or https://");
    assert_snapshot!(findings(r#"{"url": "http://user:pw@h/"}"#), @"problem config.json:2:9: mcpServers.s.url: credentials in a URL are not sent; use `headers` or `bearerToken`");
    assert_snapshot!(findings(r#"{"url": "http://h", "headers": {"a b": "1", "b": "1\r\nc: 2", "c": []}}"#), @r#"
    problem config.json:2:33: mcpServers.s.headers["a b"]: not a header name: letters, digits and !#$%&'*+-.^_`|~ only
    problem config.json:2:50: mcpServers.s.headers.b: a header's value can only have visible ASCII characters, spaces and tabs
    problem config.json:2:68: mcpServers.s.headers.c: expected a string, found an array
    "#);
    assert_snapshot!(findings(r#"{"url": "http://h", "headers": {"A": "1", "a": "2"}}"#), @"problem config.json:2:43: mcpServers.s.headers.a: duplicate header; case does not count");
    assert_snapshot!(findings(r#"{"url": "http://h", "headers": {"Content-Type": "application/json"}}"#), @"warning config.json:2:33: mcpServers.s.headers.Content-Type: Mainstay sets this header itself; ignored");
    assert_snapshot!(findings(r#"{"url": "http://h", "headers": {"Authorization": "x"}, "bearerToken": "t"}"#), @"problem config.json:2:71: mcpServers.s.bearerToken: `headers` has an authorization already");
    assert_snapshot!(findings(r#"{"url": "http://h", "bearerToken": "a\nb"}"#), @"problem config.json:2:36: mcpServers.s.bearerToken: a header's value can only have visible ASCII characters, spaces and tabs");
}

#[test]
fn what_the_transport_has_no_use_for() {
    assert_snapshot!(findings(r#"{"command": "x", "type": "stdio", "url": "http://h", "headers": {"a": "b"}}"#), @"
    warning config.json:2:42: mcpServers.s.url: not used by a stdio server
    warning config.json:2:65: mcpServers.s.headers: not used by a stdio server
    ");
    assert_snapshot!(findings(r#"{"url": "http://h", "cwd": "/", "inheritEnv": true}"#), @"
    warning config.json:2:28: mcpServers.s.cwd: not used by a remote server
    warning config.json:2:47: mcpServers.s.inheritEnv: not used by a remote server
    ");
}

#[test]
fn a_broken_entry_names_every_problem_and_leaves_the_others_alone() {
    let text = r#"{"mcpServers": {
        "bad": {"command": "${NOPE}", "args": [1], "timeout": 5, "disabled": true},
        "good": {"command": "x"}
    }}"#;
    let config = read("c.json", text).unwrap().config;
    let [bad, good] = &config.servers[..] else {
        panic!("two servers")
    };
    assert!(matches!(bad.launch, Launch::Broken(_)) && !bad.enabled);
    assert_eq!(bad.problems().count(), 3);
    assert_eq!(bad.transport(), "stdio");
    for (entry, transport) in [
        (
            r#"{"type": "http", "url": "http://localhost:99999/"}"#,
            "http",
        ),
        (r#"{"type": "sse", "url": "no-url"}"#, "sse"),
        ("5", "unknown"),
    ] {
        let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
        let read = read("c.json", &text).unwrap().config;
        assert_eq!(read.servers[0].transport(), transport, "{entry}");
    }
    assert!(matches!(good.launch, Launch::Stdio(_)));
    assert_eq!(
        config
            .problems()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["bad"; 3]
    );
}

#[test]
fn secrets_are_not_shown() {
    let entries = [
        r#"{"command": "x", "args": ["--key=${TOKEN}"], "env": {"K": "${TOKEN}"}}"#,
        r#"{"url": "http://h/?k=${TOKEN}", "headers": {"x": "${TOKEN}"}, "healthCheckUrl": "http://h/?k=${TOKEN}"}"#,
        r#"{"url": "http://h/", "bearerToken": "${TOKEN}"}"#,
    ];
    for entry in entries {
        let debug = format!("{:?}", server(entry));
        assert!(!debug.contains("t0ken"), "{debug}");
    }
    for entry in [
        r#"{"url": "${TOKEN}"}"#,
        r#"{"url": "http://h", "headers": {"x": "é${TOKEN}"}}"#,
    ] {
        assert!(!findings(entry).contains("t0ken"));
    }
    assert_eq!(
        http(r#"{"url": "http://h"}"#).transport,
        HttpTransport::Detect
    );
}

/// Only names that can match no tool are reported here. The daemon reports others once the server
/// has listed its tools.
#[test]
fn names_of_tools_that_can_fit_none_are_told() {
    assert_snapshot!(
        findings(
            r#"{"command": "x", "disabledTools": ["delete_*", "*", " echo", "", "s__echo", "mcp__s__add", "s", "sum"], "allowedTools": ["*", "ec*", "s/echo", "add"]}"#
        ),
        @r#"
        warning config.json:2:36: mcpServers.s.disabledTools[0]: "delete_*" fits no tool: names are whole, without patterns
        warning config.json:2:48: mcpServers.s.disabledTools[1]: "*" fits no tool: names are whole, without patterns
        warning config.json:2:53: mcpServers.s.disabledTools[2]: " echo" fits no tool: it has blanks around the name (did you mean "echo"?)
        warning config.json:2:62: mcpServers.s.disabledTools[3]: "" fits no tool: it is blank
        warning config.json:2:66: mcpServers.s.disabledTools[4]: "s__echo" is a name as clients see it, and this list has names as the server itself gives them (did you mean "echo"?)
        warning config.json:2:77: mcpServers.s.disabledTools[5]: "mcp__s__add" is a name as clients see it, and this list has names as the server itself gives them (did you mean "add"?)
        warning config.json:2:127: mcpServers.s.allowedTools[1]: "ec*" fits no tool: names are whole, without patterns
        warning config.json:2:134: mcpServers.s.allowedTools[2]: "s/echo" is a name as clients see it, and this list has names as the server itself gives them (did you mean "echo"?)
        "#
    );
}
