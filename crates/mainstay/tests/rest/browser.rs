//! A browser and a daemon that communicate over real sockets.

use std::{net::SocketAddr, path::PathBuf};

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use mainstay::daemon::Daemon;
use mainstay_core::config::Config;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::state::{Ownership, StateDir};
use mainstay_testkit::within;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A daemon with a state directory and an HTTP door.
pub struct BrowserDaemon {
    daemon: Daemon,
    door: JoinHandle<()>,
    owner: Ownership,
    pub tokens: Tokens,
    pub address: SocketAddr,
}

impl BrowserDaemon {
    /// Starts a daemon on a free port.
    pub fn new(state: impl Into<PathBuf>, config: &Config) -> Self {
        Self::at(([127, 0, 0, 1], 0).into(), state, config)
    }

    pub fn at(address: SocketAddr, state: impl Into<PathBuf>, config: &Config) -> Self {
        let owner = StateDir::new(state).take_ownership().expect("owned");
        let tokens = Tokens::open(owner.dir().clone(), &owner.token).expect("readable");
        let listener: TcpListener = mainstay::daemon::bind(address).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let daemon = Daemon::start(config, GatewayOptions::default());
        let door = daemon.serve_http(listener, address, tokens.clone());
        Self {
            daemon,
            door,
            owner,
            tokens,
            address,
        }
    }

    pub fn control(&self) -> String {
        self.owner.token.expose().to_owned()
    }

    pub fn browser(&self) -> Browser {
        Browser {
            address: self.address,
            cookie: None,
            page_key: None,
        }
    }

    /// A browser that has signed in with a link of `mainstay ui`.
    pub async fn signed_in(&self) -> Browser {
        let mut browser = self.browser();
        let code = self.code().await;
        let answer = browser.sign_in(&json!({"code": code})).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        browser
    }

    /// Requests a one-time code, as `mainstay ui` does.
    pub async fn code(&self) -> String {
        let bearer = format!("Bearer {}", self.control());
        let headers = [("authorization", bearer.as_str())];
        let answer = self
            .browser()
            .send(Method::POST, "/api/session/links", &headers, "")
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let link = answer.json();
        let code = link["code"].as_str().expect("a code").to_owned();
        assert_eq!(code.len(), 64);
        assert_eq!(link["path"], format!("/#/sign-in?code={code}"));
        assert_eq!(link["expiresInSeconds"], 900);
        code
    }

    /// Stops the daemon.
    pub async fn end(self) {
        within(self.daemon.stop(Some(self.door))).await;
    }
}

pub struct BrowserAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl BrowserAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name);
        value.map(|value| value.to_str().expect("text"))
    }

    /// The status and the error code of a refusal.
    pub fn refused(&self) -> (u16, String) {
        let word_text = self.json()["error"].as_str().map(str::to_owned);
        (self.status.as_u16(), word_text.unwrap_or_default())
    }
}

#[derive(Clone)]
pub struct Browser {
    address: SocketAddr,
    /// The cookie, in the form in which browsers send it.
    pub cookie: Option<String>,
    /// The page key that the sign-in has returned.
    pub page_key: Option<String>,
}

impl Browser {
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends one request on a new connection. Returns the head and the unread body of the answer.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> (http::response::Parts, Incoming) {
        let stream = within(TcpStream::connect(self.address)).await;
        let stream = TokioIo::new(stream.expect("accepted"));
        let (mut sender, connection) = http1::handshake(stream).await.expect("HTTP");
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string());
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, format!("theme=dark; {cookie}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.into())));
        let answer = within(sender.send_request(request.expect("a request"))).await;
        answer.expect("an answer").into_parts()
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> BrowserAnswer {
        let (head, body) = self.open(method, path, headers, body).await;
        let bytes = within(body.collect()).await.expect("a body").to_bytes();
        BrowserAnswer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    pub async fn get(&self, path: &str) -> BrowserAnswer {
        let key = self.page_key.clone().unwrap_or_default();
        let headers = [("sec-fetch-site", "same-origin"), ("x-page-key", &key)];
        self.send(Method::GET, path, &headers, "").await
    }

    /// Sends a change with the headers that the page sends.
    pub async fn change(&self, method: Method, path: &str, body: &Value) -> BrowserAnswer {
        let origin = self.origin();
        let key = self.page_key.clone().unwrap_or_default();
        let headers = [
            ("content-type", "application/json"),
            ("origin", &origin),
            ("sec-fetch-site", "same-origin"),
            ("x-page-key", &key),
        ];
        self.send(method, path, &headers, body.to_string()).await
    }

    /// Signs in. Stores the cookie and the page key of the answer.
    pub async fn sign_in(&mut self, credentials: &Value) -> BrowserAnswer {
        let answer = self.change(Method::POST, "/api/session", credentials).await;
        if let Some(cookie) = answer.header("set-cookie") {
            let cookie = cookie.split(';').next().expect("a value");
            self.cookie = Some(cookie.to_owned());
            let key = answer.json()["pageKey"].as_str().map(str::to_owned);
            self.page_key = key;
        }
        answer
    }

    /// Opens a stream of events.
    pub async fn events(&self) -> Incoming {
        let key = self.page_key.clone().unwrap_or_default();
        let headers = [("sec-fetch-site", "same-origin"), ("x-page-key", &key)];
        let (head, mut body) = self.open(Method::GET, "/api/events", &headers, "").await;
        assert_eq!(head.status, StatusCode::OK);
        let first = within(body.frame()).await.expect("a frame");
        assert!(first.expect("no error").is_data());
        body
    }
}

/// Reads a stream to its end.
pub async fn until_end(mut stream: Incoming) {
    let end = async { while let Some(Ok(_)) = stream.frame().await {} };
    within(end).await;
}
