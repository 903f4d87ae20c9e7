//! The keys of the file.

use mainstay_core::config::Config;

use super::{
    access::ACCESS,
    parts::{
        AT_LEAST_ONE, FLAG, ISOLATION, MS, NAMING, OWN_TOOLS, TEXT, TEXTS, key, object, setting,
        setting_of_all,
    },
    policies::POLICIES,
    profile::PROFILE,
    reports::{ALERT, JOURNAL, TELEMETRY},
    server::ENTRY,
};
use crate::{
    plan::TakesEffect::{AtRestart, Now},
    read::http::{public_url, registry_url},
    words::{
        schema::{KeyRow, ObjectShape, ValueShape},
        settings::field,
        values,
    },
};

/// The shape of the whole file.
pub static FILE_SHAPE: ValueShape = ValueShape::Object(&FILE);

// A shape that refers to an object must be a static if another shape refers to it.
static SERVERS: [ValueShape; 2] = [ValueShape::Map(&ENTRY), ValueShape::List(&ENTRY)];
static INPUT_SHAPE: ValueShape = ValueShape::Object(&INPUT);
static ALERT_SHAPE: ValueShape = ValueShape::Object(&ALERT);
static PROFILE_SHAPE: ValueShape = ValueShape::Object(&PROFILE);

pub static FILE: ObjectShape = ObjectShape {
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
    ..object("file", &[SETTINGS, POLICIES])
};

pub(crate) const SETTINGS: &[KeyRow] = &[
    key(
        &["$schema"],
        TEXT,
        "Where this schema is found, for editors. Mainstay does not look at it.",
    ),
    key(
        &["mcpServers"],
        ValueShape::Map(&ENTRY),
        "The servers, by name.",
    ),
    key(
        &["servers"],
        ValueShape::Either(&SERVERS),
        "The servers as VS Code has them; an array of them has names inside.",
    ),
    key(
        &["mcp"],
        ValueShape::Object(&MCP),
        "Which of the servers Gemini CLI starts.",
    ),
    // Gemini CLI has an object there, which is ignored.
    key(
        &["tools"],
        ValueShape::Any,
        "What an agent of Amazon Q or Kiro has of the servers: \"*\", \"@SERVER\", \"@SERVER/TOOL\".",
    ),
    setting_of_all(
        &["naming"],
        NAMING,
        "How tools and prompts are called; see [Names](#names).",
        Now,
        field!(Config, naming),
    ),
    setting_of_all(
        &["maxNameLength"],
        ValueShape::Whole(16, Some(128)),
        "The longest name on `/mcp`, in characters. With the `mcp__mainstay__` that clients put in front, 48 stay below the 64 that model APIs allow.",
        Now,
        field!(Config, max_name_length),
    ),
    setting_of_all(
        &["pageSize"],
        AT_LEAST_ONE,
        "Items per page of the lists on `/mcp`. Some clients read the first page only. Default: no pages.",
        AtRestart,
        field!(Config, page_size),
    ),
    setting(
        &["registryUrl"],
        TEXT,
        "The MCP registry that [`add`](cli.md#add) and [`search`](cli.md#search) ask. With `/v0` or `/v0.1` at its end, that version of its API. Default: the official one.",
        field!(Config, registry_url, read: |node, report| registry_url(node, report).map(Some)),
    ),
    setting_of_all(
        &["maxAttemptsPerSecond"],
        AT_LEAST_ONE,
        "Attempts of all servers together to connect over the network.",
        AtRestart,
        field!(Config, max_attempts_per_second),
    ),
    key(
        &["startup"],
        ValueShape::Object(&STARTUP),
        "How servers are started.",
    ),
    key(
        &["shutdown"],
        ValueShape::Object(&SHUTDOWN),
        "How Mainstay stops.",
    ),
    key(&["ui"], ValueShape::Object(&UI), "What the web page shows."),
    key(
        &["http"],
        ValueShape::Object(&HTTP),
        "Limits and guards of the HTTP endpoints.",
    ),
    key(
        &["inputs"],
        ValueShape::List(&INPUT_SHAPE),
        "VS Code's questions. Nobody is asked here: only the default counts.",
    ),
    key(
        &["isolation"],
        ISOLATION,
        "Whether clients share one upstream session, or each has its own; see [Shared and isolated sessions](#shared-and-isolated-sessions). Default: by address.",
    ),
    setting_of_all(
        &["access"],
        ValueShape::Object(&ACCESS),
        "Who may use which servers, tools, prompts and resources; see [Access](#access). Without it, every client may use everything.",
        Now,
        field!(Config, access, write: values::access),
    ),
    setting_of_all(
        &["alerts"],
        ValueShape::List(&ALERT_SHAPE),
        "Whom to tell of trouble; see [Alerts](#alerts).",
        Now,
        field!(Config, alerts, write: values::alerts),
    ),
    setting_of_all(
        &["journal"],
        ValueShape::Object(&JOURNAL),
        "What is recorded of calls; see [Journal](#journal).",
        AtRestart,
        field!(Config, journal),
    ),
    setting_of_all(
        &["telemetry"],
        ValueShape::Object(&TELEMETRY),
        "Where traces of calls are sent, over OTLP/HTTP; see [Telemetry](#telemetry).",
        AtRestart,
        field!(Config, telemetry, write: values::telemetry),
    ),
    setting_of_all(
        &["profiles"],
        ValueShape::Map(&PROFILE_SHAPE),
        "Named endpoints that show some servers and tools: `/mcp/NAME`; see [Profiles](#profiles).",
        Now,
        field!(Config, profiles, write: values::elsewhere),
    ),
    key(
        &["ownTools"],
        OWN_TOOLS,
        "Groups of [Mainstay's own tools](own-tools.md) at `/mcp`. Default: none.",
    ),
];

