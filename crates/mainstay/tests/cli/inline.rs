//! `serve` with servers from its command line, or from a file that a flag names.

use fake_server::{Fake, Script};
use mainstay_testkit::{Home, found, home, limits::PROGRAMS};
use serde_json::json;

use crate::control::call_as;

/// Asserts that exactly these servers exist, and that each answers a call.
async fn assert_connected(home: &Home, expected: &[&str]) {
    let list_output = home.run(&["list", "--json"]).await.json();
    let servers = list_output["servers"].as_array().expect("a list").iter();
    let (names, statuses): (Vec<_>, Vec<_>) = servers
        .map(|server| (&server["name"], &server["status"]))
        .unzip();
    assert_eq!(names, expected);
    assert!(
        statuses.iter().all(|status| *status == "connected"),
        "{list_output}"
    );
    for name in expected {
        let run = home
            .run(&["call", &format!("{name}/echo"), "text=hello"])
            .await;
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{run}");
    }
}

/// `--mcp-client` may be repeated and needs no file. It accepts commands and URLs.
#[tokio::test]
async fn servers_of_the_command_line_alone_are_connected() {
    let home = home!();
    let program = fake_server::binary();
    let sse = Fake::sse(Script::default()).await.expect("a free port");
    let http = Fake::http(Script::default()).await.expect("a free port");
    let flags = [
        format!("process:{} stdio", program.display()),
        format!("stream:{}", sse.url()),
        format!("web:{}", http.url()),
    ];
    let arguments: Vec<&str> = flags
        .iter()
        .flat_map(|flag| ["--mcp-client", flag])
        .collect();
    let mut daemon = home.serve(&arguments).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    assert_connected(&home, &["process", "stream", "web"]).await;
    daemon.stop().await;
}

/// `--mcp-clients-config` adds the servers of that file.
#[tokio::test]
async fn servers_of_a_named_file_are_connected() {
    let home = home!();
    let program = fake_server::binary();
    let sse = Fake::sse(Script::default()).await.expect("a free port");
    let config = json!({"servers": {
        "process": {"transport": "stdio", "command": program, "args": ["stdio"]},
        "stream": {"transport": "sse", "url": sse.url()},
    }});
    let config = home.file("clients.json", &config.to_string());
    let other_server = format!("beside:{}", program.display());
    let arguments = [
        "--mcp-clients-config",
        &config,
        "--mcp-client",
        &other_server,
    ];
    let mut daemon = home.serve(&arguments).await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    assert_connected(&home, &["process", "stream", "beside"]).await;
    daemon.stop().await;
}

/// The flag selects the preset of its document: a failed first attempt leads to the status `error`,
/// and `/mcp` has the own tools.
#[tokio::test]
async fn a_named_file_brings_its_own_behaviour() {
    let home = home!();
    let config =
        json!({"servers": {"_missing__one": {"transport": "stdio", "command": "no-such-command"}}});
    let config = home.file("clients.json", &config.to_string());
    let daemon = home.serve(&["--mcp-clients-config", &config]).await;
    let url = daemon.url.clone();
    found(PROGRAMS, "an error", async || {
        let servers = home.run(&["list", "--json"]).await.json();
        let server = &servers["servers"][0];
        (server["name"] == "_missing__one" && server["status"] == "error").then_some(())
    })
    .await;
    let no_arguments = json!({});
    let answer = call_as(&home, &url, "any", "external_list_servers", &no_arguments).await;
    assert!(answer.contains("_missing__one"), "{answer}");
    let arguments = json!({"cid": "unknown"});
    let answer = call_as(&home, &url, "any", "breakpoint_inspect_object", &arguments).await;
    assert!(!answer.contains("Unknown tool"), "{answer}");
    daemon.stop().await;
}

/// The hint about a server from the command line does not name a file.
#[tokio::test]
async fn advice_about_a_server_of_the_command_line_names_no_file() {
    let home = home!();
    let daemon = home.serve(&["--mcp-client", "bad:http://["]).await;
    let run = home.run(&["list"]).await;
    let advice = "start Mainstay again with an --mcp-client for bad that can be used";
    assert!(run.stdout.contains(advice), "{run}");
    let doctor = home.run(&["doctor"]).await;
    assert!(doctor.stdout.contains(advice), "{doctor}");
    for run in [run, doctor] {
        assert!(!run.stdout.contains("correct its entry"), "{run}");
    }
    let servers = home.run(&["get", "bad"]).await;
    assert!(!servers.stdout.contains("config.json"), "{servers}");
    daemon.stop().await;
}
