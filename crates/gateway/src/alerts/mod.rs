//! Sends alerts: posts to webhooks, runs commands (`alerts` in the configuration).
//!
//! [`mainstay_core::alert`] decides what is sent. Each alert has a queue and a task, so that a slow or
//! dead receiver delays no other.

mod command;
mod message;
mod webhook;

use futures_util::FutureExt as _;
use mainstay_core::{
    alert::{Alarm, Watch},
    config::{Alert, Receiver},
    event::EventId,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinHandle, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::message::Message;
use crate::events::{EventOrGap, Events, Subscription};

/// Messages that may wait for one receiver; a receiver that is away for long misses some.
const MAX_PENDING: usize = 64;

/// The configured alerts, at work.
#[derive(Debug)]
pub struct Alerts {
    choice: Choice,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Alerts {
    pub fn start(alerts: &[Alert], events: &Events) -> Self {
        let (chosen, choice) = watch::channel(alerts.to_vec());
        let stop = CancellationToken::new();
        let task = AlertTask {
            subscription: events.remembered(),
            choice,
            active: Vec::new(),
            deliveries: JoinSet::new(),
            last: EventId::default(),
            stop: stop.clone(),
        };
        Self {
            choice: Choice(chosen),
            stop,
            task: tokio::spawn(task.run()),
        }
    }

    /// The handle by which other alerts are chosen.
    pub fn choice(&self) -> Choice {
        self.choice.clone()
    }

    /// Gives up what is not delivered yet; returns when nothing of it is left.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the alerts failed");
        }
    }
}

/// Which alerts are in force.
#[derive(Clone, Debug)]
pub struct Choice(watch::Sender<Vec<Alert>>);

impl Choice {
    /// Takes other alerts into force; those that did not change go on as they are.
    pub fn set(&self, alerts: &[Alert]) {
        self.0.send_replace(alerts.to_vec());
    }
}

/// Everything that can happen to the alerts.
enum Input {
    Event(Option<EventOrGap>),
    Configured,
    /// An alert that is no longer chosen has delivered what it had to.
    Ended(Result<(), JoinError>),
    Deadline,
    Stop,
}

/// The task that watches events and hands alarms over.
struct AlertTask {
    subscription: Subscription,
    choice: watch::Receiver<Vec<Alert>>,
    active: Vec<ActiveAlert>,
    deliveries: JoinSet<()>,
    /// The id given last.
    last: EventId,
    stop: CancellationToken,
}

/// One alert's watch, and the way to its receiver.
struct ActiveAlert {
    alert: Alert,
    watch: Watch,
    queue: mpsc::Sender<Message>,
}

impl AlertTask {
    async fn run(mut self) {
        self.configure();
        loop {
            match self.wait().await {
                Input::Event(Some(EventOrGap::Event(event))) => {
                    if let Some(server) = &event.server {
                        let now = Instant::now().into_std();
                        self.tell(|watch| watch.see(server, &event.kind, now));
                    }
                }
                Input::Event(Some(EventOrGap::Gap(_))) => {
                    tracing::warn!("events came too fast: an alert may be missing");
                }
                Input::Configured => self.configure(),
                Input::Ended(ended) => tell_panic(ended),
                Input::Deadline => {
                    let now = Instant::now().into_std();
                    self.tell(|watch| watch.tick(now));
                }
                Input::Event(None) | Input::Stop => break,
            }
        }
        self.stop.cancel();
        while let Some(ended) = self.deliveries.join_next().await {
            tell_panic(ended);
        }
    }

    async fn wait(&mut self) -> Input {
        let deadlines = self
            .active
            .iter()
            .filter_map(|active| active.watch.deadline());
        let deadline = deadlines.min().map(Instant::from_std);
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // A new choice holds for what happens after it.
            biased;
            () = self.stop.cancelled() => Input::Stop,
            Ok(()) = self.choice.changed() => Input::Configured,
            heard = self.subscription.next() => Input::Event(heard),
            Some(ended) = self.deliveries.join_next() => Input::Ended(ended),
            () = due => Input::Deadline,
        }
    }

    /// Takes the chosen alerts into force.
    fn configure(&mut self) {
        let chosen = self.choice.borrow_and_update().clone();
        let mut before = std::mem::take(&mut self.active);
        for (index, alert) in chosen.into_iter().enumerate() {
            let kept = before.iter().position(|active| active.alert == alert);
            let active = match kept {
                Some(kept) => before.swap_remove(kept),
                None => self.open(index, alert),
            };
            self.active.push(active);
        }
        // The tasks of those that are gone end when they have delivered what was told.
    }

    fn open(&mut self, index: usize, alert: Alert) -> ActiveAlert {
        let (queue, messages) = mpsc::channel(MAX_PENDING);
        let stop = self.stop.clone();
        let delivery = deliver(index, alert.clone(), messages, stop);
        self.deliveries.spawn(delivery.boxed());
        ActiveAlert {
            watch: Watch::new(alert.clone()),
            alert,
            queue,
        }
    }

    fn tell(&mut self, decide: impl Fn(&mut Watch) -> Vec<Alarm>) {
        for active in &mut self.active {
            for alarm in decide(&mut active.watch) {
                tracing::info!(%alarm, "alert");
                let message = Message::new(&mut self.last, alarm);
                if active.queue.try_send(message).is_err() {
                    tracing::warn!("an alert was dropped: too many wait for its receiver");
                }
            }
        }
    }
}

fn tell_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a delivery of alerts failed");
    }
}

/// Delivers to one receiver, a message at a time. `index` names the alert in the configuration.
async fn deliver(
    index: usize,
    alert: Alert,
    mut messages: mpsc::Receiver<Message>,
    stop: CancellationToken,
) {
    let limit = alert.timeout;
    let hook = match &alert.to {
        Receiver::Webhook(webhook) => webhook::open(webhook),
        Receiver::Command(_) => None,
    };
    let next = async |messages: &mut mpsc::Receiver<Message>| {
        stop.run_until_cancelled(messages.recv()).await.flatten()
    };
    while let Some(message) = next(&mut messages).await {
        match (&alert.to, &hook) {
            (Receiver::Webhook(_), Some(hook)) => {
                let posting = webhook::post(hook, &message, limit);
                match stop.run_until_cancelled(posting).await {
                    None | Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::warn!(alert = index, %error, "an alert was not delivered");
                    }
                }
            }
            // Why it cannot be used was said when it was opened.
            (Receiver::Webhook(_), None) => {}
            (Receiver::Command(command), _) => {
                if let Err(error) = command::run(command, &message, limit, &stop).await {
                    tracing::warn!(alert = index, %error, "the command of an alert failed");
                }
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
