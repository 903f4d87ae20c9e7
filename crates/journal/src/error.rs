//! Why a question about records has no answer.

use std::{error::Error, path::PathBuf};

use mainstay_core::record::Cid;

/// Why the journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal holds no object {0}")]
    NoSuchObject(Cid),
    #[error("of the object {0} only its identifier is kept")]
    NotKept(Cid),
    #[error("the object {0} is damaged: what is stored has another hash")]
    Damaged(Cid),
    /// In relaxed mode Mainstay goes on without.
    #[error("calls are not on record: {} cannot be used", .0.display())]
    Absent(PathBuf),
    #[error("reading the journal failed")]
    Join(#[from] tokio::task::JoinError),
    /// The store's own trouble.
    #[error(transparent)]
    Store(Box<dyn Error + Send + Sync>),
}
