//! Tests of headers that repeat the body (2026-07-28, "Streamable HTTP: Request Metadata", "Server
//! Validation").

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use mainstay_core::{
    era::{
        headers::{
            self, HeaderMismatch, InboundHeaders, InvalidHeader, ParamHeader, decode, encode,
        },
        modern::{self, RequestRefusal},
    },
    message,
};
use proptest::prelude::*;

/// Returns a function that reads a string member of these params.
fn string_param<'a>(params: &'a str) -> impl Fn(&'static str) -> Option<Cow<'a, str>> {
    move |member| message::text_member(params, member)
}

#[test]
fn values_are_encoded_as_the_specification_shows() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("", ""),
        ("a b", "a b"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("a\r\nb", "=?base64?YQ0KYg==?="),
        ("a\tb", "=?base64?YQli?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
        ("=?base64?", "=?base64?"),
    ] {
        assert_eq!(encode(value), header, "{value:?}");
        assert_eq!(decode(header).as_deref(), Ok(value), "{header}");
    }
}

#[test]
fn base64_is_read_strictly() {
    for header in [
        "=?base64?eA?=",    // no padding
        "=?base64?eB==?=",  // bits left over
        "=?base64?e A=?=",  // a space
        "=?base64?_-8=?=",  // the other alphabet
        "=?base64?/w==?=",  // no UTF-8
        "=?base64?eA===?=", // too much padding
        "caf\u{e9}",
        "a\nb",
    ] {
        assert!(decode(header).is_err(), "{header}");
    }
    assert_eq!(decode("=?base64??=").as_deref(), Ok(""));
    assert_eq!(decode("a\tb").as_deref(), Ok("a\tb"));
}

/// Generates safe and unsafe header values, and values that resemble encoded ones.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \t\r\n]{0,2}[a-zA-Z0-9+/=?]{0,8}[ \t]{0,2}",
        "=\\?base64\\?[A-Za-z0-9+/=]{0,8}\\?=",
        "(=\\?base64\\?|\\?=|=|\\?){0,4}",
    ]
}

proptest! {
    /// Every value can be sent in a header, and is decoded to the same value.
    #[test]
    fn every_value_survives_a_header(value in any_value()) {
        let header = encode(&value);
        prop_assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{header:?}");
        prop_assert_eq!(header.trim_ascii(), &*header);
        prop_assert_eq!(decode(&header), Ok(value.as_str().into()));
    }

    /// A decoded text is encoded the same way again.
    #[test]
    fn decoded_base64_is_encoded_the_same(header in any_value()) {
        if let Ok(text) = decode(&header) && text != header {
            prop_assert_eq!(format!("=?base64?{}?=", BASE64_STANDARD.encode(&*text)), header);
        }
    }

    /// Mainstay accepts all headers that Mainstay sends.
    #[test]
    fn generated_headers_pass_our_own_check(
        name in any_value(),
        text in any_value(),
        number in -9_007_199_254_740_991_i64..=9_007_199_254_740_991,
        flag in any::<bool>(),
    ) {
        let arguments = serde_json::json!({"a": {"text": text, "number": number}, "flag": flag, "none": null});
        let params = serde_json::json!({"name": name, "arguments": arguments}).to_string();
        let arguments = arguments.to_string();
        let param_headers = headers::param_headers(SCHEMA).expect("a valid schema");
        let mut sent_headers: Vec<(String, String)> = headers::standard("tools/call", string_param(&params), "2026-07-28")
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        sent_headers.extend(headers::values(&param_headers, &arguments));
        prop_assert_eq!(sent_headers.len(), 6);
        let inbound = inbound(&sent_headers);
        prop_assert_eq!(inbound.check("tools/call", string_param(&params), "2026-07-28"), Ok(()));
        prop_assert_eq!(inbound.check_params(&param_headers, Some(&arguments)), Ok(()));
    }
}

fn inbound(headers: &[(String, String)]) -> InboundHeaders<'_> {
    InboundHeaders::from_headers(
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes())),
    )
}

const SCHEMA: &str = r#"{"type":"object","properties":{
    "a":{"type":"object","properties":{
        "text":{"type":"string","x-mcp-header":"Text"},
        "number":{"type":"integer","x-mcp-header":"Number"}}},
    "flag":{"type":"boolean","x-mcp-header":"Flag"},
    "none":{"type":["string","null"],"x-mcp-header":"None"},
    "x-mcp-header":{"type":"object","default":{"x-mcp-header":7}}}}"#;

