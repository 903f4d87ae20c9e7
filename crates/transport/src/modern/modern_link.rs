//! The sending side of a modern session: Streamable HTTP of 2026-07-28.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use mainstay_core::{ids::ServerName, lifecycle::Loss};
use tokio_util::sync::CancellationToken;

use crate::{
    Liveness, Opening,
    exchanges::{message_router::MessageRouter, reply_sink::ReplyQueue},
    http::{
        credentials::Sending,
        http_client::{self, HttpTarget, RequestTemplate},
    },
    modern::{
        modern_post::{ModernPost, Unpostable},
        tool_headers::ToolHeaders,
    },
};

/// The sending side of one session. No lasting connection belongs to it.
pub struct ModernLink {
    pub server: ServerName,
    pub target: HttpTarget,
    next_id: AtomicU64,
    pub tools: ToolHeaders,
    pub router: MessageRouter,
    pub max_message_bytes: usize,
    pub liveness: Arc<Liveness>,
    over: OnceLock<Loss>,
    /// Cancelled when the server is lost. Calls in flight continue, because each has its own
    /// connection.
    lost: CancellationToken,
}

impl std::fmt::Debug for ModernLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModernLink")
            .field("uri", &self.target.uri())
            .finish_non_exhaustive()
    }
}

impl ModernLink {
    pub fn new(opening: &Opening, target: HttpTarget) -> Self {
        Self {
            server: opening.server.clone(),
            target,
            next_id: AtomicU64::new(0),
            tools: ToolHeaders::default(),
            router: MessageRouter::new(
                opening.reply_sink(ReplyQueue::None),
                Arc::clone(&opening.listener),
                Arc::clone(&opening.log),
            ),
            max_message_bytes: opening.max_message_bytes,
            liveness: Arc::new(Liveness::new(opening.hang_after)),
            over: OnceLock::new(),
            lost: CancellationToken::new(),
        }
    }

    /// Creates a request. `render` gets the id of the request and returns its text. Returns the id
    /// and the request.
    pub fn request(
        &self,
        render: impl FnOnce(&str) -> String,
    ) -> Result<(u64, ModernPost), Unpostable> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let post = ModernPost::new(render(&id.to_string()), &self.tools)?;
        Ok((id, post))
    }

    pub fn post(&self, post: &ModernPost) -> Sending {
        self.target.send_body(&self.template(post), post.body())
    }

    /// Posts a request on a new connection.
    pub fn post_afresh(&self, post: &ModernPost) -> Sending {
        self.target
            .send_body_afresh(&self.template(post), post.body())
    }

    fn template(&self, post: &ModernPost) -> RequestTemplate {
        self.target.template("POST", &post.headers())
    }

    /// Posts a notification.
    pub async fn send(&self, text: String) {
        if let Ok(post) = ModernPost::new(text, &self.tools) {
            let template = self.template(&post);
            http_client::deliver(&self.server, &self.target, &template, post.body()).await;
        }
    }

    /// Makes later requests use new connections.
    pub fn forget_connections(&self) {
        self.target.forget_connections();
    }

    /// Marks the server as lost. Only the first reason is stored.
    pub fn lose(&self, loss: Loss) {
        if self.over.set(loss).is_ok() {
            self.lost.cancel();
        }
    }

    /// Returns when the server is lost.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The reason that the server is lost.
    pub fn reason(&self) -> Loss {
        let reason = self.over.get().cloned();
        reason.unwrap_or_else(|| Loss::Disconnected("its task ended".to_owned()))
    }

    pub fn is_over(&self) -> bool {
        self.over.get().is_some()
    }
}
