//! `mainstay secret`, and servers that get secrets by `${keyring:NAME}`. No output and no file contains a
//! secret.

use std::{fs, path::Path, process::Stdio};

use mainstay_testkit::{Home, Run, found, home, limits::PROGRAMS, within};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::terminal::Terminal;

const CANARY: &str = "canary-7c2f51-of-the-vault";
const SECOND: &str = "second-90aa13-of-the-vault";

/// Runs a command with this text on stdin. Asserts that the output does not contain the text.
pub async fn with_input(home: &Home, arguments: &[&str], input: &str) -> Run {
    let mut command = home.command(arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    within(stdin.write_all(input.as_bytes()))
        .await
        .expect("written");
    drop(stdin);
    let output = within(child.wait_with_output()).await.expect("it ends");
    let run = Run::new(arguments, &output);
    assert!(
        input.trim().is_empty() || !run.to_string().contains(input.trim()),
        "{run}"
    );
    run
}

/// Asserts that no file below this folder contains the text.
pub fn is_in_no_file(folder: &Path, text: &str) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            is_in_no_file(&entry.path(), text);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).expect("a file");
            let is_there = bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes());
            assert!(!is_there, "{}", entry.path().display());
        }
    }
}

/// Asserts that the text is in no command line, and only in the environments of processes with `mark`.
#[cfg(target_os = "linux")]
pub fn is_in_no_process_without(mark: &str, text: &str) {
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        // The process may have ended, or belong to another user.
        let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
        let has = |bytes: &[u8], text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        let (line, environment) = (read("cmdline"), read("environ"));
        let name = String::from_utf8_lossy(&line).into_owned();
        assert!(!has(&line, text), "{name}");
        assert!(
            !has(&environment, text) || has(&environment, mark),
            "{name}"
        );
    }
}

async fn listed(home: &Home) -> Value {
    home.run(&["secret", "list", "--json"]).await.json()
}

