//! Access to the journal. Without a journal, a request for records fails.

use std::sync::Arc;

use mainstay_core::failure::{Failure, FailureKind};
use mainstay_gateway::calls::Calls;
use mainstay_journal::{Journal, JournalError};

pub fn journal(calls: &Calls) -> Result<&Arc<Journal>, Failure> {
    calls.journal().ok_or_else(|| {
        let message = "calls are not recorded; see \"journal\" in the configuration";
        Failure::new(FailureKind::NoJournal, message)
    })
}

pub fn failure(error: JournalError) -> Failure {
    match error {
        JournalError::NoSuchObject(cid) | JournalError::NotKept(cid) => {
            Failure::new(FailureKind::CidNotFound, error.to_string()).with("cid", cid.to_string())
        }
        error => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the journal cannot be read"
            );
            Failure::new(FailureKind::JournalUnreadable, error.to_string())
        }
    }
}
