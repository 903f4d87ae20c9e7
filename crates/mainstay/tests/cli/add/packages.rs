//! Packages of the MCP registry: search, preview, trial and saving.

use std::{fs, path::Path};

use insta::assert_snapshot;
use mainstay_testkit::{Run, home, limits::PROGRAMS, until, within};
use serde_json::{Value, json};

use super::{
    fake_registry::{FakeAnswer, FakeRegistry, path_of},
    install_stand_in, npm_package, recorded_arguments, saved_config,
};
use crate::terminal::Terminal;

#[tokio::test]
async fn a_package_is_shown_tried_and_saved() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    install_stand_in(&home, "npx", "exec FAKE");
    registry.publish(
        "io.github.a/thing",
        &npm_package(&json!({
            "packageArguments": [{"type": "named", "name": "--mode", "choices": ["fast", "safe"], "default": "safe"}],
            "environmentVariables": [
                {"name": "API_KEY", "description": "Where to get it: example.com", "isRequired": true, "isSecret": true},
                {"name": "REGION", "isRequired": true},
            ],
        })),
    );
    let transcript = registry
        .transcript(
            &home,
            &[
                &["add", "io.github.a/thing"],
                &["add", "io.github.a/thing", "--set", "mode=slow"],
                &["add", "io.github.a/thing", "--set", "mood=slow"],
                &[
                    "add",
                    "io.github.a/thing",
                    "-e",
                    "API_KEY=s3cret",
                    "--set",
                    "REGION=eu",
                    "-e",
                    "MORE=1",
                ],
                &[
                    "add",
                    "io.github.a/thing",
                    "-e",
                    "API_KEY=s3cret",
                    "--set",
                    "REGION=eu",
                ],
                &["add", "other", "io.github.a/nothing"],
                &["add", "other", "io.github.a/thing@9.9.9"],
                &["add", "other", "io.github.a/thing", "--package", "oci"],
                &["add", "thing"],
                &["add", "https://example.com/mcp"],
            ],
        )
        .await;
    assert!(
        !transcript.replace("API_KEY=s3cret", "").contains("s3cret"),
        "{transcript}"
    );
    assert_snapshot!(transcript);
    assert_eq!(
        recorded_arguments(&home, "npx"),
        ["npx", "-y", "thing@1.2.3", "--mode", "safe"]
    );
    assert_eq!(
        saved_config(&home),
        Some(
            json!({"$schema": "./mainstay.schema.json", "mcpServers": {"thing": {
                "command": "npx",
                "args": ["-y", "@a/thing@1.2.3", "--mode", "safe"],
                "env": {"API_KEY": "s3cret", "REGION": "eu", "MORE": "1"},
            }}})
        )
    );
}

