//! The engine, embedded in a program without doors.

use std::sync::Arc;

use mainstay_core::{
    config,
    failure::FailureKind,
    message::Method,
    record::{Door, Status},
};
use mainstay_gateway::{Gateway, GatewayOptions};
use mainstay_journal::{Journal, RecordFilter};
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    gateway::{self, parse, soon},
};

/// Starts the engine with one server and a journal.
async fn start_embedded(backend: &Backend) -> (Arc<Gateway>, Arc<Journal>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default())
        .expect("a journal");
    let journal = Arc::new(journal);
    let options = GatewayOptions {
        journal: Some(Arc::clone(&journal)),
        ..GatewayOptions::default()
    };
    let config = parse(&gateway::config(&[("x", backend)], json!({})).to_string());
    let gateway = Gateway::start(&config, options);
    soon("the server", gateway.registry.settled()).await;
    (gateway, journal, folder)
}

#[tokio::test]
async fn a_tool_is_called_and_recorded() {
    let backend = Backend::http().await;
    let (gateway, journal, _folder) = start_embedded(&backend).await;
    let tool_call = gateway.call_tool("x", "echo", r#"{"text":"hello"}"#);
    let result = soon("an answer", tool_call).await.expect("a result");
    let result: Value = serde_json::from_str(result.get()).expect("JSON");
    assert_eq!(result["content"][0]["text"], "hello", "{result}");
    journal.flush().await.expect("it writes");
    let page = journal.records(RecordFilter::default(), 10).await;
    let calls = page.expect("it reads").calls;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].status, Status::Ok);
    assert_eq!(calls[0].origin.door, Door::Own);
    soon("the end", gateway.stop()).await;
}

/// A call of an unknown server fails and is recorded.
#[tokio::test]
async fn a_call_of_an_unknown_server_is_refused_and_recorded() {
    let backend = Backend::http().await;
    let (gateway, journal, _folder) = start_embedded(&backend).await;
    let tool_call = gateway.call_tool("nope", "echo", "{}");
    let failure = soon("an answer", tool_call).await.expect_err("no server");
    assert_eq!(failure.kind, FailureKind::ServerNotFound, "{failure:?}");
    journal.flush().await.expect("it writes");
    let page = journal.records(RecordFilter::default(), 10).await;
    let calls = page.expect("it reads").calls;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].status, Status::Refused);
    soon("the end", gateway.stop()).await;
}

/// A failed request that is not a call is not recorded.
#[tokio::test]
async fn a_list_of_an_unknown_server_is_no_call() {
    let backend = Backend::http().await;
    let (gateway, journal, _folder) = start_embedded(&backend).await;
    let request = gateway.request("nope", Method::ToolsList, "{}");
    let failure = soon("an answer", request).await.expect_err("no server");
    assert_eq!(failure.kind, FailureKind::ServerNotFound, "{failure:?}");
    journal.flush().await.expect("it writes");
    let page = journal.records(RecordFilter::default(), 10).await;
    assert!(page.expect("it reads").calls.is_empty());
    soon("the end", gateway.stop()).await;
}

/// If the future of a call is dropped, the call continues at the server. Its outcome is recorded.
#[tokio::test]
async fn a_call_goes_on_when_its_future_is_dropped() {
    let backend = Backend::http().await;
    let (gateway, journal, _folder) = start_embedded(&backend).await;
    tokio::select! {
        _ = gateway.call_tool("x", "sleep", r#"{"ms":300}"#) => panic!("it has ended before"),
        _ = backend.until_called("sleep") => {}
    }
    soon("the end", gateway.stop()).await;
    assert_eq!(backend.runs("sleep"), 1);
    let page = journal.records(RecordFilter::default(), 10).await;
    let calls = page.expect("it reads").calls;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].status, Status::Ok);
}

/// An error of the server keeps its code and its text.
#[tokio::test]
async fn an_error_of_the_server_is_a_failure() {
    let backend = Backend::http().await;
    let (gateway, _journal, _folder) = start_embedded(&backend).await;
    let tool_call = gateway.call_tool("x", "rpc_error", "{}");
    let failure = soon("an answer", tool_call).await.expect_err("an error");
    assert_eq!(failure.kind, FailureKind::CallFailed, "{failure:?}");
    assert!(failure.details.contains_key("rpcCode"), "{failure:?}");
    soon("the end", gateway.stop()).await;
}

/// After the stop, calls fail and reach no server.
#[tokio::test]
async fn nothing_is_called_after_the_stop() {
    let backend = Backend::stdio().await;
    let (gateway, _journal, _folder) = start_embedded(&backend).await;
    soon("the end", gateway.stop()).await;
    let tool_call = gateway.call_tool("x", "echo", "{}");
    let failure = soon("an answer", tool_call)
        .await
        .expect_err("it has stopped");
    assert_eq!(failure.kind, FailureKind::ShuttingDown, "{failure:?}");
}
