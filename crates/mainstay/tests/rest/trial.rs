//! `POST /api/servers/try`: starts a server once, and does not store it.

use std::{fs, path::Path};

use http::{Method, StatusCode};
use mainstay_core::config::Secret;
use mainstay_testkit::{found, limits::IN_PROCESS, within};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tower_service::Service as _;

use crate::{
    TOKEN,
    world::{RestDaemon, fake, fake_entry, request, until},
};

/// True if this process runs. A zombie does not count.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    let state = stat.ok().and_then(|stat| {
        let (_, state) = stat.rsplit_once(") ")?;
        state.chars().next()
    });
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// An entry of a fake that never answers. It writes its process id into this file.
fn silent_entry(file: &Path) -> Value {
    let script = format!(
        "echo $$ > '{}'; exec '{}' --hang-at-start",
        file.display(),
        fake()
    );
    json!({"command": "sh", "args": ["-c", script]})
}

fn pid_in(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.ends_with('\n').then(|| text.trim().to_owned())
}

#[tokio::test]
async fn a_trial_lists_the_tools_and_leaves_nothing() {
    let world = RestDaemon::with_servers(json!({"one": fake_entry(&[])})).await;
    let previous_response = world.get("/api/servers").await["servers"][0].clone();
    let mut entry = fake_entry(&["--spawn-grandchild", "--token", "s3cret"]);
    entry["args"] = json!(["--spawn-grandchild", "--name", "tried"]);
    entry["env"] = json!({"API_KEY": "s3cret"});
    entry["name"] = "one".into();
    entry["persist"] = true.into();
    let (status, run) = world.post("/api/servers/try", &entry).await;
    assert_eq!(status, StatusCode::OK, "{run}");
    assert_eq!(
        (&run["success"], &run["name"]),
        (&json!(true), &json!("one")),
        "{run}"
    );
    assert_eq!(
        run["shown"],
        json!({"command": [fake(), "--spawn-grandchild", "--name", "tried"], "env": ["API_KEY"], "headers": []})
    );
    assert_eq!(run["server"]["name"], "tried");
    assert!(
        run["protocolVersion"]
            .as_str()
            .is_some_and(|text| text.starts_with("20")),
        "{run}"
    );
    assert!(run["handshakeMs"].is_u64(), "{run}");
    let tools = run["tools"].as_array().expect("tools");
    let echo = tools
        .iter()
        .find(|tool| tool["name"] == "echo")
        .expect("echo");
    assert!(
        echo["description"]
            .as_str()
            .is_some_and(|description| description.starts_with("returns its text")),
        "{echo}"
    );
    assert!(
        run["resourceCount"].as_u64() > Some(0) && run["promptCount"].as_u64() > Some(0),
        "{run}"
    );
    assert!(
        run.get("error").is_none() && run.get("nextStep").is_none(),
        "{run}"
    );
    assert!(!run.to_string().contains("s3cret"), "{run}");
    let stderr = run["stderr"].as_array().expect("lines").iter();
    let mut stderr = stderr.filter_map(Value::as_str);
    let grandchild = stderr.find_map(|line| line.strip_prefix("grandchild "));
    assert!(!is_running(grandchild.expect("its id")));
    // The configured server has not been restarted, and the file is unchanged.
    let after = world.get("/api/servers").await["servers"].clone();
    assert_eq!(after.as_array().map(Vec::len), Some(1));
    assert_eq!(after[0]["pid"], previous_response["pid"]);
    assert_eq!(after[0]["connectedAt"], previous_response["connectedAt"]);
    assert!(!world.text().contains("tried"));
    world.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let world = RestDaemon::with_servers(json!({})).await;
    let (status, run) = world
        .post("/api/servers/try", &fake_entry(&["--crash-at-start", "7"]))
        .await;
    assert_eq!(status, StatusCode::OK, "{run}");
    assert_eq!(
        (&run["success"], &run["name"]),
        (&json!(false), &json!("trial"))
    );
    assert_eq!(
        run["stderr"],
        json!(["the fake crashes at start with code 7"])
    );
    let error = run["error"].as_str().expect("a reason");
    assert!(
        error.contains("code 7") && error.contains("crashes at start"),
        "{error}"
    );
    assert!(
        run["nextStep"]
            .as_str()
            .is_some_and(|text| text.contains("try it again")),
        "{run}"
    );
    assert_eq!(
        (&run["tools"], &run["resourceCount"]),
        (&json!([]), &json!(0))
    );
    // Entries that are disabled and entries with a URL can also be tried.
    for (entry, reason) in [
        (
            json!({"command": "no-such-tool-anywhere", "enabled": false}),
            "no-such-tool-anywhere",
        ),
        (
            json!({"url": "http://127.0.0.1:1/mcp?key=s3cret", "name": "web"}),
            "127.0.0.1:1",
        ),
    ] {
        let (status, run) = world.post("/api/servers/try", &entry).await;
        assert_eq!(status, StatusCode::OK, "{run}");
        assert!(
            run["error"]
                .as_str()
                .is_some_and(|text| text.contains(reason)),
            "{run}"
        );
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
    world.end().await;
}

#[tokio::test]
async fn an_entry_that_is_invalid_is_not_tried() {
    let world = RestDaemon::with_servers(json!({})).await;
    for (entry, error) in [
        (json!({"command": "x", "args": 7}), "invalid_config"),
        (json!({}), "invalid_config"),
        (json!({"command": "x", "name": "a/b"}), "invalid_config"),
        (json!({"command": "x", "name": 7}), "invalid_request"),
        (
            json!({"command": "x", "env": {"A": "${secret:/gone}"}}),
            "invalid_config",
        ),
        (json!([]), "invalid_request"),
    ] {
        let (status, answer) = world.post("/api/servers/try", &entry).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!(error)),
            "{entry}: {answer}"
        );
    }
    let (_, answer) = world
        .post("/api/servers/try", &json!({"command": "x", "args": 7}))
        .await;
    let finding = &answer["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["path"]),
        (&json!("error"), &json!("args")),
        "{answer}"
    );
    assert!(finding["message"].is_string(), "{answer}");
    assert!(finding.get("line").is_none(), "{answer}");
    world.end().await;
}

