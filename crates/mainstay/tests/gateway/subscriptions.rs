//! Subscriptions to resources: how they are routed, counted and delivered (specification,
//! "Resources", "Subscriptions").

use mainstay_testkit::{glances, limits::GLANCE};
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, Stream},
    gateway::{Gateway, until},
};

const UPDATED: &str = "notifications/resources/updated";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

async fn subscribe(client: &Http, uri: &str) {
    assert_eq!(
        client.result(SUBSCRIBE, json!({"uri": uri})).await,
        json!({})
    );
}

async fn unsubscribe(client: &Http, uri: &str) {
    assert_eq!(
        client.result(UNSUBSCRIBE, json!({"uri": uri})).await,
        json!({})
    );
}

/// Asserts that the next message is an update of this URI.
async fn assert_update(stream: &mut Stream, uri: &str) {
    let message = stream.message().await;
    assert_eq!(
        (&message["method"], &message["params"]["uri"]),
        (&json!(UPDATED), &json!(uri))
    );
}

/// Changes a list, and asserts that each stream gets only the notification about it.
async fn assert_no_update(client: &Http, streams: &mut [&mut Stream]) {
    client.call("x__change_prompts", json!({})).await;
    for stream in streams {
        let message = stream.message().await;
        assert_eq!(
            message["method"], "notifications/prompts/list_changed",
            "{message}"
        );
    }
}

over_every_transport! {
    async fn updates_reach_exactly_the_subscribers_under_the_uri_they_used(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let clients = [gateway.client().await, gateway.client().await, gateway.client().await];
        let [plain_client, addressed_client, unsubscribed_client] = &clients;
        let mut streams = [plain_client.listen().await, addressed_client.listen().await, unsubscribed_client.listen().await];
        let [first, second_stream, third_stream] = &mut streams;
        subscribe(plain_client, "fake://text").await;
        subscribe(addressed_client, "mainstay+x:fake://text").await;
        subscribe(unsubscribed_client, "fake://blob").await;

        let text = unsubscribed_client.call_text("x__touch", json!({"uri": "fake://text"})).await;
        assert_eq!(text, "1 sessions told");
        assert_update(first, "fake://text").await;
        assert_update(second_stream, "mainstay+x:fake://text").await;
        assert_no_update(plain_client, &mut [first, second_stream, third_stream]).await;
    }

    /// All subscribers share one upstream subscription. It ends when the last of them unsubscribes.
    async fn subscriptions_are_counted(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client().await, gateway.client().await);
        let mut stream = second_client.listen().await;
        subscribe(&first_client, "fake://text").await;
        subscribe(&second_client, "fake://text").await;
        subscribe(&second_client, "fake://text").await;
        assert_eq!(backend.count(SUBSCRIBE), 1);

        unsubscribe(&first_client, "fake://text").await;
        // The second unsubscribe has no effect.
        unsubscribe(&first_client, "fake://text").await;
        unsubscribe(&first_client, "fake://blob").await;
        first_client.call("x__touch", json!({"uri": "fake://text"})).await;
        assert_update(&mut stream, "fake://text").await;
        assert_eq!(backend.count(UNSUBSCRIBE), 0);

        unsubscribe(&second_client, "fake://text").await;
        backend.until_count(UNSUBSCRIBE, 1).await;
        assert_eq!(first_client.call_text("x__touch", json!({"uri": "fake://text"})).await, "0 sessions told");
        assert_no_update(&first_client, &mut [&mut stream]).await;

        // The same works a second time.
        subscribe(&first_client, "fake://text").await;
        assert_eq!(backend.count(SUBSCRIBE), 2);
        assert_eq!(backend.count(UNSUBSCRIBE), 1);
    }

    /// An unsubscribe and the next subscribe reach the server in this order, or neither of them
    /// does.
    async fn a_client_that_subscribes_again_gets_updates(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        for _ in 0..50 {
            subscribe(&client, "fake://text").await;
            client.call("x__touch", json!({"uri": "fake://text"})).await;
            assert_update(&mut stream, "fake://text").await;
            unsubscribe(&client, "fake://text").await;
        }
    }

    async fn the_end_of_a_session_ends_its_subscriptions(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client().await, gateway.client().await);
        let mut pipe = gateway.pipe().await;
        subscribe(&first_client, "fake://text").await;
        pipe.result(SUBSCRIBE, json!({"uri": "fake://blob"})).await;
        assert!(first_client.delete().await.is_success());
        backend.until_count(UNSUBSCRIBE, 1).await;
        pipe.close().await;
        backend.until_count(UNSUBSCRIBE, 2).await;
        assert_eq!(second_client.call("x__subscriptions", json!({})).await["structuredContent"], json!({}));
    }

    /// After a reconnect, Mainstay subscribes again.
    async fn subscriptions_survive_a_lost_server(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        subscribe(&client, "fake://text").await;
        client.result("logging/setLevel", json!({"level": "error"})).await;
        // The level is sent in the background. Wait for it before the crash.
        backend.until_count("logging/setLevel", 1).await;
        client.call("x__crash", json!({})).await;
        client.assert_echo("x__echo").await;
        backend.until_count(SUBSCRIBE, 2).await;
        backend.until_count("logging/setLevel", 2).await;
        // Repeat the change, because the connections of the crash may end the session once more.
        let touch_task = async {
            let mut glances = glances(GLANCE);
            loop {
                glances.tick().await;
                client.call("x__touch", json!({"uri": "fake://text"})).await;
            }
        };
        let receive_task = async { while stream.message().await["method"] != UPDATED {} };
        tokio::select! {
            () = receive_task => {}
            () = touch_task => {}
        }
    }

    async fn a_transparent_subscription_is_the_clients_own(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (first_client, second_client) = (gateway.client_at("/servers/x/mcp").await, gateway.client_at("/servers/x/mcp").await);
        let (mut first, mut second_stream) = (first_client.listen().await, second_client.listen().await);
        subscribe(&first_client, "fake://text").await;
        for client in [&first_client, &second_client] {
            client.call("touch", json!({"uri": "fake://text"})).await;
            client.call("change_prompts", json!({})).await;
        }
        assert_update(&mut first, "fake://text").await;
        while second_stream.message().await["method"] == Value::Null {}
        assert_eq!(backend.count(SUBSCRIBE), 1);
    }
}

