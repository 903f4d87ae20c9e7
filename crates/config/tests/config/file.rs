//! Tests of the file as a whole: syntax, shapes, names, settings.

use std::{path::Path, time::Duration};

use insta::assert_snapshot;
use mainstay_config::{ConfigSource, References, Syntax, parse, parse_entry};
use mainstay_core::{
    builtin::OwnToolGroup,
    config::{Config, Launch, Naming, StdioLaunch},
    ids::ServerName,
    lifecycle::Preset,
};

use crate::world::{ConfigWorld, findings, findings_in, read};

/// The servers' names in a file without errors.
fn names(text: &str) -> Vec<String> {
    let config = read("config.json", text).unwrap().config;
    assert_eq!(config.problems().count(), 0, "{text}");
    config
        .servers
        .iter()
        .map(|server| server.name.to_string())
        .collect()
}

#[test]
fn a1_comments_and_trailing_commas_need_a_name_that_says_so() {
    let commented = "{\n  // mine\n  \"mcpServers\": {},\n}";
    assert_snapshot!(findings(commented), @"error config.json:2:3: comments are not allowed (JSON has none; a file named .jsonc or .json5 may have them)");
    assert_eq!(findings_in("config.jsonc", commented), "");
    assert_eq!(findings_in("config.JSON5", commented), "");
    assert_snapshot!(findings(r#"{"mcpServers": {},}"#), @"error config.json:1:18: trailing commas are not allowed (JSON has none; a file named .jsonc or .json5 may have them)");
    assert_snapshot!(findings(r#"{"mcpServers": /* none */ {}}"#), @"error config.json:1:16: comments are not allowed (JSON has none; a file named .jsonc or .json5 may have them)");
}

#[test]
fn a1_json5_in_full() {
    let text = "{mcpServers: {'fs': {command: 'x', timeout: +0x7D0, args: ['a\\\n b']}}}";
    assert_eq!(findings_in("c.json5", text), "");
    let config = read("c.json5", text).unwrap().config;
    assert_eq!(config.servers[0].call_timeout, Duration::from_secs(2));
    assert_snapshot!(findings(text), @"error config.json:1:2: expected string for object property");
}

#[test]
fn a1_syntax_goes_by_the_extension() {
    let check =
        |path: &str, expected| assert_eq!(Syntax::of_path(Path::new(path)), expected, "{path}");
    check("a.json", Syntax::Json);
    check("a.jsonc", Syntax::Jsonc);
    check("a.JSON5", Syntax::Jsonc);
    check("a.jsonc/b", Syntax::Json);
    check("jsonc", Syntax::Json);
}

#[test]
fn a9_malformed_json_is_located() {
    assert_snapshot!(findings(""), @r#"error config.json:1:1: the file is empty (the smallest configuration is {"mcpServers": {}})"#);
    assert_snapshot!(findings("  \n "), @r#"error config.json:1:1: the file is empty (the smallest configuration is {"mcpServers": {}})"#);
    assert_snapshot!(findings("{\n  \"mcpServers\": {"), @"error config.json:2:17: unterminated object");
    assert_snapshot!(findings("{\"mcpServers\": {}} x"), @"error config.json:1:20: text cannot contain more than one JSON value");
    assert_snapshot!(findings("{\"mcpServers\":\n{\"a\" {}}}"), @"error config.json:2:6: expected colon after the string or word in object property");
    assert_snapshot!(findings("{\"mcpServers\": {}\n \"naming\": \"slash\"}"), @"error config.json:1:18: expected comma");
    assert_snapshot!(findings("{'mcpServers': {}}"), @"error config.json:1:2: single-quoted strings are not allowed");
    assert_snapshot!(findings("{\"mcpServers\": \"\\q\"}"), @"error config.json:1:17: invalid escape");
    assert_snapshot!(findings("{\"ü\": \"a\tb\"}"), @r#"error config.json:1:9: control character (\u0000-\u001F) found while parsing a string"#);
    assert_snapshot!(findings("{\"mcpServers\": {}, \"pageSize\": 007}"), @"error config.json:1:33: expected comma");
}

#[test]
fn a9_a_byte_order_mark_is_no_fault() {
    assert_eq!(findings("\u{feff}{\"mcpServers\": {}}"), "");
}

#[test]
fn a9_deep_nesting_is_refused_not_fatal() {
    let deep = "[".repeat(100_000);
    assert_snapshot!(findings(&deep), @"error config.json:1:513: maximum nesting depth exceeded");
    assert_snapshot!(findings_in("c.jsonc", &deep), @"error c.jsonc:1:513: maximum nesting depth exceeded");
}

#[test]
fn a2_a3_a4_every_shape_of_servers() {
    let check = |text: &str, expected: &[&str]| assert_eq!(names(text), expected, "{text}");
    check(
        r#"{"mcpServers": {"b": {"command": "x"}, "a": {"url": "http://h"}}}"#,
        &["b", "a"],
    );
    check(
        r#"{"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}"#,
        &["a"],
    );
    check(
        r#"{"servers": [{"name": "a", "url": "http://h"}, {"name": "b", "type": "stdio", "command": "x"}]}"#,
        &["a", "b"],
    );
    check(
        r#"{"servers": {"z": {"command": "x"}}, "mcpServers": {"a": {"command": "x"}}}"#,
        &["z", "a"],
    );
    // A10
    check(r#"{"mcpServers": {}}"#, &[]);
    check(r#"{"servers": {}}"#, &[]);
    check(r#"{"servers": []}"#, &[]);
}

#[test]
fn a3_a4_wrong_shapes() {
    assert_snapshot!(findings(r#"{"mcpServers": []}"#), @"error config.json:1:16: mcpServers: expected an object, found an array");
    assert_snapshot!(findings(r#"{"servers": 5}"#), @"error config.json:1:13: servers: expected an object, found a number");
    assert_snapshot!(findings(r#"{"servers": ["a", {"url": "http://h"}, {"name": ""}, {"name": 1}]}"#), @"
    error config.json:1:14: servers[0]: expected an object, found a string
    error config.json:1:19: servers[1]: a server in an array needs a `name`
    error config.json:1:49: servers[2].name: a server name must not be empty
    error config.json:1:63: servers[3].name: expected a string, found a number
    ");
}

#[test]
fn a24_exact_messages_of_the_file() {
    assert_snapshot!(findings("[]"), @"error config.json:1:1: Config must be an object (found an array)");
    assert_snapshot!(findings("null"), @"error config.json:1:1: Config must be an object (found null)");
    assert_snapshot!(findings("{}"), @r#"error config.json:1:1: Missing mcpServers field (servers stand in {"mcpServers": {NAME: {…}}})"#);
    assert_snapshot!(findings(r#"{"mcpServers": null}"#), @r#"error config.json:1:1: Missing mcpServers field (servers stand in {"mcpServers": {NAME: {…}}})"#);
    assert_snapshot!(findings(r#"{"mcp_servers": {}}"#), @r#"error config.json:1:1: Missing mcpServers field (it is called "mcp_servers" here)"#);
}

#[test]
fn a25_names() {
    assert_snapshot!(findings(r#"{"mcpServers": {"": {"command": "x"}}}"#), @r#"error config.json:1:17: mcpServers[""]: a server name must not be empty"#);
    assert_snapshot!(findings(r#"{"mcpServers": {" ": {"command": "x"}}}"#), @r#"error config.json:1:17: mcpServers[" "]: a server name must not be empty"#);
    assert_snapshot!(findings(r#"{"mcpServers": {"my server": {"command": "x"}, "a__b": {"command": "x"}}}"#), @r#"
    warning config.json:1:17: mcpServers["my server"]: server name "my server" contains ' '; allowed are letters, digits, '_' and '-' (it is called "my-server" here)
    "#);
    let config = read(
        "c.json",
        r#"{"mcpServers": {"my server": {"command": "x"}}}"#,
    )
    .unwrap()
    .config;
    assert_eq!(config.servers[0].name.as_str(), "my-server");
}

#[test]
fn a26_duplicate_names() {
    assert_snapshot!(findings("{\"mcpServers\": {\n \"a\": {\"command\": \"x\"},\n \"a\": {\"command\": \"y\"}}}"), @r#"error config.json:3:2: mcpServers.a: duplicate server name "a""#);
    assert_snapshot!(findings(r#"{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "x"}}}"#), @r#"error config.json:1:53: servers.a: duplicate server name "a""#);
    assert_snapshot!(findings(r#"{"mcpServers": {"a b": {"command": "x"}, "a/b": {"command": "x"}}}"#), @r#"error config.json:1:42: mcpServers["a/b"]: duplicate server name "a-b" ("a/b" becomes "a-b")"#);
    assert_snapshot!(findings(r#"{"servers": [{"name": "a", "url": "http://h"}, {"name": "a", "url": "http://h"}]}"#), @r#"error config.json:1:57: servers[1].name: duplicate server name "a""#);
}

#[test]
fn duplicate_keys() {
    assert_snapshot!(findings(r#"{"mcpServers": {}, "naming": "none", "naming": "slash"}"#), @"error config.json:1:38: naming: duplicate key");
    // In an entry, a duplicate key is a problem of that server only.
    assert_snapshot!(findings(r#"{"mcpServers": {"s": {"command": "x", "command": "y"}}}"#), @"problem config.json:1:39: mcpServers.s.command: duplicate key");
    assert_snapshot!(findings(r#"{"mcpServers": {"s": {"command": "x", "env": {"A": "1", "A": "2"}}}}"#), @"problem config.json:1:57: mcpServers.s.env.A: duplicate key");
}

#[test]
fn a34_inline_servers_win() {
    let config = read(
        "c.json",
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}"#,
    )
    .unwrap()
    .config;
    let inline = |name: &str| {
        let launch = StdioLaunch {
            command: "inline".to_owned(),
            ..StdioLaunch::default()
        };
        mainstay_core::config::ServerConfig::new(
            mainstay_core::ids::ServerName::new(name).unwrap(),
            Launch::Stdio(launch),
        )
    };
    let config = config.with_inline([inline("c"), inline("a")]);
    let all: Vec<_> = config
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(all, ["a", "b", "c"]);
    assert_eq!(config.servers[0], inline("a"));
}

#[test]
fn a35_many_servers() {
    let entries: Vec<_> = (0..5000)
        .map(|n| format!("\n\"s{n}\": {{\"command\": \"x\", \"odd\": 1}}"))
        .collect();
    let parsed = read(
        "c.json",
        &format!("{{\"mcpServers\": {{{}}}}}", entries.join(",")),
    )
    .unwrap();
    assert_eq!(parsed.config.servers.len(), 5000);
    assert_eq!(parsed.warnings.last().unwrap().position, Some((5001, 27)));
}

#[test]
fn settings() {
    let text = r#"{
        "$schema": "https://example.com/schema.json",
        "mcpServers": {},
        "naming": "mcp_prefix",
        "maxNameLength": 64,
        "startup": {"waitMs": 0},
        "pageSize": 100,
        "http": {"maxBodyBytes": 1024, "allowedHosts": ["gateway.lan"], "allowedOrigins": ["http://gateway.lan"], "publicUrl": "https://gateway.lan/", "requireToken": false, "page": false}
    }"#;
    assert_eq!(findings(text), "");
    let expected = Config {
        servers: Vec::new(),
        naming: Naming::McpPrefix,
        max_name_length: 64,
        startup_wait: Duration::ZERO,
        page_size: Some(100),
        max_body_bytes: 1024,
        allowed_hosts: vec!["gateway.lan".to_owned()],
        allowed_origins: vec!["http://gateway.lan".to_owned()],
        public_url: Some("https://gateway.lan".to_owned()),
        require_token: Some(false),
        page: false,
        ..Config::default()
    };
    assert_eq!(read("c.json", text).unwrap().config, expected);
    assert_eq!(
        read("c.json", r#"{"mcpServers": {}}"#).unwrap().config,
        Config::default()
    );
}

#[test]
fn public_urls() {
    let finding = |url: &str| {
        findings(&format!(
            r#"{{"mcpServers": {{}}, "http": {{"publicUrl": "{url}"}}}}"#
        ))
    };
    for url in [
        "https://gateway.lan",
        "HTTPS://gateway.lan:8443/",
        "http://localhost:7420",
        "http://127.0.0.2",
        "http://[::1]:7420",
    ] {
        assert_eq!(finding(url), "", "{url}");
    }
    assert_snapshot!(finding("gateway.lan"), @"error config.json:1:42: http.publicUrl: the URL must begin with http:// or https://");
    assert_snapshot!(finding("http://gateway.lan"), @"error config.json:1:42: http.publicUrl: expected an `https://` URL, or one of this machine");
    assert_snapshot!(finding("https://gateway.lan/mcp"), @"error config.json:1:42: http.publicUrl: expected scheme, host and port alone");
}

#[test]
fn namings() {
    let check = |word, expected| {
        let text = format!(r#"{{"mcpServers": {{}}, "naming": "{word}"}}"#);
        assert_eq!(read("c.json", &text).unwrap().config.naming, expected);
    };
    check("double_underscore", Naming::DoubleUnderscore);
    check("slash", Naming::Slash);
    check("none", Naming::None);
    check("mcp_prefix", Naming::McpPrefix);
}

#[test]
fn wrong_settings_fail_the_file_and_name_its_servers_problems_too() {
    assert_snapshot!(findings(r#"{
  "mcpServers": {"s": {}},
  "naming": "colon",
  "maxNameLength": 8,
  "startup": {"waitMs": -1, "waitms": 1},
  "pageSize": 1.5,
  "http": {"maxBodyBytes": "64M", "allowedHosts": "x", "allowedOrigins": [1]},
  "inputs": [{"description": "?"}, {"id": 1, "default": []}, 3]
}"#), @r#"
    error config.json:2:23: mcpServers.s: Server s: command is required
    error config.json:3:13: naming: expected "double_underscore", "slash", "none" or "mcp_prefix", found "colon"
    error config.json:4:20: maxNameLength: expected a whole number from 16 to 128
    error config.json:5:25: startup.waitMs: expected a whole number from 0 to 86400000
    error config.json:6:15: pageSize: expected a whole number of at least 1
    error config.json:7:28: http.maxBodyBytes: expected a whole number of at least 1
    error config.json:7:51: http.allowedHosts: expected an array, found a string
    error config.json:7:75: http.allowedOrigins[0]: expected a string, found a number
    error config.json:8:14: inputs[0]: an input needs an `id`
    error config.json:8:43: inputs[1].id: expected a string, found a number
    error config.json:8:57: inputs[1].default: expected a string, found an array
    error config.json:8:62: inputs[2]: expected an object, found a number
    "#);
}

#[test]
fn unknown_keys_are_warned_about_with_their_path() {
    assert_snapshot!(findings(r#"{
  "mcpServers": {"s": {"command": "x", "Disabled_tools": [], "dev": {}, "colour": 1, "alwaysAllow": []}},
  "// note": "mine", "_comment": "mine",
  "nameing": "slash",
  "discovery": {},
  "http": {"cors": {}, "alowedHosts": []},
  "startup": {"odd key": 1}
}"#), @r#"
    warning config.json:2:40: mcpServers.s.Disabled_tools: unknown key (did you mean `disabledTools`?)
    warning config.json:2:62: mcpServers.s.dev: not supported by this version, and ignored
    warning config.json:2:73: mcpServers.s.colour: unknown key
    warning config.json:4:3: nameing: unknown key (did you mean `naming`?)
    warning config.json:5:3: discovery: not supported by this version, and ignored
    warning config.json:6:12: http.cors: not supported by this version, and ignored
    warning config.json:6:24: http.alowedHosts: unknown key (did you mean `allowedHosts`?)
    warning config.json:7:15: startup["odd key"]: unknown key
    "#);
}

/// Document 002 has neither `preset` nor `ownTools`. Its files get its behaviour by default.
#[test]
fn y9_002s_files_have_its_behaviour_where_they_are_silent() {
    let source = ConfigSource {
        syntax: Syntax::Json,
        path: Path::new(""),
        is_of_clients: true,
    };
    let read = |text: &str| parse(text, &source, &ConfigWorld::usual()).unwrap().config;
    let silent = read(r#"{"servers": {"_x": {"transport": "stdio", "command": "x"}}}"#);
    assert_eq!(silent.servers[0].policy, Preset::Bounded.policy());
    assert_eq!(silent.servers[0].name.as_str(), "_x");
    assert_eq!(
        silent.profiles[0].own_tools,
        [OwnToolGroup::External, OwnToolGroup::Records]
    );
    let stated = read(
        r#"{"preset": "persistent", "ownTools": [], "servers": {
            "a": {"transport": "stdio", "command": "x"},
            "b": {"transport": "stdio", "command": "x", "preset": "manual"}}}"#,
    );
    assert_eq!(stated.servers[0].policy, Preset::Persistent.policy());
    assert_eq!(stated.servers[1].policy, Preset::Manual.policy());
    assert_eq!(stated.profiles[0].own_tools, []);
    // An entry outside of the file is read as if it were in it.
    let entry = serde_json::from_str(r#"{"command": "x"}"#).unwrap();
    let name = ServerName::new("late").unwrap();
    let text = r#"{"servers": {}}"#;
    let late = parse_entry(
        name,
        &entry,
        text,
        &source,
        &ConfigWorld::usual(),
        References::Replaced,
    );
    assert_eq!(late.unwrap().config.policy, Preset::Bounded.policy());
}

#[test]
fn a13_002s_files_must_say_their_transport() {
    let source = ConfigSource {
        syntax: Syntax::Json,
        path: Path::new(""),
        is_of_clients: true,
    };
    let text =
        r#"{"servers": {"a": {"command": "x"}, "b": {"transport": "sse", "url": "http://h"}}}"#;
    let config = parse(text, &source, &ConfigWorld::usual()).unwrap().config;
    let problems: Vec<_> = config
        .problems()
        .map(|(name, problem)| format!("{name}: {problem}"))
        .collect();
    assert_snapshot!(problems.join("\n"), @"a: servers.a: Server a: transport is required");
}

#[test]
fn errors_of_a_file_print_a_line_each() {
    let errors = parse(
        r#"{"naming": 1}"#,
        &ConfigSource::file(Path::new("c.json")),
        &ConfigWorld::default(),
    )
    .unwrap_err();
    assert_snapshot!(errors, @r#"
    Missing mcpServers field (servers stand in {"mcpServers": {NAME: {…}}})
    naming: expected "double_underscore", "slash", "none" or "mcp_prefix", found a number
    "#);
}
