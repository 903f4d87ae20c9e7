//! The secrets in a server's configuration. A server may print them, for example with the headers
//! of a failed request or with its environment.

use std::{
    borrow::Cow, cmp::Reverse, collections::BTreeSet, fmt, fmt::Write as _, ops::Range,
    sync::OnceLock,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::{Regex, RegexBuilder};

use super::{HIDDEN, Secrecy, edits::Edits};
use crate::{
    config::{
        HttpLaunch, Launch, NetworkSettings, ProxyChoice, Secret, ServerConfig, SignIn, StdioLaunch,
    },
    proxy,
};

/// Minimum length of a secret in bytes: with a secret name, and without one. Shorter values would
/// match other text.
const MIN_NAMED_LENGTH: usize = 4;
const MIN_LENGTH: usize = 8;

/// Size of the pieces of a long secret, in bytes. Pieces are searched one by one, so that a part of
/// the secret is found too.
const PIECE_LENGTH: usize = 64;
/// Maximum number of pieces of one server. More pieces are data and not secrets.
const MAX_PIECES: usize = 512;

/// Number of bytes at the end of a token that are searched.
const MAX_CREDENTIAL: usize = 256;

/// Options of package runners whose value is a package name. The name must stay readable in error
/// messages.
const PACKAGE_OPTIONS: [&str; 13] = [
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "--offline",
    "--prefer-offline",
    "--package",
    "--from",
    "--with",
    "--rm",
    "-i",
    "-it",
    "-m",
];

/// Minimum length of base64 to search, in bytes. A shorter text would match other text.
const MIN_ENCODED_LENGTH: usize = 8;

/// Minimum length of a text that may have been cut, in bytes. Errors are cut at a few hundred
/// characters.
const MIN_CUT_LENGTH: usize = 256;

/// The mark in place of the middle of a long line.
pub const CUT: &str = " … ";

/// Maximum size of the compiled pattern, in bytes.
const MAX_PATTERN: usize = 64 << 20;

/// The secrets of one server. They are found unchanged, with JSON or HTML escapes, and in
/// percent-encoding, base64 and hexadecimal.
pub struct Secrets {
    pieces: BTreeSet<Vec<u8>>,
    /// Mainstay's own errors about the entry. They contain no secret, but keys before a colon, such
    /// as `bearerToken:`, look like names of secrets.
    findings: Vec<String>,
    /// Compiled at the first use. `None` if the pattern cannot be compiled. A test excludes this.
    pattern: OnceLock<Option<Regex>>,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.pieces == other.pieces && self.findings == other.findings
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} ***]", self.pieces.len())
    }
}

impl Secrets {
    /// Returns the secrets of a server. `None` if it has none.
    pub fn from_config(config: &ServerConfig) -> Option<Self> {
        Self::from_configs(config, None)
    }

    /// Like [`Secrets::from_config`], but includes the secrets of the server's former entry. Open
    /// sessions may still use them.
    pub fn from_configs(config: &ServerConfig, former: Option<&ServerConfig>) -> Option<Self> {
        let mut pieces = SecretPieces::default();
        for config in std::iter::once(config).chain(former) {
            match &config.launch {
                Launch::Http(launch) => pieces.http(launch),
                Launch::Stdio(launch) => pieces.stdio(launch),
                Launch::Broken(_) | Launch::Unapproved => {}
            }
            if let Some(url) = &config.health_check_url {
                pieces.url(url.expose());
            }
            for secret in &config.vault_secrets {
                pieces.secret(secret.expose());
            }
        }
        let findings: Vec<String> = config.problems().map(ToString::to_string).collect();
        (!pieces.0.is_empty() || !findings.is_empty()).then(|| Self {
            pieces: pieces.0,
            findings,
            pattern: OnceLock::new(),
        })
    }