/// If the server refuses a subscription, it is not stored.
#[tokio::test]
async fn a_refused_subscription_is_none() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    for uri in ["fake://nothing", "mainstay+x:fake://nothing"] {
        let error = client.error(SUBSCRIBE, json!({"uri": uri})).await;
        assert_eq!(error["code"], -32002, "{error}");
        unsubscribe(&client, uri).await;
    }
    let error = client.error(SUBSCRIBE, json!({})).await;
    assert_eq!(error["code"], -32602, "{error}");
    client.assert_echo("x__echo").await;
    assert_eq!(backend.count(UNSUBSCRIBE), 0);
}

/// A subscription is sent to the server that has the resource.
#[tokio::test]
async fn subscriptions_are_routed() {
    let (first_backend, second_backend) = (
        Backend::http().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &second_backend)]).await;
    let client = gateway.client().await;
    let mut stream = client.listen().await;
    subscribe(&client, "mainstay+y:fake://text").await;
    assert_eq!(
        (
            first_backend.count(SUBSCRIBE),
            second_backend.count(SUBSCRIBE)
        ),
        (0, 1)
    );
    assert_eq!(
        second_backend.of_method(SUBSCRIBE)[0]["params"]["uri"],
        "fake://text"
    );
    client.call("x__touch", json!({"uri": "fake://text"})).await;
    client.call("y__touch", json!({"uri": "fake://text"})).await;
    assert_update(&mut stream, "mainstay+y:fake://text").await;
    until("the session upstream", || {
        second_backend.fake().sessions() == 1
    })
    .await;
}
