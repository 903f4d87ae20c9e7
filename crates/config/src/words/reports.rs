//! Whom Mainstay tells what it sees: the keys of alerts, the journal and traces.

use mainstay_core::{
    config::{Durability, Journal, Payloads},
    words::Words as _,
};
use serde_json::Value;

use super::parts::{FLAG, FRACTION, MS, MS_OR_ZERO, TEXT, TEXTS, key, object, setting};
use crate::{
    read::{fields::Fields, journal, node::Node, report::Report},
    words::{
        schema::{Object, Shape},
        settings::{self, SettingValue, field},
    },
};

pub static ALERT: Object = Object {
    required: &["webhook", "command"],
    ..object(
        "alert",
        &[&[
            key(
                &["on"],
                Shape::List(&Shape::Words(&[
                    "server_down",
                    "flapping",
                    "tools_vanished",
                    "recovered",
                ])),
                "What is told. Default: everything.",
            ),
            key(
                &["servers"],
                TEXTS,
                "Names of servers, in which * stands for any text. Default: all.",
            ),
            key(&["webhook"], Shape::Object(&WEBHOOK), "Receives a POST."),
            key(
                &["command"],
                TEXTS,
                "A program and its arguments, run without a shell. It reads the alert from stdin.",
            ),
            key(
                &["afterMs"],
                MS_OR_ZERO,
                "How long a server must be down before it is told. Default 60000.",
            ),
            key(
                &["flapping"],
                Shape::Object(&FLAPPING),
                "When a server counts as flapping.",
            ),
            key(
                &["timeoutMs"],
                MS,
                "What one delivery may take. Default 10000.",
            ),
        ]],
    )
};

static WEBHOOK: Object = Object {
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
                Shape::Map(&Shape::Scalar),
                "Headers that are sent with every request.",
            ),
        ]],
    )
};

static FLAPPING: Object = object(
    "flapping",
    &[&[
        key(
            &["losses"],
            Shape::Whole(2, None),
            "So many losses are flapping. Default 3.",
        ),
        key(&["withinMs"], MS, "Within so long. Default 600000."),
    ]],
);

pub static JOURNAL: Object = object(
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
            Shape::Words(Durability::WORDS),
            "Whether a call waits until its record is on the disk; see below.",
            field!(Journal, durability),
        ),
        setting(
            &["payloads"],
            Shape::Words(Payloads::WORDS),
            "What is kept of arguments and results: their bytes, their identifiers alone, or only their sizes. With the latter two the words of a server's error are not kept, either: its kind is.",
            field!(Journal, payloads),
        ),
        setting(
            &["retentionDays"],
            Shape::Whole(1, Some(journal::MOST_DAYS)),
            "How many days records are kept.",
            field!(Journal, retention, read: journal::days, shown: journal::shown_days),
        ),
        setting(
            &["maxBytes"],
            Shape::Whole(journal::LEAST_BYTES, None),
            "What the journal may take on the disk. Beyond it the oldest calls go, with what only they name. All that lies on the disk is less than twice as much. Of an argument or a result that is larger than a quarter of it only the identifier is kept.",
            field!(Journal, max_bytes),
        ),
        key(
            &["redact"],
            Shape::Object(&REDACT),
            "What is taken out of payloads.",
        ),
    ]],
);

static REDACT: Object = object(
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

pub static TELEMETRY: Object = object(
    "telemetry",
    &[&[
        key(&["enabled"], FLAG, "Whether traces are sent. Default true."),
        key(&["endpoint"], TEXT, "The URL of an OTLP/HTTP collector."),
        key(
            &["headers"],
            Shape::Map(&Shape::Scalar),
            "Headers that are sent with every request.",
        ),
        key(
            &["serviceName"],
            TEXT,
            "service.name of all spans. Default \"mainstay\".",
        ),
        key(
            &["sampleRatio"],
            FRACTION,
            "Which part of the traces that begin here is recorded. Default 1.",
        ),
    ]],
);

impl SettingValue for Journal {
    fn read(node: &Node<'_>, report: &mut Report<'_>) -> Option<Self> {
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
