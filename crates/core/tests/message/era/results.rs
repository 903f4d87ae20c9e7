//! Tests of results and errors that are translated to the other era, and of content for older
//! revisions (2026-07-28, "Responses", "Caching"; "Tool Result"; "Resources: Error Handling").

use mainstay_core::{
    era::{Revision, result},
    message::Method,
};
use proptest::prelude::*;

use crate::json;

#[test]
fn legacy_results_lose_their_type_and_cache_hints() {
    use Method::{Complete, PromptsGet, ResourcesRead, ToolsCall, ToolsList};
    for (method, before, after) in [
        (
            ToolsList,
            r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public","x":1.0}"#,
            r#"{"tools":[],"x":1.0}"#,
        ),
        (
            ResourcesRead,
            r#"{"ttlMs":5,"contents":[],"cacheScope":"public"}"#,
            r#"{"contents":[]}"#,
        ),
        (
            Complete,
            r#"{"resultType":"complete","completion":{},"ttlMs":5}"#,
            r#"{"completion":{},"ttlMs":5}"#,
        ),
        (Method::Other, r#"{"resultType":"complete"}"#, "{}"),
        (
            ToolsCall,
            r#"{"content":[{"type":"text","text":"1"}],"structuredContent":[1]}"#,
            r#"{"content":[{"type":"text","text":"1"}]}"#,
        ),
        (
            ToolsCall,
            r#"{"content":[],"structuredContent":[1.0,"a"]}"#,
            r#"{"content":[{"type":"text","text":"[1.0,\"a\"]"}]}"#,
        ),
        (
            ToolsCall,
            r#"{"structuredContent":null}"#,
            r#"{"content":[{"type":"text","text":"null"}]}"#,
        ),
        (
            ToolsCall,
            r#"{"content":[],"structuredContent":{"a":1}}"#,
            r#"{"content":[],"structuredContent":{"a":1}}"#,
        ),
        (
            ToolsList,
            r#"{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"type":"object"}},{"outputSchema":{"$ref":"x"},"name":"c"}]}"#,
            r#"{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}},{"name":"c"}]}"#,
        ),
        // `_meta` keeps the server's description.
        (
            Complete,
            r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"a":1.0}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"a":1.0}}"#,
        ),
        (PromptsGet, r#"{"messages":7}"#, r#"{"messages":7}"#),
        (ToolsCall, "[]", "[]"),
    ] {
        for revision in Revision::LEGACY {
            assert_eq!(
                result::to_legacy(method, before, revision),
                after,
                "{revision}"
            );
        }
    }
}