/// The number of concurrent trials is limited. A trial ends when its caller disconnects.
#[tokio::test]
async fn trials_are_bounded_and_end_with_their_callers() {
    let world = RestDaemon::with_servers(json!({})).await;
    let mut files = Vec::new();
    let mut callers = Vec::new();
    for number in 0..4 {
        let file = world.folder.path().join(number.to_string());
        let mut router = world.router.clone();
        let request = request(Method::POST, "/api/servers/try", Some(&silent_entry(&file)));
        callers.push(tokio::spawn(async move { router.call(request).await }));
        files.push(file);
    }
    until("all of them run", || {
        files.iter().all(|file| pid_in(file).is_some())
    })
    .await;
    let entry = fake_entry(&[]);
    let (status, answer) = world.post("/api/servers/try", &entry).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("too_many_trials")),
        "{answer}"
    );
    for caller in &callers {
        caller.abort();
    }
    for file in &files {
        let pid = pid_in(file).expect("its id");
        until("it is gone", || !is_running(&pid)).await;
    }
    let actual_status = found(IN_PROCESS, "room for another", async || {
        let (status, _) = world.post("/api/servers/try", &entry).await;
        (status != StatusCode::SERVICE_UNAVAILABLE).then_some(status)
    });
    assert_eq!(actual_status.await, StatusCode::OK);
    world.end().await;
}

/// If the connection closes, the trial ends. It also ends when the daemon stops.
#[tokio::test]
async fn a_closed_connection_ends_a_trial_and_so_does_the_daemon() {
    let world = RestDaemon::with_servers(json!({})).await;
    let (listener, address) = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("bound");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    };
    let doors = world
        .daemon
        .serve_http(listener, address, Secret::new(TOKEN));
    let file = world.folder.path().join("closed");
    let body = silent_entry(&file).to_string();
    let mut caller = TcpStream::connect(address).await.expect("connected");
    let head = format!(
        "POST /api/servers/try HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    caller.write_all(head.as_bytes()).await.expect("sent");
    until("it runs", || pid_in(&file).is_some()).await;
    drop(caller);
    let pid = pid_in(&file).expect("its id");
    until("it is gone", || !is_running(&pid)).await;

    let file = world.folder.path().join("stopped");
    let mut router = world.router.clone();
    let request = request(Method::POST, "/api/servers/try", Some(&silent_entry(&file)));
    let caller = tokio::spawn(async move { router.call(request).await });
    until("it runs", || pid_in(&file).is_some()).await;
    within(world.daemon.stop(Some(doors))).await;
    assert!(!is_running(&pid_in(&file).expect("its id")));
    let answer = caller.await.expect("no panic").expect("infallible");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// A server may be named `try`. Its own routes still work.
#[tokio::test]
async fn a_server_called_try_has_its_routes() {
    let world = RestDaemon::with_servers(json!({"try": fake_entry(&[])})).await;
    let (status, answer) = world.send(Method::PATCH, "/api/servers/try", None).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed"))
    );
    let details = world.get("/api/servers/try").await;
    assert_eq!(details["server"]["name"], "try");
    let mut entry = details["entry"].clone();
    entry["autoStart"] = false.into();
    entry["persist"] = true.into();
    let (status, answer) = world.put("/api/servers/try", &entry).await;
    assert_eq!(
        (status, &answer["name"]),
        (StatusCode::OK, &json!("try")),
        "{answer}"
    );
    let (status, answer) = world
        .send(Method::DELETE, "/api/servers/try?persist=true", None)
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(!world.text().contains("try"));
    world.end().await;
}
