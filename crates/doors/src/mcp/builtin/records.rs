//! Group `records`: reads call records and stored objects.

use std::cmp::Reverse;

use mainstay_api as api;
use mainstay_core::{
    message::JsonObjectEditor,
    record::{OBJECTS, Record, Status},
};
use mainstay_journal::{Journal, RecordFilter, RecordPage};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    context::Context,
    outcome::{ToolOutcome, ToolOutput, here},
    refusal::ToolRefusal,
};
use crate::mcp::{
    endpoint::request::RequestContext,
    kept_objects::{self, Reading},
};
use mainstay_doorway::json_views::records::{failure, journal};

tools! {
    GetCallRecords "get_call_records",
    InspectObject "inspect_object",
    BreakpointInspectObject "breakpoint_inspect_object",
}

/// Number of records in the output: the default and the maximum.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

/// Records that are examined for a client that may not read all: at a time, and in total. The total
/// takes a few seconds.
const PAGE_SIZE: usize = 500;
const MAX_EXAMINED: usize = 10_000;

/// Limits for the description of an object: characters of its text and of its members' names, and
/// number of names.
const MAX_SHOWN: usize = 16_000;
const MAX_ATTRIBUTES: usize = 1_000;

pub async fn answer(tool: GroupTool, request: RequestContext<'_>) -> ToolOutcome {
    let context = &Context::new(&request);
    match tool {
        GroupTool::GetCallRecords => here(request.cancelled, call_records(context)).await,
        GroupTool::InspectObject | GroupTool::BreakpointInspectObject => {
            here(request.cancelled, inspect(context)).await
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

async fn call_records(context: &Context<'_>) -> ToolOutcome {
    let query: Records = context.arguments()?;
    let status = query.status.map(|status_name| {
        let parsed_status = Status::parse(&status_name);
        parsed_status
            .ok_or_else(|| ToolRefusal::Arguments(format!("\"status\" cannot be {status_name:?}")))
    });
    let filter = RecordFilter {
        servers: query.server.into_iter().collect(),
        tools: query.tool.into_iter().collect(),
        statuses: status.transpose()?.into_iter().collect(),
        principal: context.reach().record_owner(),
        ..RecordFilter::default()
    };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let journal = journal(&context.gateway().calls)?;
    let RecordPage {
        calls,
        total_count,
        truncated: is_truncated,
        ..
    } = visible(context, journal, filter, limit).await?;
    let calls: Vec<_> = calls.iter().map(api::CallRecord::from).collect();
    Ok(ToolOutput::json(&json!({
        "calls": calls,
        "total_count": total_count,
        "truncated": is_truncated,
    })))
}

/// Finds records of calls to servers and tools that the client can see.
async fn visible(
    context: &Context<'_>,
    journal: &Journal,
    filter: RecordFilter,
    limit: usize,
) -> Result<RecordPage, ToolRefusal> {
    let parts = parts(context, filter)?;
    let max_examined = (MAX_EXAMINED / parts.len().max(1)).max(PAGE_SIZE);
    let mut merged_page = RecordPage::default();
    for part in parts {
        let page = if context.reach().is_everything() {
            journal.records(part.filter, limit).await.map_err(failure)?
        } else {
            examined(context, journal, part, limit, max_examined).await?
        };
        merged_page.calls.extend(page.calls);
        merged_page.total_count += page.total_count;
        merged_page.truncated |= page.truncated;
    }
    merged_page
        .calls
        .sort_by_key(|record: &Record| Reverse(record.id));
    merged_page.truncated |= merged_page.calls.len() > limit;
    merged_page.calls.truncate(limit);
    Ok(merged_page)
}

/// A part of the requested records, which is searched by one filter.
struct Part {
    filter: RecordFilter,
    /// True if another part has the refused calls.
    without_refused: bool,
}

/// Splits the requested records into disjoint parts: one for each server that the client can see,
/// and one for its refused calls.
fn parts(context: &Context<'_>, filter: RecordFilter) -> Result<Vec<Part>, ToolRefusal> {
    let full_part = |filter| Part {
        filter,
        without_refused: false,
    };
    if let Some(server) = filter.servers.first() {
        context.server(server)?;
        return Ok(vec![full_part(filter)]);
    }
    if context.has_all_servers() {
        return Ok(vec![full_part(filter)]);
    }
    let server_filter = |server| RecordFilter {
        servers: vec![server],
        ..filter.clone()
    };
    let servers = context.servers();
    let server_filters = servers
        .iter()
        .map(|server| server_filter(server.name.to_string()));
    if context.reach().is_everything() {
        // A call with an unknown server's name is recorded without a server.
        return Ok(server_filters
            .chain([server_filter(String::new())])
            .map(full_part)
            .collect());
    }
    let refused_filter = || RecordFilter {
        statuses: vec![Status::Refused],
        ..filter.clone()
    };
    let server_filters = server_filters.map(|filter| Part {
        filter,
        without_refused: true,
    });
    Ok(match filter.statuses.first() {
        None => server_filters
            .chain([full_part(refused_filter())])
            .collect(),
        Some(Status::Refused) => vec![full_part(refused_filter())],
        Some(_) => server_filters.collect(),
    })
}

/// Finds the newest records that the client may read. Examines at most `max_examined`.
async fn examined(
    context: &Context<'_>,
    journal: &Journal,
    part: Part,
    limit: usize,
    max_examined: usize,
) -> Result<RecordPage, ToolRefusal> {
    let reach = context.reach();
    let Part {
        mut filter,
        without_refused: excludes_refused,
    } = part;
    let (mut calls, mut total_count, mut examined_count) = (Vec::new(), 0, 0);
    loop {
        let page = journal.records(filter.clone(), PAGE_SIZE);
        let page = page.await.map_err(failure)?;
        examined_count += page.calls.len();
        for record in page.calls {
            let is_here = !excludes_refused || record.status != Status::Refused;
            let is_shown = reach.shows_record(&record) || context.made_refused(&record);
            if is_here && is_shown {
                total_count += 1;
                if calls.len() < limit {
                    calls.push(record);
                }
            }
        }
        filter.before = page.next;
        if page.next.is_none() || examined_count >= max_examined {
            return Ok(RecordPage {
                truncated: page.next.is_some() || total_count > calls.len() as u64,
                calls,
                total_count,
                ..RecordPage::default()
            });
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspect {
    cid: String,
}

/// Describes an object: type, size, beginning, and names of its members.
async fn inspect(context: &Context<'_>) -> ToolOutcome {
    let Inspect { cid } = context.arguments()?;
    let cid = kept_objects::bare(&cid).to_owned();
    let reach = context.reach();
    let calls = &context.gateway().calls;
    let read_result =
        context
            .shared
            .objects
            .read(calls, reach, &cid, Reading::AsText, |object, _| {
                describe(&object.raw)
            });
    let mut output = read_result.await?;
    if output["truncated"] == true {
        let uri = format!("{OBJECTS}{cid}");
        output["next"] =
            format!("read_object reads more of it, and so does the resource {uri}").into();
    }
    output["cid"] = cid.into();
    Ok(ToolOutput::json(&output))
}

/// Describes the text of an object.
fn describe(object: &str) -> Value {
    let json: Option<&RawValue> = serde_json::from_str(object).ok();
    let kind = match json.and_then(|json| json.get().bytes().next()) {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        Some(_) => "number",
        None => "bytes",
    };
    let members = JsonObjectEditor::read(object).unwrap_or_default();
    let mut room = MAX_SHOWN;
    let has_room = |name: &&str| {
        let remaining_room = room.checked_sub(name.len());
        room = remaining_room.unwrap_or_default();
        remaining_room.is_some()
    };
    let names = members.iter().map(|(name, _)| name);
    let attributes: Vec<&str> = names.take(MAX_ATTRIBUTES).take_while(has_room).collect();
    let repr: String = object.chars().take(MAX_SHOWN).collect();
    json!({
        "type": kind,
        "size": object.len(),
        "truncated": repr.len() < object.len() || attributes.len() < members.iter().count(),
        "repr": repr,
        "attributes": attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_looked_at_within_bounds() {
        for (object, kind) in [
            (r#"{"b": 1, "a": [2]}"#, "object"),
            ("[1]", "array"),
            (r#" "x""#, "string"),
            ("-1.5e3", "number"),
            ("true", "boolean"),
            ("null", "null"),
            ("{", "bytes"),
            ("", "bytes"),
        ] {
            let description = describe(object);
            assert_eq!(
                (&description["type"], &description["repr"]),
                (&json!(kind), &json!(object))
            );
            assert_eq!(
                (&description["size"], &description["truncated"]),
                (&json!(object.len()), &json!(false))
            );
            let names = if kind == "object" {
                json!(["b", "a"])
            } else {
                json!([])
            };
            assert_eq!(description["attributes"], names);
        }
        let long_description = describe(&format!(r#"{{"é": "{}"}}"#, "é".repeat(MAX_SHOWN)));
        assert_eq!(
            long_description["repr"]
                .as_str()
                .map(|text| text.chars().count()),
            Some(MAX_SHOWN)
        );
        assert_eq!(
            (
                &long_description["truncated"],
                &long_description["attributes"]
            ),
            (&json!(true), &json!(["é"]))
        );
        let many_description: Vec<String> = (0..=MAX_ATTRIBUTES)
            .map(|n| format!(r#""{n}":0"#))
            .collect();
        let many_description = describe(&format!("{{{}}}", many_description.join(",")));
        assert_eq!(many_description["truncated"], true);
        assert_eq!(
            many_description["attributes"].as_array().map(Vec::len),
            Some(MAX_ATTRIBUTES)
        );
        let wide_description = describe(&format!(r#"{{"{}": 0}}"#, "x".repeat(MAX_SHOWN + 1)));
        assert_eq!(wide_description["attributes"], json!([]));
    }
}
