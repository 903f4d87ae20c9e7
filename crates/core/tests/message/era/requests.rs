//! Tests of requests that are translated to the other era (2026-07-28, "`_meta`").

use std::sync::Arc;

use mainstay_core::{
    era::{Caller, ClientCapabilities, LogLevel, Revision, modern, request},
    message::{self, Span},
};
use proptest::prelude::*;

use crate::json;

fn caller() -> Caller {
    Caller {
        revision: Revision::V2025_11_25,
        capabilities: Arc::new(ClientCapabilities::read(
            r#"{"roots":{"listChanged":true},"sampling":{},"tasks":{}}"#,
        )),
        client_info: Some(r#"{"name":"x","version":"1"}"#.into()),
        log_level: Some(LogLevel::Warning),
    }
}

const META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{}},"#,
    r#""io.modelcontextprotocol/logLevel":"warning""#,
);

#[test]
fn a_modern_request_describes_the_client_and_keeps_its_members() {
    for (before, after) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{META}}}}}}}"#),
        ),
        (
            r#"{"params":{"_meta":{"progressToken":7,"traceparent":"00-x"},"name":"a"},"x":1.0,"id":1,"method":"tools/call","jsonrpc":"2.0"}"#.to_owned(),
            format!(r#"{{"params":{{"_meta":{{"progressToken":7,"traceparent":"00-x",{META}}},"name":"a"}},"x":1.0,"id":1,"method":"tools/call","jsonrpc":"2.0"}}"#),
        ),
        // A description of the client in the request is replaced.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1","a":1,"io.modelcontextprotocol/protocolVersion":"2"}}}"#.to_owned(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{{{}}}}}}}"#, META.replacen(',', r#","a":1,"#, 1)),
        ),
    ] {
        assert_eq!(request::to_modern(&before, &caller()), after);
    }
    let silent_client = Caller {
        client_info: None,
        log_level: None,
        ..caller()
    };
    let text = request::to_modern(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        &silent_client,
    );
    let envelope = message::peek(&text).expect("a message");
    let meta = modern::request_meta(&text, &envelope).expect("a complete _meta");
    assert_eq!((meta.client_info, meta.log_level), (None, None));
}

#[test]
fn a_legacy_request_omits_the_description_of_the_client() {
    for (before, after) in [
        (
            format!(r#"{{"id":1,"params":{{"_meta":{{{META}}},"name":"a"}},"method":"tools/call","jsonrpc":"2.0"}}"#),
            r#"{"id":1,"params":{"name":"a"},"method":"tools/call","jsonrpc":"2.0"}"#,
        ),
        (
            format!(r#"{{"id":1,"params":{{"_meta":{{"traceparent":"00-x",{META},"progressToken":"t"}}}},"method":"x"}}"#),
            r#"{"id":1,"params":{"_meta":{"traceparent":"00-x","progressToken":"t"}},"method":"x"}"#,
        ),
        // Answers must not reach the server. In other methods, these members can mean anything.
        (
            r#"{"id":1,"method":"tools/call","params":{"inputResponses":{},"name":"a","requestState":"x"}}"#.to_owned(),
            r#"{"id":1,"method":"tools/call","params":{"name":"a"}}"#,
        ),
        (
            r#"{"id":1,"method":"x","params":{"requestState":"x"}}"#.to_owned(),
            r#"{"id":1,"method":"x","params":{"requestState":"x"}}"#,
        ),
    ] {
        assert_eq!(request::to_legacy(&before), after);
    }
}

proptest! {
    /// Translation in both directions leaves a legacy request unchanged: unknown members, order and
    /// numbers.
    #[test]
    fn members_of_both_eras_survive_translation_in_both_directions(
        arguments in json::value(),
        unknown in json::value(),
        token in json::value(),
        with_meta in any::<bool>(),
    ) {
        let without_breaks = |text: &str| text.replace(['\n', '\r'], "");
        let meta = if with_meta { format!(r#""_meta":{{"progressToken":{token},"a/b":{unknown}}},"#) } else { String::new() };
        let text = without_breaks(&format!(
            r#"{{"unknown":{unknown},"jsonrpc":"2.0","id":12345678901234567890123,"method":"tools/call","params":{{"arguments":{arguments},{meta}"name":"a"}}}}"#
        ));
        let modern_request = request::to_modern(&text, &caller());
        prop_assert!(modern_request.contains(META));
        prop_assert_eq!(request::to_legacy(&modern_request), text);
    }
}

/// The result of a single edit equals the result of the full translation.
#[test]
fn an_edit_equals_a_full_translation() {
    let apply_edit = |text: &str, edit: Option<(Span, String)>| {
        edit.map(|(span, new)| message::splice(text, &mut [(span, &new)]))
    };
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect(text);
    let mut edit_count = 0;
    for params in [
        "{}".to_owned(),
        " { } ".to_owned(),
        r#"{"name":"a","arguments":{"_meta":1}}"#.to_owned(),
        format!(r#"{{"_meta":{{{META}}}}}"#),
        format!(r#"{{"_meta" : {{{META}}} , "name":"a"}}"#),
        format!(r#"{{"name":"a", "_meta": {{{META}}}}}"#),
        format!(r#"{{"name":"a","_meta":{{{META}}},"arguments":{{}}}}"#),
        format!(r#"{{"_meta":{{"progressToken":"mine",{META}}},"name":"a"}}"#),
        format!(r#"{{"_meta":{{{META},"traceparent":"x"}},"name":"a"}}"#),
        format!(r#"{{"_meta":{{{META}}},"requestState":"s","inputResponses":{{}}}}"#),
        format!(r#"{{"\u005fmeta":{{{META}}},"name":"a"}}"#),
        format!(r#"{{"_meta":{{{META}}},"_meta":{{}}}}"#),
        r#"{"_meta":7}"#.to_owned(),
    ] {
        let text = message::request(Some(1), "tools/call", Some(&params));
        let envelope = message::peek(&text).expect("a message");
        let token = params.contains("progressToken").then_some("\"mine\"");
        let edit = request::edit_to_legacy(&text, &envelope, token);
        if let Some(legacy_request) = apply_edit(&text, edit) {
            assert_eq!(
                value(&legacy_request),
                value(&request::to_legacy(&text)),
                "{params}"
            );
            edit_count += 1;
        }
        let edit = request::edit_to_modern(&text, &envelope, &caller(), token);
        if let Some(modern_request) = apply_edit(&text, edit) {
            let full_translation = request::to_modern(&text, &caller());
            assert_eq!(value(&modern_request), value(&full_translation), "{params}");
            edit_count += 1;
        }
    }
    // A legacy client's `requestState` has to be removed, which needs several edits.
    assert_eq!(edit_count, 6 + 11, "the usual requests go the short way");
}
