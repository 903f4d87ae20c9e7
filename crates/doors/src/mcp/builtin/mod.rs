//! Mainstay's own tools, in groups. A profile lists the tools of its groups, in addition to its
//! servers' tools or instead of them (docs/own-tools.md). The JSON file of a group has its
//! descriptors, and the Rust file of the same name its code. An own tool answers with one text of
//! JSON, or with the answer of a server.

/// Defines the tools of a group, in the order of its descriptors.
macro_rules! tools {
    ($($tool:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GroupTool {
            $($tool,)*
        }

        impl GroupTool {
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
    builtin::OwnToolGroup,
    failure::FailureKind,
    message::{self, Method, quote},
};
use mainstay_gateway::calls::{CallRefusal, RequestedCall};
use mainstay_transport::Frame;
use serde_json::Value;

use self::outcome::ToolOutput;
use crate::mcp::{endpoint::request::RequestContext, reply::RpcReply};

/// One of Mainstay's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTool {
    Meta(meta::GroupTool),
    External(external::GroupTool),
    Activity(activity::GroupTool),
    Records(records::GroupTool),
    Control(control::GroupTool),
}

/// The descriptors of these groups' tools, each as JSON on one line.
pub fn descriptors(groups: &[OwnToolGroup]) -> impl Iterator<Item = &str> {
    static ALL: LazyLock<BTreeMap<OwnToolGroup, Vec<String>>> =
        LazyLock::new(|| OwnToolGroup::ALL.map(|group| (group, read(group))).into());
    let group_tools = |group: &OwnToolGroup| ALL.get(group).into_iter().flatten();
    groups.iter().flat_map(group_tools).map(String::as_str)
}

fn read(group: OwnToolGroup) -> Vec<String> {
    let text = match group {
        OwnToolGroup::Meta => include_str!("meta.json"),
        OwnToolGroup::External => include_str!("external.json"),
        OwnToolGroup::Activity => include_str!("activity.json"),
        OwnToolGroup::Records => include_str!("records.json"),
        OwnToolGroup::Control => include_str!("control.json"),
    };
    let tools: Vec<Value> = serde_json::from_str(text).expect("our own JSON");
    tools.iter().map(Value::to_string).collect()
}

/// The tool with this name, if one of these groups has it.
pub fn find(groups: &[OwnToolGroup], name: &str) -> Option<OwnTool> {
    groups.iter().find_map(|group| match group {
        OwnToolGroup::Meta => meta::GroupTool::named(name).map(OwnTool::Meta),
        OwnToolGroup::External => external::GroupTool::named(name).map(OwnTool::External),
        OwnToolGroup::Activity => activity::GroupTool::named(name).map(OwnTool::Activity),
        OwnToolGroup::Records => records::GroupTool::named(name).map(OwnTool::Records),
        OwnToolGroup::Control => control::GroupTool::named(name).map(OwnTool::Control),
    })
}

impl OwnTool {
    /// The method of the request that the tool sends to a server, if any.
    const fn calls(self) -> Option<Method> {
        match self {
            Self::Meta(meta::GroupTool::Execute) | Self::External(external::GroupTool::Call) => {
                Some(Method::ToolsCall)
            }
            Self::External(external::GroupTool::ReadResource)
            | Self::Activity(activity::GroupTool::ReadResource) => Some(Method::ResourcesRead),
            Self::Activity(activity::GroupTool::GetPrompt) => Some(Method::PromptsGet),
            Self::Meta(_)
            | Self::External(_)
            | Self::Activity(_)
            | Self::Records(_)
            | Self::Control(_) => None,
        }
    }
}

/// The server request that a refused call of an own tool asked for, as far as its arguments are
/// readable. It goes into the record.
fn requested_call(method: Method, frame: &Frame) -> Option<RequestedCall> {
    let own_call = RequestedCall::from_frame(frame)?;
    let tool_arguments = own_call.arguments.as_deref().unwrap_or("{}");
    let text = |member| message::text_member(tool_arguments, member);
    let name = match method {
        Method::ResourcesRead => text("uri"),
        _ => text("name").or_else(|| text("tool")),
    };
    let Some(name) = name else {
        return Some(own_call);
    };
    let arguments = message::member(tool_arguments, "arguments")
        .or_else(|| message::member(tool_arguments, "args"));
    // The record takes only objects as arguments.
    let arguments = arguments.filter(|arguments| arguments.starts_with('{'));
    Some(RequestedCall {
        trace: own_call.trace,
        ..RequestedCall::new(method, name).with(arguments)
    })
}

/// Runs an own tool. A failure becomes a result with `isError`, because models read its text.
pub async fn call(tool: OwnTool, request: RequestContext<'_>) -> RpcReply {
    let (id, era, frame) = (request.id(), request.era(), request.frame);
    let outcome = match tool {
        OwnTool::Meta(tool) => meta::answer(tool, request).await,
        OwnTool::External(tool) => external::answer(tool, request).await,
        OwnTool::Activity(tool) => activity::answer(tool, request).await,
        OwnTool::Records(tool) => records::answer(tool, request).await,
        OwnTool::Control(tool) => control::answer(tool, request).await,
    };
    let mut call_refusal = None;
    let (json, is_error) = match outcome {
        Ok(ToolOutput::Server(reply)) => return reply,
        Ok(ToolOutput::Json(json)) => (json, false),
        Ok(ToolOutput::Failed(json)) => (json, true),
        Err(refusal) => {
            let body = refusal.body().to_string();
            let failure = refusal.into_failure();
            // Only an own tool that calls a server is recorded as a refused call.
            call_refusal = tool.calls().map(|method| CallRefusal {
                requested: requested_call(method, frame),
                failure: failure.clone(),
            });
            if failure.kind == FailureKind::Cancelled {
                return RpcReply::failure(id, &failure).refused_as(call_refusal);
            }
            (body, true)
        }
    };
    let is_error = if is_error { r#","isError":true"# } else { "" };
    let text = quote(&json);
    let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}]{is_error}}}"#);
    RpcReply::tool_result(id, &result, era).refused_as(call_refusal)
}

#[cfg(test)]
mod tests {
    use mainstay_core::message;

    use super::*;

    /// Every descriptor has a tool, and the core reserves the name of every tool.
    #[test]
    fn every_described_tool_can_be_called() {
        for group in OwnToolGroup::ALL {
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
        let external_tools = OwnToolGroup::External.tools();
        assert!(
            external_tools
                .iter()
                .all(|name| name.starts_with("external_"))
        );
        assert_eq!(
            (external_tools.len(), OwnToolGroup::Meta.tools().len()),
            (5, 6)
        );
    }

    /// Names are unique across groups. A profile may have all groups.
    #[test]
    fn no_two_groups_share_a_name() {
        let mut all: Vec<_> = OwnToolGroup::ALL
            .into_iter()
            .flat_map(OwnToolGroup::tools)
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    /// Descriptors are short, because every client spends context on them. They have one line,
    /// because stdio and SSE need that.
    #[test]
    fn descriptors_are_short_and_whole() {
        for tool in descriptors(&OwnToolGroup::ALL) {
            assert!(!tool.contains('\n') && tool.len() < 900, "{tool}");
            let tool: Value = serde_json::from_str(tool).expect("JSON");
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert!(tool["title"].is_string() && tool["annotations"].is_object());
            let description = tool["description"].as_str().expect("a description");
            assert!(description.len() < 200, "{description}");
        }
    }
}
