//! Tests of the envelope: which members are read, which messages are refused, and which bytes stay
//! unchanged (invariant 5).

use mainstay_core::message::{self, JsonObjectEditor, Malformed, MessageKind, Method, Reference};
use proptest::prelude::*;

use crate::json;

fn kind(text: &str) -> MessageKind {
    message::peek(text).expect("a message").kind
}

#[test]
fn requests_notifications_and_responses_are_distinguished() {
    let request = r#"{"id":"a","method":"tools/call","jsonrpc":"2.0"}"#;
    let MessageKind::Request { id, method } = kind(request) else {
        panic!("a request")
    };
    assert_eq!((id.get(request), method), (r#""a""#, Method::ToolsCall));

    assert_eq!(
        kind(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
        MessageKind::Notification {
            method: Method::Other
        }
    );

    for (text, expected_error) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, false),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#, true),
    ] {
        let MessageKind::Response { is_error, .. } = kind(text) else {
            panic!("a response")
        };
        assert_eq!(is_error, expected_error, "{text}");
    }
}

#[test]
fn an_invalid_message_is_refused_with_its_code_and_id() {
    for (text, code, id) in [
        ("", -32700, None),
        ("{", -32700, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"} x"#, -32700, None),
        ("[]", -32600, None),
        ("7", -32600, None),
        (r#"{"id":1,"method":"x"}"#, -32600, Some("1")),
        (
            r#"{"jsonrpc":"1.0","id":"a","method":"x"}"#,
            -32600,
            Some(r#""a""#),
        ),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, None),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            -32600,
            None,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
            -32600,
            Some("1"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":2}"#,
            -32600,
            Some("1"),
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, Some("1")),
        (r#"{"jsonrpc":"2.0","result":1}"#, -32600, None),
    ] {
        let error: Malformed = message::peek(text).expect_err(text);
        assert_eq!((error.code(), error.id()), (code, id), "{text}");
    }
}

/// A parser that ignores case or confuses similar letters must not read another message.
#[test]
fn a_lookalike_member_is_refused() {
    let call = |extra: &str, inner: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call"{extra},"params":{{"name":"a"{inner}}}}}"#
        )
    };
    for lookalike in [
        "ID",
        "Id",
        "id\\u0000",
        "METHOD",
        "param\\u017f",
        "Params",
        "Result",
        "\u{17f}Error",
    ] {
        let is_like = lookalike != "\u{17f}Error";
        let text = call(&format!(r#","{lookalike}":5"#), "");
        assert_eq!(message::peek(&text).is_err(), is_like, "{text}");
    }
    for lookalike in [
        "Name",
        "nam\\u0045",
        "NAME\\u0000",
        "Arguments",
        "URI",
        "_META",
        "requeststate",
        "Tas\u{212a}",
    ] {
        let text = call("", &format!(r#","{lookalike}":5"#));
        let error = message::peek(&text).expect_err(&text);
        assert_eq!((error.code(), error.id()), (-32600, Some("1")), "{text}");
        assert!(error.to_string().contains("ambiguous"), "{error}");
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"{lookalike}":5}},"x":5}}"#);
        message::peek(&answer).expect("results are the server's own");
    }
    for lookalike in ["ProgressToken", "io.modelcontextprotocol/ProtocolVersion"] {
        let text = call("", &format!(r#","_meta":{{"{lookalike}":1}}"#));
        message::peek(&text).expect_err(&text);
    }
    let text = call(
        r#","other":1"#,
        r#","names":1,"_meta":{"x/Name":1},"cursor":"Name""#,
    );
    message::peek(&text).expect(&text);
}

#[test]
fn a_repeated_member_is_set_and_removed_as_one() {
    let mut object = JsonObjectEditor::read(r#"{"a":1,"b":2,"a":3}"#).expect("an object");
    assert_eq!((object.get("a"), object.count("a")), (Some("3"), 2));
    object.set("a", "4");
    assert_eq!(object.to_string(), r#"{"a":4,"b":2}"#);
    let mut object = JsonObjectEditor::read(r#"{"a":1,"b":2,"a":3}"#).expect("an object");
    assert!(object.remove("a") && !object.remove("a"));
    assert_eq!(object.to_string(), r#"{"b":2}"#);
    assert!(JsonObjectEditor::read("[]").is_none() && JsonObjectEditor::read("{} x").is_none());
}

/// Only these four keys of `_meta` make a message modern. Legacy revisions have other keys with the
/// same prefix.
#[test]
fn a_request_with_a_description_of_the_client_is_recognised() {
    for (key, expected) in [
        (r"io.modelcontextprotocol/protocolVersion", true),
        (r"io.modelcontextprotocol\/clientInfo", true),
        (r"io.modelcontextprotocol\u002flogLevel", true),
        (r"io.modelcontextprotocol/clientCapabilities", true),
        (r"io.modelcontextprotocol/related-task", false),
        (r"traceparent", false),
    ] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"{key}":{{}}}}}}}}"#
        );
        let envelope = message::peek(&text).expect("a message");
        assert_eq!(envelope.has_request_meta(), expected, "{key}");
    }
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"io.modelcontextprotocol/clientInfo":{}}}"#;
    assert!(!message::peek(text).expect("a message").has_request_meta());
}

