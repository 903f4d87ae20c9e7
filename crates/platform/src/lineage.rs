//! The chain of Mainstays above this one. It detects a Mainstay that launches itself (docs/dev/design.md,
//! "Names, profiles, access"). Also defines the marks by which the processes of servers are found.

use std::{
    env,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

/// The ids of all Mainstays above a process, in its environment and on requests. The nearest Mainstay is
/// last.
pub const CHAIN: &str = "MAINSTAY_CHAIN";
pub const CHAIN_HEADER: &str = "mainstay-chain";

/// The server of a process, and the number of its start: `name:3`.
pub const SERVER: &str = "MAINSTAY_SERVER";
/// The Mainstay that started the process.
const INSTANCE: &str = "MAINSTAY_INSTANCE";

/// The maximum number of Mainstays in one chain, including this one.
const MAX_CHAIN: usize = 4;

/// The reason that a Mainstay refuses to serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineageError {
    #[error("{} launches itself: server {server:?} starts another Mainstay with it", config.display())]
    LaunchesItself { config: PathBuf, server: String },
    #[error("this Mainstay is reached through itself: one of its servers leads back to it")]
    LeadsBack,
    #[error("more than {MAX_CHAIN} Mainstays stand one behind the other")]
    TooLong,
}

/// The ids of this Mainstay and of the Mainstays above it, and the marks of its processes.
#[derive(Clone, Debug)]
pub struct Lineage {
    chain: Arc<str>,
    instance: Arc<str>,
}

impl Default for Lineage {
    /// The lineage of a Mainstay without a configuration file and without a Mainstay above it.
    fn default() -> Self {
        Self::of_chain(random())
    }
}

impl Lineage {
    /// Creates the lineage of a Mainstay that serves this file. The environment names the Mainstays above it.
    pub fn begin(config: Option<&Path>) -> Result<Self, LineageError> {
        let above = env::var(CHAIN).unwrap_or_default();
        let launched_by = || env::var(SERVER).unwrap_or_default();
        Self::below(&above, config, launched_by)
    }

    fn below(
        above: &str,
        config: Option<&Path>,
        launched_by: impl FnOnce() -> String,
    ) -> Result<Self, LineageError> {
        let own_id = config.map_or_else(random, id_of);
        if ids(above).any(|id| id == own_id) {
            let by = launched_by();
            return Err(LineageError::LaunchesItself {
                config: config.unwrap_or(Path::new("it")).to_owned(),
                server: server_of(&by).to_owned(),
            });
        }
        let chain: Vec<&str> = ids(above).chain([own_id.as_str()]).collect();
        if chain.len() > MAX_CHAIN {
            return Err(LineageError::TooLong);
        }
        Ok(Self::of_chain(chain.join(",")))
    }

    fn of_chain(chain: String) -> Self {
        Self {
            chain: chain.into(),
            instance: random().into(),
        }
    }

    /// Returns a lineage with the same place in the chain and its own marks. Ending the processes of one
    /// lineage does not affect the processes of the other.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self::of_chain(self.chain.to_string())
    }

    /// The ids of the chain. This Mainstay's id is last.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The last id of the chain. It is the same for the same configuration.
    pub fn own_id(&self) -> &str {
        ids(&self.chain).last().unwrap_or_default()
    }

    /// Checks if a client may be served. `chain` comes from the client's request.
    pub fn admit(&self, chain: &str) -> Result<(), LineageError> {
        if ids(chain).any(|id| id == self.own_id()) {
            Err(LineageError::LeadsBack)
        } else if ids(chain).count() >= MAX_CHAIN {
            Err(LineageError::TooLong)
        } else {
            Ok(())
        }
    }

    /// The marks of the processes of one start of a server. `tag` identifies the start.
    pub fn marks(&self, tag: &str) -> Marks {
        let mut marks = self.marks_of_all();
        marks.variables.push((SERVER, tag.into()));
        marks.brand = marks.brand.of_opening(tag);
        marks
    }

    /// The marks of all servers' processes.
    pub fn marks_of_all(&self) -> Marks {
        Marks {
            variables: vec![(INSTANCE, Arc::clone(&self.instance))],
            brand: Brand::of_instance(&self.instance),
        }
    }
}

/// Identifies processes of this Mainstay by variables. A process that clears its environment is identified by
/// its brand.
#[derive(Clone, Debug)]
pub struct Marks {
    variables: Vec<(&'static str, Arc<str>)>,
    pub brand: Brand,
}

/// A number that the processes of one start of a server (or of all servers) inherit, even if they detach. The
/// number is their soft limit of time under a real-time scheduler (`RLIMIT_RTTIME`), in microseconds. The
/// limit exceeds a hundred thousand years, so it has no other effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brand {
    number: u64,
    /// The bits that are compared.
    mask: u64,
}

impl Brand {
    const BASE: u64 = 1 << 62;
    const OPENING: u64 = (1 << 40) - 1;

