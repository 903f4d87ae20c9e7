//! The keys of a server's entry.

use mainstay_core::config::{ServerConfig, defaults};

use super::{
    parts::{AT_LEAST_ONE, FLAG, ISOLATION, MS, TEXT, TEXTS, key, object, setting},
    policies::POLICIES,
};
use crate::{
    foreign::{KEPT_KEYS, UNUSED_KEYS},
    read::{
        oauth,
        options::PROTOCOLS,
        reach::{START_KEYS, URL_KEYS},
        withheld::{ALLOWED_TOOLS, DISABLED_TOOLS},
    },
    words::{
        schema::{KeyRow, ObjectShape, ValueShape},
        settings::{Field, SettingValue, field},
        values,
    },
};

/// The shape of a server's entry.
pub static ENTRY: ValueShape = ValueShape::Object(&SERVER);

// A shape that refers to an object must be a static if another shape refers to it.
static PARAM_SHAPES: [ValueShape; 3] = [
    ValueShape::Scalar,
    ValueShape::Object(&PARAM),
    ValueShape::Null,
];
static PARAM_VALUE: ValueShape = ValueShape::Either(&PARAM_SHAPES);
static ROOT_SHAPES: [ValueShape; 2] = [TEXT, ValueShape::Object(&ROOT)];
static ROOT_SHAPE: ValueShape = ValueShape::Either(&ROOT_SHAPES);

pub static SERVER: ObjectShape = ObjectShape {
    foreign: &[&KEPT_KEYS, &UNUSED_KEYS],
    later: &["dev", "sandbox"],
    required: &START_KEYS,
    ..object(
        "server",
        &[TRANSPORT, PROCESS, REMOTE, OPTIONS, POLICIES, OF_CLIENTS],
    )
};

/// The key of the transport.
const TRANSPORT: &[KeyRow] = &[key(
    &["type", "transport", "transportType", "serverType"],
    ValueShape::Either(&[
        ValueShape::Words(&["stdio", "http", "sse", "streamable-http"]),
        TEXT,
    ]),
    "The transport; without it, command or URL tell. Other spellings are understood, too.",
)
.of_clients()];

/// Keys of a server that is a process.
pub const PROCESS: &[KeyRow] = &[
    key(
        &["command"],
        TEXT,
        "The program, without its arguments.",
    )
    .of_clients(),
    key(&["args"], TEXTS, "The program's arguments.")
        .default("`[]`")
        .of_clients(),
    key(
        &["env"],
        ValueShape::Map(&ValueShape::Either(&[ValueShape::Scalar, ValueShape::Null])),
        "Set in the process, over what it inherits. A number or boolean is taken as text, with a warning. `null` takes away what it inherits.",
    )
    .value("object: name → string or `null`")
    .default("`{}`")
    .of_clients(),
    key(
        &["envFile"],
        TEXT,
        "A file of `NAME=VALUE` lines, set in the process as well; `env` wins. Values may stand in quotes. Read when the configuration is, and again before each attempt to start the server, like every file that `${file:…}` names ([rotated secrets](#references)). While one of them cannot be read, a server that runs goes on as it is; an attempt fails with a reason that names the file, and is made again.",
    )
    .value("path")
    .default("none")
    .of_clients(),
    key(
        &["cwd"],
        TEXT,
        "`~/` is the home folder; a relative path starts at the file's folder. A folder that is not there is a warning.",
    )
    .value("path")
    .default("Mainstay's own")
    .of_clients(),
    key(
        &["inheritEnv"],
        ValueShape::Either(&[ValueShape::Words(&["process", "loginShell", "none"]), FLAG]),
        "Which environment the process inherits: Mainstay's own, that of `$SHELL -l`, or nothing. Variables that begin with `MAINSTAY_` are never passed on; Mainstay sets `MAINSTAY_SERVER`, `MAINSTAY_INSTANCE` and `MAINSTAY_CHAIN`, by which it knows what belongs to it.",
    )
    .value("`\"process\"`, `\"loginShell\"`, `\"none\"`, or `true` and `false` for the first and the last")
    .default("`\"process\"`"),
];

