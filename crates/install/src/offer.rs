//! The ways to run a server of a registry: which there are, which can run here, and which is best.

use crate::{
    inputs,
    listing::{Package, Server, Transport},
    question::Question,
};

/// The most packages and remotes that are looked at.
const MAX_OFFERS: usize = 50;

/// The longest identifier and version of a package.
const MAX_IDENTIFIER: usize = 300;

/// Where a server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Npm,
    Pypi,
    Remote,
    Oci,
    Nuget,
    Mcpb,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Npm,
        Self::Pypi,
        Self::Remote,
        Self::Oci,
        Self::Nuget,
        Self::Mcpb,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Remote => "remote",
            Self::Oci => "oci",
            Self::Nuget => "nuget",
            Self::Mcpb => "mcpb",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Programs that run it, the usual one first.
    pub const fn runtimes(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["npx", "bunx"],
            Self::Pypi => &["uvx", "pipx"],
            Self::Oci => &["docker", "podman"],
            Self::Nuget => &["dnx"],
            Self::Remote | Self::Mcpb => &[],
        }
    }
}

/// One way to run a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub kind: Kind,
    pub source: Source,
    /// The program that runs it; empty where none is needed.
    pub runtime: &'static str,
    /// Whether that program is here.
    pub can_run: bool,
    pub questions: Vec<Question>,
    /// What a person should know before it is started.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Package(Box<Package>),
    Remote(Box<Transport>),
}

/// Why a package or a remote is no offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("packages of type {0:?} are not known")]
    Type(String),
    #[error("the package's name {0:?} cannot be one of {1}")]
    Identifier(String, &'static str),
    #[error("the package's version {0:?} is no version")]
    Version(String),
    #[error("the package {0} is kept at {1}, which is not the usual place")]
    Base(String, String),
    #[error("the package {0} listens at an address of its own; start it yourself, and add its URL")]
    Listens(String),
    #[error("its transport {0:?} is not known")]
    Transport(String),
    #[error("its URL {0:?} does not begin with https:// or http://")]
    Url(String),
    #[error("the bundle {0:?} has no SHA-256 by which it could be checked")]
    Unchecked(String),
    #[error("{0}")]
    Input(#[from] inputs::BadInput),
}

/// All offers of a server, the best first, and why others are none.
pub fn offers(server: &Server, has: impl Fn(&str) -> bool) -> (Vec<Offer>, Vec<Unusable>) {
    let packages = server.packages.iter().map(|it| package(it, &has));
    let remotes = server.remotes.iter().map(remote);
    let (mut offers, mut unusable) = (Vec::new(), Vec::new());
    for read in packages.chain(remotes).take(MAX_OFFERS) {
        match read {
            Ok(offer) => offers.push(offer),
            Err(error) => unusable.push(error),
        }
    }
    // Of two that can run here, the one that starts sooner. Sorting keeps the publisher's order.
    offers.sort_by_key(|offer| (!offer.can_run, offer.kind));
    (offers, unusable)
}

fn remote(transport: &Transport) -> Result<Offer, Unusable> {
    if !matches!(
        transport.kind.as_str(),
        "streamable-http" | "streamable" | "sse"
    ) {
        return Err(Unusable::Transport(transport.kind.clone()));
    }
    let url = transport.url.as_deref().unwrap_or_default();
    // A variable may be anything but the scheme.
    if !["https://", "http://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return Err(Unusable::Url(url.to_owned()));
    }
    let mut notes = Vec::new();
    if url.starts_with("http://") && !transport.headers.is_empty() {
        notes.push("its URL is not encrypted: headers can be read on the way".to_owned());
    }
    Ok(Offer {
        kind: Kind::Remote,
        runtime: "",
        can_run: true,
        questions: inputs::of_remote(transport)?,
        notes,
        source: Source::Remote(Box::new(transport.clone())),
    })
}

fn package(package: &Package, has: &impl Fn(&str) -> bool) -> Result<Offer, Unusable> {
    let kind = match package.registry_type.as_str() {
        "npm" => Kind::Npm,
        "pypi" => Kind::Pypi,
        "oci" | "docker" => Kind::Oci,
        "nuget" => Kind::Nuget,
        "mcpb" => Kind::Mcpb,
        other => return Err(Unusable::Type(other.to_owned())),
    };
    check(kind, package)?;
    if let Some(transport) = &package.transport
        && !matches!(transport.kind.as_str(), "stdio" | "")
    {
        return Err(Unusable::Listens(package.identifier.clone()));
    }
    let hint = package.runtime_hint.as_deref();
    let (runtime, can_run, mut notes) = runtime(kind, hint, has);
    let mut package = package.clone();
    if !package.runtime_arguments.is_empty() && !takes_arguments_of(kind, runtime, hint) {
        package.runtime_arguments.clear();
        notes.push(format!(
            "the publisher's arguments for another program are not given to {runtime}"
        ));
    }
    let package = &package;
    if !is_pinned(kind, package) {
        notes.push("the registry names no version of the package: it may change".to_owned());
    }
    Ok(Offer {
        kind,
        runtime,
        can_run,
        questions: inputs::of_package(package)?,
        notes,
        source: Source::Package(Box::new(package.clone())),
    })
}

/// The program that runs a package. A hint is followed if it names a program known to run such packages:
/// any other word would be a command of a stranger.
fn runtime(
    kind: Kind,
    hint: Option<&str>,
    has: &impl Fn(&str) -> bool,
) -> (&'static str, bool, Vec<String>) {
    let known = kind.runtimes();
    let Some(usual) = known.first() else {
        return ("", true, Vec::new());
    };
    let hint = hint.filter(|hint| !hint.is_empty());
    let hinted = hint.and_then(|hint| known.iter().find(|it| **it == hint));
    let mut notes = Vec::new();
    if let (Some(hint), None) = (hint, hinted) {
        notes.push(format!(
            "the publisher would have it run by {hint:?}, which is not known to run {} packages",
            kind.word()
        ));
    }
    let wanted = hinted.unwrap_or(usual);
    let here = [wanted].into_iter().chain(known).find(|it| has(it));
    (here.unwrap_or(wanted), here.is_some(), notes)
}

/// Whether a program takes the arguments that the publisher wrote for the hinted one, or else the usual one: to
/// another program they may mean something else (`-c` of a shell is a command line to `npx`).
fn takes_arguments_of(kind: Kind, runtime: &str, hint: Option<&str>) -> bool {
    let meant = hint.filter(|hint| !hint.is_empty());
    let meant = meant.or_else(|| kind.runtimes().first().copied());
    // podman takes the options of docker.
    meant == Some(runtime)
        || kind == Kind::Oci && meant.is_some_and(|it| kind.runtimes().contains(&it))
}

fn is_pinned(kind: Kind, package: &Package) -> bool {
    let identifier = &package.identifier;
    let has_version = package
        .version
        .as_deref()
        .is_some_and(|it| !it.is_empty() && it != "latest");
    match kind {
        Kind::Oci => {
            let last = identifier.rsplit('/').next().unwrap_or_default();
            let tag = last.split_once(':').map(|(_, tag)| tag);
            identifier.contains('@') || tag.map_or(has_version, |tag| tag != "latest")
        }
        Kind::Mcpb | Kind::Remote => true,
        Kind::Npm | Kind::Pypi | Kind::Nuget => has_version,
    }
}

/// A name or a version must not pass for an option, a path, a URL or another package.
fn check(kind: Kind, package: &Package) -> Result<(), Unusable> {
    let identifier = package.identifier.as_str();
    let bad = |registry| Unusable::Identifier(shortened(identifier), registry);
    let of = |text: &str, more: &str| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || more.as_bytes().contains(&byte);
        text.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.bytes().all(is_good)
    };
    if identifier.len() > MAX_IDENTIFIER {
        return Err(bad(kind.word()));
    }
    let is_good = match kind {
        Kind::Npm => match identifier.strip_prefix('@').map(|it| it.split_once('/')) {
            Some(Some((scope, name))) => of(scope, "-._") && of(name, "-._"),
            Some(None) => false,
            None => of(identifier, "-._"),
        },
        Kind::Pypi | Kind::Nuget => of(identifier, "-._"),
        Kind::Oci => of(identifier, "-._/:@") && !identifier.contains("//"),
        Kind::Mcpb => identifier.starts_with("https://") || identifier.starts_with("http://"),
        Kind::Remote => true,
    };
    if !is_good {
        return Err(bad(kind.word()));
    }
    if let Some(version) = package.version.as_deref().filter(|it| !it.is_empty())
        && !(version.len() <= MAX_IDENTIFIER && of(version, "-._+!"))
    {
        return Err(Unusable::Version(shortened(version)));
    }
    if kind == Kind::Mcpb
        && package
            .file_sha256
            .as_deref()
            .is_none_or(|it| !is_sha256(it))
    {
        return Err(Unusable::Unchecked(shortened(identifier)));
    }
    check_base(kind, package)
}

