//! The ways to run a server of a registry. Ways that work on this machine come first.

use crate::{
    inputs,
    listing::{Package, Server, Transport},
    question::Question,
};

/// The maximum number of packages and remotes that are examined.
const MAX_OFFERS: usize = 50;

/// The maximum length of a package's identifier and of its version.
const MAX_IDENTIFIER: usize = 300;

/// The type of a package or remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferKind {
    Npm,
    Pypi,
    Remote,
    Oci,
    Nuget,
    Mcpb,
}

impl OfferKind {
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

    /// The programs that run packages of this type. The usual program comes first.
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
    pub kind: OfferKind,
    pub source: OfferSource,
    /// The program that runs the server. Empty if no program is needed.
    pub runtime: &'static str,
    /// True if that program is installed.
    pub can_run: bool,
    pub questions: Vec<Question>,
    /// Notes for the user before the server is started.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OfferSource {
    Package(Box<Package>),
    Remote(Box<Transport>),
}

/// The reason that a package or a remote cannot be offered.
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

/// All offers of a server, the best offer first. Also returns the reasons that other packages and remotes are
/// unusable.
pub fn offers(server: &Server, has: impl Fn(&str) -> bool) -> (Vec<Offer>, Vec<Unusable>) {
    let from_packages = server.packages.iter().map(|one| package(one, &has));
    let from_remotes = server.remotes.iter().map(remote);
    let (mut offers, mut unusable) = (Vec::new(), Vec::new());
    for read in from_packages.chain(from_remotes).take(MAX_OFFERS) {
        match read {
            Ok(offer) => offers.push(offer),
            Err(error) => unusable.push(error),
        }
    }
    // Prefer offers that can run, then the type that starts sooner. The sort is stable, so offers of the same
    // type keep the publisher's order.
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
    // The scheme must be literal. Any other part may contain a variable.
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
        kind: OfferKind::Remote,
        runtime: "",
        can_run: true,
        questions: inputs::of_remote(transport)?,
        notes,
        source: OfferSource::Remote(Box::new(transport.clone())),
    })
}

fn package(package: &Package, has: &impl Fn(&str) -> bool) -> Result<Offer, Unusable> {
    let kind = match package.registry_type.as_str() {
        "npm" => OfferKind::Npm,
        "pypi" => OfferKind::Pypi,
        "oci" | "docker" => OfferKind::Oci,
        "nuget" => OfferKind::Nuget,
        "mcpb" => OfferKind::Mcpb,
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
        source: OfferSource::Package(Box::new(package.clone())),
    })
}

/// The program that runs a package. A hint is followed only if it names a program for this type of package.
/// Any other hint would be an arbitrary command.
fn runtime(
    kind: OfferKind,
    hint: Option<&str>,
    has: &impl Fn(&str) -> bool,
) -> (&'static str, bool, Vec<String>) {
    let runtimes = kind.runtimes();
    let Some(usual) = runtimes.first() else {
        return ("", true, Vec::new());
    };
    let hint = hint.filter(|hint| !hint.is_empty());
    let hinted = hint.and_then(|hint| runtimes.iter().find(|runtime| **runtime == hint));
    let mut notes = Vec::new();
    if let (Some(hint), None) = (hint, hinted) {
        notes.push(format!(
            "the publisher would have it run by {hint:?}, which is not known to run {} packages",
            kind.word()
        ));
    }
    let preferred = hinted.unwrap_or(usual);
    let here = [preferred]
        .into_iter()
        .chain(runtimes)
        .find(|runtime| has(runtime));
    (here.unwrap_or(preferred), here.is_some(), notes)
}

/// True if `runtime` accepts the arguments that the publisher wrote for the hinted or the usual program.
/// Another program may interpret them differently: `npx` runs the text after `-c` as a command line.
fn takes_arguments_of(kind: OfferKind, runtime: &str, hint: Option<&str>) -> bool {
    let intended = hint.filter(|hint| !hint.is_empty());
    let intended = intended.or_else(|| kind.runtimes().first().copied());
    // podman accepts the options of docker.
    intended == Some(runtime)
        || kind == OfferKind::Oci
            && intended.is_some_and(|runtime| kind.runtimes().contains(&runtime))
}

fn is_pinned(kind: OfferKind, package: &Package) -> bool {
    let identifier = &package.identifier;
    let has_version = package
        .version
        .as_deref()
        .is_some_and(|version| !version.is_empty() && version != "latest");
    match kind {
        OfferKind::Oci => {
            let last = identifier.rsplit('/').next().unwrap_or_default();
            let tag = last.split_once(':').map(|(_, tag)| tag);
            identifier.contains('@') || tag.map_or(has_version, |tag| tag != "latest")
        }
        OfferKind::Mcpb | OfferKind::Remote => true,
        OfferKind::Npm | OfferKind::Pypi | OfferKind::Nuget => has_version,
    }
}

/// Checks that a name or version cannot be mistaken for an option, a path, a URL or another package.
fn check(kind: OfferKind, package: &Package) -> Result<(), Unusable> {
    let identifier = package.identifier.as_str();
    let bad = |registry| Unusable::Identifier(shortened(identifier), registry);
    let has_only = |text: &str, more: &str| {
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
        OfferKind::Npm => match identifier
            .strip_prefix('@')
            .map(|scoped| scoped.split_once('/'))
        {
            Some(Some((scope, name))) => has_only(scope, "-._") && has_only(name, "-._"),
            Some(None) => false,
            None => has_only(identifier, "-._"),
        },
        OfferKind::Pypi | OfferKind::Nuget => has_only(identifier, "-._"),
        OfferKind::Oci => has_only(identifier, "-._/:@") && !identifier.contains("//"),
        OfferKind::Mcpb => identifier.starts_with("https://") || identifier.starts_with("http://"),
        OfferKind::Remote => true,
    };
    if !is_good {
        return Err(bad(kind.word()));
    }
    if let Some(version) = package
        .version
        .as_deref()
        .filter(|version| !version.is_empty())
        && !(version.len() <= MAX_IDENTIFIER && has_only(version, "-._+!"))
    {
        return Err(Unusable::Version(shortened(version)));
    }
    if kind == OfferKind::Mcpb
        && package
            .file_sha256
            .as_deref()
            .is_none_or(|digest| !is_sha256(digest))
    {
        return Err(Unusable::Unchecked(shortened(identifier)));
    }
    check_base(kind, package)
}

/// Checks that a package is in the usual registry. Runtimes use that registry, where the same name could be
/// another package.
fn check_base(kind: OfferKind, package: &Package) -> Result<(), Unusable> {
    let usual: &[&str] = match kind {
        OfferKind::Npm => &["https://registry.npmjs.org"],
        OfferKind::Pypi => &["https://pypi.org", "https://pypi.org/simple"],
        OfferKind::Nuget => &[
            "https://api.nuget.org",
            "https://api.nuget.org/v3/index.json",
        ],
        OfferKind::Oci | OfferKind::Mcpb | OfferKind::Remote => return Ok(()),
    };
    match package
        .registry_base_url
        .as_deref()
        .map(|url| url.trim_end_matches('/'))
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
    /// The command or the URL in one line: `npx -y thing@1.0.0`.
    pub fn summary(&self) -> String {
        match &self.source {
            OfferSource::Remote(transport) => transport.url.clone().unwrap_or_default(),
            OfferSource::Package(package) if self.kind == OfferKind::Mcpb => {
                package.identifier.clone()
            }
            OfferSource::Package(package) => {
                format!(
                    "{} {}",
                    self.runtime,
                    crate::command::reference(self.kind, package)
                )
            }
        }
    }
}
