//! The keys of policies: how sessions are opened, probed and restarted.

use mainstay_core::{
    config::{ListChanged, ServerRequests},
    health::ProbeMethod,
    lifecycle::{InitialFailure, ReconnectMode, RestartMode},
    words::SettingWords as _,
};

use super::parts::{
    AT_LEAST_ONE, DELAY, FLAG, FRACTION, LIMIT, MS, MS_OR_ZERO, alias, key, object, setting,
};
use crate::{
    read::{
        node::Node,
        policies::{self, Policies},
    },
    words::{
        schema::{KeyRow, ObjectShape, ValueShape},
        settings::field,
    },
};

// A shape that refers to an object must be a static if another shape refers to it.
static HEALTH_SHAPES: [ValueShape; 3] = [
    ValueShape::Object(&HEALTH),
    FLAG,
    ValueShape::Words(&["off"]),
];

/// Policies at the top of the file, for all servers, or in an entry.
pub const POLICIES: &[KeyRow] = &[
    key(
        &["preset"],
        ValueShape::Words(&[
            "default",
            "persistent",
            "router",
            "bounded",
            "desktop",
            "manual",
        ]),
        "Where the other settings start from.",
    )
    .value("a name of the table above")
    .default("`\"default\"`"),
    setting(
        &["connectTimeoutMs"],
        MS,
        "Start or connect, and handshake. For a process it counts silence; see [Starts](#starts).",
        field!(Policies, policy.connect_timeout, read: Node::limit),
    ),
    setting(
        &["startTimeoutMs"],
        MS,
        "What the start of a process that works may take in all. Never less than `connectTimeoutMs`.",
        field!(Policies, policy.start_timeout, read: Node::limit),
    ),
    setting(
        &["callRetry"],
        FLAG,
        "Whether a call whose outcome is unknown is made once more if the server says of its tool that it is idempotent (`idempotentHint`). Calls that were not sent, and those of read-only tools, are made once more in any case.",
        field!(Policies, call_retry),
    ),
    setting(
        &["listChanged"],
        ValueShape::Words(ListChanged::WORDS),
        "What a server's `list_changed` leads to: `propagate` reads the list again and tells clients (a list that is announced again and again while it is read, or within two seconds, is read ever less often, in the end once a minute); `ignore` leaves it until the next session.",
        field!(Policies, list_changed),
    ),
    setting(
        &["strictToolNames"],
        FLAG,
        "Whether tools whose own names are not `^[a-zA-Z0-9_-]{1,64}$` are hidden: neither listed nor called, at any address; the log, `mainstay get NAME` and `hiddenTools` of `GET /api/servers` tell which. Otherwise they have a legal name on `/mcp` ([Names](#names)).",
        field!(Policies, strict_tool_names),
    )
    .default("`false`; with preset `desktop` `true`"),
    setting(
        &["serverRequests"],
        ValueShape::Words(ServerRequests::WORDS),
        "What becomes of requests that the server makes of its clients; see [Requests that servers make](#requests-that-servers-make).",
        field!(Policies, server_requests),
    ),
    key(
        &["reconnect"],
        ValueShape::Object(&RECONNECT),
        "What follows when a session is lost.",
    ),
    key(
        &["restart"],
        ValueShape::Object(&RESTART),
        "What follows when a process crashes.",
    ),
    key(
        &["health"],
        ValueShape::Either(&HEALTH_SHAPES),
        "How a server is asked whether it is well; false is never.",
    ),
    key(
        &["autoReconnect", "auto_reconnect"],
        FLAG,
        "`reconnect.mode` `\"auto\"` or `\"off\"`.",
    ),
    alias(
        &["maxRetries"],
        AT_LEAST_ONE,
        ("`reconnect.maxAttempts`.", "reconnect", "maxAttempts"),
        field!(Policies, policy.reconnect.max_attempts, read: policies::retries),
    ),
    alias(
        &["initialDelayMs"],
        DELAY,
        ("`reconnect.initialDelayMs`.", "reconnect", "initialDelayMs"),
        field!(Policies, policy.reconnect.initial_delay),
    ),
    alias(
        &["maxDelayMs"],
        DELAY,
        ("`reconnect.maxDelayMs`.", "reconnect", "maxDelayMs"),
        field!(Policies, policy.reconnect.max_delay),
    ),
    alias(
        &["forgiveAfterMs"],
        MS_OR_ZERO,
        ("`reconnect.forgiveAfterMs`.", "reconnect", "forgiveAfterMs"),
        field!(Policies, policy.reconnect.forgive_after),
    ),
    alias(
        &["healthCheckIntervalMs"],
        MS_OR_ZERO,
        ("`health.intervalMs`.", "health", "intervalMs"),
        field!(Policies, policy.health.interval, read: policies::interval, write: policies::file_interval),
    ),
    alias(
        &["hangAfterMs"],
        MS,
        ("`health.hangAfterMs`.", "health", "hangAfterMs"),
        field!(Policies, policy.health.hang_after),
    ),
];