    /// Returns the secret of a proxy's URL. `None` if there is none.
    pub fn from_network(network: &NetworkSettings) -> Option<Self> {
        let mut pieces = SecretPieces::default();
        pieces.proxy(&network.proxy);
        (!pieces.0.is_empty()).then(|| Self {
            pieces: pieces.0,
            findings: Vec::new(),
            pattern: OnceLock::new(),
        })
    }

    /// Returns the secrets of a configuration and these credentials of its requests. `None` if
    /// there are none.
    pub fn with_credentials<'c>(
        configured: Option<&Self>,
        credentials: impl IntoIterator<Item = &'c Secret>,
    ) -> Option<Self> {
        let mut pieces = SecretPieces::default();
        for credential in credentials {
            pieces.credential(credential.expose());
        }
        let findings = configured.map(|secrets| secrets.findings.clone());
        if let Some(secrets) = configured {
            pieces.0.extend(secrets.pieces.iter().cloned());
        }
        let findings = findings.unwrap_or_default();
        (!pieces.0.is_empty() || !findings.is_empty()).then(|| Self {
            pieces: pieces.0,
            findings,
            pattern: OnceLock::new(),
        })
    }

    /// Returns the range of the first of Mainstay's own errors in the text.
    fn finding_in(&self, text: &str) -> Option<Range<usize>> {
        let ranges = self.findings.iter().filter_map(|finding| {
            let start = text.find(finding.as_str())?;
            Some(start..start + finding.len())
        });
        // If two errors start at the same position, take the longer one.
        ranges.min_by_key(|ranges| (ranges.start, Reverse(ranges.len())))
    }

    /// Applies `redact` only to the text around Mainstay's own errors.
    pub(super) fn beside_findings<'t>(
        &self,
        text: &'t str,
        redact: impl Fn(&str) -> Cow<'_, str>,
    ) -> Cow<'t, str> {
        let Some(mut finding_range) = self.finding_in(text) else {
            return match redact(text) {
                Cow::Borrowed(_) => Cow::Borrowed(text),
                Cow::Owned(new_text) => Cow::Owned(new_text),
            };
        };
        let (mut new_text, mut rest) = (String::with_capacity(text.len()), text);
        loop {
            new_text.push_str(&redact(&rest[..finding_range.start]));
            new_text.push_str(&rest[finding_range.clone()]);
            rest = &rest[finding_range.end..];
            match self.finding_in(rest) {
                Some(next) => finding_range = next,
                None => break,
            }
        }
        new_text.push_str(&redact(rest));
        if new_text == text {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(new_text)
        }
    }

    fn pattern(&self) -> Option<&Regex> {
        let compile = || {
            let mut forms: Vec<String> =
                self.pieces.iter().flat_map(|piece| forms(piece)).collect();
            // The regex takes the first alternative that matches, so longer forms come first.
            forms.sort_unstable_by_key(|form| Reverse(form.len()));
            let pattern = RegexBuilder::new(&forms.join("|"))
                .unicode(true)
                .size_limit(MAX_PATTERN)
                .build();
            pattern.ok()
        };
        self.pattern.get_or_init(compile).as_ref()
    }

    pub(super) fn may_be_in(&self, text: &str) -> bool {
        // In JSON, an escape can stand for any character.
        let is_escaped = memchr::memchr(b'\\', text.as_bytes()).is_some();
        is_escaped
            || self.finding_in(text).is_some()
            || !self.pieces.is_empty()
                && self.pattern().is_none_or(|pattern| pattern.is_match(text))
    }

    /// Replaces these secrets in a text.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.pieces.is_empty() {
            return Cow::Borrowed(text);
        }
        let Some(pattern) = self.pattern() else {
            return HIDDEN.into();
        };
        let redacted_text = pattern.replace_all(text, HIDDEN);
        match self.cut_off(&redacted_text) {
            Some(cut_index) => format!("{}{HIDDEN}", &redacted_text[..cut_index]).into(),
            None => redacted_text,
        }
    }

    /// Removes the halves of a secret before and after the [`CUT`] in a long log line.
    pub(super) fn without_halves<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut edits = Edits::new(text);
        for (cut_start, _) in text.match_indices(CUT) {
            let cut_end = cut_start + CUT.len();
            let (before, after) = (&text.as_bytes()[..cut_start], &text.as_bytes()[cut_end..]);
            let max_length = |half: &dyn Fn(&[u8]) -> Option<usize>| {
                self.pieces.iter().filter_map(|piece| half(piece)).max()
            };
            if let Some(length) = max_length(&|piece| first_half(piece, before))
                && text.is_char_boundary(cut_start - length)
            {
                edits.replace(cut_start - length, cut_start, HIDDEN.into());
            }
            if let Some(length) = max_length(&|piece| second_half(piece, after))
                && text.is_char_boundary(cut_end + length)
            {
                edits.replace(cut_end, cut_end + length, HIDDEN.into());
            }
        }
        edits.finish().map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Returns the position of a secret at the end of a cut text, of which only the beginning is
    /// left.
    fn cut_off(&self, text: &str) -> Option<usize> {
        if text.len() < MIN_CUT_LENGTH {
            return None;
        }
        let body = text.trim_end_matches('…').as_bytes();
        let cut_length = |piece: &Vec<u8>| {
            let lengths = (MIN_NAMED_LENGTH..piece.len()).rev();
            lengths
                .filter(|length| body.ends_with(&piece[..*length]))
                .max()
        };
        let max_cut = self.pieces.iter().filter_map(cut_length).max()?;
        let start = body.len() - max_cut;
        text.is_char_boundary(start).then_some(start)
    }
}

