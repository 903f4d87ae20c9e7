//! The processes of a run, found by a mark in their environment that all their descendants inherit.

use std::{collections::BTreeMap, fs};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that holds the mark: `run/server/role`.
pub const MARK: &str = "CHAOS";

/// The roles of processes.
pub const SERVED: &str = "served";
pub const DIRECT: &str = "direct";
pub const BACKEND: &str = "backend";

#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub server: String,
    pub role: String,
    /// True for a fake itself, false for its children.
    pub is_fake: bool,
}

/// All living processes of this run, without zombies.
pub fn of_run(run: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut all: Vec<Process> = pids.filter_map(|pid| read(pid, run)).collect();
    tell_children(&mut all);
    all
}

/// Marks the children of fakes. A child has the fake's name until it executes its own program.
fn tell_children(all: &mut [Process]) {
    let fakes = pids_of_fakes(all);
    for process in all {
        process.is_fake &= !fakes.contains(&process.parent);
    }
}

fn pids_of_fakes(all: &[Process]) -> Vec<u32> {
    all.iter()
        .filter(|process| process.is_fake)
        .map(|process| process.pid)
        .collect()
}

/// Reads a process. `None` for processes of other runs, and for processes that end meanwhile.
fn read(pid: u32, run: &str) -> Option<Process> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    let mut mark = std::str::from_utf8(mark).ok()?.split('/');
    if mark.next()? != run {
        return None;
    }
    let (server, role) = (mark.next()?.to_owned(), mark.next()?.to_owned());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may contain parentheses.
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut rest = rest.split_whitespace();
    if rest.next()? == "Z" {
        return None;
    }
    Some(Process {
        pid,
        parent: rest.next()?.parse().ok()?,
        server,
        role,
        is_fake: name == "fake-server",
    })
}

/// Sends a signal to the fakes behind Mainstay, and to those for direct calls.
pub fn signal(run: &str, server: &str, signal: Signal) {
    for process in of_run(run)
        .iter()
        .filter(|process| process.is_fake && process.server == server)
    {
        send(process.pid, signal);
    }
}

pub fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // The process may have ended.
        let _ = kill_process(pid, signal);
    }
}

/// Processes that outlived their parents: descendants whose parent is not a process of the run.
pub fn orphans(all: &[Process]) -> BTreeMap<u32, String> {
    let fakes = pids_of_fakes(all);
    all.iter()
        .filter(|process| !process.is_fake && !fakes.contains(&process.parent))
        .map(|process| (process.pid, format!("{}/{}", process.server, process.role)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_not_begun_yet_is_no_second_server() {
        let fake = |pid, parent| Process {
            pid,
            parent,
            server: "s9".to_owned(),
            role: SERVED.to_owned(),
            is_fake: true,
        };
        let mut all = [fake(10, 1), fake(11, 10), fake(12, 1)];
        tell_children(&mut all);
        assert_eq!(pids_of_fakes(&all), [10, 12]);
        assert!(orphans(&all).is_empty());
    }
}