/// Keys of a remote server.
pub const REMOTE: &[KeyRow] = &[
    key(
        &URL_KEYS,
        TEXT,
        "Where the server is. Several must say the same. Credentials inside (`https://me:secret@…`) are refused.",
    )
    .value("`http://` or `https://` URL, one is required")
    .of_clients(),
    key(
        &["headers"],
        ValueShape::Map(&ValueShape::Scalar),
        "Sent with every request. Names are checked; case does not count.",
    )
    .value("object: name → string")
    .default("`{}`")
    .of_clients(),
    key(
        &["requestInit"],
        ValueShape::Object(&REQUEST_INIT),
        "Headers, as the SDK for TypeScript has them.",
    )
    .of_clients(),
    key(
        &["bearerToken"],
        TEXT,
        "Sent as `Authorization: Bearer …`; empty is none. An error if `headers` has an `authorization` already.",
    )
    .default("none")
    .of_clients(),
    key(
        &["oauth", "auth"],
        ValueShape::Either(&LOGIN_SHAPES),
        "How Mainstay [logs in](login.md) to the server with OAuth. Most servers need no setting: a server that asks for a login gets one. `false` never logs in.",
    )
    .value("object, `true` or `false`")
    .default("a login, if the server asks for one")
    .of_clients(),
    key(
        &["headersHelper"],
        ValueShape::Either(&HELPER_SHAPES),
        "A command line for the shell that prints a JSON object of strings: headers for every request, over `headers` of the same name. It runs when a session opens, again when the server answers 401, and again after `ttlMs`; it has `timeoutMs` (10000) to end ([more](#headers-by-a-command)).",
    )
    .value("a string, or `{\"command\": …, \"timeoutMs\": …, \"ttlMs\": …}`")
    .default("none")
    .of_clients(),
    key(
        &["proxy"],
        ValueShape::Either(&[FLAG, TEXT]),
        "The proxy for all requests to the server; see [below](#behind-a-companys-proxy). `false` and `\"none\"` are no proxy, whatever the environment says.",
    )
    .value("URL `http://[USER:PASSWORD@]HOST:PORT` or `https://…`, or `false`")
    .default("what the environment says"),
    key(
        &["caFile"],
        TEXT,
        "A file of certificates in PEM that are trusted beside those of the system. Like the next two it is read when a connection is opened; a relative path starts at the file's folder.",
    )
    .value("path")
    .default("none"),
    key(
        &["clientCert"],
        TEXT,
        "A file in PEM with the certificate that Mainstay shows to the server (mutual TLS), and those of its issuers.",
    )
    .value("path")
    .default("none"),
    key(
        &["clientKey"],
        TEXT,
        "A file in PEM with the key of that certificate.",
    )
    .value("path")
    .default("the file of `clientCert`"),
];

static HELPER_SHAPES: [ValueShape; 2] = [TEXT, ValueShape::Object(&HELPER)];

static HELPER: ObjectShape = ObjectShape {
    required: &["command"],
    ..object(
        "headersHelper",
        &[&[
            key(&["command"], TEXT, "The command line."),
            key(
                &["timeoutMs"],
                MS,
                "Longest run of the command (default 10000).",
            ),
            key(
                &["ttlMs"],
                MS,
                "Time for which its headers are used (default: until the server refuses them).",
            ),
        ]],
    )
};

static LOGIN_SHAPES: [ValueShape; 3] = [FLAG, TEXT, ValueShape::Object(&OAUTH)];
static SCOPE_SHAPES: [ValueShape; 2] = [TEXTS, TEXT];

