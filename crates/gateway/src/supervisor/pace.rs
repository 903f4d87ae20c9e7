//! Limits the attempts of all servers: the rate of attempts over the network, and the number of
//! processes that start at the same time.

use std::{collections::BTreeMap, sync::Arc};

use mainstay_core::{
    config::Launch,
    start::{Limit, Load, Rank, Slots},
};
use mainstay_transport::AttemptLimiter;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::cold_packages::{ColdPackages, ColdTurn};

/// Decides when an attempt may begin.
#[derive(Debug)]
pub struct Pace {
    pub turns: Arc<AttemptLimiter>,
    starts: Arc<Starts>,
    packages: Arc<ColdPackages>,
}

/// The urgency of an attempt.
#[derive(Debug)]
pub struct Urgency {
    pub rank: Rank,
    /// Becomes true when a caller requests the server while its start waits.
    pub requested: Option<watch::Receiver<bool>>,
}

impl Urgency {
    /// Resolves when a caller requests the server, so that its start takes precedence.
    async fn is_pressing(&mut self) {
        if let Some(requested) = &mut self.requested
            && self.rank != Rank::Requested
            && requested.wait_for(|requested| *requested).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl Pace {
    /// `attempts_per_second` limits attempts over the network. `concurrent_starts` is the number of
    /// processes that may start at the same time. `None` derives it from the number of cores.
    pub fn new(attempts_per_second: u32, concurrent_starts: Option<usize>) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let limit = match concurrent_starts {
            Some(starts) => Limit::Fixed(starts.max(1)),
            None => Limit::Cores(cores()),
        };
        Self {
            turns: Arc::new(AttemptLimiter::new(attempts_per_second)),
            starts: Arc::new(Starts::new(limit)),
            packages: Arc::default(),
        }
    }

    /// True if this start must wait for another start that fetches the same package.
    pub fn package_is_taken(&self, launch: &Launch) -> bool {
        match launch {
            Launch::Stdio(launch) => self.packages.is_taken(launch),
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => false,
        }
    }

    /// Resolves when an attempt may begin. Returns the slot of a process start, and `None` for an
    /// attempt without a process.
    pub async fn turn(&self, launch: &Launch, mut urgency: Urgency) -> Option<Slot> {
        match launch {
            Launch::Stdio(launch) => {
                let cold = self.packages.turn(launch).await;
                let waiting = WaitingStart::take(&self.starts, urgency.rank);
                let mut slot = tokio::select! {
                    biased;
                    slot = waiting.slot() => slot,
                    () = urgency.is_pressing() => WaitingStart::take(&self.starts, Rank::Requested).slot().await,
                };
                slot.cold = cold;
                Some(slot)
            }
            Launch::Http(_) => {
                self.turns.take().await;
                None
            }
            Launch::Broken(_) | Launch::Unapproved => None,
        }
    }
}

/// The slots, and the queue of starts that wait for a slot. Better ranks come first. Within a rank,
/// the oldest start comes first.
#[derive(Debug)]
struct Starts(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    slots: Slots,
    waiting: BTreeMap<Ticket, oneshot::Sender<Slot>>,
    last: u64,
}

type Ticket = (Rank, u64);

impl Starts {
    fn new(limit: Limit) -> Self {
        Self(Mutex::new(Queue {
            slots: Slots::new(limit),
            waiting: BTreeMap::new(),
            last: 0,
        }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Held for a map operation, never across an await, and never while a slot is dropped.
        self.0.lock()
    }

    /// Removes the next start from the queue and occupies a slot for it. `None` if there is no room.
    fn next(&self) -> Option<oneshot::Sender<Slot>> {
        let mut queue = self.queue();
        let ((rank, _), _) = queue.waiting.first_key_value()?;
        if !queue.slots.has_room(*rank) {
            return None;
        }
        let (_, next) = queue.waiting.pop_first()?;
        queue.slots.enter(Load::Computes);
        Some(next)
    }

    fn hand_out(self: &Arc<Self>) {
        while let Some(next) = self.next() {
            let slot = Slot {
                starts: Arc::clone(self),
                load: Load::Computes,
                cold: None,
            };
            // If the attempt was just aborted, the slot is dropped here and becomes free.
            next.send(slot).ok();
        }
    }
}

/// A start that waits for a slot. Dropping it removes the start from the queue.
struct WaitingStart {
    starts: Arc<Starts>,
    ticket: Ticket,
    granted: oneshot::Receiver<Slot>,
}

impl WaitingStart {
    fn take(starts: &Arc<Starts>, rank: Rank) -> Self {
        let (grant, granted) = oneshot::channel();
        let ticket = {
            let mut queue = starts.queue();
            queue.last += 1;
            let ticket = (rank, queue.last);
            queue.waiting.insert(ticket, grant);
            ticket
        };
        starts.hand_out();
        Self {
            starts: Arc::clone(starts),
            ticket,
            granted,
        }
    }

    async fn slot(mut self) -> Slot {
        match (&mut self.granted).await {
            Ok(slot) => slot,
            // Cannot happen: the queue keeps the sender until it grants a slot.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for WaitingStart {
    fn drop(&mut self) {
        self.starts.queue().waiting.remove(&self.ticket);
    }
}

/// Permission to start a process. Held until the handshake.
#[derive(Debug)]
pub struct Slot {
    starts: Arc<Starts>,
    load: Load,
    /// The turn among the starts of the same package, while the package is not cached.
    cold: Option<ColdTurn>,
}

impl Slot {
    /// Ends the start after its handshake. Its package is now cached.
    pub fn succeeded(mut self) {
        if let Some(cold) = self.cold.take() {
            cold.succeeded();
        }
    }

    /// Sets the load of the start. A start that waits or hangs makes room for other starts.
    pub fn settle(&mut self, load: Load) {
        self.cold.take_if(|cold| cold.is_over());
        if self.load == load {
            return;
        }
        {
            let mut queue = self.starts.queue();
            queue.slots.leave(self.load);
            queue.slots.enter(load);
        }
        self.load = load;
        self.starts.hand_out();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.starts.queue().slots.leave(self.load);
        self.starts.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use mainstay_core::config::StdioLaunch;

    use super::*;

    fn stdio() -> Launch {
        Launch::Stdio(StdioLaunch::default())
    }

    fn urgency(rank: Rank) -> Urgency {
        Urgency {
            rank,
            requested: None,
        }
    }

    async fn turn(pace: &Pace) -> Slot {
        let slot = pace.turn(&stdio(), urgency(Rank::New)).await;
        slot.expect("a process has a slot")
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_processes_start_at_once_and_no_more() {
        let pace = Pace::new(50, Some(2));
        let mut held = [turn(&pace).await, turn(&pace).await];
        let third = tokio::time::timeout(Duration::from_secs(60), turn(&pace)).await;
        assert!(third.is_err());
        held[0].settle(Load::Waits);
        assert!(turn(&pace).now_or_never().is_none(), "the limit is fixed");
        held[0].settle(Load::Hangs);
        let third = turn(&pace).now_or_never();
        assert!(third.is_some(), "one that hangs has no slot");
        drop(held);
        turn(&pace).await;
    }

    /// An aborted start frees its slot, even if the slot was granted and not yet received.
    #[tokio::test]
    async fn a_turn_that_is_given_up_is_another_s() {
        let pace = Pace::new(50, Some(1));
        let held = turn(&pace).await;
        let mut waits = Box::pin(turn(&pace));
        assert!((&mut waits).now_or_never().is_none());
        let mut next = Box::pin(turn(&pace));
        assert!((&mut next).now_or_never().is_none());
        // The slot was granted to the second start, which has not received it yet.
        drop(held);
        drop(waits);
        assert!(next.now_or_never().is_some());
        assert!(turn(&pace).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_is_asked_for_or_known_goes_first() {
        let pace = Pace::new(50, Some(1));
        let mut held = Some(turn(&pace).await);
        let (request, requested) = watch::channel(false);
        let launch = stdio();
        let urgencies = [
            urgency(Rank::New),
            urgency(Rank::New),
            urgency(Rank::Known),
            Urgency {
                rank: Rank::New,
                requested: Some(requested),
            },
        ];
        let mut turns: Vec<_> = urgencies
            .into_iter()
            .map(|urgency| Box::pin(pace.turn(&launch, urgency)))
            .collect();
        for turn in &mut turns {
            assert!(turn.now_or_never().is_none());
        }
        request.send_replace(true);
        assert!((&mut turns[3]).now_or_never().is_none());
        for expected in [3, 2, 0, 1] {
            held.take();
            for (number, turn) in turns.iter_mut().enumerate() {
                if number == expected {
                    held = turn.now_or_never().flatten();
                    assert!(held.is_some(), "{expected} is next");
                    break;
                }
            }
            // The later starts still wait.
            let mut rest = [3, 2, 0, 1]
                .into_iter()
                .skip_while(|number| *number != expected)
                .skip(1);
            assert!(rest.all(|number| (&mut turns[number]).now_or_never().is_none()));
        }
    }
}
