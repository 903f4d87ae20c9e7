//! The envelope: what is read of a message, what is refused, and that nothing else of it changes
//! (invariant 5).

use mainstay_core::message::{self, Kind, Malformed, Method, Reference};
use proptest::prelude::*;

fn kind(text: &str) -> Kind {
    message::peek(text).expect("a message").kind
}

#[test]
fn requests_notifications_and_responses_are_told_apart() {
    let request = r#"{"id":"a","method":"tools/call","jsonrpc":"2.0"}"#;
    let Kind::Request { id, method } = kind(request) else {
        panic!("a request")
    };
    assert_eq!((id.get(request), method), (r#""a""#, Method::ToolsCall));

    assert_eq!(
        kind(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
        Kind::Notification {
            method: Method::Other
        }
    );

    for (text, expected_error) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, false),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#, true),
    ] {
        let Kind::Response { is_error, .. } = kind(text) else {
            panic!("a response")
        };
        assert_eq!(is_error, expected_error, "{text}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_code_and_its_id() {
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

#[test]
fn an_address_is_found_wherever_it_stands() {
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
fn an_address_that_could_be_read_two_ways_is_refused() {
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

/// Any JSON value, with numbers as people write them.
fn json() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "1.0",
        "1e3",
        "12345678901234567890123",
        "1e400",
        "-7.25E-2",
    ]);
    let leaf = prop_oneof![
        number.prop_map(str::to_owned),
        Just("null".to_owned()),
        Just(r#""\ud800 \u00e4 \/ \n""#.to_owned()),
        "\\PC{0,12}".prop_map(|text| message::quote(&text)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let space = prop::sample::select(vec!["", " ", "\n", "\r\n\t"]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), space.clone()).prop_map(
                |(items, space)| format!("[{space}{}]", items.join(&format!(",{space}")))
            ),
            (prop::collection::vec(("[a-z]{1,6}", inner), 0..5), space).prop_map(
                |(members, space)| {
                    let members: Vec<String> = members
                        .into_iter()
                        .enumerate()
                        .map(|(index, (key, value))| format!(r#""{key}{index}"{space}:{value}"#))
                        .collect();
                    format!("{{{space}{}}}", members.join(&format!("{space},")))
                }
            ),
        ]
    })
}

proptest! {
    /// Only the spans that are replaced differ, line breaks between tokens aside.
    #[test]
    fn a_splice_changes_nothing_else(arguments in json(), unknown in json(), id in "[a-z]{1,5}") {
        let text = format!(
            r#"{{"unknown":{unknown},"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"arguments":{arguments},"name":"a"}}}}"#
        );
        let envelope = message::peek(&text).expect("a message");
        let Kind::Request { id: span, .. } = envelope.kind else { panic!("a request") };
        let name = message::address(&text, &envelope).expect("an address").name.expect("a name");
        let spliced = message::splice(&text, &mut [(name.span, r#""b""#), (span, "17")]);
        let flat = |text: &str| text.replace(['\n', '\r'], "");
        prop_assert_eq!(
            spliced,
            format!(
                r#"{{"unknown":{},"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"arguments":{},"name":"b"}}}}"#,
                flat(&unknown),
                flat(&arguments),
            )
        );
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        // Whether it is an error is not the point here.
        if let Ok(envelope) = message::peek(&text) {
            drop(message::address(&text, &envelope));
        }
    }
}
