//! The owner of a resource that is in no list. Mainstay asks all servers at the same time, for at
//! most two seconds. These requests have no records as calls.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, StatusCode};
use mainstay_core::{config, record::Status};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Journal, RecordFilter};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    client::{cancelled, value},
    gateway::{Gateway, soon, until},
    modern::Modern,
    rogue::{self, RogueInput, RogueReply},
};

const URI: &str = "secret://somewhere";

/// The way in which a server answers `resources/read`.
#[derive(Clone, Copy)]
enum Reads {
    /// The server has every resource.
    All(&'static str),
    /// The server has every resource, but answers late.
    Slowly(&'static str),
    Nothing,
    /// The server does not answer.
    Never,
}

/// A server whose resources are in no list.
struct Secretive {
    entry: Value,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Secretive {
    async fn start(reads: Reads) -> Self {
        let received_messages = Arc::new(Mutex::new(Vec::new()));
        let entry = rogue::start_scripted({
            let received_messages = Arc::clone(&received_messages);
            move |message| {
                let RogueInput::Message(message) = message else {
                    return None;
                };
                received_messages
                    .lock()
                    .expect("no panic")
                    .push(message.clone());
                answer(reads, message)
            }
        });
        Self {
            entry: entry.await,
            received: received_messages,
        }
    }

    fn count(&self, method: &str) -> usize {
        let messages = self.received.lock().expect("no panic");
        messages
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }
}

fn answer(reads: Reads, message: &Value) -> Option<RogueReply> {
    let id = &message["id"];
    let read_response = |text: &str| {
        let content = json!({"uri": message["params"]["uri"], "text": text});
        rogue::result(id, &json!({"contents": [content]}))
    };
    Some(RogueReply::Http(match message["method"].as_str()? {
        "initialize" => rogue::greeting(id, &json!({"resources": {"subscribe": true}})),
        "resources/list" => rogue::result(id, &json!({"resources": []})),
        "resources/templates/list" => rogue::result(id, &json!({"resourceTemplates": []})),
        "resources/subscribe" | "resources/unsubscribe" => rogue::result(id, &json!({})),
        "resources/read" => match reads {
            Reads::All(text) => read_response(text),
            Reads::Slowly(text) => {
                return Some(RogueReply::Late(
                    Duration::from_millis(300),
                    read_response(text),
                ));
            }
            Reads::Nothing => rogue::error(id, -32002, "Resource not found"),
            Reads::Never => return Some(RogueReply::Never),
        },
        _ => return None,
    }))
}

/// A gateway with a journal. Its servers are `s0`, `s1` and so on.
struct RecordedServers {
    gateway: Gateway,
    servers: Vec<Secretive>,
    journal: Arc<Journal>,
    _folder: TempDir,
}

impl RecordedServers {
    async fn with_servers(reads: &[Reads]) -> Self {
        let mut servers = Vec::new();
        for reads in reads {
            servers.push(Secretive::start(*reads).await);
        }
        let named_servers = servers.iter().enumerate();
        let entries =
            named_servers.map(|(number, server)| (format!("s{number}"), server.entry.clone()));
        let config = json!({"mcpServers": Value::Object(entries.collect())});
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = config::Journal::default();
        let journal = mainstay_journal_store::open(folder.path(), &settings).expect("a journal");
        let journal = Arc::new(journal);
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::with_options(&config, options).await;
        let rest = gateway.rest();
        for number in 0..servers.len() {
            rest.until_status(&format!("s{number}"), "connected").await;
        }
        Self {
            gateway,
            servers,
            journal,
            _folder: folder,
        }
    }

    /// The server and the status of each record.
    async fn records(&self) -> Vec<(Option<String>, Status)> {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(RecordFilter::default(), 100).await;
        let calls = page.expect("it reads").calls.into_iter();
        calls
            .map(|call| (call.target.server.map(|name| name.to_string()), call.status))
            .collect()
    }

    /// The lines of `/metrics` that count calls of the server.
    async fn counted(&self, server: &str) -> Vec<String> {
        let door = self.gateway.stranger("/metrics");
        let answer = door.send(Method::GET, door.headers("*/*"), "").await;
        let text = answer.whole().await.text;
        let label = format!("server=\"{server}\"");
        let lines = text.lines().filter(|line| line.contains(&label));
        let counts = |line: &&str| {
            let value = line.rsplit(' ').next().and_then(|value| value.parse().ok());
            line.contains("call") && value != Some(0.0)
        };
        let lines = lines.filter(counts);
        lines.map(str::to_owned).collect()
    }
}

/// Servers that do not answer or lack the resource delay the client by at most two seconds. They
/// get no failed call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_is_found_beside_servers_that_hang() {
    use Reads::{All, Never, Nothing};
    for door in ["sessions", "no sessions", "REST"] {
        let fixture = RecordedServers::with_servers(&[Never, Nothing, Never, All("found")]).await;
        let gateway = &fixture.gateway;
        let params = json!({"uri": URI});
        let read_client = soon("the resource", async {
            match door {
                "sessions" => {
                    let client = gateway.client().await;
                    client.result("resources/read", params).await
                }
                "no sessions" => {
                    let client = Modern::at(gateway, "/mcp");
                    client.result("resources/read", params).await
                }
                _ => {
                    let rest = gateway.rest();
                    let (status, read_client) = rest.post("/api/resources/read", params).await;
                    assert_eq!(status, StatusCode::OK, "{read_client}");
                    read_client["result"].clone()
                }
            }
        });
        let read_client = read_client.await;
        assert_eq!(
            read_client["contents"][0]["text"], "found",
            "{door}: {read_client}"
        );
        let records = fixture.records().await;
        assert_eq!(records, [(Some("s3".to_owned()), Status::Ok)], "{door}");
        for silent_server in ["s0", "s1", "s2"] {
            assert_eq!(fixture.counted(silent_server).await, [""; 0], "{door}");
        }
    }
}

/// If several servers have the resource, the first one of the configuration owns it. Mainstay
/// remembers the owner.
#[tokio::test]
async fn the_first_of_several_owners_counts() {
    let fixture = RecordedServers::with_servers(&[
        Reads::Nothing,
        Reads::Slowly("first"),
        Reads::All("second"),
    ])
    .await;
    let client = fixture.gateway.client().await;
    for _ in 0..2 {
        let read_result = client.result("resources/read", json!({"uri": URI})).await;
        assert_eq!(read_result["contents"][0]["text"], "first", "{read_result}");
    }
    let reads: Vec<usize> = fixture
        .servers
        .iter()
        .map(|server| server.count("resources/read"))
        .collect();
    assert_eq!(reads, [1, 3, 1]);
}

/// If no server has the resource, one refused call is recorded, and no failure of a server.
#[tokio::test]
async fn a_resource_that_nobody_has_is_refused_once() {
    for door in ["sessions", "REST"] {
        let fixture = RecordedServers::with_servers(&[Reads::Nothing, Reads::Nothing]).await;
        if door == "REST" {
            let rest = fixture.gateway.rest();
            let (status, answer) = rest.post("/api/resources/read", json!({"uri": URI})).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        } else {
            let client = fixture.gateway.client().await;
            let error = client.error("resources/read", json!({"uri": URI})).await;
            assert_eq!(error["code"], -32002, "{error}");
        }
        assert_eq!(fixture.records().await, [(None, Status::Refused)], "{door}");
        for server in ["s0", "s1"] {
            assert_eq!(fixture.counted(server).await, [""; 0], "{door}");
        }
    }
}

/// If the call is cancelled, so are the requests to all servers.
#[tokio::test]
async fn a_search_is_cancelled_with_its_call() {
    let fixture = RecordedServers::with_servers(&[Reads::Never, Reads::Never]).await;
    let client = fixture.gateway.client().await;
    let request = client.request_text("resources/read", &json!({"uri": URI}).to_string());
    let id = value(&request)["id"].clone();
    let all_asked = || {
        let mut remaining = fixture.servers.iter();
        remaining.all(|server| server.count("resources/read") == 1)
    };
    let (answer, ()) = tokio::join!(client.post(request), async {
        until("the search", all_asked).await;
        client.post(cancelled(&id)).await;
    });
    assert!(answer.text.contains("cancelled"), "{}", answer.text);
    until("the servers to be told", || {
        let mut remaining = fixture.servers.iter();
        remaining.all(|server| server.count("notifications/cancelled") == 1)
    })
    .await;
    assert_eq!(fixture.records().await, [(None, Status::Cancelled)]);
}

/// A subscription finds the owner in the same way. It is sent only to the owner.
#[tokio::test]
async fn a_subscription_finds_the_owner_beside_servers_that_hang() {
    use Reads::{All, Never, Nothing};
    let fixture =
        RecordedServers::with_servers(&[Never, Nothing, All("found"), All("later")]).await;
    let client = Modern::at(&fixture.gateway, "/mcp");
    let expected = json!({"notifications": {"resourceSubscriptions": [URI]}});
    let mut stream = client.begin("subscriptions/listen", expected).await;
    let first = soon("the acknowledgement", stream.message()).await;
    assert_eq!(
        first["method"], "notifications/subscriptions/acknowledged",
        "{first}"
    );
    let honoured_uris = &first["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured_uris, json!([URI]), "{first}");
    let client = fixture.gateway.client().await;
    client
        .result("resources/subscribe", json!({"uri": URI}))
        .await;
    let subscriptions: Vec<usize> = fixture
        .servers
        .iter()
        .map(|server| server.count("resources/subscribe"))
        .collect();
    assert_eq!(subscriptions, [0, 0, 1, 0]);
}