/// Length in bytes of the longest prefix of `piece` at the end of `text`. `None` if the prefix is
/// shorter than [`MIN_NAMED_LENGTH`].
fn first_half(piece: &[u8], text: &[u8]) -> Option<usize> {
    let ends = memchr::memrchr_iter(*text.last()?, &piece[..piece.len() - 1]);
    let mut lengths = ends
        .map(|end| end + 1)
        .filter(|length| *length >= MIN_NAMED_LENGTH);
    lengths.find(|length| text.ends_with(&piece[..*length]))
}

/// Length in bytes of the longest suffix of `piece` at the beginning of `text`. `None` if the
/// suffix is shorter than [`MIN_NAMED_LENGTH`].
fn second_half(piece: &[u8], text: &[u8]) -> Option<usize> {
    let starts = memchr::memchr_iter(*text.first()?, piece).filter(|start| *start > 0);
    let mut lengths = starts.map(|start| piece.len() - start);
    lengths.find(|length| {
        *length >= MIN_NAMED_LENGTH && text.starts_with(&piece[piece.len() - length..])
    })
}

#[derive(Default)]
struct SecretPieces(BTreeSet<Vec<u8>>);

impl SecretPieces {
    fn http(&mut self, launch: &HttpLaunch) {
        self.url(&launch.url);
        self.proxy(&launch.network.proxy);
        for (name, value) in &launch.headers {
            let value = value.expose();
            let is_named = Secrecy::from_name(name).hides(value)
                || name.ends_with("key")
                || name.contains("auth");
            match value.split_once(' ') {
                Some((scheme, credentials)) if is_named => {
                    self.secret(credentials.trim());
                    if scheme.eq_ignore_ascii_case("basic") {
                        self.basic(credentials.trim());
                    }
                }
                _ => self.value(is_named, value),
            }
        }
        match &launch.sign_in {
            SignIn::OAuth(oauth) => {
                let secrets = [&oauth.client_secret, &oauth.private_key];
                for secret in secrets.into_iter().flatten() {
                    self.secret(secret.expose());
                }
            }
            SignIn::Helper(helper) => {
                for word in helper.command.split_whitespace() {
                    let word = word.trim_matches(['\'', '"']);
                    match word.split_once('=') {
                        // A variable or an option with a value.
                        Some((_, value)) => {
                            let value = value.trim_matches(['\'', '"']);
                            self.value(!value.starts_with(['/', '~', '.', '$']), value);
                        }
                        None => self.value(false, word),
                    }
                }
            }
            SignIn::HeadersOnly => {}
        }
    }

