//! The in-process fake for tests, on its own loopback port, with counters and a script that can
//! change at run time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::listener::{self, Door};
use crate::script::Script;
use crate::service::{Host, ListenerCommand, Received, Service};

/// Time limit of [`Fake::until`].
const PATIENCE: Duration = Duration::from_secs(10);

/// A running fake. Dropping it stops it without waiting.
pub struct Fake {
    service: Arc<Service>,
    commands: mpsc::UnboundedSender<ListenerCommand>,
    listener: Option<JoinHandle<io::Result<()>>>,
    address: SocketAddr,
    path: &'static str,
}

impl Fake {
    /// Starts Streamable HTTP at `/mcp`.
    pub async fn http(script: Script) -> io::Result<Self> {
        Self::start(script, Door::Http, "/mcp").await
    }

    /// Starts HTTP+SSE (2024-11-05) at `/sse`.
    pub async fn sse(script: Script) -> io::Result<Self> {
        Self::start(script, Door::Sse, "/sse").await
    }

    async fn start(script: Script, door: Door, path: &'static str) -> io::Result<Self> {
        let socket = listener::bind(0).await?;
        let address = socket.local_addr()?;
        let (commands, queue) = mpsc::unbounded_channel();
        let service = Service::new(script, Host::Test(commands.clone()));
        let listener = tokio::spawn(listener::serve(door, Arc::clone(&service), socket, queue));
        Ok(Self {
            service,
            commands,
            listener: Some(listener),
            address,
            path,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all received messages in order.
    pub fn received(&self) -> Vec<Received> {
        self.service.received().borrow().clone()
    }

    /// Number of received messages with this JSON-RPC method.
    pub fn count(&self, method: &str) -> usize {
        let received_requests = self.service.received();
        let received_requests = received_requests.borrow();
        let has_method = |message: &&Received| message.method().as_deref() == Some(method);
        received_requests.iter().filter(has_method).count()
    }

    /// Number of runs of this tool.
    pub fn runs(&self, tool: &str) -> u64 {
        let shared_state = self.service.shared();
        shared_state.runs.get(tool).copied().unwrap_or_default()
    }

    /// Number of finished calls of this tool, prompt or resource (by its URI). A call with retries
    /// counts once.
    pub fn finished(&self, subject: &str) -> u64 {
        let shared_state = self.service.shared();
        shared_state.ends.get(subject).copied().unwrap_or_default()
    }

    /// Number of open modern subscriptions.
    pub fn listens(&self) -> usize {
        let shared_state = self.service.shared();
        shared_state
            .listens
            .iter()
            .filter(|listen| listen.is_open())
            .count()
    }

    /// Raw ids of the requests that clients cancelled, by a notification or by closing the stream.
    pub fn cancelled(&self) -> Vec<String> {
        self.service.shared().cancelled.clone()
    }

    /// Number of live sessions.
    pub fn sessions(&self) -> usize {
        self.service.sessions().len()
    }

    /// Number of sessions with an open stream (GET).
    pub fn streams(&self) -> usize {
        let sessions = self.service.sessions();
        sessions
            .iter()
            .filter(|session| session.is_attached())
            .count()
    }

    /// Waits until the received messages satisfy the condition. Panics after ten seconds.
    pub async fn until(&self, condition: impl Fn(&[Received]) -> bool) {
        let mut received_requests = self.service.received();
        let matching_wait = received_requests.wait_for(|requests| condition(requests));
        let is_met = tokio::time::timeout(PATIENCE, matching_wait).await.is_ok();
        assert!(
            is_met,
            "the fake waited in vain; it received {:#?}",
            self.received()
        );
    }

    /// Changes the script for the following messages.
    pub fn edit(&self, change: impl FnOnce(&mut Script)) {
        self.service.edit(change);
    }

    /// Sends a raw message to every session, outside of calls.
    pub fn publish(&self, message: &str) {
        for session in self.service.sessions() {
            session.publish(message.to_owned());
        }
    }

    /// Stops answering on all connections, or continues.
    pub fn hang(&self, should_hang: bool) {
        self.service.hang(should_hang);
    }

    /// Breaks every open stream.
    pub fn drop_streams(&self) {
        self.service.cut_streams();
    }

    /// Forgets every session: 404 until the client initializes again.
    pub fn expire_sessions(&self) {
        self.service.close_sessions();
    }

    /// Forgets every session, but leaves its stream open.
    pub fn lose_sessions(&self) {
        self.service.lose_sessions();
    }

    /// Closes the listener and all connections (sessions stay), or listens again on the same port.
    pub async fn refuse(&self, refuse: bool) -> io::Result<()> {
        let (done_sender, outcome) = oneshot::channel();
        let stopped_error = || io::Error::other("the fake has stopped");
        self.commands
            .send(ListenerCommand::Refuse(refuse, done_sender))
            .map_err(|_| stopped_error())?;
        outcome.await.map_err(|_| stopped_error())?
    }

    /// Ends all sessions and connections, and waits until they are closed.
    pub async fn stop(mut self) -> io::Result<()> {
        self.end();
        match self.listener.take() {
            Some(listener) => listener.await?,
            None => Ok(()),
        }
    }

    fn end(&self) {
        self.service.forget();
        // If the task has ended, nobody receives the command. `stop` reports the error of the task.
        let _ = self.commands.send(ListenerCommand::Stop);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.end();
    }
}
