//! Programs that not every machine has.

use std::process::{Command, Stdio};

/// Whether a program is installed. Says on stderr that the test is skipped if it is not.
#[expect(clippy::print_stderr, reason = "tests report to stderr")]
pub fn is_installed(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let is_installed = asked.is_ok_and(|status| status.success());
    if !is_installed {
        eprintln!("skipped: {program} is missing");
    }
    is_installed
}
