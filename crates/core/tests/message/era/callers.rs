//! Tests of clients, and of the questions that they accept (specification "Elicitation",
//! "Sampling", "Roots"; 2026-07-28, "`_meta`").

use std::sync::Arc;

use mainstay_core::{
    era::{
        Caller, ClientCapabilities, Era, LogLevel, Revision,
        modern::{self, BadMeta, RequestMeta},
    },
    message::{self, Method},
};

/// Capabilities, a question with its params, and the first revision that has the question.
type Row = (&'static str, Method, &'static str, Option<Revision>);

#[test]
fn a_question_requires_a_revision_and_a_capability() {
    use Method::{CreateMessage, Elicit, Other, RootsList};
    use Revision::{V2024_11_05, V2025_06_18, V2025_11_25};
    const TOOLS: &str = r#"{"messages":[],"tools":[]}"#;
    const URL: &str = r#"{"mode":"url","url":"https://x"}"#;
    let rows: [Row; 18] = [
        (r#"{"sampling":{}}"#, CreateMessage, "{}", Some(V2024_11_05)),
        (r#"{"sampling":{}}"#, CreateMessage, TOOLS, None),
        (
            r#"{"sampling":{"tools":{}}}"#,
            CreateMessage,
            TOOLS,
            Some(V2025_11_25),
        ),
        (
            r#"{"sampling":{"tools":{}}}"#,
            CreateMessage,
            "{}",
            Some(V2024_11_05),
        ),
        (
            r#"{"roots":{"listChanged":true}}"#,
            RootsList,
            "{}",
            Some(V2024_11_05),
        ),
        ("{}", CreateMessage, "{}", None),
        ("{}", RootsList, "{}", None),
        ("{}", Elicit, "{}", None),
        (r#"{"elicitation":null}"#, Elicit, "{}", None),
        (r#"{"elicitation":{}}"#, Elicit, "{}", Some(V2025_06_18)),
        (
            r#"{"elicitation":{}}"#,
            Elicit,
            r#"{"mode":"form"}"#,
            Some(V2025_06_18),
        ),
        (r#"{"elicitation":{}}"#, Elicit, URL, None),
        (
            r#"{"elicitation":{"url":{}}}"#,
            Elicit,
            URL,
            Some(V2025_11_25),
        ),
        (r#"{"elicitation":{"url":{}}}"#, Elicit, "{}", None),
        (
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            Elicit,
            "{}",
            Some(V2025_06_18),
        ),
        (
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            Elicit,
            URL,
            Some(V2025_11_25),
        ),
        ("not json", Elicit, "{}", None),
        // Only the client knows questions of extensions, so they are accepted.
        ("{}", Other, "{}", Some(V2024_11_05)),
    ];
    for (capabilities, question, params, first_revision) in rows {
        for revision in Revision::ALL {
            let caller = Caller {
                revision,
                capabilities: Arc::new(ClientCapabilities::read(capabilities)),
                client_info: None,
                log_level: None,
            };
            let expected = first_revision.is_some_and(|first_revision| revision >= first_revision);
            let row = format!("{capabilities} {} {params} {revision}", question.name());
            assert_eq!(caller.accepts(question, params), expected, "{row}");
        }
    }
}

#[test]
fn capabilities_lose_members_of_one_era_in_translation() {
    let declared_capabilities = ClientCapabilities::read(
        r#"{"x":1.0,"roots":{"listChanged":true},"tasks":{"list":{}},
            "extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}"#,
    );
    assert!(declared_capabilities.tasks && declared_capabilities.roots);
    assert_eq!(
        declared_capabilities.for_era(Era::Modern),
        r#"{"x":1.0,"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}"#
    );
    assert_eq!(
        declared_capabilities.for_era(Era::Legacy),
        r#"{"x":1.0,"roots":{},"tasks":{"list":{}},"extensions":{"a/b":{}}}"#
    );
    let url_capabilities = ClientCapabilities::read(r#"{"elicitation": {"url": {}}}"#);
    assert_eq!(
        url_capabilities.for_era(Era::Modern),
        url_capabilities.raw()
    );
    assert_eq!(ClientCapabilities::read("7"), ClientCapabilities::none());
}

fn request(params: &str) -> String {
    message::request(Some(1), "ping", Some(params))
}

fn meta_of(text: &str) -> Result<RequestMeta<'_>, BadMeta> {
    let envelope = message::peek(text).expect("a message");
    modern::request_meta(text, &envelope)
}

#[test]
fn a_legacy_server_gets_the_client_info_of_the_caller() {
    let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientInfo":{"name":"x","version":"1","icons":[]},
        "io.modelcontextprotocol/clientCapabilities":{"sampling":{}},
        "io.modelcontextprotocol/logLevel":"notice"}}"#;
    let text = request(params);
    let meta = meta_of(&text).expect("a complete _meta");
    let caller = Caller::modern(&meta).expect("a known version");
    assert_eq!(caller.log_level, Some(LogLevel::Notice));
    let initialize = caller.initialize_params(Revision::V2025_06_18);
    assert_eq!(
        initialize,
        r#"{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"x","version":"1","icons":[]}}"#
    );
    let same_caller = Caller::initialized(&initialize, Revision::V2025_06_18);
    assert_eq!(
        (same_caller.capabilities, same_caller.client_info),
        (caller.capabilities, caller.client_info)
    );
}

/// An incomplete `_meta` is an error −32602 with HTTP 400. An unknown version is an error −32022
/// that lists the supported versions.
#[test]
fn an_invalid_meta_has_its_code() {
    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let params_with = |meta: &str| format!(r#"{{"_meta":{meta}}}"#);
    for params in [
        "{}".to_owned(),
        params_with("{}"),
        params_with("7"),
        params_with(&format!("{{{VERSION}}}")),
        params_with(&format!("{{{CAPABILITIES}}}")),
        params_with(&format!("{{{VERSION},{VERSION},{CAPABILITIES}}}")),
        params_with(&format!(
            r#"{{{VERSION},"io.modelcontextprotocol/clientCapabilities":[]}}"#
        )),
        params_with(&format!(
            r#"{{"io.modelcontextprotocol/protocolVersion":7,{CAPABILITIES}}}"#
        )),
        params_with(&format!(
            r#"{{{VERSION},{CAPABILITIES},"io.modelcontextprotocol/clientInfo":"x"}}"#
        )),
        params_with(&format!(
            r#"{{{VERSION},{CAPABILITIES},"io.modelcontextprotocol/logLevel":"loud"}}"#
        )),
        format!(r#"{{"_meta":{{{VERSION},{CAPABILITIES}}},"_meta":{{}}}}"#),
    ] {
        let error = meta_of(&request(&params)).expect_err(&params);
        assert_eq!(
            (error.code(), error.http_status(), error.data()),
            (-32602, 400, None),
            "{params}"
        );
    }
    assert!(matches!(
        meta_of(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        Err(BadMeta::Missing(_))
    ));

    for (requested, is_supported) in [("2026-07-28", true), ("2025-11-25", false), ("x", false)] {
        let meta = RequestMeta {
            protocol_version: requested.into(),
            client_info: None,
            client_capabilities: "{}",
            log_level: None,
        };
        match meta.revision() {
            Ok(revision) => assert!(is_supported && revision.as_str() == requested),
            Err(error) => {
                assert!(!is_supported && error.code() == -32022 && error.http_status() == 400);
                let data = error.data().expect("data").to_string();
                let expected = r#"{"supported":["2026-07-28"],"requested":"#;
                assert_eq!(data, format!(r#"{expected}"{requested}"}}"#));
            }
        }
    }
}

#[test]
fn a_message_is_modern_by_meta_or_version() {
    let message_with = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"_meta":{meta}}}}}"#)
    };
    let (bare_meta, full_meta) = (
        message_with("{}"),
        message_with(r#"{"io.modelcontextprotocol/logLevel":"info"}"#),
    );
    for (text, version, expected) in [
        (&bare_meta, None, false),
        (&bare_meta, Some("2025-11-25"), false),
        (&bare_meta, Some("2026-07-28"), true),
        (&bare_meta, Some("1999-01-01"), true),
        (&full_meta, None, true),
        (&full_meta, Some("2025-11-25"), true),
    ] {
        let envelope = message::peek(text).expect("a message");
        assert_eq!(
            modern::is_modern(&envelope, version),
            expected,
            "{text} {version:?}"
        );
    }
}

#[test]
fn only_a_modern_error_proves_a_modern_server() {
    for (code, expected) in [
        ("-32020", true),
        ("-32021", true),
        ("-32022", true),
        ("-32601", false),
        ("-32042", false),
        ("\"-32022\"", false),
    ] {
        let error = format!(r#"{{"code":{code},"message":"x"}}"#);
        assert_eq!(modern::is_modern_error(&error), expected, "{code}");
    }
    assert!(!modern::is_modern_error("null"));
    let error = r#"{"code":-32022,"data":{"supported":["2027-01-01","2026-07-28","2025-03-26"]}}"#;
    assert_eq!(
        modern::offered_instead(error),
        [Revision::V2026_07_28, Revision::V2025_03_26]
    );
    assert!(modern::offered_instead("{}").is_empty());
}

#[test]
fn a_refused_question_names_the_missing_capability() {
    let (message, data) = modern::missing_capability(Method::Elicit, r#"{"mode":"url"}"#);
    assert!(message.contains("elicitation/create"));
    assert_eq!(
        data.to_string(),
        r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#
    );
    let (_, data) = modern::missing_capability(Method::CreateMessage, "{}");
    assert_eq!(
        data.to_string(),
        r#"{"requiredCapabilities":{"sampling":{}}}"#
    );
}
