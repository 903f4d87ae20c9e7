//! The catalog of the fake: tools, resources, prompts, completions, and the pages of lists.

mod declared;
mod eras;

use serde_json::{Value, json};

pub(crate) use declared::{capabilities, is_absent, server_info};
pub(crate) use eras::{questions_of_prompt, questions_of_resource};

use crate::bend::Bend;
use crate::message::RpcError;
use crate::script::Script;

/// Log levels, least severe first.
pub(crate) const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

pub(crate) fn level_index(level: &str) -> Result<usize, RpcError> {
    LEVELS
        .iter()
        .position(|candidate| *candidate == level)
        .ok_or_else(|| RpcError::invalid_params(format!("unknown level: {level}")))
}

/// The exact result of tool `weird`. A typed model would lose most of it.
pub const WEIRD_RESULT: &str = r#"{"zeta":{"b":1,"a":2},"content":[{"type":"hologram","depth":1e3,"shape":"\ud83e\udd80"},{"text":"caf\u00e9 \u002f \ud800 \/","type":"text"}],"tools":[],"structuredContent":{"z":12345678901234567890123,"m":1e3,"a":1.0,"n":-0,"lone":"\udc00","none":null},"_meta":{"example.org/unknown":[null,1E-7]},"alpha":true}"#;

/// The exact definition of tool `weird`.
pub const WEIRD_TOOL: &str = r#"{"x-vendor":{"z":1e3,"a":[1.0,null]},"name":"weird","inputSchema":{"type":"object","properties":{"\u0061":{"type":"integer","maximum":12345678901234567890123}},"$defs":{}},"description":"a result no typed model can hold"}"#;

/// Names, descriptions and input properties of the tools.
const TOOLS: [(&str, &str, &str); 34] = [
    (
        "echo",
        "returns its text, and its arguments as structured content",
        r#"{"text":{"type":"string"}}"#,
    ),
    (
        "add",
        "adds two numbers",
        r#"{"a":{"type":"number"},"b":{"type":"number"}}"#,
    ),
    (
        "sleep",
        "answers after a while",
        r#"{"ms":{"type":"integer"}}"#,
    ),
    (
        "progress",
        "reports progress before it answers",
        r#"{"steps":{"type":"integer"},"intervalMs":{"type":"integer"}}"#,
    ),
    (
        "log",
        "sends log messages, on the call's stream or outside it",
        r#"{"n":{"type":"integer"},"level":{"type":"string"},"outside":{"type":"boolean"}}"#,
    ),
    (
        "big",
        "returns as many bytes of text",
        r#"{"bytes":{"type":"integer"}}"#,
    ),
    ("error", "fails as a tool fails", "{}"),
    ("rpc_error", "fails as a request fails", "{}"),
    (
        "env",
        "a variable of its environment",
        r#"{"name":{"type":"string"}}"#,
    ),
    ("pid", "its process id", "{}"),
    ("cwd", "its working directory", "{}"),
    ("count", "how often each tool ran", "{}"),
    ("crash", "exits with code 3 and no answer", "{}"),
    ("hang", "never answers", "{}"),
    (
        "hang_server",
        "never answers, and neither does anything else from then on",
        "{}",
    ),
    (
        "busy",
        "burns CPU for a while, and nothing else is done meanwhile",
        r#"{"ms":{"type":"integer"}}"#,
    ),
    (
        "flood",
        "floods its stdout or stderr, with lines or one endless line, by bytes or time, then answers",
        r#"{"to":{"enum":["stdout","stderr"]},"of":{"enum":["tools_changed","log","broken"]},"bytes":{"type":"integer"},"ms":{"type":"integer"},"endless":{"type":"boolean"}}"#,
    ),
    (
        "break_off",
        "breaks the connection in the middle of its answer",
        "{}",
    ),
    (
        "drop_streams",
        "breaks off the streams of all sessions (GET)",
        "{}",
    ),
    (
        "forget_sessions",
        "all sessions are unknown from now on",
        "{}",
    ),
    (
        "unavailable",
        "every later request gets a status (503), for so many requests or so long",
        r#"{"status":{"type":"integer"},"times":{"type":"integer"},"ms":{"type":"integer"},"retryAfter":{"type":"string"}}"#,
    ),
    ("twice", "answers twice", "{}"),
    ("wrong_id", "answers an unknown id first", "{}"),
    (
        "ask",
        "asks the client and returns what it answered",
        r#"{"method":{"type":"string"},"params":{"type":"object"}}"#,
    ),
    (
        "ping_client",
        "pings the client and returns what it answered",
        "{}",
    ),
    (
        "change_tools",
        "adds (or removes) tool `extra`",
        r#"{"remove":{"type":"boolean"}}"#,
    ),
    (
        "change_resources",
        "says that the list of resources has changed",
        "{}",
    ),
    (
        "change_prompts",
        "says that the list of prompts has changed",
        "{}",
    ),
    (
        "touch",
        "updates a resource for those subscribed to it",
        r#"{"uri":{"type":"string"}}"#,
    ),
    (
        "subscriptions",
        "the resources subscribed to, and how often",
        "{}",
    ),
    ("cancelled", "the ids of cancelled requests", "{}"),
    (
        "client",
        "what the client said of itself in initialize",
        "{}",
    ),
    (
        "out_of_order",
        "waits for a second call of it, which is answered first",
        "{}",
    ),
    (
        "stderr",
        "prints a line on stderr",
        r#"{"text":{"type":"string"}}"#,
    ),
];

