//! Whose a resource is that no list and no template names: the servers are asked side by side, within
//! two seconds, and being asked is no call.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, StatusCode};
use mainstay_core::{config, record::Status};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Filter, Journal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    client::{cancelled, value},
    gateway::{Gateway, soon, until},
    modern::Modern,
    rogue::{self, Heard, Reply},
};

const URI: &str = "secret://somewhere";

/// What a server makes of `resources/read`.
#[derive(Clone, Copy)]
enum Reads {
    /// It has every resource.
    All(&'static str),
    /// The same, after a while.
    Slowly(&'static str),
    Nothing,
    /// It does not answer.
    Never,
}

/// A server with resources that it lists nowhere.
struct Secretive {
    entry: Value,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Secretive {
    async fn start(reads: Reads) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let entry = rogue::start_scripted({
            let heard = Arc::clone(&heard);
            move |message| {
                let Heard::Message(message) = message else {
                    return None;
                };
                heard.lock().expect("no panic").push(message.clone());
                answer(reads, message)
            }
        });
        Self {
            entry: entry.await,
            heard,
        }
    }

    fn count(&self, method: &str) -> usize {
        let heard = self.heard.lock().expect("no panic");
        heard.iter().filter(|it| it["method"] == method).count()
    }
}

fn answer(reads: Reads, message: &Value) -> Option<Reply> {
    let id = &message["id"];
    let read = |text: &str| {
        let content = json!({"uri": message["params"]["uri"], "text": text});
        rogue::result(id, &json!({"contents": [content]}))
    };
    Some(Reply::Http(match message["method"].as_str()? {
        "initialize" => rogue::greeting(id, &json!({"resources": {"subscribe": true}})),
        "resources/list" => rogue::result(id, &json!({"resources": []})),
        "resources/templates/list" => rogue::result(id, &json!({"resourceTemplates": []})),
        "resources/subscribe" | "resources/unsubscribe" => rogue::result(id, &json!({})),
        "resources/read" => match reads {
            Reads::All(text) => read(text),
            Reads::Slowly(text) => {
                return Some(Reply::Late(Duration::from_millis(300), read(text)));
            }
            Reads::Nothing => rogue::error(id, -32002, "Resource not found"),
            Reads::Never => return Some(Reply::Never),
        },
        _ => return None,
    }))
}

/// A gateway that records, in front of servers `s0`, `s1`, ….
struct Behind {
    gateway: Gateway,
    servers: Vec<Secretive>,
    journal: Arc<Journal>,
    _folder: TempDir,
}

impl Behind {
    async fn of(reads: &[Reads]) -> Self {
        let mut servers = Vec::new();
        for reads in reads {
            servers.push(Secretive::start(*reads).await);
        }
        let named = servers.iter().enumerate();
        let entries = named.map(|(number, server)| (format!("s{number}"), server.entry.clone()));
        let config = json!({"mcpServers": Value::Object(entries.collect())});
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = config::Journal::default();
        let journal = mainstay_journal_store::open(folder.path(), &settings).expect("a journal");
        let journal = Arc::new(journal);
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            ..GatewayOptions::default()
        };
        let gateway = Gateway::set(&config, options).await;
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

    /// What is on record: the server that was asked, and how that ended.
    async fn records(&self) -> Vec<(Option<String>, Status)> {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(Filter::default(), 100).await;
        let calls = page.expect("it reads").calls.into_iter();
        calls
            .map(|call| (call.target.server.map(|it| it.to_string()), call.status))
            .collect()
    }

    /// The lines of `/metrics` that count calls of a server.
    async fn counted(&self, server: &str) -> Vec<String> {
        let door = self.gateway.stranger("/metrics");
        let answer = door.send(Method::GET, door.headers("*/*"), "").await;
        let text = answer.whole().await.text;
        let label = format!("server=\"{server}\"");
        let lines = text.lines().filter(|it| it.contains(&label));
        let counts = |it: &&str| {
            let value = it.rsplit(' ').next().and_then(|value| value.parse().ok());
            it.contains("call") && value != Some(0.0)
        };
        let lines = lines.filter(counts);
        lines.map(str::to_owned).collect()
    }
}

/// Servers that do not answer, and such that have nothing, cost the client two seconds at most, and
/// have no failed calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_is_found_beside_servers_that_hang() {
    use Reads::{All, Never, Nothing};
    for door in ["sessions", "no sessions", "REST"] {
        let behind = Behind::of(&[Never, Nothing, Never, All("found")]).await;
        let gateway = &behind.gateway;
        let params = json!({"uri": URI});
        let read = soon("the resource", async {
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
                    let (status, read) = rest.post("/api/resources/read", params).await;
                    assert_eq!(status, StatusCode::OK, "{read}");
                    read["result"].clone()
                }
            }
        });
        let read = read.await;
        assert_eq!(read["contents"][0]["text"], "found", "{door}: {read}");
        let records = behind.records().await;
        assert_eq!(records, [(Some("s3".to_owned()), Status::Ok)], "{door}");
        for silent in ["s0", "s1", "s2"] {
            assert_eq!(behind.counted(silent).await, [""; 0], "{door}");
        }
    }
}

