//! Tests of alerts with real HTTP receivers and real commands.

use std::{path::Path, time::Duration};

use mainstay_core::{
    config::{AlertCommand, AlertKind, Flapping, Secret, Webhook},
    event::EventKind,
    ids::ServerName,
};
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    time::{sleep, timeout},
};

use super::*;

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(40), work)
        .await
        .expect("within the time limit")
}

async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    within(async {
        loop {
            match look() {
                Some(found) => return found,
                None => sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

/// An alert that reports an outage at once.
fn alert(to: Receiver) -> Alert {
    Alert {
        on: vec![AlertKind::ServerDown, AlertKind::Recovered],
        servers: Vec::new(),
        to,
        after: Duration::ZERO,
        flapping: Flapping {
            losses: 3,
            within: Duration::from_secs(1),
        },
        timeout: Duration::from_secs(5),
    }
}

fn shell(script: &str) -> Receiver {
    Receiver::Command(AlertCommand {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
    })
}

fn lost(events: &EventRing) {
    lost_because(events, "gone");
}

fn lost_because(events: &EventRing, reason: &str) {
    let name = ServerName::new("fs").expect("a name");
    let kind = EventKind::ServerDisconnected {
        was_intentional: false,
        reason: Some(reason.to_owned()),
    };
    events.publish(Some(&name), kind);
}

fn connected(events: &EventRing) {
    let name = ServerName::new("fs").expect("a name");
    events.publish(Some(&name), EventKind::ServerConnected {});
}

/// A receiver of POSTs.
struct Hook {
    listener: TcpListener,
    url: String,
}

impl Hook {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = format!("http://{address}/hook/s3cret");
        Self { listener, url }
    }

    fn receiver(&self) -> Receiver {
        Receiver::Webhook(Webhook {
            url: Secret::new(&*self.url),
            headers: vec![("X-Key".to_owned(), Secret::new("k3y"))],
        })
    }

    /// Takes one POST, answers it, and returns its head and body.
    async fn take(&self, answer: &str) -> (String, String) {
        within(async {
            let (stream, _) = self.listener.accept().await.expect("a connection");
            let mut stream = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).await.expect("a line") > 0);
            }
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.expect("a length").parse().expect("a number")];
            stream.read_exact(&mut body).await.expect("a body");
            let answer =
                format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("written");
            stream.flush().await.expect("flushed");
            (head, String::from_utf8(body).expect("UTF-8"))
        })
        .await
    }
}

/// A message is posted again, unchanged, until the receiver accepts it. Then the next message
/// follows.
#[tokio::test]
async fn a_receiver_that_fails_first_gets_everything_in_order() {
    let hook = Hook::new().await;
    let events = EventRing::default();
    let alerts = Alerts::start(&[alert(hook.receiver())], &events);
    lost(&events);
    let (head, first) = hook.take("500 No").await;
    assert!(head.starts_with("POST /hook/s3cret HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("x-key: k3y\r\n") || head.contains("X-Key: k3y\r\n"),
        "{head}"
    );
    connected(&events);
    let (_, second) = hook.take("503 Later\r\nretry-after: 0").await;
    let (_, third) = hook.take("200 OK").await;
    assert!(first == second && second == third);
    let body: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(body["alert"], "server_down");
    assert_eq!(body["server"], "fs");
    assert_eq!(body["text"], "server fs has been down for 0 s: gone");
    assert_eq!(body["data"]["reason"], "gone");
    let (_, next) = hook.take("204 OK").await;
    let next: Value = serde_json::from_str(&next).expect("JSON");
    assert_eq!(next["alert"], "recovered");
    assert_eq!(next["data"]["from"], "server_down");
    assert!(next["id"].as_str() > body["id"].as_str());
    within(alerts.stop()).await;
}

/// A permanent refusal is not retried.
#[tokio::test]
async fn a_refusal_for_good_is_given_up() {
    let hook = Hook::new().await;
    let events = EventRing::default();
    let alerts = Alerts::start(&[alert(hook.receiver())], &events);
    lost(&events);
    connected(&events);
    let (_, refused) = hook.take("403 Never").await;
    let (_, next) = hook.take("200 OK").await;
    assert_ne!(refused, next);
    within(alerts.stop()).await;
}

/// A dead receiver delays neither other receivers nor the stop. `Debug` hides its URL.
#[tokio::test]
async fn receivers_do_not_wait_for_each_other() {
    let (dead, live) = (Hook::new().await, Hook::new().await);
    let events = EventRing::default();
    let mut chosen = [alert(dead.receiver()), alert(live.receiver())];
    // Longer than the time limit of the test.
    chosen[0].timeout = Duration::from_hours(1);
    assert!(!format!("{chosen:?}").contains("s3cret"));
    let alerts = Alerts::start(&chosen, &events);
    for _ in 0..MAX_PENDING * 2 {
        lost(&events);
        let (_, body) = live.take("200 OK").await;
        assert!(body.contains("server_down"), "{body}");
        connected(&events);
        let (_, body) = live.take("200 OK").await;
        assert!(body.contains("recovered"), "{body}");
    }
    within(alerts.stop()).await;
}

#[tokio::test]
async fn a_command_gets_the_alert_on_stdin_and_in_its_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told");
    let script = format!(
        "cat > {0}.new; echo >> {0}.new; env | grep ^MAINSTAY_ | sort >> {0}.new; mv {0}.new {0}",
        file.display()
    );
    let events = EventRing::default();
    let alerts = Alerts::start(&[alert(shell(&script))], &events);
    lost(&events);
    let output = until(|| std::fs::read_to_string(&file).ok()).await;
    let (json, variables) = output.split_once('\n').expect("two parts");
    let json: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(json["alert"], "server_down");
    let id = json["id"].as_str().expect("an id");
    assert_eq!(
        variables.trim(),
        format!(
            "MAINSTAY_ALERT=server_down\nMAINSTAY_ALERT_ID={id}\nMAINSTAY_ALERT_SERVER=fs\n\
             MAINSTAY_ALERT_TEXT=server fs has been down for 0 s: gone"
        )
    );
    within(alerts.stop()).await;
}

