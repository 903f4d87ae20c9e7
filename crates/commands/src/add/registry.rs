//! Looks up a server in an MCP registry, and chooses the package or URL to run it from.

use std::time::Duration;

use mainstay_command_line::{CommandError, output, screen::complain};
use mainstay_core::display;
use mainstay_install::{
    command,
    listing::{self, ListedServer, ListingStatus, Page},
    offer::{Offer, OfferKind, OfferSource, offers},
    question::Answers,
};
use mainstay_platform::environment::ConfigurationSource;
use mainstay_transport::{self as transport, DownloadError, DownloadRequest, download};

use super::{
    super::{person::Person, resolve},
    bundle,
    prepared::{Prepared, in_clear},
    preview::LaunchPreview,
};

/// The official MCP registry, which is the default.
const OFFICIAL: &str = "https://registry.modelcontextprotocol.io";

/// The maximum size of one response in bytes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The time limit of one response.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The time limit of the download of a bundle.
const BUNDLE_LIMIT: Duration = Duration::from_mins(10);

/// The maximum number of reasons that an error lists.
const MAX_REASONS: usize = 5;

/// A client of an MCP registry.
#[derive(Debug)]
pub struct RegistryClient {
    base: String,
}

impl RegistryClient {
    /// Takes the registry of the flag, the environment or the configuration, in this order. The
    /// default is the official registry.
    pub fn locate(flag: Option<&str>, origin: &ConfigurationSource) -> Result<Self, CommandError> {
        let url = match flag {
            Some(url) => Some(url.to_owned()),
            None => origin.load()?.config.registry_url,
        };
        let url = url.unwrap_or_else(|| OFFICIAL.to_owned());
        if !["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(CommandError::Usage {
                message: format!("the registry {url:?} is no URL"),
                hint: Some("it begins with https:// or http://".to_owned()),
            });
        }
        Ok(Self {
            base: listing::base(&url),
        })
    }

    async fn get(&self, path: &str) -> Result<String, CommandError> {
        let url = format!("{}/{path}", self.base);
        let body = download(DownloadRequest {
            url: &url,
            accept: "application/json",
            bytes: MAX_ANSWER,
            time: ANSWER_LIMIT,
        });
        let body = body.await.map_err(CommandError::Registry)?;
        String::from_utf8(body.to_vec()).map_err(|_| CommandError::RegistryAnswer {
            url: self.base.clone(),
            reason: "the answer is not UTF-8".to_owned(),
        })
    }

    fn unreadable(&self, error: &listing::Unreadable) -> CommandError {
        CommandError::RegistryAnswer {
            url: self.base.clone(),
            reason: error.to_string(),
        }
    }

    /// One page of the servers whose names contain a word.
    pub async fn search(
        &self,
        word: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page, CommandError> {
        let text = self
            .get(&listing::path_of_list(word, limit, cursor))
            .await?;
        listing::page(&text).map_err(|error| self.unreadable(&error))
    }

    /// Fetches a version of a server; `latest` is the newest.
    pub async fn server(&self, name: &str, version: &str) -> Result<ListedServer, CommandError> {
        let path = listing::path_of_one(name, version);
        let text = match self.get(&path).await {
            Err(CommandError::Registry(DownloadError::Refused { status: 404, .. })) => {
                let missing = match version {
                    "latest" => format!("server {name}"),
                    _ => format!("version {version} of {name}"),
                };
                let word = name.rsplit('/').next().unwrap_or(name);
                return Err(CommandError::NotFound {
                    subject: format!("{missing} in the registry {}", self.base),
                    hint: format!(
                        "`mainstay search {}` shows what there is",
                        display::word(word)
                    ),
                });
            }
            text => text?,
        };
        listing::one(&text, name).map_err(|error| self.unreadable(&error))
    }
}

/// A request of the command line for a server of the registry.
pub struct RegistryRequest<'a> {
    /// The server's name in the registry, optionally with a version after `@`.
    pub server: &'a str,
    pub kind: Option<OfferKind>,
    pub answers: &'a mut Answers,
    /// Variables of `--env`. Some may be answers to the server's questions.
    pub env: &'a [(String, String)],
}

