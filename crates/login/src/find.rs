//! Finds the authorization server of an MCP server by its metadata.

use mainstay_transport::first_error_line;
use oauth2::url::Url;

use crate::{
    challenge::Challenge,
    discovery::{
        IssuerMetadata, MetadataError, ResourceMetadata, canonical_resource, issuer_metadata_urls,
        resource_metadata_urls,
    },
    scopes::Scopes,
    web::{NamedByServer, Web, WebError, WebRequest, get_json},
};

/// The authorization server of an MCP server, and the identifier of the MCP server there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// The value of the `resource` parameter.
    pub resource: String,
    /// The scopes that the server's own metadata names.
    pub resource_scopes: Option<Scopes>,
    pub issuer: IssuerMetadata,
    /// True if no metadata was found. Then the endpoints are the default ones of revision 2025-03-26.
    pub is_assumed: bool,
}

/// The reason that no authorization server was found. The texts are for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A later attempt may succeed.
    #[error("{place}: {reason}")]
    Unavailable { place: String, reason: String },
    #[error("the metadata at {place} cannot be used: {reason}")]
    Unusable {
        place: String,
        reason: MetadataError,
    },
    #[error("the authorization server {issuer} has no metadata at {}", .places.join(", "))]
    NoMetadata { issuer: String, places: Vec<String> },
    #[error("the server names the URL {0:?} for its metadata, which cannot be used")]
    NoUrl(String),
    #[error("the server does not use the authorization server {configured} of `oauth.issuer`, but {}", .named.join(", "))]
    OtherIssuer {
        configured: String,
        named: Vec<String>,
    },
}

/// Finds the authorization server of one MCP server.
#[derive(Clone, Copy, Debug)]
pub struct Finder<'a> {
    pub web: &'a dyn Web,
    /// The URL of the MCP server.
    pub server: &'a Url,
    /// The challenge with which the server refused a request.
    pub challenge: Option<&'a Challenge>,
    /// `oauth.issuer` of the entry.
    pub configured_issuer: Option<&'a str>,
    /// An issuer at which Mainstay is already registered. It is preferred if the server names several.
    pub registered_issuer: Option<&'a str>,
}

/// The answer of one URL.
enum Document {
    Found(Vec<u8>),
    /// There is no document at this URL.
    Absent,
    Unavailable(String),
}

