//! Divides `maxBytes`. The database and the files of objects may take all of it. Everything else on the disk
//! is bounded by a share of it, so that the total is less than twice `maxBytes`.

/// The size of a page of the database (SQLite's default).
const PAGE: u64 = 4096;

/// Free pages that stay in the database for the next writes, at most 32 MiB.
const MAX_SPARE: u64 = 32 * 1024 * 1024;
/// Length of the write-ahead log at which it is checkpointed, at most 16 MiB. A shorter log copies pages too
/// often that every commit writes. A longer log makes a noticeable pause.
const MAX_LOG: u64 = 16 * 1024 * 1024;
/// Largest size of the log's file after a checkpoint.
const MAX_KEPT_LOG: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub max_bytes: u64,
    /// Free pages that stay in the database.
    pub spare_pages: i64,
    /// Pages in the log at which it is checkpointed.
    pub log_pages: i64,
    /// Largest size of the log's file after a checkpoint, in bytes.
    pub kept_log: i64,
    /// Bytes that one transaction writes. A single call may take more.
    pub transaction: u64,
    /// Bytes that are written between two checks of the size.
    pub between_looks: u64,
    /// Rows of the history of servers: they may take a sixteenth of `max_bytes`, at half a kilobyte a row.
    pub history_rows: i64,
    /// Bytes of the largest object that is stored. Of a larger object only the digest is stored.
    pub object: u64,
}

impl Bounds {
    pub fn new(max_bytes: u64) -> Self {
        let pages = |bytes: u64| (bytes / PAGE).cast_signed();
        Self {
            max_bytes,
            spare_pages: pages(MAX_SPARE.min(max_bytes / 8)),
            log_pages: pages(MAX_LOG.min(max_bytes / 16)),
            kept_log: MAX_KEPT_LOG.min(max_bytes / 8).cast_signed(),
            transaction: max_bytes / 8,
            between_looks: max_bytes / 32,
            history_rows: (max_bytes / 16 / 512).cast_signed(),
            object: max_bytes / 4,
        }
    }
}
