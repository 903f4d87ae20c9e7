//! Exposed names: how a server's tool or prompt is called on each surface (design section 7).
//!
//! Names are resolved by a table, never by splitting; they depend on the configuration alone, never
//! on the order in which servers came up.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::{config::Naming, ids::ServerName};

/// Characters of the hash that closes a shortened or altered name.
const HASH_LENGTH: usize = 8;

/// Longest name that [`is_strict`] accepts.
const MAX_STRICT_LENGTH: usize = 64;

/// Whether a tool's own name is `^[a-zA-Z0-9_-]{1,64}$`, as [003] and many models want it (J12).
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

/// The exposed names of one profile, and every spelling that leads to one of them.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// Parallel to the origins given to [`NameTable::build`].
    exposed: Vec<String>,
    by_name: foldhash::HashMap<String, usize>,
    /// Other spellings; more than one index = ambiguous.
    aliases: HashMap<String, Vec<usize>>,
    clashes: Vec<Clash>,
}

/// A given name that another origin would have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Who has it: it was given on purpose.
    pub renamed: usize,
    /// Who has another name because of that.
    pub evaded: usize,
}

/// Why a name leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    Unknown,
    /// The exposed names it may have meant.
    Ambiguous(Vec<String>),
}

impl NameTable {
    /// `reserved` names are somebody else's: whoever would have one has another.
    pub fn build(
        origins: &[Origin<'_>],
        naming: Naming,
        max_length: usize,
        reserved: impl Fn(&str) -> bool,
    ) -> Self {
        let mut claims: HashMap<&str, usize> = HashMap::new();
        let mut table = Self::default();
        // Given names first: whoever has no name yet gives way.
        for (index, origin) in origins.iter().enumerate() {
            match origin.renamed {
                Some(name) if reserved(name) => {}
                Some(name) => drop(table.by_name.insert(name.to_owned(), index)),
                None => *claims.entry(origin.original).or_default() += 1,
            }
        }
        for (index, origin) in origins.iter().enumerate() {
            let naming = match naming {
                Naming::None
                    if claims.get(origin.original) > Some(&1) || reserved(origin.original) =>
                {
                    Naming::DoubleUnderscore
                }
                other => other,
            };
            let mut name = match origin.renamed {
                Some(name) => name.to_owned(),
                None => expose(origin, naming, max_length),
            };
            let known = table.by_name.get(&name).copied();
            let known = known.filter(|known| *known != index);
            if known.is_some() || reserved(&name) {
                if let Some(known) = known
                    && origins[known].renamed.is_some()
                {
                    table.clashes.push(Clash {
                        renamed: known,
                        evaded: index,
                    });
                }
                name = close_with_hash(&name, origin, max_length);
            }
            table.by_name.insert(name.clone(), index);
            table.exposed.push(name);
            for alias in [
                origin.original.to_owned(),
                format!("{}/{}", origin.server, origin.original),
                format!("{}__{}", origin.server, origin.original),
                format!("mcp__{}__{}", origin.server, origin.original),
            ] {
                let meant = table.aliases.entry(alias).or_default();
                if meant.last() != Some(&index) {
                    meant.push(index);
                }
            }
        }
        table
    }

    /// The exposed name of the origin at `index`.
    pub fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    pub fn clashes(&self) -> &[Clash] {
        &self.clashes
    }

    /// The origin that `name` means: the exposed name wins; another spelling counts only where it
    /// is unique in this table.
    pub fn resolve(&self, name: &str) -> Result<usize, Unresolved> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(*index);
        }
        match self.aliases.get(name).map(Vec::as_slice) {
            Some([index]) => Ok(*index),
            Some(several) => Err(Unresolved::Ambiguous(
                several
                    .iter()
                    .map(|&index| self.exposed[index].clone())
                    .collect(),
            )),
            None => Err(Unresolved::Unknown),
        }
    }
}

fn expose(origin: &Origin<'_>, naming: Naming, max_length: usize) -> String {
    let full = match naming {
        Naming::DoubleUnderscore => format!("{}__{}", origin.server, origin.original),
        Naming::McpPrefix => format!("mcp__{}__{}", origin.server, origin.original),
        Naming::None => origin.original.to_owned(),
        // Asked for by people whose clients take any name: left as it is.
        Naming::Slash => return format!("{}/{}", origin.server, origin.original),
    };
    let legal: String = full
        .chars()
        .map(|c| if is_legal(c) { c } else { '_' })
        .collect();
    if legal == full && legal.len() <= max_length {
        legal
    } else {
        close_with_hash(&legal, origin, max_length)
    }
}

