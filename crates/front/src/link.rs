//! Keeps the link to the daemon. Finds a daemon, restores the client's session there, and receives
//! messages that belong to no call. After a loss, waits for the next daemon.

use std::{convert::Infallible, future::pending, mem, sync::Arc, time::Duration};

use bytes::BytesMut;
use mainstay_command_line::screen::complain;
use mainstay_core::message::{self, Method};
use mainstay_transport::{EventReader, Frame, StreamBroken, http1::Response};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Front, MAX_MESSAGE,
    absent::Absent,
    daemon::{AttachedDaemon, DaemonSession, NoDaemon, is_put_off},
    starter::Starter,
};

/// Shortest and longest delay between two searches for a daemon. The delay doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A link that lasted this long resets the delay.
const MIN_LINK_TIME: Duration = Duration::from_secs(1);

/// Maximum silence of a stream before the daemon counts as lost. The daemon sends a comment every
/// 15 s.
const SILENCE: Duration = Duration::from_mins(1);

/// Time limit for attaching to a daemon. The daemon may have to start a server first.
const ATTACH_LIMIT: Duration = Duration::from_mins(2);

/// The state of the connection to a daemon.
#[derive(Clone, Debug)]
pub enum FrontLink {
    Down,
    Up(Arc<AttachedDaemon>),
}

impl FrontLink {
    pub fn daemon(&self) -> Option<&Arc<AttachedDaemon>> {
        match self {
            Self::Down => None,
            Self::Up(daemon) => Some(daemon),
        }
    }
}

