//! The keys of the file.

use super::{
    parts::{
        AT_LEAST_ONE, FLAG, ISOLATION, MS, NAMING, OWN_TOOLS, TEXT, TEXTS, key, object, setting,
    },
    policies::POLICIES,
    profile::PROFILE,
    reports::{ALERT, JOURNAL, TELEMETRY},
    server::ENTRY,
};
use crate::config::{
    http::registry_url,
    plan::TakesEffect::{AtRestart, Now},
    schema::{Key, Object, Shape},
    settings::{Field, field},
    shown,
};

/// The file.
pub static FILE_SHAPE: Shape = Shape::Object(&FILE);

// A reference to a shape that refers to an object needs a place of its own.
static SERVERS: [Shape; 2] = [Shape::Map(&ENTRY), Shape::List(&ENTRY)];
static INPUT_SHAPE: Shape = Shape::Object(&INPUT);
static ALERT_SHAPE: Shape = Shape::Object(&ALERT);
static PROFILE_SHAPE: Shape = Shape::Object(&PROFILE);

pub static FILE: Object = Object {
    later: &[
        "auth",
        "bridge",
        "discovery",
        "logs",
        "metrics",
        "perChatMCP",
        "tokens",
    ],
    required: &["mcpServers", "servers"],
    ..object("file", &[FILE_KEYS, POLICIES])
};

const FILE_KEYS: &[Key] = &[
    key(
        &["$schema"],
        TEXT,
        "Where this schema is found, for editors. Mainstay does not look at it.",
    ),
    key(&["mcpServers"], Shape::Map(&ENTRY), "The servers, by name."),
    key(
        &["servers"],
        Shape::Either(&SERVERS),
        "The servers as VS Code has them; an array of them has names inside.",
    ),
    key(
        &["mcp"],
        Shape::Object(&MCP),
        "Which of the servers Gemini CLI starts.",
    ),
    setting(
        &["naming"],
        NAMING,
        "How tools and prompts are called on /mcp.",
        Field::Config(field!(naming), Some(Now)),
    ),
    setting(
        &["maxNameLength"],
        Shape::Whole(16, Some(128)),
        "The longest name of a tool on /mcp, in characters. Default 48.",
        Field::Config(field!(max_name_length), Some(Now)),
    ),
    setting(
        &["pageSize"],
        AT_LEAST_ONE,
        "Items per page of the lists on /mcp. Default: no pages.",
        Field::Config(field!(page_size), Some(AtRestart)),
    ),
    setting(
        &["registryUrl"],
        TEXT,
        "The http:// or https:// URL of the MCP registry that `add` and `search` ask. Default: the official one.",
        Field::Config(field!(registry_url, read: registry_url), None),
    ),
    setting(
        &["maxAttemptsPerSecond"],
        AT_LEAST_ONE,
        "Attempts of all servers together to connect over the network. Default 50.",
        Field::Config(field!(max_attempts_per_second), Some(AtRestart)),
    ),
    key(
        &["startup"],
        Shape::Object(&STARTUP),
        "How servers are started.",
    ),
    key(
        &["shutdown"],
        Shape::Object(&SHUTDOWN),
        "How Mainstay stops.",
    ),
    key(&["ui"], Shape::Object(&UI), "What the web page shows."),
    key(
        &["http"],
        Shape::Object(&HTTP),
        "Limits and guards of the HTTP endpoints.",
    ),
    key(
        &["inputs"],
        Shape::List(&INPUT_SHAPE),
        "VS Code's questions. Nobody is asked here: only the default counts.",
    ),
    key(
        &["isolation"],
        ISOLATION,
        "Whether clients share one upstream session, or each has its own.",
    ),
    setting(
        &["alerts"],
        Shape::List(&ALERT_SHAPE),
        "Whom to tell of trouble.",
        Field::Config(field!(alerts, shown: shown::alerts), Some(Now)),
    ),
    setting(
        &["journal"],
        Shape::Object(&JOURNAL),
        "What is recorded of calls.",
        Field::Config(field!(journal), Some(AtRestart)),
    ),
    setting(
        &["telemetry"],
        Shape::Object(&TELEMETRY),
        "Where traces of calls are sent, over OTLP/HTTP.",
        Field::Config(field!(telemetry, shown: shown::telemetry), Some(AtRestart)),
    ),
    setting(
        &["profiles"],
        Shape::Map(&PROFILE_SHAPE),
        "Named endpoints that show some servers and tools: /mcp/NAME.",
        Field::Config(field!(profiles, shown: shown::elsewhere), Some(Now)),
    ),
    key(
        &["ownTools"],
        OWN_TOOLS,
        "Groups of Mainstay's own tools at /mcp. Default: none.",
    ),
];

