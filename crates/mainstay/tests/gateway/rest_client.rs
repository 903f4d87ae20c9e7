//! A client of the REST door, as the commands use it.

use std::{net::SocketAddr, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{client::Http, gateway::found};

pub const TOKEN: &str = "token-of-the-tests";

pub struct Rest {
    address: SocketAddr,
}

impl Rest {
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    async fn send(&self, method: Method, path: &str, body: String) -> (StatusCode, Value) {
        self.send_with(HeaderMap::new(), method, path, body).await
    }

    async fn send_with(
        &self,
        extra_headers: HeaderMap,
        method: Method,
        path: &str,
        body: String,
    ) -> (StatusCode, Value) {
        let http = Http::new(self.address, path);
        let mut headers = http.headers("application/json");
        let bearer = format!("Bearer {TOKEN}");
        let bearer = HeaderValue::from_str(&bearer).expect("ASCII");
        headers.insert(header::AUTHORIZATION, bearer);
        headers.extend(extra_headers);
        let answer = http.send(method, headers, body).await.whole().await;
        (answer.status, answer.json())
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.try_get(path).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    pub async fn try_get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, String::new()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, body.to_string()).await
    }

    /// Posts a body with these trace headers.
    pub async fn post_of(&self, trace: HeaderMap, path: &str, body: Value) -> (StatusCode, Value) {
        let body = body.to_string();
        self.send_with(trace, Method::POST, path, body).await
    }

    /// Posts a body that may be invalid JSON.
    pub async fn raw(&self, path: &str, body: &str) -> (StatusCode, Value) {
        self.send(Method::POST, path, body.to_owned()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::PUT, path, body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::DELETE, path, String::new()).await
    }

    /// The names of all servers, in order.
    pub async fn names(&self) -> Vec<String> {
        let servers = self.get("/api/servers").await;
        let servers = servers["servers"].as_array().expect("a list").iter();
        let name = |server: &Value| server["name"].as_str().expect("a name").to_owned();
        servers.map(name).collect()
    }

    /// Runs `start`, `stop`, `restart` or `reconnect`. Returns the status and the answer.
    pub async fn operate(&self, server: &str, operation: &str) -> (StatusCode, Value) {
        let path = format!("/api/servers/{server}/{operation}");
        self.post(&path, json!({})).await
    }

    /// Runs an operation that must succeed. Returns the answer.
    pub async fn done(&self, server: &str, operation: &str) -> Value {
        let (status, answer) = self.operate(server, operation).await;
        assert_eq!(status, StatusCode::OK, "{operation}: {answer}");
        answer
    }

    /// A server in the list of servers.
    pub async fn server(&self, name: &str) -> Value {
        let servers = self.get("/api/servers").await;
        let servers = servers["servers"].as_array().expect("a list");
        let server = servers.iter().find(|server| server["name"] == name);
        server.expect("a server of this name").clone()
    }

    /// Waits until the condition is true for this server. Returns the server.
    pub async fn until(
        &self,
        name: &str,
        description: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_so(name, description, &condition).await
    }

    /// The non-generic part of [`Rest::until`].
    async fn until_so(
        &self,
        name: &str,
        description: &str,
        condition: &dyn Fn(&Value) -> bool,
    ) -> Value {
        found(&format!("{name} to be {description}"), async || {
            let server = self.server(name).await;
            condition(&server).then_some(server)
        })
        .await
    }

    /// Waits until this server has this status. Returns the server.
    pub async fn until_status(&self, name: &str, status: &str) -> Value {
        self.until(name, status, |server| server["status"] == status)
            .await
    }
}

/// Retry settings so slow that no attempt happens during a test.
pub fn never_retry() -> Value {
    json!({"initialDelayMs": 3_600_000, "maxDelayMs": 3_600_000})
}

/// Retry settings with almost no delay.
pub fn prompt_retry() -> Value {
    json!({"initialDelayMs": 100, "maxDelayMs": 200, "jitter": 0})
}

/// Settings of probes with this interval and this action.
pub fn health_checks(interval: Duration, action: &str) -> Value {
    let interval = u64::try_from(interval.as_millis()).expect("a short time");
    json!({"intervalMs": interval, "timeoutMs": interval, "jitter": 0, "action": action})
}
