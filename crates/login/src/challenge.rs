//! The `WWW-Authenticate` header of a refusal (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1).

use crate::scopes::Scopes;

/// Maximum length of a header in bytes. Longer headers are ignored.
const MAX_HEADER: usize = 8 * 1024;

/// The `Bearer` challenge of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the server's metadata, as the server wrote it.
    pub resource_metadata: Option<String>,
    pub scopes: Option<Scopes>,
    /// An error code such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
    pub error_description: Option<String>,
}

impl Challenge {
    /// Returns the first `Bearer` challenge of all headers of this name. `None` if there is none. A malformed
    /// header is parsed as far as possible.
    pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        headers
            .into_iter()
            .filter(|header| header.len() <= MAX_HEADER)
            .find_map(|header| {
                let challenges = parse_challenges(header);
                challenges
                    .into_iter()
                    .find(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
                    .map(|(_, parameters)| Self::from_parameters(parameters))
            })
    }

    fn from_parameters(parameters: Vec<(&str, String)>) -> Self {
        let mut challenge = Self::default();
        for (name, value) in parameters {
            match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scopes = Some(Scopes::parse(&value)),
                "error" => challenge.error = Some(value),
                "error_description" => challenge.error_description = Some(value),
                _ => {}
            }
        }
        challenge
    }

    /// True if the token is valid but lacks scopes.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Parses each scheme of a header with its parameters.
fn parse_challenges(header: &str) -> Vec<(&str, Vec<(&str, String)>)> {
    let mut challenges: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (token, after) = split_token(rest);
        if token.is_empty() {
            return challenges;
        }
        match parameter_value(after) {
            Some((value, after)) => {
                if let Some((_, parameters)) = challenges.last_mut() {
                    parameters.push((token, value));
                }
                rest = after;
            }
            None => {
                challenges.push((token, Vec::new()));
                rest = skip_token68(after);
            }
        }
    }
}

/// The token at the start of a text, and the text after it.
fn split_token(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| {
        !character.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(character)
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// The value of a parameter whose name ends before `text`, and the text after the value.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, after) = text.split_at(end);
        // A second `=` belongs to a token68, such as `Basic QQ==`.
        let is_value = !value.is_empty() && !value.starts_with('=');
        return is_value.then(|| (value.to_owned(), after));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    // The closing quote is missing, so the value is the rest of the text.
    Some((value, ""))
}

/// The text after a token68 that follows a scheme. A token68 ends before a comma.
fn skip_token68(text: &str) -> &str {
    let trimmed = text.trim_start_matches([' ', '\t']);
    let (token, after) = split_token(trimmed);
    let after_padding = after.trim_start_matches(['=', '/']);
    let is_token68 = !token.is_empty()
        && (after.len() != after_padding.len() || after.is_empty() || after.starts_with(','))
        && parameter_value(after).is_none();
    if is_token68 { after_padding } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Option<Challenge> {
        Challenge::parse([header])
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let expected = Challenge {
            resource_metadata: Some("https://h/.well-known/oauth-protected-resource".to_owned()),
            scopes: Some(Scopes::parse("files:read files:write")),
            error: Some("invalid_token".to_owned()),
            error_description: Some("it \"expired\", long ago".to_owned()),
        };
        let parameters = r#"resource_metadata="https://h/.well-known/oauth-protected-resource", scope="files:read files:write", error=invalid_token, error_description="it \"expired\", long ago""#;
        for header in [
            format!("Bearer {parameters}"),
            format!("bearer  {parameters}"),
            format!(r#"Basic realm="x", Bearer {parameters}"#),
            format!("Negotiate QQ==, Bearer {parameters}"),
            format!("Negotiate, Bearer {parameters}"),
            format!(r#"Bearer {parameters}, Digest realm="y", error="other""#),
            format!("Bearer {}", parameters.replace(", ", "  ,\t")),
            format!("Bearer {}", parameters.replace("scope=", "SCOPE = ")),
        ] {
            let expected = Challenge {
                error_description: expected.error_description.clone().map(|text| {
                    if header.contains(",\t") {
                        text.replace(", ", "  ,\t")
                    } else {
                        text
                    }
                }),
                ..expected.clone()
            };
            assert_eq!(parse(&header), Some(expected), "{header}");
        }
    }

    #[test]
    fn the_header_may_be_repeated() {
        let challenge = Challenge::parse([r#"Basic realm="x""#, r#"Bearer scope="a""#]);
        assert_eq!(
            challenge.and_then(|challenge| challenge.scopes),
            Some(Scopes::parse("a"))
        );
    }

    #[test]
    fn headers_that_cannot_be_read_are_read_as_far_as_possible() {
        assert_eq!(parse("Bearer"), Some(Challenge::default()));
        for header in [
            "",
            "Basic",
            ",,,",
            "=",
            "\"",
            "Basic realm=\"Bearer\"",
            "é Bearer",
        ] {
            assert_eq!(parse(header), None, "{header}");
        }
        let open = parse(r#"Bearer error="invalid"#).expect("a challenge");
        assert_eq!(open.error.as_deref(), Some("invalid"));
        let long = format!("Bearer scope=\"{}\"", "a ".repeat(MAX_HEADER));
        assert_eq!(parse(&long), None);
    }
}