#[tokio::test]
async fn secrets_are_kept_listed_and_removed() {
    let home = home!();
    let list = home.run(&["secret", "list"]).await;
    assert!(list.stderr.starts_with("no secret is kept"), "{list}");
    assert!(!home.state().exists(), "asking makes nothing");
    let file = home.file(
        "servers.json",
        &json!({
            "mcpServers": {
                "a": {"command": "x", "env": {"T": "${keyring:from/stdin}"}},
                "b": {"command": "x", "args": ["${keyring:gone}"]},
            },
            "telemetry": {"headers": {"x": "${keyring:from/stdin}"}},
        })
        .to_string(),
    );

    let set = with_input(
        &home,
        &["secret", "set", "from/stdin"],
        &format!("{CANARY}\n"),
    )
    .await;
    assert_eq!(set.stdout, "secret from/stdin is kept\n", "{set}");
    assert!(set.stderr.contains("${keyring:from/stdin}"), "{set}");
    let path = home.file("plain", SECOND);
    let set = home
        .run(&["secret", "set", "b", "--from-file", &path, "--json"])
        .await;
    assert_eq!(set.json(), json!({"name": "b", "replaced": false}));
    fs::remove_file(path).expect("removed");
    let set = with_input(&home, &["secret", "set", "b", "--json"], SECOND).await;
    assert_eq!(set.json()["replaced"], true, "{set}");

    let list = home
        .run(&["secret", "list", "--json", "--config", &file])
        .await;
    let secrets = list.json();
    assert_eq!(secrets["secrets"][0]["name"], "b", "{list}");
    assert!(secrets["secrets"][0]["setAt"].is_string(), "{list}");
    assert_eq!(secrets["secrets"][1]["servers"], json!(["a"]), "{list}");
    assert_eq!(
        secrets["secrets"][1]["settings"],
        json!(["telemetry"]),
        "{list}"
    );
    assert_eq!(secrets["missing"][0]["name"], "gone", "{list}");
    let list = home.run(&["secret", "list", "--config", &file]).await;
    assert!(list.stdout.contains("a, `telemetry`"), "{list}");
    assert!(list.stderr.contains("mainstay secret set gone"), "{list}");
    for text in [CANARY, SECOND] {
        is_in_no_file(home.path(), text);
        assert!(!list.to_string().contains(text), "{list}");
    }

    let removed = home
        .run(&["secret", "remove", "from/stdin", "--config", &file])
        .await;
    assert!(
        removed.stderr.contains("still named by a, `telemetry`"),
        "{removed}"
    );
    let again = home.run(&["secret", "remove", "from/stdin"]).await;
    assert_eq!(again.code, Some(4), "{again}");
    assert_eq!(
        listed(&home).await["secrets"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn what_is_no_secret_is_refused() {
    let home = home!();
    for (name, input, reason) in [
        ("a", "", "the secret is empty"),
        ("a", "\n", "the secret is empty"),
        ("a b", CANARY, "no secret can be named"),
        ("a", &"x".repeat(70_000), "at most 65536 bytes"),
    ] {
        let set = with_input(&home, &["secret", "set", name], input).await;
        assert_eq!(set.code, Some(2), "{set}");
        assert!(set.stderr.contains(reason), "{set}");
    }
    // The argument is refused, because it would be in the shell's history and in `ps`.
    let set = home.run(&["secret", "set", "a", CANARY]).await;
    assert_eq!(set.code, Some(2), "{set}");
    let set = home
        .run(&["secret", "set", "a", "--from-file", "none"])
        .await;
    assert!(set.stderr.contains("cannot read none"), "{set}");
    assert_eq!(listed(&home).await["secrets"], json!([]));
}

#[tokio::test]
async fn a_person_types_a_secret_without_echo() {
    let home = home!();
    let mut terminal = Terminal::open();
    let mut setting = terminal.start(home.command(&["secret", "set", "typed"]));
    terminal.until("typed:").await;
    terminal.types(&format!("{CANARY}\n"));
    let status = within(setting.wait()).await.expect("it ends");
    let screen = String::from_utf8(terminal.end().await).expect("UTF-8");
    assert!(status.success(), "{screen}");
    assert!(!screen.contains(CANARY), "{screen}");
    assert_eq!(listed(&home).await["secrets"][0]["name"], "typed");
}

/// If the vault cannot be opened, the error says so, and no new vault is created.
#[tokio::test]
async fn a_vault_without_its_key_is_named() {
    let home = home!();
    with_input(&home, &["secret", "set", "a"], CANARY).await;
    let key = home.state().join("vault/key");
    let text = fs::read_to_string(&key).expect("a key");
    fs::write(
        &key,
        text.replace(|digit: char| digit.is_ascii_hexdigit(), "0"),
    )
    .expect("written");
    let entry = json!({"mcpServers": {"x": {"command": "x", "args": ["${keyring:a}"]}}});
    let file = home.file("servers.json", &entry.to_string());
    let run = home.run(&["validate", &file]).await;
    assert!(
        run.stderr.contains("cannot read secret \"a\"")
            && run.stderr.contains("cannot be decrypted"),
        "{run}"
    );
    fs::write(&key, "nonsense").expect("written");
    let run = with_input(&home, &["secret", "set", "b"], SECOND).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("is no key of a vault"), "{run}");
    assert_eq!(fs::read_to_string(&key).expect("a key"), "nonsense");
}

/// The value of the server's variable, as a tool of the server reports it.
async fn token_of_keeper(home: &Home) -> String {
    let call = home.run(&["call", "keeper/env", "name=API_TOKEN"]).await;
    call.stdout.trim().to_owned()
}

async fn until_connected(home: &Home, is_up: bool) -> Value {
    found(PROGRAMS, "the status", async || {
        let list = home.run(&["list", "--json"]).await.json();
        let servers = list["servers"].as_array().expect("servers");
        let keeper = servers.iter().find(|server| server["name"] == "keeper");
        let keeper = keeper.expect("the server").clone();
        (keeper["connected"] == is_up).then_some(keeper)
    })
    .await
}

/// A server gets its secret at its start. After a rotation it gets the new secret. No other process sees
/// either.
#[tokio::test]
async fn a_secret_reaches_its_server_and_nobody_else() {
    let home = home!();
    let program = fake_server::binary();
    let config = json!({"mcpServers": {
        "keeper": {"command": program, "env": {"API_TOKEN": "${keyring:canary}", "KEEPS_IT": "yes"}},
        "other": {"command": program},
        "remote": {"url": "http://127.0.0.1:9/${keyring:canary}", "headers": {"x-key": "${keyring:canary}"}},
    }});
    let file = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &file]).await;
    let keeper = until_connected(&home, false).await;
    let reason = keeper["lastError"].to_string();
    assert!(reason.contains("mainstay secret set canary"), "{keeper}");

    // The server starts by itself as soon as its secret exists.
    with_input(
        &home,
        &["secret", "set", "canary", "--config", &file],
        CANARY,
    )
    .await;
    until_connected(&home, true).await;
    assert_eq!(token_of_keeper(&home).await, CANARY);
    let rotated = with_input(
        &home,
        &["secret", "set", "canary", "--config", &file],
        SECOND,
    )
    .await;
    assert!(
        rotated.stderr.contains("mainstay restart keeper remote"),
        "{rotated}"
    );
    assert_eq!(
        token_of_keeper(&home).await,
        CANARY,
        "a server that runs goes on as it is"
    );
    let restart = home.run(&["restart", "keeper"]).await;
    assert_eq!(restart.code, Some(0), "{restart}");
    assert_eq!(token_of_keeper(&home).await, SECOND);

    let reload = home.run(&["reload"]).await;
    assert_eq!(reload.code, Some(0), "{reload}");
    let bundle = home.path().join("bundle.json");
    let bundle = bundle.to_str().expect("UTF-8");
    for arguments in [
        &["list", "--json"][..],
        &["list"],
        &["get", "keeper"],
        &["get", "remote", "--json"],
        &["logs", "keeper"],
        &["logs", "remote"],
        &["events", "--json"],
        &["records", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["secret", "list", "--config", &file],
        &["validate", &file],
        &["doctor", "--bundle", bundle],
    ] {
        let run = home.run(arguments).await;
        for text in [CANARY, SECOND] {
            assert!(!run.to_string().contains(text), "{run}");
        }
    }
    #[cfg(target_os = "linux")]
    for text in [CANARY, SECOND] {
        is_in_no_process_without("KEEPS_IT=yes", text);
    }
    let removed = home
        .run(&["secret", "remove", "canary", "--config", &file])
        .await;
    assert!(removed.stderr.contains("keeper, remote"), "{removed}");
    home.run(&["restart", "keeper"]).await;
    let keeper = until_connected(&home, false).await;
    let reason = keeper["lastError"].to_string();
    assert!(reason.contains("there is no such secret"), "{keeper}");
    daemon.stop().await;
    for text in [CANARY, SECOND] {
        is_in_no_file(home.path(), text);
    }
}

/// `doctor` reports where the vault's key is, and corrects the mode of its file.
#[tokio::test]
async fn the_doctor_looks_at_the_key_of_the_vault() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home!();
    with_input(&home, &["secret", "set", "a"], CANARY).await;
    let doctor = home.run(&["doctor", "--json", "--no-start"]).await;
    assert!(doctor.stdout.contains("vault.file"), "{doctor}");
    let key = home.state().join("vault/key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("set");
    let doctor = home.run(&["doctor", "--json", "--no-start"]).await;
    assert!(!doctor.stdout.contains("vault.file"), "{doctor}");
    assert!(doctor.stdout.contains("state.readable"), "{doctor}");
    home.run(&["doctor", "--fix", "--no-start"]).await;
    let mode = fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
