//! Client sessions over REST: `GET /api/sessions`, and ending a session.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{LATEST, initialize},
    gateway::{Gateway, found},
    modern::Modern,
    sse::Sse,
};

async fn sessions(gateway: &Gateway) -> Vec<Value> {
    let all_response = gateway.rest().get("/api/sessions").await;
    all_response["sessions"].as_array().expect("a list").clone()
}

/// Clients of 2026-07-28 have no session. Only the operator sees them in a list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_a_session_are_shown() {
    const PATH: &str = "/api/clients/stateless";
    let backend = Backend::stdio().await;
    let settings =
        json!({"journal": {"enabled": false}, "profiles": {"narrow": {"servers": ["x"]}}});
    let gateway = Gateway::with_settings(&[("x", &backend)], settings).await;
    let rest = gateway.rest();
    let _with_a_session = gateway.client().await;
    assert_eq!(rest.get(PATH).await, json!({"clients": []}));
    let client = Modern::at(&gateway, "/mcp/narrow");
    client.result("tools/list", json!({})).await;
    for _ in 0..2 {
        client.call("x__echo", json!({"text": "hello"})).await;
    }
    Modern::at(&gateway, "/mcp")
        .result("tools/list", json!({}))
        .await;
    let mut answer = rest.get(PATH).await;
    let clients = answer["clients"].as_array_mut().expect("a list");
    for client in clients.iter_mut() {
        let seen_at = client
            .as_object_mut()
            .expect("an object")
            .remove("lastSeenAt");
        assert!(
            seen_at.is_some_and(|seen_at| seen_at.is_string()),
            "{client}"
        );
    }
    let expected = |profile: Option<&str>, calls: u32| {
        let mut client = json!({
            "client": {"name": "tests", "version": "1"}, "protocolVersion": "2026-07-28",
            "transport": "streamable_http", "calls": calls,
        });
        if let Some(profile) = profile {
            client["profile"] = profile.into();
        }
        client
    };
    assert_eq!(*clients, [expected(None, 0), expected(Some("narrow"), 2)]);
    let unauthenticated_client = gateway.stranger(PATH);
    let headers = unauthenticated_client.headers("application/json");
    let answer = unauthenticated_client
        .send(http::Method::GET, headers, "")
        .await;
    assert_eq!(answer.whole().await.status, StatusCode::UNAUTHORIZED);
}

