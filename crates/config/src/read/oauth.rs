//! Reads `oauth`: the login to a remote server, with our keys and those of other clients.

use mainstay_core::config::{Grant, OAuth, Secret, SignIn};

use crate::read::{
    entry::EntryReader,
    fields::Fields,
    node::Node,
    reach::is_off,
    report::{FindingReport, KeyPath},
};

pub const CLIENT_ID: [&str; 3] = ["clientId", "client_id", "CLIENT_ID"];
pub const CLIENT_SECRET: [&str; 3] = ["clientSecret", "client_secret", "CLIENT_SECRET"];
pub const SCOPES: [&str; 2] = ["scopes", "scope"];

/// The paths of an authorization server's metadata. The rest of the metadata's URL is the issuer.
const METADATA_PATHS: [&str; 2] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
];

/// The keys of a login.
const LOGIN_KEYS: [&str; 2] = ["oauth", "auth"];

impl<'e> EntryReader<'e, '_, '_> {
    /// Reads the login to a server. An entry with its own credentials does not use the login.
    pub fn login(&mut self, has_credentials: bool) -> SignIn {
        let mut sign_in = SignIn::default();
        for key in LOGIN_KEYS {
            let Some(node) = self.fields.take(key) else {
                continue;
            };
            let stated = match node.as_str() {
                _ if node.as_bool() == Some(false) || is_disabled(&node) => {
                    sign_in = SignIn::HeadersOnly;
                    continue;
                }
                // Some clients write empty values for unused keys.
                _ if is_off(&node) => continue,
                Some("oauth") => Some(OAuth::default()),
                Some(_) => {
                    let message = "this way to sign in is not known";
                    let hint = "give the token as `bearerToken` or in `headers`";
                    self.report.error_with_hint(&node.place, message, hint);
                    None
                }
                None if node.as_bool() == Some(true) => Some(OAuth::default()),
                None => self.oauth(&node),
            };
            if has_credentials {
                let message = "not used: the entry has credentials of its own";
                self.report.warn(&node.place, message);
            } else if let Some(oauth) = stated {
                sign_in = SignIn::OAuth(oauth);
            }
        }
        sign_in
    }

    fn oauth(&mut self, node: &Node<'e>) -> Option<OAuth> {
        let mut fields = Fields::open(node, self.report)?;
        let mut oauth = OAuth {
            client_id: self.first_text(&mut fields, &CLIENT_ID),
            client_secret: self
                .first_text(&mut fields, &CLIENT_SECRET)
                .map(Secret::new),
            client_metadata_url: self.oauth_url(&mut fields, "clientMetadataUrl"),
            issuer: self.oauth_url(&mut fields, "issuer"),
            private_key: self
                .first_text(&mut fields, &["privateKey"])
                .map(Secret::new),
            ..OAuth::default()
        };
        if let Some(url) = self.oauth_url(&mut fields, "authServerMetadataUrl") {
            oauth.issuer = oauth.issuer.or_else(|| Some(issuer_of_metadata(&url)));
        }
        for key in SCOPES {
            if let Some(node) = fields.take(key) {
                oauth.scopes.extend(self.scopes(&node));
            }
        }
        if let Some(node) = fields.take("grant") {
            let grants = [
                ("person", Grant::Person),
                ("clientCredentials", Grant::ClientCredentials),
            ];
            oauth.grant = node.word(self.report, &grants).unwrap_or_default();
        }
        if let Some(node) = fields.take("callbackPort") {
            let port = node.whole(self.report, 1, Some(65535));
            oauth.callback_port = port.and_then(|port| u16::try_from(port).ok());
        }
        if let Some(node) = fields.take("perPrincipal") {
            oauth.per_principal = node.boolean(self.report).unwrap_or_default();
        }
        fields.finish(self.report);
        check(&oauth, &node.place, self.report);
        Some(oauth)
    }

    fn first_text(&mut self, fields: &mut Fields<'e>, keys: &[&'static str]) -> Option<String> {
        let mut texts = keys.iter().filter_map(|key| {
            let node = fields.take(key)?;
            self.text(&node).filter(|text| !text.is_empty())
        });
        // Take every key, so that none is reported as unknown.
        texts.by_ref().next().inspect(|_| texts.for_each(drop))
    }

    fn oauth_url(&mut self, fields: &mut Fields<'e>, key: &'static str) -> Option<String> {
        let node = fields.take(key)?;
        let url = self.text(&node).filter(|url| !url.is_empty())?;
        self.checked_url(&node.place, url)
    }

    /// Reads scopes: a list, or a text with blanks between them.
    fn scopes(&mut self, node: &Node<'e>) -> Vec<String> {
        let texts: Vec<String> = match node.elements() {
            Some(elements) => elements.filter_map(|node| self.text(&node)).collect(),
            None => self.text(node).into_iter().collect(),
        };
        let scopes = texts.iter().flat_map(|text| text.split_ascii_whitespace());
        scopes.map(str::to_owned).collect()
    }
}

/// True for an object with `enabled: false`, which other clients write.
fn is_disabled(node: &Node<'_>) -> bool {
    node.member("enabled").and_then(|switch| switch.as_bool()) == Some(false)
}

/// The issuer whose metadata lies at this URL (RFC 8414, 3.1; OpenID Connect Discovery 1.0, 4.1).
fn issuer_of_metadata(url: &str) -> String {
    let (path_start, marker) = METADATA_PATHS
        .iter()
        .find_map(|path| Some((url.find(path)?, *path)))
        .unwrap_or((url.len(), ""));
    let (before, after) = url.split_at(path_start);
    format!("{before}{}", &after[marker.len()..])
}

/// Reports settings that cannot work together.
fn check(oauth: &OAuth, place: &KeyPath, report: &mut FindingReport<'_>) {
    let has_id = oauth.client_id.is_some() || oauth.client_metadata_url.is_some();
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        report.error(place, "`clientSecret` belongs to a `clientId`");
    }
    if oauth.private_key.is_some() && !has_id {
        let message = "`privateKey` belongs to a `clientId` or a `clientMetadataUrl`";
        report.error(place, message);
    }
    let has_proof = oauth.client_secret.is_some() || oauth.private_key.is_some();
    if oauth.grant == Grant::ClientCredentials && !(has_id && has_proof) {
        let message = "the grant `clientCredentials` needs a `clientId`, and a `clientSecret` or a `privateKey`";
        report.error(place, message);
    }
    if oauth.per_principal && oauth.grant == Grant::ClientCredentials {
        let message = "`perPrincipal` needs the grant `person`: the credentials of `clientCredentials` are the same for all";
        report.error(place, message);
    }
    let document = oauth.client_metadata_url.as_deref();
    if document.is_some_and(|url| !url.starts_with("https://") && !url.contains("${")) {
        let message = "`clientMetadataUrl` must be an `https://` URL, at which the document lies";
        report.error(place, message);
    }
}
