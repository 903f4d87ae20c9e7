//! Tests of references in texts (A32, A37).

use insta::assert_snapshot;
use mainstay_core::{config::Launch, redact::Secrets};

use crate::world::{entry_findings, findings, http, read, server, stdio};

/// Checks the expanded text of an argument.
fn check(text: &str, expected: &str) {
    let launch = stdio(&format!(
        r#"{{"command": "x", "args": ["{text}"], "env": {{"OWN": "own", "TOKEN": "own ${{TOKEN}}"}},
            "inputParams": {{"P": "param", "OWN2": 2, "d": {{"default": "described"}}, "TOKEN2": "a"}}}}"#
    ));
    assert_eq!(launch.args, [expected], "{text}");
}

#[test]
fn a37_every_form() {
    check("plain", "plain");
    check("${PATH}", "/usr/bin");
    check("a${PATH}b${PATH}", "a/usr/binb/usr/bin");
    check("${env:PATH}", "/usr/bin");
    check("${NONE:-default}", "default");
    check("${NONE:-}", "");
    check("${EMPTY:-default}", "default");
    check("${EMPTY}", "");
    check("${env:NONE:-http://h:80}", "http://h:80");
    check("${PATH:-default}", "/usr/bin");
    check("${file:token.txt}", "from file");
    check("${file:crlf.txt}", "from file");
    check("${file:two.txt}", "a\n");
    check("${file:/etc/mainstay/token.txt}", "from file");
    check("${file:~/token.txt}", "at home");
    check("${file:none.txt:-default}", "default");
    check("${input:api-key}", "asked");
    check("${input:none:-default}", "default");
    check("a${keyring:github}b", "ak3pt-secretb");
    check("${keyring:empty}", "");
    check("${keyring:empty:-default}", "default");
    check("${keyring:none:-default}", "default");
}

#[test]
fn a_dollar_alone_is_a_dollar() {
    check("$$${PATH}", "$${PATH}");
    check("$${PATH}", "${PATH}");
    check("$PATH $ $$ {PATH} }", "$PATH $ $$ {PATH} }");
}

#[test]
fn a32_input_params_then_env_then_the_process() {
    check("${P}", "param");
    check("${OWN2}", "2");
    check("${d}", "described");
    check("${OWN}", "own");
    check("${TOKEN}", "own t0ken");
    check("${env:TOKEN}", "own t0ken");
    check("${TOKEN2}", "a");
    check("${input:P}", "param");
}

#[test]
fn a32_an_expansion_is_not_expanded_again() {
    check("${SNEAKY}", "${TOKEN}");
}