/// The list has sessions of all doors and endpoints, the newest first. The names of clients are
/// those in the records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_all_doors_are_shown() {
    let backend = Backend::stdio().await;
    let profiles = json!({"profiles": {"narrow": {"servers": ["x"]}}});
    let gateway = Gateway::with_settings(&[("x", &backend)], profiles).await;
    assert_eq!(
        gateway.rest().get("/api/sessions").await,
        json!({"sessions": [], "total": 0, "truncated": false})
    );
    let http = gateway.client_at("/mcp/narrow").await;
    let listen_stream = http.listen().await;
    let alone_client = gateway.client_at("/servers/x/mcp").await;
    let sse = Sse::greeted(&gateway, "/sse").await;
    let pipe = gateway.pipe().await;
    // This client of 2026-07-28 has no session.
    Modern::at(&gateway, "/mcp")
        .call("x__echo", json!({"text": "hello"}))
        .await;

    let all_sessions = sessions(&gateway).await;
    let column = |name: &str| {
        all_sessions
            .iter()
            .map(|session| session[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        column("transport"),
        ["stdio", "sse", "streamable_http", "streamable_http"]
    );
    assert_eq!(
        column("door"),
        ["mcp_stdio", "mcp_sse", "mcp_http", "mcp_http"]
    );
    assert_eq!(
        column("profile"),
        [Value::Null, Value::Null, Value::Null, "narrow".into()]
    );
    assert_eq!(
        column("server"),
        [Value::Null, Value::Null, "x".into(), Value::Null]
    );
    assert_eq!(column("protocolVersion"), [LATEST; 4]);
    assert_eq!(column("callsInFlight"), [0; 4]);
    let first = &all_sessions[3];
    assert_eq!(first["client"], json!({"name": "tests", "version": "1"}));
    assert_eq!(first["streams"], 1, "{first}");
    assert!(first.get("switchedOff").is_none(), "{first}");

    // The entry of a session has its calls in flight and its switches.
    let body = json!({"server": "x", "tool": "echo", "enabled": false});
    let (status, answer) = gateway.rest().put("/api/switches/tests", body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let call = alone_client.request_text("tools/call", r#"{"name":"hang","arguments":{}}"#);
    let pending_call = alone_client.begin(call);
    let listing = found("the call to show", async || {
        let all_sessions = sessions(&gateway).await;
        (all_sessions[2]["callsInFlight"] == 1).then_some(all_sessions)
    });
    let (pending_call, listed_sessions) = tokio::join!(pending_call, listing);
    assert_eq!(listed_sessions[3]["switchedOff"], 1);
    drop((pending_call, listen_stream));

    let few_response = gateway.rest().get("/api/sessions?limit=1").await;
    assert_eq!(
        (&few_response["total"], &few_response["truncated"]),
        (&4.into(), &true.into())
    );
    assert_eq!(few_response["sessions"][0]["id"], all_sessions[0]["id"]);

    // If a session ends between two pages, the pages neither repeat nor skip other sessions.
    let ids = |all_sessions: &[Value]| -> Vec<Value> {
        all_sessions
            .iter()
            .map(|message| message["id"].clone())
            .collect()
    };
    let (mut paged_sessions, mut query) = (Vec::new(), "limit=3".to_owned());
    loop {
        let page = gateway.rest().get(&format!("/api/sessions?{query}")).await;
        assert_eq!(page["total"], 4, "{page}");
        paged_sessions.extend(page["sessions"].as_array().expect("a list").clone());
        let Some(next_text) = page["next"].as_str() else {
            break;
        };
        query = format!("limit=3&before={next_text}");
    }
    assert_eq!(ids(&paged_sessions), ids(&all_sessions));
    let path = "/api/sessions?server=x";
    let server_sessions = gateway.rest().get(path).await;
    assert_eq!(server_sessions["total"], 1, "{server_sessions}");
    assert_eq!(
        server_sessions["sessions"][0]["server"], "x",
        "{server_sessions}"
    );
    let path = "/api/sessions?before=x";
    assert_eq!(
        gateway.rest().try_get(path).await.0,
        StatusCode::BAD_REQUEST
    );
    pipe.close().await;
    drop(sse);
    gateway.stop().await;
}

/// After a session was ended, its client's requests get 404. The id that records contain gives no
/// access to the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_ended() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let client = gateway.client().await;
    let id = sessions(&gateway).await[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert_ne!(client.session.as_deref(), Some(&*id));
    let path = format!("/api/sessions/{id}");
    let (status, answer) = rest.delete(&path).await;
    assert_eq!(
        (status, answer),
        (StatusCode::OK, json!({"success": true, "id": id}))
    );
    assert_eq!(gateway.sessions(), 0);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(client.post(ping).await.status, StatusCode::NOT_FOUND);
    let (status, answer) = rest.delete(&path).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["error"], "session_not_found");

    // The stream of an HTTP+SSE client ends together with its session.
    let mut stream = gateway.stranger("/sse").listen().await;
    let endpoint = stream.next().await.expect("an endpoint");
    gateway.stranger(&endpoint).post(initialize(LATEST)).await;
    stream.message().await;
    let id = sessions(&gateway).await[0]["id"].clone();
    let (status, _) = rest
        .delete(&format!("/api/sessions/{}", id.as_str().expect("an id")))
        .await;
    assert_eq!(status, StatusCode::OK);
    while stream.next().await.is_some() {}
    assert_eq!(gateway.sessions(), 0);

    // A session on stdio cannot be ended over REST. It ends with its client.
    let mut pipe = gateway.pipe().await;
    let id = sessions(&gateway).await[0]["id"].clone();
    let (status, answer) = rest
        .delete(&format!("/api/sessions/{}", id.as_str().expect("an id")))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    pipe.assert_echo("x__echo").await;
    pipe.close().await;
    gateway.stop().await;
}
