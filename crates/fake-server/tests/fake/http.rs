//! Tests of Streamable HTTP, in-process.

use fake_server::{AnswerForm, Fake, Script};
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::common::{
    Stream, call, initialize, notification, parse, read, request, send, text, within,
};

struct Client {
    url: String,
    session: String,
}

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

impl Client {
    async fn open(fake: &Fake) -> Self {
        let body = initialize("2025-06-18");
        let response = send(&fake.url(), "POST", &[ACCEPT, JSON], body)
            .await
            .expect("answered");
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str();
        Self {
            url: fake.url(),
            session: session.expect("ASCII").to_owned(),
        }
    }

    async fn send(&self, verb: &str, body: String) -> hyper::Result<Response<Incoming>> {
        let headers = [
            ACCEPT,
            JSON,
            ("mcp-session-id", self.session.as_str()),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        send(&self.url, verb, &headers, body).await
    }

    async fn post(&self, body: String) -> Response<Incoming> {
        self.send("POST", body).await.expect("answered")
    }

    async fn ask(&self, body: String) -> Value {
        let response = self.post(body).await;
        assert_eq!(response.headers()["content-type"], "application/json");
        parse(&read(response).await.expect("a body"))
    }

    async fn listen(&self) -> Stream {
        Stream::new(self.send("GET", String::new()).await.expect("answered"))
    }
}

async fn start(script: Script) -> Fake {
    Fake::http(script).await.expect("starts")
}

#[tokio::test]
async fn a_plain_call_is_json_and_one_with_progress_a_stream() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let sum = client.ask(call(1, "add", &json!({"a": 2, "b": 3}))).await;
        assert_eq!(text(&sum), "5");
        let steps = call(2, "progress", &json!({"steps": 2, "intervalMs": 5}));
        let mut stream = Stream::new(client.post(steps).await);
        assert_eq!(stream.message().await["params"]["progress"], 1);
        assert_eq!(stream.message().await["params"]["progress"], 2);
        assert_eq!(stream.message().await["id"], 2);
        assert_eq!(stream.next().await.expect("unbroken"), None);
        assert_eq!(fake.runs("progress"), 1);
        assert_eq!(fake.count("tools/call"), 2);
        fake.stop().await.expect("stops");
    })
    .await;
}

#[tokio::test]
async fn the_form_of_answers_can_be_forced() {
    within(async {
        let fake = start(Script {
            answer: Some(AnswerForm::Json),
            ..Script::default()
        })
        .await;
        let client = Client::open(&fake).await;
        let answer = client.ask(call(1, "progress", &json!({"steps": 1}))).await;
        assert_eq!(answer["id"], 1);
        let early_message = client.listen().await.message().await;
        assert_eq!(early_message["method"], "notifications/progress");

        fake.edit(|script| script.answer = Some(AnswerForm::Sse));
        let answer = client.post(request(2, "ping", &json!({}))).await;
        assert_eq!(Stream::new(answer).message().await["id"], 2);

        fake.edit(|script| script.coalesce = true);
        let answer = client.post(call(3, "log", &json!({"n": 3}))).await;
        let body = read(answer).await.expect("a body");
        assert_eq!(body.matches("event: message\n").count(), 4);
    })
    .await;
}

