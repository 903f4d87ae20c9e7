//! The behaviour of the fake, from the program's flags or from [`crate::Fake`] with `Script {
//! tools: 3, ..Script::default() }`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use crate::bend::Bend;
use crate::revision::{Revision, RevisionEra};

/// The behaviour of a fake. The default follows the protocol. Fields marked *process* affect only
/// the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Script {
    // Items and revisions.
    /// serverInfo.name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The instructions in the answer to initialize
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// Answers initialize with this revision, even if another one was requested
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Supports only these revisions, of either era, and adds items that depend on the revision:
    /// tools `ask_…`, `routed`, `audio` and others, prompt `ask_name`, resource `fake://asked`.
    /// Without it the legacy revisions are supported
    #[arg(long, value_name = "REVISION,…", value_delimiter = ',')]
    pub revisions: Vec<Revision>,
    /// 2026-07-28: the tasks extension, and tool `task`
    #[arg(long)]
    pub tasks: bool,
    /// 2026-07-28: tool `misrouted`, whose definition is invalid over HTTP
    #[arg(long)]
    pub bad_tool: bool,
    /// 2026-07-28: the cache lifetime of answers
    #[arg(long, value_name = "MS", default_value_t)]
    pub ttl: u64,
    /// 2026-07-28: answers are private
    #[arg(long)]
    pub private_cache: bool,
    /// Adds tools `tool_1` … `tool_N`, each of which returns its name
    #[arg(long, value_name = "N", default_value_t)]
    pub tools: usize,
    /// *process*: the number of such tools, read from this file at start, so that catalogs differ
    /// between starts
    #[arg(long, value_name = "PATH")]
    pub tools_file: Option<PathBuf>,
    /// Adds a tool with exactly this definition, which returns its name
    #[arg(long = "tool", value_name = "JSON")]
    pub defined_tools: Vec<String>,
    /// Adds a prompt with exactly this definition and a fixed text
    #[arg(long = "prompt", value_name = "JSON")]
    pub defined_prompts: Vec<String>,
    /// Adds a resource with this URI, whose text is its URI
    #[arg(long = "resource", value_name = "URI")]
    pub defined_resources: Vec<String>,
    /// Adds a resource template without resources
    #[arg(long = "template", value_name = "TEMPLATE")]
    pub defined_templates: Vec<String>,
    /// Adds this annotation to every tool, e.g. `readOnlyHint`
    #[arg(long, value_name = "ANNOTATION")]
    pub hint: Option<String>,
    /// Adds this text to every name, description, URI, content and message except tool names
    #[arg(long, value_name = "TEXT")]
    pub taint: Option<String>,
    /// Pages every list
    #[arg(long, value_name = "K")]
    pub page_size: Option<usize>,
    /// Adds this number of bytes to every page of a list
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub page_padding: usize,
    /// The last page's cursor is that of the first page
    #[arg(long)]
    pub endless_pages: bool,
    /// No tools capability
    #[arg(long)]
    pub no_tools: bool,
    /// No resources capability
    #[arg(long)]
    pub no_resources: bool,
    /// No prompts capability
    #[arg(long)]
    pub no_prompts: bool,

    // Files for traffic.
    /// Appends `tool id` for every tool run, and argument `key` if present
    #[arg(long, value_name = "PATH")]
    pub count_file: Option<PathBuf>,
    /// Appends every received message, raw
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,

    /// Deviates from the protocol like real peers
    #[arg(long = "bend", value_name = "NAME")]
    pub bends: Vec<Bend>,

    // Failures on any transport.
    /// *process*: prints an error on stderr and exits with this code
    #[arg(long, value_name = "CODE")]
    pub crash_at_start: Option<i32>,
    /// *process*: sleeps before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub slow_start: u64,
    /// *process*: uses this much CPU time before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub burn: u64,
    /// *process*: reports a download on stderr ten times a second before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub download: u64,
    /// *process*: reads and writes files before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub churn: u64,
    /// Never answers initialize (and server/discover)
    #[arg(long)]
    pub hang_at_start: bool,
    /// Answers initialize (and server/discover) after this delay
    #[arg(long, value_name = "MS", default_value_t)]
    pub handshake_delay: u64,
    /// Handles no message after N tools/call, which are still answered
    #[arg(long, value_name = "N")]
    pub hang_after: Option<u64>,
    /// Handles one message at a time, and delays even ping
    #[arg(long)]
    pub single_flight: bool,
    /// Answers ping with −32601
    #[arg(long)]
    pub no_ping: bool,
    /// Never answers ping
    #[arg(long)]
    pub ignore_ping: bool,
    /// Handles server/discover of a legacy fake in this way; the default is −32601
    #[arg(long, value_name = "WHAT")]
    pub on_discover: Option<Probed>,
    /// Answers initialize (and server/discover) with an error
    #[arg(long)]
    pub initialize_error: bool,
    /// Exits with code 1 after notifications/initialized
    #[arg(long)]
    pub exit_after_initialize: bool,
    /// Answers cancelled calls
    #[arg(long)]
    pub ignore_cancel: bool,
    /// *process*: prints this line on stderr at start
    #[arg(long, value_name = "TEXT")]
    pub stderr: Option<String>,
    /// *process*: writes this number of bytes to stderr at start
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub flood_stderr: usize,
    /// *process*: ignores SIGTERM
    #[arg(long)]
    pub ignore_sigterm: bool,
    /// *process*: starts `sleep 600` and prints `grandchild PID` on stderr
    #[arg(long)]
    pub spawn_grandchild: bool,

    // Failures on stdio.
    /// stdio: garbage, half JSON, invalid UTF-8 and blank lines before each message
    #[arg(long)]
    pub noise: bool,
    /// stdio: writes this number of bytes to stdout at start, in lines of 80
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub flood_stdout: usize,
    /// stdio: the flood of stdout is one line without end
    #[arg(long)]
    pub no_newline: bool,
    /// stdio: closes its stdin after N tools/call, and continues
    #[arg(long, value_name = "N")]
    pub close_stdin_after: Option<usize>,
    /// stdio: writes each message in several flushed pieces
    #[arg(long)]
    pub half_lines: bool,
    /// stdio: continues after the end of stdin
    #[arg(long)]
    pub ignore_stdin_eof: bool,

    // Failures on HTTP.
    /// http: the form of answers to POST; the default is SSE if messages precede the result
    #[arg(long, value_name = "FORM")]
    pub answer: Option<AnswerForm>,
    /// http: all messages of an SSE answer in one write
    #[arg(long)]
    pub coalesce: bool,
    /// http: 405 on GET
    #[arg(long)]
    pub no_get: bool,
    /// http: answers GET after this delay, and drops earlier messages
    #[arg(long, value_name = "MS")]
    pub get_delay: Option<u64>,
    /// http: no session ids
    #[arg(long)]
    pub stateless: bool,
    /// http: a session ends (404) after N messages beyond initialize
    #[arg(long, value_name = "N")]
    pub expire_sessions_after: Option<u64>,
    /// http, sse: answers every POST with this status
    #[arg(long, value_name = "CODE")]
    pub status: Option<u16>,
    /// http, sse: with `status`: every request, not only POST
    #[arg(long)]
    pub status_on_all: bool,
    /// http, sse: with `status`: only the first N requests
    #[arg(long, value_name = "N")]
    pub status_times: Option<u64>,
    /// With `status`: only until this time
    #[arg(skip)]
    pub status_until: Option<Instant>,
    /// http, sse: with `status`: the body, whose type is guessed from its first character
    #[arg(long, value_name = "TEXT")]
    pub status_body: Option<String>,
    /// http, sse: with `status`: the Location header
    #[arg(long, value_name = "URL")]
    pub location: Option<String>,
    /// http, sse: with `status`: the Retry-After header
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<String>,
    /// http, sse: the status of GET /health; 404 by default
    #[arg(long, value_name = "CODE")]
    pub health: Option<u16>,
    /// *process*: http, sse: ends with its stdin
    #[arg(long)]
    pub until_stdin_ends: bool,
    /// http, sse: answers 401 without this header
    #[arg(long, value_name = "NAME=VALUE")]
    pub require_header: Option<Header>,
    /// http: answers 400 if MCP-Protocol-Version is wrong after initialize, or missing although
    /// required
    #[arg(long)]
    pub check_protocol_header: bool,
}

