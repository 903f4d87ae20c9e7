//! Results of requests that Mainstay makes for REST and own tools.

use mainstay_api::{self as api, Raw};
use mainstay_core::{
    failure::{Failure, FailureKind},
    message::foreign,
};
use mainstay_gateway::resource_not_found;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The first content of a `resources/read` result.
pub fn first_content(result: &RawValue, uri: &str) -> Result<api::Content, Failure> {
    #[derive(Deserialize)]
    struct Contents {
        contents: Vec<Content>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Content {
        text: Option<Raw>,
        blob: Option<Raw>,
        mime_type: Option<Raw>,
    }
    let unusable_answer = || {
        Failure::new(
            FailureKind::CallFailed,
            "the server's answer has no contents",
        )
        .with("uri", uri)
    };
    let read: Contents = foreign::read(result.get()).map_err(|_| unusable_answer())?;
    let first = read
        .contents
        .into_iter()
        .next()
        .ok_or_else(|| resource_not_found(uri))?;
    let content = first.text.or(first.blob).ok_or_else(unusable_answer)?;
    Ok(api::Content {
        content,
        mime_type: first.mime_type,
    })
}
