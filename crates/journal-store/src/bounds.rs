//! Divides `maxBytes`. The database and the files of objects may use all of it. All other files of
//! the journal are bounded by a share, so that the total is less than twice `maxBytes`.

/// The size of a page of the database (SQLite's default).
const PAGE_BYTES: u64 = 4096;

/// Maximum size of the free pages that stay in the database for the next writes, in bytes.
const MAX_SPARE: u64 = 32 * 1024 * 1024;
/// Maximum length of the write-ahead log before a checkpoint, in bytes. A shorter log would copy
/// frequently written pages too often. The checkpoint of a longer log would take noticeable time.
const MAX_LOG: u64 = 16 * 1024 * 1024;
/// Maximum size of the log's file after a checkpoint, in bytes.
const MAX_RETAINED_LOG: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub max_bytes: u64,
    /// Free pages that stay in the database.
    pub spare_pages: i64,
    /// Number of pages in the log that causes a checkpoint.
    pub log_pages: i64,
    /// Maximum size of the log's file after a checkpoint, in bytes.
    pub kept_log: i64,
    /// Maximum bytes of one transaction. A single call may exceed them.
    pub transaction: u64,
    /// Bytes to write between two checks of the size.
    pub between_looks: u64,
    /// Maximum number of rows of the history of servers: a sixteenth of `max_bytes`, at half a
    /// kilobyte a row.
    pub history_rows: i64,
    /// Maximum size of a stored object, in bytes. Only the digest of a larger object is stored.
    pub object: u64,
}

impl Bounds {
    pub fn new(max_bytes: u64) -> Self {
        let pages = |bytes: u64| (bytes / PAGE_BYTES).cast_signed();
        Self {
            max_bytes,
            spare_pages: pages(MAX_SPARE.min(max_bytes / 8)),
            log_pages: pages(MAX_LOG.min(max_bytes / 16)),
            kept_log: MAX_RETAINED_LOG.min(max_bytes / 8).cast_signed(),
            transaction: max_bytes / 8,
            between_looks: max_bytes / 32,
            history_rows: (max_bytes / 16 / 512).cast_signed(),
            object: max_bytes / 4,
        }
    }
}
