//! A home of its own for every test, and the program run in it. Everything is bounded in time.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines,
    },
    net::TcpStream,
    process::{Child, ChildStderr, Command},
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(40);

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work)
        .await
        .expect("within the time limit")
}

/// A home folder with a state directory in it.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A configuration with these servers, each the fake with these flags.
    pub fn fakes(&self, servers: &[(&str, &[&str])]) -> String {
        let program = fake_server::binary();
        let entry = |(name, flags): &(&str, &[&str])| {
            (
                (*name).to_owned(),
                serde_json::json!({"command": program, "args": flags}),
            )
        };
        let servers: serde_json::Map<String, Value> = servers.iter().map(entry).collect();
        self.file(
            "servers.json",
            &serde_json::json!({"mcpServers": servers}).to_string(),
        )
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
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

    /// Runs several commands; how they went, one after the other, without what differs each time.
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
        let mut child = self.command(&all).spawn().expect("it starts");
        let mut stdout = lines(child.stdout.take());
        let stderr = lines(child.stderr.take());
        let first = within(stdout.next_line())
            .await
            .expect("UTF-8")
            .expect("a line says where it listens");
        let started: Value = serde_json::from_str(&first).expect("JSON");
        let url = started["url"].as_str().expect("a URL").to_owned();
        let pid = started["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        Serving {
            child,
            pid: pid.expect("a process id"),
            url,
            stderr,
            said: String::new(),
        }
    }
}

fn lines<R: AsyncRead + Unpin>(pipe: Option<R>) -> Lines<BufReader<R>> {
    BufReader::new(pipe.expect("a pipe")).lines()
}

/// What a daemon answers to GET, with its head.
pub async fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").expect("a URL");
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    within(asked).await.expect("answered")
}

/// A running daemon. Dropped, it is killed.
pub struct Serving {
    child: Child,
    pid: u32,
    pub url: String,
    stderr: Lines<BufReader<ChildStderr>>,
    /// What was read from stderr so far.
    pub said: String,
}

impl Serving {
    /// Reads stderr up to a line that contains `words`, and returns that line.
    pub async fn says(&mut self, words: &str) -> String {
        loop {
            let line = within(self.stderr.next_line()).await.expect("UTF-8");
            let Some(line) = line else {
                panic!("{words:?} was never said:\n{}", self.said)
            };
            let _ = writeln!(self.said, "{line}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The daemon's own process, which is not the one that was started.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .expect("it runs");
        kill_process(pid, signal).expect("it can be signalled");
    }

    /// Its exit code.
    pub async fn ended(mut self) -> Option<i32> {
        within(self.child.wait())
            .await
            .expect("it can be waited for")
            .code()
    }

    pub async fn stop(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().await, Some(0));
    }
}

/// How a command went.
pub struct Run {
    arguments: Vec<String>,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn new(arguments: &[&str], output: &Output) -> Self {
        Self {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr.clone()).expect("UTF-8"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The words of a table, its head first.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        let lines = self.stdout.lines();
        lines
            .map(|line| line.split_whitespace().collect())
            .collect()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "$ mainstay {}", self.arguments.join(" "))?;
        f.write_str(&self.stdout)?;
        for line in self.stderr.lines() {
            writeln!(f, "! {line}")?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(f, "=> {code}"),
            None => writeln!(f, "=> ended by a signal"),
        }
    }
}

fn without_number_after(text: &str, mark: &str, replacement: &str) -> String {
    let mut parts = text.split(mark);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() {
            replacement
        } else {
            ""
        };
        let _ = write!(out, "{mark}{number}{rest}");
    }
    out
}

/// The folders of PATH become `[FOLDERS]`.
fn without_folders(text: &str) -> String {
    let mark = "looked in ";
    let mut parts = text.split(mark);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find([';', '"', '\n']).unwrap_or(part.len());
        let _ = write!(out, "{mark}[FOLDERS]{}", &part[end..]);
    }
    out
}

/// `12 ms` and `1.0 s` become `[TIME]`.
fn without_spans(text: &str) -> String {
    let mut out = text.to_owned();
    for unit in [" ms", " s"] {
        let mut from = 0;
        while let Some(at) = out[from..].find(unit).map(|at| from + at) {
            let ends = !out[at + unit.len()..].starts_with(|c: char| c.is_alphanumeric());
            let number = out[..at]
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
            if ends && number < at {
                out.replace_range(number..at + unit.len(), "[TIME]");
                from = number;
            } else {
                from = at + unit.len();
            }
        }
    }
    out
}
