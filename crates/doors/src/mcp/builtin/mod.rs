//! Mainstay's own tools, in groups that a profile chooses: beside the tools of its servers, or in their
//! place (docs/own-tools.md).
//!
//! A JSON file holds the descriptions of a group's tools, the Rust file of the same name holds the
//! code. A result is one text that holds JSON, unless a server's own answer is passed on.

/// The tools of a group, in the order of its descriptors.
macro_rules! tools {
    ($($tool:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Tool {
            $($tool,)*
        }

        impl Tool {
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$tool),)*
                    _ => None,
                }
            }
        }
    };
}

mod activity;
mod browse;
mod context;
mod control;
pub mod excerpt;
mod external;
mod found;
mod meta;
pub mod objects;
mod outcome;
pub mod reach;
mod records;
pub mod refusal;

use std::{collections::BTreeMap, sync::LazyLock};

use mainstay_core::{
    builtin::Group,
    failure::FailureKind,
    message::{self, Method, quote},
};
use mainstay_gateway::calls::{CallRefusal, RequestedCall};
use mainstay_transport::Frame;
use serde_json::Value;

use self::outcome::ToolOutput;
use crate::mcp::{endpoint::request::RequestContext, reply::Reply};

/// One of our own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Meta(meta::Tool),
    External(external::Tool),
    Activity(activity::Tool),
    Records(records::Tool),
    Control(control::Tool),
}

/// What the tools of these groups say of themselves: each JSON text on one line.
pub fn descriptors(groups: &[Group]) -> impl Iterator<Item = &str> {
    static ALL: LazyLock<BTreeMap<Group, Vec<String>>> =
        LazyLock::new(|| Group::ALL.map(|group| (group, read(group))).into());
    let of_group = |group: &Group| ALL.get(group).into_iter().flatten();
    groups.iter().flat_map(of_group).map(String::as_str)
}

fn read(group: Group) -> Vec<String> {
    let text = match group {
        Group::Meta => include_str!("meta.json"),
        Group::External => include_str!("external.json"),
        Group::Activity => include_str!("activity.json"),
        Group::Records => include_str!("records.json"),
        Group::Control => include_str!("control.json"),
    };
    let tools: Vec<Value> = serde_json::from_str(text).expect("our own JSON");
    tools.iter().map(Value::to_string).collect()
}

/// The tool of this name, if one of these groups has it.
pub fn find(groups: &[Group], name: &str) -> Option<Tool> {
    groups.iter().find_map(|group| match group {
        Group::Meta => meta::Tool::named(name).map(Tool::Meta),
        Group::External => external::Tool::named(name).map(Tool::External),
        Group::Activity => activity::Tool::named(name).map(Tool::Activity),
        Group::Records => records::Tool::named(name).map(Tool::Records),
        Group::Control => control::Tool::named(name).map(Tool::Control),
    })
}

impl Tool {
    /// The method of the server's that it calls for its client, if it makes such a call.
    const fn calls(self) -> Option<Method> {
        match self {
            Self::Meta(meta::Tool::Execute) | Self::External(external::Tool::Call) => {
                Some(Method::ToolsCall)
            }
            Self::External(external::Tool::ReadResource)
            | Self::Activity(activity::Tool::ReadResource) => Some(Method::ResourcesRead),
            Self::Activity(activity::Tool::GetPrompt) => Some(Method::PromptsGet),
            Self::Meta(_)
            | Self::External(_)
            | Self::Activity(_)
            | Self::Records(_)
            | Self::Control(_) => None,
        }
    }
}

/// What a tool that calls a server was to call, as far as its arguments tell.
fn wanted(method: Method, frame: &Frame) -> Option<RequestedCall> {
    let own = RequestedCall::of(frame)?;
    let given = own.arguments.as_deref().unwrap_or("{}");
    let text = |member| message::text_member(given, member);
    let name = match method {
        Method::ResourcesRead => text("uri"),
        _ => text("name").or_else(|| text("tool")),
    };
    let Some(name) = name else { return Some(own) };
    let arguments = message::member(given, "arguments").or_else(|| message::member(given, "args"));
    // What is no object is no arguments.
    let arguments = arguments.filter(|it| it.starts_with('{'));
    Some(RequestedCall {
        trace: own.trace,
        ..RequestedCall::new(method, name).with(arguments)
    })
}

/// Calls a tool of ours.
pub async fn call(tool: Tool, asked: RequestContext<'_>) -> Reply {
    let (id, era, frame) = (asked.id(), asked.era(), asked.frame);
    let outcome = match tool {
        Tool::Meta(tool) => meta::answer(tool, asked).await,
        Tool::External(tool) => external::answer(tool, asked).await,
        Tool::Activity(tool) => activity::answer(tool, asked).await,
        Tool::Records(tool) => records::answer(tool, asked).await,
        Tool::Control(tool) => control::answer(tool, asked).await,
    };
    let mut refused = None;
    let (json, failed) = match outcome {
        Ok(ToolOutput::Server(reply)) => return reply,
        Ok(ToolOutput::Json(json)) => (json, false),
        Ok(ToolOutput::Failed(json)) => (json, true),
        Err(refusal) => {
            let body = refusal.body().to_string();
            let failure = refusal.into_failure();
            // What the other tools do is no call of a server.
            refused = tool.calls().map(|method| CallRefusal {
                wanted: wanted(method, frame),
                failure: failure.clone(),
            });
            if failure.kind == FailureKind::Cancelled {
                return Reply::failure(id, &failure).refused_as(refused);
            }
            (body, true)
        }
    };
    let failed = if failed { r#","isError":true"# } else { "" };
    let text = quote(&json);
    let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}]{failed}}}"#);
    Reply::tool_result(id, &result, era).refused_as(refused)
}

#[cfg(test)]
mod tests {
    use mainstay_core::message;

    use super::*;

    /// What is listed can be called, under the names that the core reserves.
    #[test]
    fn what_is_described_is_what_can_be_called() {
        for group in Group::ALL {
            let groups = [group];
            let described: Vec<_> = descriptors(&groups)
                .map(|tool| message::text_member(tool, "name").expect("a name"))
                .collect();
            assert_eq!(described, group.tools(), "{}", group.name());
            for name in group.tools() {
                assert!(find(&groups, name).is_some(), "{name}");
                assert!(find(&[], name).is_none(), "{name}");
            }
        }
        let external = Group::External.tools();
        assert!(external.iter().all(|name| name.starts_with("external_")));
        assert_eq!((external.len(), Group::Meta.tools().len()), (5, 6));
    }

    /// Names are unique among all groups, since a profile may choose them all.
    #[test]
    fn no_two_groups_share_a_name() {
        let mut all: Vec<_> = Group::ALL.into_iter().flat_map(Group::tools).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    /// Descriptors cost every client's context: short, and on one line for stdio and SSE.
    #[test]
    fn descriptors_are_short_and_whole() {
        for tool in descriptors(&Group::ALL) {
            assert!(!tool.contains('\n') && tool.len() < 900, "{tool}");
            let tool: Value = serde_json::from_str(tool).expect("JSON");
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert!(tool["title"].is_string() && tool["annotations"].is_object());
            let described = tool["description"].as_str().expect("a description");
            assert!(described.len() < 200, "{described}");
        }
    }
}