#[test]
fn every_method_is_found_by_its_name() {
    for name in [
        "server/discover",
        "subscriptions/listen",
        "notifications/subscriptions/acknowledged",
        "notifications/elicitation/complete",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tasks/cancel",
        "notifications/tasks",
        "notifications/tasks/status",
    ] {
        assert_eq!(Method::from_name(name).name(), name);
    }
    assert_eq!(Method::from_name("tasks"), Method::Other);
}

#[test]
fn an_address_is_found_at_any_position() {
    let text = r#"{"params":{"arguments":{"name":"no"},"_meta":{"x":1,"progressToken":7},"name":"t\u00e4g"},"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
    let address =
        message::address(text, &message::peek(text).expect("a message")).expect("an address");
    assert_eq!(address.name.expect("a name").value, "täg");
    assert_eq!(address.progress_token.expect("a token").get(text), "7");

    let text = r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"x://{a}"}}}"#;
    let address =
        message::address(text, &message::peek(text).expect("a message")).expect("an address");
    assert!(matches!(address.reference, Some(Reference::Resource(uri)) if uri.value == "x://{a}"));
}

#[test]
fn an_ambiguous_address_is_refused() {
    for params in [
        r#"{"name":"a","name":"b"}"#,
        r#"{"_meta":{"progressToken":1},"_meta":{"progressToken":2}}"#,
        r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
        r#"{"name":7}"#,
        r#"{"_meta":{"progressToken":{}}}"#,
        r#"{"ref":{"type":"ref/prompt"}}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let envelope = message::peek(&text).expect("a message");
        assert!(message::address(&text, &envelope).is_err(), "{params}");
    }
}

proptest! {
    /// A splice changes only its spans, and removes line breaks between tokens.
    #[test]
    fn a_splice_changes_nothing_else(arguments in json::value(), unknown in json::value(), id in "[a-z]{1,5}") {
        let text = format!(
            r#"{{"unknown":{unknown},"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"arguments":{arguments},"name":"a"}}}}"#
        );
        let envelope = message::peek(&text).expect("a message");
        let MessageKind::Request { id: span, .. } = envelope.kind else { panic!("a request") };
        let name = message::address(&text, &envelope).expect("an address").name.expect("a name");
        let spliced_text = message::splice(&text, &mut [(name.span, r#""b""#), (span, "17")]);
        let without_breaks = |text: &str| text.replace(['\n', '\r'], "");
        prop_assert_eq!(
            spliced_text,
            format!(
                r#"{{"unknown":{},"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"arguments":{},"name":"b"}}}}"#,
                without_breaks(&unknown),
                without_breaks(&arguments),
            )
        );
    }

    /// An object is written unchanged, and each member is found by its name.
    #[test]
    fn an_object_keeps_its_other_members(
        values in prop::collection::vec(json::value(), 0..5),
        space in prop::sample::select(vec!["", " ", "\n"]),
    ) {
        let member = |(index, value)| format!(r#""\u006b{index}"{space}:{space}{value}"#);
        let members: Vec<String> = values.iter().enumerate().map(member).collect();
        let text = format!("{{{space}{}{space}}}", members.join(&format!("{space},{space}")));
        let without_breaks = |text: &str| text.replace(['\n', '\r'], "");
        let mut object = JsonObjectEditor::read(&text).expect("an object");
        prop_assert_eq!(object.to_string(), format!("{{{}}}", without_breaks(&members.join(","))));
        for (index, value) in values.iter().enumerate() {
            prop_assert_eq!(object.get(&format!("k{index}")), Some(&**value));
        }
        object.set("k1", "1");
        object.remove("k0");
        let mut expected: Vec<String> = members.iter().map(|member| without_breaks(member)).collect();
        match expected.get_mut(1) {
            Some(second) => *second = r#""k1":1"#.to_owned(),
            None => expected.push(r#""k1":1"#.to_owned()),
        }
        let expected = &expected[usize::from(!values.is_empty())..];
        prop_assert_eq!(object.to_string(), format!("{{{}}}", expected.join(",")));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        // This fails only by a panic.
        if let Ok(envelope) = message::peek(&text) {
            drop(message::address(&text, &envelope));
        }
    }
}

/// [`message::with_body`] returns the same envelope as a new peek.
#[test]
fn a_response_with_a_new_body_has_its_envelope() {
    for text in [
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
        r#"{"result": {"a":1} , "id" : "x", "jsonrpc":"2.0"}"#,
        r#"{"error":{"code":1,"message":"no"},"jsonrpc":"2.0","id":null}"#,
    ] {
        let envelope = message::peek(text).expect(text);
        for body in ["{}", r#"{"code":1,"message":"a longer one than before"}"#] {
            let (changed_text, changed_envelope) =
                message::with_body(text, &envelope, body).expect(text);
            assert_eq!(
                changed_envelope,
                message::peek(&changed_text).expect(&changed_text)
            );
            assert!(changed_text.contains(body));
        }
    }
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let envelope = message::peek(request).expect(request);
    assert_eq!(message::with_body(request, &envelope, "{}"), None);
}
