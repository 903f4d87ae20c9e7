//! The faults of a run, their times and durations. The seed determines all of them.

use std::time::Duration;

/// The servers of a run in order: the number for each transport.
pub const FLEET: [(Transport, usize); 3] = [
    (Transport::Stdio, 10),
    (Transport::Http, 6),
    (Transport::Sse, 4),
];

/// The index of an HTTP server without calls: its probes are its only traffic.
pub const UNCALLED: usize = FLEET[0].1 + FLEET[1].1 + FLEET[2].1;

/// Length of a wave. In a wave, each server has at most one fault, and time to recover.
const WAVE: Duration = Duration::from_secs(20);

/// The part of a wave in which faults start.
const BEGINNINGS: Duration = Duration::from_secs(8);

/// Number of servers out of ten that have a fault in a wave. The other servers must not be affected.
const STRUCK_OF_TEN: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
    Sse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL. A network server is started again after a while.
    Kill,
    /// SIGKILL repeatedly, so that the server dies while starting, in its handshake and after it.
    Flap,
    /// The server exits during a call. A network server is started again after a while.
    CrashInCall,
    /// SIGSTOP, and SIGCONT after a while.
    Stop,
    /// The server lives but does nothing. A network server is started again after a while. If the server is
    /// a process, Mainstay must end it.
    Hang,
    /// Garbage on stdout.
    FloodOut,
    FloodErr,
    /// The connection breaks in the middle of an answer.
    BreakOff,
    /// The port is closed and connections are reset. The port opens after a while.
    Close,
    /// Connections are reset.
    Reset,
    /// No answer and no reset for a while.
    Silence,
    /// Connections stay half-open. New connections work.
    Strand,
    /// The server's entry in the configuration changes, so that Mainstay restarts only this server.
    Rewrite,
    /// HTTP 404 for all existing sessions.
    Forget,
    /// HTTP 503 with Retry-After for a while.
    Unavailable,
    /// Event streams break off.
    DropStreams,
    /// The connections of the server without calls become half-open. Then its operator reconnects it while a
    /// probe is pending, so that the probe's result belongs to a session that has ended.
    Overtake,
}

impl Fault {
    const STDIO: [Self; 9] = [
        Self::Kill,
        Self::Flap,
        Self::CrashInCall,
        Self::Stop,
        Self::Hang,
        Self::FloodOut,
        Self::FloodErr,
        Self::BreakOff,
        Self::Rewrite,
    ];
    const HTTP: [Self; 13] = [
        Self::Kill,
        Self::CrashInCall,
        Self::Stop,
        Self::Hang,
        Self::BreakOff,
        Self::Close,
        Self::Reset,
        Self::Silence,
        Self::Strand,
        Self::Rewrite,
        Self::Forget,
        Self::Unavailable,
        Self::DropStreams,
    ];
    /// A session of HTTP+SSE is its stream, so that it cannot be forgotten separately.
    const SSE: [Self; 12] = [
        Self::Kill,
        Self::CrashInCall,
        Self::Stop,
        Self::Hang,
        Self::BreakOff,
        Self::Close,
        Self::Reset,
        Self::Silence,
        Self::Strand,
        Self::Rewrite,
        Self::Unavailable,
        Self::DropStreams,
    ];

    fn for_transport(transport: Transport) -> &'static [Self] {
        match transport {
            Transport::Stdio => &Self::STDIO,
            Transport::Http => &Self::HTTP,
            Transport::Sse => &Self::SSE,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// Time since the start of the round.
    pub at: Duration,
    /// The server's index in the fleet.
    pub server: usize,
    pub fault: Fault,
    /// The duration of faults that end by themselves.
    pub lasts: Duration,
}

/// The transports of the fleet, server by server.
pub fn fleet() -> impl Iterator<Item = Transport> {
    FLEET
        .iter()
        .flat_map(|(transport, count)| std::iter::repeat_n(*transport, *count))
        .chain([Transport::Http])
}

/// The rounds of a run.
pub fn rounds(seed: u64, count: usize, length: Duration) -> Vec<Vec<Strike>> {
    let mut random = Random(seed);
    let mut decks = FLEET.map(|(transport, _)| Deck::new(Fault::for_transport(transport)));
    let waves = (length.as_secs() / WAVE.as_secs()).max(1);
    let mut round = || {
        let wave = |number| wave(WAVE * number, &mut decks, &mut random);
        let mut strikes: Vec<Strike> = (0..waves as u32).flat_map(wave).collect();
        strikes.sort_by_key(|strike| strike.at);
        strikes
    };
    (0..count).map(|_| round()).collect()
}

fn wave(start: Duration, decks: &mut [Deck; 3], random: &mut Random) -> Vec<Strike> {
    let mut strikes = Vec::new();
    let mut first = 0;
    for (deck, (_, count)) in decks.iter_mut().zip(FLEET) {
        let mut servers: Vec<usize> = (first..first + count).collect();
        first += count;
        random.shuffle(&mut servers);
        for server in servers
            .into_iter()
            .take((count * STRUCK_OF_TEN).div_ceil(10))
        {
            strikes.push(Strike {
                at: start + random.time(BEGINNINGS),
                server,
                fault: deck.draw(random),
                lasts: Duration::from_millis(300) + random.time(Duration::from_millis(2200)),
            });
        }
    }
    strikes.push(Strike {
        at: start + random.time(BEGINNINGS),
        server: UNCALLED,
        fault: Fault::Overtake,
        lasts: Duration::ZERO,
    });
    strikes
}

/// Draws faults so that every kind comes once before any kind repeats.
struct Deck {
    all: &'static [Fault],
    left: Vec<Fault>,
}

impl Deck {
    fn new(all: &'static [Fault]) -> Self {
        let left = Vec::new();
        Self { all, left }
    }

    fn draw(&mut self, random: &mut Random) -> Fault {
        if self.left.is_empty() {
            self.left = self.all.to_vec();
            random.shuffle(&mut self.left);
        }
        self.left.pop().expect("there are faults")
    }
}

/// SplitMix64: the same numbers on every machine and in every version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn time(&mut self, below: Duration) -> Duration {
        Duration::from_millis(self.below(below.as_millis() as u64))
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ROUND: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(rounds(7, 3, ROUND), rounds(7, 3, ROUND));
        assert_ne!(rounds(7, 3, ROUND), rounds(8, 3, ROUND));
    }

    #[test]
    fn every_fault_comes_in_every_run_and_no_server_has_two_at_once() {
        for seed in 0..20 {
            let rounds = rounds(seed, 3, Duration::from_secs(20));
            let faults: BTreeSet<Fault> =
                rounds.iter().flatten().map(|strike| strike.fault).collect();
            assert_eq!(faults.len(), 17);
            for round in rounds {
                let servers: BTreeSet<usize> = round.iter().map(|strike| strike.server).collect();
                assert_eq!(servers.len(), round.len());
                assert!(round.len() < fleet().count());
            }
        }
    }
}
