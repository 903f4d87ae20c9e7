//! Profiles: named sets of servers and tools, each an endpoint of its own.

use std::collections::BTreeMap;

use crate::{
    builtin::Group,
    ids::{ProfileName, ServerName},
};

use super::{Glob, Naming};

/// What the clients of one endpoint see. A bad one fails the file: a tool that was meant to be denied
/// must not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: ProfileName,
    /// Whose tools, prompts and resources it has (`servers`, default all).
    pub servers: Vec<Glob>,
    pub tools: ToolFilter,
    /// Edits by server and the tool's own name.
    edits: BTreeMap<ServerName, BTreeMap<Box<str>, ToolEdit>>,
    pub expose: Expose,
    /// `naming`; `None` is that of the whole file.
    pub naming: Option<Naming>,
    /// In their order, each once (`ownTools`; by default none, and [`Group::Meta`] where they are all
    /// that is exposed).
    pub own_tools: Vec<Group>,
}

/// Which tools of its servers a profile has, by patterns of `server/tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFilter {
    /// `tools.allow`, default all.
    pub allow: Vec<Glob>,
    /// `tools.deny`, which wins.
    pub deny: Vec<Glob>,
}

/// What a profile says of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolEdit {
    /// The name to expose, whole: `naming` adds nothing to it (`rename`).
    pub name: Option<String>,
    pub description: Option<String>,
}

/// What `tools/list` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Expose {
    /// The servers' tools, after Mainstay's own.
    #[default]
    Direct,
    /// Mainstay's own tools only; prompts and resources of the servers as ever.
    Meta,
}

impl Profile {
    /// All servers.
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

    /// Those that exist where the file says nothing of them: the one at `/mcp`, and `meta`.
    pub fn built_in() -> Vec<Self> {
        let meta = ProfileName::new(ProfileName::META).expect("a legal name");
        vec![
            Self::everything(ProfileName::default()),
            Self {
                expose: Expose::Meta,
                own_tools: vec![Group::Meta],
                ..Self::everything(meta)
            },
        ]
    }

    /// Whether a server is part of it.
    pub fn has_server(&self, server: &ServerName) -> bool {
        self.servers
            .iter()
            .any(|glob| glob.matches(server.as_str()))
    }

    /// Whether a tool of one of its servers is part of it.
    pub fn has_tool(&self, server: &ServerName, tool: &str) -> bool {
        if self.tools.is_everything() {
            return true;
        }
        let path = format!("{server}/{tool}");
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&path));
        any(&self.tools.allow) && !any(&self.tools.deny)
    }

    /// The edit of a tool, to be changed.
    pub fn edit_mut(&mut self, server: &ServerName, tool: &str) -> &mut ToolEdit {
        let tools = self.edits.entry(server.clone()).or_default();
        tools.entry(tool.into()).or_default()
    }

    /// What it says of a tool.
    pub fn edit(&self, server: &ServerName, tool: &str) -> Option<&ToolEdit> {
        self.edits.get(server)?.get(tool)
    }

    /// What it says of tools, by server and the tool's own name.
    pub fn edits(&self) -> impl Iterator<Item = (&ServerName, &str, &ToolEdit)> {
        self.edits.iter().flat_map(|(server, tools)| {
            let tools = tools.iter();
            tools.map(move |(tool, edit)| (server, &**tool, edit))
        })
    }

    /// Whether the servers' items are the same in both, name for name.
    pub fn selects_like(&self, other: &Self) -> bool {
        self.servers == other.servers
            && self.tools == other.tools
            && self.edits == other.edits
            && self.naming == other.naming
            && self.reserved() == other.reserved()
    }

    /// The own tools whose names no tool of a server may have: those beside which servers' are listed.
    fn reserved(&self) -> &[Group] {
        match self.expose {
            Expose::Direct => &self.own_tools,
            Expose::Meta => &[],
        }
    }

    /// Whether this name is that of an own tool beside the servers'.
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
