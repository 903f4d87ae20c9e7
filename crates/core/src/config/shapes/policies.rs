//! How sessions are kept: the keys of the file and of an entry.

use super::parts::{
    AT_LEAST_ONE, DELAY, FLAG, FRACTION, LIMIT, MS, MS_OR_ZERO, alias, key, object, setting,
};
use crate::{
    config::{
        ListChanged, ServerRequests,
        node::Node,
        policies,
        schema::{Key, Object, Shape},
        settings::{Field, field},
    },
    health::Method,
    lifecycle::{InitialFailure, ReconnectMode, RestartMode},
};

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
    setting(
        &["connectTimeoutMs"],
        MS,
        "Start or connect, and handshake, in milliseconds. Default 30000. For a process it counts silence.",
        Field::Policies(field!(policy.connect_timeout, read: Node::limit)),
    ),
    setting(
        &["startTimeoutMs"],
        MS,
        "What the start of a process that works may take in all, in milliseconds. Default 600000.",
        Field::Policies(field!(policy.start_timeout, read: Node::limit)),
    ),
    setting(
        &["callRetry"],
        FLAG,
        "Whether a call of unknown outcome is made once more if its tool is idempotent. Default false.",
        Field::Policies(field!(call_retry)),
    ),
    setting(
        &["listChanged"],
        Shape::Words(ListChanged::WORDS),
        "What a server's list_changed leads to. Default \"propagate\".",
        Field::Policies(field!(list_changed)),
    ),
    setting(
        &["strictToolNames"],
        FLAG,
        "Whether tools are hidden whose names some clients and models refuse.",
        Field::Policies(field!(strict_tool_names)),
    ),
    setting(
        &["serverRequests"],
        Shape::Words(ServerRequests::WORDS),
        "What becomes of requests that the server makes of its clients.",
        Field::Policies(field!(server_requests)),
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
    alias(
        &["maxRetries"],
        AT_LEAST_ONE,
        ("reconnect.maxAttempts.", "reconnect", "maxAttempts"),
        field!(policy.reconnect.max_attempts, read: policies::retries),
    ),
    alias(
        &["initialDelayMs"],
        DELAY,
        ("reconnect.initialDelayMs.", "reconnect", "initialDelayMs"),
        field!(policy.reconnect.initial_delay),
    ),
    alias(
        &["maxDelayMs"],
        DELAY,
        ("reconnect.maxDelayMs.", "reconnect", "maxDelayMs"),
        field!(policy.reconnect.max_delay),
    ),
    alias(
        &["forgiveAfterMs"],
        MS_OR_ZERO,
        ("reconnect.forgiveAfterMs.", "reconnect", "forgiveAfterMs"),
        field!(policy.reconnect.forgive_after),
    ),
    alias(
        &["healthCheckIntervalMs"],
        MS_OR_ZERO,
        ("health.intervalMs.", "health", "intervalMs"),
        field!(policy.health.interval, read: policies::interval, shown: policies::shown_interval),
    ),
    alias(
        &["hangAfterMs"],
        MS,
        ("health.hangAfterMs.", "health", "hangAfterMs"),
        field!(policy.health.hang_after),
    ),
];

