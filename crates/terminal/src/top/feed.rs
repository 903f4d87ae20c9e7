//! The daemon's side of the screen: its stream of events, its answers, and the lines of the pane. If the
//! daemon is gone, the feed searches for it, and may find another one at another address.

use std::{future::Future, panic::resume_unwind, sync::Arc, time::Duration};

use mainstay_api::{Client, ClientError, Keeping, LogEvent, Told};
use mainstay_command_line::{CommandError, connect};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    action::ServerAction,
    model::TopEvent,
    pane::{LINES, PaneLine, Topic},
    questions::DaemonQuestion,
};

/// The first pause before a daemon that is gone is tried again. The pause doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Time limit of a question, after which it may be asked again.
const ANSWER: Duration = Duration::from_secs(10);

/// Time between two queries for the calls in the pane.
const CALLS_EVERY: Duration = Duration::from_secs(2);

/// Events that wait for the screen. A slow reader blocks the daemon's streams, which then report that events
/// were missed.
const QUEUE: usize = 256;

pub struct Feed {
    sender: mpsc::Sender<TopEvent>,
    receiver: mpsc::Receiver<TopEvent>,
    tasks: JoinSet<()>,
    /// The daemon, while it is connected.
    client: Arc<Mutex<Option<Client>>>,
    following: Option<AbortHandle>,
}

impl Feed {
    /// Follows this daemon, and later the one at this URL or of the state directory.
    pub fn start(client: Client, url: Option<String>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::new(Mutex::new(Some(client.clone())));
        let mut tasks = JoinSet::new();
        tasks.spawn(connected(client, url, Arc::clone(&shared), sender.clone()));
        Self {
            sender,
            receiver,
            tasks,
            client: shared,
            following: None,
        }
    }

    /// The next event. Cancel-safe.
    pub async fn next(&mut self) -> TopEvent {
        loop {
            tokio::select! {
                Some(event) = self.receiver.recv() => return event,
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        resume_unwind(error.into_panic());
                    }
                }
            }
        }
    }

    pub fn ask(&mut self, question: DaemonQuestion) {
        self.work(|client, sender| async move {
            let answer = timeout(ANSWER, answer(&client, &question)).await;
            let event = match answer {
                Ok(Ok(event)) => event,
                // If the daemon is gone, the stream reports the reason.
                Ok(Err(_)) | Err(_) => TopEvent::NoAnswer(question),
            };
            sender.send(event).await.ok();
        });
    }

    pub fn operate(&mut self, name: String, action: ServerAction) {
        self.work(move |client, sender| async move {
            let outcome = operate(&client, &name, action).await;
            let event = TopEvent::Operated { name, outcome };
            sender.send(event).await.ok();
        });
    }

    /// Follows a topic of a server, instead of the earlier one.
    pub fn follow(&mut self, generation: u64, topic: Topic, name: String) {
        self.unfollow();
        self.following = self.work(move |client, sender| async move {
            let pane = PaneLines { sender, generation };
            let followed = match topic {
                Topic::Log => log(&client, &name, &pane).await,
                Topic::Calls => calls(&client, &name, &pane).await,
                // The event stream has these.
                Topic::Events | Topic::Status => Ok(()),
            };
            if let Err(error) = followed {
                pane.tell(vec![PaneLine::remark(&error.to_string())], false)
                    .await;
            }
        });
    }

    pub fn unfollow(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }

    /// Runs work with the daemon, if it is connected.
    fn work<W: Future<Output = ()> + Send + 'static>(
        &mut self,
        work: impl FnOnce(Client, mpsc::Sender<TopEvent>) -> W,
    ) -> Option<AbortHandle> {
        let client = self.client.lock().clone()?;
        Some(self.tasks.spawn(work(client, self.sender.clone())))
    }
}

