//! Requests that come from no MCP message of a client: from a program that embeds the engine, from
//! REST, and from own tools.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{
    era::code,
    failure::{Failure, FailureKind},
    message::{self, Method, quote},
};
use mainstay_transport::{Frame, UnreadableMessage};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    Gateway,
    calls::{
        Answering, CallClient, CallRefusal, CallRequest, CallSink, Calls, Receipt, RequestedCall,
        Upstream,
    },
    supervisor::ServerHandle,
};

/// Sends one request on the server's shared session, for the client of the sink, and returns the
/// result. `params` is the text of a JSON object. If it has a progress token, the sink gets the
/// server's progress. A message to `cancel` cancels the call. The caller must close the receipt.
pub async fn ask(
    calls: &Calls,
    receipt: &Receipt,
    sink: CallSink,
    server: Arc<ServerHandle>,
    method: Method,
    params: &str,
    cancel: oneshot::Receiver<String>,
) -> Result<Box<RawValue>, Failure> {
    let invalid = |reason: String| Failure::new(FailureKind::InvalidRequest, reason);
    let frame = own_request(method, params).map_err(|error| invalid(error.to_string()))?;
    let address = message::address(frame.text(), frame.envelope());
    let address = address.map_err(|error| invalid(error.to_string()))?;
    let progress_token = address.progress_token;
    let request = CallRequest::new(frame, progress_token)
        .ok_or_else(|| invalid("a request is expected".to_owned()))?;
    let upstream = Upstream::Shared(Arc::clone(&server));
    let answer = calls.call(receipt, upstream, request, sink, cancel).await?;
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

fn own_request(method: Method, params: &str) -> Result<Frame, UnreadableMessage> {
    Frame::read(message::request(Some(1), method.name(), Some(params)).into())
}

fn failed(server: &ServerHandle, message: &str) -> Failure {
    Failure::new(FailureKind::CallFailed, message).with_server(&server.name)
}

/// The failure of a request that the server answered with a JSON-RPC error. `error` is its JSON text.
/// The failure has the server's message, and the details `rpcCode` and `data`. For a missing
/// resource, its kind is [`FailureKind::ResourceNotFound`].
pub fn refused(server: &ServerHandle, params: &str, error: &str) -> Failure {
    let rpc_code: Option<i64> = message::member(error, "code").and_then(|code| code.parse().ok());
    if let (Some(code::RESOURCE_NOT_FOUND), Some(uri)) =
        (rpc_code, message::text_member(params, "uri"))
    {
        return resource_not_found(&uri).with_server(&server.name);
    }
    let words =
        message::shown_member(error, "message").unwrap_or_else(|| "the server refused".into());
    let mut failure = failed(server, &words);
    if let Some(rpc_code) = rpc_code {
        failure = failure.with("rpcCode", rpc_code);
    }
    if let Some(data) = message::member(error, "data")
        .and_then(|data| message::foreign::read::<serde_json::Value>(data).ok())
    {
        failure = failure.with("data", data);
    }
    failure
}

/// The failure of a request for a resource that no server has, with the detail `uri`.
pub fn resource_not_found(uri: &str) -> Failure {
    Failure::new(
        FailureKind::ResourceNotFound,
        format!("Resource {uri} not found"),
    )
    .with("uri", uri)
}

/// The answer to a request of [`Gateway::request`].
struct OwnAnswer(Result<Box<RawValue>, Failure>);

impl Answering for OwnAnswer {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        let failure = self.0.as_ref().err()?;
        Some(Cow::Owned(failure.clone().into()))
    }
}

impl Gateway {
    /// Sends a request to a server on its shared session, and returns the result. `params` is the
    /// text of a JSON object. The call is recorded and counted like a client's call. It waits for a
    /// server that is starting. It continues if this future is dropped.
    ///
    /// The kinds of errors include:
    /// - [`FailureKind::ServerNotFound`]: there is no such server.
    /// - [`FailureKind::CallFailed`]: the server has answered with an error.
    /// - [`FailureKind::CallTimeout`]: no answer came within the server's `callTimeoutMs`.
    /// - [`FailureKind::OutcomeUnknown`]: the call was sent and lost, so it may have run.
    pub async fn request(
        &self,
        server: &str,
        method: Method,
        params: &str,
    ) -> Result<Box<RawValue>, Failure> {
        let (calls, receipt, client) = (self.calls.clone(), Receipt::new(), CallClient::nobody());
        let (server, params) = (self.registry.server(server), params.to_owned());
        let answering = async move {
            let origin = Arc::clone(&client.origin);
            let (_, never) = oneshot::channel();
            let answer = match server {
                Ok(server) => {
                    let (sink, _) = CallSink::new(client, None);
                    ask(&calls, &receipt, sink, server, method, &params, never).await
                }
                Err(failure) => Err(failure),
            };
            let requested = || RequestedCall::from_frame(&own_request(method, &params).ok()?);
            let closed = receipt.close(&calls, OwnAnswer(answer), || origin, requested);
            closed.await.into_inner().0
        };
        self.calls.detachable(answering).await
    }

    /// Calls a tool of a server by its original name. `arguments` is the text of a JSON object. If the
    /// tool fails, the result has `isError` set. The errors are those of [`Gateway::request`].
    pub async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: &str,
    ) -> Result<Box<RawValue>, Failure> {
        let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, quote(tool));
        self.request(server, Method::ToolsCall, &params).await
    }
}