    /// Adds the password of a proxy, encoded as in the URL and decoded.
    fn proxy(&mut self, choice: &ProxyChoice) {
        match choice {
            ProxyChoice::Through(url) => {
                self.url(url.expose());
                if let Some(password) = proxy::password(url.expose()) {
                    self.secret(&password);
                }
            }
            ProxyChoice::OfEnvironment | ProxyChoice::None => {}
        }
    }

    /// Adds the password of basic authentication. A server may print it decoded.
    fn basic(&mut self, credentials: &str) {
        let decoded_credentials = STANDARD.decode(credentials).ok();
        let Some(text) = decoded_credentials.and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return;
        };
        if let Some((_, password)) = text.split_once(':') {
            self.secret(password);
        }
    }

    fn stdio(&mut self, launch: &StdioLaunch) {
        for (name, value) in &launch.env {
            self.add_named(name, value.expose());
        }
        let mut previous_argument = "";
        for argument in &launch.args {
            match argument.split_once('=') {
                Some((option, value)) => self.add_named(option, value),
                None if previous_argument.starts_with('-')
                    && !PACKAGE_OPTIONS.contains(&previous_argument) =>
                {
                    self.value(
                        Secrecy::from_name(previous_argument).hides(argument),
                        argument,
                    )
                }
                None => {}
            }
            self.url(argument);
            previous_argument = argument;
        }
    }

    fn add_named(&mut self, name: &str, value: &str) {
        let lower_name = name.to_ascii_lowercase();
        let is_named = Secrecy::from_name(name).hides(value)
            || lower_name.ends_with("key")
            || lower_name.contains("auth");
        self.value(is_named, value);
        self.url(value);
    }

    /// Adds the password and the query parameters of a URL.
    fn url(&mut self, text: &str) {
        let Some((_, rest)) = text.split_once("://") else {
            return;
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            self.secret(user.split_once(':').map_or(user, |(_, password)| password));
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let is_named = Secrecy::from_name(name).hides(value) || name.ends_with("key");
            self.value(is_named, value);
            // A server may print a parameter decoded.
            if let Ok(decoded) = proxy::percent_decoded(value)
                && let Ok(decoded) = String::from_utf8(decoded)
                && decoded != value
            {
                self.value(is_named, &decoded);
            }
        }
    }

    fn value(&mut self, is_named: bool, value: &str) {
        if is_named || looks_secret(value) {
            self.secret(value);
        }
    }

    /// Adds the end of a token. For a JWT this is the signature, without which the JWT is useless.
    fn credential(&mut self, token: &str) {
        let start = token.len().saturating_sub(MAX_CREDENTIAL);
        let start = (start..token.len()).find(|start| token.is_char_boundary(*start));
        self.secret(&token[start.unwrap_or_default()..]);
    }

    fn secret(&mut self, secret: &str) {
        if secret.len() < MIN_NAMED_LENGTH {
            return;
        }
        for piece in secret.as_bytes().chunks(PIECE_LENGTH) {
            // The last piece of a long secret may be too short for a search.
            if piece.len() >= MIN_NAMED_LENGTH && self.0.len() < MAX_PIECES {
                self.0.insert(piece.to_vec());
            }
        }
    }
}

