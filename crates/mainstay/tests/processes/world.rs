//! A home for each test. Its processes are recognised by their environment.

use std::{collections::HashMap, fs, path::Path, process::Stdio};

use mainstay_testkit::{
    Running, glances,
    limits::{GLANCE, PROGRAMS},
    soon,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

/// A running process of the test.
#[derive(Clone, Debug)]
pub struct Someone {
    pub pid: Pid,
    pub parent: Option<Pid>,
    /// The command line.
    pub words: String,
    pub environment: HashMap<String, String>,
}

impl Someone {
    fn read(pid: Pid) -> Option<Self> {
        let read_entry = |name: &str| {
            let bytes = fs::read(format!("/proc/{}/{name}", pid.as_raw_pid())).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let environment = read_entry("environ")?;
        let variables = environment
            .split('\0')
            .filter_map(|text| text.split_once('='));
        let stat = read_entry("stat")?;
        let (_, state) = stat.rsplit_once(") ")?;
        let parent = state.split(' ').nth(1)?.parse().ok();
        Some(Self {
            pid,
            parent: parent.and_then(Pid::from_raw),
            words: read_entry("cmdline")?.replace('\0', " ").trim().to_owned(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        })
        .filter(|_| !state.starts_with(['Z', 'X']))
    }

    /// The value that identifies the server, and its start, to which the process belongs.
    pub fn server(&self) -> Option<&str> {
        self.environment.get("MAINSTAY_SERVER").map(String::as_str)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it lives");
    }
}

/// The number of zombies among the children of a process.
pub fn zombies_of(parent: Pid) -> usize {
    let stats = fs::read_dir("/proc").expect("Linux").flatten();
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let mark_text = format!(") Z {} ", parent.as_raw_pid());
    stats.filter(|stat| stat.contains(&mark_text)).count()
}

pub struct TestHome(TempDir);

impl TestHome {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a configuration of these servers. Returns the path of the file.
    pub fn config(&self, name: &str, servers: &Value) -> String {
        let path = self.path().join(name);
        fs::write(&path, json!({"mcpServers": servers}).to_string()).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// All processes that use this home, in the order of their ids.
    pub fn everyone(&self) -> Vec<Someone> {
        let home = self.path().to_str().expect("UTF-8");
        let ids = fs::read_dir("/proc").expect("Linux").flatten();
        let ids = ids.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        let mut here: Vec<Someone> = ids.filter_map(Someone::read).collect();
        here.retain(|process| {
            process
                .environment
                .get("HOME")
                .is_some_and(|value| value == home)
        });
        here.sort_by_key(|process| process.pid.as_raw_pid());
        here
    }

    pub fn assert_deserted(&self) {
        let remaining_processes = self.everyone();
        assert!(remaining_processes.is_empty(), "{remaining_processes:#?}");
    }

    /// Waits until the condition holds for the processes. Returns the processes.
    pub async fn until(
        &self,
        description: &str,
        is_expected: impl Fn(&[Someone]) -> bool,
    ) -> Vec<Someone> {
        let matching_processes = async {
            let mut glances = glances(GLANCE);
            loop {
                let processes = self.everyone();
                if is_expected(&processes) {
                    return processes;
                }
                glances.tick().await;
            }
        };
        let wait_result = timeout(PROGRAMS, matching_processes).await;
        wait_result
            .unwrap_or_else(|_| panic!("waited in vain for {description}: {:#?}", self.everyone()))
    }

    pub async fn until_deserted(&self) {
        self.until("the end of everyone", <[Someone]>::is_empty)
            .await;
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").expect("a PATH"))
            .env("HOME", self.path())
            .env("MAINSTAY_HOME", self.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command until it ends. Returns its exit code, stdout and stderr.
    pub async fn run(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (Option<i32>, String, String) {
        let mut command = self.command(arguments);
        let output = soon(
            PROGRAMS,
            "a command",
            command.envs(variables.iter().copied()).output(),
        );
        let output = output.await.expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// Starts `serve`, and waits for a line on stderr with this text.
    pub async fn serve(&self, config: &str, listen: &str, ready_text: &str) -> Running {
        let command = self.command(&["serve", "--config", config, "--listen", listen]);
        let mut mainstay = Running::start(command);
        mainstay.wait_for_stderr(ready_text).await;
        mainstay
    }

    /// Starts `serve`, and waits until these servers are connected.
    pub async fn serve_ready(&self, servers: &Value) -> Running {
        let config = self.config("servers.json", servers);
        self.serve(&config, "127.0.0.1:0", "ready:").await
    }

    /// The only child of this guardian, which is the daemon.
    pub fn daemon_of(&self, guardian: &Running) -> Someone {
        let mut processes = self.everyone();
        processes.retain(|process| {
            process.parent == Some(guardian.pid())
                && process.environment.contains_key("MAINSTAY_GUARDIAN")
        });
        assert_eq!(processes.len(), 1, "{processes:#?}");
        processes.remove(0)
    }
}

impl Drop for TestHome {
    /// Kills the remaining processes. This also happens if the test fails.
    fn drop(&mut self) {
        for process in self.everyone() {
            kill_process(process.pid, Signal::KILL).ok();
        }
    }
}

/// A server with three descendants. One is in its group, one is in another session, and one has
/// also left its parent. All of them hold its stdout.
pub fn family(flags: &[&str]) -> Value {
    let script = "sleep 1001 & setsid sleep 1002 & (setsid sleep 1003 &); exec \"$0\" \"$@\"";
    let mut args = vec![json!("-c"), json!(script), json!(fake_server::binary())];
    args.extend(flags.iter().map(|flag| json!(flag)));
    json!({"command": "sh", "args": args})
}

/// Returns a condition: this number of families has all of its processes.
pub fn families(count: usize) -> impl Fn(&[Someone]) -> bool {
    move |processes| {
        let count_with = |prefix: &str| {
            processes
                .iter()
                .filter(|process| process.words.starts_with(prefix))
                .count()
        };
        ["sleep 1001", "sleep 1002", "sleep 1003"]
            .iter()
            .all(|prefix| count_with(prefix) == count)
            && processes
                .iter()
                .filter(|process| process.words.contains("fake-server"))
                .count()
                >= count
    }
}

/// The process of a server itself.
pub fn leader(processes: &[Someone]) -> &Someone {
    let mut leaders = processes.iter().filter(|process| {
        process.words.contains("fake-server") && !process.words.starts_with("sh ")
    });
    leaders.next().expect("a server")
}
