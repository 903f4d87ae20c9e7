//! Additional items of a fake that is pinned to revisions. An unpinned fake omits them, because
//! tests rely on the lengths of its lists.

use crate::questions::{ClientQuestion, Rounds};
use crate::script::Script;

/// The first revision of each tool, and its definition, which starts with the name.
const TOOLS: [(&str, &str); 17] = [
    (
        "2024-11-05",
        r#"{"name":"ask_sampling","description":"asks the client's model","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2024-11-05",
        r#"{"name":"ask_roots","description":"asks for the client's roots","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-06-18",
        r#"{"name":"ask_elicitation","description":"asks the user to fill a form in","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-11-25",
        r#"{"name":"ask_url","description":"asks the user to visit a URL","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-11-25",
        r#"{"name":"url_required","description":"legacy: error -32042 on the first call of a session; modern: as ask_url","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-06-18",
        r#"{"name":"ask_in_turn","description":"asks for a form, then the client's model","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-06-18",
        r#"{"name":"ask_together","description":"asks for a form and the client's model at once","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2026-07-28",
        r#"{"name":"ask_nothing","description":"asks to be called again, with nothing but the state","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2026-07-28",
        r#"{"name":"ask_without_state","description":"asks for a form, and gives no state","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2024-11-05",
        r#"{"name":"finished","description":"how often each tool, prompt and resource came to its end","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2024-11-05",
        r#"{"name":"routed","description":"its parameters are mirrored in headers","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"shard":{"type":"integer","x-mcp-header":"Shard"},"urgent":{"type":"boolean","x-mcp-header":"Urgent"},"place":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}},"query":{"type":"string"}}}}"#,
    ),
    (
        "2025-03-26",
        r#"{"name":"audio","description":"a text and a sound","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-06-18",
        r#"{"name":"link","description":"a text and a link to a resource","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2025-06-18",
        r#"{"name":"object","description":"an object as structured content","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"answer":{"type":"integer"}}}}"#,
    ),
    (
        "2026-07-28",
        r#"{"name":"list","description":"an array as structured content","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":"integer"}}}"#,
    ),
    (
        "2026-07-28",
        r#"{"name":"end_listens","description":"ends all subscriptions in good order","inputSchema":{"type":"object"}}"#,
    ),
    (
        "2026-07-28",
        r#"{"name":"ask_again","description":"asks for a form, again and again","inputSchema":{"type":"object"}}"#,
    ),
];

/// The tool of `--tasks`.
const TASK: &str = r#"{"name":"task","description":"becomes a task","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"},"ask":{"type":"boolean"},"fail":{"type":"boolean"},"optional":{"type":"boolean"}}}}"#;

/// The tool of `--bad-tool`. HTTP clients must omit it, because a number has several spellings.
const BAD_TOOL: &str = r#"{"name":"misrouted","description":"no client may offer this over HTTP","inputSchema":{"type":"object","properties":{"size":{"type":"number","x-mcp-header":"Size"}}}}"#;

pub(super) const RESOURCE: &str =
    r#"{"uri":"fake://asked","name":"asked","mimeType":"application/json"}"#;

pub(super) const PROMPT: &str = r#"{"name":"ask_name","description":"asks the user first"}"#;

/// Returns the definitions of the tools of this revision.
pub(super) fn tools(script: &Script, revision: &str) -> impl Iterator<Item = &'static str> {
    let is_modern = revision >= "2026-07-28";
    let task = (script.tasks && is_modern).then_some(TASK);
    let bad_tool = (script.bad_tool && is_modern).then_some(BAD_TOOL);
    let defined_tools = TOOLS
        .into_iter()
        .filter(move |(revision_start, _)| *revision_start <= revision)
        .map(|(_, tool)| tool);
    let is_pinned = script.is_pinned();
    defined_tools
        .chain(task)
        .chain(bad_tool)
        .filter(move |_| is_pinned)
}

pub(super) fn name(tool: &str) -> &str {
    let name = tool.strip_prefix(r#"{"name":""#).unwrap_or_default();
    name.split('"').next().unwrap_or_default()
}

/// Returns the questions to ask before a resource can be read.
pub(crate) fn questions_of_resource(script: &Script, uri: &str) -> Option<Rounds> {
    let is_asking = script.is_pinned() && uri == "fake://asked";
    is_asking.then(|| vec![vec![ClientQuestion::roots()]])
}

/// Returns the questions to ask before a prompt can be read.
pub(crate) fn questions_of_prompt(script: &Script, name: &str) -> Option<Rounds> {
    let is_asking = script.is_pinned() && name == "ask_name";
    is_asking.then(|| vec![vec![ClientQuestion::form()]])
}
