//! Group `meta`: six tools that find and call the tools of all servers with little context.

use std::sync::Arc;

use mainstay_core::{
    catalog::{ItemTarget, ListKind},
    failure::{Failure, FailureKind},
    lifecycle::SessionState,
    message::quote,
};
use mainstay_gateway::supervisor::{Operation, ServerHandle};
use mainstay_platform::blocking::off_the_runtime;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    context::{self, Context},
    found::{self, FoundTools},
    objects,
    outcome::{ToolOutcome, ToolOutput, here},
    refusal::ToolRefusal,
};
use crate::mcp::endpoint::request::RequestContext;
use mainstay_doorway::json_views::{lists::NotFound, servers::details};

tools! {
    Search "search_tools",
    Describe "describe_tool",
    Execute "execute_tool",
    ListServers "list_servers",
    Reconnect "reconnect_server",
    ReadObject "read_object",
}

/// Number of tools in the output: the default and the maximum.
const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 50;

pub async fn answer(tool: GroupTool, request: RequestContext<'_>) -> ToolOutcome {
    let context = &Context::new(&request);
    match tool {
        GroupTool::Search => here(request.cancelled, search(context)).await,
        GroupTool::Describe => here(request.cancelled, describe(context)).await,
        GroupTool::Execute => execute(context, request).await,
        GroupTool::ListServers => Ok(list_servers(context)),
        GroupTool::Reconnect => here(request.cancelled, reconnect(context)).await,
        GroupTool::ReadObject => here(request.cancelled, objects::read_part(context)).await,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
    server: Option<String>,
}

async fn search(context: &Context<'_>) -> ToolOutcome {
    let Search {
        query,
        limit,
        server,
    } = context.arguments()?;
    let server_filter = context.only(server.as_deref())?;
    let snapshot = context.profile_snapshot().await;
    let (searched_snapshot, sieve) = (Arc::clone(&snapshot), context.sieve(server_filter));
    // Filtering may take long, because a search may match thousands of tools.
    let places = off_the_runtime(move || {
        let mut places = searched_snapshot.index.search(&query);
        let targets = searched_snapshot.catalog.targets(ListKind::Tools);
        places.retain(|place| sieve.shows_tool(&targets[*place]));
        places
    })
    .await;
    let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let mut found_tools = FoundTools::default();
    for place in places.iter().take(limit) {
        let (exposed_name, target, item) = snapshot.catalog.tool_at(*place);
        let status = trouble(context, target);
        if !found_tools.add(
            exposed_name,
            found::tool(exposed_name, target, item, status),
        ) {
            break;
        }
    }
    Ok(ToolOutput::Json(found_tools.to_json(places.len())))
}

/// The status word of the tool's server; `None` if the server is connected.
fn trouble(context: &Context<'_>, target: &ItemTarget) -> Option<&'static str> {
    let state = context.server(target.server.as_str()).ok()?.view().state();
    (state != SessionState::Connected).then(|| state.words().tools)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Describe {
    #[serde(alias = "tool")]
    name: String,
    server: Option<String>,
}

async fn describe(context: &Context<'_>) -> ToolOutcome {
    let Describe { name, server } = context.arguments()?;
    let target = tool(context, server.as_deref(), &name).await?;
    let catalog = context.catalog().await;
    let mut tools = context.items(&catalog, ListKind::Tools, None);
    let item = tools
        .find_map(|(candidate, item)| (*candidate == target).then_some(item))
        .ok_or_else(|| unknown(&name))?;
    let status = context.server(target.server.as_str())?.view().state();
    Ok(ToolOutput::Json(format!(
        r#"{{"server":{},"status":"{}","tool":{item}}}"#,
        quote(target.server.as_str()),
        status.words().tools
    )))
}

/// Resolves a tool's name in any spelling.
async fn tool(
    context: &Context<'_>,
    server: Option<&str>,
    name: &str,
) -> Result<ItemTarget, ToolRefusal> {
    let tool_target = context.target(ListKind::Tools, server, name).await;
    tool_target.map_err(|error| match error {
        NotFound::Unclear { reason, .. } => {
            let failure = unknown(name);
            let message = format!("{}: {reason}", failure.message);
            Failure { message, ..failure }.into()
        }
        NotFound::Failed(failure) => failure.into(),
    })
}

fn unknown(name: &str) -> Failure {
    Failure::new(FailureKind::ToolNotFound, format!("Unknown tool {name}")).with("tool", name)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Execute<'a> {
    #[serde(alias = "tool")]
    name: String,
    server: Option<String>,
    #[serde(borrow, default, alias = "args")]
    arguments: Option<&'a RawValue>,
}

/// Calls a server's tool. Progress, questions, cancellation and result are like those of a direct
/// `tools/call`.
async fn execute(context: &Context<'_>, request: RequestContext<'_>) -> ToolOutcome {
    let call: Execute<'_> = context.arguments()?;
    let arguments = context::object(call.arguments)?;
    let target = tool(context, call.server.as_deref(), &call.name).await?;
    let frame = context::unwrapped(request.frame, &target.original, arguments)?;
    let (address, name) = context::address(&frame)?;
    let request = RequestContext {
        frame: &frame,
        address: &address,
        ..request
    };
    Ok(ToolOutput::Server(
        request.call_target(&target, &name).await,
    ))
}

/// Answers `list_servers`. The output of connected servers on stderr is left out.
fn list_servers(context: &Context<'_>) -> ToolOutput {
    let to_details = |server: &Arc<ServerHandle>| {
        let mut server_details = details(&context.gateway().registry, server, context.disclosure());
        if server_details.pending.is_none() {
            let state_words = server.view().status.state.words();
            state_words.tools.clone_into(&mut server_details.status);
        }
        if server_details.connected {
            server_details.stderr.clear();
        }
        server_details
    };
    let servers: Vec<_> = context.servers().iter().map(to_details).collect();
    ToolOutput::json(&servers)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reconnect {
    name: String,
}

/// Answers `reconnect_server`.
async fn reconnect(context: &Context<'_>) -> ToolOutcome {
    let Reconnect { name } = context.arguments()?;
    context.server(&name)?.operate(Operation::Reconnect).await?;
    Ok(ToolOutput::json(
        &json!({"success": true, "status": "connected"}),
    ))
}
