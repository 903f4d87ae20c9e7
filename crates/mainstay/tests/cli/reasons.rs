//! The reasons of failed servers, in `list`, `get`, `health`, `serve`, and in errors of calls.

use mainstay_testkit::{Home, Run, home, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Answers a connection. The path of the request selects the answer.
async fn answer(mut stream: TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    let read_message = stream.read(&mut buffer).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&buffer[..read_message]).into_owned();
    let is_http = request.starts_with("POST ") || request.starts_with("GET ");
    let path = request.split(' ').nth(1).filter(|_| is_http);
    let path = path.unwrap_or_default();
    let head = |status: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
    };
    let page = |status: &str, kind: &str, text: &str| {
        let length = text.len();
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}").into_bytes()
    };
    let response = match path.split('?').next().unwrap_or_default() {
        "/moved" => head("302 Found\r\nlocation: https://login.example.com/in?key=s3cret"),
        "/401" => head("401 Unauthorized"),
        "/403" => head("403 Forbidden"),
        "/404" => head("404 Not Found"),
        "/405" => head("405 Method Not Allowed"),
        "/400" => page(
            "400 Bad Request",
            "text/plain",
            "tenant missing\nsee the manual",
        ),
        "/500" => page(
            "500 Internal Server Error",
            "text/plain",
            "maintenance\u{1b}[2J",
        ),
        "/html" => page(
            "200 OK",
            "text/html",
            "<!doctype html><title>Welcome</title>",
        ),
        "/loop" => head("307 Temporary Redirect\r\nlocation: /loop"),
        "/https" => {
            let page = "Client sent an HTTP request to an HTTPS server.";
            let length = page.len();
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{page}").into()
        }
        // A TLS alert.
        "/tls" => vec![0x15, 3, 1, 0, 2, 2, 46],
        // If no HTTP request can be read, the connection is a TLS handshake.
        "" => head("400 Bad Request"),
        _ => Vec::new(),
    };
    // Ignore write errors: the client may have disconnected.
    stream.write_all(&response).await.ok();
    stream.shutdown().await.ok();
}

/// Starts a listener that answers with [`answer`], and returns its address.
async fn start_listener() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// The row of this server in a table.
fn row<'r>(run: &'r Run, name: &str) -> &'r str {
    let mut lines = run.stdout.lines();
    let matching_line = lines.find(|line| line.split_whitespace().next() == Some(name));
    matching_line.unwrap_or_else(|| panic!("no {name}: {run}"))
}

