//! The keys of `access` and of its rules.

use super::parts::{FLAG, TEXT, TEXTS, key, object};
use crate::words::schema::{ObjectShape, ValueShape};

/// The words of `default`.
pub const VERDICTS: &[&str] = &["allow", "deny"];

static RULE_SHAPE: ValueShape = ValueShape::Object(&ACCESS_RULE);

pub static ACCESS: ObjectShape = object(
    "access",
    &[&[
        key(
            &["default"],
            ValueShape::Words(VERDICTS),
            "Whether a client may use what no rule is about.",
        )
        .default("`\"deny\"`"),
        key(
            &["groups"],
            ValueShape::Map(&TEXTS),
            "Groups of clients, for `who`.",
        )
        .value("`{\"name\": [patterns of token names]}`")
        .default("none"),
        key(
            &["rules"],
            ValueShape::List(&RULE_SHAPE),
            "The rules, in order: the first one about a client and an item decides.",
        )
        .default("`[]`"),
    ]],
);

pub static ACCESS_RULE: ObjectShape = object(
    "accessRule",
    &[&[
        key(&["name"], TEXT, "What `mainstay access` calls the rule.").default("its place, such as `rules[0]`"),
        key(
            &["who"],
            TEXTS,
            "The clients that the rule is about.",
        )
        .value("of `\"*\"`, `\"anonymous\"` (without a token), patterns of token names, `\"group:NAME\"`")
        .default("everybody"),
        key(
            &["profiles"],
            TEXTS,
            "The profiles at whose endpoints the rule holds. With this key it does not hold at the endpoints of single servers.",
        )
        .value("patterns of profile names")
        .default("all endpoints"),
        key(&["servers"], TEXTS, "The servers that the rule is about.")
            .value("patterns of server names")
            .default("all"),
        key(
            &["tools"],
            TEXTS,
            "The tools that the rule is about. A rule with `tools`, `prompts` or `resources` is about these items alone, else about everything that its servers have.",
        )
        .value("patterns of names, as the server calls them")
        .default("see left"),
        key(&["prompts"], TEXTS, "The same for prompts.")
            .value("patterns of names, as the server calls them")
            .default("see above"),
        key(&["resources"], TEXTS, "The same for resources and templates.")
            .value("patterns of URIs")
            .default("see above"),
        key(&["allow"], FLAG, "Whether the clients may use the items.").default("`true`"),
        key(
            &["readOnly"],
            FLAG,
            "Allows only tools with `readOnlyHint: true`.",
        )
        .default("`false`"),
        key(
            &["destructive"],
            ValueShape::Words(VERDICTS),
            "`deny` refuses tools that may be destructive: those without `readOnlyHint: true` and without `destructiveHint: false`.",
        )
        .default("`\"allow\"`"),
    ]],
);