/// Returns the definitions of the tools for a client of this revision.
pub(crate) fn tools(script: &Script, has_extra_tool: bool, revision: &str) -> Vec<String> {
    let annotations = script.hint.as_ref().map_or_else(String::new, |hint| {
        format!(r#","annotations":{{"{hint}":true}}"#)
    });
    let define = |name: &str, description: &str, properties: &str| {
        format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object","properties":{properties}}}{annotations}}}"#
        )
    };
    let mut tools: Vec<String> = TOOLS
        .iter()
        .map(|(name, description, properties)| define(name, description, properties))
        .collect();
    tools.push(WEIRD_TOOL.to_owned());
    tools
        .extend((1..=script.tools).map(|n| define(&format!("tool_{n}"), "returns its name", "{}")));
    if has_extra_tool {
        tools.push(define("extra", "appears when the tools change", "{}"));
    }
    tools.extend(eras::tools(script, revision).map(str::to_owned));
    tools.extend_from_slice(&script.defined_tools);
    tools
}

pub(crate) fn has_tool(name: &str, script: &Script, has_extra_tool: bool, revision: &str) -> bool {
    let is_numbered_tool = || {
        name.strip_prefix("tool_")
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: usize| (1..=script.tools).contains(&number))
    };
    match name {
        "weird" => true,
        "extra" => has_extra_tool,
        _ => {
            TOOLS.iter().any(|(tool, ..)| *tool == name)
                || eras::tools(script, revision).any(|tool| eras::name(tool) == name)
                || script
                    .defined_tools
                    .iter()
                    .any(|tool| eras::name(tool) == name)
                || is_numbered_tool()
        }
    }
}

pub(crate) fn resources(script: &Script) -> Vec<String> {
    let mut resources = vec![
        r#"{"uri":"fake://text","name":"text","mimeType":"text/plain"}"#.to_owned(),
        r#"{"uri":"fake://blob","name":"blob","mimeType":"application/octet-stream"}"#.to_owned(),
    ];
    resources.extend(script.is_pinned().then(|| eras::RESOURCE.to_owned()));
    let resource = |uri: &String| json!({"uri": uri, "name": "defined"}).to_string();
    resources.extend(script.defined_resources.iter().map(resource));
    resources
}

pub(crate) fn templates(script: &Script) -> Vec<String> {
    let mut templates = vec![
        r#"{"uriTemplate":"fake://item/{id}","name":"item","mimeType":"text/plain"}"#.to_owned(),
    ];
    let template = |uri: &String| json!({"uriTemplate": uri, "name": "defined"}).to_string();
    templates.extend(script.defined_templates.iter().map(template));
    templates
}

pub(crate) fn prompts(script: &Script) -> Vec<String> {
    let mut prompts = vec![
        r#"{"name":"greet","description":"greets somebody","arguments":[{"name":"name","required":true}]}"#.to_owned(),
        r#"{"name":"plain","description":"takes no arguments"}"#.to_owned(),
    ];
    prompts.extend(script.is_pinned().then(|| eras::PROMPT.to_owned()));
    prompts.extend_from_slice(&script.defined_prompts);
    prompts
}