#[test]
fn annotated_parameters_are_found_by_their_paths() {
    let param_headers = headers::param_headers(SCHEMA).expect("a valid schema");
    let paths: Vec<(&str, String)> = param_headers
        .iter()
        .map(|ParamHeader { header, path }| (header.as_str(), path.join(".")))
        .collect();
    assert_eq!(
        paths,
        [
            ("Mcp-Param-Text", "a.text".to_owned()),
            ("Mcp-Param-Number", "a.number".to_owned()),
            ("Mcp-Param-Flag", "flag".to_owned()),
            ("Mcp-Param-None", "none".to_owned()),
        ]
    );
    for schema in [
        r#"{"type":"object"}"#,
        "true",
        "",
        r#"{"properties":{"a":{"title":"\u0041"}}}"#,
    ] {
        assert_eq!(headers::param_headers(schema), Ok(Vec::new()), "{schema}");
    }
}

#[test]
fn a_schema_with_a_bad_annotation_is_invalid() {
    let property = |schema: &str| format!(r#"{{"properties":{{"p":{schema}}}}}"#);
    let annotated_property =
        |name: &str| property(&format!(r#"{{"type":"string","x-mcp-header":{name}}}"#));
    for name in [
        r#""""#,
        r#""My Region""#,
        r#""Region\t1""#,
        r#""Region:Primary""#,
        r#""Région""#,
        r#""a\u0001""#,
        "7",
    ] {
        let outcome = headers::param_headers(&annotated_property(name));
        assert_eq!(outcome, Err(InvalidHeader::Name("p".to_owned())), "{name}");
    }
    for kind in [
        r#""number""#,
        r#""object""#,
        r#""array""#,
        r#""null""#,
        r#"["string","integer"]"#,
        "[]",
        "null",
    ] {
        let schema = property(&format!(r#"{{"type":{kind},"x-mcp-header":"A"}}"#));
        assert_eq!(
            headers::param_headers(&schema),
            Err(InvalidHeader::Type("p".to_owned())),
            "{kind}"
        );
    }
    let duplicate_schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"MyField"},"b":{"type":"string","x-mcp-header":"myfield"}}}"#;
    assert_eq!(
        headers::param_headers(duplicate_schema),
        Err(InvalidHeader::Twice("myfield".to_owned()))
    );
    let a = r#"{"type":"string","x-mcp-header":"A"}"#;
    for schema in [
        a.to_owned(),
        property(&format!(r#"{{"items":{a}}}"#)),
        property(&format!(r#"{{"items":{{"properties":{{"q":{a}}}}}}}"#)),
        property(&format!(r#"{{"anyOf":[{a}]}}"#)),
        property(&format!(r#"{{"if":{{"properties":{{"q":{a}}}}}}}"#)),
        format!(r#"{{"$defs":{{"x-mcp-header":{a}}}}}"#),
        format!(r#"{{"patternProperties":{{"x":{a}}}}}"#),
        format!(r#"{{"additionalProperties":{a}}}"#),
        r#"{"allOf":[{"properties":{"q":{"type":"string","\u0078-mcp-header":"A"}}}]}"#.to_owned(),
    ] {
        let outcome = headers::param_headers(&schema);
        assert!(
            matches!(outcome, Err(InvalidHeader::Unreachable(_))),
            "{schema}: {outcome:?}"
        );
    }
}

#[test]
fn parameters_become_headers_by_their_types() {
    let param_headers = headers::param_headers(SCHEMA).expect("a valid schema");
    let rendered = |arguments: &str| -> Vec<String> {
        let values = headers::values(&param_headers, arguments);
        values
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    };
    assert_eq!(
        rendered(r#"{"a":{"text":"","number":42.0},"flag":false,"none":null}"#),
        [
            "Mcp-Param-Text=",
            "Mcp-Param-Number=42",
            "Mcp-Param-Flag=false"
        ]
    );
    assert_eq!(
        rendered(r#"{"a":{"text":"\u00e4","number":-7e0},"none":"null"}"#),
        [
            "Mcp-Param-Text==?base64?w6Q=?=",
            "Mcp-Param-Number=-7",
            "Mcp-Param-None=null"
        ]
    );
    assert_eq!(rendered(r#"{"a":{"number":-0.0}}"#), ["Mcp-Param-Number=0"]);
    assert_eq!(rendered(r#"{"a":[{"text":"x"}],"flag":{}}"#), [""; 0]);
    assert_eq!(rendered("{}"), [""; 0]);
}

/// Describes a refusal by its kind and header name. `None` if the request was accepted.
fn refusal(outcome: Result<(), HeaderMismatch>) -> Option<String> {
    outcome.err().map(|mismatch| {
        assert_eq!((mismatch.code(), mismatch.http_status()), (-32020, 400));
        match mismatch {
            HeaderMismatch::Missing(name) => format!("missing {name}"),
            HeaderMismatch::Twice(name) => format!("twice {name}"),
            HeaderMismatch::Malformed(name) => format!("malformed {name}"),
            HeaderMismatch::Differs(name) => format!("differs {name}"),
        }
    })
}

#[test]
fn standard_headers_must_equal_the_body() {
    const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
    const CALL: (&str, &str) = ("Mcp-Method", "tools/call");
    const PARAMS: &str = r#"{"name":"t\u00e4g"}"#;
    const NAME: (&str, &str) = ("mcp-name", "=?base64?dMOkZw==?=");
    let check = |method: &str, params: &str, headers: &[(&str, &str)]| {
        let inbound = InboundHeaders::from_headers(
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes())),
        );
        refusal(inbound.check(method, string_param(params), "2026-07-28"))
    };
    for (headers, expected) in [
        (vec![VERSION, CALL, NAME], None),
        (vec![VERSION, CALL, NAME, ("x-other", "\n")], None),
        (vec![CALL, NAME], Some("missing mcp-protocol-version")),
        (vec![VERSION, NAME], Some("missing mcp-method")),
        (vec![VERSION, CALL], Some("missing mcp-name")),
        (
            vec![("mcp-protocol-version", "2025-11-25"), CALL, NAME],
            Some("differs mcp-protocol-version"),
        ),
        (
            vec![VERSION, ("mcp-method", "Tools/Call"), NAME],
            Some("differs mcp-method"),
        ),
        (
            vec![VERSION, CALL, ("mcp-name", "tag")],
            Some("differs mcp-name"),
        ),
        (
            vec![VERSION, CALL, ("mcp-name", "=?base64?dMOkZw?=")],
            Some("malformed mcp-name"),
        ),
        (
            vec![VERSION, CALL, ("mcp-name", "t\u{e4}g")],
            Some("malformed mcp-name"),
        ),
        (vec![VERSION, CALL, NAME, NAME], Some("twice mcp-name")),
        (vec![VERSION, CALL, CALL, NAME], Some("twice mcp-method")),
    ] {
        assert_eq!(
            check("tools/call", PARAMS, &headers).as_deref(),
            expected,
            "{headers:?}"
        );
    }
    let headers_for = |method, name| vec![VERSION, ("mcp-method", method), ("mcp-name", name)];
    for (method, params, headers, expected) in [
        (
            "resources/read",
            r#"{"uri":"x://a"}"#,
            headers_for("resources/read", "x://a"),
            None,
        ),
        (
            "resources/read",
            r#"{"name":"x://a"}"#,
            headers_for("resources/read", "x://a"),
            Some("differs mcp-name"),
        ),
        (
            "prompts/get",
            r#"{"name":"p"}"#,
            headers_for("prompts/get", "p"),
            None,
        ),
        (
            "tasks/get",
            r#"{"taskId":"7"}"#,
            headers_for("tasks/get", "8"),
            Some("differs mcp-name"),
        ),
        (
            "tasks/get",
            r#"{"taskId":"7"}"#,
            vec![VERSION, ("mcp-method", "tasks/get")],
            None,
        ),
        (
            "tools/list",
            "{}",
            headers_for("tools/list", "whatever"),
            None,
        ),
        ("tools/call", "{}", vec![VERSION, CALL], None),
    ] {
        assert_eq!(
            check(method, params, &headers).as_deref(),
            expected,
            "{method} {headers:?}"
        );
    }
}

#[test]
fn headers_of_parameters_must_equal_the_arguments() {
    let param_headers = headers::param_headers(SCHEMA).expect("a valid schema");
    let check = |arguments: &str, headers: &[(&str, &str)]| {
        let inbound = InboundHeaders::from_headers(
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes())),
        );
        refusal(inbound.check_params(&param_headers, Some(arguments)))
    };
    for (arguments, headers, expected) in [
        ("{}", vec![], None),
        ("{}", vec![("mcp-param-unknown", "x")], None),
        (r#"{"flag":true}"#, vec![("Mcp-Param-FLAG", "true")], None),
        (
            r#"{"flag":true}"#,
            vec![("mcp-param-flag", "True")],
            Some("differs mcp-param-flag"),
        ),
        (r#"{"flag":true}"#, vec![], Some("missing mcp-param-flag")),
        (r#"{"none":null}"#, vec![], None),
        (
            r#"{"none":null}"#,
            vec![("mcp-param-none", "null")],
            Some("differs mcp-param-none"),
        ),
        (
            "{}",
            vec![("mcp-param-flag", "true")],
            Some("differs mcp-param-flag"),
        ),
        (
            r#"{"a":{"number":42}}"#,
            vec![("mcp-param-number", "42.0")],
            None,
        ),
        (
            r#"{"a":{"number":4.2e1}}"#,
            vec![("mcp-param-number", "42")],
            None,
        ),
        (
            r#"{"a":{"number":42}}"#,
            vec![("mcp-param-number", "43")],
            Some("differs mcp-param-number"),
        ),
        (
            r#"{"a":{"number":42}}"#,
            vec![("mcp-param-number", "=?base64?NDI=?=")],
            None,
        ),
        (
            r#"{"a":{"number":9007199254740993}}"#,
            vec![("mcp-param-number", "9007199254740992")],
            Some("differs mcp-param-number"),
        ),
        (
            r#"{"a":{"text":"42"}}"#,
            vec![("mcp-param-text", "42.0")],
            Some("differs mcp-param-text"),
        ),
        (r#"{"a":{"text":""}}"#, vec![("mcp-param-text", "")], None),
        (
            r#"{"a":{"text":""}}"#,
            vec![],
            Some("missing mcp-param-text"),
        ),
        (
            r#"{"a":{"text":" a"}}"#,
            vec![("mcp-param-text", " a")],
            Some("differs mcp-param-text"),
        ),
        (
            r#"{"a":{"text":"x"}}"#,
            vec![("mcp-param-text", "=?base64?eA?=")],
            Some("malformed mcp-param-text"),
        ),
    ] {
        assert_eq!(
            check(arguments, &headers).as_deref(),
            expected,
            "{arguments} {headers:?}"
        );
    }
}

/// Checks come in this order: `_meta`, headers, version. The answer reports the first error.
#[test]
fn a_request_is_checked_in_the_order_of_the_specification() {
    let params = |version: &str, capabilities: &str| {
        format!(
            r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}"{capabilities}}}}}"#
        )
    };
    let capabilities_member = r#","io.modelcontextprotocol/clientCapabilities":{}"#;
    let code = |params: &str, version: Option<&str>| {
        let sent_headers = version.map(|version| {
            [
                ("mcp-protocol-version", version.as_bytes()),
                ("mcp-method", b"ping".as_slice()),
            ]
        });
        let headers = sent_headers.map(InboundHeaders::from_headers);
        let text = message::request(Some(1), "ping", Some(params));
        let envelope = message::peek(&text).expect("a message");
        let outcome = modern::admit(&text, &envelope, "ping", headers.as_ref());
        outcome.err().map(|refusal: RequestRefusal| {
            assert_eq!(refusal.http_status(), 400);
            refusal.code()
        })
    };
    assert_eq!(code(&params("1.0", ""), Some("2026-07-28")), Some(-32602));
    assert_eq!(
        code(&params("1.0", capabilities_member), Some("2026-07-28")),
        Some(-32020)
    );
    assert_eq!(
        code(&params("1.0", capabilities_member), Some("1.0")),
        Some(-32022)
    );
    assert_eq!(
        code(&params("1.0", capabilities_member), None),
        Some(-32022)
    );
    assert_eq!(
        code(
            &params("2026-07-28", capabilities_member),
            Some("2026-07-28")
        ),
        None
    );
    assert_eq!(code(&params("2026-07-28", capabilities_member), None), None);
}
