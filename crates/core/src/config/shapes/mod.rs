//! The keys of a configuration, what may stand there, and what it means.

mod file;
mod policies;
mod profile;
mod reports;
mod server;

use serde_json::Value;

use self::{file::FILE, server::SERVER};
use super::schema::{Key, Least, Object, Shape, document};

/// The JSON Schema of a configuration (draft 2020-12).
pub fn schema() -> Value {
    document(&FILE)
}

/// The same as text, as docs/config.schema.json has it.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// The file.
pub(super) static FILE_SHAPE: Shape = Shape::Object(&FILE);

/// A server's entry.
pub(super) static ENTRY: Shape = Shape::Object(&SERVER);

const TEXT: Shape = Shape::Text;
const FLAG: Shape = Shape::Flag;
const TEXTS: Shape = Shape::List(&Shape::Text);
const AT_LEAST_ONE: Shape = Shape::Whole(1, None);
/// Zero is no limit.
const LIMIT: Shape = Shape::Whole(0, None);
const MS: Shape = Shape::Time(Least::AboveZero);
const MS_OR_ZERO: Shape = Shape::Time(Least::Of(0));
/// A server that dies at once shall not keep a core busy.
const DELAY: Shape = Shape::Time(Least::Of(100));
const FRACTION: Shape = Shape::Number(0.0, 1.0);
const NAMING: Shape = Shape::Words(&["double_underscore", "slash", "none", "mcp_prefix"]);
const ISOLATION: Shape = Shape::Words(&["shared", "session"]);
const OWN_TOOLS: Shape = Shape::List(&Shape::Words(&[
    "meta", "external", "activity", "records", "control",
]));

const fn key(names: &'static [&'static str], shape: Shape, about: &'static str) -> Key {
    Key {
        names,
        shape,
        about,
    }
}

/// A closed object without foreign keys.
const fn object(name: &'static str, keys: &'static [&'static [Key]]) -> Object {
    Object {
        name,
        keys,
        passed: &[],
        required: &[],
        open: false,
    }
}
