//! Serves several servers as one: names are resolved by the profile's catalog, lists are answered from
//! it.

use mainstay_core::{
    builtin::Group,
    catalog::{ListKind, Owner},
    era::{Era, code},
    failure::{Failure, FailureKind},
    message::{Method, Reference},
};
use mainstay_gateway::{View, calls::Answer, shared_page};

use super::{
    lists,
    request::{RequestContext, missing, unknown_resource},
    tasks,
};
use crate::mcp::{
    builtin::{self, objects, reach::Reach},
    reply::Reply,
};

/// Answers a request, with or without a session.
pub async fn answer(asked: RequestContext<'_>) -> Reply {
    let (id, frame) = (asked.id(), asked.frame);
    let Some(method) = frame.method() else {
        return Reply::error(id, code::METHOD_NOT_FOUND, "a request is expected");
    };
    if let Some(kind) = ListKind::of(method) {
        return lists::answer(asked, kind).await;
    }
    let outcome = match method {
        Method::ToolsCall => return asked.call_tool().await,
        Method::PromptsGet => Box::pin(asked.get_prompt()).await,
        Method::Complete => Box::pin(asked.complete()).await,
        // The extension has no `tasks/result`.
        _ if asked.era() == Era::Modern
            && method != Method::TasksResult
            && tasks::is_about_one(method) =>
        {
            return Box::pin(asked.task()).await;
        }
        Method::ResourcesRead => {
            let uri = asked.address.uri.as_ref();
            if let Some(uri) = uri.filter(|uri| objects::is_one(&uri.value)) {
                let (shared, reach, era) = (asked.shared, asked.reach(), asked.era());
                let read = objects::read(shared, reach, id, &uri.value, era, asked.cancelled);
                return Box::pin(read).await;
            }
            Box::pin(asked.resource()).await.map(|(_, answer)| answer)
        }
        _ => return Reply::unknown_method(id, &frame.method_name()),
    };
    match outcome {
        Ok(answer) => Reply::answer(id, &answer),
        Err(failure) => Reply::failure(id, &failure),
    }
}

impl RequestContext<'_> {
    /// Whether a client may be linked to what is kept of a result.
    pub fn cuts_results(&self) -> bool {
        let mut servers = self.servers().into_iter();
        servers.any(|server| server.config().max_inline_bytes.is_some())
    }

    /// Which kept objects the client may read as resources: none where the profile neither cuts results,
    /// whose links lead to them, nor has a tool that reads them.
    fn reach(&self) -> Option<Reach> {
        let shown = self.view.shown();
        let own = [Group::Records, Group::Meta];
        let reads = own.iter().any(|group| shown.own_tools().contains(group));
        (reads || self.cuts_results()).then(|| Reach::new(&self.sink.client, self.view.clone()))
    }

    async fn call_tool(self) -> Reply {
        let id = self.id();
        let Some(name) = &self.address.name else {
            return Reply::error(id, code::INVALID_PARAMS, "\"name\" is missing");
        };
        if let Some(tool) = builtin::find(self.view.shown().own_tools(), &name.value) {
            return Box::pin(builtin::call(tool, self)).await;
        }
        let target = match self
            .named(name, FailureKind::ToolNotFound, View::tool)
            .await
        {
            Ok(target) => target,
            Err(failure) => return Reply::failure(id, &failure),
        };
        self.call_target(&target, name).await
    }

    async fn get_prompt(self) -> Result<Answer, Failure> {
        let name = self.address.name.as_ref().ok_or_else(|| missing("name"))?;
        let target = self
            .named(name, FailureKind::PromptNotFound, View::prompt)
            .await?;
        self.forward(&target, name).await
    }

    async fn complete(self) -> Result<Answer, Failure> {
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