#[tokio::test]
async fn a_daemon_takes_a_package_and_a_remote() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    install_stand_in(&home, "uvx", "exec FAKE");
    let other_home = home!();
    let remote = other_home.serve(&["--demo"]).await;
    let python = json!({"registryType": "pypi", "identifier": "thing", "version": "2.0", "transport": {"type": "stdio"}});
    registry.publish("io.github.a/thing", &json!({"packages": [python]}));
    registry.publish(
        "com.example/far",
        &json!({"remotes": [{"type": "streamable-http", "url": format!("{}/{{path}}", remote.url), "variables": {"path": {"isRequired": true}}}]}),
    );
    let config = home.file("servers.json", "{\"mcpServers\": {}}\n");
    let daemon = home.serve(&["--config", &config]).await;
    // The entry in the daemon has the path of the replacement program.
    let program = home.path().join("bin/uvx");
    let run = registry
        .run(&home, &["add", "--ephemeral", "io.github.a/thing"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(recorded_arguments(&home, "uvx"), ["uvx", "thing@2.0"]);
    let run = registry
        .run(
            &home,
            &["add", "--json", "com.example/far", "--set", "path=mcp"],
        )
        .await;
    assert_eq!(run.json()["status"], "connected", "{run}");
    let run = registry
        .run(
            &home,
            &["add", "by-path", "--", program.to_str().expect("UTF-8")],
        )
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    let listed_output = home.run(&["list", "--json"]).await.json();
    let names: Vec<_> = listed_output["servers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|server| &server["name"])
        .collect();
    assert_eq!(
        names,
        ["far", "by-path", "thing"].map(Value::from).each_ref()
    );
    daemon.stop().await;
    remote.stop().await;
    let text = fs::read_to_string(config).expect("there");
    assert!(
        text.contains("by-path") && text.contains("far") && !text.contains("\"thing\""),
        "{text}"
    );
}

/// A server that fails to start is not saved. The command prints the reason and leaves no file.
#[tokio::test]
async fn a_server_that_fails_to_start_is_not_saved() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    install_stand_in(
        &home,
        "npx",
        "echo 'npm error: no such package' >&2\nexit 7",
    );
    registry.publish("io.github.a/thing", &npm_package(&json!({})));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    for text in [
        "thing was not added",
        "npm error: no such package",
        "--no-check",
        "code 7",
    ] {
        assert!(run.stderr.contains(text), "{text}: {run}");
    }
    assert_eq!(saved_config(&home), None);
    let run = registry
        .run(&home, &["add", "io.github.a/thing", "--json"])
        .await;
    let error: Value =
        serde_json::from_str(run.stderr.lines().last().expect("an error")).expect("JSON");
    assert_eq!(error["error"], "not_started", "{run}");
    assert_eq!(
        error["stderr"],
        json!(["npm error: no such package"]),
        "{run}"
    );
    let run = registry
        .run(&home, &["add", "io.github.a/thing", "--no-check"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(saved_config(&home).is_some());
}

/// The trial waits for a download that takes longer than the default start timeout.
#[tokio::test]
async fn a_slow_start_is_waited_for_and_told() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let slow_text = "echo 'downloading thing' >&2\nsleep 6\nexec FAKE";
    install_stand_in(&home, "npx", slow_text);
    registry.publish("io.github.a/thing", &npm_package(&json!({})));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains(": downloading thing ("), "{run}");
    assert!(saved_config(&home).is_some());
}

/// True if the process exists whose id is in this file.
fn is_process_alive(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap_or_default();
    Path::new("/proc").join(pid.trim()).join("stat").exists() && !pid.trim().is_empty()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_trial_leaves_no_process() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    registry.publish("io.github.a/thing", &npm_package(&json!({})));
    let pid = home.path().join("child.pid");
    let child = format!("sleep 86400 & echo $! > '{}'", pid.display());
    install_stand_in(&home, "npx", &format!("{child}\nexec FAKE"));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        pid.exists() && !is_process_alive(&pid),
        "its child has outlived the trial"
    );
    // Interrupt a long start.
    fs::remove_file(&pid).expect("removed");
    install_stand_in(&home, "npx", &format!("{child}\nexec sleep 86400"));
    let mut command = registry.command(&home, &["add", "--replace", "io.github.a/thing"]);
    let mut add_process = command.spawn().expect("it starts");
    until(PROGRAMS, "the start", || is_process_alive(&pid)).await;
    within(add_process.kill()).await.expect("killed");
    until(PROGRAMS, "the end of what it started", || {
        !is_process_alive(&pid)
    })
    .await;
}