pub(crate) static RECONNECT: ObjectShape = object(
    "reconnect",
    &[&[
        setting(
            &["mode"],
            ValueShape::Words(ReconnectMode::WORDS),
            "By itself after a wait; when someone asks for it, and on a call where `onCall` says so; only when its operator starts it.",
            field!(Policies, policy.reconnect.mode),
        ),
        setting(
            &["maxAttempts"],
            LIMIT,
            "Attempts in a row, then the server is `failed` until someone starts it. 0 is no limit.",
            field!(Policies, policy.reconnect.max_attempts, read: policies::attempts, write: policies::file_limit),
        ),
        setting(
            &["initialDelayMs"],
            DELAY,
            "The first wait.",
            field!(Policies, policy.reconnect.initial_delay),
        ),
        setting(
            &["maxDelayMs"],
            DELAY,
            "The longest wait.",
            field!(Policies, policy.reconnect.max_delay),
        ),
        setting(
            &["forgiveAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its losses are forgotten. 0 forgets them on connect; more lets a server that dies after each handshake back off.",
            field!(Policies, policy.reconnect.forgive_after),
        ),
        setting(
            &["multiplier"],
            ValueShape::Number(1.0, 1000.0),
            "How each wait grows.",
            field!(Policies, policy.reconnect.multiplier),
        ),
        setting(
            &["jitter"],
            FRACTION,
            "The fraction of a wait by which it varies, up or down, so that a fleet does not come back in step.",
            field!(Policies, policy.reconnect.jitter),
        ),
        setting(
            &["unauthorizedDelayMs"],
            DELAY,
            "The wait after HTTP 401 or 403, in place of the growing waits.",
            field!(Policies, policy.reconnect.unauthorized_delay),
        ),
        setting(
            &["initialFailure"],
            ValueShape::Words(InitialFailure::WORDS),
            "What follows when the first attempt after a start fails. A wrong configuration is an error in any case.",
            field!(Policies, policy.reconnect.initial_failure),
        ),
        setting(
            &["onCall"],
            FLAG,
            "Whether a call that finds the server down brings the attempt forward, at least a second after the last one. An attempt that fails is not counted then, nor is a session that is lost before the time of the attempt as it was planned: calls spend no budget faster than the waits do.",
            field!(Policies, policy.reconnect.on_call),
        ),
    ]],
);

pub(crate) static RESTART: ObjectShape = object(
    "restart",
    &[&[
        setting(
            &["mode"],
            ValueShape::Words(RestartMode::WORDS),
            "With a budget of its own and the waits of `reconnect`; as any other loss; not at all: the server is `crashed` until someone starts it.",
            field!(Policies, policy.restart.mode),
        ),
        setting(
            &["maxAttempts"],
            LIMIT,
            "Crashes in a row, then the server is `failed`. 0 is no limit. Counts for `on_crash`.",
            field!(Policies, policy.restart.max_attempts, read: policies::attempts, write: policies::file_limit),
        ),
        setting(
            &["resetAfterMs"],
            MS_OR_ZERO,
            "How long the server must be up until its crashes are forgotten.",
            field!(Policies, policy.restart.reset_after),
        ),
    ]],
);

pub(crate) static HEALTH: ObjectShape = object(
    "health",
    &[&[
        setting(
            &["intervalMs"],
            MS_OR_ZERO,
            "How long a server must be silent before it is asked. 0 is never. Each message of the protocol that it sends counts as an answer, so a busy server is never asked.",
            field!(Policies, policy.health.interval, read: policies::interval, write: policies::file_interval),
        ),
        setting(
            &["jitter"],
            FRACTION,
            "The fraction by which the interval varies.",
            field!(Policies, policy.health.jitter),
        ),
        setting(
            &["timeoutMs"],
            MS,
            "What an answer may take.",
            field!(Policies, policy.health.timeout),
        ),
        setting(
            &["method"],
            ValueShape::Words(ProbeMethod::WORDS),
            "MCP's `ping` (any message of JSON-RPC will do as an answer, an error too), the list of tools, or GET of `healthCheckUrl`, and `ping` without one. While calls are refused (`unansweredCalls`), `http` is `ping`, too: a page does not show that calls are answered.",
            field!(Policies, policy.health.method),
        ),
        setting(
            &["threshold"],
            AT_LEAST_ONE,
            "Failures in a row after which the server is degraded: probes and calls together. A failed call alone is never enough.",
            field!(Policies, policy.health.threshold),
        ),
        setting(
            &["action"],
            ValueShape::Words(&["verify", "reconnect", "event", "log", "off"]),
            "What follows: a new connection only on hard evidence, see below; a new connection; an event; a line in the log; the server is never asked.",
            field!(Policies, policy.health.action, read: policies::action),
        ),
        setting(
            &["hangAfterMs"],
            MS,
            "How long a server must have sent no message before it can count as hanging; see below.",
            field!(Policies, policy.health.hang_after),
        ),
        setting(
            &["unansweredCalls"],
            LIMIT,
            "Calls in a row without an answer, and with nothing else heard since the first, after which calls are refused; see below. 0 is off.",
            field!(Policies, policy.health.unanswered_calls, read: policies::attempts, write: policies::file_limit),
        ),
    ]],
);
