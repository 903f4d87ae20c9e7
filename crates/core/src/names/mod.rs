//! Exposed names of tools and prompts.
//!
//! A table resolves names. It depends only on the configuration and on the items that servers
//! offered in this run. The order in which servers connect has no effect. A name that contains a
//! server never leads to another server.

mod servers;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use sha2::{Digest, Sha256};

pub use self::servers::{NamedServer, ServerNames};
use crate::{builtin, config::Naming, ids::ServerName};

/// Length of the hash at the end of an altered name, in characters.
const HASH_LENGTH: usize = 8;

/// Length of the hash in a name that has no room for the server, in characters. Only the hash tells
/// the servers apart. It is long, so that no server can find a tool with the same hash.
const LONG_HASH_LENGTH: usize = 16;

/// Maximum number of candidates to list for an ambiguous name.
const MAX_CANDIDATES: usize = 16;

/// Maximum length of a name for [`is_strict`].
const MAX_STRICT_LENGTH: usize = 64;

/// True if a tool's original name matches `^[a-zA-Z0-9_-]{1,64}$`, as many models require.
pub fn is_strict(name: &str) -> bool {
    (1..=MAX_STRICT_LENGTH).contains(&name.len()) && name.chars().all(is_legal)
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// A tool or prompt to expose, by its server and original name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameOrigin<'a> {
    pub server: &'a ServerName,
    pub original: &'a str,
    /// The exposed name that the profile sets (`rename`).
    pub renamed: Option<&'a str>,
}

/// The rules for exposed names in one table.
pub struct Rules<'a> {
    pub naming: Naming,
    pub max_length: usize,
    /// True for names of Mainstay's own tools in the same list.
    pub reserved: &'a dyn Fn(&str) -> bool,
    /// All servers, including those without items in the table.
    pub servers: &'a ServerNames,
    /// Original names of items that are gone, with the servers that offered them in this run.
    pub gone: &'a HashMap<&'a str, Vec<&'a ServerName>>,
}

/// The exposed names of one profile, and the other spellings that resolve to them.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// The exposed name of each origin, by the origin's index.
    exposed: Vec<String>,
    by_name: foldhash::HashMap<Box<str>, Meaning>,
    refused_renames: Vec<usize>,
}

/// The items that a name leads to. Each number is the index of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Exposed(usize),
    /// `server/tool`, the full name that REST and commands use.
    Full(usize),
    /// Another spelling of a name. It is valid only if it is unique.
    Alias(usize),
    Several(Vec<Candidate>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Candidate {
    Here(usize),
    /// The full name of an item that its server no longer offers.
    Gone(Box<str>),
}

impl Meaning {
    /// Adds another candidate for the name. Exposed and full names stay valid.
    fn contest(&mut self, candidate: Candidate) {
        match self {
            Self::Exposed(_) | Self::Full(_) => {}
            Self::Alias(index) if candidate == Candidate::Here(*index) => {}
            Self::Alias(index) => *self = Self::Several(vec![Candidate::Here(*index), candidate]),
            Self::Several(candidates) => {
                if candidates.len() < MAX_CANDIDATES && !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        }
    }
}

/// Removes the server from `server/tool`, `server__tool` or `mcp__server__tool`. Returns any other
/// name unchanged.
pub fn without_server<'n>(name: &'n str, server: &ServerName) -> &'n str {
    let prefix = exposed_prefix(server);
    let strip = |name: &'n str| {
        let exposed = || name.strip_prefix(&*prefix);
        let rest = name.strip_prefix(server.as_str()).or_else(exposed)?;
        rest.strip_prefix("__").or_else(|| rest.strip_prefix('/'))
    };
    let original = strip(name).or_else(|| strip(name.strip_prefix("mcp__")?));
    original.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// The reason that a name does not resolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    Unknown,
    /// The name has several candidates, with these names.
    Ambiguous(Vec<String>),
}

impl NameTable {
    pub fn build(origins: &[NameOrigin<'_>], rules: &Rules<'_>) -> Self {
        let mut exposed = Exposed::new(origins, rules);
        let mut refused_renames = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            if origin.renamed.is_none() {
                exposed.offer(index, exposed.unaltered_name(origin));
            }
        }
        for (index, origin) in origins.iter().enumerate() {
            if let Some(new_name) = origin.renamed
                && !exposed.offer(index, new_name.to_owned())
            {
                refused_renames.push(index);
                exposed.offer(index, prefixed_name(origin, rules.naming));
            }
        }
        let exposed = exposed.complete();
        let mut table = Self {
            by_name: foldhash::HashMap::default(),
            exposed,
            refused_renames,
        };
        table.add_spellings(origins, rules);
        table
    }