pub(crate) fn read(script: &Script, uri: &str) -> Result<Value, RpcError> {
    let content = match uri {
        "fake://text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "the text of the fake"})
        }
        "fake://blob" => {
            json!({"uri": uri, "mimeType": "application/octet-stream", "blob": "AAECAwQ="})
        }
        _ if script
            .defined_resources
            .iter()
            .any(|defined_uri| defined_uri == uri) =>
        {
            json!({"uri": uri, "mimeType": "text/plain", "text": uri})
        }
        _ => match uri.strip_prefix("fake://item/") {
            Some(id) if !id.is_empty() => {
                json!({"uri": uri, "mimeType": "text/plain", "text": format!("item {id}")})
            }
            _ => {
                return Err(RpcError {
                    data: Some(json!({"uri": uri})),
                    ..RpcError::new(-32002, "resource not found")
                });
            }
        },
    };
    Ok(json!({"contents": [content]}))
}

pub(crate) fn prompt(script: &Script, name: &str, arguments: &Value) -> Result<Value, RpcError> {
    let text = match name {
        "greet" => match arguments["name"].as_str() {
            Some(name) => format!("Please greet {name}."),
            None => return Err(RpcError::invalid_params("missing argument: name")),
        },
        "plain" => "Say something plain.".to_owned(),
        _ if script
            .defined_prompts
            .iter()
            .any(|prompt| eras::name(prompt) == name) =>
        {
            "Say something plain.".to_owned()
        }
        _ => return Err(RpcError::invalid_params(format!("unknown prompt: {name}"))),
    };
    Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}))
}

/// Completes `greet.name` and the template's `id`.
pub(crate) fn complete(params: &Value) -> Result<Value, RpcError> {
    let (reference, argument) = (&params["ref"], &params["argument"]);
    let candidates: &[&str] = match (
        reference["type"].as_str(),
        reference["name"].as_str().or(reference["uri"].as_str()),
        argument["name"].as_str(),
    ) {
        (Some("ref/prompt"), Some("greet"), Some("name")) => &["Ada", "Alan", "Grace"],
        (Some("ref/resource"), Some("fake://item/{id}"), Some("id")) => &["1", "10", "2"],
        _ => return Err(RpcError::invalid_params("nothing to complete")),
    };
    let typed_text = argument["value"].as_str().unwrap_or_default();
    let values: Vec<&str> = candidates
        .iter()
        .copied()
        .filter(|candidate| candidate.starts_with(typed_text))
        .collect();
    Ok(json!({"completion": {"total": values.len(), "hasMore": false, "values": values}}))
}

/// Returns a result with the page of a list at a cursor.
pub(crate) fn page(
    key: &str,
    items: &[String],
    cursor: Option<&Value>,
    script: &Script,
) -> Result<String, RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => offset(cursor, script)
            .filter(|offset| *offset < items.len())
            .ok_or_else(|| RpcError::invalid_params("invalid cursor"))?,
    };
    let size = script.page_size.unwrap_or(items.len()).max(1);
    let end = items.len().min(start + size);
    let next_start = match end {
        end if end < items.len() => Some(end),
        _ if script.endless_pages => Some(0),
        _ => None,
    };
    let next_start = next_start.map_or_else(String::new, |offset| {
        format!(r#","nextCursor":{}"#, cursor_at(offset, script))
    });
    let list = items[start..end].join(",");
    let padding = match script.page_padding {
        0 => String::new(),
        bytes => format!(r#","padding":"{}""#, "x".repeat(bytes)),
    };
    Ok(format!(r#"{{"{key}":[{list}]{next_start}{padding}}}"#))
}

/// Mask that hides the offset in a cursor, so that clients do not rely on the form of cursors.
const CURSOR_KEY: usize = 0x5eed;

fn cursor_at(offset: usize, script: &Script) -> Value {
    if script.bends(Bend::NumericCursors) {
        return offset.into();
    }
    format!("c={:x}/", offset ^ CURSOR_KEY).into()
}

fn offset(cursor: &Value, script: &Script) -> Option<usize> {
    if script.bends(Bend::NumericCursors) {
        return cursor.as_u64()?.try_into().ok();
    }
    let digits = cursor.as_str()?.strip_prefix("c=")?.strip_suffix('/')?;
    Some(usize::from_str_radix(digits, 16).ok()? ^ CURSOR_KEY)
}
