//! A server of 2026-07-28 that answers `subscriptions/listen` by a stream of `application/json`.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    gateway::{Gateway, until},
    modern::{Modern, key},
    rogue::{self, RogueInput, RogueReply},
};

/// The separators that the server puts between JSON messages.
const SEPARATORS: [&str; 3] = ["", "\n", ",\n"];

#[derive(Default)]
struct StreamState {
    lists: usize,
    /// The id of each subscription, and the sender for its messages.
    listens: Vec<(Value, mpsc::UnboundedSender<String>)>,
}

struct Streaming {
    entry: Value,
    state: Arc<Mutex<StreamState>>,
    separator: &'static str,
}

impl Streaming {
    async fn start(separator: &'static str) -> Self {
        let state = Arc::new(Mutex::new(StreamState::default()));
        let entry = rogue::start_scripted({
            let state = Arc::clone(&state);
            move |input| match input {
                RogueInput::Message(message) => {
                    answer(&mut state.lock().expect("no panic"), message)
                }
                RogueInput::Rest(_) => None,
            }
        });
        Self {
            entry: entry.await,
            state,
            separator,
        }
    }

    fn lists(&self) -> usize {
        self.state.lock().expect("no panic").lists
    }

    fn open_listens(&self) -> usize {
        self.state.lock().expect("no panic").listens.len()
    }

    /// Announces changed tools to every subscription. Sends the message in two pieces.
    fn change(&self) {
        for (id, pieces) in &self.state.lock().expect("no panic").listens {
            let method = "notifications/tools/list_changed";
            let text = notification(id, method, json!({}));
            let (first_half, second_half) = text.split_at(text.len() / 2);
            for piece in [self.separator, first_half, second_half] {
                // Ignore the error: the client may have closed the connection.
                pieces.send(piece.to_owned()).ok();
            }
        }
    }
}

fn notification(id: &Value, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({key("subscriptionId"): id});
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

fn answer(state: &mut StreamState, message: &Value) -> Option<RogueReply> {
    let id = &message["id"];
    let result = |mut result: Value| {
        result["resultType"] = json!("complete");
        Some(RogueReply::Http(rogue::result(id, &result)))
    };
    match message["method"].as_str()? {
        "server/discover" => result(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "ttlMs": 0,
            "cacheScope": "private",
        })),
        "tools/list" => {
            state.lists += 1;
            let tools: Vec<Value> = (0..state.lists)
                .map(|number| json!({"name": format!("t{number}"), "inputSchema": {"type": "object"}}))
                .collect();
            result(json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"}))
        }
        "subscriptions/listen" => {
            let method = "notifications/subscriptions/acknowledged";
            let filter = &message["params"]["notifications"];
            let acknowledgement = notification(id, method, json!({"notifications": filter}));
            let (pieces, write_queue) = mpsc::unbounded_channel();
            let head = rogue::http("application/json", &acknowledgement);
            pieces.send(head).expect("the receiver is here");
            state.listens.push((id.clone(), pieces));
            Some(RogueReply::Pieces(write_queue))
        }
        _ => None,
    }
}

/// After an announcement on the stream, Mainstay requests the list and notifies the client.
#[tokio::test]
async fn json_streams_are_read_incrementally() {
    for separator in SEPARATORS {
        let server = Streaming::start(separator).await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server.entry}})).await;
        until("the subscription", || server.open_listens() > 0).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        assert_eq!(client.tools().await, ["x__t0"]);
        server.change();
        until("the second list", || server.lists() == 2).await;
        let message = stream.message().await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
        assert_eq!(client.tools().await, ["x__t0", "x__t1"]);
    }
}

/// A client at the server's own endpoint receives the messages of the stream.
#[tokio::test]
async fn a_client_hears_what_its_server_streams_as_json() {
    for separator in SEPARATORS {
        let server = Streaming::start(separator).await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server.entry}})).await;
        let client = Modern::at(&gateway, "/servers/x/mcp");
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let mut stream = client.begin("subscriptions/listen", filter).await;
        let acknowledged_message = stream.message().await;
        let method = "notifications/subscriptions/acknowledged";
        assert_eq!(acknowledged_message["method"], method);
        server.change();
        let message = stream.message().await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
    }
}
