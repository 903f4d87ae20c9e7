//! The requests that `records export` and `records --follow` send. A fake daemon answers them when
//! the test says so.

use std::process::Stdio;

use mainstay_testkit::{Home, home, lines, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::fakes::fakes;

/// The page size of an export.
const PAGE: usize = 1000;

struct Fake {
    listener: TcpListener,
    url: String,
    record: Value,
}

/// A request that is not answered yet.
struct PendingRequest {
    path: String,
    stream: TcpStream,
}

impl PendingRequest {
    async fn answer(mut self, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let answer = [head.as_bytes(), body.as_bytes()].concat();
        within(self.stream.write_all(&answer)).await.expect("taken");
        within(self.stream.shutdown()).await.ok();
    }

    fn has_parameter(&self, part: &str) -> bool {
        self.path.contains(part)
    }
}

impl Fake {
    /// Starts the fake. Takes a record from a real daemon as a template.
    async fn start(home: &Home) -> Self {
        let config = fakes(home, &[("fake", &[])]);
        let daemon = home.serve(&["--config", &config]).await;
        let run = home.run(&["call", "fake/echo", "text=x"]).await;
        assert_eq!(run.code, Some(0), "{run}");
        let page = home.run(&["records", "--json"]).await.json();
        assert_eq!(page["calls"][0]["tool"], "echo", "{page}");
        daemon.stop().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self {
            listener,
            url,
            record: page["calls"][0].clone(),
        }
    }

    fn command(&self, home: &Home, arguments: &[&str]) -> Command {
        let mut command = home.command(arguments);
        command
            .env("MAINSTAY_URL", &self.url)
            .env("MAINSTAY_TOKEN", "token")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn next_request(&self) -> PendingRequest {
        let (mut stream, _) = within(self.listener.accept()).await.expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(stream.read_u8()).await.expect("a head"));
        }
        let head = String::from_utf8(head).expect("UTF-8");
        let path = head.split(' ').nth(1).expect("a path").to_owned();
        PendingRequest { path, stream }
    }

    fn calls(&self, ids: impl Iterator<Item = usize>, status: &str) -> Vec<Value> {
        let call = |id: usize| {
            let mut call = self.record.clone();
            call["id"] = id.to_string().into();
            call["status"] = status.into();
            call
        };
        ids.map(call).collect()
    }
}

fn page(calls: &[Value], next_cursor: Option<usize>) -> Value {
    let mut page =
        json!({"calls": calls, "total_count": 4 * PAGE, "truncated": next_cursor.is_some()});
    if let Some(next_cursor) = next_cursor {
        page["next"] = next_cursor.to_string().into();
    }
    page
}

/// Memory use does not grow, because each page is written before the next one is requested.
#[tokio::test]
async fn a_page_is_written_before_the_next_one_is_asked_for() {
    let home = home!();
    let fake = Fake::start(&home).await;
    let arguments = ["records", "export", "--format", "jsonl"];
    let mut child: Child = fake.command(&home, &arguments).spawn().expect("it starts");
    let mut rows = lines(child.stdout.take());
    let mut newest_number = 4 * PAGE;
    while newest_number > 0 {
        let request = fake.next_request().await;
        assert!(
            request.has_parameter(&format!("limit={PAGE}")),
            "{}",
            request.path
        );
        let is_first = newest_number == 4 * PAGE;
        assert_eq!(
            !is_first,
            request.has_parameter(&format!("before={}", newest_number + 1)),
            "{}",
            request.path
        );
        // Only the first request asks for the count.
        assert_eq!(
            is_first,
            !request.has_parameter("count=false"),
            "{}",
            request.path
        );
        let ids = (newest_number - PAGE + 1..=newest_number).rev();
        let next_cursor = (newest_number > PAGE).then_some(newest_number - PAGE + 1);
        request
            .answer(&page(&fake.calls(ids.clone(), "ok"), next_cursor))
            .await;
        // The lines of this page arrive before the next page is answered.
        for id in ids {
            let row = within(rows.next_line())
                .await
                .expect("UTF-8")
                .expect("a row");
            let row: Value = serde_json::from_str(&row).expect("JSON");
            assert_eq!(row["id"], id.to_string());
        }
        newest_number -= PAGE;
    }
    assert!(within(child.wait()).await.expect("it ends").success());
}

/// A poll needs one request if there are no new calls, and a second request if calls are open.
#[tokio::test]
async fn follow_requests_only_new_records() {
    let home = home!();
    let fake = Fake::start(&home).await;
    let mut child = fake
        .command(&home, &["records", "--follow", "--json", "--since", "7d"])
        .spawn()
        .expect("it starts");
    let mut rows = lines(child.stdout.take());
    let is_look = |request: &PendingRequest| {
        request.has_parameter("since=")
            && request.has_parameter("count=false")
            && !request.has_parameter("status=")
    };
    let earlier_request = fake.next_request().await;
    assert!(
        earlier_request.has_parameter("status=open"),
        "{}",
        earlier_request.path
    );
    earlier_request.answer(&page(&[], None)).await;
    for _ in 0..3 {
        let poll_request = fake.next_request().await;
        assert!(is_look(&poll_request), "{}", poll_request.path);
        poll_request.answer(&page(&[], None)).await;
    }

    let open_calls = fake.calls((1..=20).rev(), "open");
    fake.next_request()
        .await
        .answer(&page(&open_calls, None))
        .await;
    for _ in 0..2 {
        let poll_request = fake.next_request().await;
        assert!(is_look(&poll_request), "{}", poll_request.path);
        poll_request.answer(&page(&open_calls, None)).await;
        let list = fake.next_request().await;
        assert!(
            list.has_parameter("status=open") && list.has_parameter("since="),
            "{}",
            list.path
        );
        list.answer(&page(&open_calls, None)).await;
    }

    // If one call may have ended, it is requested by its id.
    let poll_request = fake.next_request().await;
    assert!(is_look(&poll_request), "{}", poll_request.path);
    poll_request.answer(&page(&open_calls, None)).await;
    let list = fake.next_request().await;
    let left: Vec<Value> = open_calls
        .iter()
        .filter(|call| call["id"] != "7")
        .cloned()
        .collect();
    list.answer(&page(&left, None)).await;
    let ended_request = fake.next_request().await;
    assert!(ended_request.path.ends_with("/7"), "{}", ended_request.path);
    let ok_calls = fake.calls(7..=7, "ok");
    ended_request
        .answer(&json!({"call": ok_calls[0], "arguments": null, "result": null}))
        .await;
    let row = within(rows.next_line())
        .await
        .expect("UTF-8")
        .expect("a row");
    let row: Value = serde_json::from_str(&row).expect("JSON");
    assert_eq!((&row["id"], &row["status"]), (&json!("7"), &json!("ok")));
}
