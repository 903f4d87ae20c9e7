//! Why a server is down is said where people look: `list`, `get`, `health`, `serve`, and the error of a
//! call.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::world::{Home, Run, within};

/// Answers a connection by the path that it asks for.
async fn answer(mut stream: TcpStream) {
    let mut asked = vec![0; 16 * 1024];
    let read = stream.read(&mut asked).await.unwrap_or_default();
    let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
    let is_http = asked.starts_with("POST ") || asked.starts_with("GET ");
    let path = asked.split(' ').nth(1).filter(|_| is_http);
    let path = path.unwrap_or_default();
    let head = |status: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
    };
    let said = match path {
        "/moved" => head("302 Found\r\nlocation: https://login.example.com/in?key=s3cret"),
        "/401" => head("401 Unauthorized"),
        "/403" => head("403 Forbidden"),
        "/404" => head("404 Not Found"),
        "/https" => {
            let page = "Client sent an HTTP request to an HTTPS server.";
            let length = page.len();
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{page}").into()
        }
        // An alert of TLS.
        "/tls" => vec![0x15, 3, 1, 0, 2, 2, 46],
        // What is no request of HTTP was meant as TLS.
        "" => head("400 Bad Request"),
        _ => Vec::new(),
    };
    // The other side may have gone.
    stream.write_all(&said).await.ok();
    stream.shutdown().await.ok();
}

/// An address at which [`answer`] answers.
async fn listening() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// The row of a server in a table.
fn row<'r>(run: &'r Run, name: &str) -> &'r str {
    let mut lines = run.stdout.lines();
    let found = lines.find(|line| line.split_whitespace().next() == Some(name));
    found.unwrap_or_else(|| panic!("no {name}: {run}"))
}

/// Runs `list` until the row of this server says so.
async fn until_listed(home: &Home, name: &str, words: &str) {
    within(async {
        loop {
            let run = home.run(&["list"]).await;
            if row(&run, name).contains(words) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_last_words_of_a_process_are_shown_everywhere() {
    let home = Home::new();
    let script = "echo 'Error: API_KEY is required' >&2; echo 'Node.js v22.1.0' >&2; exit 3";
    let config = json!({"mcpServers": {
        "down": {"command": "sh", "args": ["-c", script], "restart": {"mode": "never"}},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    let why = "process exited unexpectedly (code 3)";
    let said = daemon.says(why).await;
    let step = r#"see "mainstay logs down", then "mainstay start down""#;
    assert!(said.ends_with(step), "{said}");
    daemon.says("| Error: API_KEY is required").await;
    let whole = format!("{why}: Error: API_KEY is required; {step}");
    for command in [&["list"][..], &["get", "down"], &["health"]] {
        let run = home.run(command).await;
        assert!(run.stdout.contains(&whole), "{run}");
    }
    let run = home.run(&["call", "down/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains(&whole), "{run}");

    // What it said before is no reason for what its operator wants.
    let run = home.run(&["disable", "down"]).await;
    assert_eq!(run.stdout, "down is disabled\n", "{run}");
    let run = home.run(&["list"]).await;
    let enable = r#"enable it by "mainstay enable down""#;
    assert!(row(&run, "down").ends_with(enable), "{run}");
    let run = home.run(&["health", "down"]).await;
    assert!(row(&run, "down").ends_with(enable), "{run}");
    let run = home.run(&["call", "down/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("Server 'down' is disabled"), "{run}");
    assert!(!run.stderr.contains("API_KEY"), "{run}");
    daemon.stop().await;
}

#[tokio::test]
async fn what_goes_wrong_over_http_is_said_in_words() {
    let home = Home::new();
    let host = listening().await;
    let local = |path: &str| format!("http://{host}/{path}");
    let speaks_tls = format!("the server at {host} speaks TLS; write https:// in `url`");
    let cases = [
        (
            "plain",
            format!("https://{host}/mcp"),
            format!("the server at {host} speaks plain HTTP; write http:// in `url`"),
        ),
        ("tls", local("tls"), speaks_tls.clone()),
        ("https", local("https"), speaks_tls),
        (
            "closed",
            local("closed"),
            format!("{host} closed the connection without an answer"),
        ),
        (
            "moved",
            local("moved"),
            "the server redirects to https://login.example.com/in (HTTP 302)".to_owned(),
        ),
        (
            "missing",
            local("404"),
            format!("is spoken at {}; check the path of `url`", local("404")),
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
            local("401"),
            "HTTP 401: the server wants credentials; set `bearerToken` or `headers`".to_owned(),
        ),
        (
            "forbids",
            local("403"),
            "HTTP 403: the server forbids access; set `bearerToken` or `headers` if".to_owned(),
        ),
    ];
    let servers = cases.iter();
    let servers = servers.map(|(name, url, _)| ((*name).to_owned(), json!({"url": url})));
    let mut servers: serde_json::Map<String, Value> = servers.collect();
    for (name, path) in [("stale", "401"), ("lacking", "403")] {
        let entry = json!({"url": local(path), "bearerToken": "old"});
        servers.insert(name.to_owned(), entry);
    }
    let config = json!({"mcpServers": servers});
    let config = home.file("servers.json", &config.to_string());
    let daemon = home.serve(&["--config", &config]).await;
    for (name, _, words) in &cases {
        until_listed(&home, name, words).await;
    }
    let refused = "HTTP 401: the server does not accept the credentials; renew";
    until_listed(&home, "stale", refused).await;
    let lacking = "HTTP 403: the server forbids access; the credentials lack a permission";
    until_listed(&home, "lacking", lacking).await;
    let run = home.run(&["list"]).await;
    assert!(!run.stdout.contains("s3cret"), "{run}");
    daemon.stop().await;
}

/// A call waits for a server that has never been up as long as for one that is coming back.
#[tokio::test]
async fn a_call_of_a_server_that_never_comes_up_ends_in_time() {
    let home = Home::new();
    let config = json!({"mcpServers": {
        "hangs": {"command": "sleep", "args": ["1000"], "timeout_s": 1},
        "later": {"command": "sleep", "args": ["1000"], "autoStart": false},
    }});
    let config = home.file("servers.json", &config.to_string());
    let mut daemon = home.serve(&["--config", &config]).await;
    let said = daemon.says("later").await;
    let start = r#"not started by itself; start it by "mainstay start later""#;
    assert!(said.ends_with(start), "{said}");
    let run = home.run(&["call", "hangs/x"]).await;
    assert_eq!(run.code, Some(5), "{run}");
    let late = "timeout after 1 s: Server 'hangs' is connecting";
    assert!(run.stderr.contains(late), "{run}");
    let run = home.run(&["call", "later/x"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    let stopped = "Server 'later' is disconnected: it is stopped";
    assert!(run.stderr.contains(stopped), "{run}");
    let list = home.run(&["list"]).await;
    assert!(row(&list, "later").ends_with(start), "{list}");
    daemon.stop().await;
}
