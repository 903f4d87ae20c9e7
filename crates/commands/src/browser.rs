//! Opens a link in the browser of the desktop.

use std::{
    env,
    ffi::OsString,
    io,
    process::{Command, Stdio},
};

/// The reason why a link was not opened.
#[derive(Debug)]
pub enum NotOpened {
    /// This session has no display.
    NoDisplay,
    /// The program that opens links could not be started.
    NoProgram(io::Error),
}

impl NotOpened {
    /// A line that asks the person to open the link.
    pub fn sentence(&self) -> String {
        match self {
            Self::NoDisplay => "there is no display here, so open the link yourself".to_owned(),
            Self::NoProgram(error) => {
                format!("{OPENER} cannot be started ({error}), so open the link yourself")
            }
        }
    }
}

/// Opens a link with the desktop's program, without waiting for it.
pub fn open(url: &str) -> Result<(), NotOpened> {
    if !has_display(|name| env::var_os(name)) {
        return Err(NotOpened::NoDisplay);
    }
    let mut command = Command::new(OPENER);
    command
        .args(OPENER_ARGUMENTS)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Use a new process group, so that Ctrl-C in this terminal does not reach the browser.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map(drop).map_err(NotOpened::NoProgram)
}

#[cfg(windows)]
const OPENER: &str = "rundll32";
#[cfg(windows)]
const OPENER_ARGUMENTS: &[&str] = &["url.dll,FileProtocolHandler"];

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(any(windows, target_os = "macos")))]
const OPENER: &str = "xdg-open";
#[cfg(not(windows))]
const OPENER_ARGUMENTS: &[&str] = &[];

/// True if the person can see a browser that this process starts.
fn has_display(var: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| var(name).is_some_and(|value| !value.is_empty());
    if cfg!(any(windows, target_os = "macos")) {
        !is_set("SSH_CONNECTION")
    } else {
        is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
    }
}
