//! The formats of clients' files.

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON. Comments and trailing commas are accepted and kept.
    Json,
    Toml,
    Yaml,
}
