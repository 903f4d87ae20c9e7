//! Finds the process that listens on a TCP port of this machine, in /proc.

use std::{fs, net::SocketAddr, path::Path};

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    pub pid: u32,
    /// The name of its program.
    pub program: String,
}

impl PortHolder {
    /// The process that listens on this address. `None` if the process is not visible, for example because it
    /// belongs to another user.
    pub fn find(address: SocketAddr) -> Option<Self> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
        let inodes: Vec<String> = tables
            .filter_map(|table| fs::read_to_string(table).ok())
            .flat_map(|table| {
                let inodes = listening(&table, address.port());
                let sockets = inodes.map(|inode| format!("socket:[{inode}]"));
                sockets.collect::<Vec<_>>()
            })
            .collect();
        if inodes.is_empty() {
            return None;
        }
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut processes = processes.filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let descriptors = fs::read_dir(process.path().join("fd")).ok()?.flatten();
            let mut sockets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
            let has = sockets.any(|socket| inodes.iter().any(|inode| socket == Path::new(inode)));
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            // The process chooses its own name, and the name becomes part of a shell command. Keep harmless
            // characters only.
            let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.:/".contains(*c);
            let program = name.trim().chars().filter(is_plain).collect();
            has.then_some(Self { pid, program })
        });
        processes.next()
    }
}

/// The inodes of the sockets that listen on a port, from a table of the kernel.
fn listening(table: &str, port: u16) -> impl Iterator<Item = &str> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let mut columns = line.split_whitespace();
        let (local, state) = (columns.nth(1)?, columns.nth(1)?);
        let (_, found) = local.rsplit_once(':')?;
        let is_there = u16::from_str_radix(found, 16).ok()? == port && state == LISTEN;
        // The inode comes after the state, queues, timers, retransmissions, user and timeouts.
        columns.nth(5).filter(|_| is_there)
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{net::TcpListener, process};

    use super::*;

    #[test]
    fn a_listener_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let holder = PortHolder::find(address).expect("this process");
        assert_eq!(holder.pid, process::id());
        assert!(!holder.program.is_empty(), "{holder:?}");
        drop(listener);
        assert_eq!(PortHolder::find(address), None);
    }
}
