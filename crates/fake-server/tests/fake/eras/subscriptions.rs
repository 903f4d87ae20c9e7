//! Tests of `subscriptions/listen` on both transports.

use fake_server::{Fake, Script};
use serde_json::{Value, json};

use super::http::start;
use crate::common::modern::{ask, call, headers, post, request, request_as};
use crate::common::peer::Peer;
use crate::common::{Stream, eventually, notification, read_until_broken, text, within};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: u32, filter: &Value) -> Value {
    request(
        id,
        "subscriptions/listen",
        &json!({"notifications": filter}),
    )
}

async fn open(fake: &Fake, id: u32, filter: &Value) -> Stream {
    let message = listen(id, filter);
    Stream::new(post(&fake.url(), &message, &headers(&message)).await)
}

#[tokio::test]
async fn only_honoured_changes_are_sent_with_a_tag() {
    within(async {
        let fake = start(Script {
            no_prompts: true,
            ..Script::default()
        })
        .await;
        let filter = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourceSubscriptions": ["fake://text", "fake://none"],
        });
        let mut full_stream = open(&fake, 1, &filter).await;
        let acknowledgement = full_stream.message().await;
        assert_eq!(
            acknowledgement["method"],
            "notifications/subscriptions/acknowledged"
        );
        assert_eq!(acknowledgement["params"]["_meta"][ID], 1);
        assert_eq!(
            acknowledgement["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["fake://text"]})
        );
        let mut resources = open(&fake, 2, &json!({"resourcesListChanged": true})).await;
        resources.message().await;
        assert_eq!(fake.listens(), 2);

        ask(&fake.url(), &call(3, "change_resources", &json!({}))).await;
        ask(&fake.url(), &call(4, "change_tools", &json!({}))).await;
        let touch_call = call(5, "touch", &json!({"uri": "fake://text"}));
        assert_eq!(
            text(&ask(&fake.url(), &touch_call).await.1),
            "1 sessions told"
        );
        let change_message = full_stream.message().await;
        assert_eq!(change_message["method"], "notifications/tools/list_changed");
        assert_eq!(change_message["params"]["_meta"][ID], 1);
        let update_message = full_stream.message().await;
        assert_eq!(update_message["method"], "notifications/resources/updated");
        assert_eq!(update_message["params"]["uri"], "fake://text");
        assert_eq!(update_message["params"]["_meta"][ID], 1);
        let change_message = resources.message().await;
        assert_eq!(
            change_message["method"],
            "notifications/resources/list_changed"
        );
        assert_eq!(change_message["params"]["_meta"][ID], 2);

        let count_response = ask(&fake.url(), &call(6, "subscriptions", &json!({})))
            .await
            .1;
        assert_eq!(
            count_response["result"]["structuredContent"],
            json!({"fake://text": 1})
        );
        drop(full_stream);
        eventually(|| fake.listens() == 1).await;
        assert_eq!(
            text(&ask(&fake.url(), &touch_call).await.1),
            "0 sessions told"
        );
    })
    .await;
}

#[tokio::test]
async fn a_subscription_ends_with_a_response_or_breaks() {
    within(async {
        let fake = start(Script::default()).await;
        let mut stream = open(&fake, 1, &json!({"toolsListChanged": true})).await;
        stream.message().await;
        ask(&fake.url(), &call(2, "end_listens", &json!({}))).await;
        let end = stream.message().await;
        assert_eq!(
            (&end["id"], &end["result"]["resultType"]),
            (&json!(1), &json!("complete"))
        );
        assert_eq!(end["result"]["_meta"][ID], 1);
        assert_eq!(stream.next().await.expect("unbroken"), None);
        assert!(fake.cancelled().is_empty());

        let message = listen(3, &json!({}));
        let response = post(&fake.url(), &message, &headers(&message)).await;
        ask(&fake.url(), &call(4, "drop_streams", &json!({}))).await;
        let (text, is_broken) = read_until_broken(response).await;
        assert!(is_broken && !text.contains("result"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn subscriptions_on_a_pipe_share_one_channel() {
    within(async {
        let mut peer = Peer::spawn(&["--revisions", "2026-07-28"]);
        for id in [1, 2] {
            let acknowledgement =
                peer.ask(listen(id, &json!({"toolsListChanged": true})).to_string());
            assert_eq!(acknowledgement.await["params"]["_meta"][ID], id);
        }
        peer.send(notification(
            "notifications/cancelled",
            &json!({"requestId": 1}),
        ))
        .await;
        peer.send(call(3, "change_tools", &json!({})).to_string())
            .await;
        let (first, second_message) = (peer.next().await, peer.next().await);
        let mut messages = [&first, &second_message];
        messages.sort_by_key(|message| message["id"].is_null());
        assert_eq!(text(messages[0]), "tools changed");
        assert_eq!(messages[1]["params"]["_meta"][ID], 2);
        let end_response = peer
            .ask(call(4, "end_listens", &json!({})).to_string())
            .await;
        let mut ends = [end_response["id"].clone(), peer.next().await["id"].clone()];
        ends.sort_by_key(Value::as_u64);
        assert_eq!(ends, [json!(2), json!(4)]);
    })
    .await;
}

#[tokio::test]
async fn tasks_are_listened_to_by_those_who_declare_them() {
    within(async {
        let fake = start(Script {
            tasks: true,
            ..Script::default()
        })
        .await;
        let params = json!({"notifications": {"taskIds": ["nobody"]}});
        let message = request_as(&json!({}), 1, "subscriptions/listen", &params);
        let (_, refusal) = ask(&fake.url(), &message).await;
        assert_eq!(refusal["error"]["code"], -32021);
        let (_, created_task) = ask(&fake.url(), &call(2, "task", &json!({"ask": true}))).await;
        let id = &created_task["result"]["taskId"];
        let mut stream = open(&fake, 3, &json!({"taskIds": [id, "nobody"]})).await;
        let acknowledgement = stream.message().await;
        assert_eq!(
            acknowledgement["params"]["notifications"],
            json!({"taskIds": [id]})
        );
        let answers = json!({"form": {"action": "decline"}});
        let update = json!({"taskId": id, "inputResponses": answers});
        let mut statuses = Vec::new();
        loop {
            ask(&fake.url(), &request(4, "tasks/update", &update)).await;
            let notice = stream.message().await;
            assert_eq!(notice["method"], "notifications/tasks");
            assert_eq!(notice["params"]["_meta"][ID], 3);
            statuses.push(
                notice["params"]["status"]
                    .as_str()
                    .expect("a text")
                    .to_owned(),
            );
            if statuses.last().is_some_and(|status| status == "completed") {
                break;
            }
        }
        assert!(
            statuses.ends_with(&["working".to_owned(), "completed".to_owned()]),
            "{statuses:?}"
        );
    })
    .await;
}