    fn add_spellings(&mut self, origins: &[NameOrigin<'_>], rules: &Rules<'_>) {
        for (index, name) in self.exposed.iter().enumerate() {
            let name = name.as_str().into();
            self.by_name.insert(name, Meaning::Exposed(index));
        }
        for (index, origin) in origins.iter().enumerate() {
            let full_name = format!("{}/{}", origin.server, origin.original).into();
            self.by_name
                .entry(full_name)
                .or_insert(Meaning::Full(index));
        }
        for (index, origin) in origins.iter().enumerate() {
            let NameOrigin {
                server, original, ..
            } = origin;
            let prefix = exposed_prefix(server);
            let is_other = *prefix != *server.as_str();
            for server_part in [server.as_str()]
                .into_iter()
                .chain(is_other.then_some(&*prefix))
            {
                for alias in [
                    format!("{server_part}__{original}"),
                    format!("mcp__{server_part}__{original}"),
                ] {
                    if rules.servers.may_lead(&alias, server) {
                        self.add_alias(alias.into(), index);
                    }
                }
            }
            // A call of an own tool that the profile does not offer must not reach a server.
            if builtin::is_tool(original) || !rules.servers.may_lead(original, server) {
                continue;
            }
            self.add_alias((*original).into(), index);
        }
        for (original, servers) in rules.gone {
            let Some(meaning @ (Meaning::Alias(_) | Meaning::Several(_))) =
                self.by_name.get_mut(*original)
            else {
                continue;
            };
            for server in servers.iter().take(MAX_CANDIDATES) {
                let is_own =
                    matches!(meaning, Meaning::Alias(index) if origins[*index].server == *server);
                if !is_own {
                    let full_name = format!("{server}/{original}");
                    meaning.contest(Candidate::Gone(full_name.into()));
                }
            }
        }
    }

    fn add_alias(&mut self, alias: Box<str>, candidate: usize) {
        match self.by_name.entry(alias) {
            Entry::Vacant(vacant) => drop(vacant.insert(Meaning::Alias(candidate))),
            Entry::Occupied(mut occupied) => occupied.get_mut().contest(Candidate::Here(candidate)),
        }
    }

    /// Returns the exposed name of the origin at `index`.
    pub fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// Returns the origins whose `rename` was refused, because the name contains another server or
    /// is taken.
    pub fn refused_renames(&self) -> &[usize] {
        &self.refused_renames
    }

    /// Returns the origin of a name. An exposed name takes precedence over a full name. Any other
    /// spelling must be unique in this table.
    pub fn resolve(&self, name: &str) -> Result<usize, Unresolved> {
        match self.by_name.get(name) {
            Some(Meaning::Exposed(index) | Meaning::Full(index) | Meaning::Alias(index)) => {
                Ok(*index)
            }
            Some(Meaning::Several(candidates)) => Err(Unresolved::Ambiguous(
                candidates
                    .iter()
                    .map(|candidate| match candidate {
                        Candidate::Here(index) => self.exposed[*index].clone(),
                        Candidate::Gone(full_name) => full_name.to_string(),
                    })
                    .collect(),
            )),
            None => Err(Unresolved::Unknown),
        }
    }
}

/// The exposed names during their assignment.
struct Exposed<'a> {
    origins: &'a [NameOrigin<'a>],
    rules: &'a Rules<'a>,
    names: Vec<Option<String>>,
    assigned: foldhash::HashMap<String, usize>,
    /// The servers that claim an original name, for tools without `rename`.
    claims: HashMap<&'a str, Claim<'a>>,
}

/// The servers that claim an original name. With [`Naming::None`], only a sole claimant may use the
/// name.
enum Claim<'a> {
    Sole(&'a ServerName),
    Contested,
}

impl<'a> Exposed<'a> {
    fn new(origins: &'a [NameOrigin<'a>], rules: &'a Rules<'a>) -> Self {
        let mut claims = HashMap::new();
        for origin in origins.iter().filter(|origin| origin.renamed.is_none()) {
            claims
                .entry(origin.original)
                .and_modify(|claim| *claim = Claim::Contested)
                .or_insert(Claim::Sole(origin.server));
        }
        Self {
            origins,
            rules,
            names: vec![None; origins.len()],
            assigned: foldhash::HashMap::default(),
            claims,
        }
    }

    /// Assigns this name if it is free and leads to no other server. Returns true if assigned.
    fn offer(&mut self, index: usize, name: String) -> bool {
        if !self.is_free(&self.origins[index], &name) {
            return false;
        }
        self.assigned.insert(name.clone(), index);
        self.names[index] = Some(name);
        true
    }

    fn is_free(&self, origin: &NameOrigin<'_>, name: &str) -> bool {
        let Rules {
            naming, max_length, ..
        } = *self.rules;
        let is_exposable =
            naming == Naming::Slash || name.len() <= max_length && name.chars().all(is_legal);
        is_exposable
            && !self.assigned.contains_key(name)
            && !(self.rules.reserved)(name)
            && (naming != Naming::None || self.is_unclaimed(origin, name))
            && self.rules.servers.may_lead(name, origin.server)
    }

    /// True if no other server offers, or has offered, an item with this original name.
    fn is_unclaimed(&self, origin: &NameOrigin<'_>, name: &str) -> bool {
        let is_own = match self.claims.get(name) {
            None => true,
            Some(Claim::Sole(server)) => *server == origin.server,
            Some(Claim::Contested) => false,
        };
        is_own
            && other_servers(self.rules, origin.server, name)
                .next()
                .is_none()
    }

    /// Returns the original name if the naming is `none` and the name is free, else the name with
    /// the server's prefix.
    fn unaltered_name(&self, origin: &NameOrigin<'_>) -> String {
        let bare = origin.original;
        if self.rules.naming == Naming::None && self.is_free(origin, bare) {
            bare.to_owned()
        } else {
            prefixed_name(origin, self.rules.naming)
        }
    }

    /// Assigns altered names to all origins without a name.
    fn complete(mut self) -> Vec<String> {
        for index in 0..self.origins.len() {
            let mut attempt = 0;
            while self.names[index].is_none() {
                for name in altered_names(&self.origins[index], self.rules, attempt) {
                    if self.names[index].is_none() {
                        self.offer(index, name);
                    }
                }
                attempt += 1;
            }
        }
        self.names.into_iter().flatten().collect()
    }
}

