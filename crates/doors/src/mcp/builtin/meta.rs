//! Group `meta`: all tools behind six, so that a thousand tools cost a client no more than six.

use std::sync::Arc;

use mainstay_core::{
    catalog::{ListKind, Target},
    failure::{Failure, FailureKind},
    lifecycle::State,
    message::quote,
};
use mainstay_gateway::supervisor::{Operation, Server};
use mainstay_platform::blocking::off_the_runtime;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    context::{self, Context},
    found::{self, Found},
    objects,
    outcome::{Outcome, ToolOutput, here},
    refusal::Refusal,
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

/// Tools that are shown: the default, and the most.
const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 50;

pub async fn answer(tool: Tool, asked: RequestContext<'_>) -> Outcome {
    let context = &Context::of(&asked);
    match tool {
        Tool::Search => here(asked.cancelled, search(context)).await,
        Tool::Describe => here(asked.cancelled, describe(context)).await,
        Tool::Execute => execute(context, asked).await,
        Tool::ListServers => Ok(list_servers(context)),
        Tool::Reconnect => here(asked.cancelled, reconnect(context)).await,
        Tool::ReadObject => here(asked.cancelled, objects::read_part(context)).await,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
    server: Option<String>,
}

async fn search(context: &Context<'_>) -> Outcome {
    let Search {
        query,
        limit,
        server,
    } = context.arguments()?;
    let only = context.only(server.as_deref())?;
    let shown = context.shown().await;
    let (searched, sieve) = (Arc::clone(&shown), context.sieve(only));
    // Of thousands of tools, thousands may fit.
    let places = off_the_runtime(move || {
        let mut places = searched.index.search(&query);
        let targets = searched.catalog.targets(ListKind::Tools);
        places.retain(|place| sieve.shows_tool(&targets[*place]));
        places
    })
    .await;
    let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let mut found = Found::default();
    for place in places.iter().take(limit) {
        let (exposed, target, item) = shown.catalog.tool_at(*place);
        let status = trouble(context, target);
        if !found.add(exposed, found::tool(exposed, target, item, status)) {
            break;
        }
    }
    Ok(ToolOutput::Json(found.say(places.len())))
}

/// How the tool's server is, unless it is well.
fn trouble(context: &Context<'_>, target: &Target) -> Option<&'static str> {
    let state = context.server(target.server.as_str()).ok()?.view().state();
    (state != State::Connected).then(|| state.words().tools)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Describe {
    #[serde(alias = "tool")]
    name: String,
    server: Option<String>,
}

async fn describe(context: &Context<'_>) -> Outcome {
    let Describe { name, server } = context.arguments()?;
    let target = tool(context, server.as_deref(), &name).await?;
    let catalog = context.catalog().await;
    let mut tools = context.items(&catalog, ListKind::Tools, None);
    let item = tools
        .find_map(|(known, item)| (*known == target).then_some(item))
        .ok_or_else(|| unknown(&name))?;
    let status = context.server(target.server.as_str())?.view().state();
    Ok(ToolOutput::Json(format!(
        r#"{{"server":{},"status":"{}","tool":{item}}}"#,
        quote(target.server.as_str()),
        status.words().tools
    )))
}

/// The tool of this name, in whatever spelling.
async fn tool(context: &Context<'_>, server: Option<&str>, name: &str) -> Result<Target, Refusal> {
    let found = context.target(ListKind::Tools, server, name).await;
    found.map_err(|why| match why {
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

/// A call like any other: its progress, its questions and its cancellation are those of the client's
/// own request, and what the server says is the result.
async fn execute(context: &Context<'_>, asked: RequestContext<'_>) -> Outcome {
    let call: Execute<'_> = context.arguments()?;
    let arguments = context::object(call.arguments)?;
    let target = tool(context, call.server.as_deref(), &call.name).await?;
    let frame = context::unwrapped(asked.frame, &target.original, arguments)?;
    let (address, name) = context::address(&frame)?;
    let asked = RequestContext {
        frame: &frame,
        address: &address,
        ..asked
    };
    Ok(ToolOutput::Server(asked.call_target(&target, &name).await))
}

/// `list_servers`: an array. The stderr of a server that is well is left out.
fn list_servers(context: &Context<'_>) -> ToolOutput {
    let shown = |server: &Arc<Server>| {
        let mut shown = details(&context.gateway().registry, server, context.disclosure());
        if shown.pending.is_none() {
            let words = server.view().status.state.words();
            words.tools.clone_into(&mut shown.status);
        }
        if shown.connected {
            shown.stderr.clear();
        }
        shown
    };
    let servers: Vec<_> = context.servers().iter().map(shown).collect();
    ToolOutput::json(&servers)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reconnect {
    name: String,
}

/// `reconnect_server`
async fn reconnect(context: &Context<'_>) -> Outcome {
    let Reconnect { name } = context.arguments()?;
    context.server(&name)?.operate(Operation::Reconnect).await?;
    Ok(ToolOutput::json(
        &json!({"success": true, "status": "connected"}),
    ))
}
