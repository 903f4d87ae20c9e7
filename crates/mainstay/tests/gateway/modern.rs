//! A raw client of 2026-07-28. It has no session, sends `_meta` in every request, and repeats parts
//! of the body in headers.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Map, Value, json};

use crate::{
    client::{Http, Response, Stream},
    gateway::Gateway,
};

pub const MODERN: &str = "2026-07-28";

const ACCEPT: &str = "application/json, text/event-stream";

/// The `_meta` key that the protocol defines for this name.
pub fn key(name: &str) -> String {
    format!("io.modelcontextprotocol/{name}")
}

/// A client of one endpoint.
pub struct Modern {
    pub http: Http,
    /// The members of `_meta` in every request.
    pub meta: Map<String, Value>,
    next_id: AtomicU64,
}

impl Modern {
    /// A client that declares no capabilities.
    pub fn at(gateway: &Gateway, path: &str) -> Self {
        let mut meta = Map::new();
        meta.insert(key("protocolVersion"), MODERN.into());
        meta.insert(key("clientInfo"), json!({"name": "tests", "version": "1"}));
        meta.insert(key("clientCapabilities"), json!({}));
        Self {
            http: gateway.stranger(path),
            meta,
            next_id: AtomicU64::new(1),
        }
    }

    /// Adds a member to `_meta`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the capabilities that the client declares.
    pub fn able(self, capabilities: Value) -> Self {
        self.with(&key("clientCapabilities"), capabilities)
    }

    /// Builds a request and its headers.
    pub fn request(&self, method: &str, mut params: Value) -> (HeaderMap, Value) {
        let headers = self.headers(method, &params);
        let mut meta = self.meta.clone();
        if let Some(members) = params["_meta"].as_object() {
            meta.extend(members.clone());
        }
        params["_meta"] = meta.into();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (headers, request)
    }

    fn headers(&self, method: &str, params: &Value) -> HeaderMap {
        let mut headers = self.http.headers(ACCEPT);
        let mut set = |name: &'static str, value: &str| {
            headers.insert(
                name,
                HeaderValue::from_str(value).expect("a header's value"),
            );
        };
        if let Some(version) = self
            .meta
            .get(&key("protocolVersion"))
            .and_then(Value::as_str)
        {
            set("mcp-protocol-version", version);
        }
        set("mcp-method", method);
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            _ => None,
        };
        if let Some(name) = name {
            set("mcp-name", name);
        }
        headers
    }

    pub async fn send(&self, (headers, request): (HeaderMap, Value)) -> Stream {
        let text = request.to_string();
        self.http.send(Method::POST, headers, text).await
    }

    /// Sends a request, and waits for the head of its answer.
    pub async fn begin(&self, method: &str, params: Value) -> Stream {
        self.send(self.request(method, params)).await
    }

    /// Sends a request. Returns the whole response.
    pub async fn ask(&self, method: &str, params: Value) -> Response {
        self.begin(method, params).await.whole().await
    }

    /// Sends a request that must succeed. Returns the result.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let response = self.ask(method, params).await;
        let message = response.json();
        assert_eq!(response.status, 200, "{message}");
        assert!(message["result"].is_object(), "{message}");
        message["result"].clone()
    }

    /// Sends a request that must fail. Returns the status and the error.
    pub async fn error(&self, method: &str, params: Value) -> (u16, Value) {
        let response = self.ask(method, params).await;
        let message = response.json();
        assert!(message["error"].is_object(), "{message}");
        (response.status.as_u16(), message["error"].clone())
    }

    /// Calls a tool. Returns the result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.result("tools/call", params).await
    }
}
