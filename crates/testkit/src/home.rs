//! A separate home folder for each test, and the runs of `mainstay` in it.

use std::{
    fmt::Write as _,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

use crate::{
    limits::PROGRAMS,
    running::{Running, lines},
    soon,
    transcript::{Run, without_folders, without_number_after, without_spans},
    within,
};

/// A temporary home folder with a state directory. Dropping the value deletes the folder.
pub struct Home {
    folder: TempDir,
    program: PathBuf,
}

impl Home {
    /// An empty home for the `mainstay` at this path.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            program: program.into(),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The control token. Panics before a daemon has created it.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.state().join("token")).expect("a token")
    }

    /// Writes a file in the home folder, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let ours =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MAINSTAY_"));
        for (name, _) in ours {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("MAINSTAY_HOME", self.state())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .env_remove("CODEX_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Run {
        let output = within(self.command(arguments).output())
            .await
            .expect("it starts");
        Run::new(arguments, &output)
    }

    /// Runs several commands. Returns their results as one text, with placeholders for the parts that
    /// differ between runs.
    pub async fn transcript(&self, commands: &[&[&str]]) -> String {
        let mut transcript = String::new();
        for arguments in commands {
            let run = self.run(arguments).await;
            let _ = writeln!(transcript, "{run}");
        }
        self.redacted(&transcript)
    }

    pub fn redacted(&self, text: &str) -> String {
        let text = text.replace(self.path().to_str().expect("UTF-8"), "[HOME]");
        let text = without_number_after(&text, "127.0.0.1:", "[PORT]");
        let text = without_number_after(&text, "(pid ", "[PID]");
        without_spans(&without_folders(&text))
    }

    /// Starts `serve` on a free port, and waits until it listens.
    pub async fn serve(&self, arguments: &[&str]) -> Serving {
        let all = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut running = Running::start(self.command(&all));
        let mut stdout = lines(running.child.stdout.take());
        let first = soon(PROGRAMS, "where it listens", stdout.next_line())
            .await
            .expect("UTF-8")
            .expect("a line says where it listens");
        let started: Value = serde_json::from_str(&first).expect("JSON");
        let url = started["url"].as_str().expect("a URL").to_owned();
        let pid = started["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        Serving {
            running,
            pid: pid.expect("a process id"),
            url,
        }
    }
}

/// A running daemon. Dropping the value kills the daemon.
pub struct Serving {
    running: Running,
    pid: u32,
    pub url: String,
}

impl Deref for Serving {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Serving {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

impl Serving {
    /// The process id of the daemon itself. [`Running::pid`] is the process id of the guardian.
    pub fn daemon_pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the daemon to end, and returns its exit code.
    pub async fn ended(mut self) -> Option<i32> {
        self.running.ended().await.code()
    }

    pub async fn stop(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().await, Some(0));
    }
}

/// The daemon's HTTP response to a GET request, including its head.
pub async fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").expect("a URL");
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    within(exchange).await.expect("answered")
}
