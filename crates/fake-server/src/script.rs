//! The behaviour of the fake: the flags of the program and, with `Script { tools: 3, ..Script::default()
//! }`, the settings of [`crate::Fake`].

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use crate::bend::Bend;
use crate::revision::{Revision, RevisionEra};

/// Everything that can be told to a fake. The default behaves well.
///
/// Fields marked *process* are carried out by the program only.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Script {
    // What it offers.
    /// serverInfo.name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The instructions in the answer to initialize
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// Answers initialize with this revision, whatever was asked for
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Speaks these revisions only, of either era, and offers what differs between them on top:
    /// tools `ask_…`, `routed`, `audio` and others, prompt `ask_name`, resource `fake://asked`.
    /// Without it the legacy ones are spoken
    #[arg(long, value_name = "REVISION,…", value_delimiter = ',')]
    pub revisions: Vec<Revision>,
    /// 2026-07-28: the tasks extension, and tool `task`, which becomes one
    #[arg(long)]
    pub tasks: bool,
    /// 2026-07-28: tool `misrouted`, whose definition is invalid over HTTP
    #[arg(long)]
    pub bad_tool: bool,
    /// 2026-07-28: how long answers may be cached
    #[arg(long, value_name = "MS", default_value_t)]
    pub ttl: u64,
    /// 2026-07-28: nothing may be cached for others
    #[arg(long)]
    pub private_cache: bool,
    /// Adds tools `tool_1` … `tool_N`, each of which returns its name
    #[arg(long, value_name = "N", default_value_t)]
    pub tools: usize,
    /// *process*: how many such tools, read from this file at start: catalogs differ between starts
    #[arg(long, value_name = "PATH")]
    pub tools_file: Option<PathBuf>,
    /// Adds a tool of this definition, as it is written here, which returns its name
    #[arg(long = "tool", value_name = "JSON")]
    pub defined_tools: Vec<String>,
    /// Adds a prompt of this definition, as it is written here, which says something plain
    #[arg(long = "prompt", value_name = "JSON")]
    pub defined_prompts: Vec<String>,
    /// Adds a resource of this URI, whose text is its URI
    #[arg(long = "resource", value_name = "URI")]
    pub defined_resources: Vec<String>,
    /// Adds a resource template, which no resource comes from
    #[arg(long = "template", value_name = "TEMPLATE")]
    pub defined_templates: Vec<String>,
    /// Adds this annotation to every tool, e.g. `readOnlyHint`
    #[arg(long, value_name = "ANNOTATION")]
    pub hint: Option<String>,
    /// Adds this text to every name, description, URI, content and message that it makes, but for
    /// the names of tools
    #[arg(long, value_name = "TEXT")]
    pub taint: Option<String>,
    /// Pages every list
    #[arg(long, value_name = "K")]
    pub page_size: Option<usize>,
    /// Adds so many bytes to every page of a list
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub page_padding: usize,
    /// The last page's cursor leads back to the first
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

    // What it keeps.
    /// Appends `tool id` for every tool run, and after them argument `key` where there is one
    #[arg(long, value_name = "PATH")]
    pub count_file: Option<PathBuf>,
    /// Appends every received message, raw
    #[arg(long, value_name = "PATH")]
    pub record: Option<PathBuf>,

    /// Bends the protocol as real peers do
    #[arg(long = "bend", value_name = "NAME")]
    pub bends: Vec<Bend>,

    // Trouble on any transport.
    /// *process*: says so on stderr and exits at once
    #[arg(long, value_name = "CODE")]
    pub crash_at_start: Option<i32>,
    /// *process*: sleeps before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub slow_start: u64,
    /// *process*: spends so much CPU time before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub burn: u64,
    /// *process*: says on stderr that it downloads, ten times a second, before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub download: u64,
    /// *process*: reads and writes files without a word before it reads or binds
    #[arg(long, value_name = "MS", default_value_t)]
    pub churn: u64,
    /// Never answers initialize (and server/discover)
    #[arg(long)]
    pub hang_at_start: bool,
    /// Answers initialize (and server/discover) after a while
    #[arg(long, value_name = "MS", default_value_t)]
    pub handshake_delay: u64,
    /// Hears nothing any more after N tools/call, which are still answered
    #[arg(long, value_name = "N")]
    pub hang_after: Option<u64>,
    /// Hears nothing, not even ping, while a message is handled
    #[arg(long)]
    pub single_flight: bool,
    /// Answers ping with −32601
    #[arg(long)]
    pub no_ping: bool,
    /// Never answers ping
    #[arg(long)]
    pub ignore_ping: bool,
    /// Handles server/discover of a legacy fake in this way; by default it answers −32601
    #[arg(long, value_name = "WHAT")]
    pub on_discover: Option<Probed>,
    /// Answers initialize (and server/discover) with an error
    #[arg(long)]
    pub initialize_error: bool,
    /// Exits with code 1 once notifications/initialized has come
    #[arg(long)]
    pub exit_after_initialize: bool,
    /// Answers even calls that were cancelled; otherwise they end without an answer
    #[arg(long)]
    pub ignore_cancel: bool,
    /// *process*: prints this line on stderr at start
    #[arg(long, value_name = "TEXT")]
    pub stderr: Option<String>,
    /// *process*: writes as much to stderr at start
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub flood_stderr: usize,
    /// *process*: survives SIGTERM
    #[arg(long)]
    pub ignore_sigterm: bool,
    /// *process*: starts `sleep 600` and prints `grandchild PID` on stderr
    #[arg(long)]
    pub spawn_grandchild: bool,

    // Trouble on stdio.
    /// stdio: garbage, half JSON, invalid UTF-8 and blank lines before each message
    #[arg(long)]
    pub noise: bool,
    /// stdio: writes as much to stdout at start, in lines of 80
    #[arg(long, value_name = "BYTES", default_value_t)]
    pub flood_stdout: usize,
    /// stdio: the flood of stdout is one line that never ends
    #[arg(long)]
    pub no_newline: bool,
    /// stdio: closes its stdin after N tools/call, and lives on
    #[arg(long, value_name = "N")]
    pub close_stdin_after: Option<usize>,
    /// stdio: writes each message in several flushed pieces
    #[arg(long)]
    pub half_lines: bool,
    /// stdio: lives on after the end of stdin
    #[arg(long)]
    pub ignore_stdin_eof: bool,

    // Trouble on HTTP.
    /// http: the form of answers to POST; by default SSE where something precedes the result
    #[arg(long, value_name = "FORM")]
    pub answer: Option<AnswerForm>,
    /// http: all messages of an SSE answer in one write
    #[arg(long)]
    pub coalesce: bool,
    /// http: 405 on GET
    #[arg(long)]
    pub no_get: bool,
    /// http: answers GET after a while, and drops what it would have sent there before
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
    /// With `status`: only until then
    #[arg(skip)]
    pub status_until: Option<Instant>,
    /// http, sse: with `status`: the body, which is JSON or HTML if it begins like it
    #[arg(long, value_name = "TEXT")]
    pub status_body: Option<String>,
    /// http, sse: with `status`: the Location header
    #[arg(long, value_name = "URL")]
    pub location: Option<String>,
    /// http, sse: with `status`: the Retry-After header
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<String>,
    /// http, sse: what GET /health answers; 404 unless told
    #[arg(long, value_name = "CODE")]
    pub health: Option<u16>,
    /// *process*: http, sse: ends when its stdin does, so that it outlives no test
    #[arg(long)]
    pub until_stdin_ends: bool,
    /// http, sse: 401 without this header
    #[arg(long, value_name = "NAME=VALUE")]
    pub require_header: Option<Header>,
    /// http: 400 if MCP-Protocol-Version is wrong after initialize, or missing where the revision asks for it
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

    /// An unpinned fake is legacy.
    pub(crate) fn is_legacy(&self) -> bool {
        !self.is_pinned() || self.speaks(RevisionEra::Legacy)
    }

    /// The text with [`Script::taint`] behind it.
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

    /// Returns the revisions it is pinned to, oldest first.
    pub(crate) fn pinned(&self) -> Vec<Revision> {
        let mut pinned_revisions = self.revisions.clone();
        pinned_revisions.sort_unstable();
        pinned_revisions
    }
}

/// The reaction of a legacy server to a method it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probed {
    /// It answers with an empty result.
    Empty,
    /// It never answers.
    Silence,
    /// It exits with code 1.
    Exit,
}

/// The form of the answer to a POST of Streamable HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AnswerForm {
    /// One JSON document; what precedes the result goes to the GET stream.
    Json,
    /// An event stream, opened before anything is known.
    Sse,
}

/// A header and the value it must have.
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