static MCP: Object = Object {
    open: true,
    ..object(
        "mcp",
        &[&[
            key(&["allowed"], TEXTS, "The only servers that are started."),
            key(&["excluded"], TEXTS, "Servers that are not started."),
        ]],
    )
};

static STARTUP: Object = object(
    "startup",
    &[&[
        setting(
            &["waitMs"],
            Shape::Whole(0, Some(86_400_000)),
            "How long lists and /readyz wait for a server's first attempt, in milliseconds. Default 5000.",
            Field::Config(field!(startup_wait), Some(AtRestart)),
        ),
        setting(
            &["maxConcurrent"],
            AT_LEAST_ONE,
            "How many processes may be starting at once. Default: by the load.",
            Field::Config(field!(max_concurrent_starts), Some(AtRestart)),
        ),
    ]],
);

static SHUTDOWN: Object = object(
    "shutdown",
    &[&[setting(
        &["graceMs"],
        Shape::Whole(0, Some(600_000)),
        "How long calls at work may take when Mainstay stops, in milliseconds. Default 5000.",
        Field::Config(field!(shutdown_grace), Some(AtRestart)),
    )]],
);

static UI: Object = object(
    "ui",
    &[&[setting(
        &["externalTools"],
        FLAG,
        "Whether the page shows the tools of servers and calls them. Default true.",
        Field::Config(field!(external_tools), Some(AtRestart)),
    )]],
);

static HTTP: Object = Object {
    later: &["cors", "tls", "trustedProxies"],
    ..object("http", &[HTTP_KEYS])
};

const HTTP_KEYS: &[Key] = &[
    setting(
        &["maxBodyBytes"],
        AT_LEAST_ONE,
        "The largest request body, in bytes. Default 64 MiB.",
        Field::Config(field!(max_body_bytes), Some(AtRestart)),
    ),
    setting(
        &["maxBodiesBytes"],
        AT_LEAST_ONE,
        "What all request bodies that are read or answered may hold together, in bytes. Default 256 MiB.",
        Field::Config(field!(max_bodies_bytes), Some(AtRestart)),
    ),
    setting(
        &["maxUnreadBytes"],
        AT_LEAST_ONE,
        "What the answers that clients do not read may hold together, in bytes. Default 256 MiB.",
        Field::Config(field!(max_unread_bytes), Some(AtRestart)),
    ),
    setting(
        &["bodyTimeoutMs"],
        MS,
        "How long a request body may take, in milliseconds. Default 300000.",
        Field::Config(field!(body_timeout), Some(AtRestart)),
    ),
    setting(
        &["maxSessions"],
        AT_LEAST_ONE,
        "Sessions of all clients. Default 20000.",
        Field::Config(field!(max_sessions), Some(AtRestart)),
    ),
    setting(
        &["maxSessionsPerClient"],
        AT_LEAST_ONE,
        "Sessions of one client. Default 10000.",
        Field::Config(field!(max_sessions_per_client), Some(AtRestart)),
    ),
    setting(
        &["maxConnections"],
        AT_LEAST_ONE,
        "Connections of all clients. Default 4096.",
        Field::Config(field!(max_connections), Some(AtRestart)),
    ),
    setting(
        &["maxConnectionsPerAddress"],
        AT_LEAST_ONE,
        "Connections from one address. Default 3072.",
        Field::Config(field!(max_connections_per_address), Some(AtRestart)),
    ),
    setting(
        &["allowedHosts"],
        TEXTS,
        "Host names, without port, served beside loopback names and the address listened on. \"*\" allows all.",
        Field::Config(field!(allowed_hosts), Some(AtRestart)),
    ),
    setting(
        &["allowedOrigins"],
        TEXTS,
        "Web origins, such as https://app.example.com, allowed beside those on loopback. \"*\" allows all.",
        Field::Config(field!(allowed_origins), Some(AtRestart)),
    ),
    setting(
        &["requireToken"],
        FLAG,
        "Whether the MCP addresses ask for a token. Default: by the tokens and the address.",
        Field::Config(field!(require_token), Some(AtRestart)),
    ),
    setting(
        &["page"],
        FLAG,
        "Whether the web page is served at /. Default true.",
        Field::Config(field!(page), Some(AtRestart)),
    ),
];

static INPUT: Object = Object {
    open: true,
    required: &["id"],
    ..object(
        "input",
        &[&[
            key(&["id"], TEXT, "The name by which ${input:ID} refers to it."),
            key(
                &["default"],
                Shape::Scalar,
                "What the reference stands for.",
            ),
        ]],
    )
};
