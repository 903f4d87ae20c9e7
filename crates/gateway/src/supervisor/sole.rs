//! The only client of `mainstay mcp`. The servers get this client's capabilities, and the client gets
//! their questions outside of calls.

use std::{fmt::Debug, sync::Arc, time::Duration};

use mainstay_core::{
    era::{ClientCapabilities, Era},
    ids::ServerName,
};
use mainstay_transport::ServerQuestion;
use tokio::sync::watch;

/// Time for which servers wait for the client's first message, which declares its capabilities.
/// Clients usually send it when they start Mainstay. If the message comes later, the servers start
/// without the declaration, and their sessions may be reopened.
pub const SILENCE: Duration = Duration::from_secs(1);

/// The means to ask the only client outside of its calls.
pub trait Asks: Debug + Send + Sync {
    /// Asks the client a question. The error returns the question if the client cannot be asked.
    fn ask(&self, server: &ServerName, question: ServerQuestion) -> Result<(), ServerQuestion>;
}

/// The only client, with its declaration as soon as that is known.
#[derive(Debug)]
pub struct Sole(watch::Sender<Option<Declared>>);

/// The capabilities of the client, and the means to ask it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The capabilities in the form of the legacy era.
    pub capabilities: Arc<ClientCapabilities>,
    /// `None` if the client can be asked only in results of its calls (2026-07-28).
    pub asker: Option<Arc<dyn Asks>>,
}

impl Default for Sole {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Sole {
    /// Sets the declaration of a client that has opened a session.
    pub fn greet(&self, capabilities: &Arc<ClientCapabilities>, asker: Arc<dyn Asks>) {
        self.0.send_replace(Some(Declared {
            capabilities: Arc::clone(capabilities),
            asker: Some(asker),
        }));
    }

    /// Sets the declaration of a client that makes a request without a session. Only the first
    /// declaration counts.
    pub fn note_request(&self, capabilities: &ClientCapabilities) {
        self.0.send_if_modified(|declared| {
            let is_first = declared.is_none();
            if is_first {
                let capabilities = ClientCapabilities::read(&capabilities.for_era(Era::Legacy));
                *declared = Some(Declared {
                    capabilities: Arc::new(capabilities),
                    asker: None,
                });
            }
            is_first
        });
    }

    pub fn declared(&self) -> Option<Declared> {
        self.0.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Option<Declared>> {
        self.0.subscribe()
    }
}
