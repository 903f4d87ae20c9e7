//! Listen streams of clients without a session, with their filters and queued messages.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mainstay_core::{
    era::listen::{ListenFilter, tagged},
    ids::{ProfileName, ServerName},
    message::{self, JsonObjectEditor, Method},
};
use mainstay_gateway::{calls::CallClient, registry::PublishedProfile};
use mainstay_transport::Frame;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::outbox::Outbox;

/// Maximum number of open streams.
const MAX_LISTENS: usize = 10_000;

/// The open listen streams of one pooled session, or of all profiles and shared sessions.
#[derive(Debug, Default)]
pub struct ListenStreams {
    next: AtomicU64,
    open: Mutex<HashMap<Box<str>, Arc<ListenStream>>>,
}

/// One listen stream.
#[derive(Debug)]
pub struct ListenStream {
    /// The id of the client's request (JSON text).
    id: Box<str>,
    /// `None` for a stream on a pooled session.
    audience: Option<Audience>,
    filter: ListenFilter,
    opened: Instant,
    pub outbox: Outbox,
}

/// The endpoint and client of a stream.
#[derive(Debug)]
pub enum Audience {
    /// A client of a profile. The stream gets the profile's notifications.
    Profile(Arc<PublishedProfile>, Arc<CallClient>),
    /// A client of one server. The stream gets the notifications of the shared session.
    Server(ServerName),
}

impl Audience {
    pub fn is_of_profile(&self, name: &ProfileName) -> bool {
        matches!(self, Self::Profile(profile, _) if profile.name == *name)
    }

    pub fn is_of_server(&self, name: &ServerName) -> bool {
        matches!(self, Self::Server(server) if server == name)
    }

    /// True if the client's switches are stored under one of these client names.
    pub fn is_among(&self, clients: &[String]) -> bool {
        matches!(self, Self::Profile(_, client) if client.is_among(clients))
    }

    /// True if the stream may get notifications of this server. A reload may have removed the
    /// server from the profile.
    fn includes_server(&self, name: &ServerName) -> bool {
        match self {
            Self::Profile(profile, _) => profile.has_server(name),
            Self::Server(server) => server == name,
        }
    }
}

impl ListenStreams {
    fn open(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<ListenStream>>> {
        // Locked for a map operation, never across an await.
        self.open.lock()
    }

    /// Creates a name for a new stream. It differs from every session id.
    pub fn name(&self) -> Box<str> {
        format!("listen-{}", self.next.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// Opens a stream; `None` if there are too many.
    pub fn add(
        &self,
        name: &str,
        id: &str,
        filter: ListenFilter,
        audience: Option<Audience>,
    ) -> Option<Arc<ListenStream>> {
        let mut open_streams = self.open();
        if open_streams.len() >= MAX_LISTENS {
            return None;
        }
        let listen = Arc::new(ListenStream {
            id: id.into(),
            audience,
            filter,
            opened: Instant::now(),
            outbox: Outbox::default(),
        });
        open_streams.insert(name.into(), Arc::clone(&listen));
        Some(listen)
    }

    pub fn remove(&self, name: &str) {
        self.open().remove(name);
    }

    fn all(&self) -> Vec<Arc<ListenStream>> {
        self.open().values().cloned().collect()
    }

    /// Notifies the streams that `concerns` selects of a list that changed at `time`.
    pub fn notify_change(
        &self,
        change_method: Method,
        time: Instant,
        concerns: impl Fn(&Audience) -> bool,
    ) {
        for listen in self.all() {
            if listen.opened < time && listen.audience.as_ref().is_none_or(&concerns) {
                listen.notify_change(change_method);
            }
        }
    }

    /// Ends the streams of a removed profile.
    pub fn end(&self, profile: &ProfileName) {
        for listen in self.all() {
            if let Some(audience) = &listen.audience
                && audience.is_of_profile(profile)
            {
                listen.outbox.close();
            }
        }
    }

    /// Notifies a stream that a resource has changed. `uri` is the URI that its client used.
    pub fn notify_update(&self, server: &ServerName, name: &str, update: &Frame, uri: &str) {
        let Some(listen) = self.open().get(name).cloned() else {
            return;
        };
        if let Some(audience) = &listen.audience
            && !audience.includes_server(server)
        {
            return;
        }
        let mut params = update
            .params()
            .and_then(JsonObjectEditor::read)
            .unwrap_or_default();
        params.set_text("uri", uri);
        listen.push(Method::ResourceUpdated, &params.to_string());
    }

    /// Ends every stream once its queued messages are read.
    pub fn close(&self) {
        for listen in self.all() {
            listen.outbox.close();
        }
    }
}

impl ListenStream {
    /// The first message of the stream, which acknowledges its filter.
    pub fn acknowledged(&self) -> String {
        self.filter.acknowledged(&self.id)
    }

    fn notify_change(&self, change_method: Method) {
        if self.filter.includes(change_method) {
            self.push(change_method, "{}");
        }
    }

    /// Notifies the stream that everything in its filter may have changed.
    pub fn notify_all(&self) {
        for change_method in [
            Method::ToolsChanged,
            Method::PromptsChanged,
            Method::ResourcesChanged,
        ] {
            self.notify_change(change_method);
        }
        for uri in &self.filter.uris {
            let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
            self.push(Method::ResourceUpdated, &params);
        }
    }

    fn push(&self, method: Method, params: &str) {
        self.outbox.push(tagged(method, params, &self.id));
    }
}
