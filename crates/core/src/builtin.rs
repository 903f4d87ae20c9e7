//! Mainstay's own tools, in groups that a profile chooses by `ownTools`.

/// A group of tools that Mainstay offers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Search, describe and execute any tool, so that a thousand cost a client six.
    Meta,
    /// The five `external_` tools.
    External,
    /// Events, and questions of servers for clients that cannot be asked.
    Activity,
    /// Records of calls and the objects they name.
    Records,
    /// Adds, removes, enables and disables servers; for the operator's token alone.
    Control,
}

impl Group {
    pub const ALL: [Self; 5] = [
        Self::Meta,
        Self::External,
        Self::Activity,
        Self::Records,
        Self::Control,
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::External => "external",
            Self::Activity => "activity",
            Self::Records => "records",
            Self::Control => "control",
        }
    }

    /// The names of its tools, as they are listed.
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

    /// Whether one of its tools has this name.
    pub fn has_tool(self, name: &str) -> bool {
        self.tools().contains(&name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// Whether this is the name of one of Mainstay's own tools, offered or not.
pub fn is_tool(name: &str) -> bool {
    Group::ALL.iter().any(|group| group.has_tool(name))
}
