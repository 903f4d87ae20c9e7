//! The parameters of a server's tools that are repeated in headers (`x-mcp-header`; specification 2026-07-28,
//! "Custom Headers from Tool Parameters"). Every list of tools that passes updates them.

use std::collections::HashMap;

use mainstay_core::{
    era::headers::{InvalidHeader, ParamHeader, param_headers, values},
    ids::ServerName,
    message::{self, array, items},
};
use parking_lot::{Mutex, MutexGuard};

use crate::Frame;

/// The maximum number of stored annotated tools. Beyond it, all are dropped. The list is then read again when
/// the server refuses a call.
const MAX_ANNOTATED: usize = 10_000;

/// The annotated tools of one server, by name. Other tools have no headers.
#[derive(Debug, Default)]
pub struct ToolHeaders(Mutex<HashMap<Box<str>, Annotated>>);

type Annotated = Result<Vec<ParamHeader>, InvalidHeader>;

impl ToolHeaders {
    fn tools(&self) -> MutexGuard<'_, HashMap<Box<str>, Annotated>> {
        // Held for map operations, never across an await.
        self.0.lock()
    }

    /// Stores the annotations in an answer to `tools/list`, and returns the answer without invalid tools.
    pub fn update(&self, server: &ServerName, answer: Frame) -> Frame {
        let Some(result) = answer.result() else {
            return answer;
        };
        let Some(listed) = message::member(result, "tools").and_then(items) else {
            return answer;
        };
        let mut tools = self.tools();
        let valid: Vec<&str> = listed
            .iter()
            .copied()
            .filter(|tool| {
                let Some(name) = message::text_member(tool, "name") else {
                    return true;
                };
                let schema = message::member(tool, "inputSchema").unwrap_or("{}");
                let annotated = param_headers(schema);
                if let Err(reason) = &annotated {
                    tracing::warn!(%server, tool = &*name, %reason, "a tool was dropped: its definition is invalid");
                }
                let is_valid = annotated.is_ok();
                if annotated.as_ref().is_ok_and(Vec::is_empty) {
                    tools.remove(&*name);
                } else {
                    if tools.len() >= MAX_ANNOTATED {
                        tools.clear();
                    }
                    tools.insert((*name).into(), annotated);
                }
                is_valid
            })
            .collect();
        drop(tools);
        if valid.len() == listed.len() {
            return answer;
        }
        let mut changed = message::JsonObjectEditor::read(result).unwrap_or_default();
        let valid = array(&valid);
        changed.set("tools", &valid);
        let changed = changed.to_string();
        answer.with_body(&changed)
    }

    /// The headers of a call with these `arguments` (JSON text). Most tools have none. Returns an error for a
    /// tool with an invalid definition, which must not be called.
    pub fn values<'a>(
        &self,
        tool: &str,
        arguments: impl FnOnce() -> &'a str,
    ) -> Result<Vec<(String, String)>, InvalidHeader> {
        match self.tools().get(tool) {
            None => Ok(Vec::new()),
            Some(Ok(params)) => Ok(values(params, arguments())),
            Some(Err(invalid)) => Err(invalid.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tools: &str) -> Frame {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}],"ttlMs":5}}}}"#);
        Frame::read(text.into()).expect("a response")
    }

    fn tool(name: &str, kind: &str) -> String {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"properties":{{"a":{{"type":"{kind}","x-mcp-header":"A"}}}}}}}}"#
        )
    }

    /// SEP-2243: an invalid tool is not listed and not called. The other tools are not affected.
    #[test]
    fn an_invalid_tool_is_dropped_and_refused_until_it_is_listed_otherwise() {
        let server = ServerName::new("s").expect("a legal name");
        let headers = ToolHeaders::default();
        let (good, bad) = (tool("good", "string"), tool("bad", "number"));
        let answer = headers.update(&server, list(&format!("{good},{bad}")));
        assert_eq!(answer.text(), list(&good).text());
        let call = |tool| headers.values(tool, || r#"{"a":"x"}"#);
        assert_eq!(call("good"), Ok(vec![("Mcp-Param-A".into(), "x".into())]));
        assert_eq!(call("unknown"), Ok(Vec::new()));
        call("bad").expect_err("an invalid tool");

        let mended_tool = tool("bad", "boolean");
        headers.update(&server, list(&mended_tool));
        assert_eq!(call("bad"), Ok(vec![("Mcp-Param-A".into(), "x".into())]));
        headers.update(&server, list(r#"{"name":"good"}"#));
        assert_eq!(call("good"), Ok(Vec::new()));
    }
}
