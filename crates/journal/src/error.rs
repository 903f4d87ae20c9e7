//! Errors of queries about records.

use std::{error::Error, path::PathBuf};

use mainstay_core::record::Cid;

/// The error of a journal that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal holds no object {0}")]
    NoSuchObject(Cid),
    #[error("of the object {0} only its identifier is kept")]
    NotKept(Cid),
    #[error("the object {0} is damaged: what is stored has another hash")]
    Damaged(Cid),
    /// In relaxed mode, Mainstay runs without a journal if none can be opened.
    #[error("calls are not on record: {} cannot be used", .0.display())]
    Absent(PathBuf),
    #[error("reading the journal failed")]
    Join(#[from] tokio::task::JoinError),
    /// An error of the store.
    #[error(transparent)]
    Store(Box<dyn Error + Send + Sync>),
}