#[tokio::test]
async fn hostile_registries_are_refused() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    install_stand_in(&home, "npx", "exec FAKE");
    let huge_answer =
        json!({"server": {"name": "a.b/huge", "description": "x".repeat(5 * 1024 * 1024)}});
    let full_text = json!({"server": {"name": "a.b/cut", "version": "1"}}).to_string();
    let cut_text = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
        full_text.len(),
        &full_text[..20]
    );
    let latest_path = |name: &str| path_of(name, "latest");
    let cases = [
        (
            "a.b/huge",
            FakeAnswer::json(&huge_answer),
            "more than 4194304 bytes",
        ),
        (
            "a.b/endless",
            FakeAnswer::Endless,
            "more than 4194304 bytes",
        ),
        (
            "a.b/cut",
            FakeAnswer::Raw(cut_text.into_bytes()),
            "broke off",
        ),
        (
            "a.b/html",
            FakeAnswer::with_body("200 OK", "text/html", b"<html>Sign in</html>"),
            "cannot be understood",
        ),
        (
            "a.b/error",
            FakeAnswer::with_body("500 Oops", "text/html", b"<html>\x1b[2J</html>"),
            "answered 500",
        ),
        (
            "a.b/types",
            FakeAnswer::json(&json!({"server": {"name": ["x"]}})),
            "cannot be understood",
        ),
        (
            "a.b/other",
            FakeAnswer::json(&json!({"server": {"name": "a.b/else"}})),
            "which was not asked for",
        ),
        (
            "a.b/empty",
            FakeAnswer::json(&json!({"server": {"name": "a.b/empty"}})),
            "neither a package nor a URL",
        ),
        (
            "a.b/file",
            FakeAnswer::redirect("file:///etc/passwd"),
            "is not followed",
        ),
        (
            "a.b/loop",
            FakeAnswer::redirect(&latest_path("a.b/loop")),
            "redirects more than 5 times",
        ),
        (
            "a.b/bytes",
            FakeAnswer::with_body("200 OK", "application/json", b"\xff\xfe"),
            "not UTF-8",
        ),
        (
            "a.b/noise",
            FakeAnswer::Raw(b"\x16\x03\x01 no HTTP\r\n\r\n".to_vec()),
            "not an HTTP/1.1 response",
        ),
    ];
    for (name, answer, error) in cases {
        registry.answer(&latest_path(name), answer);
        let run = registry.run(&home, &["add", name]).await;
        assert!(run.stderr.contains(error), "{error}: {run}");
        assert!(matches!(run.code, Some(1 | 6)), "{run}");
    }
    for (name, server, error) in [
        (
            "a.b/option",
            npm_package(&json!({"identifier": "--eval=x"})),
            "cannot be one of npm",
        ),
        (
            "a.b/shell",
            npm_package(&json!({"identifier": "x;touch pwned"})),
            "cannot be one of npm",
        ),
        (
            "a.b/range",
            npm_package(&json!({"version": "^1"})),
            "is no version",
        ),
        (
            "a.b/listens",
            npm_package(&json!({"transport": {"type": "sse", "url": "http://x"}})),
            "start it yourself",
        ),
        (
            "a.b/scheme",
            json!({"remotes": [{"type": "sse", "url": "file:///etc/passwd"}]}),
            "does not begin with https://",
        ),
        (
            "a.b/docker",
            json!({"packages": [{"registryType": "oci", "identifier": "a/b:1", "runtimeHint": "podman"}]}),
            "is not installed",
        ),
    ] {
        registry.publish(name, &server);
        let run = registry.run(&home, &["add", name]).await;
        // A container program may be installed on this machine.
        if error == "is not installed" && !run.stderr.contains(error) {
            continue;
        }
        assert!(run.stderr.contains(error), "{error}: {run}");
        assert_eq!(run.code, Some(1), "{run}");
    }
    registry.publish_as("a.b/gone", &npm_package(&json!({})), "deleted");
    let run = registry.run(&home, &["add", "a.b/gone"]).await;
    assert!(
        run.stderr.contains("was deleted") && run.code == Some(1),
        "{run}"
    );
    assert_eq!(saved_config(&home), None);
    registry.publish_as("a.b/old", &npm_package(&json!({})), "deprecated");
    let run = registry.run(&home, &["add", "a.b/old"]).await;
    assert!(
        run.stderr.contains("a.b/old is deprecated") && run.code == Some(0),
        "{run}"
    );
    // Shell syntax stays in one argument, and references in texts of the registry are not expanded.
    let text = "$(touch pwned) ${HOME} ${file:/etc/passwd}";
    let argument = json!({"packageArguments": [{"type": "positional", "value": text}]});
    registry.publish("a.b/words", &npm_package(&argument));
    let run = registry.run(&home, &["add", "a.b/words"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        recorded_arguments(&home, "npx").last().map(String::as_str),
        Some("passwd}")
    );
    let script = fs::read_to_string(home.path().join("npx.words")).expect("there");
    assert!(!script.contains("root:"), "{script}");
    assert!(!home.path().join("pwned").exists());
}

