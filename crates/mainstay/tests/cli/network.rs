//! Address families of the daemon, and proxies.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv6Addr, TcpListener},
    sync::mpsc::{Receiver, channel},
};

use mainstay_testkit::{Home, Run, Running, get, home, within};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Occupies a port of the IPv6 loopback. `None` if there is no IPv6.
fn occupied_port() -> Option<(TcpListener, u16)> {
    let other_listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok()?;
    let port = other_listener.local_addr().expect("an address").port();
    Some((other_listener, port))
}

/// Runs `serve` at this address.
fn serve(home: &Home, listen: &str) -> Running {
    let config = home.file("servers.json", r#"{"mcpServers": {}}"#);
    Running::start(home.command(&["serve", "--config", &config, "--listen", listen]))
}

async fn end(mut daemon: Running) {
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0));
}

/// The URL in the daemon's line about its address.
async fn url(daemon: &mut Running) -> String {
    let line = daemon.wait_for_stderr(" serves ").await;
    let (_, url) = line.split_once(" serves ").expect("it was found");
    url.strip_suffix("/mcp").expect("an endpoint").to_owned()
}

fn findings(run: &Run) -> Vec<Value> {
    run.json().as_array().expect("an array").clone()
}

fn find<'f>(findings: &'f [Value], id: &str) -> Option<&'f Value> {
    findings.iter().find(|finding| finding["id"] == id)
}

