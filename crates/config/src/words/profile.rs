//! The keys of a profile.

use super::parts::{NAMING, OWN_TOOLS, TEXT, TEXTS, key, object};
use crate::words::schema::{ObjectShape, ValueShape};

pub static PROFILE: ObjectShape = object(
    "profile",
    &[&[
        key(
            &["servers"],
            TEXTS,
            "Whose tools, prompts and resources it has. `[]` is none.",
        )
        .value("patterns of server names")
        .default("all"),
        key(
            &["tools"],
            ValueShape::Object(&TOOLS),
            "Which tools of these servers. `deny` wins.",
        ),
        key(
            &["rename"],
            ValueShape::Map(&TEXT),
            "The whole name to show: `naming` adds nothing. Letters, digits, `_` and `-`, up to `maxNameLength`; each name once. A name that names another server (`git__log` for a tool of `files`), that another tool has, or that is an own tool's of the profile, is not given: the tool keeps the name that it would have without `rename`, and the log says so.",
        )
        .value("`{\"server/tool\": \"name\"}`"),
        key(
            &["descriptions"],
            ValueShape::Map(&TEXT),
            "What is shown instead of the server's own description. Nothing else of a tool changes.",
        )
        .value("`{\"server/tool\": \"text\"}`"),
        key(
            &["expose"],
            ValueShape::Words(&["direct", "meta"]),
            "`meta` shows no tools of servers, but Mainstay's own. Prompts and resources are listed as ever.",
        )
        .default("`\"direct\"`"),
        key(&["naming"], NAMING, "How its tools and prompts are called.")
            .default("that of the top"),
        key(&["ownTools"], OWN_TOOLS, "Groups of Mainstay's own tools.")
            .value("of `\"meta\"`, `\"external\"`, `\"activity\"`, `\"records\"`, `\"control\"`")
            .default("`[]`; with `expose: \"meta\"`, `[\"meta\"]`"),
    ]],
);

static TOOLS: ObjectShape = object(
    "toolFilter",
    &[&[
        key(&["allow"], TEXTS, "Tools that it has.")
            .value("patterns of `server/tool`, the tool as its server calls it")
            .default("all"),
        key(
            &["deny"],
            TEXTS,
            "Tools that it does not have; they win over `allow`.",
        )
        .value("patterns of `server/tool`")
        .default("`[]`"),
    ]],
);
