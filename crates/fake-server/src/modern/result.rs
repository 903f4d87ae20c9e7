//! Result members of this era, and the error for missing capabilities.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::catalog;
use crate::message::RpcError;
use crate::script::Script;

const CACHEABLE_METHODS: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

pub(crate) fn missing_capability(required_capability: &Value) -> RpcError {
    RpcError {
        data: Some(json!({"requiredCapabilities": required_capability})),
        ..RpcError::new(-32021, "missing required client capability")
    }
}

/// Returns a result with the members of this era in front. All other bytes stay unchanged.
pub(crate) fn complete(script: &Script, method: &str, result: &str) -> String {
    typed("complete", script, method, result)
}

/// Returns a result with another `resultType`.
pub(super) fn typed(kind: &str, script: &Script, method: &str, result: &str) -> String {
    let mut members = vec![format!(r#""resultType":"{kind}""#)];
    if CACHEABLE_METHODS.contains(&method) && kind == "complete" {
        let scope = if script.private_cache {
            "private"
        } else {
            "public"
        };
        members.push(format!(r#""ttlMs":{},"cacheScope":"{scope}""#, script.ttl));
    }
    if !has_meta(result) {
        let server = catalog::server_info(script);
        members.push(format!(
            r#""_meta":{{"io.modelcontextprotocol/serverInfo":{server}}}"#
        ));
    }
    let members = members.join(",");
    match result.strip_prefix('{').expect("a result is an object") {
        "}" => format!("{{{members}}}"),
        rest => format!("{{{members},{rest}"),
    }
}

fn has_meta(result: &str) -> bool {
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    serde_json::from_str(result).is_ok_and(|result: Meta| result.meta.is_some())
}
