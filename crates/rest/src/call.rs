//! A call over REST, from the request to the response.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Json,
    extract::{FromRequest as _, Request},
    response::{IntoResponse, Response},
};
use mainstay_api::Raw;
use mainstay_core::{
    failure::{Failure, FailureKind},
    message::{Method, quote},
    trace::{TRACEPARENT, TRACESTATE},
};
use mainstay_doorway::trace::TraceHeaders;
use mainstay_gateway::{
    Gateway, View,
    calls::{Answering, CallClient, CallRefusal, CallSink, Closed, Receipt, RequestedCall},
    supervisor::ServerHandle,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;

use super::{RestDoor, body::Body, followed::Follower, not_configured, refusal::Refusal, via::Via};

/// The response of a route that makes a call.
pub enum CallAnswer<T> {
    Whole(Closed<CallOutcome<T>>),
    /// A stream of events, whose last event has the answer.
    Followed(Response),
}

/// The answer of a call, and its refusal for the record.
#[derive(Debug)]
pub struct CallOutcome<T> {
    answer: Result<T, Refusal>,
    /// The refusal to record, if the call reached no server.
    refused: Option<CallRefusal>,
}

impl<T> Answering for CallOutcome<T> {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        self.refused.as_ref().map(Cow::Borrowed)
    }
}

impl<T: Serialize> IntoResponse for CallAnswer<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Whole(closed) => closed.into_inner().answer.map(Json).into_response(),
            Self::Followed(response) => response,
        }
    }
}

/// A call over REST while it is being answered.
pub struct RestCall {
    door: RestDoor,
    client: Arc<CallClient>,
    /// The caller's view of all servers.
    pub view: View,
    receipt: Receipt,
    /// Set if the caller follows the call. [`RestCall::ask`] takes it.
    follower: Option<Follower>,
    /// The caller's trace context, for the server.
    trace: Option<TraceHeaders>,
    /// The requested call as far as it has been read, for the record.
    pub requested: RequestedCall,
    /// The failure to record, if the HTTP response is a success that reports the failure in its
    /// body.
    pub failure: Option<Failure>,
}

impl RestCall {
    /// Answers a call with this method. The call runs to its end even if the caller disconnects. A
    /// followed call is cancelled in that case.
    pub async fn answer<T, F>(
        door: RestDoor,
        via: Via,
        method: Method,
        run: impl FnOnce(Self) -> F,
    ) -> CallAnswer<T>
    where
        F: Future<Output = (Self, Result<T, Refusal>)> + Send + 'static,
        T: Serialize + Send + 'static,
    {
        let calls = door.gateway.calls.clone();
        let client = via.client();
        let view = door.gateway.view_of_all(&client.principal);
        let (follower, stream) = via
            .follows()
            .then(|| Follower::new(Arc::clone(&client)))
            .unzip();
        let running = run(Self {
            door,
            client,
            view,
            receipt: Receipt::new(),
            follower,
            requested: RequestedCall {
                trace: via.trace.as_ref().map(|trace| trace.context.trace),
                ..RequestedCall::new(method, "")
            },
            trace: via.trace,
            failure: None,
        });
        let answering = async move {
            let (call, answer) = running.await;
            call.close(answer).await
        };
        match stream {
            Some(stream) => {
                let answering = async move { answering.await.into_response() };
                CallAnswer::Followed(stream.response(&calls, answering))
            }
            None => calls.detachable(answering).await,
        }
    }

    async fn close<T>(self, answer: Result<T, Refusal>) -> CallAnswer<T> {
        let failure = match &answer {
            Ok(_) => self.failure,
            Err(refusal) => Some(refusal.failure()),
        };
        let refused = failure.map(|failure| CallRefusal {
            failure,
            requested: Some(self.requested),
        });
        let outcome = CallOutcome { answer, refused };
        let origin = || Arc::clone(&self.client.origin);
        let calls = &self.door.gateway.calls;
        CallAnswer::Whole(self.receipt.close(calls, outcome, origin, || None).await)
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.door.gateway
    }

