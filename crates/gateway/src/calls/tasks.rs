//! Polls a task for a client whose revision has no tasks. The server answers a call with a task, and
//! Mainstay waits until the task ends (SEP-2663).
//!
//! A call of such a client is first sent without the extension, because most servers then answer at
//! once. A server that needs the extension refuses the call without running it. The call is then
//! sent again, with the extension declared.

use std::{collections::HashSet, pin::Pin, sync::Arc, time::Duration};

use mainstay_core::{
    era::{
        Caller, Revision,
        questions::InputRequired,
        tasks::{self, TaskProgress},
    },
    failure::{Failure, FailureKind, MAY_HAVE_RUN},
    message::{self, JsonObjectEditor, MessageKind, Method},
};
use mainstay_transport::{Asker, Frame, Interruption, UpstreamSession};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::call::{ActiveCall, AttemptError};

/// Pause before a request about a task is repeated after a loss.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit for the cancellation of a task.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A server's task, and the client that waits for it.
struct Task {
    id: String,
    session: Arc<UpstreamSession>,
    /// The client, with the extension declared.
    caller: Caller,
    /// The revision of the client.
    client: Revision,
    /// The keys of answered questions. A server may repeat a question until it has read the answer.
    answered: HashSet<String>,
    polls: u32,
}

