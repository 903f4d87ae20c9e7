//! Group `control`: the operator's own client adds, removes and switches servers, until the next
//! restart.
//!
//! A model that reads foreign text must not be able to start programs or to send secrets away. So a
//! server waits for a person's approval outside of MCP if it runs a command, names secrets by
//! references, or gives a known name another target.

use mainstay_config::Approval;
use mainstay_core::config::Launch;
use mainstay_gateway::{
    registry::NewServer,
    supervisor::{Operation, Server},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    context::Context,
    outcome::{Outcome, ToolOutput, here},
    refusal::Refusal,
};
use crate::mcp::endpoint::request::RequestContext;
use mainstay_doorway::json_views::servers::{Disclosure, details};

tools! {
    Add "add_server",
    Remove "remove_server",
    Enable "enable_server",
    Disable "disable_server",
}

pub async fn answer(tool: Tool, asked: RequestContext<'_>) -> Outcome {
    let context = &Context::of(&asked);
    if !context.is_operator() {
        return Err(Refusal::Forbidden);
    }
    match tool {
        Tool::Add => here(asked.cancelled, add(context)).await,
        Tool::Remove => here(asked.cancelled, remove(context)).await,
        Tool::Enable => here(asked.cancelled, enable(context)).await,
        Tool::Disable => here(asked.cancelled, disable(context)).await,
    }
}

async fn add(context: &Context<'_>) -> Outcome {
    let mut entry: Map<String, Value> = context.arguments()?;
    let Some(Value::String(name)) = entry.shift_remove("name") else {
        return Err(Refusal::Arguments("\"name\" must be a string".to_owned()));
    };
    let registry = &context.gateway().registry;
    let has_references = Value::Object(entry.clone()).to_string().contains("${");
    let NewServer {
        runtime: mut new,
        warnings,
    } = registry.read_entry(&name, entry, Approval::Pending).await?;
    if !has_references && matches!(new.config.launch, Launch::Http(_)) {
        new.approval = Approval::Given;
    }
    let server = registry.propose(new, context.origin()).await?;
    let shown = details(registry, &server, Disclosure::Operator);
    let mut said = if shown.pending.is_some() {
        json!({
            "success": true,
            "name": name,
            "status": shown.status,
            "pending": shown.pending,
            "next": format!("a person approves it with: mainstay approve {name}"),
        })
    } else {
        started(&server).await
    };
    // A mistyped key has no other trace.
    if !warnings.is_empty() {
        said["warnings"] = warnings.into();
    }
    Ok(ToolOutput::json(&said))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameArgument {
    name: String,
}

async fn remove(context: &Context<'_>) -> Outcome {
    let NameArgument { name } = context.arguments()?;
    context.gateway().registry.remove(&name).await?;
    Ok(ToolOutput::json(&json!({"success": true, "name": name})))
}

async fn enable(context: &Context<'_>) -> Outcome {
    let NameArgument { name } = context.arguments()?;
    let server = context.gateway().registry.enable(&name).await?;
    Ok(ToolOutput::json(&started(&server).await))
}

async fn disable(context: &Context<'_>) -> Outcome {
    let NameArgument { name } = context.arguments()?;
    let server = context.gateway().registry.disable(&name).await?;
    server.operate(Operation::Stop).await?;
    Ok(ToolOutput::json(&done(&server)))
}

/// Waits for a server that starts by itself, whatever comes of it: its status says.
async fn started(server: &Server) -> Value {
    if server.config().connects_at_start() {
        server.operate(Operation::Start).await.ok();
    }
    done(server)
}

fn done(server: &Server) -> Value {
    let view = server.view();
    let mut said = json!({
        "success": true,
        "name": server.name.as_str(),
        "status": view.state().words().tools,
    });
    if let Some(reason) = &view.status.reason {
        said["lastError"] = reason.as_str().into();
    }
    said
}
