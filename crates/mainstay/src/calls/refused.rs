//! Calls for which no server is asked: they are counted, and on record like any other (L1).

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use bytestring::ByteString;
use mainstay_core::{failure::Failure, message::Method, record::Target};

use super::{
    Calls, Client,
    account::{failed, is_recorded, kept},
};
use crate::{
    journal::{Begun, Finished},
    transport::Frame,
};

/// Of a name that nobody knows, enough to know it by.
const MAX_NAME: usize = 256;

/// What was asked for, as it was asked for.
#[derive(Debug)]
pub struct Refused<'a> {
    pub client: &'a Client,
    pub method: Method,
    pub name: &'a str,
    /// The text of `arguments`.
    pub arguments: Option<ByteString>,
}

impl<'a> Refused<'a> {
    /// By a request that names it so. `None` where it asks for no work of a server's own.
    pub fn request(client: &'a Client, frame: &Frame, name: &'a str) -> Option<Self> {
        let arguments = frame.envelope().arguments();
        Some(Self {
            client,
            method: frame.method().filter(|method| is_recorded(*method))?,
            name,
            arguments: arguments.map(|span| kept(frame, frame.get(span))),
        })
    }
}

impl Calls {
    /// The failure, once it is counted and recorded.
    #[must_use]
    pub async fn refuse(&self, refused: Option<Refused<'_>>, failure: Failure) -> Failure {
        self.refused.add(failure.kind);
        let (Some(journal), Some(refused)) = (&self.journal, refused) else {
            return failure;
        };
        let now = Instant::now();
        let entry = journal.begin(Begun {
            origin: Arc::clone(&refused.client.origin),
            target: Target {
                server: None,
                method: Cow::Borrowed(refused.method.name()),
                tool: refused.name[..refused.name.floor_char_boundary(MAX_NAME)].into(),
            },
            arguments: refused.arguments,
            since: now,
            trace: None,
        });
        let on_record = entry.finish(Finished {
            outcome: failed(&failure),
            attempts: 0,
            at: now,
            queue: Duration::ZERO,
            upstream: Duration::ZERO,
        });
        // It has not run, whether or not that is on record.
        if let Err(error) = on_record.await {
            tracing::warn!(%error, "a call that no server was asked for is not on record");
        }
        failure
    }
}