/// A server may write a NUL into its reason. No variable of the environment can contain one.
#[tokio::test]
async fn a_command_is_started_whatever_the_reason_contains() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told");
    let script = format!(
        "printenv MAINSTAY_ALERT_TEXT > {0}.new; mv {0}.new {0}",
        file.display()
    );
    let events = EventRing::default();
    let alerts = Alerts::start(&[alert(shell(&script))], &events);
    lost_because(&events, "boom\0x");
    let output = until(|| std::fs::read_to_string(&file).ok()).await;
    assert!(output.ends_with("boom\u{fffd}x\n"), "{output:?}");
    within(alerts.stop()).await;
}

/// Waits for the process id that a command writes to this file.
async fn pid(file: &Path) -> Pid {
    until(|| {
        let text = std::fs::read_to_string(file).ok()?;
        Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
    })
    .await
}

async fn gone(pid: Pid) {
    until(|| test_kill_process(pid).is_err().then_some(())).await;
}

/// A command that hangs is killed together with its children, both after its time limit and at the
/// stop.
#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let events = EventRing::default();
    let mut chosen = alert(shell(&script));
    // Long enough for the shell to write its child's id, even on a busy machine.
    chosen.timeout = Duration::from_secs(3);
    let alerts = Alerts::start(&[chosen], &events);
    lost(&events);
    gone(pid(&file).await).await;
    within(alerts.stop()).await;

    std::fs::remove_file(&file).expect("removed");
    let mut chosen = alert(shell(&script));
    chosen.timeout = Duration::from_hours(1);
    let events = EventRing::default();
    let alerts = Alerts::start(&[chosen], &events);
    lost(&events);
    let pid = pid(&file).await;
    within(alerts.stop()).await;
    gone(pid).await;
}

/// After a reload, unchanged alerts continue, new alerts start, and removed alerts end.
#[tokio::test]
async fn other_alerts_may_be_chosen() {
    let (old, unchanged, new) = (Hook::new().await, Hook::new().await, Hook::new().await);
    let events = EventRing::default();
    let [old_one, unchanged_alert, new_one] =
        [&old, &unchanged, &new].map(|hook| alert(hook.receiver()));
    let alerts = Alerts::start(&[old_one, unchanged_alert.clone()], &events);
    lost(&events);
    old.take("200 OK").await;
    unchanged.take("200 OK").await;
    alerts.choice().set(&[unchanged_alert, new_one]);
    connected(&events);
    lost(&events);
    let (_, body) = new.take("200 OK").await;
    assert!(body.contains("server_down"), "{body}");
    let (_, body) = unchanged.take("200 OK").await;
    assert!(
        body.contains("recovered"),
        "it remembers what it told: {body}"
    );
    let waiting = timeout(Duration::from_millis(50), old.listener.accept()).await;
    assert!(waiting.is_err(), "it was told though nobody chose it");
    within(alerts.stop()).await;
}
