//! Results that are too large for whoever reads them with a model: the client gets the beginning, and
//! a link to the whole, which is kept with the records (`result.maxInlineBytes`).

use mainstay_core::{
    era::result::{self, Whole},
    message::{self, Method},
};

use super::{Answer, Calls, Client, Request, Upstream};
use crate::transport::Frame;

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
        let cid = match journal.keep(answer.frame.share(result)).await {
            Ok(cid) => cid,
            Err(error) => {
                tracing::warn!(%server, %error, "a large result is passed on whole: it cannot be kept");
                return answer;
            }
        };
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
}
