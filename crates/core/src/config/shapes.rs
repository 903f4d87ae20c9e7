//! The keys of a configuration, what may stand there, and what it means.

use serde_json::Value;

use super::{
    defaults, entry, journal, parse,
    schema::{Key, Least, Object, Shape, document},
    withheld::{ALLOWED_TOOLS, DISABLED_TOOLS},
};

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

// A reference to a shape that refers to an object needs a place of its own.
static SERVERS: [Shape; 2] = [Shape::Map(&ENTRY), Shape::List(&ENTRY)];
static INPUT_SHAPE: Shape = Shape::Object(&INPUT);
static ALERT_SHAPE: Shape = Shape::Object(&ALERT);
static PROFILE_SHAPE: Shape = Shape::Object(&PROFILE);
static PARAM_SHAPES: [Shape; 3] = [Shape::Scalar, Shape::Object(&PARAM), Shape::Null];
static PARAM_VALUE: Shape = Shape::Either(&PARAM_SHAPES);
static ROOT_SHAPES: [Shape; 2] = [TEXT, Shape::Object(&ROOT)];
static ROOT_SHAPE: Shape = Shape::Either(&ROOT_SHAPES);
static HEALTH_SHAPES: [Shape; 3] = [Shape::Object(&HEALTH), FLAG, Shape::Words(&["off"])];

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

pub(super) static FILE: Object = Object {
    passed: &[parse::LATER],
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
    key(
        &["naming"],
        NAMING,
        "How tools and prompts are called on /mcp.",
    ),
    key(
        &["maxNameLength"],
        Shape::Whole(16, Some(128)),
        "The longest name of a tool on /mcp, in characters. Default 48.",
    ),
    key(
        &["pageSize"],
        AT_LEAST_ONE,
        "Items per page of the lists on /mcp. Default: no pages.",
    ),
    key(
        &["registryUrl"],
        TEXT,
        "The http:// or https:// URL of the MCP registry that `add` and `search` ask. Default: the official one.",
    ),
    key(
        &["maxAttemptsPerSecond"],
        AT_LEAST_ONE,
        "Attempts of all servers together to connect over the network. Default 50.",
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
    key(
        &["alerts"],
        Shape::List(&ALERT_SHAPE),
        "Whom to tell of trouble.",
    ),
    key(
        &["journal"],
        Shape::Object(&JOURNAL),
        "What is recorded of calls.",
    ),
    key(
        &["telemetry"],
        Shape::Object(&TELEMETRY),
        "Where traces of calls are sent, over OTLP/HTTP.",
    ),
    key(
        &["profiles"],
        Shape::Map(&PROFILE_SHAPE),
        "Named endpoints that show some servers and tools: /mcp/NAME.",
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
        key(
            &["waitMs"],
            Shape::Whole(0, Some(86_400_000)),
            "How long lists and /readyz wait for a server's first attempt, in milliseconds. Default 5000.",
        ),
        key(
            &["maxConcurrent"],
            AT_LEAST_ONE,
            "How many processes may be starting at once. Default: by the load.",
        ),
    ]],
);

static SHUTDOWN: Object = object(
    "shutdown",
    &[&[key(
        &["graceMs"],
        Shape::Whole(0, Some(600_000)),
        "How long calls at work may take when Mainstay stops, in milliseconds. Default 5000.",
    )]],
);

static HTTP: Object = Object {
    passed: &[parse::LATER_HTTP],
    ..object("http", &[HTTP_KEYS])
};