#[test]
fn older_revisions_get_content_of_their_revision() {
    use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
    const AUDIO: &str =
        r#"{"type":"audio","data":"AAAA","mimeType":"audio/wav","annotations":{"priority":1.0}}"#;
    const LINK: &str = r#"{"type":"resource_link","uri":"x://a","name":"a","title":"A","description":"d","_meta":{"k":1.0}}"#;
    const EMBEDDED: &str = r#"{"type":"resource","annotations":{"priority":1.0},"resource":{"uri":"audio:embedded","mimeType":"audio/wav","blob":"AAAA"}}"#;
    const TEXT: &str = r#"{"type":"text","text":"A: x://a\nd","_meta":{"k":1.0}}"#;
    const IMAGE: &str = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
    for (revision, audio, link) in [
        (V2024_11_05, EMBEDDED, TEXT),
        (V2025_03_26, AUDIO, TEXT),
        (V2025_06_18, AUDIO, LINK),
        (V2025_11_25, AUDIO, LINK),
    ] {
        let call = |audio, link| format!(r#"{{"content":[{IMAGE},{audio},{link},{{}},7]}}"#);
        let before = call(AUDIO, LINK);
        let after = result::to_legacy(Method::ToolsCall, &before, revision);
        assert_eq!(after, call(audio, link), "{revision}");

        let prompt = |audio, link| {
            format!(
                r#"{{"messages":[{{"role":"user","content":{audio}}},{{"content":{link},"role":"user"}},7]}}"#
            )
        };
        let before = prompt(AUDIO, LINK);
        let after = result::to_legacy(Method::PromptsGet, &before, revision);
        assert_eq!(after, prompt(audio, link), "{revision}");
    }
}

#[test]
fn modern_results_are_complete_and_forbid_caching() {
    use Method::{Complete, Discover, ResourcesRead, ToolsCall, ToolsList};
    for (method, before, after) in [
        (ToolsCall, "{}", r#"{"resultType":"complete"}"#),
        (
            Complete,
            r#"{"x":1.0}"#,
            r#"{"x":1.0,"resultType":"complete"}"#,
        ),
        (
            ToolsList,
            r#"{"tools":[]}"#,
            r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        ),
        (
            Discover,
            r#"{"resultType":"complete"}"#,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        ),
        (
            ResourcesRead,
            r#"{"ttlMs":9}"#,
            r#"{"ttlMs":9,"resultType":"complete","cacheScope":"private"}"#,
        ),
        (
            ResourcesRead,
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required"}"#,
        ),
        (
            ToolsCall,
            r#"{"resultType":"task"}"#,
            r#"{"resultType":"task"}"#,
        ),
        (ToolsCall, "7", "7"),
    ] {
        assert_eq!(result::to_modern(method, before), after);
    }
}

#[test]
fn errors_keep_to_the_codes_of_the_era() {
    let requested_uri = Some("x://a");
    let to_legacy = [
        // Only an error about the requested resource gets the legacy code for a missing resource.
        (
            Method::ResourcesRead,
            r#"{"code":-32602,"data":{"uri":"x://a"},"message":"m"}"#,
            r#"{"code":-32002,"data":{"uri":"x://a"},"message":"m"}"#,
        ),
        (
            Method::ResourcesRead,
            r#"{"code":-32602,"data":{"uri":"x://b"}}"#,
            r#"{"code":-32602,"data":{"uri":"x://b"}}"#,
        ),
        (
            Method::ResourcesRead,
            r#"{"code":-32602}"#,
            r#"{"code":-32602}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32602,"data":{"uri":"x://a"}}"#,
            r#"{"code":-32602,"data":{"uri":"x://a"}}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32021,"message":"m"}"#,
            r#"{"code":-32603,"message":"m"}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":1,"message":"m"}"#,
            r#"{"code":1,"message":"m"}"#,
        ),
    ];
    for (method, before, after) in to_legacy {
        assert_eq!(
            result::error_to_legacy(method, requested_uri, before),
            after
        );
    }
    assert_eq!(
        result::error_to_legacy(Method::ResourcesRead, None, r#"{"code":-32602}"#),
        r#"{"code":-32602}"#
    );

    let to_modern = [
        (
            Method::ResourcesRead,
            r#"{"code":-32002,"message":"m"}"#,
            r#"{"code":-32602,"message":"m","data":{"uri":"x://a"}}"#,
        ),
        (
            Method::ResourcesRead,
            r#"{"code":-32002,"data":{"k":1.0}}"#,
            r#"{"code":-32602,"data":{"k":1.0}}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32002}"#,
            r#"{"code":-32602}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32042,"data":{}}"#,
            r#"{"code":-32021,"data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}"#,
        ),
        // A legacy server's own error code must not become a protocol code.
        (
            Method::ToolsCall,
            r#"{"code":-32022}"#,
            r#"{"code":-32603}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32099}"#,
            r#"{"code":-32603}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32019}"#,
            r#"{"code":-32019}"#,
        ),
        (
            Method::ToolsCall,
            r#"{"code":-32100}"#,
            r#"{"code":-32100}"#,
        ),
        (Method::ToolsCall, "null", "null"),
    ];
    for (method, before, after) in to_modern {
        assert_eq!(
            result::error_to_modern(method, requested_uri, before),
            after
        );
    }
}

proptest! {
    /// Translation in both directions leaves a legacy result unchanged.
    #[test]
    fn members_of_both_eras_survive_translation_in_both_directions(
        unknown in json::value(),
        structured in json::value(),
        item in json::value(),
    ) {
        let without_breaks = |text: &str| text.replace(['\n', '\r'], "");
        for method in [Method::ToolsCall, Method::ToolsList, Method::PromptsGet, Method::ResourcesRead] {
            let text = without_breaks(&format!(
                r#"{{"x":{unknown},"content":[{item}],"structuredContent":{{"a":{structured}}},"tools":[{{"outputSchema":{{"type":"object","x":{item}}}}}],"messages":[{{"content":{item}}}]}}"#
            ));
            let modern_result = result::to_modern(method, &text);
            prop_assert_ne!(&*modern_result, &text);
            prop_assert_eq!(result::to_legacy(method, &modern_result, Revision::LATEST_LEGACY), text.as_str());
        }
    }

    #[test]
    fn no_result_makes_a_translation_panic(text in json::value()) {
        for method in [Method::ToolsCall, Method::ToolsList, Method::PromptsGet] {
            let member = format!(r#"{{"content":{text},"tools":{text},"messages":[{text}],"structuredContent":{text}}}"#);
            for revision in Revision::LEGACY {
                // The translation is always valid JSON.
                let translated = result::to_legacy(method, &member, revision).into_owned();
                prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&translated).is_ok(), "{}", translated);
            }
        }
    }
}