/// A request to a registry that does not answer times out. A registry that cannot be reached fails
/// at once.
#[tokio::test]
async fn nobody_waits_for_a_slow_registry() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    registry.answer(
        &path_of("a.b/slow", "latest"),
        FakeAnswer::Slow(b"HTTP/1.1 200 OK\r\n".to_vec()),
    );
    let run = registry.run(&home, &["add", "a.b/slow"]).await;
    assert_eq!(run.code, Some(5), "{run}");
    assert!(run.stderr.contains("did not answer within 10 s"), "{run}");
    let closed_home = home!();
    let mut command = closed_home.command(&["search", "x", "--registry", "http://127.0.0.1:1"]);
    let run = Run::new(
        &["search"],
        &within(command.output()).await.expect("it starts"),
    );
    assert_eq!(run.code, Some(6), "{run}");
    let mut command = closed_home.command(&["add", "a.b/c", "--registry", "http://127.0.0.1:1"]);
    let run = Run::new(
        &["add"],
        &within(command.output()).await.expect("it starts"),
    );
    assert_eq!(run.code, Some(6), "{run}");
}

#[tokio::test]
async fn servers_are_found() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let hostile = "Reads \u{1b}[2Jyour \u{202e}files\u{7}";
    let servers = json!([
        {"server": {"name": "io.github.a/files", "description": "Files and folders", "version": "1.0.0",
            "packages": [{"registryType": "npm", "identifier": "files", "version": "1.0.0", "transport": {"type": "stdio"}}]}},
        {"server": {"name": "com.example/files", "description": hostile, "version": "2\u{9b}31m",
            "remotes": [{"type": "streamable-http", "url": "https://example.com/mcp"}]},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated"}}},
        {"server": {"name": "io.github.b/none", "description": "", "version": "1"}},
        {"server": {"name": 7}},
        {"server": {"name": "io.github.c/gone", "version": "1"},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}},
    ]);
    let page = json!({"servers": servers, "metadata": {"nextCursor": "c/1 é", "count": 5}});
    registry.answer(
        "/v0.1/servers?search=files&version=latest&limit=20",
        FakeAnswer::json(&page),
    );
    let last_page = json!({"servers": [], "metadata": {}});
    registry.answer(
        "/v0.1/servers?search=files&version=latest&limit=20&cursor=c%2F1%20%C3%A9",
        FakeAnswer::json(&last_page),
    );
    registry.answer(
        "/v0.1/servers?search=html&version=latest&limit=20",
        FakeAnswer::with_body("200 OK", "text/html", b"<html>"),
    );
    let many: Vec<_> = (0..5000)
        .map(|name| json!({"server": {"name": format!("a.b/{name}")}}))
        .collect();
    registry.answer(
        "/v0.1/servers?search=many&version=latest&limit=2",
        FakeAnswer::json(&json!({"servers": many})),
    );
    registry.answer(
        "/v0.1/servers?search=endless&version=latest&limit=20",
        FakeAnswer::Endless,
    );
    let transcript = registry
        .transcript(
            &home,
            &[
                &["search", "files"],
                &["search", "files", "--json"],
                &["search", "files", "-o", "name"],
                &["search", "files", "--format", "{name} {version} {nothing}"],
                &["search", "files", "--format", "{name}@{version}"],
                &["search", "files", "--cursor", "c/1 é"],
                &["search", "many", "--limit", "2"],
                &["search", "html"],
                &["search", "endless"],
                &["search", "x", "--limit", "1000"],
                &["search", "x", "--registry", "ftp://example.com"],
            ],
        )
        .await;
    assert_snapshot!(transcript);
    // `registryUrl` of the configuration sets the registry.
    fs::create_dir_all(home.state()).expect("a folder");
    let config = json!({"mcpServers": {}, "registryUrl": registry.url});
    fs::write(home.state().join("config.json"), config.to_string()).expect("written");
    let run = home.run(&["search", "files"]).await;
    assert!(run.stdout.contains("io.github.a/files"), "{run}");
    assert!(registry.requested_paths.lock().expect("whole").len() >= 7);
}

