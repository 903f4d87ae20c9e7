//! `mainstay doctor`: findings, repairs and reports.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::Path};

use mainstay_testkit::{Home, Run, home, within};
use serde_json::{Value, json};

use crate::fakes::fakes;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

/// Runs `doctor` for a free port, with the system's PATH.
async fn doctor(home: &Home, arguments: &[&str]) -> Run {
    let all_arguments = [&["doctor", "--listen", "127.0.0.1:0"], arguments].concat();
    let mut command = home.command(&all_arguments);
    command.env(
        "PATH",
        format!("{}/bin:/usr/bin:/bin", home.path().display()),
    );
    Run::new(
        &all_arguments,
        &within(command.output()).await.expect("it starts"),
    )
}

async fn findings(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let run = doctor(home, &[arguments, &["--json"]].concat()).await;
    complete_findings(&run)
}

/// Programs that suggested repairs may use.
const PROGRAMS: [&str; 17] = [
    "mainstay",
    "${EDITOR:-vi}",
    "\"${EDITOR:-vi}\"",
    "chmod",
    "rm",
    "mv",
    "mkdir",
    "ls",
    "df",
    "kill",
    "ulimit",
    "export",
    "unset",
    "sudo",
    "node",
    "curl",
    "uv",
];

/// All findings. Asserts that each problem has a consequence and a repair.
fn complete_findings(run: &Run) -> Vec<Value> {
    let all_findings = run.json().as_array().expect("an array").clone();
    for finding in all_findings
        .iter()
        .filter(|finding| finding["level"] != "ok")
    {
        let has_text = |key: &str| finding[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(has_text("why"), "{finding}");
        assert!(has_text("mend") || has_text("fixed"), "{finding}");
        let mend_text = finding["mend"].as_str().unwrap_or_default();
        let program = mend_text.split(' ').next().unwrap_or_default();
        assert!(
            mend_text.is_empty() || PROGRAMS.contains(&program),
            "no command: {finding}"
        );
    }
    all_findings
}

fn finding_with_id<'f>(findings: &'f [Value], id: &str) -> &'f Value {
    let mut matching_findings = findings.iter();
    matching_findings
        .find(|finding| finding["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {findings:#?}"))
}

fn has(findings: &[Value], id: &str) -> bool {
    findings.iter().any(|finding| finding["id"] == id)
}

/// If a start fails because of a broken package cache, the finding names the cache folder and a
/// repair.
#[tokio::test]
async fn a_broken_cache_of_packages_is_named() {
    let home = home!();
    let failing_entry = |lines: &str| {
        let script = format!("printf '{lines}' >&2; exit 190");
        json!({"command": "sh", "args": ["-c", script]})
    };
    let npx = r"npm error code ENOTEMPTY\nnpm error path /home/ada/.npm/_npx/5a9d/node_modules/x\n";
    let uv = r"error: failed to open file `/home/ada/.cache/uv/x`: (os error 2)\n";
    let servers = json!({"mcpServers": {"node": failing_entry(npx), "python": failing_entry(uv)}});
    let config = home.file("servers.json", &servers.to_string());
    chmod(Path::new(&config), 0o600);
    let all_findings = findings(&home, &["--config", &config]).await;
    for (server, folder, expected_mend) in [
        (
            "node",
            "/home/ada/.npm/_npx/5a9d",
            "rm -r /home/ada/.npm/_npx/5a9d  # then mainstay start node",
        ),
        (
            "python",
            "/home/ada/.cache/uv",
            "uv cache clean  # then mainstay start python",
        ),
    ] {
        let is_down =
            |finding: &&Value| finding["id"] == "server.down" && finding["server"] == server;
        let broken_finding = all_findings.iter().find(is_down).expect("it is down");
        let reason = broken_finding["why"].as_str().expect("a reason");
        assert!(reason.ends_with(folder), "{broken_finding}");
        assert_eq!(broken_finding["mend"], expected_mend, "{broken_finding}");
    }
}

