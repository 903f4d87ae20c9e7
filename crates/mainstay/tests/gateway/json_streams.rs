//! A server of 2026-07-28 that answers `subscriptions/listen` with `application/json`, and writes one
//! message after the other into it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    gateway::{Gateway, until},
    modern::{Modern, key},
    rogue::{self, Heard, Reply},
};

/// How its messages are set apart.
const SEPARATORS: [&str; 3] = ["", "\n", ",\n"];

#[derive(Default)]
struct State {
    lists: usize,
    /// One for each subscription: its id, and where it is written.
    listens: Vec<(Value, mpsc::UnboundedSender<String>)>,
}

struct Streaming {
    entry: Value,
    state: Arc<Mutex<State>>,
    separator: &'static str,
}

impl Streaming {
    async fn start(separator: &'static str) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let entry = rogue::start_scripted({
            let state = Arc::clone(&state);
            move |heard| match heard {
                Heard::Message(message) => answer(&mut state.lock().expect("no panic"), message),
                Heard::Rest(_) => None,
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

    fn listens(&self) -> usize {
        self.state.lock().expect("no panic").listens.len()
    }

    /// Says on every subscription that the tools have changed, in two pieces.
    fn change(&self) {
        for (id, pieces) in &self.state.lock().expect("no panic").listens {
            let method = "notifications/tools/list_changed";
            let text = notification(id, method, json!({}));
            let (one, other) = text.split_at(text.len() / 2);
            for piece in [self.separator, one, other] {
                // The client may have left.
                pieces.send(piece.to_owned()).ok();
            }
        }
    }
}

fn notification(id: &Value, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({key("subscriptionId"): id});
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

fn answer(state: &mut State, message: &Value) -> Option<Reply> {
    let id = &message["id"];
    let result = |mut result: Value| {
        result["resultType"] = json!("complete");
        Some(Reply::Http(rogue::result(id, &result)))
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
            let wanted = &message["params"]["notifications"];
            let acknowledged = notification(id, method, json!({"notifications": wanted}));
            let (pieces, written) = mpsc::unbounded_channel();
            let head = rogue::http("application/json", &acknowledged);
            pieces.send(head).expect("the receiver is here");
            state.listens.push((id.clone(), pieces));
            Some(Reply::Pieces(written))
        }
        _ => None,
    }
}

/// What is announced there is heard: the list is read again, and clients are told.
#[tokio::test]
async fn what_a_server_streams_as_json_is_read_as_it_comes() {
    for separator in SEPARATORS {
        let server = Streaming::start(separator).await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server.entry}})).await;
        until("the subscription", || server.listens() > 0).await;
        let client = gateway.client().await;
        let mut heard = client.listen().await;
        assert_eq!(client.tools().await, ["x__t0"]);
        server.change();
        until("the second list", || server.lists() == 2).await;
        let told = heard.message().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(client.tools().await, ["x__t0", "x__t1"]);
    }
}

/// The same for a client that listens to this server alone.
#[tokio::test]
async fn a_client_hears_what_its_server_streams_as_json() {
    for separator in SEPARATORS {
        let server = Streaming::start(separator).await;
        let gateway = Gateway::start(&json!({"mcpServers": {"x": server.entry}})).await;
        let client = Modern::at(&gateway, "/servers/x/mcp");
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let mut stream = client.begin("subscriptions/listen", wanted).await;
        let acknowledged = stream.message().await;
        let method = "notifications/subscriptions/acknowledged";
        assert_eq!(acknowledged["method"], method);
        server.change();
        let told = stream.message().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
}