#[tokio::test]
async fn sessions_are_asked_for_and_end() {
    within(async {
        let fake = start(Script {
            expire_sessions_after: Some(1),
            check_protocol_header: true,
            ..Script::default()
        })
        .await;
        let ping = || request(1, "ping", &json!({}));
        let bare_response = send(&fake.url(), "POST", &[ACCEPT, JSON], ping()).await;
        assert_eq!(
            bare_response.expect("answered").status(),
            StatusCode::BAD_REQUEST
        );

        let client = Client::open(&fake).await;
        let id = ("mcp-session-id", client.session.as_str());
        let unversioned_response = send(&fake.url(), "POST", &[ACCEPT, JSON, id], ping()).await;
        let unversioned_response = unversioned_response.expect("answered");
        assert_eq!(unversioned_response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(client.post(ping()).await.status(), StatusCode::OK);
        assert_eq!(client.post(ping()).await.status(), StatusCode::NOT_FOUND);

        let client = Client::open(&fake).await;
        let end_response = client.send("DELETE", String::new()).await;
        assert_eq!(end_response.expect("answered").status(), StatusCode::OK);
        assert_eq!(client.post(ping()).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(fake.sessions(), 0);
    })
    .await;
}

#[tokio::test]
async fn the_get_stream_carries_what_belongs_to_no_call() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let mut stream = client.listen().await;
        client.ask(call(1, "change_tools", &json!({}))).await;
        let change_message = stream.message().await;
        assert_eq!(change_message["method"], "notifications/tools/list_changed");

        fake.drop_streams();
        assert!(stream.next().await.is_err());
        fake.publish(r#"{"jsonrpc":"2.0","method":"late"}"#);
        let mut stream = client.listen().await;
        assert_eq!(stream.message().await["method"], "late");

        fake.edit(|script| script.no_get = true);
        let refused_response = client.send("GET", String::new()).await.expect("answered");
        assert_eq!(refused_response.status(), StatusCode::METHOD_NOT_ALLOWED);
    })
    .await;
}

#[tokio::test]
async fn the_client_is_asked_on_the_stream_of_its_call() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let mut stream = Stream::new(client.post(call(1, "ping_client", &json!({}))).await);
        let question = stream.message().await;
        assert_eq!(question["method"], "ping");
        let id = &question["id"];
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(client.post(answer).await.status(), StatusCode::ACCEPTED);
        assert_eq!(text(&stream.message().await), r#"{"result":{}}"#);
    })
    .await;
}

#[tokio::test]
async fn requests_are_stored_with_their_headers() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let odd_text = r#"{ "method":"x/y" , "jsonrpc":"2.0","params":{"n":1.0} }"#;
        client.post(odd_text.to_owned()).await;
        fake.until(|requests| requests.iter().any(|message| message.body == odd_text))
            .await;
        let last_request = fake.received().pop().expect("received");
        assert_eq!(last_request.method().as_deref(), Some("x/y"));
        assert_eq!(
            last_request.headers["mcp-session-id"],
            client.session.as_str()
        );

        let hang_call = call(9, "hang", &json!({}));
        let cancel = notification("notifications/cancelled", &json!({"requestId": 9}));
        let (end_response, _) = tokio::join!(client.post(hang_call), async {
            fake.until(|requests| {
                requests
                    .last()
                    .is_some_and(|message| message.body.contains("hang"))
            })
            .await;
            client.post(cancel).await
        });
        assert_eq!(read(end_response).await.expect("ended"), "");
        assert_eq!(fake.cancelled(), ["9"]);
    })
    .await;
}

#[tokio::test]
async fn refuses_crashes_and_comes_back() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        assert!(
            client
                .send("POST", call(1, "crash", &json!({})))
                .await
                .is_err()
        );
        let ping = request(2, "ping", &json!({}));
        let forgotten_response = client.post(ping.clone()).await;
        assert_eq!(forgotten_response.status(), StatusCode::NOT_FOUND);

        fake.refuse(true).await.expect("closed");
        let refused_connect = tokio::net::TcpStream::connect(fake.address()).await;
        assert!(refused_connect.is_err());
        fake.refuse(false).await.expect("bound again");
        let client = Client::open(&fake).await;
        fake.edit(|script| script.status = Some(503));
        let unavailable_response = client.post(ping).await;
        assert_eq!(
            unavailable_response.status(),
            StatusCode::SERVICE_UNAVAILABLE
        );

        fake.edit(|script| {
            script.status = None;
            script.require_header = "authorization=Bearer x".parse().ok();
        });
        let shut_response = client.send("GET", String::new()).await.expect("answered");
        assert_eq!(shut_response.status(), StatusCode::UNAUTHORIZED);
        fake.stop().await.expect("stops");
    })
    .await;
}