/// Follows the events of a daemon, and of its successors.
async fn connected(
    first: Client,
    url: Option<String>,
    shared: Arc<Mutex<Option<Client>>>,
    sender: mpsc::Sender<TopEvent>,
) {
    let mut found = Ok(first);
    let mut pause = FIRST_PAUSE;
    loop {
        let reason = match found {
            Ok(client) => {
                *shared.lock() = Some(client.clone());
                let mut was_there = false;
                let ended = events(&client, &sender, &mut was_there).await;
                *shared.lock() = None;
                if was_there {
                    pause = FIRST_PAUSE;
                }
                ended.err().map(|error| error.to_string())
            }
            Err(error) => Some(CommandError::to_string(&error)),
        };
        let gone = TopEvent::Gone {
            reason: reason.unwrap_or_else(|| "it has stopped".to_owned()),
            again_in: pause,
        };
        if sender.send(gone).await.is_err() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
        // A new daemon may have another port and another token.
        found = connect::running(url.clone());
    }
}

/// Sends the servers, the recent events, and all later ones, until the daemon ends the stream.
async fn events(
    client: &Client,
    sender: &mpsc::Sender<TopEvent>,
    was_there: &mut bool,
) -> Result<(), ClientError> {
    let mut stream = client.follow_events(None).await?;
    while let Some(message) = stream.next().await? {
        let event = match message {
            Told::Snapshot(servers) if *was_there => TopEvent::Servers(servers),
            Told::Snapshot(servers) => {
                *was_there = true;
                sender.send(TopEvent::Connected(servers)).await.ok();
                TopEvent::Happened(client.recent_events(None).await?.events)
            }
            Told::Event(event) => TopEvent::Happened(vec![event]),
            // The servers follow.
            Told::Missed => continue,
        };
        sender.send(event).await.ok();
    }
    Ok(())
}

async fn answer(client: &Client, question: &DaemonQuestion) -> Result<TopEvent, ClientError> {
    Ok(match question {
        DaemonQuestion::Servers => TopEvent::Servers(client.servers().await?),
        DaemonQuestion::Server(name) => {
            TopEvent::Server(Box::new(client.server(name).await?.server))
        }
        DaemonQuestion::Figures => TopEvent::Figures(client.figures().await?),
    })
}

/// The result of an action, in words.
async fn operate(client: &Client, name: &str, action: ServerAction) -> Result<String, String> {
    let keeping = Keeping {
        persist: true,
        replace: false,
    };
    let operated = match action {
        ServerAction::Enable | ServerAction::Disable => {
            client.switch(name, action.verb(), keeping).await
        }
        _ => client.operate(name, action.verb()).await,
    };
    let failed = |error: String| format!("cannot {} {name}: {error}", action.verb());
    let operated = operated.map_err(|error| failed(error.to_string()))?;
    match operated.error {
        // The server is enabled in the configuration; only the start failed.
        Some(error) if action == ServerAction::Enable => {
            Err(format!("{name} is enabled, but does not start: {error}"))
        }
        Some(error) => Err(failed(error)),
        None if action == ServerAction::Disable => Ok(format!("{name} is disabled")),
        None => Ok(format!("{name} is {}", operated.status)),
    }
}

/// The receiver of a pane's lines.
struct PaneLines {
    sender: mpsc::Sender<TopEvent>,
    generation: u64,
}

impl PaneLines {
    async fn tell(&self, lines: Vec<PaneLine>, is_whole: bool) {
        let event = TopEvent::Pane {
            generation: self.generation,
            lines,
            is_whole,
        };
        // Without a reader the program ends.
        self.sender.send(event).await.ok();
    }
}

async fn log(client: &Client, name: &str, pane: &PaneLines) -> Result<(), ClientError> {
    let mut events = client.follow_logs(name, LINES).await?;
    pane.tell(Vec::new(), true).await;
    while let Some(event) = events.next().await? {
        let line = match event {
            LogEvent::Line(line) => PaneLine::of_log(&line),
            LogEvent::TailEnd(_) => continue,
            LogEvent::Missed(missed) => {
                PaneLine::remark(&format!("{} lines came too fast", missed.lines))
            }
        };
        pane.tell(vec![line], false).await;
    }
    Ok(())
}

async fn calls(client: &Client, name: &str, pane: &PaneLines) -> Result<(), ClientError> {
    let query = [("server", name.to_owned()), ("limit", "50".to_owned())];
    let mut looks = interval(CALLS_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let records = client.call_records(&query).await?;
        // The newest is the last line, as in a log.
        let lines = records.calls.iter().rev().map(PaneLine::of_call);
        pane.tell(lines.collect(), true).await;
    }
}