/// Fetches a server of the registry, chooses how to run it, and makes its entry.
pub async fn prepare(
    registry: &RegistryClient,
    request: RegistryRequest<'_>,
    bundles: &bundle::Place,
    person: &mut Person,
) -> Result<Prepared, CommandError> {
    let (name, version) = request
        .server
        .split_once('@')
        .unwrap_or((request.server, "latest"));
    let listed = registry.server(name, version).await?;
    check_status(&listed)?;
    let offer = choose(&listed, request.kind)?;
    complain(&format!(
        "{} {} from {}: {}",
        listed.server.name,
        listed.server.version,
        registry.base,
        output::headline(&listed.server.description)
    ));
    for note in &offer.notes {
        complain(&format!("warning: {note}"));
    }
    if let OfferSource::Package(package) = &offer.source
        && offer.kind == OfferKind::Mcpb
    {
        let bytes = download(DownloadRequest {
            url: &package.identifier,
            accept: "*/*",
            bytes: bundle::MAX_DOWNLOAD,
            time: BUNDLE_LIMIT,
        });
        let bytes = bytes.await.map_err(CommandError::Registry)?;
        let sha256 = package.file_sha256.as_deref().unwrap_or_default();
        let file = bundle::Place::keep(&bytes, sha256)?;
        return bundles
            .prepare(file.path(), request.answers, request.env, person)
            .await;
    }
    let question_keys: Vec<_> = offer
        .questions
        .iter()
        .map(|question| question.key.as_str())
        .collect();
    let mut more = Vec::new();
    for (key, value) in request.env {
        if question_keys.contains(&key.as_str()) {
            request
                .answers
                .entry(key.clone())
                .or_default()
                .push(value.clone());
        } else {
            more.push((key.clone(), value.clone()));
        }
    }
    if offer.kind == OfferKind::Remote
        && let Some((key, _)) = more.first()
    {
        return Err(CommandError::Usage {
            message: format!("{name} is reached by a URL and has no variable {key}"),
            hint: Some(format!("asked for are: {}", question_keys.join(", "))),
        });
    }
    person.complete(&offer.questions, request.answers).await?;
    let recipe =
        command::recipe(&offer, request.answers).map_err(|error| CommandError::Unusable {
            server: name.to_owned(),
            reasons: vec![error.to_string()],
            hint: None,
        })?;
    Ok(Prepared {
        name: short_name(name),
        entry: recipe.entry(),
        preview: LaunchPreview::from_recipe(&recipe),
        unpacked: None,
        in_clear: in_clear(&offer.questions, request.answers),
    }
    .with_env(&more))
}

fn check_status(listed: &ListedServer) -> Result<(), CommandError> {
    let name = &listed.server.name;
    let message = listed
        .message
        .as_deref()
        .map(|text| format!(": {}", output::headline(text)));
    let message = message.unwrap_or_default();
    match listed.status {
        ListingStatus::Active => Ok(()),
        ListingStatus::Deprecated => {
            complain(&format!("warning: {name} is deprecated{message}"));
            Ok(())
        }
        ListingStatus::Deleted => Err(CommandError::Unusable {
            server: name.clone(),
            reasons: vec![format!("it was deleted from the registry{message}")],
            hint: None,
        }),
    }
}

/// The best way to run the server on this machine. With `kind`, the best way of this kind.
fn choose(listed: &ListedServer, kind: Option<OfferKind>) -> Result<Offer, CommandError> {
    let (all, unusable) = offers(&listed.server, resolve::is_here);
    let mut kinds: Vec<_> = all.iter().map(|offer| offer.kind.word()).collect();
    kinds.dedup();
    let reasons = unusable.iter().take(MAX_REASONS).map(ToString::to_string);
    let fitting = all
        .into_iter()
        .find(|offer| kind.is_none_or(|kind| offer.kind == kind));
    let Some(offer) = fitting else {
        let mut reasons: Vec<_> = reasons.collect();
        if let Some(kind) = kind {
            let available = if kinds.is_empty() {
                "nothing that can be used"
            } else {
                &kinds.join(", ")
            };
            reasons.insert(
                0,
                format!("it has no {} package; it has {available}", kind.word()),
            );
        } else if reasons.is_empty() {
            reasons.push("it names neither a package nor a URL".to_owned());
        }
        return Err(CommandError::Unusable {
            server: listed.server.name.clone(),
            reasons,
            hint: None,
        });
    };
    if !offer.can_run {
        return Err(CommandError::Unusable {
            server: listed.server.name.clone(),
            reasons: vec![format!(
                "it needs {}, which is not installed",
                offer.runtime
            )],
            hint: Some(transport::remedy(offer.runtime)),
        });
    }
    Ok(offer)
}

/// The server's name here: the last part, with `-` in place of characters that a name cannot have.
pub fn short_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '-'
        }
    };
    let short: String = last.chars().map(good).collect();
    short.trim_matches('-').to_owned()
}
