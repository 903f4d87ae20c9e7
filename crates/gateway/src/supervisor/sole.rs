//! The one client of `mainstay mcp`. Its servers get its capabilities, and it gets their questions outside of
//! calls.

use std::{fmt::Debug, sync::Arc, time::Duration};

use mainstay_core::{
    era::{ClientCapabilities, Era},
    ids::ServerName,
};
use mainstay_transport::Question;
use tokio::sync::watch;

/// How long servers wait for the client's first words, which say what it declares. Clients send them
/// when they start us; one that does not has its servers started, and perhaps started again.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Asks the client.
pub trait Asks: Debug + Send + Sync {
    /// A question that the client cannot be asked is given back.
    fn ask(&self, server: &ServerName, question: Question) -> Result<(), Question>;
}

/// The one client, as far as it is known.
#[derive(Debug)]
pub struct Sole(watch::Sender<Option<Declared>>);

/// The capabilities of the client, and the way to ask it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The capabilities as a legacy server reads them.
    pub capabilities: Arc<ClientCapabilities>,
    /// `None` where it can be asked by the answers to its calls only (2026-07-28).
    pub asks: Option<Arc<dyn Asks>>,
}

impl Default for Sole {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Sole {
    /// The client has opened a session.
    pub fn greet(&self, capabilities: &Arc<ClientCapabilities>, asks: Arc<dyn Asks>) {
        self.0.send_replace(Some(Declared {
            capabilities: Arc::clone(capabilities),
            asks: Some(asks),
        }));
    }

    /// The client makes a request without a session. Its first words count.
    pub fn hear(&self, capabilities: &ClientCapabilities) {
        self.0.send_if_modified(|declared| {
            let is_first = declared.is_none();
            if is_first {
                let capabilities = ClientCapabilities::read(&capabilities.for_era(Era::Legacy));
                *declared = Some(Declared {
                    capabilities: Arc::new(capabilities),
                    asks: None,
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