impl Finder<'_> {
    pub async fn find(&self) -> Result<Discovery, DiscoveryError> {
        let Some(resource) = self.find_resource().await? else {
            return self.find_without_resource().await;
        };
        let issuer = resource.issuer(self.configured_issuer, self.registered_issuer);
        let issuer = issuer.ok_or_else(|| DiscoveryError::OtherIssuer {
            configured: self.configured_issuer.unwrap_or_default().to_owned(),
            named: resource.authorization_servers.clone(),
        })?;
        Ok(Discovery {
            issuer: self.find_issuer(issuer).await?,
            resource: resource.resource.clone(),
            resource_scopes: resource.scopes_supported.clone(),
            is_assumed: false,
        })
    }

    /// The metadata of the MCP server. `None` if it has none, like servers of 2025-03-26.
    async fn find_resource(&self) -> Result<Option<ResourceMetadata>, DiscoveryError> {
        let named = self
            .challenge
            .and_then(|challenge| challenge.resource_metadata.as_ref());
        let named = named
            .map(|text| {
                self.server
                    .join(text)
                    .map_err(|_| DiscoveryError::NoUrl(text.clone()))
            })
            .transpose()?;
        let is_named = named.is_some();
        let urls = named.into_iter().chain(resource_metadata_urls(self.server));
        let mut unavailable = None;
        for (place, url) in urls.enumerate() {
            match self.get_named_by_server(&url).await {
                Document::Found(body) => match ResourceMetadata::read(&body, self.server) {
                    Ok(metadata) => return Ok(Some(metadata)),
                    // A site that answers every path with a web page has no document here.
                    Err(MetadataError::Unreadable(_)) if !(is_named && place == 0) => {}
                    Err(reason) => return Err(unusable(&url, reason)),
                },
                Document::Absent => {}
                Document::Unavailable(reason) => {
                    unavailable.get_or_insert(DiscoveryError::Unavailable {
                        place: url.to_string(),
                        reason,
                    });
                }
            }
        }
        unavailable.map_or(Ok(None), Err)
    }

    async fn find_issuer(&self, issuer: &str) -> Result<IssuerMetadata, DiscoveryError> {
        let url = Url::parse(issuer).map_err(|_| DiscoveryError::NoUrl(issuer.to_owned()))?;
        let urls = issuer_metadata_urls(&url);
        let mut unavailable = None;
        for url in &urls {
            match self.get(url).await {
                Document::Found(body) => match IssuerMetadata::read(&body, issuer) {
                    Ok(metadata) => return Ok(metadata),
                    Err(MetadataError::Unreadable(_)) if url != &urls[0] => {}
                    Err(reason) => return Err(unusable(url, reason)),
                },
                Document::Absent => {}
                Document::Unavailable(reason) => {
                    unavailable.get_or_insert(DiscoveryError::Unavailable {
                        place: url.to_string(),
                        reason,
                    });
                }
            }
        }
        Err(unavailable.unwrap_or_else(|| DiscoveryError::NoMetadata {
            issuer: issuer.to_owned(),
            places: urls.iter().map(Url::to_string).collect(),
        }))
    }

    /// Returns the configured issuer, else the server itself, as in 2025-03-26 ("Authorization Base
    /// URL").
    async fn find_without_resource(&self) -> Result<Discovery, DiscoveryError> {
        let resource = canonical_resource(self.server);
        if let Some(issuer) = self.configured_issuer {
            return Ok(Discovery {
                resource,
                resource_scopes: None,
                issuer: self.find_issuer(issuer).await?,
                is_assumed: false,
            });
        }
        let root = self
            .server
            .join("/")
            .map_err(|_| DiscoveryError::NoUrl(self.server.to_string()))?;
        for url in issuer_metadata_urls(&root) {
            match self.get(&url).await {
                Document::Found(body) => match IssuerMetadata::read_legacy(&body, self.server) {
                    Ok(issuer) => {
                        return Ok(Discovery {
                            resource,
                            resource_scopes: None,
                            issuer,
                            is_assumed: false,
                        });
                    }
                    Err(MetadataError::Unreadable(_)) => {}
                    Err(reason) => return Err(unusable(&url, reason)),
                },
                Document::Absent => {}
                Document::Unavailable(reason) => {
                    return Err(DiscoveryError::Unavailable {
                        place: url.to_string(),
                        reason,
                    });
                }
            }
        }
        Ok(Discovery {
            resource,
            resource_scopes: None,
            issuer: IssuerMetadata::legacy_endpoints(self.server),
            is_assumed: true,
        })
    }

    async fn get_named_by_server(&self, url: &Url) -> Document {
        match get_json(url.as_str()) {
            Ok(mut request) => {
                request.extensions_mut().insert(NamedByServer);
                self.send(request).await
            }
            Err(error) => Document::Unavailable(error.to_string()),
        }
    }

    async fn get(&self, url: &Url) -> Document {
        match get_json(url.as_str()) {
            Ok(request) => self.send(request).await,
            Err(error) => Document::Unavailable(error.to_string()),
        }
    }

    async fn send(&self, request: WebRequest) -> Document {
        let response = match self.web.send(request).await {
            Ok(response) => response,
            Err(
                WebError::NotSent(reason)
                | WebError::AnswerLost(reason)
                | WebError::Unusable(reason),
            ) => {
                return Document::Unavailable(reason);
            }
        };
        match response.status().as_u16() {
            200..300 => Document::Found(response.into_body()),
            status @ (408 | 429 | 500..600) => {
                let line = first_error_line(response.body());
                let separator = if line.is_empty() { "" } else { ": " };
                Document::Unavailable(format!("HTTP {status}{separator}{line}"))
            }
            _ => Document::Absent,
        }
    }
}

fn unusable(place: &Url, reason: MetadataError) -> DiscoveryError {
    DiscoveryError::Unusable {
        place: place.to_string(),
        reason,
    }
}
