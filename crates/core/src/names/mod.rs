//! Exposed names: how a server's tool or prompt is called on each surface.
//!
//! Names are resolved by a table. They depend on the configuration and on what servers offered in this run,
//! never on the order in which servers came up. No name leads to a server while it names another.

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

/// Characters of the hash that closes a shortened or altered name.
const HASH_LENGTH: usize = 8;

/// Characters of the hash where the name has no room for its server. It is all that tells such names of
/// several servers apart, so a server must not be able to search for a tool with the hash of another's.
const LONG_HASH_LENGTH: usize = 16;

/// How many meanings of an ambiguous name are listed. No reader reads a thousand.
const MAX_CANDIDATES: usize = 16;

/// Longest name that [`is_strict`] accepts.
const MAX_STRICT_LENGTH: usize = 64;

/// Whether a tool's own name is `^[a-zA-Z0-9_-]{1,64}$`, as many models want it.
pub fn is_strict(name: &str) -> bool {
    (1..=MAX_STRICT_LENGTH).contains(&name.len()) && name.chars().all(is_legal)
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// One name to expose: the server and what the server itself calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    pub server: &'a ServerName,
    pub original: &'a str,
    /// The name that a profile gives it, as it is to be exposed.
    pub renamed: Option<&'a str>,
}

/// What the names of a table are made by.
pub struct Rules<'a> {
    pub naming: Naming,
    pub max_length: usize,
    /// Names of Mainstay's own tools beside these.
    pub reserved: &'a dyn Fn(&str) -> bool,
    /// Every server, in the table or not.
    pub servers: &'a ServerNames,
    /// The bare names that servers offered in this run and do not offer now.
    pub gone: &'a HashMap<&'a str, Vec<&'a ServerName>>,
}

/// The exposed names of one profile, and every spelling that leads to one of them.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// Parallel to the origins given to [`NameTable::build`].
    exposed: Vec<String>,
    by_name: foldhash::HashMap<Box<str>, Meaning>,
    refused_renames: Vec<usize>,
}

/// Where a name of the table leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Exposed(usize),
    /// `server/tool`, which is what every other door calls it.
    Full(usize),
    /// Another spelling, which counts only where one tool can be meant.
    Alias(usize),
    Several(Vec<Candidate>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Candidate {
    Here(usize),
    /// The full name of what a server does not offer now.
    Gone(Box<str>),
}

impl Meaning {
    /// Another item may be meant, too. Only other spellings can be contested.
    fn contest(&mut self, candidate: Candidate) {
        match self {
            Self::Exposed(_) | Self::Full(_) => {}
            Self::Alias(index) if candidate == Candidate::Here(*index) => {}
            Self::Alias(index) => *self = Self::Several(vec![Candidate::Here(*index), candidate]),
            Self::Several(several) => {
                if several.len() < MAX_CANDIDATES && !several.contains(&candidate) {
                    several.push(candidate);
                }
            }
        }
    }
}

/// The server's own name of a tool or prompt, in a name that names its server: `server/tool`,
/// `server__tool` or `mcp__server__tool`. Any other name is returned as it is.
pub fn without_server<'n>(name: &'n str, server: &ServerName) -> &'n str {
    let prefix = exposed_prefix(server);
    let own = |name: &'n str| {
        let exposed = || name.strip_prefix(&*prefix);
        let rest = name.strip_prefix(server.as_str()).or_else(exposed)?;
        rest.strip_prefix("__").or_else(|| rest.strip_prefix('/'))
    };
    let found = own(name).or_else(|| own(name.strip_prefix("mcp__")?));
    found.filter(|own| !own.is_empty()).unwrap_or(name)
}

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    Unknown,
    /// The names it may have meant.
    Ambiguous(Vec<String>),
}

