//! Resource subscriptions: routed, counted, and announced to exactly the subscribers (specification, resources,
//! "Subscriptions").

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

/// Changes a list, so that every client gets a message. Asserts that no other message came before.
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
        let [plain, addressed, neither] = &clients;
        let mut streams = [plain.listen().await, addressed.listen().await, neither.listen().await];
        let [first, second, third] = &mut streams;
        subscribe(plain, "fake://text").await;
        subscribe(addressed, "mainstay+x:fake://text").await;
        subscribe(neither, "fake://blob").await;

        let text = neither.call_text("x__touch", json!({"uri": "fake://text"})).await;
        assert_eq!(text, "1 sessions told");
        assert_update(first, "fake://text").await;
        assert_update(second, "mainstay+x:fake://text").await;
        assert_no_update(plain, &mut [first, second, third]).await;
    }

    /// Two subscribers share one upstream subscription. The last one to leave ends it.
    async fn subscriptions_are_counted(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (one, two) = (gateway.client().await, gateway.client().await);
        let mut stream = two.listen().await;
        subscribe(&one, "fake://text").await;
        subscribe(&two, "fake://text").await;
        subscribe(&two, "fake://text").await;
        assert_eq!(backend.count(SUBSCRIBE), 1);

        unsubscribe(&one, "fake://text").await;
        // The end of a subscription that does not exist has no effect.
        unsubscribe(&one, "fake://text").await;
        unsubscribe(&one, "fake://blob").await;
        one.call("x__touch", json!({"uri": "fake://text"})).await;
        assert_update(&mut stream, "fake://text").await;
        assert_eq!(backend.count(UNSUBSCRIBE), 0);

        unsubscribe(&two, "fake://text").await;
        backend.until_count(UNSUBSCRIBE, 1).await;
        assert_eq!(one.call_text("x__touch", json!({"uri": "fake://text"})).await, "0 sessions told");
        assert_no_update(&one, &mut [&mut stream]).await;

        // Once more from the beginning.
        subscribe(&one, "fake://text").await;
        assert_eq!(backend.count(SUBSCRIBE), 2);
        assert_eq!(backend.count(UNSUBSCRIBE), 1);
    }

    /// An unsubscription and a new subscription reach the server in this order, or not at all.
    async fn who_leaves_and_comes_again_hears(kind) {
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
        let (one, two) = (gateway.client().await, gateway.client().await);
        let mut pipe = gateway.pipe().await;
        subscribe(&one, "fake://text").await;
        pipe.result(SUBSCRIBE, json!({"uri": "fake://blob"})).await;
        assert!(one.delete().await.is_success());
        backend.until_count(UNSUBSCRIBE, 1).await;
        pipe.close().await;
        backend.until_count(UNSUBSCRIBE, 2).await;
        assert_eq!(two.call("x__subscriptions", json!({})).await["structuredContent"], json!({}));
    }

    /// A server that returns gets the subscriptions again.
    async fn subscriptions_survive_a_lost_server(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let mut stream = client.listen().await;
        subscribe(&client, "fake://text").await;
        client.result("logging/setLevel", json!({"level": "error"})).await;
        // The level is passed on in the background, and the crash must not overtake it.
        backend.until_count("logging/setLevel", 1).await;
        client.call("x__crash", json!({})).await;
        client.assert_echo("x__echo").await;
        backend.until_count(SUBSCRIBE, 2).await;
        backend.until_count("logging/setLevel", 2).await;
        // Touch it repeatedly: the fake counts a request before it has handled it, and the session may be lost
        // once more, with the connections that the crash breaks.
        let touching = async {
            let mut glances = glances(GLANCE);
            loop {
                glances.tick().await;
                client.call("x__touch", json!({"uri": "fake://text"})).await;
            }
        };
        let receiving = async { while stream.message().await["method"] != UPDATED {} };
        tokio::select! {
            () = receiving => {}
            () = touching => {}
        }
    }

    async fn a_transparent_subscription_is_the_clients_own(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let (one, two) = (gateway.client_at("/servers/x/mcp").await, gateway.client_at("/servers/x/mcp").await);
        let (mut first, mut second) = (one.listen().await, two.listen().await);
        subscribe(&one, "fake://text").await;
        for client in [&one, &two] {
            client.call("touch", json!({"uri": "fake://text"})).await;
            client.call("change_prompts", json!({})).await;
        }
        assert_update(&mut first, "fake://text").await;
        while second.message().await["method"] == Value::Null {}
        assert_eq!(backend.count(SUBSCRIBE), 1);
    }
}

/// A refused subscription subscribes no client.
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

/// A subscription is sent to the server of its resource.
#[tokio::test]
async fn subscriptions_are_routed() {
    let (one, two) = (
        Backend::http().await,
        Backend::start(BackendKind::Sse, &[]).await,
    );
    let gateway = Gateway::with_servers(&[("x", &one), ("y", &two)]).await;
    let client = gateway.client().await;
    let mut stream = client.listen().await;
    subscribe(&client, "mainstay+y:fake://text").await;
    assert_eq!((one.count(SUBSCRIBE), two.count(SUBSCRIBE)), (0, 1));
    assert_eq!(two.of_method(SUBSCRIBE)[0]["params"]["uri"], "fake://text");
    client.call("x__touch", json!({"uri": "fake://text"})).await;
    client.call("y__touch", json!({"uri": "fake://text"})).await;
    assert_update(&mut stream, "mainstay+y:fake://text").await;
    until("the session upstream", || two.fake().sessions() == 1).await;
}