    /// Reads the body of the request.
    pub async fn body<T: DeserializeOwned>(&self, request: Request) -> Result<T, Refusal> {
        let Body(body) = Body::from_request(request, &self.door).await?;
        Ok(body)
    }

    /// Reads the body of the request, if it has one.
    pub async fn optional_body<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<Option<T>, Refusal> {
        let body = Option::<Body<T>>::from_request(request, &self.door).await?;
        Ok(body.map(|Body(body)| body))
    }

    /// Returns an error while there is neither a configuration nor a server.
    pub fn is_configured(&self) -> Result<(), Refusal> {
        if self.gateway().registry.is_configured() {
            Ok(())
        } else {
            Err(not_configured().into())
        }
    }

    /// Sends a request to the server in its shared session. `params` is the text of a JSON object
    /// with at least one member.
    pub async fn ask(&mut self, server: Arc<ServerHandle>, params: &str) -> Result<Raw, Failure> {
        let (calls, method) = (&self.door.gateway.calls, self.requested.method);
        let (receipt, client) = (&self.receipt, Arc::clone(&self.client));
        let params = with_meta(params, self.follower.is_some(), self.trace.as_ref());
        let (sink, cancelled) = match self.follower.take() {
            Some(Follower { sink, cancelled }) => (sink, cancelled),
            None => (CallSink::new(client, None).0, oneshot::channel().1),
        };
        mainstay_gateway::ask(calls, receipt, sink, server, method, &params, cancelled).await
    }
}

/// Adds a progress token and the caller's trace context to `params`, as `_meta`. `params` is the
/// text of a JSON object that has members, but no `_meta`.
fn with_meta<'a>(params: &'a str, is_followed: bool, trace: Option<&TraceHeaders>) -> Cow<'a, str> {
    let mut meta = Vec::new();
    if is_followed {
        meta.push(r#""progressToken":1"#.to_owned());
    }
    if let Some(TraceHeaders { parent, state, .. }) = trace {
        let member = |name, value: &str| format!("{}:{}", quote(name), quote(value));
        meta.push(member(TRACEPARENT, parent));
        meta.extend(state.as_deref().map(|state| member(TRACESTATE, state)));
    }
    if meta.is_empty() {
        return Cow::Borrowed(params);
    }
    let members = params.strip_prefix('{').unwrap_or(params);
    Cow::Owned(format!(r#"{{"_meta":{{{}}},{members}"#, meta.join(",")))
}

impl Refusal {
    /// The failure to record for a call that was refused.
    fn failure(&self) -> Failure {
        let kind = match self {
            Self::Failed(failure) => return failure.clone(),
            Self::InvalidToolName { .. } => FailureKind::ToolNotFound,
            _ => FailureKind::InvalidRequest,
        };
        Failure::new(kind, self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn params_get_a_progress_token_and_the_trace() {
        let params = r#"{"name":"a","arguments":{}}"#;
        assert_eq!(with_meta(params, false, None), params);
        assert_eq!(
            with_meta(params, true, None),
            r#"{"_meta":{"progressToken":1},"name":"a","arguments":{}}"#
        );
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, parent.parse().expect("a header"));
        let trace = TraceHeaders::from_headers(&headers);
        assert_eq!(
            with_meta(params, false, trace.as_ref()),
            format!(r#"{{"_meta":{{"traceparent":"{parent}"}},"name":"a","arguments":{{}}}}"#)
        );
        headers.insert(TRACESTATE, r#"a="b""#.parse().expect("a header"));
        let trace = TraceHeaders::from_headers(&headers);
        assert_eq!(
            with_meta(params, true, trace.as_ref()),
            format!(
                r#"{{"_meta":{{"progressToken":1,"traceparent":"{parent}","tracestate":"a=\"b\""}},"name":"a","arguments":{{}}}}"#
            )
        );
    }
}
