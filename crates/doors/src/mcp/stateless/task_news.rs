//! Notifications about tasks on aggregate endpoints. While a client listens, Mainstay listens to
//! the servers of its tasks (SEP-2663, "Notifications").

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use mainstay_core::{
    era::{listen, tasks},
    message::Method,
};
use mainstay_gateway::{
    View,
    calls::{CallRequest, CallSink, Calls, Receipt, Upstream},
    supervisor::ServerHandle,
};
use mainstay_transport::Frame;
use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};

use super::call::StatelessCall;
use crate::mcp::{
    endpoint::tasks as task_requests, reply::RpcReply, sessions::pool::Lease, shared::SharedState,
};

/// Delay before a server's stream is opened again after it has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Forwards notifications about tasks of one server to one client.
pub struct TaskNews {
    calls: Calls,
    server: Arc<ServerHandle>,
    /// A session with the client's own login, if the client has one.
    lease: Option<Lease>,
    tasks: Vec<Task>,
    /// The sink of the client's listen stream.
    sink: CallSink,
    /// The id of the client's request (JSON text).
    id: Box<str>,
}

struct Task {
    /// The sealed name, which the client knows.
    name: String,
    /// The id that the server knows.
    original_id: String,
}

impl TaskNews {
    /// Groups tasks by server. Unknown names are left out.
    pub fn for_tasks(
        shared_state: &SharedState,
        view: &View,
        names: &[String],
        sink: &CallSink,
        id: &str,
    ) -> Vec<Self> {
        let mut news = Vec::<Self>::new();
        for name in names {
            let Some((server, original_id)) =
                task_requests::find(shared_state, view, &sink.client.principal, name)
            else {
                continue;
            };
            let task = Task {
                name: name.clone(),
                original_id,
            };
            match news
                .iter_mut()
                .find(|entry| Arc::ptr_eq(&entry.server, &server))
            {
                Some(entry) => entry.tasks.push(task),
                None => news.push(Self {
                    calls: shared_state.gateway.calls.clone(),
                    lease: server
                        .has_own_login(&sink.client.principal)
                        .then(|| shared_state.pool.lease(&server, &sink.client)),
                    server,
                    tasks: vec![task],
                    sink: sink.clone(),
                    id: id.into(),
                }),
            }
        }
        news
    }

    /// Forwards notifications until the future is dropped. `acknowledge_sender` gets the tasks that
    /// the server acknowledges. `promise_receiver` becomes true when the client has the list of
    /// acknowledged tasks. Forwarding starts then. It stops if the server has not answered by then.
    pub async fn tell(
        self,
        acknowledge_sender: oneshot::Sender<Vec<String>>,
        mut promise_receiver: watch::Receiver<bool>,
    ) {
        let mut acknowledge_sender = Some(acknowledge_sender);
        loop {
            let mut call = self.listen();
            loop {
                let message = tokio::select! {
                    biased;
                    message = call.messages.next() => message,
                    _ = &mut call.reply => None,
                    // A late acknowledgement is not in the client's list. The client polls these
                    // tasks.
                    Ok(_) = promise_receiver.wait_for(|is_promised| *is_promised), if acknowledge_sender.is_some() => return,
                };
                let Some(frame) = message.and_then(|text| Frame::read(text.into()).ok()) else {
                    break;
                };
                let params = frame.params().unwrap_or("{}");
                match frame.method() {
                    Some(Method::Acknowledged) => match acknowledge_sender.take() {
                        Some(first) => {
                            // An error means that nobody waits any more. `wait_for` detects that.
                            first.send(self.acknowledged_names(params)).ok();
                            if promise_receiver
                                .wait_for(|is_promised| *is_promised)
                                .await
                                .is_err()
                            {
                                return;
                            }
                        }
                        None => self.catch_up().await,
                    },
                    Some(Method::TaskChanged) => self.pass_on(params),
                    _ => {}
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn upstream(&self) -> Upstream {
        match &self.lease {
            Some(lease) => Upstream::IsolatedSession(lease.isolated_session()),
            None => Upstream::Shared(Arc::clone(&self.server)),
        }
    }

    /// Opens the server's listen stream. Dropping the call closes it.
    fn listen(&self) -> StatelessCall {
        let original_ids: Vec<&str> = self.tasks.iter().map(|task| &*task.original_id).collect();
        let text = listen::to_tasks(&self.id, &original_ids, &self.sink.client.caller);
        let (sink, messages) = CallSink::new(Arc::clone(&self.sink.client), None);
        let (cancel, cancel_signal) = oneshot::channel();
        let (calls, id) = (self.calls.clone(), self.id.clone());
        let upstream = self.upstream();
        let receipt = Receipt::new();
        let reply = async move {
            let reply = match request(text) {
                Some(request) => {
                    let listen_call = calls.call(&receipt, upstream, request, sink, cancel_signal);
                    match listen_call.await {
                        Ok(answer) => RpcReply::answer(&id, &answer),
                        Err(failure) => RpcReply::failure(&id, &failure),
                    }
                }
                None => RpcReply::cancelled(&id, "it cannot be asked"),
            };
            receipt.no_call(reply)
        };
        StatelessCall::new(&self.calls, reply, messages, cancel)
    }

    /// The sealed names of the tasks that the server has acknowledged.
    fn acknowledged_names(&self, acknowledged_json: &str) -> Vec<String> {
        let original_ids = listen::honoured_tasks(acknowledged_json);
        self.tasks
            .iter()
            .filter(|task| original_ids.contains(&task.original_id))
            .map(|task| task.name.clone())
            .collect()
    }

    /// Sends the client the current states of the tasks, because a new stream does not repeat the
    /// changes since the previous stream.
    async fn catch_up(&self) {
        let states = self.tasks.iter().map(|task| async move {
            let text = tasks::request(
                "1",
                Method::TasksGet,
                &task.original_id,
                &self.sink.client.caller,
            );
            let (sink, _messages) = CallSink::new(Arc::clone(&self.sink.client), None);
            let upstream = self.upstream();
            let (_keep, cancel_signal) = oneshot::channel();
            let (receipt, request) = (Receipt::new(), request(text)?);
            let answer = self
                .calls
                .call(&receipt, upstream, request, sink, cancel_signal);
            answer.await.ok()
        });
        for answer in join_all(states).await.into_iter().flatten() {
            if let Some(state) = answer.frame.result() {
                self.pass_on(&tasks::as_news(state));
            }
        }
    }

    /// Forwards a task's state (JSON text) under its sealed name.
    fn pass_on(&self, state: &str) {
        let original_id = tasks::id(state);
        let task = self
            .tasks
            .iter()
            .find(|task| original_id.as_deref() == Some(&task.original_id));
        if let Some(task) = task {
            let params = tasks::renamed(state, &task.name);
            self.sink
                .put(listen::tagged(Method::TaskChanged, &params, &self.id));
        }
    }
}

fn request(text: String) -> Option<CallRequest> {
    let frame = Frame::read(text.into()).ok()?;
    CallRequest::new(frame, None)
}
