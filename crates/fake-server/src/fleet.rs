//! Many backends that share one fate: one fake, and a port of its own for each behind a gate. They are
//! lost and come back at once, and attempts to open a session are counted.

use std::io;
use std::time::Instant;

use crate::Script;
use crate::fake::Fake;
use crate::gate::{Gate, Mode};

/// A running fleet. Dropped, it stops without being waited for.
pub struct Fleet {
    backend: Fake,
    gates: Vec<Gate>,
}

impl Fleet {
    /// Streamable HTTP on so many ports.
    pub async fn http(size: usize, script: Script) -> io::Result<Self> {
        #[cfg(unix)]
        raise_file_limit()?;
        let backend = Fake::http(script).await?;
        let open = |_| Gate::open(backend.address());
        let gates = (0..size).map(open).collect::<io::Result<_>>()?;
        Ok(Self { backend, gates })
    }

    pub fn urls(&self) -> impl Iterator<Item = String> {
        let url = |gate: &Gate| format!("http://{}/mcp", gate.address());
        self.gates.iter().map(url)
    }

    /// Every port closes, what is open is reset, and no session is known any more.
    pub async fn lose(&self) -> io::Result<()> {
        self.set(Mode::Closed).await?;
        self.gates.iter().for_each(Gate::reset);
        self.backend.expire_sessions();
        Ok(())
    }

    pub async fn set(&self, mode: Mode) -> io::Result<()> {
        for gate in &self.gates {
            gate.set(mode).await?;
        }
        Ok(())
    }

    /// When attempts to open a session came, in order: `initialize` came, or found a gate that resets.
    /// A closed port counts nothing.
    pub fn attempts(&self) -> Vec<Instant> {
        let received = self.backend.received();
        let greetings = received
            .iter()
            .filter(|it| it.method().as_deref() == Some("initialize"))
            .map(|it| it.at);
        let refusals = self.gates.iter().flat_map(Gate::refusals);
        in_order(greetings.chain(refusals))
    }

    /// When connections came, for whatever purpose, in order.
    pub fn connections(&self) -> Vec<Instant> {
        in_order(self.gates.iter().flat_map(Gate::attempts))
    }
}

fn in_order(times: impl Iterator<Item = Instant>) -> Vec<Instant> {
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable();
    times
}

/// As many files as we may have, here and in what is started later: a connection through a gate takes
/// three.
#[cfg(unix)]
fn raise_file_limit() -> io::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}
