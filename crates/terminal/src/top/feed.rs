//! The connection of the screen to the daemon: the stream of events, the answers, and the lines of the pane.
//! If the daemon has gone, the feed searches for a daemon, which may have another address.

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

/// The first and the longest pause between attempts to reach a daemon that has gone. Each pause is twice as
/// long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The time limit of a question. After it, the question may be asked again.
const ANSWER: Duration = Duration::from_secs(10);

/// The interval between two queries for the calls in the pane.
const CALLS_EVERY: Duration = Duration::from_secs(2);

/// The maximum number of events that wait for the screen. If the screen is slow, the daemon's streams block,
/// and later report that events were missed.
const QUEUE: usize = 256;

pub struct Feed {
    sender: mpsc::Sender<TopEvent>,
    receiver: mpsc::Receiver<TopEvent>,
    tasks: JoinSet<()>,
    /// The client of the daemon while there is a connection.
    client: Arc<Mutex<Option<Client>>>,
    following: Option<AbortHandle>,
}

impl Feed {
    /// Follows this daemon. Later follows the daemon at this URL or of the state directory.
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
                // Do not report the reason here. If the daemon has gone, the stream reports it.
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

    /// Follows a topic of a server, and stops following the previous one.
    pub fn follow(&mut self, generation: u64, topic: Topic, name: String) {
        self.unfollow();
        self.following = self.work(move |client, sender| async move {
            let pane = PaneLines { sender, generation };
            let followed = match topic {
                Topic::Log => log(&client, &name, &pane).await,
                Topic::Calls => calls(&client, &name, &pane).await,
                // The event stream already delivers these.
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

    /// Runs work with the daemon's client. Does nothing without a connection.
    fn work<W: Future<Output = ()> + Send + 'static>(
        &mut self,
        work: impl FnOnce(Client, mpsc::Sender<TopEvent>) -> W,
    ) -> Option<AbortHandle> {
        let client = self.client.lock().clone()?;
        Some(self.tasks.spawn(work(client, self.sender.clone())))
    }
}

/// Follows the events of a daemon, and then those of its successors.
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
        // Look the daemon up again, because a new daemon may have another port and another token.
        found = connect::running(url.clone());
    }
}

/// Sends the servers, the recent events, and all later events until the daemon ends the stream.
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
            // Skip this notice. The daemon sends all servers next.
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

/// Runs an action. Returns a sentence about its result.
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
        // The configuration enables the server, and only the start has failed.
        Some(error) if action == ServerAction::Enable => {
            Err(format!("{name} is enabled, but does not start: {error}"))
        }
        Some(error) => Err(failed(error)),
        None if action == ServerAction::Disable => Ok(format!("{name} is disabled")),
        None => Ok(format!("{name} is {}", operated.status)),
    }
}

/// The destination of a pane's lines.
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
        // Ignore the error: without a receiver the program is ending.
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
        // Reverse the order, so that the newest call is the last line, as in a log.
        let lines = records.calls.iter().rev().map(PaneLine::of_call);
        pane.tell(lines.collect(), true).await;
    }
}
