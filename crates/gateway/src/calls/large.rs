//! Cuts results that are too large for a model's context (`result.maxInlineBytes`). The client gets
//! the beginning of the result, and a link to the whole result in the journal.

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    era::result::{self, Whole},
    message::{self, Method},
    record::{Cid, Target},
};
use mainstay_transport::Frame;

use super::{
    client::CallClient,
    request::{CallAnswer, CallRequest, Upstream},
    shared::Calls,
};

/// Time limit for storing a result in the journal. Short, because the finished call waits for it.
const STORE_LIMIT: Duration = Duration::from_secs(2);

impl Calls {
    /// The answer for the client, cut if it exceeds the limit. If the journal cannot store the whole
    /// result, the answer is not cut.
    pub(super) async fn cut_to_limit(
        &self,
        upstream: &Upstream,
        request: &CallRequest,
        client: &CallClient,
        answer: CallAnswer,
    ) -> CallAnswer {
        let limit = upstream.server().config().max_inline_bytes;
        let (Some(limit), Some(result)) = (limit, answer.frame.result()) else {
            return answer;
        };
        let is_cut = result.len() > limit
            && request.frame.method() == Some(Method::ToolsCall)
            && client.origin.door.is_mcp()
            // Do not cut a task or a result with questions, which have no `content`.
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
        let storing = journal.keep(answer.frame.share(result), origin, target, secrets);
        let storing = tokio::time::timeout(STORE_LIMIT, storing);
        let error: Box<dyn std::error::Error + Send + Sync> = match storing.await {
            Ok(Ok(cid)) => return with_head(request, client, answer, limit, &cid),
            Ok(Err(error)) => error.into(),
            Err(elapsed) => elapsed.into(),
        };
        tracing::warn!(%server, %error, "a large result is passed on whole: it cannot be kept");
        answer
    }
}

/// The answer with the beginning of its result, and with a link to the whole result.
fn with_head(
    request: &CallRequest,
    client: &CallClient,
    answer: CallAnswer,
    limit: usize,
    cid: &Cid,
) -> CallAnswer {
    let result = answer.frame.result().unwrap_or_default();
    let tool = request.subject().unwrap_or_default();
    let whole = Whole {
        uri: &cid.uri(),
        tool: &tool,
        bytes: result.len(),
    };
    let with_head = result::head(result, limit, whole, client.caller.revision);
    let with_head = with_head.and_then(|head| {
        let text = message::response(request.id(), &head);
        Frame::read(text.into()).ok()
    });
    match with_head {
        Some(frame) => CallAnswer { frame, ..answer },
        None => answer,
    }
}
