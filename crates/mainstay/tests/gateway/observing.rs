//! Records and events over REST: filters, statistics, and the export as a file.

use std::sync::Arc;

use http::{Method, StatusCode, header};
use mainstay_core::config;
use mainstay_gateway::GatewayOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::Backend,
    client::Response,
    gateway::{Gateway, config as configured, found},
    rest_client::TOKEN,
};

/// A gateway whose journal has four calls. One of them failed.
async fn with_calls(folder: &TempDir) -> Gateway {
    let backend = Backend::stdio().await;
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default());
    let options = GatewayOptions {
        journal: Some(Arc::new(journal.expect("a journal"))),
        ..GatewayOptions::default()
    };
    let servers = [("x", &backend), ("y", &backend)];
    let gateway = Gateway::with_options(&configured(&servers, json!({})), options).await;
    let client = gateway.client().await;
    for (tool, text) in [("x__echo", "a"), ("x__echo", "b,\"c\""), ("y__echo", "d")] {
        client.call(tool, json!({"text": text})).await;
    }
    client.call("y__error", json!({})).await;
    gateway
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

async fn download(gateway: &Gateway, path: &str) -> Response {
    let mut http = gateway.stranger(path);
    http.token = Some(TOKEN.to_owned());
    let answer = http.send(Method::GET, http.headers("*/*"), "").await;
    answer.whole().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_found_by_several_values_and_exported() {
    let folder = folder();
    let gateway = with_calls(&folder).await;
    let rest = gateway.rest();
    for (query, count) in [
        ("", 4),
        ("?server=x,y", 4),
        ("?server=x&server=y&status=ok", 3),
        ("?tool=x/echo&tool=error", 3),
        ("?status=ok,error&server=y", 2),
        ("?state=answered", 4),
        ("?state=not_sent,sent", 0),
        ("?client=tests&client=others", 4),
        ("?text=The%20tool%20FAILED", 1),
        ("?text=tool_error", 1),
        // The text contains quotes. The second query has it in the form of JSON.
        ("?text=b%2C%22C%22", 1),
        ("?text=%22text%22%3A%22d%22&server=y", 1),
        ("?text=x%2FECHO", 2),
        ("?text=&server=x", 2),
        // Results are not searched.
        ("?text=isError", 0),
    ] {
        let page = rest.get(&format!("/api/call-records{query}")).await;
        assert_eq!(page["total_count"], count, "{query}: {page}");
    }
    let (status, answer) = rest.try_get("/api/call-records?state=lost").await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &"invalid_request".into())
    );

    let file = download(&gateway, "/api/call-records/export?format=jsonl&server=x").await;
    assert_eq!(file.status, StatusCode::OK);
    assert_eq!(file.headers[header::CONTENT_TYPE], "application/x-ndjson");
    assert_eq!(
        file.headers[header::CONTENT_DISPOSITION],
        "attachment; filename=\"mainstay-calls.jsonl\""
    );
    let lines: Vec<Value> = file
        .text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let texts: Vec<_> = lines
        .iter()
        .map(|line| &line["arguments"]["text"])
        .collect();
    assert_eq!(texts, ["b,\"c\"", "a"], "the newest first");
    assert_eq!(lines[0]["name"], "x/echo");

    let file = download(
        &gateway,
        "/api/call-records/export?format=jsonl&text=failed",
    )
    .await;
    assert_eq!(file.text.lines().count(), 1, "{}", file.text);
    assert!(file.text.contains("the tool failed"), "{}", file.text);

    let file = download(&gateway, "/api/call-records/export?format=csv&limit=3").await;
    let lines: Vec<&str> = file.text.split("\r\n").collect();
    assert!(lines[0].starts_with("id,started_at,"), "{}", lines[0]);
    assert_eq!(lines.len(), 1 + 3 + 1, "{}", file.text);
    assert!(
        file.text.contains(r#""{""text"":""b,\""c\""""}""#),
        "{}",
        file.text
    );

    let (status, answer) = rest.try_get("/api/call-records/export").await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &"missing_parameter".into())
    );
    let (status, _) = rest.try_get("/api/call-records/export?format=xml").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_are_merged_ordered_and_bounded() {
    let folder = folder();
    let gateway = with_calls(&folder).await;
    let rest = gateway.rest();
    let series = async |query: &str| {
        let answer = rest.get(&format!("/api/statistics?{query}")).await;
        answer["tools"].as_array().expect("a list").clone()
    };
    let all_series = found("four calls in the statistics", async || {
        let all_series = series("by=all").await;
        (all_series.first()?["total"]["calls"] == 4).then_some(all_series)
    })
    .await;
    assert_eq!(all_series.len(), 1);
    assert_eq!(
        (&all_series[0]["server"], &all_series[0]["tool"]),
        (&"".into(), &"".into())
    );
    assert_eq!(all_series[0]["total"]["errors"], 1);
    let servers = series("by=server&sort=errors").await;
    let names: Vec<_> = servers.iter().map(|server| &server["server"]).collect();
    assert_eq!(names, ["y", "x"]);
    let busiest_series = series("sort=calls&limit=1").await;
    assert_eq!(busiest_series.len(), 1);
    assert_eq!(
        (
            &busiest_series[0]["server"],
            &busiest_series[0]["total"]["calls"]
        ),
        (&"x".into(), &2.into())
    );
    assert_eq!(series("").await.len(), 3);
    // Short buckets are widened, because an answer has at most a thousand.
    assert_eq!(series("bucketMs=60000&since=0").await.len(), 3);
    for query in ["by=client", "sort=name"] {
        let (status, answer) = rest.try_get(&format!("/api/statistics?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {answer}");
    }
    gateway.stop().await;
}

/// A question that waits is an event, and so is its answer. Clients need not poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_servers_are_events() {
    let backend = Backend::stdio().await.option("serverRequests", "queue");
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let (rest, client) = (gateway.rest(), gateway.client().await);
    let events = async |query: &str| rest.get(&format!("/api/events/recent?{query}")).await;
    let waiting_text = "type=server_request_waiting&server=x";
    let ask = json!({"method": "elicitation/create", "params": {"message": "who?"}});
    for (reply, outcome) in [
        (json!({"result": {"action": "decline"}}), "answered"),
        (json!({"error": "not today"}), "refused"),
    ] {
        let previous_text = events("").await["last"].as_str().expect("an id").to_owned();
        let answer_task = async {
            let event = found("the request to be told", async || {
                let waiting_text = events(&format!("{waiting_text}&after={previous_text}")).await;
                waiting_text["events"].get(0).cloned()
            })
            .await;
            assert_eq!(event["data"]["method"], "elicitation/create", "{event}");
            let id = event["data"]["id"].as_u64().expect("an id");
            let (status, answer) = rest
                .post(&format!("/api/server-requests/{id}"), reply)
                .await;
            assert_eq!(status, StatusCode::OK, "{answer}");
            let settled_events = events(&format!(
                "type=server_request_settled&after={previous_text}"
            ))
            .await;
            let settled_events = &settled_events["events"][0]["data"];
            assert_eq!(
                settled_events,
                &json!({"name": "x", "id": id, "method": "elicitation/create", "outcome": outcome})
            );
        };
        tokio::join!(client.call("x__ask", ask.clone()), answer_task);
    }

    // Query events of both types: the newest page, and the page before it.
    let both_events = events("type=server_request_waiting,server_request_settled").await;
    let list = both_events["events"].as_array().expect("a list").iter();
    let ids: Vec<_> = list.map(|message| message["id"].clone()).collect();
    assert_eq!(ids.len(), 4, "{both_events}");
    assert!(both_events.get("truncated").is_none(), "{both_events}");
    let newest_events = events("limit=1").await;
    assert_eq!(newest_events["events"], json!([both_events["events"][3]]));
    assert_eq!(newest_events["truncated"], true);
    let id = ids[1].as_str().expect("an id");
    let earlier_events = events(&format!("{waiting_text}&before={id}")).await;
    assert_eq!(earlier_events["events"], json!([both_events["events"][0]]));
    assert_eq!(events("server=y").await["events"], json!([]));
    let (status, _) = rest.try_get("/api/events/recent?before=x").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    gateway.stop().await;
}
