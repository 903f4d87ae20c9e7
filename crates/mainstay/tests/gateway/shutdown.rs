//! The shutdown of Mainstay. Calls in flight may finish, new calls are refused, and unknown
//! outcomes are recorded.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header};
use mainstay_core::{config, record::Status};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::RecordFilter;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, initialize, text},
    gateway::{Gateway, config as configured, soon, until},
    modern::Modern,
};

/// Starts a gateway with a journal, and with this grace period for calls in milliseconds.
async fn start_recorded(servers: &[(&str, &Backend)], grace: u64) -> (Gateway, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default());
    let options = GatewayOptions {
        journal: Some(Arc::new(journal.expect("a journal"))),
        ..GatewayOptions::default()
    };
    let settings = json!({"shutdown": {"graceMs": grace}});
    let gateway = Gateway::with_options(&configured(servers, settings), options).await;
    (gateway, folder)
}

/// The tool, status and kind of failure of each record, in the order in which the calls ended.
async fn recorded_calls(folder: &TempDir) -> Vec<(String, Status, Option<String>)> {
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default())
        .expect("it ended well");
    let page = journal.records(RecordFilter::default(), 500).await;
    let records = page.expect("it can be read").calls.into_iter().rev();
    let records = records.map(|record| {
        let error = record.error.map(|error| error.kind.into_owned());
        (record.target.tool.to_string(), record.status, error)
    });
    records.collect()
}

/// Waits until Mainstay refuses new calls.
async fn until_closing(machine: &Http) {
    let is_ready = async || {
        let answer = machine.send(Method::GET, HeaderMap::new(), "").await;
        answer.status == StatusCode::OK
    };
    let closing_wait = async { while is_ready().await {} };
    soon("the end to begin", closing_wait).await;
}

over_every_transport! {
    /// Calls in flight finish within the grace period. New calls are refused at every door.
    async fn calls_at_work_are_answered(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, folder) = start_recorded(&[("x", &backend)], 60_000).await;
        let (client, unauthenticated_client) = (gateway.client().await, gateway.stranger("/mcp"));
        let machine = gateway.stranger("/readyz");
        let (rest, modern) = (gateway.rest(), Modern::at(&gateway, "/mcp"));
        let (sleep, echo) = (json!({"name": "x__sleep", "arguments": {"ms": 2000}}), json!({"name": "x__echo"}));
        let request = |params: &Value| client.request_text("tools/call", &params.to_string());
        let refused_requests = async {
            until_closing(&machine).await;
            // The status is 200, because other statuses could make the client drop its session.
            let response = client.post(request(&echo)).await;
            assert_eq!(response.status, StatusCode::OK, "{}", response.text);
            assert_eq!(response.headers[header::RETRY_AFTER], "5");
            let error = &response.json()["error"];
            assert_eq!(error["message"], "Mainstay is shutting down", "{error}");
            for response in [
                unauthenticated_client.post(initialize(LATEST)).await,
                modern.ask("tools/call", echo.clone()).await,
            ] {
                assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{}", response.text);
                assert_eq!(response.headers[header::RETRY_AFTER], "5");
                assert!(response.text.contains("shutting down"), "{}", response.text);
            }
            let (status, body) = rest.post("/api/mcp-tools/call", json!({"tool": "x/echo"})).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(body["error"], "shutting_down", "{body}");
            // Other requests are still answered.
            assert_eq!(client.result("ping", json!({})).await, json!({}));
        };
        let (sleep_response, ()) = tokio::join!(client.post(request(&sleep)), async {
            backend.until_called("sleep").await;
            tokio::join!(gateway.stop(), refused_requests);
        });
        assert_eq!(text(&sleep_response.json()["result"]), "slept 2000 ms");
        assert_eq!(backend.of_method("tools/call").len(), 1);
        let refused_row = |tool: &str| (tool.to_owned(), Status::Refused, Some("shutting_down".to_owned()));
        let sleep_response = ("sleep".to_owned(), Status::Ok, None);
        // The record of the long call may come before or after those of the other calls.
        let mut records = recorded_calls(&folder).await;
        records.sort_by(|(first_record, ..), (second_record, ..)| first_record.cmp(second_record));
        assert_eq!(
            records,
            [refused_row("echo"), sleep_response, refused_row("x__echo"), refused_row("x__echo")]
        );
    }

    /// If a call does not end within the grace period, its outcome is unknown.
    async fn calls_that_do_not_end_are_unknown(kind) {
        let backend = Backend::start(kind, &[]).await;
        let (gateway, folder) = start_recorded(&[("x", &backend)], 300).await;
        let (client, modern) = (gateway.client().await, Modern::at(&gateway, "/mcp"));
        let (rest, hang_params) = (gateway.rest(), json!({"name": "x__hang"}));
        let direct = gateway.client_at("/servers/x/mcp").await;
        let (first_response, second_response, third_response, fourth_response, ()) = tokio::join!(
            client.post(client.request_text("tools/call", &hang_params.to_string())),
            modern.ask("tools/call", hang_params.clone()),
            direct.post(direct.request_text("tools/call", r#"{"name":"hang"}"#)),
            rest.post("/api/mcp-tools/call", json!({"tool": "x/hang"})),
            async {
                until("the calls", || {
                    let calls = backend.of_method("tools/call");
                    calls.len() == 4
                })
                .await;
                gateway.stop().await;
            }
        );
        for answer in [first_response.text, second_response.text, third_response.text, fourth_response.1.to_string()] {
            assert!(answer.contains("may or may not have run"), "{answer}");
        }
        assert_eq!(fourth_response.1["error"], "outcome_unknown", "{}", fourth_response.1);
        let unknown_row = ("hang".to_owned(), Status::Unknown, Some("outcome_unknown".to_owned()));
        assert_eq!(recorded_calls(&folder).await, vec![unknown_row; 4]);
    }
}

/// A call that waits for its server fails, and its state is `not_sent`.
#[tokio::test]
async fn calls_that_were_not_sent_say_so() {
    let backend = Backend::start(BackendKind::Stdio, &["--handshake-delay", "60000"]).await;
    let (gateway, folder) = start_recorded(&[("x", &backend)], 300).await;
    let rest = gateway.rest();
    let (answer, ()) = tokio::join!(
        rest.post("/api/servers/x/tools/echo/call", json!({})),
        async {
            backend.until_count("initialize", 1).await;
            gateway.stop().await;
        }
    );
    assert_eq!(
        answer.1["error"], "the call was not sent: Mainstay is shutting down",
        "{}",
        answer.1
    );
    let refused_row = (
        "echo".to_owned(),
        Status::Refused,
        Some("shutting_down".to_owned()),
    );
    assert_eq!(recorded_calls(&folder).await, [refused_row]);
}

/// All requests before the end of stdin are answered.
#[tokio::test]
async fn the_end_of_stdin_waits_for_the_answers() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let mut pipe = gateway.pipe().await;
    let call = r#"{"name":"x__sleep","arguments":{"ms":700}}"#;
    let first = pipe.begin("tools/call", call).await;
    let second_result = pipe.begin("tools/call", call).await;
    let mut answered: Vec<Value> = pipe
        .close()
        .await
        .iter()
        .map(|message| message["id"].clone())
        .collect();
    answered.sort_by_key(Value::as_u64);
    assert_eq!(answered, [first, second_result]);
}
