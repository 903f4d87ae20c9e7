//! A program in an invisible terminal. tmux keeps the screen, sends keys and changes the size. Each
//! terminal has its own tmux server.

use std::{ffi::OsStr, path::Path, process::Output};

use tempfile::TempDir;
use tokio::process::Command;

use crate::{found, limits::PROGRAMS, within};

/// The configuration of tmux. It keeps the screen after the program's end, and passes on a single
/// Escape without a delay.
const CONFIGURATION: &str = "\
set -g remain-on-exit on
set -g status off
set -g escape-time 0
set -g default-terminal screen-256color
set -g default-shell /bin/sh
";

/// A terminal and its program. Dropping the value ends both.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Returns true if tmux is installed. If not, prints to stderr that the test is skipped.
    #[expect(clippy::print_stderr, reason = "tests report to stderr")]
    pub fn is_available() -> bool {
        let version = std::process::Command::new("tmux").arg("-V").output();
        let is_there = version.is_ok_and(|output| output.status.success());
        if !is_there {
            eprintln!("skipped: tmux is missing");
        }
        is_there
    }

    /// Starts a command in a terminal of this size, with the command's arguments, variables and
    /// folder.
    pub async fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("tmux.conf"), CONFIGURATION).expect("written");
        let terminal = Self { folder };
        let command = command.as_std();
        let mut tmux = terminal.tmux(&["new-session", "-d"]);
        tmux.args(["-x", &columns.to_string(), "-y", &rows.to_string()]);
        if let Some(folder) = command.get_current_dir() {
            tmux.arg("-c").arg(folder);
        }
        tmux.args(["--", "env"]);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => {
                    let mut setting = name.to_owned();
                    setting.push("=");
                    setting.push(value);
                    tmux.arg(setting)
                }
                None => continue,
            };
        }
        let unset = command.get_envs().filter(|(_, value)| value.is_none());
        for (name, _) in unset {
            // The program inherits the environment of tmux.
            tmux.env_remove(name);
        }
        tmux.arg(command.get_program()).args(command.get_args());
        done(tmux).await;
        terminal
    }

    /// Presses keys. The names are those of tmux, such as `a`, `Enter`, `C-c`, `Escape` and `Up`.
    pub async fn press(&self, keys: &[&str]) {
        done(self.tmux(&[&["send-keys"], keys].concat())).await;
    }

    /// Types a text literally.
    pub async fn types(&self, text: &str) {
        done(self.tmux(&["send-keys", "-l", text])).await;
    }

    pub async fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        done(self.tmux(&["resize-window", "-x", &columns, "-y", &rows])).await;
    }

    /// The screen as lines of text, without trailing blanks.
    pub async fn screen(&self) -> String {
        done(self.tmux(&["capture-pane", "-p"])).await
    }

    /// The screen with escape sequences for colours and attributes.
    pub async fn styled_screen(&self) -> String {
        done(self.tmux(&["capture-pane", "-p", "-e"])).await
    }

    /// Waits for a text on the screen, and returns the screen.
    pub async fn wait_for_text(&self, text: &str) -> String {
        self.shows_when(text, |screen| screen.contains(text)).await
    }

    /// Waits until a text is gone from the screen, and returns the screen.
    pub async fn hides(&self, text: &str) -> String {
        let awaited = format!("the end of {text:?}");
        self.shows_when(&awaited, |screen| !screen.contains(text))
            .await
    }

    /// Waits until `fits` accepts the screen, and returns the screen. `awaited` describes the wait in
    /// the panic of a failed test.
    pub async fn shows_when(&self, awaited: &str, fits: impl Fn(&str) -> bool) -> String {
        let last = std::cell::RefCell::new(String::new());
        let looking = async {
            found(PROGRAMS, awaited, async || {
                let screen = self.screen().await;
                let fits = fits(&screen);
                last.borrow_mut().clone_from(&screen);
                fits.then_some(screen)
            })
            .await
        };
        // Print the last screen if the wait fails.
        let _last_screen = OnPanic(&last, awaited);
        looking.await
    }

    /// The process id of the program.
    pub async fn pid(&self) -> u32 {
        self.format("#{pane_pid}").await.parse().expect("a number")
    }

    /// True if the program uses the terminal's alternate screen, as full-screen programs do.
    pub async fn is_alternate(&self) -> bool {
        self.format("#{alternate_on}").await == "1"
    }

    /// The title that the program has set.
    pub async fn title(&self) -> String {
        self.format("#{pane_title}").await
    }

    pub async fn is_cursor_visible(&self) -> bool {
        self.format("#{cursor_flag}").await == "1"
    }

    /// Writes all further output of the program to a file.
    pub async fn records(&self, file: &Path) {
        let file = file.to_str().expect("UTF-8").replace('\'', r"'\''");
        done(self.tmux(&["pipe-pane", &format!("cat > '{file}'")])).await;
    }

    /// Waits for the program's end, and returns its exit code. `None` if a signal ended it.
    pub async fn ended(&self) -> Option<i32> {
        let end = "#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}";
        let end = found(PROGRAMS, "the end of the program", async || {
            let state = self.format(end).await;
            if state == "1::" {
                // tmux 3.3 can miss the program's end. The end of another child makes tmux check again.
                done(self.tmux(&["run-shell", "true"])).await;
            }
            (!state.ends_with("::")).then_some(state)
        })
        .await;
        let status = end.split(':').nth(1).expect("three parts");
        status.parse().ok()
    }

    async fn format(&self, format: &str) -> String {
        let value = done(self.tmux(&["display-message", "-p", format])).await;
        value.trim().to_owned()
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(self.own_tmux())
            .args(arguments)
            .env_remove("TMUX");
        command
    }

    fn own_tmux(&self) -> [Box<OsStr>; 5] {
        let path = |name| self.folder.path().join(name).into_os_string();
        let texts = [
            "-u".into(),
            "-S".into(),
            path("tmux"),
            "-f".into(),
            path("tmux.conf"),
        ];
        texts.map(Into::into)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut end = std::process::Command::new("tmux");
        end.args(self.own_tmux()).arg("kill-server");
        // The terminal may have ended by itself.
        end.output().ok();
    }
}

/// Prints the last screen if it is dropped during a panic.
struct OnPanic<'s>(&'s std::cell::RefCell<String>, &'s str);

impl Drop for OnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "tests report to stderr")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen, without {}:\n{}", self.1, self.0.borrow());
        }
    }
}

/// Runs a tmux command that must succeed, and returns its output.
async fn done(mut command: Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = within(command.output()).await.expect("tmux starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "tmux: {stderr}");
    String::from_utf8(stdout).expect("UTF-8")
}