/// Runs `list` until this server's row contains the text.
async fn until_listed(home: &Home, name: &str, text: &str) {
    within(async {
        loop {
            let run = home.run(&["list"]).await;
            if row(&run, name).contains(text) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_last_words_of_a_process_are_shown_everywhere() {
    let home = home!();
    let script = "echo 'Error: API_KEY is required' >&2; echo 'Node.js v22.1.0' >&2; exit 3";
    let config = json!({"mcpServers": {
        "down": {"command": "sh", "args": ["-c", script], "restart": {"mode": "never"}},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    let reason = "process exited unexpectedly (code 3)";
    let line = daemon.wait_for_stderr(reason).await;
    let step = r#"see "mainstay logs down", then "mainstay start down""#;
    assert!(line.ends_with(step), "{line}");
    daemon.wait_for_stderr("| Error: API_KEY is required").await;
    let full_text = format!("{reason}: Error: API_KEY is required; {step}");
    for command in [&["list"][..], &["get", "down"], &["health"]] {
        let run = home.run(command).await;
        assert!(run.stdout.contains(&full_text), "{run}");
    }
    let run = home.run(&["call", "down/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains(&full_text), "{run}");

    // After `disable`, the stderr of the earlier process is not shown as the reason.
    let run = home.run(&["disable", "down"]).await;
    assert_eq!(run.stdout, "down is disabled\n", "{run}");
    let run = home.run(&["list"]).await;
    let enable_hint = r#"enable it by "mainstay enable down""#;
    assert!(row(&run, "down").ends_with(enable_hint), "{run}");
    let run = home.run(&["health", "down"]).await;
    assert!(row(&run, "down").ends_with(enable_hint), "{run}");
    let run = home.run(&["call", "down/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("Server 'down' is disabled"), "{run}");
    assert!(!run.stderr.contains("API_KEY"), "{run}");
    daemon.stop().await;
}

#[tokio::test]
async fn http_failures_have_readable_reasons() {
    let home = home!();
    let host = start_listener().await;
    let local_url = |path: &str| format!("http://{host}/{path}");
    let speaks_tls_text = format!("the server at {host} speaks TLS; write https:// in `url`");
    let cases = [
        (
            "plain",
            format!("https://{host}/mcp"),
            format!("the server at {host} speaks plain HTTP; write http:// in `url`"),
        ),
        ("tls", local_url("tls"), speaks_tls_text.clone()),
        ("https", local_url("https"), speaks_tls_text),
        (
            "closed",
            local_url("closed"),
            format!("{host} closed the connection without an answer"),
        ),
        (
            "moved",
            local_url("moved"),
            "the server redirects to https://login.example.com/in (HTTP 302)".to_owned(),
        ),
        (
            "missing",
            local_url("404"),
            format!("is spoken at {}; check the path of `url`", local_url("404")),
        ),
        (
            "refused",
            "http://127.0.0.1:9/mcp".to_owned(),
            "nothing listens at 127.0.0.1:9 (connection refused)".to_owned(),
        ),
        (
            "unknown",
            "http://no-such-host.invalid/mcp".to_owned(),
            "the host name no-such-host.invalid cannot be resolved".to_owned(),
        ),
        (
            "wants",
            local_url("401"),
            "HTTP 401: the server wants credentials; set `bearerToken` or `headers`".to_owned(),
        ),
        (
            "forbids",
            local_url("403"),
            "HTTP 403: the server forbids access; set `bearerToken` or `headers` if".to_owned(),
        ),
    ];
    let servers = cases.iter();
    let servers = servers.map(|(name, url, _)| ((*name).to_owned(), json!({"url": url})));
    let mut servers: serde_json::Map<String, Value> = servers.collect();
    for (name, path) in [("stale", "401"), ("lacking", "403")] {
        let entry = json!({"url": local_url(path), "bearerToken": "old"});
        servers.insert(name.to_owned(), entry);
    }
    let config = json!({"mcpServers": servers});
    let config = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    for (name, _, expected_text) in &cases {
        until_listed(&home, name, expected_text).await;
    }
    let refused_text = "HTTP 401: the server does not accept the credentials; renew";
    until_listed(&home, "stale", refused_text).await;
    let lacking_text = "HTTP 403: the server forbids access; the credentials lack a permission";
    until_listed(&home, "lacking", lacking_text).await;
    let run = home.run(&["list"]).await;
    assert!(!run.stdout.contains("s3cret"), "{run}");
    daemon.stop().await;
}

/// Answers that are not MCP, with and without a configured transport. The reason has the URL, a
/// quotation, and the next step.
#[tokio::test]
async fn an_answer_that_is_no_mcp_is_quoted() {
    let home = home!();
    let host = start_listener().await;
    let local_url = |path: &str| format!("http://{host}/{path}");
    let full_reason =
        |path: &str, error: &str| format!("cannot connect: {}: {error}", local_url(path));
    let check = "; check the path of `url`";
    let mut cases = vec![(
        "detected".to_owned(),
        "400",
        None,
        full_reason("400", "HTTP 400 to initialize: tenant missing;"),
    )];
    for (kind, request) in [("http", "initialize"), ("sse", "GET")] {
        for (path, error) in [
            ("404", format!("HTTP 404 to {request}{check}")),
            ("405", format!("HTTP 405 to {request}{check}")),
            ("400", format!("HTTP 400 to {request}: tenant missing;")),
            (
                "500",
                format!("HTTP 500 to {request}: maintenance\\u{{1b}}[2J;"),
            ),
            (
                "html",
                format!("a web page (HTML) in answer to {request}{check}"),
            ),
        ] {
            cases.push((
                format!("{kind}{path}"),
                path,
                Some(kind),
                full_reason(path, &error),
            ));
        }
        let error = format!(
            "the server redirects {} to itself (HTTP 307); check `url`",
            local_url("loop")
        );
        cases.push((format!("{kind}loop"), "loop", Some(kind), error));
    }
    let servers = cases.iter().map(|(name, path, kind, _)| {
        let mut entry = json!({"url": format!("http://{host}/{path}?key=s3cret")});
        if let Some(kind) = kind {
            entry["type"] = (*kind).into();
        }
        if *path == "loop" {
            entry["url"] = local_url("loop").into();
        }
        (name.clone(), entry)
    });
    let servers: serde_json::Map<String, Value> = servers.collect();
    let config = json!({"mcpServers": servers});
    let config = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    for (name, _, _, expected_text) in &cases {
        until_listed(&home, name, expected_text.trim_end_matches(';')).await;
    }
    let run = home.run(&["list"]).await;
    assert!(!run.stdout.contains("s3cret"), "{run}");
    daemon.stop().await;
}

/// During a restart, the status shows the reason of the last exit.
#[tokio::test]
async fn the_last_words_are_shown_while_the_next_attempt_is_under_way() {
    let home = home!();
    let mark_path = home.path().join("begun");
    let script = format!(
        "if [ -e {mark_path} ]; then echo installing >&2; exec sleep 1000; fi
         echo 'Error: API_KEY is required' >&2; exit 3",
        mark_path = mark_path.display()
    );
    let slow_entry =
        json!({"command": "sh", "args": ["-c", script], "initialDelayMs": 100, "timeout_s": 1});
    let config = json!({"mcpServers": {"slow": slow_entry}});
    let config = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    let reason = "process exited unexpectedly (code 3): Error: API_KEY is required";
    until_listed(&home, "slow", reason).await;
    std::fs::write(&mark_path, "").expect("written");
    until_listed(&home, "slow", "installing (attempt ").await;
    for command in [&["list", "-o", "wide"][..], &["get", "slow"]] {
        let run = home.run(command).await;
        assert!(run.stdout.contains(reason), "{run}");
    }
    let call = home.run(&["call", "slow/x"]).await;
    assert!(call.stderr.contains(reason), "{call}");
    let health = home.run(&["health", "slow"]).await;
    assert!(health.stdout.contains(reason), "{health}");
    daemon.stop().await;
}

/// If a process prints other text than MCP messages, the reason shows its last output.
#[tokio::test]
async fn the_last_noise_on_stdout_is_shown() {
    let home = home!();
    let server = |script: &str| json!({"command": "sh", "args": ["-c", script], "restart": {"mode": "never"}});
    let config = json!({"mcpServers": {
        "usage": server("echo 'usage: x, the key is missing'; exit 2"),
        "web": server("echo 'Server listening on http://0.0.0.0:8000'; exec sleep 1000"),
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon
        .wait_for_stderr("  | usage: x, the key is missing")
        .await;
    let noise = "writes to stdout what is no MCP message: ";
    let expected_text = format!(
        "(code 2): it {noise}\"usage: x, the key is missing\"; see \"mainstay logs usage\", then"
    );
    until_listed(&home, "usage", &expected_text).await;
    let call = home.run(&["call", "usage/x"]).await;
    assert!(call.stderr.contains(&expected_text), "{call}");
    let expected_text = format!(": {noise}\"Server listening on http://0.0.0.0:8000\"");
    until_listed(&home, "web", &expected_text).await;
    daemon.stop().await;
}

/// Calls wait for the same time for a new server and for a reconnecting one.
#[tokio::test]
async fn a_call_of_a_server_that_never_comes_up_ends_in_time() {
    let home = home!();
    let config = json!({"mcpServers": {
        "hangs": {"command": "sleep", "args": ["1000"], "timeout_s": 1},
        "later": {"command": "sleep", "args": ["1000"], "autoStart": false},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    let line = daemon.wait_for_stderr("later").await;
    let start = r#"not started by itself; start it by "mainstay start later""#;
    assert!(line.ends_with(start), "{line}");
    let run = home.run(&["call", "hangs/x"]).await;
    assert_eq!(run.code, Some(5), "{run}");
    let late_text = "timeout after 1s: Server 'hangs' is connecting";
    assert!(run.stderr.contains(late_text), "{run}");
    let run = home.run(&["call", "later/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    let stopped_text = "Server 'later' is disconnected: it is stopped";
    assert!(run.stderr.contains(stopped_text), "{run}");
    let list = home.run(&["list"]).await;
    assert!(row(&list, "later").ends_with(start), "{list}");
    daemon.stop().await;
}

/// The error names the configuration key, even if the key looks like the name of a secret.
#[tokio::test]
async fn the_reason_for_a_wrong_entry_is_whole_everywhere() {
    let home = home!();
    let config = json!({"mcpServers": {
        "tracker": {"url": "http://127.0.0.1:9/mcp", "bearerToken": "${NO_TRACKER_TOKEN}"},
        "header": {
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": "Bearer ${NO_TRACKER_TOKEN}"},
        },
        "file": {"command": "x", "env": {"GITHUB_TOKEN": "${file:/no/such}"}},
    }});
    let config = home.file("servers.json", &config.to_string());
    let unset_error = |key: &str| {
        format!(
            "{key}: variable \"NO_TRACKER_TOKEN\" is not set (set it, or give a default: ${{NO_TRACKER_TOKEN:-…}})"
        )
    };
    let invalid_settings = [
        ("tracker", unset_error("mcpServers.tracker.bearerToken")),
        (
            "header",
            unset_error("mcpServers.header.headers.Authorization"),
        ),
        (
            "file",
            "mcpServers.file.env.GITHUB_TOKEN: cannot read \"/no/such\": ".to_owned(),
        ),
    ];
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 0 of 3").await;
    let list = home.run(&["list"]).await;
    let events = home.run(&["events", "--json"]).await;
    for (name, reason) in &invalid_settings {
        assert!(
            daemon.stderr_text.contains(reason),
            "{}",
            daemon.stderr_text
        );
        assert!(row(&list, name).contains(reason), "{list}");
        let get = home.run(&["get", name]).await;
        assert!(get.stdout.contains(reason), "{get}");
        let call = home.run(&["call", &format!("{name}/x")]).await;
        assert!(call.stderr.contains(reason), "{call}");
        let logs = home.run(&["logs", name]).await;
        assert!(logs.stdout.contains(reason), "{logs}");
        let records = home.run(&["records", "--server", name, "--json"]).await;
        let quoted_text = reason.replace('"', "\\\"");
        assert!(records.stdout.contains(&quoted_text), "{records}");
        assert!(events.stdout.contains(&quoted_text), "{events}");
    }
    daemon.stop().await;
    let errors = home.state().join("logs/mcp-errors.log");
    let errors = std::fs::read_to_string(errors).expect("errors were written");
    for (_, reason) in &invalid_settings {
        assert!(errors.contains(reason), "{errors}");
    }
}

/// A deny list whose name matches no tool causes a warning.
#[tokio::test]
async fn names_of_tools_that_are_none_are_told() {
    let home = home!();
    let config = json!({"mcpServers": {
        "e": {"command": fake_server::binary(), "disabledTools": ["e__echo", "nosuch"]},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    let line = r#"disabledTools: "e__echo" is no tool of this server (did you mean "echo"?)"#;
    daemon.wait_for_stderr(line).await;
    let run = home.run(&["get", "e"]).await;
    assert!(
        run.stdout.contains(line) && run.stdout.contains(r#""nosuch""#),
        "{run}"
    );
    until_listed(&home, "e", &format!("; {line} and 1 more")).await;
    daemon.stop().await;
}