#[tokio::test]
async fn a_stateless_fake_needs_no_session_id() {
    within(async {
        let fake = start(Script {
            stateless: true,
            ..Script::default()
        })
        .await;
        let body = initialize("2025-03-26");
        let response = send(&fake.url(), "POST", &[ACCEPT, JSON], body).await;
        let response = response.expect("answered");
        assert!(!response.headers().contains_key("mcp-session-id"));
        let list = request(1, "resources/list", &json!({}));
        let response = send(&fake.url(), "POST", &[ACCEPT, JSON], list).await;
        let list = parse(&read(response.expect("answered")).await.expect("a body"));
        assert_eq!(list["result"]["resources"][0]["uri"], "fake://text");
    })
    .await;
}

#[tokio::test]
async fn is_unavailable_for_so_many_requests_or_so_long() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let ping = || request(2, "ping", &json!({}));
        let two_failures = json!({"status": 502, "times": 2, "retryAfter": "7"});
        client.ask(call(1, "unavailable", &two_failures)).await;
        let refused_response = client.send("GET", String::new()).await.expect("answered");
        assert_eq!(refused_response.status(), StatusCode::BAD_GATEWAY);
        let refused_response = client.post(ping()).await;
        assert_eq!(refused_response.status(), StatusCode::BAD_GATEWAY);
        assert_eq!(refused_response.headers()["retry-after"], "7");
        assert_eq!(client.ask(ping()).await["id"], 2);

        let start = std::time::Instant::now();
        client
            .ask(call(3, "unavailable", &json!({"ms": 100})))
            .await;
        while client.post(ping()).await.status() == StatusCode::SERVICE_UNAVAILABLE {
            tokio::task::yield_now().await;
        }
        assert!(start.elapsed().as_millis() >= 100);
    })
    .await;
}

#[tokio::test]
async fn the_script_sets_the_health_status() {
    within(async {
        let fake = start(Script::default()).await;
        let url = fake.url().replace("/mcp", "/health");
        for health in [None, Some(200), Some(404), Some(405), Some(500)] {
            fake.edit(|script| script.health = health);
            let answer = send(&url, "GET", &[], String::new())
                .await
                .expect("answered");
            assert_eq!(answer.status().as_u16(), health.unwrap_or(404));
        }
    })
    .await;
}

#[tokio::test]
async fn streams_sessions_and_answers_break_on_demand() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let mut stream = client.listen().await;
        client.ask(call(1, "drop_streams", &json!({}))).await;
        assert!(stream.next().await.is_err());

        for (form, beginning) in [
            (None, r#"{"jsonrpc":"2.0","id":2,"#),
            (Some(AnswerForm::Sse), "event: message\ndata: {\"json"),
        ] {
            fake.edit(|script| script.answer = form);
            let response = client.post(call(2, "break_off", &json!({}))).await;
            let (half_text, is_broken) = crate::common::read_until_broken(response).await;
            assert!(half_text.starts_with(beginning) && is_broken, "{half_text}");
        }

        fake.edit(|script| script.answer = None);
        client.ask(call(3, "forget_sessions", &json!({}))).await;
        let ping = request(4, "ping", &json!({}));
        assert_eq!(client.post(ping).await.status(), StatusCode::NOT_FOUND);
    })
    .await;
}

#[tokio::test]
async fn hangs_on_every_connection_until_told_otherwise() {
    within(async {
        let fake = start(Script::default()).await;
        let client = Client::open(&fake).await;
        let slow_call = call(1, "sleep", &json!({"ms": 50}));
        let (sleep_answer, ping_answer, ()) = tokio::join!(
            client.ask(slow_call),
            async {
                fake.until(|requests| requests.len() == 2).await;
                fake.hang(true);
                client.ask(request(2, "ping", &json!({}))).await
            },
            async {
                fake.until(|requests| requests.len() == 3).await;
                fake.hang(false);
            }
        );
        assert_eq!(
            (&sleep_answer["id"], &ping_answer["id"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(fake.runs("sleep"), 1);
    })
    .await;
}