static MCP: ObjectShape = ObjectShape {
    open: true,
    ..object(
        "mcp",
        &[&[
            key(&["allowed"], TEXTS, "The only servers that are started."),
            key(&["excluded"], TEXTS, "Servers that are not started."),
        ]],
    )
};

static STARTUP: ObjectShape = object(
    "startup",
    &[&[
        setting_of_all(
            &["waitMs"],
            ValueShape::Whole(0, Some(86_400_000)),
            "How long lists and `/readyz` wait for a server's first attempt, counted from its own start.",
            AtRestart,
            field!(Config, startup_wait),
        ),
        setting_of_all(
            &["maxConcurrent"],
            AT_LEAST_ONE,
            "How many processes may be starting at once; see [Starts](#starts). Default: by the load.",
            AtRestart,
            field!(Config, max_concurrent_starts),
        ),
    ]],
);

static SHUTDOWN: ObjectShape = object(
    "shutdown",
    &[&[setting_of_all(
        &["graceMs"],
        ValueShape::Whole(0, Some(600_000)),
        "How long calls at work may take when Mainstay [stops](cli.md#serve). With a longer time see that whoever stops Mainstay waits as long: it takes up to 5 s more.",
        AtRestart,
        field!(Config, shutdown_grace),
    )]],
);

static UI: ObjectShape = object(
    "ui",
    &[&[setting_of_all(
        &["externalTools"],
        FLAG,
        "Whether the web page shows the tools of servers and calls them. Clients have them either way.",
        AtRestart,
        field!(Config, external_tools),
    )]],
);

static HTTP: ObjectShape = ObjectShape {
    later: &["cors"],
    ..object("http", &[HTTP_KEYS])
};

