//! More tools of group `activity`: lists and logs of servers, for clients that support only tools.

use std::io;

use super::{
    context::{self, Context},
    outcome::{ToolOutcome, ToolOutput},
    refusal::ToolRefusal,
};
use mainstay_core::{
    catalog::ListKind,
    failure::{Failure, FailureKind},
    message::{self, Method, quote},
};
use mainstay_doorway::json_views;
use mainstay_platform::blocking::try_off_the_runtime;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::oneshot;

/// Maximum number of items in one page.
const PAGE: usize = 100;

/// Number of log lines in the output: the default and the maximum.
const DEFAULT_TAIL: usize = 50;
const MAX_TAIL: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    server: Option<String>,
    cursor: Option<Cursor>,
}

/// A cursor: the index of the next item. Models often send a number instead of a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Cursor {
    Text(String),
    Number(usize),
}

impl Cursor {
    fn start(&self) -> Option<usize> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => Some(*number),
        }
    }
}

/// Lists items, without the schemas of tools. `describe_tool` and `search_tools` return schemas.
pub async fn list(kind: ListKind, context: &Context<'_>) -> ToolOutcome {
    let List { server, cursor } = context.arguments()?;
    let server_filter = context.only(server.as_deref())?;
    let catalog = context.catalog().await;
    let items: Vec<_> = context
        .items(&catalog, kind, server_filter.as_deref())
        .collect();
    let start = match cursor.map(|cursor| cursor.start()) {
        None => 0,
        Some(Some(start)) if start < items.len() => start,
        Some(_) => return Err(ToolRefusal::Arguments("unknown cursor".to_owned())),
    };
    let end = items.len().min(start + PAGE);
    let page: Vec<String> = items[start..end]
        .iter()
        .map(|(target, item)| {
            let mut item = message::JsonObjectEditor::read(item).unwrap_or_default();
            for heavy_key in ["inputSchema", "outputSchema", "icons", "_meta"] {
                item.remove(heavy_key);
            }
            item.set_text("server", target.server.as_str());
            item.to_string()
        })
        .collect();
    let next_cursor = if end < items.len() {
        format!(r#","next_cursor":"{end}""#)
    } else {
        String::new()
    };
    let (member, items) = (kind.member(), message::array(&page));
    Ok(ToolOutput::Json(format!(
        r#"{{"{member}":{items}{next_cursor}}}"#
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadResourceArguments {
    server: String,
    uri: String,
}

/// Returns the result of `resources/read` unchanged.
pub async fn read_resource(
    context: &Context<'_>,
    cancel_signal: oneshot::Receiver<String>,
) -> ToolOutcome {
    let ReadResourceArguments { server, uri } = context.arguments()?;
    let result = context.read(&server, &uri, cancel_signal).await?;
    Ok(ToolOutput::Json(result.get().to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get<'a> {
    name: String,
    server: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

pub async fn get_prompt(
    context: &Context<'_>,
    cancel_signal: oneshot::Receiver<String>,
) -> ToolOutcome {
    let get: Get<'_> = context.arguments()?;
    let arguments = context::object(get.arguments)?;
    let prompt_target = context.target(ListKind::Prompts, get.server.as_deref(), &get.name);
    let target = prompt_target.await?;
    let server = context.server(target.server.as_str())?;
    let name = quote(&target.original);
    let params = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
    let result = context
        .ask(server, Method::PromptsGet, &params, cancel_signal)
        .await?;
    Ok(ToolOutput::Json(result.get().to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Logs {
    server: String,
    tail: Option<usize>,
}

pub async fn logs(context: &Context<'_>) -> ToolOutcome {
    let Logs { server, tail } = context.arguments()?;
    let log = std::sync::Arc::clone(&context.server(&server)?.log);
    let tail = tail.unwrap_or(DEFAULT_TAIL).clamp(1, MAX_TAIL);
    let log_lines = try_off_the_runtime(move || log.last(tail)).await;
    let log_lines = log_lines.unwrap_or_else(|error| Err(io::Error::other(error)));
    let log_lines = log_lines.map_err(|error| {
        let message = format!("the log cannot be read: {error}");
        Failure::new(FailureKind::CallFailed, message).with("server", server)
    })?;
    Ok(ToolOutput::json(
        &json!({"lines": json_views::logs::lines(log_lines.lines)}),
    ))
}
