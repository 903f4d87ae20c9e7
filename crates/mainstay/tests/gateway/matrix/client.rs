//! A client of any revision. It formats each request for its revision.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::{
    client::{Http, Stream, value},
    gateway::{Gateway, soon},
};

pub const MODERN: &str = "2026-07-28";
pub const REVISIONS: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    MODERN,
];

/// The capabilities that a client of this revision can declare.
fn capabilities(revision: &str) -> Value {
    let mut all_capabilities = json!({"sampling": {}, "roots": {}});
    match revision {
        "2024-11-05" | "2025-03-26" => {}
        "2025-06-18" => all_capabilities["elicitation"] = json!({}),
        _ => all_capabilities["elicitation"] = json!({"form": {}, "url": {}}),
    }
    all_capabilities
}

pub struct MatrixClient {
    http: Http,
    pub revision: &'static str,
    /// The negotiated revision.
    negotiated: String,
    session: Option<String>,
    next_id: std::cell::Cell<u64>,
}

/// The messages of a request and its response.
#[derive(Debug)]
pub struct Exchange {
    pub status: StatusCode,
    /// The notifications and questions before the response.
    pub before: Vec<Value>,
    pub response: Value,
}

impl Exchange {
    pub fn result(&self) -> &Value {
        &self.response["result"]
    }

    /// The messages before the response with this method.
    pub fn messages_of(&self, method: &str) -> Vec<&Value> {
        self.before
            .iter()
            .filter(|message| message["method"] == method)
            .collect()
    }
}

impl MatrixClient {
    pub async fn connect(gateway: &Gateway, path: &str, revision: &'static str) -> Self {
        let mut client = Self {
            http: gateway.stranger(path),
            revision,
            negotiated: revision.to_owned(),
            session: None,
            next_id: std::cell::Cell::new(0),
        };
        if !client.is_modern() {
            client.initialize().await;
        }
        client
    }

