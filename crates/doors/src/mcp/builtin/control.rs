//! Group `control`: the operator's client adds, removes and switches servers. The changes end with
//! this run. A model may have read untrusted text, so it must not start programs or send secrets
//! elsewhere. A server therefore waits for approval, which a person gives outside of MCP, if it
//! runs a command, refers to secrets, or changes the target of a known name.

use mainstay_config::Approval;
use mainstay_core::config::Launch;
use mainstay_gateway::{
    registry::NewServer,
    supervisor::{Operation, ServerHandle},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    context::Context,
    outcome::{ToolOutcome, ToolOutput, here},
    refusal::ToolRefusal,
};
use crate::mcp::endpoint::request::RequestContext;
use mainstay_doorway::json_views::servers::{Disclosure, details};

tools! {
    Add "add_server",
    Remove "remove_server",
    Enable "enable_server",
    Disable "disable_server",
}

pub async fn answer(tool: GroupTool, request: RequestContext<'_>) -> ToolOutcome {
    let context = &Context::new(&request);
    if !context.is_operator() {
        return Err(ToolRefusal::Forbidden);
    }
    match tool {
        GroupTool::Add => here(request.cancelled, add(context)).await,
        GroupTool::Remove => here(request.cancelled, remove(context)).await,
        GroupTool::Enable => here(request.cancelled, enable(context)).await,
        GroupTool::Disable => here(request.cancelled, disable(context)).await,
    }
}

async fn add(context: &Context<'_>) -> ToolOutcome {
    let mut entry: Map<String, Value> = context.arguments()?;
    let Some(Value::String(name)) = entry.shift_remove("name") else {
        return Err(ToolRefusal::Arguments(
            "\"name\" must be a string".to_owned(),
        ));
    };
    let registry = &context.gateway().registry;
    let has_references = Value::Object(entry.clone()).to_string().contains("${");
    let NewServer {
        runtime: mut runtime_entry,
        warnings,
    } = registry.read_entry(&name, entry, Approval::Pending).await?;
    if !has_references && matches!(runtime_entry.config.launch, Launch::Http(_)) {
        runtime_entry.approval = Approval::Given;
    }
    let server = registry.propose(runtime_entry, context.origin()).await?;
    let server_details = details(registry, &server, Disclosure::Operator);
    let mut output = if server_details.pending.is_some() {
        json!({
            "success": true,
            "name": name,
            "status": server_details.status,
            "pending": server_details.pending,
            "next": format!("a person approves it with: mainstay approve {name}"),
        })
    } else {
        started(&server).await
    };
    // A mistyped key is reported nowhere else.
    if !warnings.is_empty() {
        output["warnings"] = warnings.into();
    }
    Ok(ToolOutput::json(&output))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameArgument {
    name: String,
}

async fn remove(context: &Context<'_>) -> ToolOutcome {
    let NameArgument { name } = context.arguments()?;
    context.gateway().registry.remove(&name).await?;
    Ok(ToolOutput::json(&json!({"success": true, "name": name})))
}

async fn enable(context: &Context<'_>) -> ToolOutcome {
    let NameArgument { name } = context.arguments()?;
    let server = context.gateway().registry.enable(&name).await?;
    Ok(ToolOutput::json(&started(&server).await))
}

async fn disable(context: &Context<'_>) -> ToolOutcome {
    let NameArgument { name } = context.arguments()?;
    let server = context.gateway().registry.disable(&name).await?;
    server.operate(Operation::Stop).await?;
    Ok(ToolOutput::json(&done(&server)))
}

/// Starts the server if it connects at the start, and returns its status after that.
async fn started(server: &ServerHandle) -> Value {
    if server.config().connects_at_start() {
        server.operate(Operation::Start).await.ok();
    }
    done(server)
}

fn done(server: &ServerHandle) -> Value {
    let view = server.view();
    let mut output = json!({
        "success": true,
        "name": server.name.as_str(),
        "status": view.state().words().tools,
    });
    if let Some(reason) = &view.status.reason {
        output["lastError"] = reason.as_str().into();
    }
    output
}