pub static OAUTH: ObjectShape = ObjectShape {
    // Mainstay finds these by discovery.
    foreign: &[&[
        "enabled",
        "authorizationUrl",
        "tokenUrl",
        "registrationUrl",
        "redirectUri",
        "audiences",
        "tokenParamName",
    ]],
    ..object(
        "oauth",
        &[&[
            key(
                &oauth::CLIENT_ID,
                TEXT,
                "The id of a client that you have registered with the authorization server.",
            )
            .default("Mainstay registers itself"),
            key(&oauth::CLIENT_SECRET, TEXT, "The secret of that client.").default("none"),
            key(
                &["clientMetadataUrl"],
                TEXT,
                "The URL of a [Client ID Metadata Document](login.md#without-registration) that you host. It is the client's id where the authorization server takes such documents.",
            )
            .value("`https://` URL")
            .default("none"),
            key(
                &["privateKey"],
                TEXT,
                "A private key in PEM (PKCS #8, RSA or P-256), with which the client authenticates itself instead of a secret.",
            )
            .default("none"),
            key(
                &["grant"],
                ValueShape::Words(&["person", "clientCredentials"]),
                "Who logs in: a person in a browser, or the client itself, for machines without a person.",
            )
            .default("`\"person\"`"),
            key(
                &oauth::SCOPES,
                ValueShape::Either(&SCOPE_SHAPES),
                "The scopes to ask for, instead of those that the server names.",
            )
            .value("array of strings, or a string with blanks between them")
            .default("those that the server names"),
            key(
                &["issuer"],
                TEXT,
                "The authorization server, if the server names several or none.",
            )
            .value("URL")
            .default("the one that the server names"),
            key(
                &["authServerMetadataUrl"],
                TEXT,
                "Claude Code's word for the place of the issuer's metadata.",
            )
            .of_clients(),
            key(
                &["callbackPort"],
                ValueShape::Whole(1, Some(65535)),
                "The port of `http://localhost:PORT/callback`, to which the browser comes back, if your registration names it.",
            )
            .default("Mainstay's own address"),
            key(
                &["perPrincipal"],
                FLAG,
                "Each client with a token of its own [logs in for itself](login.md#a-login-for-each-client), and has sessions of its own.",
            )
            .default("`false`: all clients share one login"),
        ]],
    )
};

static REQUEST_INIT: ObjectShape = object(
    "requestInit",
    &[&[key(
        &["headers"],
        ValueShape::Map(&ValueShape::Scalar),
        "Headers that are sent with every request.",
    )]],
);

static PARAM: ObjectShape = ObjectShape {
    open: true,
    ..object(
        "inputParam",
        &[&[
            key(&["value"], ValueShape::Scalar, "The value."),
            key(
                &["default"],
                ValueShape::Scalar,
                "The value where there is no other.",
            ),
        ]],
    )
};

/// An entry's switches, limits and times.
pub const OPTIONS: &[KeyRow] = &[
    setting(
        &["enabled"],
        FLAG,
        "Whether the server is started and listed.",
        field!(ServerConfig, enabled, write: SettingValue::file_value),
    )
    .of_clients(),
    key(
        &["disabled"],
        FLAG,
        "The opposite of `enabled`. The two together must not contradict each other.",
    )
    .of_clients(),
    setting(
        &["autoStart"],
        FLAG,
        "Whether the server is started with Mainstay. If not, its own sessions on `/servers/NAME/mcp` work.",
        field!(ServerConfig, auto_start),
    ),
    setting(
        &["timeout"],
        ValueShape::Number(1.0, 31_536_000_000.0),
        "How long a call may take.",
        field!(ServerConfig, call_timeout, write: values::elsewhere),
    )
    .value("milliseconds, at least 1000; with preset `desktop` at most 300000; in files of some clients [seconds](#files-of-other-clients)")
    .default("30000")
    .of_clients(),
    setting(
        &["timeout_s"],
        ValueShape::Number(0.0, 31_536_000.0),
        "The same in seconds; not together with `timeout`.",
        Field {
            differs: |_, _| false,
            ..field!(ServerConfig, call_timeout, write: values::seconds)
        },
    )
    .value("seconds, above 0")
    .default("30"),
    setting(
        &["maxTimeoutMs"],
        MS,
        "Each progress notification whose number is higher than those before gives a call its `timeout` anew, up to this.",
        field!(ServerConfig, max_call_timeout, write: SettingValue::file_value),
    )
    .value("milliseconds, at least `timeout`")
    .default("10 × `timeout`, at least 600000"),
    setting(
        &["maxMessageBytes"],
        AT_LEAST_ONE,
        "The largest message the server may send. Its lists and its handshake have [bounds of their own](#what-a-server-may-say-about-itself).",
        field!(ServerConfig, max_message_bytes),
    )
    .default("67108864 (64 MiB); with preset `desktop` 1048576"),
    key(
        &["result"],
        ValueShape::Object(&RESULT),
        "How results of tools are passed on.",
    ),
    setting(
        &["maxSessions"],
        AT_LEAST_ONE,
        "How many upstream sessions clients may have for themselves; see [below](#shared-and-isolated-sessions).",
        field!(ServerConfig, max_sessions),
    )
    .default("8 for a process, 64 for a remote server"),
    setting(
        &["protocol"],
        ValueShape::Words(&PROTOCOLS),
        "Which protocol revision is spoken with the server. `auto` finds out by `server/discover`; the others do not ask first. `legacy` is for servers that do not bear the question. A server that refuses the revision of `auto` or `legacy` is asked for another; a stated revision is the only one.",
        field!(ServerConfig, protocol),
    )
    .value("`\"auto\"`, `\"legacy\"`, `\"modern\"`, or a revision such as `\"2025-06-18\"`"),
    setting(
        &["isolation"],
        ISOLATION,
        "Whether clients share one upstream session, or each has its own; see [below](#shared-and-isolated-sessions).",
        field!(ServerConfig, isolation),
    )
    .default("by address"),
    setting(
        &["roots"],
        ValueShape::List(&ROOT_SHAPE),
        "What answers `roots/list` where no client can.",
        field!(ServerConfig, roots, write: values::roots),
    )
    .value("array of URIs, or of `{\"uri\": …, \"name\": …}`"),
    setting(
        &["healthCheckUrl"],
        TEXT,
        "What `health.method` `\"http\"` asks. The server's `headers` and `bearerToken` are sent along only if its scheme, host and port are those of `url`.",
        field!(ServerConfig, health_check_url, write: values::url),
    )
    .value("`http://` or `https://` URL")
    .default("none"),
    setting(
        &DISABLED_TOOLS,
        TEXTS,
        "Tools, by the server's own names, that are neither listed nor called. `get`, `list` and the log tell which names of this list and the next fit no tool.",
        field!(ServerConfig, withheld.disabled, write: values::tools),
    )
    .of_clients(),
    setting(
        &ALLOWED_TOOLS,
        TEXTS,
        "The only tools that are listed and called, by the server's own names. `\"*\"` is all of them. Of several lists each restricts. `validate` warns of a name that can fit no tool: with `*`, with blanks around it, or with the server's name in front.",
        field!(ServerConfig, withheld.allowed, write: values::allowed_tools),
    )
    .default("all")
    .of_clients(),
    key(
        &["inputParams"],
        ValueShape::Map(&PARAM_VALUE),
        "Values for `${NAME}` and `${input:NAME}`.",
    )
    .value("object: name → value, or → `{\"value\": …, \"default\": …}`")
    .default("`{}`"),
];