    pub fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    async fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": capabilities(self.revision),
            "clientInfo": {"name": "matrix", "version": "1"},
        });
        let mut stream = self.begin("initialize", params).await;
        let greeting_answer = read(&mut stream).await;
        // A server may answer with another revision. The gateway answers with that of the client.
        let version = greeting_answer.result()["protocolVersion"].as_str();
        let version = version.unwrap_or_else(|| panic!("{greeting_answer:?}"));
        assert!(REVISIONS.contains(&version), "{greeting_answer:?}");
        version.clone_into(&mut self.negotiated);
        let session = stream.headers.get("mcp-session-id").expect("a session id");
        self.session = Some(session.to_str().expect("ASCII").to_owned());
        self.notify("notifications/initialized", json!({})).await;
    }

    fn headers(&self, message: &Value) -> HeaderMap {
        let mut headers = self.http.headers("application/json, text/event-stream");
        let mut set = |name: &'static str, text: &str| {
            let name = HeaderName::from_static(name);
            headers.insert(name, HeaderValue::from_str(text).expect("ASCII"));
        };
        if let Some(session) = &self.session {
            set("mcp-session-id", session);
        }
        if self.is_modern() || self.session.is_some() && &*self.negotiated >= "2025-06-18" {
            set("mcp-protocol-version", &self.negotiated);
        }
        if self.is_modern() {
            let params = &message["params"];
            set("mcp-method", message["method"].as_str().expect("a method"));
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str())
                && message["method"] != "completion/complete"
            {
                set("mcp-name", name);
            }
        }
        headers
    }

    fn request(&self, method: &str, mut params: Value) -> Value {
        let id = self.next_id.get() + 1;
        self.next_id.set(id);
        if self.is_modern() {
            let mut meta: Map<String, Value> =
                params["_meta"].as_object().cloned().unwrap_or_default();
            let key = |name: &str| format!("io.modelcontextprotocol/{name}");
            meta.insert(key("protocolVersion"), self.revision.into());
            meta.insert(key("clientInfo"), json!({"name": "matrix", "version": "1"}));
            meta.insert(key("clientCapabilities"), capabilities(self.revision));
            meta.insert(key("logLevel"), "info".into());
            params["_meta"] = meta.into();
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    async fn post(&self, message: &Value) -> Stream {
        let headers = self.headers(message);
        self.http
            .send(Method::POST, headers, message.to_string())
            .await
    }

    /// Sends a request, and waits for the head of its answer.
    pub async fn begin(&self, method: &str, params: Value) -> Stream {
        self.post(&self.request(method, params)).await
    }

    /// Sends a request. Cancels it when `progress` resolves, in the form of the client's revision.
    pub async fn cancel(&self, method: &str, params: Value, progress: impl Future<Output = ()>) {
        let request = self.request(method, params);
        let mut call = Box::pin(async {
            let mut stream = self.post(&request).await;
            stream.next().await
        });
        tokio::select! {
            response = &mut call => panic!("nothing is to be said: {response:?}"),
            () = progress => {}
        }
        if !self.is_modern() {
            self.notify(
                "notifications/cancelled",
                json!({"requestId": request["id"]}),
            )
            .await;
        }
        // A modern client cancels a call by closing its stream.
        drop(call);
    }

    pub async fn notify(&self, method: &str, params: Value) {
        let text = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&text).await.status, StatusCode::ACCEPTED);
    }

    /// Sends a request, and answers all questions. Returns the exchange.
    pub async fn ask(&self, method: &str, params: Value) -> Exchange {
        let mut request = self.request(method, params);
        let mut earlier_messages = Vec::new();
        loop {
            let mut stream = self.post(&request).await;
            let mut outcome = self.converse(&mut stream).await;
            earlier_messages.append(&mut outcome.before);
            let result = outcome.result();
            if result["resultType"] != "input_required" {
                return Exchange {
                    before: earlier_messages,
                    ..outcome
                };
            }
            assert!(self.is_modern(), "a legacy client cannot read {outcome:?}");
            let mut responses = Map::new();
            for (key, question) in result["inputRequests"].as_object().into_iter().flatten() {
                earlier_messages.push(question.clone());
                responses.insert(key.clone(), answer(question));
            }
            let id = self.next_id.get() + 1;
            self.next_id.set(id);
            request["id"] = id.into();
            request["params"]["inputResponses"] = responses.into();
            if let Some(state) = result.get("requestState") {
                request["params"]["requestState"] = state.clone();
            }
        }
    }

    /// Reads messages until the response, and answers questions in between.
    async fn converse(&self, stream: &mut Stream) -> Exchange {
        let status = stream.status;
        let mut earlier_messages = Vec::new();
        loop {
            let message = message(stream).await;
            if message.get("method").is_none() {
                return Exchange {
                    status,
                    before: earlier_messages,
                    response: message,
                };
            }
            if message.get("id").is_some() {
                assert!(
                    !self.is_modern(),
                    "a modern client is sent no request: {message}"
                );
                let text =
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": answer(&message)});
                assert_eq!(self.post(&text).await.status, StatusCode::ACCEPTED);
            }
            earlier_messages.push(message);
        }
    }

    /// Opens a stream for messages outside of calls.
    pub async fn listen(&self, uri: Option<&str>) -> Stream {
        if self.is_modern() {
            let mut expected = json!({"toolsListChanged": true});
            if let Some(uri) = uri {
                expected["resourceSubscriptions"] = json!([uri]);
            }
            let mut stream = self
                .begin("subscriptions/listen", json!({"notifications": expected}))
                .await;
            let first = message(&mut stream).await;
            assert_eq!(
                first["method"], "notifications/subscriptions/acknowledged",
                "{first}"
            );
            return stream;
        }
        let mut headers = self.headers(&json!({}));
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        let stream = self.http.send(Method::GET, headers, Bytes::new()).await;
        assert_eq!(stream.status, StatusCode::OK);
        stream
    }
}

/// The client's answer to a question.
fn answer(question: &Value) -> Value {
    match question["method"].as_str() {
        Some("sampling/createMessage") => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "matrix"}})
        }
        Some("roots/list") => json!({"roots": [{"uri": "file:///matrix"}]}),
        _ => json!({"action": "accept", "content": {"name": "matrix"}}),
    }
}

/// The next message of an event stream, or the message in a JSON body.
async fn message(stream: &mut Stream) -> Value {
    if stream
        .headers
        .get("content-type")
        .is_some_and(|header| header == "text/event-stream")
    {
        return stream.message().await;
    }
    value(&soon("a document", stream.rest()).await)
}

async fn read(stream: &mut Stream) -> Exchange {
    Exchange {
        status: stream.status,
        before: Vec::new(),
        response: message(stream).await,
    }
}