#[test]
fn env_sees_what_stands_above_it() {
    let launch = stdio(r#"{"command": "x", "env": {"PATH": "/opt:${PATH}", "COPY": "${PATH}"}}"#);
    assert_eq!(launch.env["PATH"].expose(), "/opt:/usr/bin");
    assert_eq!(launch.env["COPY"].expose(), "/opt:/usr/bin");
}

#[test]
fn every_place_that_is_expanded() {
    let launch = stdio(r#"{"command": "${PATH}/x", "cwd": "${PATH}", "env": {"A": "${TOKEN}"}}"#);
    assert_eq!(launch.command, "/usr/bin/x");
    assert_eq!(launch.cwd.unwrap().to_str(), Some("/usr/bin"));
    assert_eq!(launch.env["A"].expose(), "t0ken");

    let launch = http(
        r#"{"url": "http://h/${TOKEN}", "headers": {"x": "${K}"}, "bearerToken": "${TOKEN}", "env": {"K": "v"}}"#,
    );
    assert_eq!(launch.url, "http://h/t0ken");
    let values: Vec<_> = launch
        .headers
        .iter()
        .map(|(_, value)| value.expose())
        .collect();
    assert_eq!(values, ["v", "Bearer t0ken"]);
}

/// A secret of the vault is hidden at every place where it occurs, and counts as a file that is
/// read.
#[test]
fn secrets_of_the_vault_are_remembered_as_such() {
    let entry = r#"{"command": "x", "args": ["${keyring:github}", "-c", "run ${keyring:github}"]}"#;
    let server = server(entry);
    assert!(server.reads_files);
    let secrets = Secrets::from_config(&server).expect("secrets");
    assert_eq!(secrets.hide("got k3pt-secret"), "got [redacted]");
    assert!(!format!("{server:?}").contains("k3pt"), "{server:?}");
}

#[test]
fn vs_codes_inputs_have_defaults() {
    let text = r#"{
        "inputs": [
            {"id": "key", "type": "promptString", "description": "?", "password": true, "default": "the default"},
            {"id": "api-key", "type": "promptString"}
        ],
        "servers": {
            "a": {"command": "x", "args": ["${input:key}", "${input:api-key}"]},
            "b": {"command": "x", "args": ["${input:key}"], "inputParams": {"key": "given"}},
            "c": {"command": "x", "args": ["${input:other}"]}
        }
    }"#;
    let config = read("mcp.json", text).unwrap().config;
    let args = |index: usize| match &config.servers[index].launch {
        Launch::Stdio(launch) => launch.args.join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!(args(0), "the default asked");
    assert_eq!(args(1), "given");
    assert_snapshot!(findings(text), @r#"problem config.json:9:44: servers.c.args[0]: input "other" has no value (give it in the server's `inputParams`, or as variable INPUT_OTHER)"#);
}

#[test]
fn what_cannot_be_resolved_breaks_the_server_and_says_where() {
    let findings_of =
        |text: &str| entry_findings(&format!(r#"{{"command": "x", "args": ["-y", "{text}"]}}"#));
    assert_snapshot!(findings_of("${NOPE}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: variable "NOPE" is not set (set it, or give a default: ${NOPE:-…})"#);
    assert_snapshot!(findings_of("${env:NOPE}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: variable "NOPE" is not set (set it, or give a default: ${NOPE:-…})"#);
    assert_snapshot!(findings_of("${file:nope.txt}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: cannot read "/etc/mainstay/nope.txt": there is no such file (create it, or give a default: ${file:…:-…})"#);
    assert_snapshot!(findings_of("${keyring:nope}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: cannot read secret "nope": there is no such secret (set it: mainstay secret set nope, or give a default: ${keyring:nope:-…})"#);
    assert_snapshot!(findings_of("${keyring:sealed:-x}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: cannot read secret "sealed": the key of the vault is gone from the system's keyring (see mainstay doctor)"#);
    assert_snapshot!(findings_of("${keyring:a b}"), @r#"problem config.json:2:33: mcpServers.s.args[1]: no secret can be named "a b" (a name has 1 to 128 letters, digits, '-', '_', '.', '/' and '@', and begins with none of '-', '.' and '/')"#);
    assert_snapshot!(findings_of("${vault:x}"), @"problem config.json:2:33: mcpServers.s.args[1]: unknown kind of reference ${vault:…} (known are env, input, file and keyring; $${ stands for a literal ${)");
    assert_snapshot!(findings_of("${}"), @"problem config.json:2:33: mcpServers.s.args[1]: a reference without a name ($${ stands for a literal ${)");
    assert_snapshot!(findings_of("${env:}"), @"problem config.json:2:33: mcpServers.s.args[1]: a reference without a name ($${ stands for a literal ${)");
    assert_snapshot!(findings_of("${PATH"), @r#"problem config.json:2:33: mcpServers.s.args[1]: "${" without a closing "}" ($${ stands for a literal ${)"#);
    assert_snapshot!(findings_of("${NONE:-${PATH}}"), @"problem config.json:2:33: mcpServers.s.args[1]: references cannot be nested");
    assert_snapshot!(findings_of("a\\u0000b"), @"problem config.json:2:33: mcpServers.s.args[1]: the text contains a NUL character");
    assert_snapshot!(entry_findings(r#"{"url": "http://${HOST}/", "headers": {"x": "${KEY}"}, "bearerToken": "${T}"}"#), @r#"
    problem config.json:2:9: mcpServers.s.url: variable "HOST" is not set (set it, or give a default: ${HOST:-…})
    problem config.json:2:45: mcpServers.s.headers.x: variable "KEY" is not set (set it, or give a default: ${KEY:-…})
    problem config.json:2:71: mcpServers.s.bearerToken: variable "T" is not set (set it, or give a default: ${T:-…})
    "#);
}