    fn of_instance(instance: &str) -> Self {
        Self {
            number: Self::BASE | hash(instance) & (Self::BASE - 1) & !Self::OPENING,
            mask: !Self::OPENING,
        }
    }

    fn of_opening(self, tag: &str) -> Self {
        Self {
            number: self.number | hash(tag) & Self::OPENING,
            mask: u64::MAX,
        }
    }

    /// The limit that the processes of this start inherit.
    pub fn limit(self) -> u64 {
        self.number
    }

    pub fn is_of(self, limit: u64) -> bool {
        limit & self.mask == self.number
    }
}

fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text);
    let first = digest.iter().take(8);
    first.fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

impl Marks {
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, &**value))
    }

    /// The marks as variables of an environment: `NAME=value`.
    pub fn entries(&self) -> Vec<String> {
        self.variables()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}

/// The name of the server in a value of [`SERVER`].
pub fn server_of(tag: &str) -> &str {
    tag.split(':').next().unwrap_or_default()
}

fn ids(chain: &str) -> impl Iterator<Item = &str> {
    chain.split(',').map(str::trim).filter(|id| !id.is_empty())
}

/// The id of every Mainstay that serves this file on this machine. A Mainstay that launches itself finds this
/// id in its own chain. The same path on another machine has another id.
fn id_of(config: &Path) -> String {
    let path = config.canonicalize().unwrap_or_else(|_| config.to_owned());
    let mut hash = Sha256::new();
    hash.update(machine());
    hash.update([0]);
    hash.update(path.as_os_str().as_encoded_bytes());
    let digest = hash.finalize();
    let first = digest
        .iter()
        .take(8)
        .fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    format!("{first:016x}")
}

#[cfg(unix)]
fn machine() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

#[cfg(windows)]
fn machine() -> Vec<u8> {
    env::var("COMPUTERNAME").unwrap_or_default().into_bytes()
}

/// Returns 64 random bits in hexadecimal digits. The system seeds the hashers of std.
fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(above: &str, config: Option<&Path>) -> Result<Lineage, LineageError> {
        Lineage::below(above, config, || "me:3".to_owned())
    }

    #[test]
    fn a_file_has_one_id_and_others_have_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "{}").expect("written");
            path
        };
        let (one, other) = (file("one.json"), file("other.json"));
        let roundabout = folder
            .path()
            .join("../")
            .join(folder.path().file_name().expect("a name"))
            .join("one.json");
        let first = below("", Some(&one)).expect("nobody above");
        assert_eq!(first.chain().len(), 16);

        let looped = below(first.chain(), Some(&roundabout)).expect_err("the same file");
        assert_eq!(
            looped,
            LineageError::LaunchesItself {
                config: roundabout,
                server: "me".to_owned()
            }
        );
        let second = below(first.chain(), Some(&other)).expect("another file");
        assert_eq!(
            second.chain(),
            format!("{},{}", first.chain(), second.own_id())
        );
        below(second.chain(), Some(&one)).expect_err("further up");
    }

    #[test]
    fn one_that_stands_apart_has_marks_of_its_own() {
        let us = below("a", None).expect("the second");
        let apart = us.apart();
        assert_eq!(apart.chain(), us.chain());
        assert_ne!(apart.marks("fs:1").entries(), us.marks("fs:1").entries());
    }

    #[test]
    fn a_brand_is_of_one_opening_and_of_all() {
        let (us, them) = (Lineage::default(), Lineage::default());
        let limit = us.marks("fs:1").brand.limit();
        assert!(us.marks("fs:1").brand.is_of(limit));
        assert!(us.marks_of_all().brand.is_of(limit));
        for other in [us.marks("fs:2"), them.marks("fs:1"), them.marks_of_all()] {
            assert!(!other.brand.is_of(limit), "{other:?}");
        }
        // The limit of a process without a brand.
        assert!(!us.marks_of_all().brand.is_of(u64::MAX));
        assert!(limit > 1 << 62 && limit < 1 << 63);
    }

    #[test]
    fn a_chain_has_four_links_at_most() {
        below("a,b,c", None).expect("the fourth");
        assert_eq!(
            below("a, b,c,d", None).expect_err("the fifth"),
            LineageError::TooLong
        );
    }

    #[test]
    fn a_client_that_came_through_us_is_refused() {
        let us = below("a", None).expect("the second");
        assert_eq!(us.admit(us.chain()), Err(LineageError::LeadsBack));
        assert_eq!(
            us.admit(&format!("{},x", us.own_id())),
            Err(LineageError::LeadsBack)
        );
        // A Mainstay above may also be a client of this one.
        assert_eq!(us.admit("a"), Ok(()));
        assert_eq!(us.admit("w,x,y"), Ok(()));
        assert_eq!(us.admit("w,x,y,z"), Err(LineageError::TooLong));
        assert_eq!(us.admit(""), Ok(()));
    }
}
