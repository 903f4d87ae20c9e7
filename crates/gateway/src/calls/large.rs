//! Cuts results that are too large for a model's context. The client gets the beginning and a link to
//! the whole, which the journal keeps (`result.maxInlineBytes`).

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    era::result::{self, Whole},
    message::{self, Method},
    record::{Cid, Target},
};
use mainstay_transport::Frame;

use super::{
    client::Client,
    request::{Answer, Request, Upstream},
    shared::Calls,
};

/// How long the journal may take to keep a result: a call that has ended waits for no disk that hangs.
const KEPT_WITHIN: Duration = Duration::from_secs(2);

impl Calls {
    /// The answer as its client gets it. Where the whole cannot be kept it is answered whole.
    pub(super) async fn fitted(
        &self,
        upstream: &Upstream,
        request: &Request,
        client: &Client,
        answer: Answer,
    ) -> Answer {
        let limit = upstream.server().config().max_inline_bytes;
        let (Some(most), Some(result)) = (limit, answer.frame.result()) else {
            return answer;
        };
        let is_cut = result.len() > most
            && request.frame.method() == Some(Method::ToolsCall)
            && client.origin.door.is_mcp()
            // A task, or questions to the client, are no result yet.
            && message::member(result, "content").is_some();
        let journal = self.journal().filter(|journal| journal.keeps_payloads());
        let Some(journal) = journal.filter(|_| is_cut) else {
            return answer;
        };
        let server = &upstream.server().name;
        let target = Target {
            server: Some(server.clone()),
            method: Method::ToolsCall.name().into(),
            tool: request.subject().unwrap_or_default(),
        };
        let origin = Arc::clone(&client.origin);
        let secrets = upstream.server().log.secrets();
        let kept = journal.keep(answer.frame.share(result), origin, target, secrets);
        let kept = tokio::time::timeout(KEPT_WITHIN, kept);
        let error: Box<dyn std::error::Error + Send + Sync> = match kept.await {
            Ok(Ok(cid)) => return headed(request, client, answer, most, &cid),
            Ok(Err(error)) => error.into(),
            Err(elapsed) => elapsed.into(),
        };
        tracing::warn!(%server, %error, "a large result is passed on whole: it cannot be kept");
        answer
    }
}

/// The beginning of a result, and where the whole is.
fn headed(request: &Request, client: &Client, answer: Answer, most: usize, cid: &Cid) -> Answer {
    let result = answer.frame.result().unwrap_or_default();
    let tool = request.subject().unwrap_or_default();
    let whole = Whole {
        uri: &cid.uri(),
        tool: &tool,
        bytes: result.len(),
    };
    let headed = result::head(result, most, whole, client.caller.revision);
    let headed = headed.and_then(|head| {
        let text = message::response(request.id(), &head);
        Frame::read(text.into()).ok()
    });
    match headed {
        Some(frame) => Answer { frame, ..answer },
        None => answer,
    }
}
