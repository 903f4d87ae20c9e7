//! Checks for programs that a machine may lack.

use std::process::{Command, Stdio};

/// True if the program is installed. If not, prints that the test is skipped.
#[expect(clippy::print_stderr, reason = "tests report to stderr")]
pub fn is_installed(program: &str) -> bool {
    let probe = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let is_installed = probe.is_ok_and(|status| status.success());
    if !is_installed {
        eprintln!("skipped: {program} is missing");
    }
    is_installed
}
