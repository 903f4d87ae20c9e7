//! The protocol side: capabilities, lists, resources, completion, log level,
//! subscriptions and the bookkeeping of tasks. Tools, prompts, requests for input,
//! tasks and skills have modules of their own.

#![expect(
    deprecated,
    reason = "logging and resources/subscribe are part of the handshake revisions"
)]

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, ResourceContents, ServerCapabilities,
        ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::{
    era::Era,
    input, prompts, skills,
    state::{Change, Conformance, is_modern},
    tools,
};

impl ServerHandler for Conformance {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        if self.shared.era == Era::Legacy {
            capabilities.extensions = None;
        }
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut config = ServerConfig::new(capabilities).with_server_info(name);
        if self.shared.era == Era::Modern {
            // Else `initialize` falls back to a revision that is not spoken here.
            config.protocol_version = ProtocolVersion::NO_INITIALIZE;
        }
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.shared.era.versions())
    }

    /// A session hears of changes to its end: each notification is handled by a task of its own.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let told = match changes.recv().await {
                Ok(Change::Tools) => context.peer.notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.peer.notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => Ok(()),
                Err(RecvError::Closed) => return,
            };
            if told.is_err() {
                return;
            }
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.shared.catalog.tools.clone(),
        ))
    }

    /// The transport checks `Mcp-Param-*` headers against the schema found here.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools = &self.shared.catalog.tools;
        tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        mut params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        for _ in 0..input::MAX_ROUNDS {
            match tools::call(self, &params, &context).await? {
                CallToolResponse::InputRequired(asked) if !is_modern(&context) => {
                    (params.input_responses, params.request_state) =
                        input::put(&context, asked).await?;
                }
                response => return Ok(response),
            }
        }
        Err(input::unanswered())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(
            self.shared.catalog.prompts.clone(),
        ))
    }

    async fn get_prompt(
        &self,
        mut params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        for _ in 0..input::MAX_ROUNDS {
            match prompts::get(&params, &context)? {
                GetPromptResponse::InputRequired(asked) if !is_modern(&context) => {
                    (params.input_responses, params.request_state) =
                        input::put(&context, asked).await?;
                }
                response => return Ok(response),
            }
        }
        Err(input::unanswered())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut resources = self.shared.catalog.resources.clone();
        resources.push(skills::manifest());
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            self.shared.catalog.resource_templates.clone(),
        ))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = contents(&params.uri).or_else(|| skills::contents(&params.uri));
        let contents = found.ok_or_else(|| {
            ErrorData::resource_not_found("resource not found", Some(json!({ "uri": params.uri })))
        })?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No resource here ever changes, so there is nothing to remember.
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = ["paris", "park", "party", "testing"]
            .into_iter()
            .filter(|value| value.starts_with(&params.argument.value))
            .map(str::to_owned)
            .collect();
        let completion = CompletionInfo::with_all_values(values)
            .map_err(|reason| ErrorData::internal_error(reason, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(ListSkillsResult::with_all_items(skills::all()))
    }

    async fn get_skill(
        &self,
        params: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        Ok(GetSkillResult::new(skills::get(&params.uri)?))
    }

    async fn read_resource_directory(
        &self,
        params: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let children = skills::children(&params.uri)?;
        Ok(ReadResourceDirectoryResult::with_all_items(children))
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.shared.tasks.get_task(&params.task_id)?;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tasks = &self.shared.tasks;
        tasks.update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&params.task_id)
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.set_log_level(params.level);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        let accepted = context.accepted();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sent = match change {
                Ok(Change::Tools) if accepted.tools_list_changed == Some(true) => {
                    context.sink().notify_tool_list_changed().await
                }
                Ok(Change::Prompts) if accepted.prompts_list_changed == Some(true) => {
                    context.sink().notify_prompt_list_changed().await
                }
                Ok(Change::Tools | Change::Prompts) | Err(RecvError::Lagged(_)) => Ok(()),
                Err(RecvError::Closed) => return Ok(()),
            };
            if sent.is_err() {
                // The client is gone; the subscription ends with it.
                return Ok(());
            }
        }
    }
}

fn contents(uri: &str) -> Option<ResourceContents> {
    let template_id = || uri.strip_prefix("test://template/")?.strip_suffix("/data");
    match uri {
        "test://static-text" => Some(ResourceContents::text("A static text.", uri)),
        "test://static-binary" => {
            Some(ResourceContents::blob(crate::catalog::PNG, uri).with_mime_type("image/png"))
        }
        "test://watched-resource" => Some(ResourceContents::text("A watched text.", uri)),
        _ => template_id().map(|id| {
            let data = json!({
                "id": id, "templateTest": true, "data": format!("Data for ID: {id}"),
            });
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }),
    }
}