#[tokio::test]
async fn servers_are_started_once_and_what_is_wrong_is_said() {
    let home = home!();
    let starts_path = home.path().join("starts");
    let bin = home.path().join("bin");
    fs::create_dir(&bin).expect("made");
    let uvx_path = bin.join("uvx");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'uvx 0.9.9'; exit; }}\necho start >> '{}'\necho 'no licence found' >&2\nexit 7\n",
        starts_path.display()
    );
    fs::write(&uvx_path, script).expect("written");
    chmod(&uvx_path, 0o755);
    let config = home.file(
        "servers.json",
        &json!({"mcpServers": {
            "good": {"command": fake_server::binary(), "autoStart": false},
            "bad": {"command": "uvx", "args": ["thing"]},
            "gone": {"command": "no-such-program"},
            "odd": {"command": fake_server::binary(), "comand": 1, "disabled": true},
        }})
        .to_string(),
    );
    chmod(Path::new(&config), 0o644);
    let run = doctor(&home, &["--config", &config, "--json"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    let all_findings = &complete_findings(&run);
    let valid_finding = finding_with_id(all_findings, "server.connected");
    assert_eq!(valid_finding["server"], "good");
    let description = valid_finding["what"].as_str().expect("text");
    assert!(
        description.starts_with("handshake done in ") && description.contains(" tools"),
        "{description}"
    );
    let down: Vec<_> = all_findings
        .iter()
        .filter(|finding| finding["id"] == "server.down")
        .collect();
    assert_eq!(
        (&down[0]["server"], down[0]["stderr"][0].as_str()),
        (&json!("bad"), Some("no licence found"))
    );
    assert!(
        down[0]["what"].as_str().expect("text").contains("code 7"),
        "{down:#?}"
    );
    // A missing command causes only one finding.
    assert_eq!(down.len(), 1, "{down:#?}");
    let gone_findings = all_findings
        .iter()
        .filter(|finding| finding["server"] == "gone");
    assert_eq!(gone_findings.count(), 1, "{all_findings:#?}");
    let missing_finding = finding_with_id(all_findings, "command.missing");
    assert_eq!(missing_finding["server"], "gone");
    let mend_text = missing_finding["mend"].as_str().expect("text");
    let edit = format!("mainstay config edit --config {config}  # ");
    assert!(mend_text.starts_with(&edit), "{mend_text}");
    let broken: Vec<_> = all_findings
        .iter()
        .filter(|finding| finding["id"] == "command.found" && finding["server"] == "bad")
        .collect();
    assert!(
        broken[0]["what"]
            .as_str()
            .expect("text")
            .ends_with("uvx 0.9.9"),
        "{broken:?}"
    );
    assert!(
        finding_with_id(all_findings, "command.path")["what"]
            .as_str()
            .expect("text")
            .contains("/bin:/usr/bin")
    );
    let unknown_finding = finding_with_id(all_findings, "config.unknown_key");
    assert!(
        unknown_finding["mend"]
            .as_str()
            .expect("text")
            .contains("mainstay validate")
    );
    // One attempt tries both eras. No state is stored.
    let start_count = || fs::read_to_string(&starts_path).expect("a start");
    let attempt = start_count();
    assert!(attempt.lines().count() <= 2, "{attempt}");
    assert!(!home.state().exists());

    let run = doctor(&home, &["--config", &config, "--no-start"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(!run.stdout.contains("handshake"), "{run}");
    assert!(
        run.stdout
            .contains("error    gone: command not found: no-such-program"),
        "{run}"
    );
    assert!(run.stdout.contains("         mend: "), "{run}");
    assert_eq!(start_count(), attempt);
}

#[tokio::test]
async fn a_running_daemon_is_asked_instead() {
    let home = home!();
    let config = fakes(&home, &[("good", &[]), ("bad", &["--crash-at-start", "7"])]);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 2").await;
    let all_findings = findings(&home, &["--config", &config]).await;
    assert!(has(&all_findings, "daemon.running"));
    let valid_finding = finding_with_id(&all_findings, "server.connected");
    let description = valid_finding["what"].as_str().expect("text");
    assert!(
        description.starts_with("connected, handshake done in ")
            && description.contains(", answers in "),
        "{valid_finding}"
    );
    // The findings contain what the daemon has measured.
    let list = home.run(&["list", "--json"]).await.json();
    let servers = list["servers"].as_array().expect("servers");
    let measured_server = servers.iter().find(|server| server["name"] == "good");
    let measured_server = measured_server.and_then(|server| server["handshakeMs"].as_u64());
    assert!(measured_server.is_some_and(|ms| ms < 60_000), "{list}");
    let invalid_finding = finding_with_id(&all_findings, "server.down");
    assert_eq!(
        invalid_finding["stderr"],
        json!(["the fake crashes at start with code 7"])
    );
    assert_eq!(invalid_finding["mend"], "mainstay logs bad");

    // Another state directory uses the same port.
    let other_home = home!();
    let address = daemon
        .url
        .strip_prefix("http://")
        .expect("a URL")
        .to_owned();
    let run = other_home
        .run(&["doctor", "--json", "--listen", &address])
        .await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        has(
            run.json().as_array().expect("an array"),
            "port.other_mainstay"
        ),
        "{run}"
    );
    daemon.stop().await;

    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    // A listener that closes each connection is not Mainstay.
    let closing_thread = std::thread::spawn(move || drop(listener.accept()));
    let run = other_home
        .run(&["doctor", "--json", "--listen", &address])
        .await;
    closing_thread.join().expect("closed");
    let all_findings = run.json();
    let port = finding_with_id(all_findings.as_array().expect("an array"), "port.taken");
    #[cfg(target_os = "linux")]
    {
        let pid = format!("pid {}, listens on {address}", std::process::id());
        let description = port["what"].as_str().expect("text");
        assert!(description.ends_with(&pid), "{port}");
        let mend_text = port["mend"].as_str().expect("text");
        let kill = format!("kill {}", std::process::id());
        assert!(mend_text.starts_with(&kill), "{port}");
    }
    assert_eq!(port["level"], "error", "{port}");
}

/// The repair addresses an outdated Node and a stopped Docker.
#[tokio::test]
async fn old_node_and_a_stopped_docker_are_named() {
    let home = home!();
    let program = |name: &str, script: &str| {
        let path = home.file(name, &format!("#!/bin/sh\n{script}\n"));
        chmod(Path::new(&path), 0o755);
        path
    };
    let node = program("node", "echo v12.22.9");
    let npx = program("npx", "echo 6.14.16");
    program(
        "docker",
        "case $1 in --version) echo Docker version 24;; *) echo Cannot connect to the Docker daemon >&2; exit 1;; esac",
    );
    let folder = Path::new(&node).parent().expect("a folder");
    let env = json!({"PATH": format!("{}:/bin:/usr/bin", folder.display())});
    let servers = json!({
        "old": {"command": npx, "args": ["x"], "env": env},
        "boxed": {"command": "docker", "args": ["run", "-i", "x"], "env": env},
    });
    let config = home.file("servers.json", &json!({"mcpServers": servers}).to_string());
    let all_findings = findings(&home, &["--config", &config, "--no-start"]).await;
    let old_finding = finding_with_id(&all_findings, "command.old");
    assert_eq!(old_finding["server"], "old", "{old_finding}");
    let description = format!("Node at {node} is v12.22.9, and MCP servers need 18 or later");
    assert_eq!(old_finding["what"], description.as_str(), "{old_finding}");
    let docker = finding_with_id(&all_findings, "docker.stopped");
    assert_eq!(docker["server"], "boxed", "{docker}");
    let description = "Docker's own daemon does not answer: Cannot connect to the Docker daemon";
    assert_eq!(docker["what"], description, "{docker}");
    let mend_text = docker["mend"].as_str().expect("text");
    assert!(mend_text.contains("start"), "{docker}");
}

#[tokio::test]
async fn safe_repairs_are_made_and_others_are_listed() {
    let home = home!();
    let config = home.file(
        "servers.json",
        r#"{"mcpServers": {"a": {"command": "no-such-program", "env": {"API_KEY": "s3cret-s3cret"}}}}"#,
    );
    let config = Path::new(&config);
    chmod(config, 0o644);
    // The file of a daemon that no longer runs.
    let mut daemon = home.serve(&["--demo"]).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    let remaining_bytes = fs::read(home.state().join("daemon.json")).expect("a file");
    daemon.stop().await;
    let stale_file = home.state().join("daemon.json");
    fs::write(&stale_file, remaining_bytes).expect("written");
    let token = home.state().join("token");
    chmod(&token, 0o644);
    chmod(&home.state(), 0o755);
    let config_path = config.to_str().expect("UTF-8");

    let previous_findings = findings(&home, &["--config", config_path]).await;
    for id in ["config.readable", "state.readable", "state.stale_daemon"] {
        assert_eq!(finding_with_id(&previous_findings, id)["level"], "warning");
    }
    assert_eq!((mode(config), stale_file.exists()), (0o644, true));

    let run = doctor(&home, &["--config", config_path, "--fix"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stdout
            .contains(&format!("fixed: chmod 600 {config_path}")),
        "{run}"
    );
    assert!(run.stdout.contains("5 fixed"), "{run}");
    assert_eq!(
        (
            mode(config),
            mode(&token),
            mode(&home.state()),
            stale_file.exists()
        ),
        (0o600, 0o600, 0o700, false)
    );

    let after = findings(&home, &["--config", config_path]).await;
    assert!(has(&after, "state.usable"));
    for id in ["config.readable", "state.readable", "state.stale_daemon"] {
        assert!(!has(&after, id), "{after:#?}");
    }

    // A state directory that others can write to is repaired first, and then used.
    chmod(&home.state(), 0o777);
    let all_findings = findings(&home, &["--config", config_path]).await;
    assert_eq!(
        finding_with_id(&all_findings, "state.untrusted")["level"],
        "error"
    );
    findings(&home, &["--config", config_path, "--fix"]).await;
    assert_eq!(mode(&home.state()), 0o700);
}

#[tokio::test]
async fn tokens_and_clocks_are_looked_at() {
    let home = home!();
    home.run(&["token", "add", "laptop", "--expires", "2d"])
        .await;
    home.run(&["token", "add", "phone", "--expires", "30d"])
        .await;
    // A server whose clock is wrong, and an expired token: {"exp":1600000000}
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/mcp", server.local_addr().expect("an address"));
    let answer_thread = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = server.accept().expect("a request");
        let mut request = [0; 4096];
        let length = stream.read(&mut request).expect("read");
        let answer = "HTTP/1.1 405 Method Not Allowed\r\ndate: Tue, 15 Nov 1994 08:12:31 GMT\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).expect("written");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let config = home.file(
        "servers.json",
        &json!({"mcpServers": {"old": {
            "url": url,
            "headers": {"Authorization": "Bearer eyJhIjoxfQ.eyJleHAiOjE2MDAwMDAwMDB9.c2lnbmF0dXJl"},
        }}})
        .to_string(),
    );
    let all_findings = findings(&home, &["--config", &config]).await;
    let expiring_finding = finding_with_id(&all_findings, "token.expiring");
    assert!(
        expiring_finding["what"]
            .as_str()
            .expect("text")
            .contains("laptop"),
        "{expiring_finding}"
    );
    assert_eq!(
        all_findings
            .iter()
            .filter(|finding| finding["id"] == "token.expiring")
            .count(),
        1
    );
    assert_eq!(
        finding_with_id(&all_findings, "token.server_expired")["server"],
        "old"
    );
    let skew = finding_with_id(&all_findings, "clock.skew");
    assert_eq!(skew["server"], "old");
    let request = answer_thread.join().expect("answered");
    assert!(
        !request.to_lowercase().contains("authorization"),
        "{request}"
    );
}

/// The report contains none of the secrets that this test places everywhere.
#[tokio::test]
async fn the_report_has_no_secrets() {
    let home = home!();
    let canary = |place: &str| format!("canary{place}0123456789abcdef");
    let program = fake_server::binary();
    let stderr = format!(
        "starting with {} and {} and {}; Authorization: Bearer {}",
        canary("env"),
        canary("argv"),
        canary("process"),
        canary("stderr"),
    );
    let config = home.file(
        "servers.json",
        &json!({
            "mcpServers": {
                "local": {
                    "command": program,
                    "args": ["--name", canary("argv"), "--stderr", stderr, "--crash-at-start", "3"],
                    "env": {"SETTING": canary("env"), "API_KEY": canary("key")},
                },
                "remote": {
                    "url": format!("http://me:{}@127.0.0.1:1/s/{}/mcp?key={}", canary("password"), canary("path"), canary("query")),
                    "headers": {"X-Api-Key": canary("header"), "Authorization": format!("Bearer {}", canary("bearer"))},
                },
            },
            "alerts": [{"webhook": {"url": format!("https://hooks.example.com/{}", canary("hook"))}, "on": ["server_down"]}],
        })
        .to_string(),
    );
    let report = home.path().join("report.json");
    let report_path = report.to_str().expect("UTF-8");
    let run = async |arguments: &[&str]| {
        let all_arguments = [
            &[
                "doctor",
                "--listen",
                "127.0.0.1:0",
                "--config",
                &config,
                "--bundle",
                report_path,
            ],
            arguments,
        ]
        .concat();
        let mut command = home.command(&all_arguments);
        command
            .env("MAINSTAY_CANARY", canary("ours"))
            .env("GITHUB_TOKEN", canary("process"));
        Run::new(
            &all_arguments,
            &within(command.output()).await.expect("it starts"),
        )
    };
    let check = || {
        assert_eq!(mode(&report), 0o600);
        let text = fs::read_to_string(&report).expect("a report");
        let report_value: Value = serde_json::from_str(&text).expect("JSON");
        let offset = text.find("canary");
        assert_eq!(
            offset.map(|offset| &text[offset.saturating_sub(200)..(offset + 40).min(text.len())]),
            None
        );
        assert!(
            !text.contains(home.path().to_str().expect("UTF-8")),
            "{text}"
        );
        report_value
    };
    let first = run(&[]).await;
    assert_eq!(first.code, Some(1), "{first}");
    let checked_output = check();
    assert_eq!(
        checked_output["configuration"]["mcpServers"]["local"]["args"][4],
        "--crash-at-start"
    );
    let servers = checked_output["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), 2, "{checked_output:#}");
    let first_line = servers[0]["stderr"][0].as_str().expect("a line");
    assert!(
        first_line.starts_with("starting with [redacted]"),
        "{first_line}"
    );
    fs::remove_file(&report).expect("removed");

    // With a daemon, the report includes logs.
    let daemon = home.serve(&["--config", &config]).await;
    mainstay_testkit::found(
        mainstay_testkit::limits::PROGRAMS,
        "a crash in the log",
        async || {
            let logs = home.run(&["logs", "local"]).await;
            logs.stdout.contains("code 3").then_some(())
        },
    )
    .await;
    run(&[]).await;
    let checked_output = check();
    let log = checked_output["logs"]["local"].as_array().expect("a log");
    assert!(
        log.iter().any(|line| line
            .as_str()
            .is_some_and(|line| line.contains("starting with"))),
        "{checked_output:#}"
    );
    daemon.stop().await;

    // The text of an invalid configuration contains secrets, too.
    let text = fs::read_to_string(&config).expect("a file");
    fs::write(&config, &text[..text.len() - 1]).expect("written");
    assert_eq!(run(&["--no-start"]).await.code, Some(1));
    check();
}

/// The log on stderr does not repeat the findings.
#[tokio::test]
async fn people_get_findings_and_no_log() {
    let home = home!();
    let config = fakes(&home, &[("noisy", &["--noise"])]);
    let run = doctor(&home, &["--config", &config]).await;
    assert!(run.stdout.contains("noisy"), "{run}");
    assert!(!run.to_string().contains("WARN"), "{run}");
}

/// A long PATH is shortened in the text output. The JSON output has all of it.
#[tokio::test]
async fn a_long_path_is_shortened() {
    let home = home!();
    let folders: Vec<String> = (0..30)
        .map(|number| format!("/opt/folder-{number}"))
        .collect();
    let path = format!("/usr/bin:/bin:{}", folders.join(":"));
    let text = json!({"mcpServers": {"a": {"command": "true", "env": {"PATH": path}}}});
    let config = home.file("config.json", &text.to_string());
    let run = doctor(&home, &["--no-start", "--config", &config]).await;
    let line = run.stdout.lines().find(|line| line.contains("PATH of a"));
    let line = line.unwrap_or_else(|| panic!("{run}"));
    assert!(
        line.len() < 120 && line.contains(" more, which --json shows"),
        "{line}"
    );
    let findings = findings(&home, &["--no-start", "--config", &config]).await;
    let description = &finding_with_id(&findings, "command.path")["what"];
    assert!(
        description
            .as_str()
            .expect("a text")
            .contains("/opt/folder-29"),
        "{description}"
    );
}