const HTTP_KEYS: &[Key] = &[
    key(
        &["maxBodyBytes"],
        AT_LEAST_ONE,
        "The largest request body, in bytes. Default 64 MiB.",
    ),
    key(
        &["maxBodiesBytes"],
        AT_LEAST_ONE,
        "What all request bodies that are read or answered may hold together, in bytes. Default 256 MiB.",
    ),
    key(
        &["maxUnreadBytes"],
        AT_LEAST_ONE,
        "What the answers that clients do not read may hold together, in bytes. Default 256 MiB.",
    ),
    key(
        &["bodyTimeoutMs"],
        MS,
        "How long a request body may take, in milliseconds. Default 300000.",
    ),
    key(
        &["maxSessions"],
        AT_LEAST_ONE,
        "Sessions of all clients. Default 20000.",
    ),
    key(
        &["maxSessionsPerClient"],
        AT_LEAST_ONE,
        "Sessions of one client. Default 10000.",
    ),
    key(
        &["maxConnections"],
        AT_LEAST_ONE,
        "Connections of all clients. Default 4096.",
    ),
    key(
        &["maxConnectionsPerAddress"],
        AT_LEAST_ONE,
        "Connections from one address. Default 3072.",
    ),
    key(
        &["allowedHosts"],
        TEXTS,
        "Host names, without port, served beside loopback names and the address listened on. \"*\" allows all.",
    ),
    key(
        &["allowedOrigins"],
        TEXTS,
        "Web origins, such as https://app.example.com, allowed beside those on loopback. \"*\" allows all.",
    ),
    key(
        &["requireToken"],
        FLAG,
        "Whether the MCP addresses ask for a token. Default: by the tokens and the address.",
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

pub(super) static SERVER: Object = Object {
    passed: &[entry::FOREIGN, entry::LATER],
    required: &["command", "url", "serverUrl", "httpUrl", "remoteUrl"],
    ..object("server", &[REACH, OPTIONS, POLICIES])
};

/// How a server is reached.
const REACH: &[Key] = &[
    key(
        &["type", "transport", "transportType", "serverType"],
        Shape::Either(&[
            Shape::Words(&["stdio", "http", "sse", "streamable-http"]),
            TEXT,
        ]),
        "The transport; without it, command or URL tell. Other spellings are understood, too.",
    ),
    key(&["command"], TEXT, "The program, without its arguments."),
    key(&["args"], TEXTS, "The program's arguments."),
    key(
        &["env"],
        Shape::Map(&Shape::Either(&[Shape::Scalar, Shape::Null])),
        "Variables of the process; null takes away one that is inherited.",
    ),
    key(
        &["envFile"],
        TEXT,
        "A file of variables, over which env wins.",
    ),
    key(&["cwd"], TEXT, "The folder in which the process starts."),
    key(
        &["inheritEnv"],
        Shape::Either(&[Shape::Words(&["process", "loginShell", "none"]), FLAG]),
        "Which environment the process inherits. Default \"process\".",
    ),
    key(
        &["url", "serverUrl", "httpUrl", "remoteUrl"],
        TEXT,
        "The http:// or https:// URL of a remote server.",
    ),
    key(
        &["headers"],
        Shape::Map(&Shape::Scalar),
        "Headers that are sent with every request.",
    ),
    key(
        &["requestInit"],
        Shape::Object(&REQUEST_INIT),
        "Headers, as the SDK for TypeScript has them.",
    ),
    key(
        &["bearerToken"],
        TEXT,
        "Sent as Authorization: Bearer …. Better a reference, such as ${TOKEN}.",
    ),
    key(
        &["auth", "authProviderType", "headersHelper", "oauth"],
        Shape::Any,
        "How other clients sign in. Mainstay cannot: give it a bearerToken or headers.",
    ),
    key(
        &["sandboxEnabled"],
        Shape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    ),
    key(
        &["sandbox"],
        Shape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    ),
    key(
        &["inputParams"],
        Shape::Map(&PARAM_VALUE),
        "Values for ${NAME} and ${input:NAME}.",
    ),
];

static REQUEST_INIT: Object = object(
    "requestInit",
    &[&[key(
        &["headers"],
        Shape::Map(&Shape::Scalar),
        "Headers that are sent with every request.",
    )]],
);

static PARAM: Object = Object {
    open: true,
    ..object(
        "inputParam",
        &[&[
            key(&["value"], Shape::Scalar, "The value."),
            key(
                &["default"],
                Shape::Scalar,
                "The value where there is no other.",
            ),
        ]],
    )
};

/// An entry's switches, limits and times.
const OPTIONS: &[Key] = &[
    key(
        &["enabled"],
        FLAG,
        "Whether the server is started and listed. Default true.",
    ),
    key(&["disabled"], FLAG, "The opposite of enabled."),
    key(&["isActive"], FLAG, "Cherry Studio's word for enabled."),
    key(
        &["autoStart"],
        FLAG,
        "Whether the server is started with Mainstay. Default true.",
    ),
    key(&["start_on_launch"], FLAG, "Warp's word for autoStart."),
    key(
        &["anythingllm"],
        Shape::Object(&ANYTHINGLLM),
        "AnythingLLM's own keys.",
    ),
    key(
        &["timeout"],
        Shape::Number(1.0, 31_536_000_000.0),
        "How long a call may take, in milliseconds, at least 1000. Default 30000. Some clients have seconds here.",
    ),
    key(
        &["timeout_s"],
        Shape::Number(0.0, 31_536_000.0),
        "How long a call may take, in seconds; not together with timeout.",
    ),
    key(
        &["maxTimeoutMs"],
        MS,
        "How far progress may extend a call, in milliseconds. Default 10 × timeout, at least 600000.",
    ),
    key(
        &["maxMessageBytes"],
        AT_LEAST_ONE,
        "The largest message the server may send, in bytes. Default 64 MiB.",
    ),
    key(
        &["result"],
        Shape::Object(&RESULT),
        "How results of tools are passed on.",
    ),
    key(
        &["maxSessions"],
        AT_LEAST_ONE,
        "How many upstream sessions clients may have for themselves. Default 8 for a process, 64 for a remote server.",
    ),
    key(
        &["protocol"],
        Shape::Words(&[
            "auto",
            "legacy",
            "modern",
            "2024-11-05",
            "2025-03-26",
            "2025-06-18",
            "2025-11-25",
            "2026-07-28",
        ]),
        "Which protocol revision is spoken with the server. Default \"auto\".",
    ),
    key(
        &["isolation"],
        ISOLATION,
        "Whether clients share one upstream session, or each has its own.",
    ),
    key(
        &["roots"],
        Shape::List(&ROOT_SHAPE),
        "What answers roots/list where no client can.",
    ),
    key(
        &["healthCheckUrl"],
        TEXT,
        "What health.method \"http\" asks: an http:// or https:// URL.",
    ),
    key(
        &DISABLED_TOOLS,
        TEXTS,
        "Tools, by the server's own names, that are neither listed nor called.",
    ),
    key(
        &ALLOWED_TOOLS,
        TEXTS,
        "The only tools that are listed and called, by the server's own names. \"*\" is all of them.",
    ),
    key(
        &[
            "disabled_prompts",
            "disabled_resources",
            "disabled_resourceTemplates",
            "include_tags",
            "exclude_tags",
        ],
        Shape::Any,
        "Not supported: Mainstay hides tools only, by their names.",
    ),
];

static ANYTHINGLLM: Object = Object {
    open: true,
    ..object(
        "anythingllm",
        &[&[
            key(
                &["autoStart"],
                FLAG,
                "Whether the server is started with Mainstay.",
            ),
            key(
                &["suppressedTools"],
                TEXTS,
                "Tools that are neither listed nor called.",
            ),
        ]],
    )
};

static RESULT: Object = object(
    "result",
    &[&[key(
        &["maxInlineBytes"],
        Shape::Whole(defaults::LEAST_INLINE_BYTES, None),
        "A larger result reaches clients as its beginning and a link to the whole, in bytes. Default: never.",
    )]],
);

static ROOT: Object = Object {
    required: &["uri"],
    ..object(
        "root",
        &[&[
            key(&["uri"], TEXT, "Such as file:///home/me/project."),
            key(&["name"], TEXT, "Its name, for people."),
        ]],
    )
};

/// How sessions are kept: at the top for all servers, and in an entry.
const POLICIES: &[Key] = &[
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

static ALERT: Object = Object {
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
                "How long a server must be down before it is told, in milliseconds. Default 60000.",
            ),
            key(
                &["flapping"],
                Shape::Object(&FLAPPING),
                "When a server counts as flapping.",
            ),
            key(
                &["timeoutMs"],
                MS,
                "What one delivery may take, in milliseconds. Default 10000.",
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
        key(
            &["withinMs"],
            MS,
            "Within so long, in milliseconds. Default 600000.",
        ),
    ]],
);

static JOURNAL: Object = object(
    "journal",
    &[&[
        key(
            &["enabled"],
            FLAG,
            "Whether calls are recorded. Default true.",
        ),
        key(
            &["durability"],
            Shape::Words(&["relaxed", "strict"]),
            "Whether a call waits until its record is on the disk. Default \"relaxed\".",
        ),
        key(
            &["payloads"],
            Shape::Words(&["full", "digest", "off"]),
            "What is kept of arguments and results. Default \"full\".",
        ),
        key(
            &["retentionDays"],
            Shape::Whole(1, Some(journal::MOST_DAYS)),
            "How many days records are kept.",
        ),
        key(
            &["maxBytes"],
            Shape::Whole(journal::LEAST_BYTES, None),
            "What the journal may take on the disk, in bytes.",
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
        key(
            &["defaults"],
            FLAG,
            "Whether the usual secrets are taken out. Default true.",
        ),
        key(&["keys"], TEXTS, "Further keys whose values are taken out."),
        key(
            &["patterns"],
            TEXTS,
            "Regular expressions of texts that are taken out, in the syntax of Rust's regex crate.",
        ),
    ]],
);

static TELEMETRY: Object = object(
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

static PROFILE: Object = object(
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