impl NameTable {
    pub fn build(origins: &[Origin<'_>], rules: &Rules<'_>) -> Self {
        let mut exposed = Exposed::new(origins, rules);
        let mut refused_renames = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            if origin.renamed.is_none() {
                exposed.offer(index, exposed.plain(origin));
            }
        }
        for (index, origin) in origins.iter().enumerate() {
            if let Some(given) = origin.renamed
                && !exposed.offer(index, given.to_owned())
            {
                refused_renames.push(index);
                exposed.offer(index, prefixed(origin, rules.naming));
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

    fn add_spellings(&mut self, origins: &[Origin<'_>], rules: &Rules<'_>) {
        for (index, name) in self.exposed.iter().enumerate() {
            let name = name.as_str().into();
            self.by_name.insert(name, Meaning::Exposed(index));
        }
        for (index, origin) in origins.iter().enumerate() {
            let full = format!("{}/{}", origin.server, origin.original).into();
            self.by_name.entry(full).or_insert(Meaning::Full(index));
        }
        for (index, origin) in origins.iter().enumerate() {
            let Origin {
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
            // A client that calls an own tool where it is not offered must not reach a server by that.
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
                    let full = format!("{server}/{original}");
                    meaning.contest(Candidate::Gone(full.into()));
                }
            }
        }
    }

    fn add_alias(&mut self, alias: Box<str>, candidate: usize) {
        match self.by_name.entry(alias) {
            Entry::Vacant(vacant) => drop(vacant.insert(Meaning::Alias(candidate))),
            Entry::Occupied(mut known) => known.get_mut().contest(Candidate::Here(candidate)),
        }
    }

    /// The exposed name of the origin at `index`.
    pub fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// The origins that do not have the name that their profile gives them: it names another server, or another
    /// tool has it.
    pub fn refused_renames(&self) -> &[usize] {
        &self.refused_renames
    }

    /// The origin that `name` means: the exposed name wins, then the full name. Another spelling counts only
    /// where it is unique in this table.
    pub fn resolve(&self, name: &str) -> Result<usize, Unresolved> {
        match self.by_name.get(name) {
            Some(Meaning::Exposed(index) | Meaning::Full(index) | Meaning::Alias(index)) => {
                Ok(*index)
            }
            Some(Meaning::Several(several)) => Err(Unresolved::Ambiguous(
                several
                    .iter()
                    .map(|candidate| match candidate {
                        Candidate::Here(index) => self.exposed[*index].clone(),
                        Candidate::Gone(full) => full.to_string(),
                    })
                    .collect(),
            )),
            None => Err(Unresolved::Unknown),
        }
    }
}

/// The names to expose, while they are being chosen.
struct Exposed<'a> {
    origins: &'a [Origin<'a>],
    rules: &'a Rules<'a>,
    names: Vec<Option<String>>,
    taken: foldhash::HashMap<String, usize>,
    /// By the bare names of the tools that have no given name.
    claims: HashMap<&'a str, Claim<'a>>,
}

/// Which tools would have a bare name under [`Naming::None`].
enum Claim<'a> {
    Of(&'a ServerName),
    Contested,
}

impl<'a> Exposed<'a> {
    fn new(origins: &'a [Origin<'a>], rules: &'a Rules<'a>) -> Self {
        let mut claims = HashMap::new();
        for origin in origins.iter().filter(|origin| origin.renamed.is_none()) {
            claims
                .entry(origin.original)
                .and_modify(|claim| *claim = Claim::Contested)
                .or_insert(Claim::Of(origin.server));
        }
        Self {
            origins,
            rules,
            names: vec![None; origins.len()],
            taken: foldhash::HashMap::default(),
            claims,
        }
    }

    /// Takes this name, if the origin may have it and nothing else has it.
    fn offer(&mut self, index: usize, name: String) -> bool {
        if !self.is_free(&self.origins[index], &name) {
            return false;
        }
        self.taken.insert(name.clone(), index);
        self.names[index] = Some(name);
        true
    }

