//! Listen streams of clients without a session: what each asked for, and what waits for it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mainstay_core::{
    era::listen::{Filter, tagged},
    ids::{ProfileName, ServerName},
    message::{self, Method, Object},
};
use mainstay_gateway::{calls::Client, registry::Profile};
use mainstay_transport::Frame;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::outbox::Outbox;

/// Streams at once; one more is refused.
const MAX_LISTENS: usize = 10_000;

/// The streams that hear the same server, or the servers of profiles.
#[derive(Debug, Default)]
pub struct ListenStreams {
    next: AtomicU64,
    open: Mutex<HashMap<Box<str>, Arc<Listen>>>,
}

/// One stream.
#[derive(Debug)]
pub struct Listen {
    /// The id of its request, JSON text.
    id: Box<str>,
    /// `None` hears one pooled session only.
    audience: Option<Audience>,
    filter: Filter,
    opened: Instant,
    pub outbox: Outbox,
}

/// Which clients a stream is for.
#[derive(Debug)]
pub enum Audience {
    /// A client of a profile.
    Profile(Arc<Profile>, Arc<Client>),
    /// A client of one server's shared session.
    Server(ServerName),
}

impl Audience {
    pub fn is_of_profile(&self, name: &ProfileName) -> bool {
        matches!(self, Self::Profile(profile, _) if profile.name == *name)
    }

    pub fn is_of_server(&self, name: &ServerName) -> bool {
        matches!(self, Self::Server(server) if server == name)
    }

    /// Whether its client's switches are kept under one of these names.
    pub fn is_among(&self, clients: &[String]) -> bool {
        matches!(self, Self::Profile(_, client) if client.is_among(clients))
    }

    /// Whether it may hear of this server: a reload may have taken it out of a profile.
    fn hears(&self, name: &ServerName) -> bool {
        match self {
            Self::Profile(profile, _) => profile.has_server(name),
            Self::Server(server) => server == name,
        }
    }
}

impl ListenStreams {
    fn open(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Listen>>> {
        // Held for a map operation, never across an await.
        self.open.lock()
    }

    /// A name for a stream to come, unlike the id of any session.
    pub fn name(&self) -> Box<str> {
        format!("listen-{}", self.next.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// Begins to tell a stream. `None` if there are too many.
    pub fn add(
        &self,
        name: &str,
        id: &str,
        filter: Filter,
        audience: Option<Audience>,
    ) -> Option<Arc<Listen>> {
        let mut open = self.open();
        if open.len() >= MAX_LISTENS {
            return None;
        }
        let listen = Arc::new(Listen {
            id: id.into(),
            audience,
            filter,
            opened: Instant::now(),
            outbox: Outbox::default(),
        });
        open.insert(name.into(), Arc::clone(&listen));
        Some(listen)
    }

    pub fn remove(&self, name: &str) {
        self.open().remove(name);
    }

    fn all(&self) -> Vec<Arc<Listen>> {
        self.open().values().cloned().collect()
    }

    /// A list changed at that time, for the streams that it concerns.
    pub fn tell_change(&self, changed: Method, at: Instant, concerns: impl Fn(&Audience) -> bool) {
        for listen in self.all() {
            if listen.opened < at && listen.audience.as_ref().is_none_or(&concerns) {
                listen.tell_change(changed);
            }
        }
    }

    /// Ends the streams of a profile that is there no more.
    pub fn end(&self, profile: &ProfileName) {
        for listen in self.all() {
            if let Some(audience) = &listen.audience
                && audience.is_of_profile(profile)
            {
                listen.outbox.close();
            }
        }
    }

    /// A resource changed, which the stream knows by this URI.
    pub fn tell_update(&self, server: &ServerName, name: &str, update: &Frame, uri: &str) {
        let Some(listen) = self.open().get(name).cloned() else {
            return;
        };
        if let Some(audience) = &listen.audience
            && !audience.hears(server)
        {
            return;
        }
        let mut params = update.params().and_then(Object::read).unwrap_or_default();
        params.set_text("uri", uri);
        listen.push(Method::ResourceUpdated, &params.to_string());
    }

    /// Ends every stream, once what waits has been read.
    pub fn close(&self) {
        for listen in self.all() {
            listen.outbox.close();
        }
    }
}

impl Listen {
    /// What it is told first.
    pub fn acknowledged(&self) -> String {
        self.filter.acknowledged(&self.id)
    }

    fn tell_change(&self, changed: Method) {
        if self.filter.wants(changed) {
            self.push(changed, "{}");
        }
    }

    /// Everything that it listens to may have changed.
    pub fn tell_all(&self) {
        for changed in [
            Method::ToolsChanged,
            Method::PromptsChanged,
            Method::ResourcesChanged,
        ] {
            self.tell_change(changed);
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
