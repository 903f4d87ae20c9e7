//! The methods of MCP.

/// The MCP methods that Mainstay treats specially. All others are [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Initialize,
    Ping,
    ToolsList,
    ToolsCall,
    ResourcesList,
    ResourceTemplatesList,
    ResourcesRead,
    ResourcesSubscribe,
    ResourcesUnsubscribe,
    PromptsList,
    PromptsGet,
    Complete,
    SetLevel,
    CreateMessage,
    Elicit,
    RootsList,
    Initialized,
    Cancelled,
    Progress,
    LogMessage,
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    RootsChanged,
    ElicitationComplete,
    Discover,
    Listen,
    Acknowledged,
    /// Tasks. `list` and `result` exist only in 2025-11-25, `update` only in the extension of
    /// 2026-07-28.
    TasksGet,
    TasksList,
    TasksResult,
    TasksUpdate,
    TasksCancel,
    TaskStatus,
    TaskChanged,
    Other,
}

const METHODS: [(&str, Method); 36] = [
    ("tools/call", Method::ToolsCall),
    ("tools/list", Method::ToolsList),
    ("notifications/progress", Method::Progress),
    ("notifications/message", Method::LogMessage),
    ("ping", Method::Ping),
    ("resources/read", Method::ResourcesRead),
    ("prompts/get", Method::PromptsGet),
    ("completion/complete", Method::Complete),
    ("notifications/cancelled", Method::Cancelled),
    ("initialize", Method::Initialize),
    ("notifications/initialized", Method::Initialized),
    ("resources/list", Method::ResourcesList),
    ("resources/templates/list", Method::ResourceTemplatesList),
    ("resources/subscribe", Method::ResourcesSubscribe),
    ("resources/unsubscribe", Method::ResourcesUnsubscribe),
    ("prompts/list", Method::PromptsList),
    ("logging/setLevel", Method::SetLevel),
    ("sampling/createMessage", Method::CreateMessage),
    ("elicitation/create", Method::Elicit),
    ("roots/list", Method::RootsList),
    ("notifications/tools/list_changed", Method::ToolsChanged),
    ("notifications/prompts/list_changed", Method::PromptsChanged),
    (
        "notifications/resources/list_changed",
        Method::ResourcesChanged,
    ),
    ("notifications/resources/updated", Method::ResourceUpdated),
    ("notifications/roots/list_changed", Method::RootsChanged),
    (
        "notifications/elicitation/complete",
        Method::ElicitationComplete,
    ),
    ("server/discover", Method::Discover),
    ("subscriptions/listen", Method::Listen),
    (
        "notifications/subscriptions/acknowledged",
        Method::Acknowledged,
    ),
    ("tasks/get", Method::TasksGet),
    ("tasks/list", Method::TasksList),
    ("tasks/result", Method::TasksResult),
    ("tasks/update", Method::TasksUpdate),
    ("tasks/cancel", Method::TasksCancel),
    ("notifications/tasks/status", Method::TaskStatus),
    ("notifications/tasks", Method::TaskChanged),
];

impl Method {
    pub fn from_name(name: &str) -> Self {
        METHODS
            .iter()
            .find(|(text, _)| *text == name)
            .map_or(Self::Other, |(_, method)| *method)
    }

    /// The method's name in messages. Empty for [`Method::Other`].
    pub fn name(self) -> &'static str {
        METHODS
            .iter()
            .find(|(_, method)| *method == self)
            .map_or("", |(text, _)| text)
    }

    /// True for a request that only clients send.
    pub fn is_client_request(self) -> bool {
        matches!(
            self,
            Self::Initialize
                | Self::Discover
                | Self::Listen
                | Self::ToolsList
                | Self::ToolsCall
                | Self::ResourcesList
                | Self::ResourceTemplatesList
                | Self::ResourcesRead
                | Self::ResourcesSubscribe
                | Self::ResourcesUnsubscribe
                | Self::PromptsList
                | Self::PromptsGet
                | Self::Complete
                | Self::SetLevel
        )
    }
}
