//! The keys of alerts, the journal and traces.

use mainstay_core::{
    config::{Durability, Journal, Payloads},
    words::SettingWords as _,
};
use serde_json::Value;

use super::parts::{FLAG, FRACTION, MS, MS_OR_ZERO, TEXT, TEXTS, key, object, setting};
use crate::{
    read::{fields::Fields, journal, node::Node, report::FindingReport},
    words::{
        schema::{ObjectShape, ValueShape},
        settings::{self, SettingValue, field},
    },
};

pub static ALERT: ObjectShape = ObjectShape {
    required: &["webhook", "command"],
    ..object(
        "alert",
        &[&[
            key(
                &["on"],
                ValueShape::List(&ValueShape::Words(&[
                    "server_down",
                    "flapping",
                    "tools_vanished",
                    "certificate",
                    "recovered",
                ])),
                "What is told.",
            )
            .value("an array of `\"server_down\"`, `\"flapping\"`, `\"tools_vanished\"`, `\"certificate\"`, `\"recovered\"`")
            .default("all"),
            key(&["servers"], TEXTS, "Which servers it is about. It changes nothing for `certificate`.")
                .value("names, in which `*` stands for any text")
                .default("all"),
            key(
                &["webhook"],
                ValueShape::Object(&WEBHOOK),
                "Receives a POST. References are replaced; the URL is never shown.",
            )
            .value("`{\"url\": …, \"headers\": {…}}`"),
            key(
                &["command"],
                TEXTS,
                "Run without a shell; it reads the alert from stdin. An alert has a webhook or a command.",
            )
            .value("array of strings: program and arguments"),
            key(
                &["afterMs"],
                MS_OR_ZERO,
                "How long a server must be down before it is told.",
            )
            .default("60000"),
            key(
                &["flapping"],
                ValueShape::Object(&FLAPPING),
                "When a server counts as flapping.",
            ),
            key(&["timeoutMs"], MS, "What one delivery may take.").default("10000"),
        ]],
    )
};

static WEBHOOK: ObjectShape = ObjectShape {
    required: &["url"],
    ..object(
        "webhook",
        &[&[
            key(
                &["url"],
                TEXT,
                "An http:// or https:// URL. References are replaced.",
            ),
            key(
                &["headers"],
                ValueShape::Map(&ValueShape::Scalar),
                "Headers that are sent with every request.",
            ),
        ]],
    )
};

static FLAPPING: ObjectShape = object(
    "flapping",
    &[&[
        key(
            &["losses"],
            ValueShape::Whole(2, None),
            "So many losses are flapping.",
        )
        .default("3"),
        key(&["withinMs"], MS, "Within how long.").default("600000"),
    ]],
);

pub static JOURNAL: ObjectShape = object(
    "journal",
    &[&[
        setting(
            &["enabled"],
            FLAG,
            "Whether calls are recorded.",
            field!(Journal, enabled),
        ),
        setting(
            &["durability"],
            ValueShape::Words(Durability::WORDS),
            "Whether a call waits until its record is on the disk; see below.",
            field!(Journal, durability),
        ),
        setting(
            &["payloads"],
            ValueShape::Words(Payloads::WORDS),
            "What is kept of arguments and results: their bytes, their identifiers alone, or only their sizes. With the latter two the words of a server's error are not kept, either: its kind is.",
            field!(Journal, payloads),
        ),
        setting(
            &["retentionDays"],
            ValueShape::Whole(1, Some(journal::MOST_DAYS)),
            "How many days records are kept.",
            field!(Journal, retention, read: journal::days, write: journal::file_days),
        ),
        setting(
            &["maxBytes"],
            ValueShape::Whole(journal::LEAST_BYTES, None),
            "What the journal may take on the disk. Beyond it the oldest calls go, with what only they name. All that lies on the disk is less than twice as much. Of an argument or a result that is larger than a quarter of it only the identifier is kept.",
            field!(Journal, max_bytes),
        ),
        key(
            &["redact"],
            ValueShape::Object(&REDACT),
            "What is taken out of payloads.",
        ),
    ]],
);

static REDACT: ObjectShape = object(
    "redact",
    &[&[
        setting(
            &["defaults"],
            FLAG,
            "Whether secrets that are known by their names or forms are kept as `[redacted]`; see below.",
            field!(Journal, redact.defaults),
        ),
        setting(
            &["keys"],
            TEXTS,
            "Members of these names, wherever they stand and however they are capitalised, are kept as `\"[redacted]\"`.",
            field!(Journal, redact.keys),
        ),
        setting(
            &["patterns"],
            TEXTS,
            "Regular expressions. What they match in strings, in the texts of errors and in the URIs of resources is kept as `[redacted]`. The syntax is that of Rust's `regex` crate. A pattern takes at most 1 MiB, compiled. Where the patterns take longer than a second for one text, its rest is not kept.",
            field!(Journal, redact.patterns, read: journal::patterns),
        ),
    ]],
);

pub static TELEMETRY: ObjectShape = object(
    "telemetry",
    &[&[
        key(
            &["enabled"],
            FLAG,
            "`false` sends nothing, whatever the environment says.",
        )
        .default("`true`"),
        key(
            &["endpoint"],
            TEXT,
            "Where the collector takes OTLP over HTTP, as JSON; `/v1/traces` is added.",
        )
        .value("URL")
        .default("the environment's"),
        key(
            &["headers"],
            ValueShape::Map(&ValueShape::Scalar),
            "Sent with every request. Secrets: the API shows placeholders.",
        )
        .value("object of strings")
        .default("the environment's, for its endpoint alone"),
        key(
            &["serviceName"],
            TEXT,
            "The name of Mainstay in traces (`service.name`).",
        )
        .default("the environment's, else `mainstay`"),
        key(
            &["sampleRatio"],
            FRACTION,
            "Which part of the traces is recorded that begin here.",
        )
        .default("the environment's sampler, else 1"),
    ]],
);

impl SettingValue for Journal {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let mut journal = Self::default();
        if let Some(mut fields) = Fields::open(node, report) {
            settings::read(&mut journal, &mut fields, report);
            fields.finish(report);
        }
        Some(journal)
    }

    fn file_value(&self) -> Value {
        settings::file_values(self, &JOURNAL).into()
    }
}