/// The reason that no daemon is attached.
#[derive(Debug, thiserror::Error)]
pub enum Unattached {
    #[error(transparent)]
    NoDaemon(#[from] NoDaemon),
    #[error("the daemon cannot be reached: {0}")]
    Unreachable(#[from] mainstay_transport::http1::Error),
    #[error("the daemon does not answer")]
    Late,
    #[error("the daemon refuses the token, or needs one")]
    Unauthorized,
    #[error(transparent)]
    NoEndpoint(Absent),
    #[error("the daemon answers with HTTP status {0}")]
    Refused(u16),
    #[error("the daemon refuses the session: {0}")]
    NoSession(String),
}

/// The stream of messages that belong to no call, and the position in it.
struct Listening {
    daemon: Arc<AttachedDaemon>,
    events: Option<EventReader>,
    last_event: Option<String>,
}

/// Keeps a link to a daemon until the front ends.
pub async fn keep(front: &Arc<Front>, mut starter: Option<&mut Starter>) -> Infallible {
    let mut pause = FIRST_PAUSE;
    let mut before: Option<Listening> = None;
    let mut epoch = 0;
    let mut is_lost = false;
    loop {
        epoch += 1;
        match attach(front, before.as_ref(), epoch).await {
            Ok(listening) => {
                let start = Instant::now();
                if let Some(starter) = &mut starter {
                    starter.is_back();
                }
                tell(&listening.daemon, before.as_ref());
                is_lost = false;
                before = Some(listen(front, listening).await);
                front.link.send_replace(FrontLink::Down);
                if start.elapsed() >= MIN_LINK_TIME {
                    pause = FIRST_PAUSE;
                }
            }
            Err(cause) => {
                tracing::debug!(why = %cause, "there is no daemon to talk to");
                if before.is_some() && !mem::replace(&mut is_lost, true) {
                    complain("the daemon is gone; waiting for it");
                }
                let is_away = !matches!(cause, Unattached::NoDaemon(NoDaemon::Stopping(_)));
                if let Some(starter) = starter.as_mut().filter(|_| is_away) {
                    starter.is_away();
                }
                front.note(cause);
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reports on stderr that another daemon is attached.
fn tell(daemon: &AttachedDaemon, previous_stream: Option<&Listening>) {
    let url = daemon.url();
    match (previous_stream, daemon.pid) {
        (Some(previous_stream), _) if previous_stream.daemon.is_same_run(daemon) => {}
        (Some(_), Some(pid)) => {
            complain(&format!("attached to the new daemon at {url} (pid {pid})"))
        }
        (Some(_), None) => complain(&format!("attached to the daemon at {url} again")),
        (None, Some(pid)) => complain(&format!("attached to the daemon at {url} (pid {pid})")),
        (None, None) => complain(&format!("attached to the daemon at {url}")),
    }
}

/// Finds the daemon and restores the client's session there.
async fn attach(
    front: &Arc<Front>,
    previous_stream: Option<&Listening>,
    epoch: u64,
) -> Result<Listening, Unattached> {
    let located_daemon = front.finder.find(epoch)?;
    let attach_future = timeout(ATTACH_LIMIT, settle(front, previous_stream, located_daemon));
    let daemon_stream = attach_future.await.unwrap_or(Err(Unattached::Late))?;
    let daemon = &daemon_stream.daemon;
    let lost_session = {
        let mut state = front.state();
        if state.held.is_some() && daemon.session.is_none() {
            // `initialize` was answered in the meantime. Attach again with its session.
            return Err(Unattached::Late);
        }
        state.was_attached = true;
        state.questions.forget(|from| !from.is_same_run(daemon))
    };
    for question in lost_session {
        let params = format!(
            r#"{{"requestId":{question},"reason":"Mainstay was restarted, and nobody waits for the answer"}}"#
        );
        let cancel_notice = message::request(None, Method::Cancelled.name(), Some(&params));
        front.send_line(&cancel_notice).await;
    }
    front.link.send_replace(FrontLink::Up(Arc::clone(daemon)));
    Ok(daemon_stream)
}

async fn settle(
    front: &Arc<Front>,
    previous_stream: Option<&Listening>,
    attached_daemon: AttachedDaemon,
) -> Result<Listening, Unattached> {
    let (held_session, is_open) = {
        let state = front.state();
        (state.held.clone(), state.session.is_open())
    };
    let Some(session) = held_session else {
        if is_open {
            // The handover took the client from another door. Its session exists only there.
            return begin_anew(front, &attached_daemon).await;
        }
        check(front, attached_daemon.get(None).await?).await?;
        return Ok(Listening {
            daemon: Arc::new(attached_daemon),
            events: None,
            last_event: None,
        });
    };
    let is_same_run = previous_stream
        .is_some_and(|previous_stream| previous_stream.daemon.is_same_run(&attached_daemon));
    let daemon = attached_daemon.with_session(Some(session));
    let last_event = previous_stream.and_then(|previous_stream| previous_stream.last_event.clone());
    let mut response = daemon.get(last_event.as_deref()).await?;
    if response.head.status == 400 && last_event.is_some() {
        response = daemon.get(None).await?;
    }
    match response.head.status {
        200 if response.head.is_event_stream => {
            // The daemon revives sessions without their log level and subscriptions.
            if !is_same_run {
                replay(front, &daemon).await?;
                if !daemon.tells_changes() {
                    tell_changes(front).await;
                }
            }
            Ok(Listening {
                daemon: Arc::new(daemon),
                events: Some(EventReader::new(response, MAX_MESSAGE)),
                last_event,
            })
        }
        404 => begin_anew(front, &daemon).await,
        401 | 403 => Err(Unattached::Unauthorized),
        status => Err(Unattached::Refused(status)),
    }
}

/// Opens a new session and restores the client's settings in it.
async fn begin_anew(front: &Arc<Front>, daemon: &AttachedDaemon) -> Result<Listening, Unattached> {
    let daemon = open_anew(front, daemon).await?;
    let response = daemon.get(None).await?;
    if response.head.status != 200 {
        return Err(Unattached::Refused(response.head.status));
    }
    replay(front, &daemon).await?;
    tell_changes(front).await;
    Ok(Listening {
        daemon: Arc::new(daemon),
        events: Some(EventReader::new(response, MAX_MESSAGE)),
        last_event: None,
    })
}

/// Checks the response to a GET without a session. It shows a missing endpoint or a bad token.
async fn check(front: &Front, response: Response) -> Result<(), Unattached> {
    let status = response.head.status;
    read(response).await?;
    match status {
        401 | 403 => Err(Unattached::Unauthorized),
        404 => Err(Unattached::NoEndpoint(Absent::at(&front.finder).await)),
        500..=599 => Err(Unattached::Refused(status)),
        _ => Ok(()),
    }
}

/// Opens a session with the client's stored `initialize`.
async fn open_anew(
    front: &Arc<Front>,
    daemon: &AttachedDaemon,
) -> Result<AttachedDaemon, Unattached> {
    let missing_session = || Unattached::NoSession("there is none".to_owned());
    let initialize = front
        .state()
        .session
        .initialize()
        .ok_or_else(missing_session)?;
    let new_daemon = daemon.with_session(None);
    let response = new_daemon.post(&initialize).await?;
    let status = response.head.status;
    let id = response.head.get("mcp-session-id").map(str::to_owned);
    let answer = read(response).await?;
    let answer = Frame::read(answer).map_err(|error| Unattached::NoSession(error.to_string()))?;
    let (Some(id), Some(_)) = (id, answer.result()) else {
        let error = answer.error().unwrap_or("{}");
        let reason = message::shown_member(error, "message").unwrap_or_default();
        return Err(match status {
            503 => Unattached::Refused(status),
            _ => Unattached::NoSession(reason.into_owned()),
        });
    };
    let (session, initialized_text) = {
        let mut state = front.state();
        if let Ok(request) = Frame::read(initialize.into()) {
            state.session.answered(&request, &answer);
        }
        let version = state.session.version_header().map(str::to_owned);
        let session = DaemonSession { id, version };
        state.held = Some(session.clone());
        (session, state.session.initialized())
    };
    let daemon = new_daemon.with_session(Some(session));
    if let Some(initialized_text) = initialized_text {
        read(daemon.post(&initialized_text).await?).await?;
    }
    Ok(daemon)
}

/// Sends the requests that restore the client's log level and subscriptions.
async fn replay(front: &Arc<Front>, daemon: &AttachedDaemon) -> Result<(), Unattached> {
    let requests = front.state().session.replay();
    for request in requests {
        let response = daemon.post(&request).await?;
        let status = response.head.status;
        if is_put_off(&response) {
            return Err(Unattached::Refused(status));
        }
        let answer = read(response).await?;
        let answer = Frame::read(answer).ok();
        if answer.is_none_or(|answer| answer.result().is_none()) {
            // Continue without this setting. Its server may no longer exist.
            tracing::debug!(status, "a subscription or the log level was not taken");
        }
    }
    Ok(())
}

async fn tell_changes(front: &Arc<Front>) {
    let changes = front.state().session.list_changes();
    for change in changes {
        front.send_line(&change).await;
    }
}

/// Reads a JSON body, or the response in an event stream.
async fn read(mut response: Response) -> Result<bytes::Bytes, Unattached> {
    if response.head.is_event_stream {
        let mut events = EventReader::new(response, MAX_MESSAGE);
        while let Some(Ok(event)) = events.next().await {
            let data = event.data.unwrap_or_default();
            let is_answer = |frame: Frame| frame.result().or(frame.error()).is_some();
            if Frame::read(data.clone()).is_ok_and(is_answer) {
                events.finish();
                return Ok(data);
            }
        }
        return Err(Unattached::Late);
    }
    let body = response.collect(&mut BytesMut::new(), MAX_MESSAGE).await;
    body.map_err(|error| Unattached::NoSession(error.to_string()))
}

/// Forwards messages that belong to no call until the daemon is lost.
async fn listen(front: &Arc<Front>, mut daemon_stream: Listening) -> Listening {
    let mut lost_epochs = front.lost.subscribe();
    let epoch = daemon_stream.daemon.epoch;
    loop {
        let is_lost = async {
            lost_epochs
                .wait_for(|lost_epochs| *lost_epochs >= epoch)
                .await
                .is_ok()
        };
        let event = async {
            match &mut daemon_stream.events {
                Some(events) => timeout(SILENCE, events.next()).await,
                None => pending().await,
            }
        };
        let event = tokio::select! {
            _ = is_lost => return daemon_stream,
            // `initialize` has opened the client's first session, or a further one.
            () = front.opened.notified() => {
                let held_session = front.state().held.clone();
                let daemon = Arc::new(daemon_stream.daemon.with_session(held_session));
                daemon_stream.daemon = Arc::clone(&daemon);
                daemon_stream.last_event = None;
                match daemon.get(None).await {
                    Ok(response) if response.head.status == 200 => {
                        daemon_stream.events = Some(EventReader::new(response, MAX_MESSAGE));
                    }
                    // The daemon does not know the session or is lost. Attach again.
                    Ok(_) | Err(_) => return daemon_stream,
                }
                continue;
            }
            event = event => event,
        };
        match event {
            Ok(Some(Ok(event))) => {
                if let Some(id) = event.id {
                    daemon_stream.last_event = Some(id);
                }
                if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                    let answer = front.pass_on(&daemon_stream.daemon, data).await;
                    if answer.is_some() {
                        tracing::debug!("an answer came where none belongs");
                    }
                }
            }
            Ok(Some(Err(StreamBroken::TooLarge { limit, .. }))) => {
                tracing::warn!(limit, "a message was too large, and is dropped");
            }
            Ok(Some(Err(StreamBroken::Broken(_))) | None) | Err(_) => {
                if !front.has_another_session(&daemon_stream.daemon) {
                    return daemon_stream;
                }
                // The client has replaced this session. `opened` reports the next one soon.
                daemon_stream.events = None;
            }
        }
    }
}
