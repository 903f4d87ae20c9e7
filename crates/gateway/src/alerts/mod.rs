//! Sends alerts to webhooks and commands (`alerts` in the configuration).
//!
//! [`mainstay_core::alert`] decides which alarms are sent. Each configured alert has a queue and a
//! task, so that a slow or dead receiver does not delay other receivers.

mod command;
mod message;
mod webhook;

use futures_util::FutureExt as _;
use mainstay_core::{
    alert::{Alarm, AlertWatch},
    config::{Alert, Receiver},
    event::EventId,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, JoinHandle, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::message::AlertMessage;
use crate::events::{EventOrGap, EventRing, Subscription};

/// Maximum number of messages that wait for one receiver. Further messages are dropped.
const MAX_PENDING: usize = 64;

/// The tasks of the configured alerts.
#[derive(Debug)]
pub struct Alerts {
    choice: Choice,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Alerts {
    pub fn start(alerts: &[Alert], events: &EventRing) -> Self {
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

    /// A handle that replaces the alerts in force.
    pub fn choice(&self) -> Choice {
        self.choice.clone()
    }

    /// Drops undelivered messages, and returns when all tasks have ended.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the alerts failed");
        }
    }
}

/// A handle that replaces the alerts in force.
#[derive(Clone, Debug)]
pub struct Choice(watch::Sender<Vec<Alert>>);

impl Choice {
    /// Sets the alerts in force. Unchanged alerts continue without a restart.
    pub fn set(&self, alerts: &[Alert]) {
        self.0.send_replace(alerts.to_vec());
    }
}

/// An input of the alert task. `wait` builds it, and `run` handles it.
enum Input {
    Event(Option<EventOrGap>),
    Configured,
    /// The delivery task of a removed alert has ended.
    Ended(Result<(), JoinError>),
    Deadline,
    Stop,
}

/// The task that watches events and queues messages for the receivers.
struct AlertTask {
    subscription: Subscription,
    choice: watch::Receiver<Vec<Alert>>,
    active: Vec<ActiveAlert>,
    deliveries: JoinSet<()>,
    /// The id of the last message.
    last: EventId,
    stop: CancellationToken,
}

/// A configured alert, its state, and the queue to its receiver.
struct ActiveAlert {
    alert: Alert,
    watch: AlertWatch,
    queue: mpsc::Sender<AlertMessage>,
}

impl AlertTask {
    async fn run(mut self) {
        self.configure();
        loop {
            match self.wait().await {
                Input::Event(Some(EventOrGap::Event(event))) => {
                    let now = Instant::now().into_std();
                    match &event.server {
                        Some(server) => {
                            self.queue_alarms(|watch| watch.see(server, &event.kind, now));
                        }
                        None => self.queue_alarms(|watch| {
                            watch.see_own(&event.kind, now).into_iter().collect()
                        }),
                    }
                }
                Input::Event(Some(EventOrGap::Gap(_))) => {
                    tracing::warn!("events came too fast: an alert may be missing");
                }
                Input::Configured => self.configure(),
                Input::Ended(result) => log_panic(result),
                Input::Deadline => {
                    let now = Instant::now().into_std();
                    self.queue_alarms(|watch| watch.tick(now));
                }
                Input::Event(None) | Input::Stop => break,
            }
        }
        self.stop.cancel();
        while let Some(result) = self.deliveries.join_next().await {
            log_panic(result);
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
            // Biased, so that new alerts are applied before later events.
            biased;
            () = self.stop.cancelled() => Input::Stop,
            Ok(()) = self.choice.changed() => Input::Configured,
            event = self.subscription.next() => Input::Event(event),
            Some(result) = self.deliveries.join_next() => Input::Ended(result),
            () = due => Input::Deadline,
        }
    }

    /// Opens new alerts, keeps unchanged alerts, and drops removed alerts.
    fn configure(&mut self) {
        let chosen = self.choice.borrow_and_update().clone();
        let mut before = std::mem::take(&mut self.active);
        for (index, alert) in chosen.into_iter().enumerate() {
            let position = before.iter().position(|active| active.alert == alert);
            let active = match position {
                Some(position) => before.swap_remove(position),
                None => self.open(index, alert),
            };
            self.active.push(active);
        }
        // The delivery tasks of removed alerts end when their queues are empty.
    }

    fn open(&mut self, index: usize, alert: Alert) -> ActiveAlert {
        let (queue, messages) = mpsc::channel(MAX_PENDING);
        let stop = self.stop.clone();
        let delivery = deliver(index, alert.clone(), messages, stop);
        self.deliveries.spawn(delivery.boxed());
        ActiveAlert {
            watch: AlertWatch::new(alert.clone()),
            alert,
            queue,
        }
    }

    fn queue_alarms(&mut self, decide: impl Fn(&mut AlertWatch) -> Vec<Alarm>) {
        for active in &mut self.active {
            for alarm in decide(&mut active.watch) {
                tracing::info!(%alarm, "alert");
                let message = AlertMessage::new(&mut self.last, alarm);
                if active.queue.try_send(message).is_err() {
                    tracing::warn!("an alert was dropped: too many wait for its receiver");
                }
            }
        }
    }
}

fn log_panic(result: Result<(), JoinError>) {
    if let Err(error) = result {
        tracing::error!(%error, "a delivery of alerts failed");
    }
}

/// Delivers messages to one receiver, one after the other. `index` is the position of the alert in
/// the configuration.
async fn deliver(
    index: usize,
    alert: Alert,
    mut messages: mpsc::Receiver<AlertMessage>,
    stop: CancellationToken,
) {
    let limit = alert.timeout;
    let hook = match &alert.to {
        Receiver::Webhook(webhook) => webhook::open(webhook),
        Receiver::Command(_) => None,
    };
    let next = async |messages: &mut mpsc::Receiver<AlertMessage>| {
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
            // The unusable URL was logged when the hook was opened.
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
