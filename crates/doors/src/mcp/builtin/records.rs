//! Group `records`: the records of calls, and the objects that are kept.

use std::cmp::Reverse;

use mainstay_api as api;
use mainstay_core::{
    message::Object,
    record::{OBJECTS, Record, Status},
};
use mainstay_journal::{Filter, Journal, Page};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    context::Context,
    outcome::{Outcome, ToolOutput, here},
    refusal::Refusal,
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

/// Records that are shown: the default, and the most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

/// Records that are looked through for a client that may not see all of them, at a time and at most: some
/// seconds' work.
const LOOKED_THROUGH: usize = 500;
const MAX_LOOKED_THROUGH: usize = 10_000;

/// Characters of an object that are shown, and of its members' names; and how many of those.
const MAX_SHOWN: usize = 16_000;
const MAX_ATTRIBUTES: usize = 1_000;

pub async fn answer(tool: Tool, asked: RequestContext<'_>) -> Outcome {
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
        servers: wanted.server.into_iter().collect(),
        tools: wanted.tool.into_iter().collect(),
        statuses: status.transpose()?.into_iter().collect(),
        whose: context.reach().whose(),
        ..Filter::default()
    };
    let limit = wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let journal = journal(&context.gateway().calls)?;
    let Page {
        calls,
        total_count,
        truncated,
        ..
    } = visible(context, journal, filter, limit).await?;
    let calls: Vec<_> = calls.iter().map(api::CallRecord::from).collect();
    Ok(ToolOutput::json(&json!({
        "calls": calls,
        "total_count": total_count,
        "truncated": truncated,
    })))
}

/// Records of the client's own calls to what it sees: what is hidden from it is not told by its calls
/// either.
async fn visible(
    context: &Context<'_>,
    journal: &Journal,
    filter: Filter,
    limit: usize,
) -> Result<Page, Refusal> {
    let parts = parts(context, filter)?;
    let most = (MAX_LOOKED_THROUGH / parts.len().max(1)).max(LOOKED_THROUGH);
    let mut all = Page::default();
    for part in parts {
        let page = if context.reach().is_everything() {
            journal.records(part.filter, limit).await.map_err(failure)?
        } else {
            looked_through(context, journal, part, limit, most).await?
        };
        all.calls.extend(page.calls);
        all.total_count += page.total_count;
        all.truncated |= page.truncated;
    }
    all.calls.sort_by_key(|record: &Record| Reverse(record.id));
    all.truncated |= all.calls.len() > limit;
    all.calls.truncate(limit);
    Ok(all)
}

/// Some of the records that are asked for.
struct Part {
    filter: Filter,
    /// Refused calls are another part.
    without_refused: bool,
}

/// The records that are asked for, in parts that have no record in common: of each server that the client
/// sees, and its refused calls, which may name what it does not see.
fn parts(context: &Context<'_>, filter: Filter) -> Result<Vec<Part>, Refusal> {
    let whole = |filter| Part {
        filter,
        without_refused: false,
    };
    if let Some(server) = filter.servers.first() {
        context.server(server)?;
        return Ok(vec![whole(filter)]);
    }
    if context.has_all_servers() {
        return Ok(vec![whole(filter)]);
    }
    let at = |server| Filter {
        servers: vec![server],
        ..filter.clone()
    };
    let servers = context.servers();
    let of_servers = servers.iter().map(|server| at(server.name.to_string()));
    if context.reach().is_everything() {
        // A name that is no server's is recorded without one.
        return Ok(of_servers.chain([at(String::new())]).map(whole).collect());
    }
    let refused = || Filter {
        statuses: vec![Status::Refused],
        ..filter.clone()
    };
    let of_servers = of_servers.map(|filter| Part {
        filter,
        without_refused: true,
    });
    Ok(match filter.statuses.first() {
        None => of_servers.chain([whole(refused())]).collect(),
        Some(Status::Refused) => vec![whole(refused())],
        Some(_) => of_servers.collect(),
    })
}

/// The newest records that the client may see, among `most`.
async fn looked_through(
    context: &Context<'_>,
    journal: &Journal,
    part: Part,
    limit: usize,
    most: usize,
) -> Result<Page, Refusal> {
    let reach = context.reach();
    let Part {
        mut filter,
        without_refused,
    } = part;
    let (mut calls, mut total_count, mut looked) = (Vec::new(), 0, 0);
    loop {
        let page = journal.records(filter.clone(), LOOKED_THROUGH);
        let page = page.await.map_err(failure)?;
        looked += page.calls.len();
        for record in page.calls {
            let is_here = !without_refused || record.status != Status::Refused;
            let is_shown = reach.shows_record(&record) || context.made_refused(&record);
            if is_here && is_shown {
                total_count += 1;
                if calls.len() < limit {
                    calls.push(record);
                }
            }
        }
        filter.before = page.next;
        if page.next.is_none() || looked >= most {
            return Ok(Page {
                truncated: page.next.is_some() || total_count > calls.len() as u64,
                calls,
                total_count,
                ..Page::default()
            });
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspect {
    cid: String,
}

/// What the object is, and what it looks like.
async fn inspect(context: &Context<'_>) -> Outcome {
    let Inspect { cid } = context.arguments()?;
    let cid = kept_objects::bare(&cid).to_owned();
    let reach = context.reach();
    let calls = &context.gateway().calls;
    let read = context
        .shared
        .objects
        .read(calls, reach, &cid, Reading::AsText, |object, _| {
            look(&object.raw)
        });
    let mut said = read.await?;
    if said["truncated"] == true {
        let uri = format!("{OBJECTS}{cid}");
        said["next"] =
            format!("read_object reads more of it, and so does the resource {uri}").into();
    }
    said["cid"] = cid.into();
    Ok(ToolOutput::json(&said))
}

/// What an object looks like, as far as that is short.
fn look(object: &str) -> Value {
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
    let members = Object::read(object).unwrap_or_default();
    let mut room = MAX_SHOWN;
    let fits = |name: &&str| {
        let left = room.checked_sub(name.len());
        room = left.unwrap_or_default();
        left.is_some()
    };
    let names = members.iter().map(|(name, _)| name);
    let attributes: Vec<&str> = names.take(MAX_ATTRIBUTES).take_while(fits).collect();
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
            let seen = look(object);
            assert_eq!(
                (&seen["type"], &seen["repr"]),
                (&json!(kind), &json!(object))
            );
            assert_eq!(
                (&seen["size"], &seen["truncated"]),
                (&json!(object.len()), &json!(false))
            );
            let names = if kind == "object" {
                json!(["b", "a"])
            } else {
                json!([])
            };
            assert_eq!(seen["attributes"], names);
        }
        let long = look(&format!(r#"{{"é": "{}"}}"#, "é".repeat(MAX_SHOWN)));
        assert_eq!(
            long["repr"].as_str().map(|it| it.chars().count()),
            Some(MAX_SHOWN)
        );
        assert_eq!(
            (&long["truncated"], &long["attributes"]),
            (&json!(true), &json!(["é"]))
        );
        let many: Vec<String> = (0..=MAX_ATTRIBUTES)
            .map(|n| format!(r#""{n}":0"#))
            .collect();
        let many = look(&format!("{{{}}}", many.join(",")));
        assert_eq!(many["truncated"], true);
        assert_eq!(
            many["attributes"].as_array().map(Vec::len),
            Some(MAX_ATTRIBUTES)
        );
        let wide = look(&format!(r#"{{"{}": 0}}"#, "x".repeat(MAX_SHOWN + 1)));
        assert_eq!(wide["attributes"], json!([]));
    }
}