impl Script {
    pub(crate) fn bends(&self, bend: Bend) -> bool {
        self.bends.contains(&bend)
    }

    pub(crate) fn is_pinned(&self) -> bool {
        !self.revisions.is_empty()
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.speaks(RevisionEra::Modern)
    }

    /// True if the fake supports a legacy revision. An unpinned fake supports them all.
    pub(crate) fn is_legacy(&self) -> bool {
        !self.is_pinned() || self.speaks(RevisionEra::Legacy)
    }

    /// Appends [`Script::taint`] to the text.
    pub(crate) fn tainted(&self, text: &str) -> String {
        format!("{text}{}", self.taint.as_deref().unwrap_or_default())
    }

    /// Removes [`Script::taint`] from the end of the text.
    pub(crate) fn untainted<'t>(&self, text: &'t str) -> &'t str {
        let taint = self.taint.as_deref();
        taint
            .and_then(|taint| text.strip_suffix(taint))
            .unwrap_or(text)
    }

    fn speaks(&self, era: RevisionEra) -> bool {
        self.revisions.iter().any(|revision| revision.era() == era)
    }

    /// Returns the pinned revisions, oldest first.
    pub(crate) fn pinned(&self) -> Vec<Revision> {
        let mut pinned_revisions = self.revisions.clone();
        pinned_revisions.sort_unstable();
        pinned_revisions
    }
}

/// The reaction of a legacy server to an unknown method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probed {
    /// Answers with an empty result.
    Empty,
    /// Never answers.
    Silence,
    /// Exits with code 1.
    Exit,
}

/// The form of the answer to a POST of Streamable HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AnswerForm {
    /// One JSON document; earlier messages go to the GET stream.
    Json,
    /// An event stream, opened immediately.
    Sse,
}

/// A required header with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
}

#[derive(Debug, thiserror::Error)]
#[error("expected NAME=VALUE")]
pub struct HeaderError;

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let (name, value) = text.split_once('=').ok_or(HeaderError)?;
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}
