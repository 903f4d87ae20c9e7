//! Profiles: named sets of servers and tools. Each has its own endpoint.

use std::collections::BTreeMap;

use crate::{
    builtin::OwnToolGroup,
    ids::{ProfileName, ServerName},
};

use super::{Glob, Naming};

/// The servers and tools that the clients of one endpoint see. An invalid profile makes the whole
/// file invalid. Otherwise a denied tool could be exposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    pub name: ProfileName,
    /// The servers whose tools, prompts and resources the profile has (`servers`, default all).
    pub servers: Vec<Glob>,
    pub tools: ToolFilter,
    /// Edits of tools, by server and original name of the tool.
    edits: BTreeMap<ServerName, BTreeMap<Box<str>, ToolEdit>>,
    pub expose: Expose,
    /// The naming of tools (`naming`). `None` uses the naming of the whole file.
    pub naming: Option<Naming>,
    /// Mainstay's own tools, in order and without duplicates (`ownTools`). The default is none, or
    /// [`OwnToolGroup::Meta`] if only own tools are exposed.
    pub own_tools: Vec<OwnToolGroup>,
}

/// Selects the tools of a profile's servers, by patterns for `server/tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFilter {
    /// `tools.allow` (default all).
    pub allow: Vec<Glob>,
    /// `tools.deny`. It overrides `allow`.
    pub deny: Vec<Glob>,
}

/// A profile's edit of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolEdit {
    /// The exposed name (`rename`). `naming` adds no prefix to it.
    pub name: Option<String>,
    pub description: Option<String>,
}

/// The tools in `tools/list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Expose {
    /// Mainstay's own tools, then those of the servers.
    #[default]
    Direct,
    /// Only Mainstay's own tools. Prompts and resources of the servers are exposed in both cases.
    Meta,
}

impl ProfileConfig {
    /// A profile with all servers.
    pub fn everything(name: ProfileName) -> Self {
        Self {
            name,
            servers: vec![Glob::everything()],
            tools: ToolFilter::default(),
            edits: BTreeMap::new(),
            expose: Expose::Direct,
            naming: None,
            own_tools: Vec::new(),
        }
    }

    /// The profiles that always exist: the one at `/mcp`, and `meta`. The file may change them.
    pub fn built_in() -> Vec<Self> {
        let meta = ProfileName::new(ProfileName::META).expect("a legal name");
        vec![
            Self::everything(ProfileName::default()),
            Self {
                expose: Expose::Meta,
                own_tools: vec![OwnToolGroup::Meta],
                ..Self::everything(meta)
            },
        ]
    }

    /// True if the profile has this server.
    pub fn has_server(&self, server: &ServerName) -> bool {
        self.servers
            .iter()
            .any(|glob| glob.matches(server.as_str()))
    }

    /// True if the profile has this tool of one of its servers.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        if self.tools.is_everything() {
            return true;
        }
        let path = format!("{server}/{tool}");
        let matches_any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&path));
        matches_any(&self.tools.allow) && !matches_any(&self.tools.deny)
    }

    /// Returns the edit of a tool, for changes. Creates a missing edit.
    pub fn edit_mut(&mut self, server: &ServerName, tool: &str) -> &mut ToolEdit {
        let tools = self.edits.entry(server.clone()).or_default();
        tools.entry(tool.into()).or_default()
    }

    /// The edit of a tool.
    pub fn edit(&self, server: &ServerName, tool: &str) -> Option<&ToolEdit> {
        self.edits.get(server)?.get(tool)
    }

    /// All edits of tools, by server and the tool's original name.
    pub fn edits(&self) -> impl Iterator<Item = (&ServerName, &str, &ToolEdit)> {
        self.edits.iter().flat_map(|(server, tools)| {
            let edits = tools.iter();
            edits.map(move |(tool, edit)| (server, &**tool, edit))
        })
    }

    /// True if both profiles expose the same items of servers under the same names.
    pub fn selects_like(&self, other: &Self) -> bool {
        self.servers == other.servers
            && self.tools == other.tools
            && self.edits == other.edits
            && self.naming == other.naming
            && self.reserved() == other.reserved()
    }

    /// Mainstay's own tools that are listed together with tools of servers. Tools of servers cannot
    /// use their names.
    fn reserved(&self) -> &[OwnToolGroup] {
        match self.expose {
            Expose::Direct => &self.own_tools,
            Expose::Meta => &[],
        }
    }

    /// True if a listed own tool has this name, so that no tool of a server can use it.
    pub fn is_reserved(&self, name: &str) -> bool {
        self.reserved().iter().any(|group| group.has_tool(name))
    }
}

impl ToolFilter {
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ToolFilter {
    fn default() -> Self {
        Self {
            allow: vec![Glob::everything()],
            deny: Vec::new(),
        }
    }
}
