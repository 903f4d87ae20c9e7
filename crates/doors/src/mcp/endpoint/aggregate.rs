//! The aggregate endpoint: serves the servers of a profile as one. The profile's catalog resolves
//! names and answers lists.

use mainstay_core::{
    builtin::OwnToolGroup,
    catalog::{ListKind, Owner},
    era::{Era, code},
    failure::{Failure, FailureKind},
    message::{Method, Reference},
};
use mainstay_gateway::{View, calls::CallAnswer, shared_page};

use super::{
    lists,
    request::{RequestContext, missing, unknown_resource},
    tasks,
};
use crate::mcp::{
    builtin::{self, objects, reach::Reach},
    reply::RpcReply,
};

/// Answers a request, with or without a session.
pub async fn answer(request: RequestContext<'_>) -> RpcReply {
    let (id, frame) = (request.id(), request.frame);
    let Some(method) = frame.method() else {
        return RpcReply::error(id, code::METHOD_NOT_FOUND, "a request is expected");
    };
    if let Some(kind) = ListKind::for_method(method) {
        return lists::answer(request, kind).await;
    }
    let outcome = match method {
        Method::ToolsCall => return request.call_tool().await,
        Method::PromptsGet => Box::pin(request.get_prompt()).await,
        Method::Complete => Box::pin(request.complete()).await,
        // SEP-2663 has no `tasks/result`.
        _ if request.era() == Era::Modern
            && method != Method::TasksResult
            && tasks::is_about_one(method) =>
        {
            return Box::pin(request.task()).await;
        }
        Method::ResourcesRead => {
            let uri = request.address.uri.as_ref();
            if let Some(uri) = uri.filter(|uri| objects::is_one(&uri.value)) {
                let (shared_state, reach, era) = (request.shared, request.reach(), request.era());
                let read_future =
                    objects::read(shared_state, reach, id, &uri.value, era, request.cancelled);
                return Box::pin(read_future).await;
            }
            Box::pin(request.resource()).await.map(|(_, answer)| answer)
        }
        _ => return RpcReply::unknown_method(id, &frame.method_name()),
    };
    match outcome {
        Ok(answer) => RpcReply::answer(id, &answer),
        Err(failure) => RpcReply::failure(id, &failure),
    }
}

impl RequestContext<'_> {
    /// True if a server of the client may cut results and link to the stored object.
    pub fn cuts_results(&self) -> bool {
        let mut servers = self.servers().into_iter();
        servers.any(|server| server.config().max_inline_bytes.is_some())
    }

    /// The objects that the client may read as resources. `None` if no result is cut and no own
    /// tool of the profile reads objects.
    fn reach(&self) -> Option<Reach> {
        let snapshot = self.view.snapshot();
        let reading_groups = [OwnToolGroup::Records, OwnToolGroup::Meta];
        let reads = reading_groups
            .iter()
            .any(|group| snapshot.own_tools().contains(group));
        (reads || self.cuts_results()).then(|| Reach::new(&self.sink.client, self.view.clone()))
    }

    async fn call_tool(self) -> RpcReply {
        let id = self.id();
        let Some(name) = &self.address.name else {
            return RpcReply::error(id, code::INVALID_PARAMS, "\"name\" is missing");
        };
        if let Some(tool) = builtin::find(self.view.snapshot().own_tools(), &name.value) {
            return Box::pin(builtin::call(tool, self)).await;
        }
        let target = match self
            .named(name, FailureKind::ToolNotFound, View::tool)
            .await
        {
            Ok(target) => target,
            Err(failure) => return RpcReply::failure(id, &failure),
        };
        self.call_target(&target, name).await
    }

    async fn get_prompt(self) -> Result<CallAnswer, Failure> {
        let name = self.address.name.as_ref().ok_or_else(|| missing("name"))?;
        let target = self
            .named(name, FailureKind::PromptNotFound, View::prompt)
            .await?;
        self.forward(&target, name).await
    }

    async fn complete(self) -> Result<CallAnswer, Failure> {
        match &self.address.reference {
            Some(Reference::Prompt(name)) => {
                let target = self
                    .named(name, FailureKind::PromptNotFound, View::prompt)
                    .await?;
                self.forward(&target, name).await
            }
            Some(Reference::Resource(uri)) => {
                self.settled().await;
                match self.view.reference(&uri.value) {
                    Owner::Server(target) => self.forward(&target, uri).await,
                    Owner::Absent(server) => Err(self.absent(&uri.value, server)),
                    Owner::Shared(servers) => Err(shared_page(&uri.value, &servers)),
                    Owner::Unlisted => Err(unknown_resource(&uri.value)),
                }
            }
            None => Err(missing("ref")),
        }
    }
}
