//! Tests of the program on stdio.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::common::{call, initialize, notification, peer::Peer, request, text, within};

#[tokio::test]
async fn pages_a_list_and_loops_when_told() {
    within(async {
        for (flags, is_endless) in [(&[][..], false), (&["--endless-pages"], true)] {
            let flags = [&["--page-size", "20", "--tools", "10"], flags].concat();
            let mut peer = Peer::open(&flags).await;
            let mut names = Vec::new();
            let mut cursor = json!({});
            let end = loop {
                let page = peer.ask(request(1, "tools/list", &cursor)).await;
                let tools = page["result"]["tools"].as_array().expect("tools");
                names.extend(tools.iter().map(|tool| tool["name"].to_string()));
                let next_cursor = page["result"]["nextCursor"].clone();
                if next_cursor.is_null() || names.len() > 100 {
                    break next_cursor;
                }
                cursor = json!({"cursor": next_cursor});
            };
            assert_eq!(end.is_string(), is_endless);
            assert!(names.contains(&r#""tool_10""#.to_owned()));
            assert!(names.contains(&r#""weird""#.to_owned()));
        }
        let mut peer = Peer::open(&[]).await;
        let refusal = peer
            .ask(request(1, "tools/list", &json!({"cursor": "foreign"})))
            .await;
        assert_eq!(refusal["error"]["code"], -32602);
    })
    .await;
}

#[tokio::test]
async fn echo_and_weird_keep_every_byte() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        let arguments = r#"{"z":1e3,  "text":"\ud800 \u002f","big":12345678901234567890123,"z":1.0}"#;
        peer.send(format!(
            r#"{{"params":{{"arguments":{arguments},"name":"echo"}},"method":"tools\/call","id":"a\u0062","jsonrpc":"2.0"}}"#
        ))
        .await;
        let line = String::from_utf8(peer.line().await).expect("UTF-8");
        assert_eq!(
            line,
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0062\",\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"\\ud800 \\u002f\"}}],\"structuredContent\":{arguments}}}}}\n"
            )
        );
        peer.send(call(2, "weird", &json!({}))).await;
        let line = String::from_utf8(peer.line().await).expect("UTF-8");
        assert!(line.contains(fake_server::WEIRD_RESULT));
    })
    .await;
}

#[tokio::test]
async fn progress_precedes_its_result() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        peer.send(call(1, "progress", &json!({"steps": 3}))).await;
        for step in 1..=3 {
            let progress = peer.next().await;
            assert_eq!(progress["method"], "notifications/progress");
            assert_eq!(progress["params"]["progressToken"], "p");
            assert_eq!(progress["params"]["progress"], step);
        }
        assert_eq!(text(&peer.next().await), "3 steps done");
    })
    .await;
}

#[tokio::test]
async fn answers_twice_wrongly_and_out_of_order() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        peer.send(call(1, "twice", &json!({}))).await;
        assert_eq!(peer.next().await["id"], 1);
        assert_eq!(peer.next().await["id"], 1);
        peer.send(call(2, "wrong_id", &json!({}))).await;
        assert_eq!(peer.next().await["id"], "nobody-asked");
        assert_eq!(peer.next().await["id"], 2);
        peer.send(call(3, "out_of_order", &json!({}))).await;
        peer.send(call(4, "out_of_order", &json!({}))).await;
        assert_eq!(peer.next().await["id"], 4);
        assert_eq!(peer.next().await["id"], 3);
    })
    .await;
}

#[tokio::test]
async fn asks_the_client_and_returns_its_answer() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        let question = peer.ask(call(1, "ask", &json!({}))).await;
        assert_eq!(question["method"], "sampling/createMessage");
        let id = &question["id"];
        let answer = peer
            .ask(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no"}}}}"#
            ))
            .await;
        assert_eq!(answer["id"], 1);
        assert_eq!(text(&answer), r#"{"error":{"code":-1,"message":"no"}}"#);
    })
    .await;
}

#[tokio::test]
async fn changes_tools_and_updates_subscribed_resources() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        let change_response = peer.ask(call(1, "change_tools", &json!({}))).await;
        assert_eq!(
            change_response["method"],
            "notifications/tools/list_changed"
        );
        peer.next().await;
        assert_eq!(text(&peer.ask(call(2, "extra", &json!({}))).await), "extra");

        let uri = json!({"uri": "fake://item/7"});
        let quiet_response = peer.ask(call(3, "touch", &uri)).await;
        assert_eq!(text(&quiet_response), "0 sessions told");
        peer.ask(request(4, "resources/subscribe", &uri)).await;
        let update_response = peer.ask(call(5, "touch", &uri)).await;
        assert_eq!(update_response["method"], "notifications/resources/updated");
        peer.next().await;
        let current_response = peer.ask(call(6, "subscriptions", &json!({}))).await;
        let expected = json!({"fake://item/7": 1});
        assert_eq!(current_response["result"]["structuredContent"], expected);
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_ends_without_an_answer() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        peer.send(call(1, "hang", &json!({}))).await;
        peer.send(notification(
            "notifications/cancelled",
            &json!({"requestId": 1}),
        ))
        .await;
        let cancel_response = peer.ask(call(2, "cancelled", &json!({}))).await;
        assert_eq!(text(&cancel_response), "[1]");
    })
    .await;
}

