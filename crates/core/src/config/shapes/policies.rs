//! How sessions are kept: the keys of the file and of an entry.

use super::parts::{AT_LEAST_ONE, DELAY, FLAG, FRACTION, LIMIT, MS, MS_OR_ZERO, key, object};
use crate::config::schema::{Key, Object, Shape};

// A reference to a shape that refers to an object needs a place of its own.
static HEALTH_SHAPES: [Shape; 3] = [Shape::Object(&HEALTH), FLAG, Shape::Words(&["off"])];

/// How sessions are kept: at the top for all servers, and in an entry.
pub const POLICIES: &[Key] = &[
    key(
        &["preset"],
        Shape::Words(&[
            "default",
            "persistent",
            "router",
            "bounded",
            "desktop",
            "manual",
        ]),
        "Where the other settings start from.",
    ),
    key(
        &["connectTimeoutMs"],
        MS,
        "Start or connect, and handshake, in milliseconds. Default 30000. For a process it counts silence.",
    ),
    key(
        &["startTimeoutMs"],
        MS,
        "What the start of a process that works may take in all, in milliseconds. Default 600000.",
    ),
    key(
        &["callRetry"],
        FLAG,
        "Whether a call of unknown outcome is made once more if its tool is idempotent. Default false.",
    ),
    key(
        &["listChanged"],
        Shape::Words(&["propagate", "ignore"]),
        "What a server's list_changed leads to. Default \"propagate\".",
    ),
    key(
        &["strictToolNames"],
        FLAG,
        "Whether tools are hidden whose names some clients and models refuse.",
    ),
    key(
        &["serverRequests"],
        Shape::Words(&["forward", "queue", "reject"]),
        "What becomes of requests that the server makes of its clients.",
    ),
    key(
        &["reconnect"],
        Shape::Object(&RECONNECT),
        "What follows when a session is lost.",
    ),
    key(
        &["restart"],
        Shape::Object(&RESTART),
        "What follows when a process crashes.",
    ),
    key(
        &["health"],
        Shape::Either(&HEALTH_SHAPES),
        "How a server is asked whether it is well; false is never.",
    ),
    key(
        &["autoReconnect", "auto_reconnect"],
        FLAG,
        "reconnect.mode \"auto\" or \"off\".",
    ),
    key(&["maxRetries"], AT_LEAST_ONE, "reconnect.maxAttempts."),
    key(&["initialDelayMs"], DELAY, "reconnect.initialDelayMs."),
    key(&["maxDelayMs"], DELAY, "reconnect.maxDelayMs."),
    key(&["forgiveAfterMs"], MS_OR_ZERO, "reconnect.forgiveAfterMs."),
    key(&["healthCheckIntervalMs"], MS_OR_ZERO, "health.intervalMs."),
    key(&["hangAfterMs"], MS, "health.hangAfterMs."),
];

static RECONNECT: Object = object(
    "reconnect",
    &[&[
        key(
            &["mode"],
            Shape::Words(&["auto", "manual", "off"]),
            "By itself after a wait; when someone asks for it; only when its operator starts it.",
        ),
        key(
            &["maxAttempts"],
            LIMIT,
            "Attempts in a row, then the server is failed. 0 is no limit.",
        ),
        key(
            &["initialDelayMs"],
            DELAY,
            "The first wait, in milliseconds.",
        ),
        key(&["maxDelayMs"], DELAY, "The longest wait, in milliseconds."),
        key(
            &["forgiveAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its losses are forgotten, in milliseconds.",
        ),
        key(
            &["multiplier"],
            Shape::Number(1.0, 1000.0),
            "How each wait grows.",
        ),
        key(
            &["jitter"],
            FRACTION,
            "The fraction of a wait by which it varies.",
        ),
        key(
            &["unauthorizedDelayMs"],
            DELAY,
            "The wait after HTTP 401 or 403, in milliseconds.",
        ),
        key(
            &["initialFailure"],
            Shape::Words(&["retry", "error"]),
            "What follows when the first attempt after a start fails.",
        ),
        key(
            &["onCall"],
            FLAG,
            "Whether a call that finds the server down brings the attempt forward.",
        ),
    ]],
);

static RESTART: Object = object(
    "restart",
    &[&[
        key(
            &["mode"],
            Shape::Words(&["on_crash", "as_reconnect", "never"]),
            "With a budget of its own; as any other loss; not at all.",
        ),
        key(
            &["maxAttempts"],
            LIMIT,
            "Crashes in a row, then the server is failed. 0 is no limit.",
        ),
        key(
            &["resetAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its crashes are forgotten, in milliseconds.",
        ),
    ]],
);

static HEALTH: Object = object(
    "health",
    &[&[
        key(
            &["intervalMs"],
            MS_OR_ZERO,
            "How long a server must be silent before it is asked, in milliseconds. 0 is never.",
        ),
        key(
            &["jitter"],
            FRACTION,
            "The fraction by which the interval varies.",
        ),
        key(
            &["timeoutMs"],
            MS,
            "What an answer may take, in milliseconds.",
        ),
        key(
            &["method"],
            Shape::Words(&["ping", "tools_list", "http"]),
            "MCP's ping, the list of tools, or GET of healthCheckUrl.",
        ),
        key(
            &["threshold"],
            AT_LEAST_ONE,
            "Failures in a row after which the server is degraded.",
        ),
        key(
            &["action"],
            Shape::Words(&["verify", "reconnect", "event", "log", "off"]),
            "What follows at the threshold.",
        ),
        key(
            &["hangAfterMs"],
            MS,
            "How long a server must have sent no message before it can count as hanging, in milliseconds.",
        ),
        key(
            &["unansweredCalls"],
            LIMIT,
            "Calls in a row without an answer after which calls are refused. 0 is off.",
        ),
    ]],
);
