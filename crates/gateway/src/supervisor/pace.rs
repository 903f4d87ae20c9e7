//! Paces the attempts of all servers: turns on the network, and slots for starting processes.

use std::{collections::BTreeMap, sync::Arc};

use mainstay_core::{
    config::Launch,
    start::{Limit, Load, Rank, Slots},
};
use mainstay_transport::AttemptLimiter;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::cold_packages::{ColdPackages, ColdTurn};

/// When an attempt may begin.
#[derive(Debug)]
pub struct Pace {
    pub turns: Arc<AttemptLimiter>,
    starts: Arc<Starts>,
    packages: Arc<ColdPackages>,
}

/// How soon a session is wanted.
#[derive(Debug)]
pub struct Wish {
    pub rank: Rank,
    /// Turns true when a caller asks for the server while its start waits.
    pub asked: Option<watch::Receiver<bool>>,
}

impl Wish {
    /// Resolves when the start is to go before others.
    async fn is_pressing(&mut self) {
        if let Some(asked) = &mut self.asked
            && self.rank != Rank::Asked
            && asked.wait_for(|asked| *asked).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl Pace {
    /// At most so many attempts over the network per second, and processes starting at once.
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

    /// Whether another start that fetches the same package keeps this one waiting.
    pub fn package_is_taken(&self, launch: &Launch) -> bool {
        match launch {
            Launch::Stdio(launch) => self.packages.is_taken(launch),
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => false,
        }
    }

    /// Resolves when an attempt may begin. A process has a slot for its start.
    pub async fn turn(&self, launch: &Launch, mut wish: Wish) -> Option<Slot> {
        match launch {
            Launch::Stdio(launch) => {
                let cold = self.packages.turn(launch).await;
                let waiting = WaitingStart::take(&self.starts, wish.rank);
                let mut slot = tokio::select! {
                    biased;
                    slot = waiting.slot() => slot,
                    () = wish.is_pressing() => WaitingStart::take(&self.starts, Rank::Asked).slot().await,
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

/// The slots, and the starts that wait for one: those of a better rank first, and each in its order.
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

    /// The start that is next, if there is room. It has its slot from now on.
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
            // An attempt that has just been given up drops its slot.
            next.send(slot).ok();
        }
    }
}

/// A start that waits for a slot. Dropping it takes it out of the queue.
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
            // The queue keeps the sender until it grants a slot, or this start is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for WaitingStart {
    fn drop(&mut self) {
        self.starts.queue().waiting.remove(&self.ticket);
    }
}

/// Held while a process starts.
#[derive(Debug)]
pub struct Slot {
    starts: Arc<Starts>,
    load: Load,
    /// Its turn among the starts that fetch the same package.
    cold: Option<ColdTurn>,
}

impl Slot {
    /// The start had its handshake.
    pub fn succeeded(mut self) {
        if let Some(cold) = self.cold.take() {
            cold.succeeded();
        }
    }

    /// Sets the load of the start. One that waits or hangs makes room for others.
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

    fn wish(rank: Rank) -> Wish {
        Wish { rank, asked: None }
    }

    async fn turn(pace: &Pace) -> Slot {
        let slot = pace.turn(&stdio(), wish(Rank::New)).await;
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

    /// One that was given up leaves no slot behind, wherever it was.
    #[tokio::test]
    async fn a_turn_that_is_given_up_is_another_s() {
        let pace = Pace::new(50, Some(1));
        let held = turn(&pace).await;
        let mut waits = Box::pin(turn(&pace));
        assert!((&mut waits).now_or_never().is_none());
        let mut next = Box::pin(turn(&pace));
        assert!((&mut next).now_or_never().is_none());
        // It has its slot now, and has not seen it.
        drop(held);
        drop(waits);
        assert!(next.now_or_never().is_some());
        assert!(turn(&pace).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_is_asked_for_or_known_goes_first() {
        let pace = Pace::new(50, Some(1));
        let mut held = Some(turn(&pace).await);
        let (asks, asked) = watch::channel(false);
        let launch = stdio();
        let wishes = [
            wish(Rank::New),
            wish(Rank::New),
            wish(Rank::Known),
            Wish {
                rank: Rank::New,
                asked: Some(asked),
            },
        ];
        let mut turns: Vec<_> = wishes
            .into_iter()
            .map(|wish| Box::pin(pace.turn(&launch, wish)))
            .collect();
        for turn in &mut turns {
            assert!(turn.now_or_never().is_none());
        }
        asks.send_replace(true);
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
            // The others wait still.
            let mut rest = [3, 2, 0, 1]
                .into_iter()
                .skip_while(|it| *it != expected)
                .skip(1);
            assert!(rest.all(|number| (&mut turns[number]).now_or_never().is_none()));
        }
    }
}