/// The first in configuration order has it, even if another is quicker; it is remembered.
#[tokio::test]
async fn the_first_of_several_owners_counts() {
    let behind = Behind::of(&[Reads::Nothing, Reads::Slowly("first"), Reads::All("second")]).await;
    let client = behind.gateway.client().await;
    for _ in 0..2 {
        let read = client.result("resources/read", json!({"uri": URI})).await;
        assert_eq!(read["contents"][0]["text"], "first", "{read}");
    }
    let asked: Vec<usize> = behind
        .servers
        .iter()
        .map(|server| server.count("resources/read"))
        .collect();
    assert_eq!(asked, [1, 3, 1]);
}

/// A resource that no server has is one refused call, and no server's error.
#[tokio::test]
async fn a_resource_that_nobody_has_is_refused_once() {
    for door in ["sessions", "REST"] {
        let behind = Behind::of(&[Reads::Nothing, Reads::Nothing]).await;
        if door == "REST" {
            let rest = behind.gateway.rest();
            let (status, answer) = rest.post("/api/resources/read", json!({"uri": URI})).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        } else {
            let client = behind.gateway.client().await;
            let error = client.error("resources/read", json!({"uri": URI})).await;
            assert_eq!(error["code"], -32002, "{error}");
        }
        assert_eq!(behind.records().await, [(None, Status::Refused)], "{door}");
        for server in ["s0", "s1"] {
            assert_eq!(behind.counted(server).await, [""; 0], "{door}");
        }
    }
}

/// A client that gives its call up ends the search, and the servers are told.
#[tokio::test]
async fn a_search_is_cancelled_with_its_call() {
    let behind = Behind::of(&[Reads::Never, Reads::Never]).await;
    let client = behind.gateway.client().await;
    let request = client.request_text("resources/read", &json!({"uri": URI}).to_string());
    let id = value(&request)["id"].clone();
    let all_asked = || {
        let mut servers = behind.servers.iter();
        servers.all(|server| server.count("resources/read") == 1)
    };
    let (answer, ()) = tokio::join!(client.post(request), async {
        until("the search", all_asked).await;
        client.post(cancelled(&id)).await;
    });
    assert!(answer.text.contains("cancelled"), "{}", answer.text);
    until("the servers to be told", || {
        let mut servers = behind.servers.iter();
        servers.all(|server| server.count("notifications/cancelled") == 1)
    })
    .await;
    assert_eq!(behind.records().await, [(None, Status::Cancelled)]);
}

/// What is subscribed to is looked for in the same way, and kept at its owner alone.
#[tokio::test]
async fn a_subscription_finds_the_owner_beside_servers_that_hang() {
    use Reads::{All, Never, Nothing};
    let behind = Behind::of(&[Never, Nothing, All("found"), All("later")]).await;
    let client = Modern::at(&behind.gateway, "/mcp");
    let wanted = json!({"notifications": {"resourceSubscriptions": [URI]}});
    let mut stream = client.begin("subscriptions/listen", wanted).await;
    let first = soon("the acknowledgement", stream.message()).await;
    assert_eq!(
        first["method"], "notifications/subscriptions/acknowledged",
        "{first}"
    );
    let honoured = &first["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*honoured, json!([URI]), "{first}");
    let client = behind.gateway.client().await;
    client
        .result("resources/subscribe", json!({"uri": URI}))
        .await;
    let asked: Vec<usize> = behind
        .servers
        .iter()
        .map(|server| server.count("resources/subscribe"))
        .collect();
    assert_eq!(asked, [0, 0, 1, 0]);
}
