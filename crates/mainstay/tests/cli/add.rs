//! `mainstay add` of servers from a registry and from bundles, and `mainstay search`. The registry is a
//! small one of the test's own that speaks the API of the official one.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, Mutex},
};

use insta::assert_snapshot;
use mainstay_testkit::{
    Home, Run, home,
    limits::PROGRAMS,
    until, within,
    zip::{ZipEntry, ZipFile},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::terminal::Terminal;

/// What a path is answered with.
#[derive(Clone)]
pub enum Answer {
    /// The whole answer, head and body.
    Raw(Vec<u8>),
    /// The beginning of one that does not go on.
    Slow(Vec<u8>),
    /// A body without an end.
    Endless,
}

impl Answer {
    pub fn json(value: &Value) -> Self {
        Self::of("200 OK", "application/json", value.to_string().as_bytes())
    }

    fn of(status: &str, kind: &str, body: &[u8]) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        Self::Raw([head.as_bytes(), body].concat())
    }

    fn redirect(to: &str) -> Self {
        Self::Raw(
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into_bytes(),
        )
    }
}

/// A registry of the test's own.
pub struct Registry {
    pub url: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Registry {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answers = Arc::<Mutex<HashMap<String, Answer>>>::default();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let serving = tokio::spawn({
            let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
            async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                    tokio::spawn(async move {
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            match stream.read_u8().await {
                                Ok(byte) => head.push(byte),
                                Err(_) => return,
                            }
                        }
                        let head = String::from_utf8(head).expect("UTF-8");
                        let path = head.split(' ').nth(1).expect("a path").to_owned();
                        let answer = answers.lock().expect("whole").get(&path).cloned();
                        asked.lock().expect("whole").push(path);
                        let missing = Answer::of(
                            "404 Not Found",
                            "application/json",
                            br#"{"error": "Server not found"}"#,
                        );
                        // A client that has seen enough goes away.
                        match answer.unwrap_or(missing) {
                            Answer::Raw(bytes) => drop(stream.write_all(&bytes).await),
                            Answer::Slow(bytes) => {
                                drop(stream.write_all(&bytes).await);
                                drop(stream.read_u8().await);
                            }
                            Answer::Endless => {
                                let head =
                                    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"servers\": [";
                                drop(stream.write_all(head).await);
                                let blanks = vec![b' '; 65536];
                                while stream.write_all(&blanks).await.is_ok() {}
                            }
                        }
                    });
                }
            }
        });
        Self {
            url,
            answers,
            asked,
            serving,
        }
    }

    pub fn answer(&self, path: &str, answer: Answer) {
        self.answers
            .lock()
            .expect("whole")
            .insert(path.to_owned(), answer);
    }

    /// Publishes a server as its latest version.
    fn publish(&self, name: &str, server: &Value) {
        self.publish_as(name, server, "active");
    }

    fn publish_as(&self, name: &str, server: &Value, status: &str) {
        let mut whole = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": name, "description": "Does things", "version": "1.2.3",
        });
        for (key, value) in server.as_object().expect("an object") {
            whole[key] = value.clone();
        }
        let answer = json!({"server": whole, "_meta": {"io.modelcontextprotocol.registry/official":
            {"status": status, "publishedAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "isLatest": true}}});
        self.answer(&path_of(name, "latest"), Answer::json(&answer));
    }

    async fn run(&self, home: &Home, arguments: &[&str]) -> Run {
        let output = within(self.command(home, arguments).output())
            .await
            .expect("it starts");
        Run::new(arguments, &output)
    }

    fn command(&self, home: &Home, arguments: &[&str]) -> tokio::process::Command {
        let mut command = home.command(arguments);
        let path = std::env::var("PATH").expect("a PATH");
        command.env("MAINSTAY_REGISTRY", &self.url).env(
            "PATH",
            format!("{}:{path}", home.path().join("bin").display()),
        );
        command
    }

    async fn transcript(&self, home: &Home, commands: &[&[&str]]) -> String {
        let mut transcript = String::new();
        for arguments in commands {
            let run = self.run(home, arguments).await;
            transcript.extend([run.to_string(), "\n".to_owned()]);
        }
        self.redacted(home, &transcript)
    }

    fn redacted(&self, home: &Home, text: &str) -> String {
        let text = text.replace(&self.url, "[REGISTRY]");
        let text = home.redacted(&text);
        // The fake learns more tools with time.
        let lines = text.lines().map(|line| match line.split_once(" tools: ") {
            Some((before, _)) => format!(
                "{} tools: [TOOLS]",
                before.trim_end_matches(|c: char| c.is_ascii_digit())
            ),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn path_of(name: &str, version: &str) -> String {
    format!(
        "/v0.1/servers/{}/versions/{version}",
        name.replace('/', "%2F")
    )
}

/// A stand-in for a program that runs packages: notes its words and becomes a fake server.
fn stand_in(home: &Home, name: &str, script: &str) {
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let program = bin.join(name);
    let fake = fake_server::binary();
    let text = format!(
        "#!/bin/sh\nfor word in \"$0\" \"$@\"; do printf '%s\\n' \"${{word##*/}}\"; done > '{}'\n{}\n",
        home.path().join(format!("{name}.words")).display(),
        script.replace("FAKE", fake.to_str().expect("UTF-8")),
    );
    fs::write(&program, text).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn words(home: &Home, name: &str) -> Vec<String> {
    let words = fs::read_to_string(home.path().join(format!("{name}.words"))).expect("it was run");
    words.lines().map(str::to_owned).collect()
}

/// The saved configuration, if anything was saved.
fn saved(home: &Home) -> Option<Value> {
    let text = fs::read_to_string(home.state().join("config.json")).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn npm(more: &Value) -> Value {
    let mut package = json!({"registryType": "npm", "identifier": "@a/thing", "version": "1.2.3", "transport": {"type": "stdio"}});
    for (key, value) in more.as_object().expect("an object") {
        package[key] = value.clone();
    }
    json!({"packages": [package]})
}

#[tokio::test]
async fn a_package_is_shown_tried_and_saved() {
    let (home, registry) = (home!(), Registry::start().await);
    stand_in(&home, "npx", "exec FAKE");
    registry.publish(
        "io.github.a/thing",
        &npm(&json!({
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
        words(&home, "npx"),
        ["npx", "-y", "thing@1.2.3", "--mode", "safe"]
    );
    assert_eq!(
        saved(&home),
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
    let (home, registry) = (home!(), Registry::start().await);
    stand_in(&home, "uvx", "exec FAKE");
    let other = home!();
    let remote = other.serve(&["--demo"]).await;
    let python = json!({"registryType": "pypi", "identifier": "thing", "version": "2.0", "transport": {"type": "stdio"}});
    registry.publish("io.github.a/thing", &json!({"packages": [python]}));
    registry.publish(
        "com.example/far",
        &json!({"remotes": [{"type": "streamable-http", "url": format!("{}/{{path}}", remote.url), "variables": {"path": {"isRequired": true}}}]}),
    );
    let config = home.file("servers.json", "{\"mcpServers\": {}}\n");
    let daemon = home.serve(&["--config", &config]).await;
    // The daemon finds the stand-in by its path.
    let program = home.path().join("bin/uvx");
    let run = registry
        .run(&home, &["add", "--ephemeral", "io.github.a/thing"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(words(&home, "uvx"), ["uvx", "thing@2.0"]);
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
    let listed = home.run(&["list", "--json"]).await.json();
    let names: Vec<_> = listed["servers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["name"])
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

/// A server that does not start is not saved, and the reason is shown; nothing of it is left.
#[tokio::test]
async fn what_does_not_start_is_not_saved() {
    let (home, registry) = (home!(), Registry::start().await);
    stand_in(
        &home,
        "npx",
        "echo 'npm error: no such package' >&2\nexit 7",
    );
    registry.publish("io.github.a/thing", &npm(&json!({})));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    for said in [
        "thing was not added",
        "npm error: no such package",
        "--no-check",
        "code 7",
    ] {
        assert!(run.stderr.contains(said), "{said}: {run}");
    }
    assert_eq!(saved(&home), None);
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
    assert!(saved(&home).is_some());
}

/// A package that is downloaded at its first start takes longer than lists wait for a server.
#[tokio::test]
async fn a_slow_start_is_waited_for_and_told() {
    let (home, registry) = (home!(), Registry::start().await);
    let slow = "echo 'downloading thing' >&2\nsleep 6\nexec FAKE";
    stand_in(&home, "npx", slow);
    registry.publish("io.github.a/thing", &npm(&json!({})));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains(": downloading thing ("), "{run}");
    assert!(saved(&home).is_some());
}

/// Whether a process is there.
fn is_there(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap_or_default();
    Path::new("/proc").join(pid.trim()).join("stat").exists() && !pid.trim().is_empty()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_trial_leaves_no_process() {
    let (home, registry) = (home!(), Registry::start().await);
    registry.publish("io.github.a/thing", &npm(&json!({})));
    let pid = home.path().join("child.pid");
    let child = format!("sleep 86400 & echo $! > '{}'", pid.display());
    stand_in(&home, "npx", &format!("{child}\nexec FAKE"));
    let run = registry.run(&home, &["add", "io.github.a/thing"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        pid.exists() && !is_there(&pid),
        "its child has outlived the trial"
    );
    // Killed in the middle of a start that takes long.
    fs::remove_file(&pid).expect("removed");
    stand_in(&home, "npx", &format!("{child}\nexec sleep 86400"));
    let mut command = registry.command(&home, &["add", "--replace", "io.github.a/thing"]);
    let mut adding = command.spawn().expect("it starts");
    until(PROGRAMS, "the start", || is_there(&pid)).await;
    within(adding.kill()).await.expect("killed");
    until(PROGRAMS, "the end of what it started", || !is_there(&pid)).await;
}

#[tokio::test]
async fn hostile_registries_are_refused() {
    let (home, registry) = (home!(), Registry::start().await);
    stand_in(&home, "npx", "exec FAKE");
    let huge = json!({"server": {"name": "a.b/huge", "description": "x".repeat(5 * 1024 * 1024)}});
    let whole = json!({"server": {"name": "a.b/cut", "version": "1"}}).to_string();
    let cut = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
        whole.len(),
        &whole[..20]
    );
    let at = |name: &str| path_of(name, "latest");
    let cases = [
        ("a.b/huge", Answer::json(&huge), "more than 4194304 bytes"),
        ("a.b/endless", Answer::Endless, "more than 4194304 bytes"),
        ("a.b/cut", Answer::Raw(cut.into_bytes()), "broke off"),
        (
            "a.b/html",
            Answer::of("200 OK", "text/html", b"<html>Sign in</html>"),
            "cannot be understood",
        ),
        (
            "a.b/error",
            Answer::of("500 Oops", "text/html", b"<html>\x1b[2J</html>"),
            "answered 500",
        ),
        (
            "a.b/types",
            Answer::json(&json!({"server": {"name": ["x"]}})),
            "cannot be understood",
        ),
        (
            "a.b/other",
            Answer::json(&json!({"server": {"name": "a.b/else"}})),
            "which was not asked for",
        ),
        (
            "a.b/empty",
            Answer::json(&json!({"server": {"name": "a.b/empty"}})),
            "neither a package nor a URL",
        ),
        (
            "a.b/file",
            Answer::redirect("file:///etc/passwd"),
            "is not followed",
        ),
        (
            "a.b/loop",
            Answer::redirect(&at("a.b/loop")),
            "redirects more than 5 times",
        ),
        (
            "a.b/bytes",
            Answer::of("200 OK", "application/json", b"\xff\xfe"),
            "not UTF-8",
        ),
        (
            "a.b/noise",
            Answer::Raw(b"\x16\x03\x01 no HTTP\r\n\r\n".to_vec()),
            "not an HTTP/1.1 response",
        ),
    ];
    for (name, answer, said) in cases {
        registry.answer(&at(name), answer);
        let run = registry.run(&home, &["add", name]).await;
        assert!(run.stderr.contains(said), "{said}: {run}");
        assert!(matches!(run.code, Some(1 | 3)), "{run}");
    }
    for (name, server, said) in [
        (
            "a.b/option",
            npm(&json!({"identifier": "--eval=x"})),
            "cannot be one of npm",
        ),
        (
            "a.b/shell",
            npm(&json!({"identifier": "x;touch pwned"})),
            "cannot be one of npm",
        ),
        ("a.b/range", npm(&json!({"version": "^1"})), "is no version"),
        (
            "a.b/listens",
            npm(&json!({"transport": {"type": "sse", "url": "http://x"}})),
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
        // A machine may have a program for containers.
        if said == "is not installed" && !run.stderr.contains(said) {
            continue;
        }
        assert!(run.stderr.contains(said), "{said}: {run}");
        assert_eq!(run.code, Some(1), "{run}");
    }
    registry.publish_as("a.b/gone", &npm(&json!({})), "deleted");
    let run = registry.run(&home, &["add", "a.b/gone"]).await;
    assert!(
        run.stderr.contains("was deleted") && run.code == Some(1),
        "{run}"
    );
    assert_eq!(saved(&home), None);
    registry.publish_as("a.b/old", &npm(&json!({})), "deprecated");
    let run = registry.run(&home, &["add", "a.b/old"]).await;
    assert!(
        run.stderr.contains("a.b/old is deprecated") && run.code == Some(0),
        "{run}"
    );
    // Words of a shell are one argument, and text of a registry names no file of this machine.
    let text = "$(touch pwned) ${HOME} ${file:/etc/passwd}";
    let argument = json!({"packageArguments": [{"type": "positional", "value": text}]});
    registry.publish("a.b/words", &npm(&argument));
    let run = registry.run(&home, &["add", "a.b/words"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        words(&home, "npx").last().map(String::as_str),
        Some("passwd}")
    );
    let script = fs::read_to_string(home.path().join("npx.words")).expect("there");
    assert!(!script.contains("root:"), "{script}");
    assert!(!home.path().join("pwned").exists());
}

/// A registry that does not answer is given up, and Ctrl-C is heard meanwhile.
#[tokio::test]
async fn nobody_waits_for_a_slow_registry() {
    let (home, registry) = (home!(), Registry::start().await);
    registry.answer(
        &path_of("a.b/slow", "latest"),
        Answer::Slow(b"HTTP/1.1 200 OK\r\n".to_vec()),
    );
    let run = registry.run(&home, &["add", "a.b/slow"]).await;
    assert_eq!(run.code, Some(5), "{run}");
    assert!(run.stderr.contains("did not answer within 10 s"), "{run}");
    let closed = home!();
    let mut command = closed.command(&["search", "x", "--registry", "http://127.0.0.1:1"]);
    let run = Run::new(
        &["search"],
        &within(command.output()).await.expect("it starts"),
    );
    assert_eq!(run.code, Some(3), "{run}");
}

#[tokio::test]
async fn servers_are_found() {
    let (home, registry) = (home!(), Registry::start().await);
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
        Answer::json(&page),
    );
    let last = json!({"servers": [], "metadata": {}});
    registry.answer(
        "/v0.1/servers?search=files&version=latest&limit=20&cursor=c%2F1%20%C3%A9",
        Answer::json(&last),
    );
    registry.answer(
        "/v0.1/servers?search=html&version=latest&limit=20",
        Answer::of("200 OK", "text/html", b"<html>"),
    );
    let many: Vec<_> = (0..5000)
        .map(|it| json!({"server": {"name": format!("a.b/{it}")}}))
        .collect();
    registry.answer(
        "/v0.1/servers?search=many&version=latest&limit=2",
        Answer::json(&json!({"servers": many})),
    );
    registry.answer(
        "/v0.1/servers?search=endless&version=latest&limit=20",
        Answer::Endless,
    );
    let transcript = registry
        .transcript(
            &home,
            &[
                &["search", "files"],
                &["search", "files", "--json"],
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
    // The configuration may name the registry.
    fs::create_dir_all(home.state()).expect("a folder");
    let config = json!({"mcpServers": {}, "registryUrl": registry.url});
    fs::write(home.state().join("config.json"), config.to_string()).expect("written");
    let run = home.run(&["search", "files"]).await;
    assert!(run.stdout.contains("io.github.a/files"), "{run}");
    assert!(registry.asked.lock().expect("whole").len() >= 7);
}

/// A small server in Python.
const PYTHON: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bundled", "version": "1"}}
    elif message["method"] == "tools/list":
        names = ["greet", os.environ.get("SUFFIX", "none")] + sys.argv[1:]
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn bundle(
    home: &Home,
    name: &str,
    version: &str,
    change: impl FnOnce(ZipFile) -> ZipFile,
) -> String {
    let manifest = json!({
        "manifest_version": "0.3", "name": "Greeter", "version": version, "description": "Greets",
        "author": {"name": "someone"},
        "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": {
            "command": "python3",
            "args": ["${__dirname}/server/main.py", "${user_config.names}"],
            "env": {"SUFFIX": "${user_config.suffix}", "KEY": "${user_config.key}"},
        }},
        "user_config": {
            "names": {"type": "string", "title": "Names", "description": "More tools", "multiple": true},
            "suffix": {"type": "string", "title": "Suffix", "description": "One tool's name", "required": true},
            "key": {"type": "string", "title": "Key", "description": "A secret", "sensitive": true},
        },
    });
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with("server/main.py", PYTHON);
    let path = home.path().join(name);
    fs::write(&path, change(zip).bytes()).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// The folders of unpacked bundles, as `NAME/DIGEST`.
fn folders(home: &Home) -> Vec<String> {
    let mut found = Vec::new();
    for server in fs::read_dir(home.state().join("bundles"))
        .into_iter()
        .flatten()
    {
        let server = server.expect("an entry").path();
        for version in fs::read_dir(&server).expect("a folder") {
            let version = version.expect("an entry").path();
            found.push(
                version
                    .strip_prefix(home.state().join("bundles"))
                    .expect("in it")
                    .display()
                    .to_string(),
            );
        }
    }
    found
}

#[tokio::test]
async fn a_bundle_is_unpacked_tried_replaced_and_removed() {
    let (home, registry) = (home!(), Registry::start().await);
    let good = bundle(&home, "greeter.mcpb", "1.0.0", |zip| zip);
    let run = registry.run(&home, &["add", &good]).await;
    assert!(
        run.code == Some(2) && run.stderr.contains("suffix: Suffix: One tool's name"),
        "{run}"
    );
    assert!(folders(&home).is_empty());
    let settings = [
        "--set",
        "suffix=wave",
        "--set",
        "key=s3cret",
        "--set",
        "names=one",
        "--set",
        "names=two",
    ];
    let add = |path: &'_ str, more: &[&str]| -> Vec<String> {
        ["add", path]
            .iter()
            .chain(&settings)
            .chain(more)
            .map(ToString::to_string)
            .collect()
    };
    let run_all = async |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        registry.run(&home, &words).await
    };
    let run = run_all(add(&good, &["--json"])).await;
    assert_eq!(
        run.json()["tools"],
        json!(["greet", "wave", "one", "two"]),
        "{run}"
    );
    assert!(!run.stderr.contains("s3cret"), "{run}");
    let first = folders(&home);
    assert_eq!(first.len(), 1);
    let entry = saved(&home).expect("saved")["mcpServers"]["Greeter"].clone();
    let folder = home.state().join("bundles").join(&first[0]);
    assert_eq!(
        entry,
        json!({
            "command": "python3",
            "args": [folder.join("server/main.py"), "one", "two"],
            "env": {"KEY": "s3cret", "SUFFIX": "wave"},
            "cwd": folder,
        })
    );
    // A version that does not start replaces nothing.
    let broken = bundle(&home, "broken.mcpb", "2.0.0", |zip| {
        zip.with("server/x.py", "").entry(ZipEntry::new("y", ""))
    });
    let text = fs::read(&broken).expect("there");
    assert!(!text.is_empty());
    let run = run_all(add(&broken, &["--replace", "--set", "nobody=asks"])).await;
    assert_eq!(run.code, Some(2), "{run}");
    let mut crash = add(&broken, &["--replace"]);
    stand_in(&home, "python3", "echo 'SyntaxError' >&2; exit 3");
    let run = run_all(crash.clone()).await;
    assert!(
        run.code == Some(1) && run.stderr.contains("SyntaxError"),
        "{run}"
    );
    assert_eq!(folders(&home), first);
    fs::remove_file(home.path().join("bin/python3")).expect("removed");
    // One that does takes the place of the old one.
    crash.push("--yes".to_owned());
    let run = run_all(crash).await;
    assert_eq!(run.code, Some(0), "{run}");
    let second = folders(&home);
    assert!(second.len() == 1 && second != first, "{second:?}");
    let run = registry.run(&home, &["remove", "Greeter"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(folders(&home).is_empty());
}

/// A program of the bundle's own, with a daemon, and a bundle that a registry names.
#[tokio::test]
async fn a_bundle_of_a_registry_is_checked_by_its_hash() {
    let (home, registry) = (home!(), Registry::start().await);
    let fake = fake_server::binary();
    let manifest = json!({
        "manifest_version": "0.2", "name": "native", "version": "1", "description": "d", "author": {"name": "a"},
        "server": {"type": "binary", "entry_point": "server/run", "mcp_config": {"command": "server/run", "args": []}},
    });
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with(
            "server/run",
            format!("#!/bin/sh\nexec '{}'\n", fake.display()),
        );
    let bytes = zip.bytes();
    let sha256 =
        mainstay_install::unpack::sha256(&mut std::io::Cursor::new(&bytes)).expect("in memory");
    registry.answer(
        "/native.mcpb",
        Answer::of("200 OK", "application/octet-stream", &bytes),
    );
    let url = format!("{}/native.mcpb", registry.url);
    let package = |sha256: &str| json!({"packages": [{"registryType": "mcpb", "identifier": url, "fileSha256": sha256, "transport": {"type": "stdio"}}]});
    registry.publish("a.b/native", &package(&sha256));
    registry.publish("a.b/forged", &package(&"0".repeat(64)));
    let config = home.file("servers.json", "{\"mcpServers\": {}}\n");
    let daemon = home.serve(&["--config", &config]).await;
    let run = registry.run(&home, &["add", "a.b/forged"]).await;
    assert!(
        run.stderr
            .contains("is not the one that the registry names"),
        "{run}"
    );
    assert!(folders(&home).is_empty());
    let run = registry.run(&home, &["add", "mine", "a.b/native"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(folders(&home).len(), 1);
    let run = home.run(&["remove", "mine"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(folders(&home).is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn hostile_bundles_are_refused() {
    let (home, registry) = (home!(), Registry::start().await);
    let zeros = vec![0; 8 * 1024 * 1024];
    let cases: [(&str, ZipEntry); 4] = [
        (
            "leads out of the bundle",
            ZipEntry::new("../../../pwned", "x"),
        ),
        (
            "is a symbolic link",
            ZipEntry::new("link", "/etc").mode(0o120_777),
        ),
        ("as in a ZIP bomb", ZipEntry::new("zeros", zeros)),
        (
            "has a control character",
            ZipEntry::new("\u{1b}[2J/../..", "x"),
        ),
    ];
    for (said, entry) in cases {
        let path = bundle(&home, "evil.dxt", "1", |zip| zip.entry(entry));
        let run = registry
            .run(&home, &["add", "--set", "suffix=x", &path])
            .await;
        assert!(
            run.code == Some(1) && run.stderr.contains(said),
            "{said}: {run}"
        );
        assert!(!run.stderr.contains('\u{1b}'), "{run}");
    }
    let missing = home.path().join("missing.mcpb");
    let run = registry
        .run(&home, &["add", missing.to_str().expect("UTF-8")])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("cannot read the bundle"),
        "{run}"
    );
    let no_zip = home.file("no.mcpb", "hello");
    let run = registry.run(&home, &["add", &no_zip]).await;
    assert!(
        run.code == Some(1) && run.stderr.contains("is no ZIP file"),
        "{run}"
    );
    assert!(folders(&home).is_empty() && saved(&home).is_none());
    assert!(!home.path().join("pwned").exists());
}

/// On a terminal what is missing is asked for, and secrets are not echoed.
#[tokio::test]
async fn a_person_is_asked() {
    let (home, registry) = (home!(), Registry::start().await);
    stand_in(&home, "npx", "exec FAKE");
    registry.publish(
        "io.github.a/thing",
        &npm(&json!({"environmentVariables": [
            {"name": "API_KEY", "isRequired": true, "isSecret": true},
            {"name": "MODE", "isRequired": true, "choices": ["fast", "safe"]},
        ]})),
    );
    let mut terminal = Terminal::open();
    let mut adding = terminal.start(registry.command(&home, &["add", "io.github.a/thing"]));
    terminal.until("API_KEY:").await;
    terminal.types("s3cret\n");
    terminal.until("MODE:").await;
    terminal.types("slow\n");
    terminal.until("must be one of: fast, safe").await;
    terminal.types("safe\n");
    terminal.until("start it? [y/N]").await;
    assert_eq!(saved(&home), None);
    terminal.types("y\n");
    let status = within(adding.wait()).await.expect("it ends");
    let shown = String::from_utf8(terminal.end().await).expect("UTF-8");
    assert!(status.success(), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let entry = &saved(&home).expect("saved")["mcpServers"]["thing"];
    assert_eq!(entry["env"], json!({"API_KEY": "s3cret", "MODE": "safe"}));
    // One who does not agree has nothing started.
    let mut terminal = Terminal::open();
    fs::remove_file(home.path().join("npx.words")).expect("it was run");
    let mut adding = terminal.start(registry.command(
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
        within(adding.wait()).await.expect("it ends").code(),
        Some(1)
    );
    terminal.end().await;
    assert!(!home.path().join("npx.words").exists());
}

#[tokio::test]
async fn a_server_of_another_client_is_taken() {
    let (home, registry) = (home!(), Registry::start().await);
    let fake = fake_server::binary();
    let theirs = json!({"mcpServers": {
        "files": {"command": fake, "args": ["--name", "files"], "env": {"KEY": "s3cret"}},
        "self": {"command": "mainstay", "args": ["mcp"]},
    }});
    fs::create_dir_all(home.path().join(".cursor")).expect("a folder");
    fs::write(home.path().join(".cursor/mcp.json"), theirs.to_string()).expect("written");
    let run = registry
        .run(&home, &["add", "--from", "cursor", "file"])
        .await;
    assert!(
        run.code == Some(4) && run.stderr.contains("did you mean files?"),
        "{run}"
    );
    let run = registry
        .run(&home, &["add", "--from", "cursor", "self"])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("it is Mainstay itself"),
        "{run}"
    );
    let run = registry
        .run(&home, &["add", "--from", "nobody", "files"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    let run = registry
        .run(&home, &["add", "--from", "cursor", "mine", "files"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("from Cursor") && !run.stderr.contains("s3cret"),
        "{run}"
    );
    let entry = &saved(&home).expect("saved")["mcpServers"]["mine"];
    assert_eq!(entry["env"], json!({"KEY": "s3cret"}));
    let run = registry
        .run(&home, &["add", "--from", "cursor", "mine", "files"])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("is there already"),
        "{run}"
    );
}
