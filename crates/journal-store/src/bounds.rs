//! Divides `maxBytes`. The database and the files of objects may have all of it. Everything else on the
//! disk is bounded by shares of it, so that the whole takes less than twice `maxBytes`.

/// The size of a page of the database (SQLite's default).
const PAGE: u64 = 4096;

/// Free pages that stay in the database for what comes next, at most 32 MiB.
const MAX_SPARE: u64 = 32 * 1024 * 1024;
/// The length of the write-ahead log from which on it is brought into the database, at most 16 MiB. With
/// a shorter one pages that each commit writes are copied too often. With a longer one the pause is felt.
const MAX_LOG: u64 = 16 * 1024 * 1024;
/// What is left of the log after it was long, at most.
const MAX_KEPT_LOG: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub max_bytes: u64,
    /// Free pages that stay in the database.
    pub spare_pages: i64,
    /// Pages in the log from which on it is brought into the database.
    pub log_pages: i64,
    /// Bytes that are left of the log after it was long.
    pub kept_log: i64,
    /// Bytes that one transaction writes. One call may bring more.
    pub transaction: u64,
    /// Bytes that are written before the size is looked at again.
    pub between_looks: u64,
    /// Rows of the history of servers: a sixteenth of `max_bytes`, if each takes half a kilobyte.
    pub history_rows: i64,
    /// Bytes of the largest object that is kept. Of a larger one only the digest is.
    pub object: u64,
}

impl Bounds {
    pub fn of(max_bytes: u64) -> Self {
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
