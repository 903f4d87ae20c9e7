//! Group `records`: what was called, and what is kept of it (L4, L7).

use std::cmp::Reverse;

use mainstay_core::record::{Record, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asked, Outcome, Refusal, Said, context::Context, here, objects};
use crate::{
    api,
    front::plain::records::{failure, journal},
    journal::{Filter, Journal, Page},
};

tools! {
    GetCallRecords "get_call_records",
    InspectObject "inspect_object",
    BreakpointInspectObject "breakpoint_inspect_object",
}

/// Records that are shown, where nobody says how many, and at most (L7).
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

pub async fn answer(tool: Tool, asked: Asked<'_>) -> Outcome {
    let context = &Context::of(&asked);
    match tool {
        Tool::GetCallRecords => here(asked.cancelled, call_records(context)).await,
        Tool::InspectObject | Tool::BreakpointInspectObject => {
            here(asked.cancelled, inspect(context)).await
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    limit: Option<usize>,
    server: Option<String>,
    tool: Option<String>,
    status: Option<String>,
}

async fn call_records(context: &Context<'_>) -> Outcome {
    let wanted: Records = context.arguments()?;
    let status = wanted.status.map(|word| {
        let known = Status::parse(&word);
        known.ok_or_else(|| Refusal::Arguments(format!("\"status\" cannot be {word:?}")))
    });
    let filter = Filter {
        server: wanted.server,
        tool: wanted.tool,
        status: status.transpose()?,
        ..Filter::default()
    };
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let journal = journal(&context.hub.calls)?;
    let Page {
        calls,
        total_count,
        truncated,
        ..
    } = visible(context, journal, filter, limit).await?;
    let calls: Vec<_> = calls.iter().map(api::CallRecord::from).collect();
    Ok(Said::json(&json!({
        "calls": calls,
        "total_count": total_count,
        "truncated": truncated,
    })))
}

/// Records of the profile's servers: what it hides is not told by their calls either.
async fn visible(
    context: &Context<'_>,
    journal: &Journal,
    filter: Filter,
    limit: usize,
) -> Result<Page, Refusal> {
    if let Some(server) = &filter.server {
        context.server(server)?;
    } else if !context.has_all_servers() {
        let mut all = Page {
            calls: Vec::new(),
            total_count: 0,
            truncated: false,
            next: None,
        };
        for server in context.servers() {
            let filter = Filter {
                server: Some(server.name.to_string()),
                ..filter.clone()
            };
            let page = journal.records(filter, limit).await.map_err(failure)?;
            all.calls.extend(page.calls);
            all.total_count += page.total_count;
            all.truncated |= page.truncated;
        }
        all.calls.sort_by_key(|record: &Record| Reverse(record.id));
        all.truncated |= all.calls.len() > limit;
        all.calls.truncate(limit);
        return Ok(all);
    }
    Ok(journal.records(filter, limit).await.map_err(failure)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspect {
    cid: String,
}

/// L7: what it is, and what it looks like.
async fn inspect(context: &Context<'_>) -> Outcome {
    let Inspect { cid } = context.arguments()?;
    let object = objects::whole(&context.hub.calls, &cid).await?;
    let text = String::from_utf8_lossy(&object);
    let value: Result<Value, _> = serde_json::from_str(&text);
    let (kind, attributes) = match &value {
        Ok(Value::Object(members)) => ("object", members.keys().cloned().collect()),
        Ok(Value::Array(_)) => ("array", Vec::new()),
        Ok(Value::String(_)) => ("string", Vec::new()),
        Ok(Value::Number(_)) => ("number", Vec::new()),
        Ok(Value::Bool(_)) => ("boolean", Vec::new()),
        Ok(Value::Null) => ("null", Vec::new()),
        Err(_) => ("bytes", Vec::new()),
    };
    Ok(Said::json(&json!({
        "cid": objects::bare(&cid),
        "type": kind,
        "repr": text,
        "attributes": attributes,
    })))
}
