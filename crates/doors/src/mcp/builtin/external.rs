//! Group `external`: servers, tools and resources under the names of five other tools.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use mainstay_core::{
    catalog::{ListKind, Target},
    era::tasks,
    failure::{Failure, FailureKind},
    lifecycle::State,
    message,
};
use mainstay_gateway::{calls::Answer, refused};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    context::{self, Context},
    outcome::{Outcome, ToolOutput, here},
    refusal::Refusal,
};
use crate::mcp::{endpoint::request::RequestContext, reply::Reply};
use mainstay_doorway::json_views::calls::first_content;

tools! {
    ListServers "external_list_servers",
    ListTools "external_list_tools",
    Call "external_call_tool",
    ListResources "external_list_resources",
    ReadResource "external_read_resource",
}

pub async fn answer(tool: Tool, asked: RequestContext<'_>) -> Outcome {
    let context = &Context::of(&asked);
    match tool {
        Tool::ListServers => Ok(list_servers(context)),
        Tool::ListTools => here(asked.cancelled, list_tools(context)).await,
        Tool::Call => call_tool(context, asked).await,
        Tool::ListResources => here(asked.cancelled, list_resources(context)).await,
        Tool::ReadResource => read_resource(context, asked).await,
    }
}

/// `external_list_servers`
fn list_servers(context: &Context<'_>) -> ToolOutput {
    #[derive(Serialize)]
    struct Shown {
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_count: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let servers = context.servers();
    let shown = servers.iter().map(|server| {
        let view = server.view();
        let up = view.status.state == State::Connected;
        let withheld = &server.config().withheld;
        let catalog = view.catalog.as_ref();
        let count = || catalog.map_or(0, |it| it.shown(ListKind::Tools, withheld).count());
        let shown = Shown {
            status: view.status.state.words().rest,
            tool_count: up.then(count),
            error: view.status.reason.clone().filter(|_| !up),
        };
        (server.name.as_str(), shown)
    });
    ToolOutput::json(&json!({"servers": shown.collect::<BTreeMap<_, _>>()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    server: Option<String>,
}

/// `external_list_tools`
async fn list_tools(context: &Context<'_>) -> Outcome {
    let tools = each(context, ListKind::Tools, |target, item| {
        json!({
            "name": format!("{}/{}", target.server, target.original),
            "server": target.server.as_str(),
            "description": text(item, "description"),
        })
    });
    Ok(ToolOutput::json(&json!({"tools": tools.await?})))
}

/// `external_list_resources`
async fn list_resources(context: &Context<'_>) -> Outcome {
    let resources = each(context, ListKind::Resources, |target, item| {
        json!({
            "uri": &*target.original,
            "server": target.server.as_str(),
            "name": text(item, "name"),
            "description": text(item, "description"),
            "mime_type": message::shown_member(item, "mimeType"),
        })
    });
    Ok(ToolOutput::json(&json!({"resources": resources.await?})))
}

async fn each(
    context: &Context<'_>,
    kind: ListKind,
    entry: impl Fn(&Target, &str) -> Value,
) -> Result<Vec<Value>, Refusal> {
    let Filter { server } = context.arguments()?;
    let only = context.only(server.as_deref())?;
    let catalog = context.catalog().await;
    let items = context.items(&catalog, kind, only.as_deref());
    Ok(items.map(|(target, item)| entry(target, item)).collect())
}

/// An absent description is an empty text.
fn text<'i>(item: &'i str, member: &str) -> Cow<'i, str> {
    message::shown_member(item, member).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    tool: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// `external_call_tool`: the content of the tool's answer, and whether it failed.
async fn call_tool(context: &Context<'_>, asked: RequestContext<'_>) -> Outcome {
    let call: Call<'_> = context.arguments()?;
    let arguments = context::object(call.arguments)?;
    if context.servers().is_empty() {
        // No server at all.
        let message = "no MCP server is configured";
        return Err(Failure::new(FailureKind::NotConfigured, message).into());
    }
    let target = context.target(ListKind::Tools, None, &call.tool).await?;
    let server = context.server(target.server.as_str())?;
    let frame = context::unwrapped(asked.frame, &target.original, arguments)?;
    let (address, name) = context::address(&frame)?;
    let (id, client) = (asked.id(), Arc::clone(&asked.sink.client));
    let asked = RequestContext {
        frame: &frame,
        address: &address,
        ..asked
    };
    let shared = asked.shared;
    let answer = asked.forward(&target, &name).await?;
    if client.caller.capabilities.tasks && answer.frame.result().is_some_and(tasks::is_task) {
        let server = target.server.as_str();
        let answer = shared.names.renamed(&client.principal, server, answer);
        return Ok(ToolOutput::Server(Reply::answer(id, &answer)));
    }
    if let Some(error) = answer.frame.error() {
        return Err(refused(&server, frame.params().unwrap_or("{}"), error).into());
    }
    Ok(content(id, &answer))
}

fn content(id: &str, answer: &Answer) -> ToolOutput {
    let result = answer.frame.result().unwrap_or("{}");
    let Some(content) = message::member(result, "content") else {
        // The server asks something first (2026-07-28).
        return ToolOutput::Server(Reply::answer(id, answer));
    };
    if message::member(result, "isError") == Some("true") {
        ToolOutput::Failed(format!(r#"{{"content":{content},"is_error":true}}"#))
    } else {
        ToolOutput::Json(format!(r#"{{"content":{content}}}"#))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    server: String,
    uri: String,
}

/// `external_read_resource`
async fn read_resource(context: &Context<'_>, asked: RequestContext<'_>) -> Outcome {
    let Read { server, uri } = context.arguments()?;
    let result = context.read(&server, &uri, asked.cancelled).await?;
    Ok(ToolOutput::json(&first_content(&result, &uri)?))
}