/// Runtimes ask the usual registry. A package of another place would be another package.
fn check_base(kind: Kind, package: &Package) -> Result<(), Unusable> {
    let usual: &[&str] = match kind {
        Kind::Npm => &["https://registry.npmjs.org"],
        Kind::Pypi => &["https://pypi.org", "https://pypi.org/simple"],
        Kind::Nuget => &[
            "https://api.nuget.org",
            "https://api.nuget.org/v3/index.json",
        ],
        Kind::Oci | Kind::Mcpb | Kind::Remote => return Ok(()),
    };
    match package
        .registry_base_url
        .as_deref()
        .map(|it| it.trim_end_matches('/'))
    {
        None | Some("") => Ok(()),
        Some(base) if usual.contains(&base) => Ok(()),
        Some(base) => Err(Unusable::Base(package.identifier.clone(), shortened(base))),
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn shortened(text: &str) -> String {
    const SHOWN: usize = 100;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

impl Offer {
    /// How it would run, in one line: `npx -y thing@1.0.0`, or the URL.
    pub fn summary(&self) -> String {
        match &self.source {
            Source::Remote(transport) => transport.url.clone().unwrap_or_default(),
            Source::Package(package) if self.kind == Kind::Mcpb => package.identifier.clone(),
            Source::Package(package) => {
                format!(
                    "{} {}",
                    self.runtime,
                    crate::command::reference(self.kind, package)
                )
            }
        }
    }
}
