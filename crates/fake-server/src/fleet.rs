//! Many backends that fail together: one fake with a gated port for each backend. Attempts to open
//! a session are counted.

use std::io;
use std::time::Instant;

use crate::Script;
use crate::fake::Fake;
use crate::gate::{Gate, GateMode};

/// A running fleet. Dropping it stops it without waiting.
pub struct Fleet {
    backend: Fake,
    gates: Vec<Gate>,
}

impl Fleet {
    /// Opens Streamable HTTP on this number of ports.
    pub async fn http(size: usize, script: Script) -> io::Result<Self> {
        #[cfg(unix)]
        raise_file_limit()?;
        let backend = Fake::http(script).await?;
        let open_gate = |_| Gate::open(backend.address());
        let gates = (0..size).map(open_gate).collect::<io::Result<_>>()?;
        Ok(Self { backend, gates })
    }

    pub fn urls(&self) -> impl Iterator<Item = String> {
        let url = |gate: &Gate| format!("http://{}/mcp", gate.address());
        self.gates.iter().map(url)
    }

    /// Closes every port, resets open connections, and forgets all sessions.
    pub async fn lose(&self) -> io::Result<()> {
        self.set(GateMode::Closed).await?;
        self.gates.iter().for_each(Gate::reset);
        self.backend.expire_sessions();
        Ok(())
    }

    pub async fn set(&self, mode: GateMode) -> io::Result<()> {
        for gate in &self.gates {
            gate.set(mode).await?;
        }
        Ok(())
    }

    /// Returns the times of attempts to open a session, in order: an `initialize`, or a connection
    /// to a resetting gate.
    pub fn attempts(&self) -> Vec<Instant> {
        let received_requests = self.backend.received();
        let greetings = received_requests
            .iter()
            .filter(|request| request.method().as_deref() == Some("initialize"))
            .map(|request| request.at);
        let refusals = self.gates.iter().flat_map(Gate::refusals);
        in_order(greetings.chain(refusals))
    }

    /// Returns the times of all connections, in order.
    pub fn connections(&self) -> Vec<Instant> {
        in_order(self.gates.iter().flat_map(Gate::attempts))
    }
}

fn in_order(times: impl Iterator<Item = Instant>) -> Vec<Instant> {
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable();
    times
}

/// Raises the limit of open files for this process and its children, because a connection through a
/// gate uses three files.
#[cfg(unix)]
fn raise_file_limit() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
