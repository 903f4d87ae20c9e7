//! The keys of a profile.

use super::parts::{NAMING, OWN_TOOLS, TEXT, TEXTS, key, object};
use crate::words::schema::{Object, Shape};

pub static PROFILE: Object = object(
    "profile",
    &[&[
        key(
            &["servers"],
            TEXTS,
            "Names of servers, in which * stands for any text. Default: all.",
        ),
        key(
            &["tools"],
            Shape::Object(&TOOLS),
            "Which tools of these servers.",
        ),
        key(
            &["rename"],
            Shape::Map(&TEXT),
            "Whole names to show, by server/tool.",
        ),
        key(
            &["descriptions"],
            Shape::Map(&TEXT),
            "Descriptions to show, by server/tool.",
        ),
        key(
            &["expose"],
            Shape::Words(&["direct", "meta"]),
            "Whether tools of servers are shown, or Mainstay's own only. Default \"direct\".",
        ),
        key(
            &["naming"],
            NAMING,
            "How its tools are called. Default: that of the file.",
        ),
        key(&["ownTools"], OWN_TOOLS, "Groups of Mainstay's own tools."),
    ]],
);

static TOOLS: Object = object(
    "toolFilter",
    &[&[
        key(&["allow"], TEXTS, "Patterns of server/tool. Default: all."),
        key(
            &["deny"],
            TEXTS,
            "Patterns of server/tool; they win over allow.",
        ),
    ]],
);
