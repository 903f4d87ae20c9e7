//! Notifications about tasks on aggregate endpoints. While a client listens, Mainstay listens to the
//! servers of its tasks (SEP-2663, "Notifications").

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use mainstay_core::{
    era::{listen, tasks},
    message::Method,
};
use mainstay_gateway::{
    View,
    calls::{CallSink, Calls, Receipt, Request, Upstream},
    supervisor::Server,
};
use mainstay_transport::Frame;
use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};

use super::call::Call;
use crate::mcp::{endpoint::tasks as task_requests, reply::Reply, shared::Shared};

/// Between two attempts to listen to a server that stopped telling.
const PAUSE: Duration = Duration::from_secs(1);

/// The tasks of one server that one client wants to hear of.
pub struct News {
    calls: Calls,
    server: Arc<Server>,
    tasks: Vec<Task>,
    /// To the client.
    sink: CallSink,
    /// The id of the client's request, JSON text.
    id: Box<str>,
}

struct Task {
    /// The client's name for the task.
    name: String,
    /// The server's name for the task.
    own: String,
}

impl News {
    /// News of the tasks with these names, server by server; names of no task are left out.
    pub fn of(
        shared: &Shared,
        view: &View,
        names: &[String],
        sink: &CallSink,
        id: &str,
    ) -> Vec<Self> {
        let mut news = Vec::<Self>::new();
        for name in names {
            let Some((server, own)) =
                task_requests::find(shared, view, &sink.client.principal, name)
            else {
                continue;
            };
            let task = Task {
                name: name.clone(),
                own,
            };
            match news.iter_mut().find(|it| Arc::ptr_eq(&it.server, &server)) {
                Some(known) => known.tasks.push(task),
                None => news.push(Self {
                    calls: shared.gateway.calls.clone(),
                    server,
                    tasks: vec![task],
                    sink: sink.clone(),
                    id: id.into(),
                }),
            }
        }
        news
    }

    /// Tells the client of them, without an end. `honoured` gets the names that the server will tell of;
    /// until that is `promised` the client is told nothing, and then the server must have answered.
    pub async fn tell(
        self,
        honoured: oneshot::Sender<Vec<String>>,
        mut promised: watch::Receiver<bool>,
    ) {
        let mut honoured = Some(honoured);
        loop {
            let mut call = self.listen();
            loop {
                let message = tokio::select! {
                    biased;
                    message = call.messages.next() => message,
                    _ = &mut call.reply => None,
                    // Too late to be promised: the client asks for itself.
                    Ok(_) = promised.wait_for(|is| *is), if honoured.is_some() => return,
                };
                let Some(frame) = message.and_then(|text| Frame::read(text.into()).ok()) else {
                    break;
                };
                let params = frame.params().unwrap_or("{}");
                match frame.method() {
                    Some(Method::Acknowledged) => match honoured.take() {
                        Some(first) => {
                            // A receiver that is gone is noticed above.
                            first.send(self.honoured(params)).ok();
                            if promised.wait_for(|is| *is).await.is_err() {
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

    /// The server's own stream. Dropped, it is closed.
    fn listen(&self) -> Call {
        let own: Vec<&str> = self.tasks.iter().map(|task| &*task.own).collect();
        let text = listen::to_tasks(&self.id, &own, &self.sink.client.caller);
        let (sink, messages) = CallSink::new(Arc::clone(&self.sink.client), None);
        let (cancel, cancelled) = oneshot::channel();
        let (calls, id) = (self.calls.clone(), self.id.clone());
        let upstream = Upstream::Shared(Arc::clone(&self.server));
        let receipt = Receipt::new();
        let reply = async move {
            let reply = match request(text) {
                Some(request) => {
                    let listening = calls.call(&receipt, upstream, request, sink, cancelled);
                    match listening.await {
                        Ok(answer) => Reply::answer(&id, &answer),
                        Err(failure) => Reply::failure(&id, &failure),
                    }
                }
                None => Reply::cancelled(&id, "it cannot be asked"),
            };
            receipt.no_call(reply)
        };
        Call::new(&self.calls, reply, messages, cancel)
    }

    /// The client's names of what the server has acknowledged.
    fn honoured(&self, acknowledged: &str) -> Vec<String> {
        let own = listen::honoured_tasks(acknowledged);
        let honoured = self.tasks.iter().filter(|task| own.contains(&task.own));
        honoured.map(|task| task.name.clone()).collect()
    }

    /// Finds out what happened while no stream was open.
    async fn catch_up(&self) {
        let asked = self.tasks.iter().map(|task| async move {
            let text = tasks::request("1", Method::TasksGet, &task.own, &self.sink.client.caller);
            let (sink, _messages) = CallSink::new(Arc::clone(&self.sink.client), None);
            let upstream = Upstream::Shared(Arc::clone(&self.server));
            let (_keep, cancelled) = oneshot::channel();
            let (receipt, request) = (Receipt::new(), request(text)?);
            let answer = self
                .calls
                .call(&receipt, upstream, request, sink, cancelled);
            answer.await.ok()
        });
        for answer in join_all(asked).await.into_iter().flatten() {
            if let Some(state) = answer.frame.result() {
                self.pass_on(&tasks::as_news(state));
            }
        }
    }

    /// Passes a task's state (JSON text) on, under the client's name for it.
    fn pass_on(&self, state: &str) {
        let own = tasks::id(state);
        let task = self
            .tasks
            .iter()
            .find(|task| own.as_deref() == Some(&task.own));
        if let Some(task) = task {
            let params = tasks::renamed(state, &task.name);
            self.sink
                .put(listen::tagged(Method::TaskChanged, &params, &self.id));
        }
    }
}

fn request(text: String) -> Option<Request> {
    let frame = Frame::read(text.into()).ok()?;
    Request::new(frame, None)
}
