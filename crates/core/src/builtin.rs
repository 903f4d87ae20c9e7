//! Mainstay's own tools. A profile selects groups of them (`ownTools`).

/// A group of Mainstay's own tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnToolGroup {
    /// Search, describe and execute all tools. Clients list these six instead of a thousand.
    Meta,
    /// The five `external_` tools.
    External,
    /// Events, and answers to questions of servers for clients that cannot answer.
    Activity,
    /// Records of calls, and stored objects.
    Records,
    /// Add, remove, enable and disable servers. Requires the operator's token.
    Control,
}

impl OwnToolGroup {
    pub const ALL: [Self; 5] = [
        Self::Meta,
        Self::External,
        Self::Activity,
        Self::Records,
        Self::Control,
    ];

    /// The group's name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::External => "external",
            Self::Activity => "activity",
            Self::Records => "records",
            Self::Control => "control",
        }
    }

    /// The names of the group's tools, in the order of lists.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Meta => &[
                "search_tools",
                "describe_tool",
                "execute_tool",
                "list_servers",
                "reconnect_server",
                "read_object",
            ],
            Self::External => &[
                "external_list_servers",
                "external_list_tools",
                "external_call_tool",
                "external_list_resources",
                "external_read_resource",
            ],
            Self::Activity => &[
                "await_activity",
                "get_sampling_requests",
                "respond_to_sampling",
                "cancel_sampling_request",
                "get_elicitations",
                "respond_to_elicitation",
                "cancel_elicitation_request",
                "list_tools",
                "list_resources",
                "list_resource_templates",
                "list_prompts",
                "read_resource",
                "get_prompt",
                "get_logs",
            ],
            Self::Records => &[
                "get_call_records",
                "inspect_object",
                "breakpoint_inspect_object",
            ],
            Self::Control => &[
                "add_server",
                "remove_server",
                "enable_server",
                "disable_server",
            ],
        }
    }

    /// True if the group has a tool with this name.
    pub fn has_tool(self, name: &str) -> bool {
        self.tools().contains(&name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// True for the name of an own tool of Mainstay, even if no profile offers the tool.
pub fn is_tool(name: &str) -> bool {
    OwnToolGroup::ALL.iter().any(|group| group.has_tool(name))
}