impl ActiveCall<'_> {
    /// Waits until a task ends, and returns its outcome as the response of the call. Cancels the task
    /// if the call is cancelled or fails.
    pub(super) async fn await_task(
        &mut self,
        session: &Arc<UpstreamSession>,
        caller: Caller,
        created: Frame,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Frame, Failure> {
        let Some(id) = created.result().and_then(tasks::id).map(String::from) else {
            return Err(self.unusable("its task has no name"));
        };
        let mut task = Task {
            id,
            session: Arc::clone(session),
            client: caller.revision,
            caller,
            answered: HashSet::new(),
            polls: 0,
        };
        let outcome = self.follow(&mut task, created, cancel.as_mut()).await;
        if outcome.is_err() {
            self.give_up(task);
        }
        outcome
    }

    async fn follow(
        &mut self,
        task: &mut Task,
        mut frame: Frame,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Frame, Failure> {
        loop {
            let state = frame.result().unwrap_or("{}");
            self.send_progress(task, state);
            let pause = match TaskProgress::read(state) {
                Ok(TaskProgress::Completed(result)) => return Ok(frame.with_body(&result)),
                Ok(TaskProgress::Failed(error)) => return Ok(error_response(&frame, &error)),
                Ok(TaskProgress::Cancelled) => {
                    return Err(self.cancelled("the server gave its task up"));
                }
                Ok(TaskProgress::Working(pause)) => pause,
                Ok(TaskProgress::Asks(required, pause)) => {
                    self.answer(task, required, cancel.as_mut()).await?;
                    pause
                }
                Err(error) => return Err(self.unusable(&error.to_string())),
            };
            // A task that works counts as progress, which extends the deadline.
            self.deadline = (Instant::now() + pause + self.limit).min(self.hard_deadline);
            let sleep = tokio::time::sleep(pause);
            self.wait_for(sleep, cancel.as_mut()).await?;
            let id = task.id.clone();
            let get = |request_id: &str, caller: &Caller| {
                tasks::request(request_id, Method::TasksGet, &id, caller)
            };
            frame = self.ask_about(task, get, cancel.as_mut()).await?;
        }
    }

    /// Asks the client the questions of the task, each only once, and sends the answers.
    async fn answer(
        &mut self,
        task: &mut Task,
        mut required: InputRequired,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<(), Failure> {
        let answered = &task.answered;
        required.requests.retain(|(key, _)| !answered.contains(key));
        if required.requests.is_empty() {
            return Ok(());
        }
        let round = self.round(task.client, required, cancel.as_mut()).await;
        let round = round.map_err(AttemptError::into_failure)?;
        let id = task.id.clone();
        let update = |request_id: &str, caller: &Caller| {
            tasks::update(request_id, &id, &round.responses, caller)
        };
        self.ask_about(task, update, cancel).await?;
        self.notify_elicitations_complete(&round);
        let keys = round.responses.into_iter().map(|(key, _)| key);
        task.answered.extend(keys);
        Ok(())
    }

    /// Sends a request about the task. After a loss, repeats the request until the call's deadline: a
    /// repetition does no harm, and the task may outlive its connection.
    async fn ask_about(
        &mut self,
        task: &mut Task,
        render: impl Fn(&str, &Caller) -> String,
        mut cancel: Pin<&mut impl Future<Output = String>>,
    ) -> Result<Frame, Failure> {
        loop {
            let request = ask(&task.session, self.sink.client.asker, self.deadline, |id| {
                render(id, &task.caller)
            });
            match self.wait_for(request, cancel.as_mut()).await? {
                Ok(answer) => {
                    return match answer.error() {
                        None => Ok(answer),
                        Some(error) => Err(self.unknown_task(error)),
                    };
                }
                Err(lost) => {
                    let server = self.upstream.server();
                    tracing::debug!(server = %server.name, %lost, "a task is asked for once more");
                    self.request_probe();
                }
            }
            let pause = tokio::time::sleep(PAUSE);
            self.wait_for(pause, cancel.as_mut()).await?;
            let session = self.upstream.session(self.era(), self.deadline);
            task.session = self.wait_for(session, cancel.as_mut()).await??;
        }
    }

    /// Sends progress if the client has requested it, because the client may have a timeout that
    /// progress resets.
    fn send_progress(&self, task: &mut Task, state: &str) {
        // Skip this if the server has sent progress itself, because our numbers would not continue
        // the server's numbers.
        if self.progressed {
            return;
        }
        task.polls += 1;
        let Some(token) = self.request.progress_token else {
            return;
        };
        let mut params = JsonObjectEditor::default();
        params.set("progressToken", self.request.frame.get(token));
        let polls = task.polls.to_string();
        params.set("progress", &polls);
        if let Some(message) = tasks::status_message(state) {
            params.set_text("message", &message);
        }
        let method = Method::Progress.name();
        self.sink
            .put(message::request(None, method, Some(&params.to_string())));
    }

    /// Cancels the task in the background, because the call has ended without its outcome.
    fn give_up(&self, task: Task) {
        let asker = self.sink.client.asker;
        let cancelling = async move {
            let cancel = |id: &str| tasks::request(id, Method::TasksCancel, &task.id, &task.caller);
            let cancelled = ask(&task.session, asker, Instant::now() + CANCEL_LIMIT, cancel);
            match tokio::time::timeout(CANCEL_LIMIT, cancelled).await {
                Ok(Ok(_)) => {}
                Ok(Err(lost)) => tracing::debug!(%lost, "a task was not cancelled"),
                Err(_) => tracing::debug!("a task was not cancelled in time"),
            }
        };
        self.calls.in_background(cancelling.in_current_span());
    }

    /// The failure of a call whose task the server does not know any more. The call may have run.
    fn unknown_task(&self, error: &str) -> Failure {
        self.request_probe();
        let name = &self.upstream.server().name;
        let message = format!(
            "Server '{name}' made a task of the call, and says nothing more of it: {error}. {MAY_HAVE_RUN}"
        );
        self.failure(FailureKind::OutcomeUnknown, message)
    }
}

async fn ask(
    session: &UpstreamSession,
    asker: Asker,
    deadline: Instant,
    render: impl FnOnce(&str) -> String,
) -> Result<Frame, Interruption> {
    session
        .call(asker, deadline, || None, render)
        .await?
        .response()
        .await
}

/// An error response (JSON text) with the id of this answer.
fn error_response(answer: &Frame, error: &str) -> Frame {
    let id = match answer.envelope().kind {
        MessageKind::Response { id, .. } => answer.get(id),
        _ => "null",
    };
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    Frame::read(text.into()).unwrap_or_else(|_| answer.clone())
}