/// `search` shows the reason why `add` would refuse a server.
#[tokio::test]
async fn search_marks_servers_that_cannot_run_here() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let server = json!({"server": {"name": "a.b/c", "description": "Does things", "version": "1.0.0", "packages": [
        {"registryType": "nuget", "identifier": "C", "version": "1.0.0", "transport": {"type": "stdio"}},
    ]}});
    registry.answer(
        "/v0.1/servers?search=c&version=latest&limit=20",
        FakeAnswer::json(&json!({"servers": [server], "metadata": {}})),
    );
    let run = registry.run(&home, &["search", "c"]).await;
    assert!(run.stdout.contains("dnx is not installed"), "{run}");
    install_stand_in(&home, "dnx", "exec FAKE");
    let run = registry.run(&home, &["search", "c"]).await;
    assert!(run.stdout.contains("dnx C@1.0.0"), "{run}");
}

#[tokio::test]
async fn an_entry_that_takes_anothers_place_is_said_to() {
    let home = home!();
    let add = async |more: &[&str]| home.run(&[&["add", "--no-check"], more].concat()).await;
    let config = home.state().join("config.json");
    let first = add(&["a", "--", "true"]).await;
    assert_eq!(
        first.stdout,
        format!("a was added to {}\n", config.display()),
        "{first}"
    );
    let second_run = add(&["--replace", "a", "--", "false"]).await;
    assert_eq!(
        second_run.stdout,
        format!("a was replaced in {}\n", config.display()),
        "{second_run}"
    );
    let third_run = add(&["--replace", "b", "--", "true"]).await;
    assert_eq!(
        third_run.stdout,
        format!("b was added to {}\n", config.display()),
        "{third_run}"
    );
}

/// On a terminal, `add` asks for missing values, without echo for secrets.
#[tokio::test]
async fn a_person_is_asked() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    install_stand_in(&home, "npx", "exec FAKE");
    registry.publish(
        "io.github.a/thing",
        &npm_package(&json!({"environmentVariables": [
            {"name": "API_KEY", "isRequired": true, "isSecret": true},
            {"name": "MODE", "isRequired": true, "choices": ["fast", "safe"]},
        ]})),
    );
    let mut terminal = Terminal::open();
    let mut add_process = terminal.start(registry.command(&home, &["add", "io.github.a/thing"]));
    terminal.until("API_KEY:").await;
    terminal.types("s3cret\n");
    terminal.until("MODE:").await;
    terminal.types("slow\n");
    terminal.until("must be one of: fast, safe").await;
    terminal.types("safe\n");
    terminal.until("start it? [y/N]").await;
    assert_eq!(saved_config(&home), None);
    terminal.types("y\n");
    let status = within(add_process.wait()).await.expect("it ends");
    let screen = String::from_utf8(terminal.end().await).expect("UTF-8");
    assert!(status.success(), "{screen}");
    assert!(!screen.contains("s3cret"), "{screen}");
    let entry = &saved_config(&home).expect("saved")["mcpServers"]["thing"];
    assert_eq!(entry["env"], json!({"API_KEY": "s3cret", "MODE": "safe"}));
    // Without consent no process is started.
    let mut terminal = Terminal::open();
    fs::remove_file(home.path().join("npx.words")).expect("it was run");
    let mut add_process = terminal.start(registry.command(
        &home,
        &[
            "add",
            "--replace",
            "--set",
            "MODE=safe",
            "--set",
            "API_KEY=x",
            "io.github.a/thing",
        ],
    ));
    terminal.until("start it? [y/N]").await;
    terminal.types("n\n");
    assert_eq!(
        within(add_process.wait()).await.expect("it ends").code(),
        Some(1)
    );
    terminal.end().await;
    assert!(!home.path().join("npx.words").exists());
}