static RECONNECT: Object = object(
    "reconnect",
    &[&[
        setting(
            &["mode"],
            Shape::Words(ReconnectMode::WORDS),
            "By itself after a wait; when someone asks for it; only when its operator starts it.",
            Field::Policies(field!(policy.reconnect.mode)),
        ),
        setting(
            &["maxAttempts"],
            LIMIT,
            "Attempts in a row, then the server is failed. 0 is no limit.",
            Field::Policies(
                field!(policy.reconnect.max_attempts, read: policies::attempts, shown: policies::shown_limit),
            ),
        ),
        setting(
            &["initialDelayMs"],
            DELAY,
            "The first wait, in milliseconds.",
            Field::Policies(field!(policy.reconnect.initial_delay)),
        ),
        setting(
            &["maxDelayMs"],
            DELAY,
            "The longest wait, in milliseconds.",
            Field::Policies(field!(policy.reconnect.max_delay)),
        ),
        setting(
            &["forgiveAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its losses are forgotten, in milliseconds.",
            Field::Policies(field!(policy.reconnect.forgive_after)),
        ),
        setting(
            &["multiplier"],
            Shape::Number(1.0, 1000.0),
            "How each wait grows.",
            Field::Policies(field!(policy.reconnect.multiplier)),
        ),
        setting(
            &["jitter"],
            FRACTION,
            "The fraction of a wait by which it varies.",
            Field::Policies(field!(policy.reconnect.jitter)),
        ),
        setting(
            &["unauthorizedDelayMs"],
            DELAY,
            "The wait after HTTP 401 or 403, in milliseconds.",
            Field::Policies(field!(policy.reconnect.unauthorized_delay)),
        ),
        setting(
            &["initialFailure"],
            Shape::Words(InitialFailure::WORDS),
            "What follows when the first attempt after a start fails.",
            Field::Policies(field!(policy.reconnect.initial_failure)),
        ),
        setting(
            &["onCall"],
            FLAG,
            "Whether a call that finds the server down brings the attempt forward.",
            Field::Policies(field!(policy.reconnect.on_call)),
        ),
    ]],
);

static RESTART: Object = object(
    "restart",
    &[&[
        setting(
            &["mode"],
            Shape::Words(RestartMode::WORDS),
            "With a budget of its own; as any other loss; not at all.",
            Field::Policies(field!(policy.restart.mode)),
        ),
        setting(
            &["maxAttempts"],
            LIMIT,
            "Crashes in a row, then the server is failed. 0 is no limit.",
            Field::Policies(
                field!(policy.restart.max_attempts, read: policies::attempts, shown: policies::shown_limit),
            ),
        ),
        setting(
            &["resetAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its crashes are forgotten, in milliseconds.",
            Field::Policies(field!(policy.restart.reset_after)),
        ),
    ]],
);

static HEALTH: Object = object(
    "health",
    &[&[
        setting(
            &["intervalMs"],
            MS_OR_ZERO,
            "How long a server must be silent before it is asked, in milliseconds. 0 is never.",
            Field::Policies(
                field!(policy.health.interval, read: policies::interval, shown: policies::shown_interval),
            ),
        ),
        setting(
            &["jitter"],
            FRACTION,
            "The fraction by which the interval varies.",
            Field::Policies(field!(policy.health.jitter)),
        ),
        setting(
            &["timeoutMs"],
            MS,
            "What an answer may take, in milliseconds.",
            Field::Policies(field!(policy.health.timeout)),
        ),
        setting(
            &["method"],
            Shape::Words(Method::WORDS),
            "MCP's ping, the list of tools, or GET of healthCheckUrl.",
            Field::Policies(field!(policy.health.method)),
        ),
        setting(
            &["threshold"],
            AT_LEAST_ONE,
            "Failures in a row after which the server is degraded.",
            Field::Policies(field!(policy.health.threshold)),
        ),
        setting(
            &["action"],
            Shape::Words(&["verify", "reconnect", "event", "log", "off"]),
            "What follows at the threshold.",
            Field::Policies(field!(policy.health.action, read: policies::action)),
        ),
        setting(
            &["hangAfterMs"],
            MS,
            "How long a server must have sent no message before it can count as hanging, in milliseconds.",
            Field::Policies(field!(policy.health.hang_after)),
        ),
        setting(
            &["unansweredCalls"],
            LIMIT,
            "Calls in a row without an answer after which calls are refused. 0 is off.",
            Field::Policies(
                field!(policy.health.unanswered_calls, read: policies::attempts, shown: policies::shown_limit),
            ),
        ),
    ]],
);