#[tokio::test]
async fn localhost_is_served_on_both_families() {
    let Some((other_listener, _)) = occupied_port() else {
        return;
    };
    drop(other_listener);
    let home = home!();
    let mut daemon = serve(&home, "localhost:0");
    let url = url(&mut daemon).await;
    let port = url
        .strip_prefix("http://127.0.0.1:")
        .expect("IPv4 is named");
    for url in [&url, &format!("http://[::1]:{port}")] {
        let answer = get(url, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(
        !daemon.stderr_text.contains("warning"),
        "{}",
        daemon.stderr_text
    );
    let all_run = findings(&home.run(&["doctor", "--json"]).await);
    assert!(find(&all_run, "daemon.running").is_some(), "{all_run:#?}");
    assert!(
        find(&all_run, "port.other_family").is_none(),
        "{all_run:#?}"
    );
    end(daemon).await;
}

/// If another program uses the port on the other loopback family, `serve` and `doctor` report it.
#[tokio::test]
async fn another_program_at_the_other_family_is_told() {
    for name in ["127.0.0.1", "localhost"] {
        let Some((other_listener, port)) = occupied_port() else {
            return;
        };
        let home = home!();
        let warning = format!(
            "another program listens on [::1]:{port}, and clients that are told http://localhost:{port} may reach that one"
        );
        let listen = format!("{name}:{port}");
        let is_told = async || {
            let arguments = ["doctor", "--json", "--listen", &listen];
            let all_run = findings(&home.run(&arguments).await);
            let finding = find(&all_run, "port.other_family");
            let finding = finding.unwrap_or_else(|| panic!("{all_run:#?}"));
            assert_eq!(
                (&finding["what"], &finding["level"]),
                (&json!(warning), &json!("warning"))
            );
        };
        is_told().await;
        let mut daemon = serve(&home, &listen);
        assert_eq!(url(&mut daemon).await, format!("http://127.0.0.1:{port}"));
        daemon.wait_for_stderr(&format!("warning: {warning}")).await;
        is_told().await;
        drop(other_listener);
        let all_run = findings(&home.run(&["doctor", "--json"]).await);
        assert!(
            find(&all_run, "port.other_family").is_none(),
            "{all_run:#?}"
        );
        end(daemon).await;
    }
}

/// Starts a proxy that gives `answer` to each request. The receiver gets the first line of the request.
fn proxy(answer: &'static str) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            stream.write_all(answer.as_bytes()).ok();
            let request = String::from_utf8_lossy(&request[..read]);
            let line = request.lines().next().unwrap_or_default().to_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

const PROXY_VARIABLES: [&str; 8] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// Servers are reached through the proxy of the environment, unless a variable excepts them. Reasons of
/// failures and `doctor` name the proxy without its password.
#[tokio::test]
async fn servers_are_reached_through_the_proxy_of_the_environment() {
    let home = home!();
    let config = json!({"mcpServers": {
        "far": {"type": "http", "url": "https://mcp.invalid/mcp?key=sk-1"},
        "plain": {"type": "http", "url": "http://mcp.invalid/mcp"},
        "near": {"type": "http", "url": "https://127.0.0.1:1/mcp"},
    }});
    let config = home.file("servers.json", &config.to_string());
    let examine = async |variables: &[(&str, &str)]| {
        let arguments = [
            "doctor",
            "--config",
            &config,
            "--json",
            "--listen",
            "127.0.0.1:0",
        ];
        let mut command = home.command(&arguments);
        for name in PROXY_VARIABLES {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let output = within(command.output()).await.expect("it starts");
        findings(&Run::new(&arguments, &output))
    };
    let reason = |findings: &[Value], server: &str| {
        let mut down_findings = findings
            .iter()
            .filter(|finding| finding["id"] == "server.down");
        let down_finding = down_findings
            .find(|finding| finding["server"] == server)
            .expect("it is down");
        down_finding["what"].as_str().expect("text").to_owned()
    };
    let (port, requests) = proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    let url = format!("http://user:hunter2@127.0.0.1:{port}");
    let proxy = ("ALL_PROXY", url.as_str());
    let findings = examine(&[proxy]).await;
    let refused = format!(
        "the proxy http://127.0.0.1:{port} (ALL_PROXY) does not accept the user and password in ALL_PROXY"
    );
    for server in ["far", "plain"] {
        assert!(
            reason(&findings, server).ends_with(&refused),
            "{findings:#?}"
        );
    }
    assert!(
        !reason(&findings, "near").contains("PROXY"),
        "{findings:#?}"
    );
    let note = find(&findings, "network.proxy").expect("a note");
    let text =
        format!("far, plain are reached through the proxy http://127.0.0.1:{port} (ALL_PROXY)");
    assert_eq!(note["what"], json!(text));
    assert!(
        !json!(findings).to_string().contains("hunter2"),
        "{findings:#?}"
    );
    let lines: Vec<String> = requests.try_iter().collect();
    for start in ["CONNECT mcp.invalid:443 ", "POST http://mcp.invalid/mcp "] {
        assert!(
            lines.iter().any(|line| line.starts_with(start)),
            "{lines:?}"
        );
    }
    for variables in [&[][..], &[proxy, ("NO_PROXY", "localhost,.invalid")]] {
        let findings = examine(variables).await;
        assert!(!reason(&findings, "far").contains("PROXY"), "{findings:#?}");
        assert!(find(&findings, "network.proxy").is_none(), "{findings:#?}");
    }
    assert_eq!(requests.try_iter().count(), 0);
    let findings = examine(&[("HTTPS_PROXY", "socks5://user:hunter2@proxy:1080")]).await;
    let unusable = find(&findings, "network.proxy_unusable").expect("an error");
    assert_eq!(unusable["server"], "far");
    assert!(
        !json!(findings).to_string().contains("hunter2"),
        "{findings:#?}"
    );
}

/// Downloads also use the proxy of the environment.
#[tokio::test]
async fn a_registry_is_asked_through_the_proxy_of_the_environment() {
    let home = home!();
    let (port, requests) = proxy("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    let arguments = ["search", "thing", "--registry", "http://registry.invalid"];
    let mut command = home.command(&arguments);
    for name in PROXY_VARIABLES {
        command.env_remove(name);
    }
    command.env("http_proxy", format!("127.0.0.1:{port}"));
    let output = within(command.output()).await.expect("it starts");
    assert!(!output.status.success());
    let line = requests.try_recv().expect("a request");
    assert!(line.starts_with("GET http://registry.invalid/"), "{line}");
}

/// Starts a server that answers every request with 401. Returns its URL.
fn start_refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let read_message = stream.read(&mut request).unwrap_or_default();
            if read_message > 0 {
                let answer =
                    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    format!("http://{address}/mcp")
}

/// The repair for a 401 names the variable or the file that the credential comes from.
#[tokio::test]
async fn refused_credentials_are_traced_to_where_they_come_from() {
    let home = home!();
    let key = home.file("key", "k\n");
    let url = start_refusing_server();
    let config = json!({"mcpServers": {
        "none": {"type": "http", "url": url},
        "variable": {"type": "http", "url": url, "bearerToken": "${MAINSTAY_TEST_TOKEN}"},
        "file": {"type": "http", "url": url, "headers": {"X-Api-Key": format!("${{file:{key}}}")}},
    }});
    let config = home.file("servers.json", &config.to_string());
    let arguments = [
        "doctor",
        "--config",
        &config,
        "--json",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut command = home.command(&arguments);
    command.env("MAINSTAY_TEST_TOKEN", "t");
    let output = within(command.output()).await.expect("it starts");
    let all_findings = findings(&Run::new(&arguments, &output));
    for (server, expected) in [
        (
            "none",
            "none has no credentials: give its entry `bearerToken` or `headers`".to_owned(),
        ),
        (
            "variable",
            "export MAINSTAY_TEST_TOKEN=… && mainstay serve  # `bearerToken`".to_owned(),
        ),
        (
            "file",
            format!("${{EDITOR:-vi}} {key} && mainstay restart file  # `headers.X-Api-Key`"),
        ),
    ] {
        let mut down_findings = all_findings
            .iter()
            .filter(|finding| finding["id"] == "server.down");
        let down_finding = down_findings
            .find(|finding| finding["server"] == server)
            .expect("it is down");
        let mend_text = down_finding["mend"].as_str().expect("text");
        assert!(mend_text.contains(&expected), "{down_finding}");
    }
}