#[tokio::test]
async fn a_crash_ends_it_mid_call_and_the_run_is_on_file() {
    within(async {
        let files = tempfile::tempdir().expect("a directory");
        let count = files.path().join("count");
        let record = files.path().join("record");
        let (count, record) = (count.display().to_string(), record.display().to_string());
        let mut peer = Peer::open(&["--count-file", &count, "--record", &record]).await;
        peer.send(call(1, "crash", &json!({}))).await;
        assert!(peer.line().await.is_empty());
        assert_eq!(peer.exit().await.code(), Some(3));
        let read_text = |path| std::fs::read_to_string(path).expect("written");
        assert_eq!(read_text(count), "crash 1\n");
        let expected = [
            initialize("2025-06-18"),
            notification("notifications/initialized", &json!({})),
            call(1, "crash", &json!({})),
        ];
        assert_eq!(read_text(record).lines().collect::<Vec<_>>(), expected);
    })
    .await;
}

#[tokio::test]
async fn noise_half_lines_and_floods_surround_true_messages() {
    within(async {
        let flags = ["--noise", "--half-lines", "--flood-stdout", "200000"];
        let mut peer = Peer::spawn(&flags);
        peer.send(initialize("2024-11-05")).await;
        let mut lines = 0;
        let answer = loop {
            let line = peer.line().await;
            lines += 1;
            match serde_json::from_slice::<Value>(&line) {
                Ok(value) if value["jsonrpc"] == "2.0" => break value,
                _ => assert!(!line.is_empty(), "stdout ended"),
            }
        };
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        assert!(answer["result"]["capabilities"]["completions"].is_null());
        assert!(lines > 2500);
    })
    .await;
}

