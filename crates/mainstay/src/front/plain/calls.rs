//! Mainstay's own requests to servers, and their answers.

use std::sync::Arc;

use mainstay_core::{
    failure::{Failure, FailureKind},
    message::{self, Method},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    api::{self, Raw},
    calls::{Calls, Client, Outlet, Receipt, Request, Upstream},
    supervisor::Server,
    transport::Frame,
};

/// What servers answer to `resources/read` of a resource they do not have.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// One request of this client on the server's shared session.
pub async fn ask(
    calls: &Calls,
    receipt: &Receipt,
    client: Arc<Client>,
    server: Arc<Server>,
    method: Method,
    params: &str,
    cancel: oneshot::Receiver<String>,
) -> Result<Raw, Failure> {
    let invalid = |reason: String| Failure::new(FailureKind::InvalidRequest, reason);
    let text = message::request(Some(1), method.name(), Some(params));
    let frame = Frame::read(text.into()).map_err(|error| invalid(error.to_string()))?;
    let request =
        Request::new(frame, None).ok_or_else(|| invalid("a request is expected".to_owned()))?;
    let (outlet, _) = Outlet::new(client, None);
    let upstream = Upstream::Shared(Arc::clone(&server));
    let answer = calls
        .call(receipt, upstream, request, outlet, cancel)
        .await?;
    match answer.frame.result() {
        Some(result) => {
            RawValue::from_string(message::one_line(result).into_owned()).map_err(|error| {
                failed(
                    &server,
                    &format!("the server's answer is not JSON: {error}"),
                )
            })
        }
        None => Err(refused(
            &server,
            params,
            answer.frame.error().unwrap_or("{}"),
        )),
    }
}

fn failed(server: &Server, message: &str) -> Failure {
    Failure::new(FailureKind::CallFailed, message).of_server(&server.name)
}

/// An error of the server, with its words and its code.
pub fn refused(server: &Server, params: &str, error: &str) -> Failure {
    let code: Option<i64> = message::member(error, "code").and_then(|code| code.parse().ok());
    if let (Some(RESOURCE_NOT_FOUND), Some(uri)) = (code, message::text_member(params, "uri")) {
        return resource_not_found(&uri).of_server(&server.name);
    }
    let words =
        message::text_member(error, "message").unwrap_or_else(|| "the server refused".into());
    let mut failure = failed(server, &words);
    if let Some(code) = code {
        failure = failure.with("rpcCode", code);
    }
    if let Some(data) = message::member(error, "data")
        .and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok())
    {
        failure = failure.with("data", data);
    }
    failure
}

pub fn resource_not_found(uri: &str) -> Failure {
    Failure::new(
        FailureKind::ResourceNotFound,
        format!("Resource {uri} not found"),
    )
    .with("uri", uri)
}

/// The first of a resource's contents.
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
    let unusable = || {
        Failure::new(
            FailureKind::CallFailed,
            "the server's answer has no contents",
        )
        .with("uri", uri)
    };
    let read: Contents = serde_json::from_str(result.get()).map_err(|_| unusable())?;
    let first = read
        .contents
        .into_iter()
        .next()
        .ok_or_else(|| resource_not_found(uri))?;
    let content = first.text.or(first.blob).ok_or_else(unusable)?;
    Ok(api::Content {
        content,
        mime_type: first.mime_type,
    })
}
