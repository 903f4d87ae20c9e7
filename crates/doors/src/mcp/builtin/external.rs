//! Group `external`: five tools that list and use servers, tools and resources.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use mainstay_core::{
    catalog::{ItemTarget, ListKind},
    era::tasks,
    failure::{Failure, FailureKind},
    lifecycle::SessionState,
    message,
};
use mainstay_gateway::{calls::CallAnswer, refused};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    context::{self, Context},
    outcome::{ToolOutcome, ToolOutput, here},
    refusal::ToolRefusal,
};
use crate::mcp::{endpoint::request::RequestContext, reply::RpcReply};
use mainstay_doorway::json_views::calls::first_content;

tools! {
    ListServers "external_list_servers",
    ListTools "external_list_tools",
    Call "external_call_tool",
    ListResources "external_list_resources",
    ReadResource "external_read_resource",
}

pub async fn answer(tool: GroupTool, request: RequestContext<'_>) -> ToolOutcome {
    let context = &Context::new(&request);
    match tool {
        GroupTool::ListServers => Ok(list_servers(context)),
        GroupTool::ListTools => here(request.cancelled, list_tools(context)).await,
        GroupTool::Call => call_tool(context, request).await,
        GroupTool::ListResources => here(request.cancelled, list_resources(context)).await,
        GroupTool::ReadResource => read_resource(context, request).await,
    }
}

/// Answers `external_list_servers`.
fn list_servers(context: &Context<'_>) -> ToolOutput {
    #[derive(Serialize)]
    struct ListedServer {
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_count: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let servers = context.servers();
    let entries = servers.iter().map(|server| {
        let view = server.view();
        let is_connected = view.status.state == SessionState::Connected;
        let withheld_lists = &server.config().withheld;
        let catalog = view.catalog.as_ref();
        let count = || {
            catalog.map_or(0, |catalog| {
                catalog
                    .visible_items(ListKind::Tools, withheld_lists)
                    .count()
            })
        };
        let entry = ListedServer {
            status: view.status.state.words().rest,
            tool_count: is_connected.then(count),
            error: view.status.reason.clone().filter(|_| !is_connected),
        };
        (server.name.as_str(), entry)
    });
    ToolOutput::json(&json!({"servers": entries.collect::<BTreeMap<_, _>>()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    server: Option<String>,
}

/// Answers `external_list_tools`.
async fn list_tools(context: &Context<'_>) -> ToolOutcome {
    let tools = list_items(context, ListKind::Tools, |target, item| {
        json!({
            "name": format!("{}/{}", target.server, target.original),
            "server": target.server.as_str(),
            "description": text(item, "description"),
        })
    });
    Ok(ToolOutput::json(&json!({"tools": tools.await?})))
}

/// Answers `external_list_resources`.
async fn list_resources(context: &Context<'_>) -> ToolOutcome {
    let resources = list_items(context, ListKind::Resources, |target, item| {
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

async fn list_items(
    context: &Context<'_>,
    kind: ListKind,
    entry: impl Fn(&ItemTarget, &str) -> Value,
) -> Result<Vec<Value>, ToolRefusal> {
    let Filter { server } = context.arguments()?;
    let server_filter = context.only(server.as_deref())?;
    let catalog = context.catalog().await;
    let items = context.items(&catalog, kind, server_filter.as_deref());
    Ok(items.map(|(target, item)| entry(target, item)).collect())
}

/// A text member of an item. An absent member is an empty text.
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

/// Answers `external_call_tool` with the content of the tool's result, and `is_error` if the call
/// failed.
async fn call_tool(context: &Context<'_>, request: RequestContext<'_>) -> ToolOutcome {
    let call: Call<'_> = context.arguments()?;
    let arguments = context::object(call.arguments)?;
    if context.servers().is_empty() {
        let message = "no MCP server is configured";
        return Err(Failure::new(FailureKind::NotConfigured, message).into());
    }
    let target = context.target(ListKind::Tools, None, &call.tool).await?;
    let server = context.server(target.server.as_str())?;
    let frame = context::unwrapped(request.frame, &target.original, arguments)?;
    let (address, name) = context::address(&frame)?;
    let (id, client) = (request.id(), Arc::clone(&request.sink.client));
    let request = RequestContext {
        frame: &frame,
        address: &address,
        ..request
    };
    let shared_state = request.shared;
    let answer = request.forward(&target, &name).await?;
    if client.caller.capabilities.tasks && answer.frame.result().is_some_and(tasks::is_task) {
        let server = target.server.as_str();
        let answer = shared_state
            .names
            .renamed(&client.principal, server, answer);
        return Ok(ToolOutput::Server(RpcReply::answer(id, &answer)));
    }
    if let Some(error) = answer.frame.error() {
        return Err(refused(&server, frame.params().unwrap_or("{}"), error).into());
    }
    Ok(content(id, &answer))
}

fn content(id: &str, answer: &CallAnswer) -> ToolOutput {
    let result = answer.frame.result().unwrap_or("{}");
    let Some(content) = message::member(result, "content") else {
        // Without content, the result is a task or a question to the client (2026-07-28). Pass it
        // on.
        return ToolOutput::Server(RpcReply::answer(id, answer));
    };
    if message::member(result, "isError") == Some("true") {
        ToolOutput::Failed(format!(r#"{{"content":{content},"is_error":true}}"#))
    } else {
        ToolOutput::Json(format!(r#"{{"content":{content}}}"#))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadResourceArguments {
    server: String,
    uri: String,
}

/// Answers `external_read_resource`.
async fn read_resource(context: &Context<'_>, request: RequestContext<'_>) -> ToolOutcome {
    let ReadResourceArguments { server, uri } = context.arguments()?;
    let result = context.read(&server, &uri, request.cancelled).await?;
    Ok(ToolOutput::json(&first_content(&result, &uri)?))
}