#[tokio::test]
async fn fails_at_start_as_told() {
    within(async {
        let mut peer = Peer::spawn(&["--crash-at-start", "7", "--stderr", "no licence"]);
        let mut stderr = String::new();
        let mut pipe = peer.child.stderr.take().expect("piped");
        pipe.read_to_string(&mut stderr).await.expect("read");
        assert!(stderr.starts_with("no licence\n"), "{stderr}");
        assert_eq!(peer.exit().await.code(), Some(7));

        let mut peer = Peer::spawn(&["--initialize-error"]);
        let answer = peer.ask(initialize("2025-11-25")).await;
        assert_eq!(answer["error"]["code"], -32603);

        let mut peer = Peer::open(&["--exit-after-initialize"]).await;
        assert!(peer.line().await.is_empty());
        assert_eq!(peer.exit().await.code(), Some(1));

        let mut peer = Peer::spawn(&[]);
        let answer = peer.ask(request(1, "tools/list", &json!({}))).await;
        assert_eq!(answer["error"]["message"], "not initialized");
        let answer = peer.ask("{nonsense".to_owned()).await;
        assert_eq!(answer["error"]["code"], -32700);
        assert!(peer.exit().await.success());
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn closes_its_stdin_and_lives_on() {
    within(async {
        let mut peer = Peer::open(&["--close-stdin-after", "1"]).await;
        let sleep_response = peer.ask(call(1, "sleep", &json!({"ms": 10}))).await;
        assert_eq!(text(&sleep_response), "slept 10 ms");
        // Stdin closes after the call is read. Earlier writes succeed.
        let mut stdin = peer.stdin.take().expect("open");
        while stdin.write_all(b"\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(peer.child.try_wait().expect("known"), None);
    })
    .await;
}

#[tokio::test]
async fn a_single_flight_hears_nothing_while_a_call_runs() {
    within(async {
        for (flags, order) in [(&[][..], [2, 1]), (&["--single-flight"], [1, 2])] {
            let mut peer = Peer::open(flags).await;
            peer.send(call(1, "sleep", &json!({"ms": 200}))).await;
            peer.send(request(2, "ping", &json!({}))).await;
            for id in order {
                assert_eq!(peer.next().await["id"], id, "{flags:?}");
            }
        }
        // A busy server does not read, because it has one thread.
        let mut peer = Peer::open(&[]).await;
        peer.send(call(1, "busy", &json!({"ms": 50}))).await;
        peer.send(request(2, "ping", &json!({}))).await;
        assert_eq!(text(&peer.next().await), "busy for 50 ms");
        assert_eq!(peer.next().await["id"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_hanging_server_lives_and_reads_nothing() {
    within(async {
        let mut peer = Peer::open(&["--hang-after", "2"]).await;
        peer.send(call(1, "sleep", &json!({"ms": 100}))).await;
        assert_eq!(
            text(&peer.ask(call(2, "add", &json!({"a": 1, "b": 2}))).await),
            "3"
        );
        assert_eq!(peer.next().await["id"], 1, "what has begun is answered");
        fills_up_unread(peer).await;

        let mut peer = Peer::open(&[]).await;
        peer.send(call(1, "sleep", &json!({"ms": 50}))).await;
        peer.send(call(2, "hang_server", &json!({}))).await;
        fills_up_unread(peer).await;
    })
    .await;
}

/// Writes pings until the pipe is full. No answer may arrive before.
async fn fills_up_unread(mut peer: Peer) {
    let ping = request(9, "ping", &json!({"padding": "x".repeat(1000)}));
    let stdin = peer.stdin.as_mut().expect("open");
    let full_wait = async {
        loop {
            let line = format!("{ping}\n");
            let write_result = stdin.write_all(line.as_bytes());
            let time_limit = std::time::Duration::from_millis(500);
            if tokio::time::timeout(time_limit, write_result)
                .await
                .is_err()
            {
                return;
            }
        }
    };
    let mut line = String::new();
    tokio::select! {
        () = full_wait => {}
        line = peer.stdout.read_line(&mut line) => panic!("answered: {line:?}"),
    }
    assert_eq!(peer.child.try_wait().expect("known"), None);
}

#[tokio::test]
async fn pings_are_refused_or_ignored_and_handshakes_late() {
    within(async {
        let mut peer = Peer::open(&["--no-ping"]).await;
        let refusal = peer.ask(request(1, "ping", &json!({}))).await;
        assert_eq!(refusal["error"]["code"], -32601);

        let mut peer = Peer::open(&["--ignore-ping"]).await;
        peer.send(request(1, "ping", &json!({}))).await;
        assert_eq!(
            text(&peer.ask(call(2, "add", &json!({"a": 1, "b": 2}))).await),
            "3"
        );

        let start = std::time::Instant::now();
        Peer::open(&["--handshake-delay", "150"]).await;
        assert!(start.elapsed().as_millis() >= 150);
    })
    .await;
}

#[tokio::test]
async fn tools_differ_between_starts_and_runs_are_known_by_their_keys() {
    within(async {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name| files.path().join(name).display().to_string();
        let (tools, count) = (path("tools"), path("count"));
        for number in ["1", "3\n"] {
            std::fs::write(&tools, number).expect("written");
            let mut peer = Peer::open(&["--tools-file", &tools, "--count-file", &count]).await;
            let last_response = peer.ask(call(7, "tool_3", &json!({"key": "k1"}))).await;
            assert_eq!(last_response["error"].is_null(), number == "3\n");
        }
        assert_eq!(
            std::fs::read_to_string(&count).expect("written"),
            "tool_3 7 k1\n"
        );
    })
    .await;
}

#[tokio::test]
async fn floods_on_demand_and_breaks_off_in_the_middle_of_an_answer() {
    within(async {
        let mut peer = Peer::open(&[]).await;
        let flood =
            |target: &str, is_endless| json!({"to": target, "bytes": 300_000, "endless": is_endless});
        peer.send(call(1, "flood", &flood("stdout", false))).await;
        let mut noise = 0;
        let answer = loop {
            let line = peer.line().await;
            if line.starts_with(b"{") {
                break line;
            }
            noise += line.len();
        };
        assert_eq!(noise, 300_000);
        assert!(answer.ends_with(b"\n"));

        peer.send(call(2, "flood", &flood("stdout", true))).await;
        let line = peer.line().await;
        assert_eq!(line.len(), 300_001, "it ends where the flood does");
        assert_eq!(text(&peer.next().await), "flooded");

        peer.send(call(3, "flood", &flood("stderr", false))).await;
        let mut stderr = vec![0; 300_000];
        let mut pipe = peer.child.stderr.take().expect("piped");
        pipe.read_exact(&mut stderr).await.expect("read");
        assert_eq!(text(&peer.next().await), "flooded");

        peer.send(call(4, "break_off", &json!({}))).await;
        let half_line = peer.line().await;
        assert!(
            half_line.starts_with(br#"{"jsonrpc":"2.0","id":4,"#) && !half_line.ends_with(b"}\n")
        );
        assert_eq!(peer.exit().await.code(), Some(3));
    })
    .await;
}
