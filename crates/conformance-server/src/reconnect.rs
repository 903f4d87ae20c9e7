//! Lets a tool close the event stream of its own call, and wait until the client has reopened it with
//! `Last-Event-ID` (SEP-1699).
//!
//! rmcp keeps a closed stream's events but does not tell a handler which stream is its own. So the stream is
//! cut one layer out, on the HTTP body.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures_util::{StreamExt as _, stream};
use http::{Method, request::Parts};
use rmcp::{RoleServer, service::RequestContext};
use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::state::Shared;

/// Time that a call waits for its client to reconnect.
const RETURN_LIMIT: Duration = Duration::from_secs(20);
const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";

/// An extension of a request: cancelling it ends the response body.
#[derive(Clone)]
struct Cut(CancellationToken);

pub async fn layer(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let resuming = resumed_session(&request);
    let cut = Cut(CancellationToken::new());
    request.extensions_mut().insert(cut.clone());
    let response = next.run(request).await;
    if let Some(session_id) = resuming {
        // There may be no receiver.
        let _ = shared.resumed.send(session_id);
    }
    response.map(|body| cuttable(body.into_data_stream(), cut))
}

/// Ends this call's event stream, and returns after the client has reopened it. A client that does not
/// reconnect in time loses its answer.
pub async fn break_stream(shared: &Shared, context: &RequestContext<RoleServer>) {
    let Some(parts) = context.extensions.get::<Parts>() else {
        return;
    };
    let (Some(Cut(cut)), Some(session_id)) =
        (parts.extensions.get::<Cut>(), parts.headers.get(SESSION_ID))
    else {
        return;
    };
    let mut resumed = shared.resumed.subscribe();
    cut.cancel();
    let returned = async {
        // An error is lag, which the time limit covers: `shared` keeps the channel open.
        while resumed.recv().await.as_deref().map(str::as_bytes) != Ok(session_id.as_bytes()) {}
    };
    // In either case the result is due now.
    let _ = time::timeout(RETURN_LIMIT, returned).await;
}

fn resumed_session(request: &Request) -> Option<String> {
    let headers = request.headers();
    let resumes = request.method() == Method::GET && headers.contains_key(LAST_EVENT_ID);
    let session_id = headers.get(SESSION_ID).filter(|_| resumes)?;
    Some(session_id.to_str().ok()?.to_owned())
}

/// The body up to the cut, but at least its first chunk: without the priming event a client has no event id
/// to resume from.
fn cuttable(body: BodyDataStream, Cut(cut): Cut) -> Body {
    let primed = false;
    Body::from_stream(stream::unfold(
        (body, cut, primed),
        |(mut body, cut, primed)| async move {
            let chunk = tokio::select! {
                biased;
                () = cut.cancelled(), if primed => None,
                chunk = body.next() => chunk,
            }?;
            Some((chunk, (body, cut, true)))
        },
    ))
}