    fn is_free(&self, origin: &Origin<'_>, name: &str) -> bool {
        let Rules {
            naming, max_length, ..
        } = *self.rules;
        let is_exposable =
            naming == Naming::Slash || name.len() <= max_length && name.chars().all(is_legal);
        is_exposable
            && !self.taken.contains_key(name)
            && !(self.rules.reserved)(name)
            && (naming != Naming::None || self.is_unclaimed(origin, name))
            && self.rules.servers.may_lead(name, origin.server)
    }

    /// Whether no other server has, or had, what would be exposed by this bare name.
    fn is_unclaimed(&self, origin: &Origin<'_>, name: &str) -> bool {
        let is_own = match self.claims.get(name) {
            None => true,
            Some(Claim::Of(server)) => *server == origin.server,
            Some(Claim::Contested) => false,
        };
        is_own && others(self.rules, origin.server, name).next().is_none()
    }

    /// The name that the naming has for it. Bare names that cannot be had unchanged are prefixed.
    fn plain(&self, origin: &Origin<'_>) -> String {
        let bare = origin.original;
        if self.rules.naming == Naming::None && self.is_free(origin, bare) {
            bare.to_owned()
        } else {
            prefixed(origin, self.rules.naming)
        }
    }

    /// Gives altered names to the rest.
    fn complete(mut self) -> Vec<String> {
        for index in 0..self.origins.len() {
            let mut attempt = 0;
            while self.names[index].is_none() {
                for name in altered(&self.origins[index], self.rules, attempt) {
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

/// The servers but this one that offered what has this bare name, and do not offer it now.
fn others<'r>(
    rules: &Rules<'r>,
    own: &'r ServerName,
    name: &str,
) -> impl Iterator<Item = &'r ServerName> + use<'r> {
    let gone = rules.gone.get(name).map_or(&[][..], Vec::as_slice);
    gone.iter().copied().filter(move |server| *server != own)
}

/// The name with its server before it, as the naming has it.
fn prefixed(origin: &Origin<'_>, naming: Naming) -> String {
    let separator = match naming {
        Naming::Slash => "/",
        Naming::DoubleUnderscore | Naming::McpPrefix | Naming::None => "__",
    };
    format!("{}{separator}{}", prefix(origin, naming), origin.original)
}

fn prefix(origin: &Origin<'_>, naming: Naming) -> String {
    match naming {
        Naming::McpPrefix => format!("mcp__{}", exposed_prefix(origin.server)),
        Naming::DoubleUnderscore | Naming::None => exposed_prefix(origin.server).into_owned(),
        // No name of a server has a slash.
        Naming::Slash => origin.server.to_string(),
    }
}

/// What stands for a server before `__`: its name, or where that would be read in several ways, a name like
/// it with a hash.
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

/// Names that say their server as far as there is room, each closed with a hash of what it stands for. The
/// best comes first. Every attempt has others.
fn altered(origin: &Origin<'_>, rules: &Rules<'_>, attempt: usize) -> [String; 3] {
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
    // Behind a server that is called `mcp`, a separator would make it another server's name.
    let flat: Vec<&str> = legal.split('_').filter(|part| !part.is_empty()).collect();
    let flat = flat.join("_");
    let room = rules.max_length.saturating_sub(HASH_LENGTH + 1);
    let close = |rest: &str| {
        let whole = format!("{prefix}{rest}");
        if prefix.len() > room {
            return anonymous(server, &hash, rules.max_length);
        }
        format!(
            "{}_{}",
            &whole[..whole.len().min(room)],
            &hash[..HASH_LENGTH]
        )
    };
    let anonymous = anonymous(server, &hash, rules.max_length);
    [close(&legal), close(&flat), anonymous]
}

/// A name without a separator, which therefore names no server.
fn anonymous(server: &ServerName, hash: &str, max_length: usize) -> String {
    // At least one character of the server.
    let length = LONG_HASH_LENGTH.min(max_length.saturating_sub(2));
    let room = max_length.saturating_sub(length + 1);
    let server = exposed_prefix(server);
    let kept = server[..server.len().min(room)].trim_end_matches('_');
    format!("{kept}_{}", &hash[..length])
}
