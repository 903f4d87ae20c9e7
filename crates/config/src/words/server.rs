//! The keys of a server's entry.

use mainstay_core::config::{ServerConfig, defaults};

use super::{
    parts::{AT_LEAST_ONE, FLAG, ISOLATION, MS, TEXT, TEXTS, key, object, of_clients, setting},
    policies::POLICIES,
};
use crate::{
    foreign::UNUSED_KEYS,
    read::{
        options::PROTOCOLS,
        withheld::{ALLOWED_TOOLS, DISABLED_TOOLS},
    },
    words::{
        schema::{Key, Object, Shape},
        settings::{Field, SettingValue, field},
        values,
    },
};

/// A server's entry.
pub static ENTRY: Shape = Shape::Object(&SERVER);

// A reference to a shape that refers to an object needs a place of its own.
static PARAM_SHAPES: [Shape; 3] = [Shape::Scalar, Shape::Object(&PARAM), Shape::Null];
static PARAM_VALUE: Shape = Shape::Either(&PARAM_SHAPES);
static ROOT_SHAPES: [Shape; 2] = [TEXT, Shape::Object(&ROOT)];
static ROOT_SHAPE: Shape = Shape::Either(&ROOT_SHAPES);

pub static SERVER: Object = Object {
    foreign: &UNUSED_KEYS,
    later: &["dev", "sandbox"],
    required: &["command", "url", "serverUrl", "httpUrl", "remoteUrl"],
    ..object("server", &[REACH, OPTIONS, POLICIES])
};

/// How a server is reached.
const REACH: &[Key] = &[
    of_clients(key(
        &["type", "transport", "transportType", "serverType"],
        Shape::Either(&[
            Shape::Words(&["stdio", "http", "sse", "streamable-http"]),
            TEXT,
        ]),
        "The transport; without it, command or URL tell. Other spellings are understood, too.",
    )),
    of_clients(key(
        &["command"],
        TEXT,
        "The program, without its arguments.",
    )),
    of_clients(key(&["args"], TEXTS, "The program's arguments.")),
    of_clients(key(
        &["env"],
        Shape::Map(&Shape::Either(&[Shape::Scalar, Shape::Null])),
        "Variables of the process; null takes away one that is inherited.",
    )),
    of_clients(key(
        &["envFile"],
        TEXT,
        "A file of variables, over which env wins.",
    )),
    of_clients(key(
        &["cwd"],
        TEXT,
        "The folder in which the process starts.",
    )),
    key(
        &["inheritEnv"],
        Shape::Either(&[Shape::Words(&["process", "loginShell", "none"]), FLAG]),
        "Which environment the process inherits. Default \"process\".",
    ),
    of_clients(key(
        &["url", "serverUrl", "httpUrl", "remoteUrl"],
        TEXT,
        "The http:// or https:// URL of a remote server.",
    )),
    of_clients(key(
        &["headers"],
        Shape::Map(&Shape::Scalar),
        "Headers that are sent with every request.",
    )),
    of_clients(key(
        &["requestInit"],
        Shape::Object(&REQUEST_INIT),
        "Headers, as the SDK for TypeScript has them.",
    )),
    of_clients(key(
        &["bearerToken"],
        TEXT,
        "Sent as Authorization: Bearer …. Better a reference, such as ${TOKEN}.",
    )),
    of_clients(key(
        &["auth", "authProviderType", "headersHelper", "oauth"],
        Shape::Any,
        "How other clients sign in. Mainstay cannot: give it a bearerToken or headers.",
    )),
    of_clients(key(
        &["sandboxEnabled"],
        Shape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    )),
    of_clients(key(
        &["sandbox"],
        Shape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    )),
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
    of_clients(setting(
        &["enabled"],
        FLAG,
        "Whether the server is started and listed. Default true.",
        field!(ServerConfig, enabled, shown: SettingValue::file_value),
    )),
    of_clients(key(&["disabled"], FLAG, "The opposite of enabled.")),
    of_clients(key(
        &["isActive"],
        FLAG,
        "Cherry Studio's word for enabled.",
    )),
    setting(
        &["autoStart"],
        FLAG,
        "Whether the server is started with Mainstay. Default true.",
        field!(ServerConfig, auto_start),
    ),
    of_clients(key(
        &["start_on_launch"],
        FLAG,
        "Warp's word for autoStart.",
    )),
    of_clients(key(
        &["anythingllm"],
        Shape::Object(&ANYTHINGLLM),
        "AnythingLLM's own keys.",
    )),
    of_clients(setting(
        &["timeout"],
        Shape::Number(1.0, 31_536_000_000.0),
        "How long a call may take, in milliseconds, at least 1000. Default 30000. Some clients have seconds here.",
        field!(ServerConfig, call_timeout, shown: values::elsewhere),
    )),
    setting(
        &["timeout_s"],
        Shape::Number(0.0, 31_536_000.0),
        "How long a call may take, in seconds; not together with timeout.",
        Field {
            differs: |_, _| false,
            ..field!(ServerConfig, call_timeout, shown: values::seconds)
        },
    ),
    setting(
        &["maxTimeoutMs"],
        MS,
        "How far progress may extend a call. Default 10 × timeout, at least 600000.",
        field!(ServerConfig, max_call_timeout, shown: SettingValue::file_value),
    ),
    setting(
        &["maxMessageBytes"],
        AT_LEAST_ONE,
        "The largest message the server may send. Default 64 MiB.",
        field!(ServerConfig, max_message_bytes),
    ),
    key(
        &["result"],
        Shape::Object(&RESULT),
        "How results of tools are passed on.",
    ),
    setting(
        &["maxSessions"],
        AT_LEAST_ONE,
        "How many upstream sessions clients may have for themselves. Default 8 for a process, 64 for a remote server.",
        field!(ServerConfig, max_sessions),
    ),
    setting(
        &["protocol"],
        Shape::Words(&PROTOCOLS),
        "Which protocol revision is spoken with the server. Default \"auto\".",
        field!(ServerConfig, protocol),
    ),
    setting(
        &["isolation"],
        ISOLATION,
        "Whether clients share one upstream session, or each has its own.",
        field!(ServerConfig, isolation),
    ),
    setting(
        &["roots"],
        Shape::List(&ROOT_SHAPE),
        "What answers roots/list where no client can.",
        field!(ServerConfig, roots, shown: values::roots),
    ),
    setting(
        &["healthCheckUrl"],
        TEXT,
        "What health.method \"http\" asks: an http:// or https:// URL.",
        field!(ServerConfig, health_check_url, shown: values::url),
    ),
    of_clients(setting(
        &DISABLED_TOOLS,
        TEXTS,
        "Tools, by the server's own names, that are neither listed nor called.",
        field!(ServerConfig, withheld.disabled, shown: values::tools),
    )),
    of_clients(setting(
        &ALLOWED_TOOLS,
        TEXTS,
        "The only tools that are listed and called, by the server's own names. \"*\" is all of them.",
        field!(ServerConfig, withheld.allowed, shown: values::allowed_tools),
    )),
    of_clients(key(
        &[
            "disabled_prompts",
            "disabled_resources",
            "disabled_resourceTemplates",
            "include_tags",
            "exclude_tags",
        ],
        Shape::Any,
        "Not supported: Mainstay hides tools only, by their names.",
    )),
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
    &[&[setting(
        &["maxInlineBytes"],
        Shape::Whole(defaults::LEAST_INLINE_BYTES, None),
        "A larger result reaches clients as its beginning and a link to the whole. Default: never.",
        field!(ServerConfig, max_inline_bytes),
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
