//! A server ends in different ways. None of its processes remains.

use std::{fs, sync::Arc, time::Duration};

use mainstay_core::{
    config::{Launch, Secret, StdioLaunch},
    era::{ClientCapabilities, Revision},
    ids::{Epoch, ServerName},
    lifecycle::Loss,
};
use mainstay_platform::lineage::Lineage;
use mainstay_testkit::{limits::PROGRAMS, soon, until};
use mainstay_transport::{
    self as transport, Approach, AttemptLimiter, Listener, Notice, Opening, ServerQuestion, Stop,
    logs::ServerLogs,
};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::json;

use crate::world::{Someone, TestHome, families, family, leader, zombies_of};

/// If a server crashes, its children are killed before it starts again (metamcp#162: 50 to 2,018
/// processes remain).
#[tokio::test]
async fn a_crash_takes_the_grandchildren_along() {
    let world = TestHome::new();
    let mut mainstay = world.serve_ready(&json!({"it": family(&[])})).await;
    let previous_processes = world.until("a family", families(1)).await;
    leader(&previous_processes).signal(Signal::KILL);
    let has_second_server = |processes: &[Someone]| {
        processes
            .iter()
            .any(|process| process.server() == Some("it:2"))
    };
    world.until("its second process", has_second_server).await;
    for process in previous_processes
        .iter()
        .filter(|process| process.server() == Some("it:1"))
    {
        test_kill_process(process.pid).expect_err(&process.words);
    }
    world.until("its second family", families(1)).await;
    // The guardian reaps the processes that it has adopted (docker#318).
    let guardian = mainstay.pid();
    world
        .until("no zombies", |_| zombies_of(guardian) == 0)
        .await;
    mainstay.signal(Signal::TERM);
    mainstay.ended().await;
    world.assert_deserted();
}

/// After a crash, even daemons are killed that have left the group, the session and the environment
/// of their server.
#[tokio::test]
async fn a_crash_takes_daemons_without_an_environment_along() {
    let world = TestHome::new();
    let ids = world.path().join("strays");
    let script = format!(
        "(env -i setsid sh -c 'echo $$ >>{}; exec sleep 1004' &); exec \"$0\"",
        ids.display()
    );
    let entry = json!({"command": "sh", "args": ["-c", script, fake_server::binary()]});
    let mut mainstay = world.serve_ready(&json!({"it": entry})).await;
    let stray_pids = || -> Vec<Pid> {
        let text = fs::read_to_string(&ids).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| line.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    until(PROGRAMS, "the first daemon", || stray_pids().len() == 1).await;
    leader(&world.everyone()).signal(Signal::KILL);
    until(PROGRAMS, "the second daemon", || stray_pids().len() == 2).await;
    let [first, second_pid] = stray_pids()[..] else {
        panic!("two daemons: {:?}", stray_pids());
    };
    test_kill_process(first).expect_err("it went with its server");
    test_kill_process(second_pid).expect("its server lives");
    mainstay.signal(Signal::TERM);
    mainstay.ended().await;
    test_kill_process(second_pid).expect_err("it went with Mainstay");
}

#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {
    fn take_notice(&self, _: Notice) {}
    fn ask(&self, _: ServerQuestion) {}
}

/// The end of a session is reported when its processes have ended, so processes of two sessions
/// never overlap (W1, invariant 9).
#[tokio::test]
async fn twenty_rapid_restarts_never_overlap() {
    let world = TestHome::new();
    let entry = family(&[]);
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let launch = StdioLaunch {
        command: text(&entry["command"]),
        args: entry["args"]
            .as_array()
            .expect("a list")
            .iter()
            .map(text)
            .collect(),
        env: [(
            "HOME".to_owned(),
            Secret::new(world.path().to_str().expect("UTF-8")),
        )]
        .into(),
        ..StdioLaunch::default()
    };
    let server = ServerName::new("it").expect("a name");
    let lineage = Lineage::default();
    let mut epoch = Epoch::NONE;
    for _ in 0..20 {
        epoch = epoch.next();
        let stop = Stop::default();
        let opening_options = Opening {
            lineage: lineage.clone(),
            tag: format!("it:{epoch}"),
            launch: Launch::Stdio(launch.clone()),
            credentials: None,
            approach: Approach::Legacy,
            steps_down: true,
            initialize: transport::own_initialize(
                Revision::LATEST_LEGACY,
                &ClientCapabilities::none(),
            ),
            max_message_bytes: 1024 * 1024,
            hang_after: Duration::from_secs(120),
            listener: Arc::new(Nobody),
            log: ServerLogs::default().server(&server),
            signs: Arc::default(),
            attempt_limiter: Arc::new(AttemptLimiter::new(50)),
            server: server.clone(),
            stop: stop.clone(),
        };
        let (_session, running_server) =
            soon(PROGRAMS, "its start", transport::open(opening_options))
                .await
                .expect("it opens");
        let processes = world.until("a family", families(1)).await;
        assert!(
            processes
                .iter()
                .all(|process| process.server() == Some(&format!("it:{epoch}"))),
            "{processes:#?}"
        );
        // Kill every second session, and stop the others in order.
        if epoch.0.is_multiple_of(2) {
            leader(&processes).signal(Signal::KILL);
            let loss = soon(PROGRAMS, "its end", running_server).await;
            assert_eq!(
                loss,
                Loss::Crashed {
                    code: None,
                    signal: Some(9)
                }
            );
        } else {
            stop.close.cancel();
            soon(PROGRAMS, "its end", running_server).await;
        }
        world.assert_deserted();
    }
}