const HTTP_KEYS: &[KeyRow] = &[
    setting_of_all(
        &["maxBodyBytes"],
        AT_LEAST_ONE,
        "The largest request body; more is answered with 413. Whatever the size, messages of clients and servers are refused whose arguments or results are nested deeper than 512 levels.",
        AtRestart,
        field!(Config, max_body_bytes),
    ),
    setting_of_all(
        &["maxBodiesBytes"],
        AT_LEAST_ONE,
        "What all request bodies that are being read or answered may hold together; one client has half of it at most. A body above that is answered with 503 and `Retry-After`, to be sent again. Bodies up to 64 KiB, but for those that are posted to HTTP+SSE, and those of `/api` are not counted.",
        AtRestart,
        field!(Config, max_bodies_bytes),
    ),
    setting_of_all(
        &["maxUnreadBytes"],
        AT_LEAST_ONE,
        "What the answers that clients do not read may hold together. An answer counts as a whole until its last byte is sent; on Linux the system takes no more than 256 KiB of it in advance. Beyond it, the connections whose clients have read nothing for longest are reset. In any case an answer that is not read at 8 KiB a second is given up after half a minute.",
        AtRestart,
        field!(Config, max_unread_bytes),
    ),
    setting_of_all(
        &["bodyTimeoutMs"],
        MS,
        "How long a request body may take. It must also come at 8 KiB a second on the average, after 10 s, and without a pause of more than 10 s. A slower one is answered with 408, on `/api` with 400, and its connection is closed.",
        AtRestart,
        field!(Config, body_timeout),
    ),
    setting_of_all(
        &["maxSessions"],
        AT_LEAST_ONE,
        "Sessions of all clients. With one more, the client that has most loses the one that has been idle for longest.",
        AtRestart,
        field!(Config, max_sessions),
    ),
    setting_of_all(
        &["maxSessionsPerClient"],
        AT_LEAST_ONE,
        "Sessions of one client: of one token or, without a token, of one address (of IPv6, one /64). With one more, the longest idle of them ends. A session with a call or a stream open never does: where all have one, the newcomer is answered with 503. A proxy in front of Mainstay is one address, unless `trustedProxies` has it.",
        AtRestart,
        field!(Config, max_sessions_per_client),
    ),
    setting_of_all(
        &["maxConnections"],
        AT_LEAST_ONE,
        "Connections of all clients; never more than half of the files that the system lets Mainstay open. Beyond the limit, MCP requests are answered with 503 and `Retry-After: 5`. `/api`, `/healthz`, `/readyz` and `/metrics` have 256 further connections, one request each; of those, the oldest that has not asked for anything makes room for a new one.",
        AtRestart,
        field!(Config, max_connections),
    ),
    setting_of_all(
        &["maxConnectionsPerAddress"],
        AT_LEAST_ONE,
        "Connections from one address (of IPv6, one /64). A proxy in front of Mainstay is one address, unless `trustedProxies` has it.",
        AtRestart,
        field!(Config, max_connections_per_address),
    ),
    setting_of_all(
        &["allowedHosts"],
        TEXTS,
        "Host names, without port, served beside loopback names and the address listened on. `\"*\"` allows all.",
        AtRestart,
        field!(Config, allowed_hosts),
    ),
    setting_of_all(
        &["allowedOrigins"],
        TEXTS,
        "Web origins, such as `https://app.example.com`, allowed beside those on loopback. `\"*\"` allows all.",
        AtRestart,
        field!(Config, allowed_origins),
    ),
    setting_of_all(
        &["publicUrl"],
        TEXT,
        "The address at which people's browsers reach Mainstay, such as `https://mainstay.example.com` of a proxy. Browsers come back to it from a [login](login.md). Default: the address listened on, if that is on loopback.",
        AtRestart,
        field!(Config, public_url, read: |node, report| public_url(node, report).map(Some)),
    ),
    setting_of_all(
        &["tls"],
        ValueShape::Object(&TLS),
        "The certificate with which all addresses listened on speak HTTPS; see [access.md](access.md#https).",
        AtRestart,
        field!(Config, tls),
    )
    .value("`{\"cert\": …, \"key\": …, \"clientCa\": …}`: paths of files in PEM, from the folder of the configuration")
    .default("plain HTTP"),
    setting_of_all(
        &["trustedProxies"],
        TEXTS,
        "Addresses and ranges, such as `10.0.0.0/8`, of proxies in front of Mainstay. From these alone the headers `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are believed; see [access.md](access.md#behind-a-proxy).",
        AtRestart,
        field!(Config, trusted_proxies),
    ),
    setting_of_all(
        &["requireToken"],
        FLAG,
        "Whether the MCP addresses ask for a token. Without it they do once a client has one, and always beyond loopback; see [access.md](access.md).",
        AtRestart,
        field!(Config, require_token),
    ),
    setting_of_all(
        &["page"],
        FLAG,
        "Whether the [web page](access.md#the-web-page) is served at `/`. With `false` nobody can sign in, and `/api` takes the control token only.",
        AtRestart,
        field!(Config, page),
    ),
];

static TLS: ObjectShape = object(
    "tls",
    &[&[
        key(
            &["cert"],
            TEXT,
            "The file of the certificate, followed by those of its issuers.",
        ),
        key(
            &["key"],
            TEXT,
            "The file of the private key, without a passphrase. Default: the file of the certificate.",
        ),
        key(
            &["clientCa"],
            TEXT,
            "The file of the authorities that issue certificates of clients. With it, clients need one.",
        ),
    ]],
);

static INPUT: ObjectShape = ObjectShape {
    open: true,
    required: &["id"],
    ..object(
        "input",
        &[&[
            key(&["id"], TEXT, "The name by which ${input:ID} refers to it."),
            key(
                &["default"],
                ValueShape::Scalar,
                "What the reference stands for.",
            ),
        ]],
    )
};
