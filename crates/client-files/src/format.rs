//! The languages of clients' files.

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON. Comments and trailing commas are read, too, and kept.
    Json,
    Toml,
    Yaml,
}