/// `name` shortened and closed with a hash of what it stands for.
fn close_with_hash(name: &str, origin: &Origin<'_>, max_length: usize) -> String {
    let digest = Sha256::digest(format!("{}/{}", origin.server, origin.original));
    let hash = u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"));
    let hash = format!("{hash:016x}");
    let room = max_length.saturating_sub(HASH_LENGTH + 1);
    let kept: String = name.chars().take(room).collect();
    format!("{kept}_{}", &hash[..HASH_LENGTH])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server(name: &str) -> ServerName {
        ServerName::new(name).expect("a legal name")
    }

    fn origin<'a>(server: &'a ServerName, original: &'a str) -> Origin<'a> {
        Origin {
            server,
            original,
            renamed: None,
        }
    }

    fn table(naming: Naming, origins: &[(&ServerName, &str)]) -> NameTable {
        let origins: Vec<_> = origins
            .iter()
            .map(|&(server, original)| origin(server, original))
            .collect();
        NameTable::build(&origins, naming, 48, |_| false)
    }

    #[test]
    fn each_naming_exposes_its_form() {
        let fs = server("fs");
        for (naming, expected) in [
            (Naming::DoubleUnderscore, "fs__read_file"),
            (Naming::Slash, "fs/read_file"),
            (Naming::None, "read_file"),
            (Naming::McpPrefix, "mcp__fs__read_file"),
        ] {
            assert_eq!(table(naming, &[(&fs, "read_file")]).exposed(0), expected);
        }
    }

    /// Y4: every form is accepted on a call where it is unique.
    #[test]
    fn other_spellings_lead_to_the_same_tool() {
        let (fs, git) = (server("fs"), server("git"));
        let table = table(
            Naming::DoubleUnderscore,
            &[(&fs, "read"), (&fs, "log"), (&git, "log")],
        );
        for spelling in ["fs__read", "fs/read", "mcp__fs__read", "read"] {
            assert_eq!(table.resolve(spelling), Ok(0), "{spelling}");
        }
        assert_eq!(
            table.resolve("log"),
            Err(Unresolved::Ambiguous(vec![
                "fs__log".to_owned(),
                "git__log".to_owned()
            ]))
        );
        assert_eq!(table.resolve("nothing"), Err(Unresolved::Unknown));
    }

    /// Design section 7: a bare name that two servers claim is exposed by neither.
    #[test]
    fn without_prefix_a_contested_name_is_prefixed_for_both() {
        let (fs, git) = (server("fs"), server("git"));
        let table = table(
            Naming::None,
            &[(&fs, "status"), (&git, "status"), (&git, "log")],
        );
        assert_eq!(
            (table.exposed(0), table.exposed(1), table.exposed(2)),
            ("fs__status", "git__status", "log")
        );
        assert!(matches!(
            table.resolve("status"),
            Err(Unresolved::Ambiguous(_))
        ));
    }

    /// J12
    #[test]
    fn strict_names_are_those_of_the_seed() {
        let longest = "x".repeat(MAX_STRICT_LENGTH);
        for name in ["read-file", "read_file", "ReadFile123", &longest] {
            assert!(is_strict(name), "{name}");
        }
        let longer = "x".repeat(MAX_STRICT_LENGTH + 1);
        for name in [
            "",
            "read file",
            "read/file",
            "read@file",
            "größe",
            "a\n",
            &longer,
        ] {
            assert!(!is_strict(name), "{name:?}");
        }
    }

    /// J14: `breakpoint/tool` and `breakpoint_tool` are two tools.
    #[test]
    fn altered_names_never_clash() {
        let one = server("breakpoint");
        let table = table(
            Naming::DoubleUnderscore,
            &[(&one, "a.b"), (&one, "a b"), (&one, "a_b")],
        );
        let names: Vec<_> = (0..3).map(|index| table.exposed(index)).collect();
        assert_eq!(names[2], "breakpoint__a_b");
        assert!(names[0].starts_with("breakpoint__a_b_") && names[0] != names[1]);
    }

    /// Issue 5, "Profiles": a given name stands, and who would have had it stays reachable.
    #[test]
    fn a_given_name_is_had_by_nobody_else() {
        let (fs, git) = (server("fs"), server("git"));
        let given = Origin {
            renamed: Some("git__log"),
            ..origin(&fs, "log")
        };
        let origins = [origin(&git, "log"), given, origin(&git, "diff")];
        let table = NameTable::build(&origins, Naming::DoubleUnderscore, 48, |_| false);
        assert_eq!(table.resolve("git__log"), Ok(1));
        assert_eq!(table.exposed(1), "git__log");
        assert!(table.exposed(0).starts_with("git__log_"));
        assert_eq!(table.resolve(table.exposed(0)), Ok(0));
        assert_eq!(table.resolve("git/log"), Ok(0));
        assert_eq!(table.resolve("fs__log"), Ok(1));
        let clash = Clash {
            renamed: 1,
            evaded: 0,
        };
        assert_eq!(table.clashes(), [clash]);
        // A tool with a name of its own claims no bare one.
        let table = NameTable::build(&origins, Naming::None, 48, |_| false);
        assert_eq!((table.exposed(0), table.clashes()), ("log", &[][..]));
    }

    /// Mainstay's own tools have their names to themselves; a server's keeps one by which it is reached.
    #[test]
    fn a_reserved_name_is_nobodys() {
        let one = server("one");
        let given = Origin {
            renamed: Some("list_servers"),
            ..origin(&one, "other")
        };
        let origins = [origin(&one, "list_servers"), given, origin(&one, "log")];
        let reserved = |name: &str| name == "list_servers";
        let table = NameTable::build(&origins, Naming::None, 48, reserved);
        assert_eq!(
            (table.exposed(0), table.exposed(2)),
            ("one__list_servers", "log")
        );
        assert!(table.exposed(1).starts_with("list_servers_"));
        for index in 0..3 {
            assert_eq!(table.resolve(table.exposed(index)), Ok(index));
        }
    }

    proptest! {
        /// J12: whatever a server calls its tools, what is exposed is legal, unique and resolvable.
        #[test]
        fn exposed_names_are_legal_unique_and_resolve(
            originals in prop::collection::hash_set("\\PC{1,80}", 1..20),
            naming in prop::sample::select(vec![Naming::DoubleUnderscore, Naming::None, Naming::McpPrefix]),
        ) {
            let (one, two) = (server("one"), server("two"));
            let origins: Vec<_> = originals
                .iter()
                .flat_map(|original| [origin(&one, original), origin(&two, original)])
                .collect();
            let table = NameTable::build(&origins, naming, 48, |_| false);
            for index in 0..origins.len() {
                let name = table.exposed(index);
                prop_assert!(name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{name}");
                prop_assert_eq!(table.resolve(name), Ok(index));
            }
        }
    }
}