/// Other servers that have offered an item with this original name, and no longer do.
fn other_servers<'r>(
    rules: &Rules<'r>,
    server: &'r ServerName,
    name: &str,
) -> impl Iterator<Item = &'r ServerName> + use<'r> {
    let former_owners = rules.gone.get(name).map_or(&[][..], Vec::as_slice);
    former_owners
        .iter()
        .copied()
        .filter(move |other| *other != server)
}

/// Returns the original name with the server's prefix, according to the naming.
fn prefixed_name(origin: &NameOrigin<'_>, naming: Naming) -> String {
    let separator = match naming {
        Naming::Slash => "/",
        Naming::DoubleUnderscore | Naming::McpPrefix | Naming::None => "__",
    };
    format!("{}{separator}{}", prefix(origin, naming), origin.original)
}

fn prefix(origin: &NameOrigin<'_>, naming: Naming) -> String {
    match naming {
        Naming::McpPrefix => format!("mcp__{}", exposed_prefix(origin.server)),
        Naming::DoubleUnderscore | Naming::None => exposed_prefix(origin.server).into_owned(),
        // A server's name contains no slash.
        Naming::Slash => origin.server.to_string(),
    }
}

/// The server's part of an exposed name. If the server's own name would be ambiguous before `__`,
/// the part is a similar name with a hash.
fn exposed_prefix(server: &ServerName) -> Cow<'_, str> {
    if server.is_separable() {
        return server.as_str().into();
    }
    let parts = server.as_str().split('_').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    let digest = Sha256::digest(server.as_str());
    let hash = u32::from_be_bytes(digest[..4].try_into().expect("a digest has 32 bytes"));
    let separator = if parts.is_empty() { "" } else { "-" };
    format!("{}{separator}{hash:08x}", parts.join("_")).into()
}

/// Returns names with the server's prefix and a hash of the item, best first. Each attempt returns
/// other names.
fn altered_names(origin: &NameOrigin<'_>, rules: &Rules<'_>, attempt: usize) -> [String; 3] {
    let (server, original) = (origin.server, origin.original);
    let digest = match attempt {
        0 => Sha256::digest(format!("{server}/{original}")),
        _ => Sha256::digest(format!("{server}/{original}/{attempt}")),
    };
    let hash = u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"));
    let hash = format!("{hash:016x}");
    let prefix = format!("{}__", prefix(origin, rules.naming));
    let legal: String = original
        .chars()
        .map(|c| if is_legal(c) { c } else { '_' })
        .collect();
    // After the prefix of a server named `mcp`, a separator would turn the rest into a server's
    // name.
    let flat_name: Vec<&str> = legal.split('_').filter(|part| !part.is_empty()).collect();
    let flat_name = flat_name.join("_");
    let max_characters = rules.max_length.saturating_sub(HASH_LENGTH + 1);
    let fitted_name = |rest: &str| {
        let name = format!("{prefix}{rest}");
        if prefix.len() > max_characters {
            return anonymous(server, &hash, rules.max_length);
        }
        format!(
            "{}_{}",
            &name[..name.len().min(max_characters)],
            &hash[..HASH_LENGTH]
        )
    };
    let anonymous_name = anonymous(server, &hash, rules.max_length);
    [fitted_name(&legal), fitted_name(&flat_name), anonymous_name]
}

/// Returns a name without a separator, so that no part of it reads as the name of a server.
fn anonymous(server: &ServerName, hash: &str, max_length: usize) -> String {
    // Keep at least one character of the server's name.
    let length = LONG_HASH_LENGTH.min(max_length.saturating_sub(2));
    let max_characters = max_length.saturating_sub(length + 1);
    let server = exposed_prefix(server);
    let beginning = server[..server.len().min(max_characters)].trim_end_matches('_');
    format!("{beginning}_{}", &hash[..length])
}