/// True if a value without a secret name looks like a secret: one word with letters and digits that
/// is not a number, path or URL.
fn looks_secret(value: &str) -> bool {
    let has_byte = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    value.len() >= MIN_LENGTH
        && has_byte(u8::is_ascii_digit)
        && has_byte(u8::is_ascii_alphabetic)
        && !has_byte(u8::is_ascii_whitespace)
        && !value.starts_with(['/', '.', '~', '$'])
        && !value.contains("://")
        && !value.contains('\\')
        && value.parse::<f64>().is_err()
        && value.parse::<std::net::SocketAddr>().is_err()
        && value.parse::<std::net::IpAddr>().is_err()
}

/// Returns patterns for all forms of a secret.
fn forms(secret: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    if let Ok(text) = std::str::from_utf8(secret) {
        forms.push(text.chars().map(character).collect());
    }
    // Base64 encodes groups of three bytes, so a secret has three encodings. Its first and last
    // characters also depend on the adjacent text.
    for offset in 0..3 {
        let encoded_text = STANDARD.encode([&[0; 2][..offset], secret].concat());
        let encoded_text = encoded_text.trim_end_matches('=');
        let first_index = [0, 2, 3][offset];
        let last_index =
            encoded_text.len() - usize::from(!(offset + secret.len()).is_multiple_of(3));
        let Some(middle) = encoded_text
            .get(first_index..last_index)
            .filter(|middle| middle.len() >= MIN_ENCODED_LENGTH)
        else {
            continue;
        };
        // Match both alphabets of base64.
        let middle = middle.replace('+', r"[+-]").replace('/', "[/_]");
        forms.push(format!(
            "[0-9A-Za-z+/_-]{{0,3}}{middle}[0-9A-Za-z+/_-]{{0,3}}={{0,2}}"
        ));
    }
    if secret.len() >= MIN_LENGTH {
        let (mut digits, mut percent) = (String::new(), String::new());
        for byte in secret {
            let _ = write!(digits, "{byte:02x}");
            let _ = write!(percent, "%{byte:02x}");
        }
        forms.push(format!("(?i-u:{digits})"));
        forms.push(format!("(?i-u:{percent})"));
        if let Ok(text) = std::str::from_utf8(secret) {
            forms.push(format!(
                "(?i-u:{})",
                text.chars().map(units).collect::<String>()
            ));
        }
    }
    forms
}

/// Returns a pattern for a character: unchanged, or with an escape of URLs, JSON or HTML. JSON
/// inside JSON has more backslashes.
fn character(character: char) -> String {
    let mut buffer = [0; 4];
    let text: &str = character.encode_utf8(&mut buffer);
    let itself = regex::escape(text);
    if character.is_ascii_alphanumeric() {
        return itself;
    }
    let mut encoded = String::new();
    for byte in text.bytes() {
        let _ = write!(encoded, "%{byte:02x}");
    }
    let escaped = units(character);
    let code = u32::from(character);
    let escaped_forms = match character {
        ' ' => r"|\+",
        '"' => r#"|\\{1,7}"|&quot;"#,
        '\\' => r"|\\{2,16}",
        '/' => r"|\\{1,7}/|&sol;",
        '&' => "|&amp;",
        '<' => "|&lt;",
        '>' => "|&gt;",
        '\'' => "|&apos;",
        '+' => "|&plus;",
        '=' => "|&equals;",
        '\n' => r"|\\{1,7}n",
        '\r' => r"|\\{1,7}r",
        '\t' => r"|\\{1,7}t",
        _ => "",
    };
    // `&amp;` begins with `&`, so the longer form comes first.
    let escaped_forms = escaped_forms.trim_start_matches('|');
    let bar = if escaped_forms.is_empty() { "" } else { "|" };
    format!(
        "(?:{escaped_forms}{bar}(?i-u:{escaped}|{encoded}|&#0*{code};|&#x0*{code:x};)|{itself})"
    )
}

/// Returns a pattern for a character in the `\u` escapes of JSON.
fn units(character: char) -> String {
    let mut units = String::new();
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(units, r"\\{{1,7}}u{unit:04x}");
    }
    units
}
