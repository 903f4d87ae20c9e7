//! The echo backend, without its transport: one JSON-RPC message in, at most one out.
//!
//! It does the least a correct MCP server can do, so that what is measured is the proxy in
//! front of it: payloads are peeked at, never parsed into values, and echoed as they came.

use std::borrow::Cow;
use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Era;

/// What a message led to; the answer itself stands in the caller's buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Handled {
    /// An answer to `initialize`: over HTTP it opens a session.
    Opened,
    /// An answer to any other request.
    Answered,
    /// A notification or a response: nothing to say.
    Accepted,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

const TOOLS: &str = r#""tools":[{"name":"echo","description":"Returns its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}}]"#;

/// What modern results say of themselves, alone, before more, and where they may be kept.
const COMPLETE: &str = r#""resultType":"complete""#;
const MORE: &str = r#""resultType":"complete","#;
const CACHED: &str = r#","ttlMs":60000,"cacheScope":"public""#;

/// Answers `message`, appending the answer to `out` without a line break.
pub fn answer(era: Era, message: &[u8], out: &mut Vec<u8>) -> Handled {
    let Ok(message) = serde_json::from_slice::<Message>(message) else {
        error(out, "null", -32700, "not a JSON-RPC message");
        return Handled::Answered;
    };
    let (false, Some(id)) = (message.method.is_empty(), message.id) else {
        return Handled::Accepted;
    };
    let id = id.get();
    let version = era.version();
    match (era, message.method.as_ref()) {
        (Era::Legacy, "initialize") => {
            let info = format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench-echo","version":"1"}}}}"#
            );
            result(out, id, &info);
            return Handled::Opened;
        }
        (Era::Modern, "server/discover") => {
            let info = format!(
                r#"{{{COMPLETE}{CACHED},"supportedVersions":["{version}"],"capabilities":{{"tools":{{}}}},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"bench-echo","version":"1"}}}}}}"#
            );
            result(out, id, &info);
        }
        (Era::Legacy, "ping") => result(out, id, "{}"),
        (Era::Legacy, "tools/list") => result(out, id, &format!("{{{TOOLS}}}")),
        (Era::Modern, "tools/list") => {
            result(out, id, &format!("{{{COMPLETE}{CACHED},{TOOLS}}}"));
        }
        (Era::Legacy, "tools/call") => call(out, id, "", message.params),
        (Era::Modern, "tools/call") => call(out, id, MORE, message.params),
        _ => error(out, id, -32601, "unknown method"),
    }
    Handled::Answered
}

fn call(out: &mut Vec<u8>, id: &str, more: &str, params: Option<&RawValue>) {
    let call = params.and_then(|params| serde_json::from_str::<Call>(params.get()).ok());
    match call {
        Some(call) if call.name == "echo" => {
            let text = call.arguments.text.get();
            write(
                out,
                format_args!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{{more}"content":[{{"type":"text","text":{text}}}]}}}}"#
                ),
            );
        }
        Some(_) => error(out, id, -32602, "unknown tool"),
        None => error(out, id, -32602, "expected name and arguments.text"),
    }
}

fn result(out: &mut Vec<u8>, id: &str, result: &str) {
    write(
        out,
        format_args!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
    );
}

fn error(out: &mut Vec<u8>, id: &str, code: i32, message: &str) {
    write(
        out,
        format_args!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#
        ),
    );
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, handled: &Handled, expect: &str) {
        let mut out = Vec::new();
        assert_eq!(&answer(Era::Legacy, message.as_bytes(), &mut out), handled);
        assert_eq!(String::from_utf8(out).expect("JSON is text"), expect);
    }

    #[test]
    fn a_call_returns_its_text_as_it_was_spelled() {
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"\u00e9 \"x\""}}}"#,
            &Handled::Answered,
            r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"\u00e9 \"x\""}]}}"#,
        );
    }

    #[test]
    fn notifications_and_responses_get_no_answer() {
        check(
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            &Handled::Accepted,
            "",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            &Handled::Accepted,
            "",
        );
    }

    #[test]
    fn what_it_cannot_do_is_an_error() {
        check(
            "{",
            &Handled::Answered,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a JSON-RPC message"}}"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"text":""}}}"#,
            &Handled::Answered,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool"}}"#,
        );
    }

    #[test]
    fn each_era_has_its_opening_and_its_results() {
        let mut out = Vec::new();
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
        answer(Era::Modern, call, &mut out);
        let text = String::from_utf8_lossy(&out);
        assert!(
            text.contains(r#""result":{"resultType":"complete","content""#),
            "{text}"
        );
        for (era, opening) in [
            (Era::Modern, "initialize"),
            (Era::Legacy, "server/discover"),
        ] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{opening}"}}"#);
            let mut out = Vec::new();
            answer(era, request.as_bytes(), &mut out);
            assert!(String::from_utf8_lossy(&out).contains("-32601"));
        }
    }
}
