//! HTTP+SSE, the transport of revision 2024-11-05 (specification, "Transports"). GET opens a
//! stream, whose first event has the URL for the client's messages. The session ends with the
//! stream.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header, request::Parts};
use hyper::body::Incoming;
use mainstay_gateway::calls::Receipt;
use tokio::sync::mpsc;

use super::{
    answer::{self, ClosedRefusal as _, HttpAnswer, HttpRefusal},
    conversation::{Conversation, Output, RejectedMessage},
    headers::{self, Accepts},
    mcp::Mcp,
    sse_body::EventStreamBody,
};
use crate::mcp::sessions::session::EndpointScope;
use mainstay_doorway::peer::Visitor;

/// Maximum number of unread messages of a stream. Further results wait in their tasks. Progress and
/// logs wait in bounded queues.
const MAX_UNREAD: usize = 16;

/// The endpoints of the transport: `/sse` and `/sse/message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseEndpoint {
    Stream,
    Message,
}

/// Held by a stream. Dropping it ends the session.
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

/// Answers one request at an endpoint of this transport.
pub async fn serve(
    mcp: &Arc<Mcp>,
    scope: EndpointScope,
    visitor: Visitor,
    endpoint: SseEndpoint,
    request: Request<Incoming>,
) -> HttpAnswer {
    let (head, body) = request.into_parts();
    let reply = match (endpoint, &head.method) {
        (SseEndpoint::Stream, &Method::GET) => open(mcp, scope, visitor, &head),
        (SseEndpoint::Message, &Method::POST) => post(mcp, &scope, &visitor, &head, body).await,
        (SseEndpoint::Stream, _) => Err(HttpRefusal::method("GET")),
        (SseEndpoint::Message, _) => Err(HttpRefusal::method("POST")),
    };
    // A refused call in the request has already been recorded.
    reply.unwrap_or_else(|refusal| Receipt::new().no_call(refusal).into_response())
}

fn open(
    mcp: &Arc<Mcp>,
    scope: EndpointScope,
    visitor: Visitor,
    head: &Parts,
) -> Result<HttpAnswer, HttpRefusal> {
    if head.headers.contains_key(header::ACCEPT) && !Accepts::from_headers(&head.headers).events {
        return Err(HttpRefusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    headers::admit(&mcp.gateway().lineage, &head.headers, None)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        let reason = "no random number for a session id";
        HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
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
    let open_stream = Open {
        mcp: Arc::clone(mcp),
        id,
    };
    Ok(answer::events(EventStreamBody::for_sse_client(
        &endpoint,
        messages,
        Box::new(open_stream),
    )))
}

async fn post(
    mcp: &Mcp,
    scope: &EndpointScope,
    visitor: &Visitor,
    head: &Parts,
    body: Incoming,
) -> Result<HttpAnswer, HttpRefusal> {
    headers::check_content_type(&head.headers)?;
    headers::check_version(&head.headers)?;
    let Some(id) = session_id(&head.uri) else {
        return Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            "sessionId is missing: post to the URL of the stream's endpoint event",
        ));
    };
    let client = mcp.streams.map().get(id).cloned();
    let Some(client) = client.filter(|client| client.serves(scope, &visitor.principal)) else {
        return Err(HttpRefusal::new(
            StatusCode::NOT_FOUND,
            "unknown session: open a new stream",
        ));
    };
    // The POST ends before the message's answer, so the body must count for longer.
    let body: Bytes = mcp.bodies.read_kept(body, visitor).await?;
    match client.take(body).await {
        Ok(()) => Ok(answer::status(StatusCode::ACCEPTED)),
        Err(RejectedMessage::Invalid(text)) => {
            Err(HttpRefusal::with_body(StatusCode::BAD_REQUEST, text))
        }
        Err(RejectedMessage::TooMany(text)) => Err(HttpRefusal::with_body(
            StatusCode::SERVICE_UNAVAILABLE,
            text,
        )),
    }
}

fn session_id(uri: &Uri) -> Option<&str> {
    let mut pairs = uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sessionId="))
}