/// Keys of other clients for which Mainstay has another key, or none.
pub const OF_CLIENTS: &[KeyRow] = &[
    key(
        &["authProviderType"],
        ValueShape::Any,
        "How other clients sign in. Mainstay cannot: give it a bearerToken or headers.",
    )
    .of_clients(),
    key(
        &["sandboxEnabled"],
        ValueShape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    )
    .of_clients(),
    key(
        &["sandbox"],
        ValueShape::Any,
        "Other clients' sandbox. Mainstay has none, and does not start a server that asks for one.",
    )
    .of_clients(),
    key(&["isActive"], FLAG, "Cherry Studio's word for enabled.").of_clients(),
    key(&["start_on_launch"], FLAG, "Warp's word for autoStart.").of_clients(),
    key(
        &["anythingllm"],
        ValueShape::Object(&ANYTHINGLLM),
        "AnythingLLM's own keys.",
    )
    .of_clients(),
    key(
        &[
            "disabled_prompts",
            "disabled_resources",
            "disabled_resourceTemplates",
            "include_tags",
            "exclude_tags",
        ],
        ValueShape::Any,
        "Not supported: Mainstay hides tools only, by their names.",
    )
    .of_clients(),
];

static ANYTHINGLLM: ObjectShape = ObjectShape {
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

static RESULT: ObjectShape = object(
    "result",
    &[&[setting(
        &["maxInlineBytes"],
        ValueShape::Whole(defaults::LEAST_INLINE_BYTES, None),
        "A larger result of a tool reaches MCP clients as its beginning and a link to the whole; see [below](#large-results).",
        field!(ServerConfig, max_inline_bytes),
    )
    .default("never")]],
);

static ROOT: ObjectShape = ObjectShape {
    required: &["uri"],
    ..object(
        "root",
        &[&[
            key(&["uri"], TEXT, "Such as file:///home/me/project."),
            key(&["name"], TEXT, "Its name, for people."),
        ]],
    )
};
