//! The load generator against both echo backends, as separate processes over real transports.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Ends the backend with the test, whatever its outcome.
struct Backend(Child);

impl Drop for Backend {
    fn drop(&mut self) {
        self.0.kill().expect("the backend runs until it is killed");
        self.0.wait().expect("it was killed");
    }
}

fn echo_http() -> (Backend, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_echo-http"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("echo-http starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let backend = Backend(child);
    let mut url = String::new();
    BufReader::new(stdout)
        .read_line(&mut url)
        .expect("its URL is text");
    (backend, url.trim_end().to_owned())
}

/// Runs the load generator, which bounds its own time; returns its report and its success.
fn load(target: &[&str], more: &[&str]) -> (Value, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-load"))
        .args(["--connections=4", "--warmup=0", "--seconds=0.2"])
        .args(target)
        .args(more)
        .stderr(Stdio::inherit())
        .output()
        .expect("bench-load starts");
    let report = serde_json::from_slice(&output.stdout).expect("a report");
    (report, output.status.success())
}

#[track_caller]
fn check(target: &[&str], more: &[&str]) -> Value {
    let (report, is_valid) = load(target, more);
    assert!(is_valid, "{report}");
    assert!(report["calls"].as_u64() > Some(0), "{report}");
    assert!(report["p50_us"].as_f64() <= report["p99_us"].as_f64());
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    report
}

#[test]
fn http_with_sessions_of_their_own_and_shared() {
    let (backend, url) = echo_http();
    let pid = backend.0.id().to_string();
    let report = check(&["--url", &url], &["--pid", &pid]);
    assert!(report["cpu_us_per_call"]["echo-http"].is_number());
    check(
        &["--url", &url],
        &["--session=shared", "--payload", "40000"],
    );
}

#[test]
fn stdio_with_payloads_larger_than_a_pipe() {
    let program = env!("CARGO_BIN_EXE_echo-stdio");
    let report = check(&["--stdio", program], &["--payload", "200000"]);
    assert!(report["cpu_us_per_call"]["echo-stdio"].is_number());
}

#[test]
fn a_wrong_answer_makes_the_run_invalid() {
    let (_backend, url) = echo_http();
    let (report, is_valid) = load(&["--url", &url], &["--tool=missing"]);
    assert!(!is_valid);
    let failure = report["failures"][0].as_str().expect("a failure");
    assert!(failure.contains("unknown tool"), "{failure}");
}
