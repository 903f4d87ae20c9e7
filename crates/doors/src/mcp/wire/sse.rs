//! HTTP+SSE, the transport of revision 2024-11-05 (specification of that revision, "Transports"): GET
//! opens a stream whose first event says where to post, and everything is answered on the stream. The
//! session is the stream: it ends when the client closes it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header, request::Parts};
use hyper::body::Incoming;
use mainstay_gateway::calls::Receipt;
use tokio::sync::mpsc;

use super::{
    answer::{self, Answer, ClosedRefusal as _, Refusal},
    conversation::{Conversation, Output, RejectedMessage},
    headers::{self, Accepts},
    mcp::Mcp,
    sse_body::Events,
};
use crate::mcp::sessions::session::Scope;
use mainstay_doorway::peer::Visitor;

/// Messages that wait for a client to read them. What comes after waits where it arises: results in
/// their tasks, progress and logs in bounded queues of their own.
const MAX_UNREAD: usize = 16;

/// Which of the transport's two endpoints a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Stream,
    Message,
}

/// Ends the session when its stream is dropped.
struct Open {
    mcp: Arc<Mcp>,
    id: Box<str>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let client = self.mcp.streams.map().remove(&self.id);
        if let Some(client) = client {
            client.end("the client closed its stream");
        }
    }
}

/// Serves one request to an endpoint of this transport.
pub async fn serve(
    mcp: &Arc<Mcp>,
    scope: Scope,
    visitor: Visitor,
    endpoint: Endpoint,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let served = match (endpoint, &head.method) {
        (Endpoint::Stream, &Method::GET) => open(mcp, scope, visitor, &head),
        (Endpoint::Message, &Method::POST) => post(mcp, &scope, &visitor, &head, body).await,
        (Endpoint::Stream, _) => Err(Refusal::method("GET")),
        (Endpoint::Message, _) => Err(Refusal::method("POST")),
    };
    // Calls that were read are on record by now.
    served.unwrap_or_else(|refusal| Receipt::new().no_call(refusal).into_response())
}

fn open(mcp: &Arc<Mcp>, scope: Scope, visitor: Visitor, head: &Parts) -> Result<Answer, Refusal> {
    if head.headers.contains_key(header::ACCEPT) && !Accepts::of(&head.headers).events {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    headers::admit(&mcp.gateway().lineage, &head.headers, None)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        let reason = "no random number for a session id";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    })?;
    let id: Box<str> = format!("{:032x}", u128::from_be_bytes(random)).into();
    let endpoint = format!("{}/message?sessionId={id}", head.uri.path());
    let (output, messages) = mpsc::channel(MAX_UNREAD);
    let client = Conversation::new(
        Arc::clone(&mcp.clients),
        scope,
        visitor,
        Output::Events(output),
        mcp.gateway().calls.background().clone(),
    );
    mcp.streams.map().insert(id.clone(), Arc::new(client));
    let open = Open {
        mcp: Arc::clone(mcp),
        id,
    };
    Ok(answer::events(Events::of_client(
        &endpoint,
        messages,
        Box::new(open),
    )))
}

async fn post(
    mcp: &Mcp,
    scope: &Scope,
    visitor: &Visitor,
    head: &Parts,
    body: Incoming,
) -> Result<Answer, Refusal> {
    headers::check_content_type(&head.headers)?;
    headers::check_version(&head.headers)?;
    let Some(id) = session_id(&head.uri) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "sessionId is missing: post to the URL of the stream's endpoint event",
        ));
    };
    let client = mcp.streams.map().get(id).cloned();
    let Some(client) = client.filter(|client| client.serves(scope, &visitor.principal)) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "unknown session: open a new stream",
        ));
    };
    // The request is answered at once, and its message waits for the server.
    let body: Bytes = mcp.bodies.read_kept(body, visitor).await?;
    match client.take(body).await {
        Ok(()) => Ok(answer::status(StatusCode::ACCEPTED)),
        Err(RejectedMessage::Invalid(text)) => Err(Refusal::saying(StatusCode::BAD_REQUEST, text)),
        Err(RejectedMessage::TooMany(text)) => {
            Err(Refusal::saying(StatusCode::SERVICE_UNAVAILABLE, text))
        }
    }
}

fn session_id(uri: &Uri) -> Option<&str> {
    let mut pairs = uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sessionId="))
}
