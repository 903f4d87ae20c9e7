//! HTTP+SSE, the transport of revision 2024-11-05 (specification of that revision, "Transports"): GET
//! opens a stream whose first event says where to post, and everything is answered on the stream. The
//! session is the stream: it ends when the client closes it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header, request::Parts};
use hyper::body::Incoming;
use mainstay_gateway::calls::Receipt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::{
    conversation::{Conversation, Output, Refused},
    http::{self as door, Accepts, Answer, ClosedRefusal as _, Refusal},
    hub::{Hub, Visitor},
    session::Scope,
    sse_body::Events,
};

/// Messages that wait for a client to read them. What comes after waits where it arises: results in
/// their tasks, progress and logs in bounded queues of their own.
const MAX_UNREAD: usize = 16;

/// Which of the transport's two endpoints a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Stream,
    Message,
}

/// The streams that are open, by the id in the URL that they told their clients.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<Box<str>, Arc<Conversation>>>);

impl Streams {
    fn map(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Conversation>>> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// Closes all of them, at shutdown.
    pub fn close(&self, reason: &str) {
        let all = std::mem::take(&mut *self.map());
        for client in all.into_values() {
            client.end(reason);
        }
    }
}

/// Ends the session when its stream is dropped.
pub struct Open {
    hub: Arc<Hub>,
    id: Box<str>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let client = self.hub.streams.map().remove(&self.id);
        if let Some(client) = client {
            client.end("the client closed its stream");
        }
    }
}

/// Serves one request to an endpoint of this transport.
pub async fn serve(
    hub: &Arc<Hub>,
    scope: Scope,
    visitor: Visitor,
    endpoint: Endpoint,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    let served = match (endpoint, &head.method) {
        (Endpoint::Stream, &Method::GET) => open(hub, scope, visitor, &head),
        (Endpoint::Message, &Method::POST) => post(hub, &scope, &visitor, &head, body).await,
        (Endpoint::Stream, _) => Err(Refusal::method("GET")),
        (Endpoint::Message, _) => Err(Refusal::method("POST")),
    };
    // Calls that were read are on record by now.
    served.unwrap_or_else(|refusal| Receipt::new().no_call(refusal).into_response())
}

fn open(hub: &Arc<Hub>, scope: Scope, visitor: Visitor, head: &Parts) -> Result<Answer, Refusal> {
    if head.headers.contains_key(header::ACCEPT) && !Accepts::of(&head.headers).events {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must name text/event-stream",
        ));
    }
    door::admit(hub, &head.headers, None)?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        let reason = "no random number for a session id";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    })?;
    let id: Box<str> = format!("{:032x}", u128::from_be_bytes(random)).into();
    let endpoint = format!("{}/message?sessionId={id}", head.uri.path());
    let (output, messages) = mpsc::channel(MAX_UNREAD);
    let client = Conversation::new(
        Arc::clone(hub),
        scope,
        visitor,
        Output::Events(output),
        hub.calls.background().clone(),
    );
    hub.streams.map().insert(id.clone(), Arc::new(client));
    let open = Open {
        hub: Arc::clone(hub),
        id,
    };
    Ok(door::events(Events::of_client(&endpoint, messages, open)))
}

async fn post(
    hub: &Hub,
    scope: &Scope,
    visitor: &Visitor,
    head: &Parts,
    body: Incoming,
) -> Result<Answer, Refusal> {
    door::check_content_type(&head.headers)?;
    door::check_version(&head.headers)?;
    let Some(id) = session_id(&head.uri) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "sessionId is missing: post to the URL of the stream's endpoint event",
        ));
    };
    let client = hub.streams.map().get(id).cloned();
    let Some(client) = client.filter(|client| client.serves(scope, &visitor.principal)) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "unknown session: open a new stream",
        ));
    };
    let body: Bytes = hub.bodies.read(body, visitor).await?;
    match client.take(body).await {
        Ok(()) => Ok(door::status(StatusCode::ACCEPTED)),
        Err(Refused::Invalid(text)) => Err(Refusal::saying(StatusCode::BAD_REQUEST, text)),
        Err(Refused::TooMany(text)) => Err(Refusal::saying(StatusCode::SERVICE_UNAVAILABLE, text)),
    }
}

fn session_id(uri: &Uri) -> Option<&str> {
    let mut pairs = uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sessionId="))
}
