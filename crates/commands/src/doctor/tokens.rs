//! Finds tokens that have expired or will expire soon: client tokens, and tokens in the headers of
//! servers.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::DateTime;
use mainstay_api::{Client, ClientToken};
use mainstay_command_line::output;
use mainstay_core::config::{Config, Launch};
use mainstay_platform::state::StateDir;
use mainstay_tokens as tokens;
use serde::Deserialize;

use super::finding::{DoctorFinding, edit, quoted};

/// The period before a token's expiry in which the token is reported.
const WARNING_PERIOD: Duration = Duration::from_hours(7 * 24);

pub async fn check_clients(
    client: Option<&Client>,
    state: Option<&StateDir>,
) -> Vec<DoctorFinding> {
    let tokens: Vec<ClientToken> = match (client, state) {
        (Some(client), _) => match client.client_tokens().await {
            Ok(list) => list.tokens,
            Err(error) => return vec![unreadable(state, &error.to_string())],
        },
        // Another check reports a directory that cannot be used.
        (None, Some(state)) if state.check().is_ok() => match tokens::read(state) {
            Ok(list) => list.iter().map(ClientToken::from).collect(),
            Err(error) => return vec![unreadable(Some(state), &error.to_string())],
        },
        (None, _) => Vec::new(),
    };
    let now = SystemTime::now();
    tokens
        .iter()
        .filter_map(|token| check_client(token, now))
        .collect()
}

fn unreadable(state: Option<&StateDir>, reason: &str) -> DoctorFinding {
    let mend = state.map(|state| {
        let path = quoted(&state.path().join("tokens.json"));
        format!("mv {path} {path}.broken  # then `mainstay token add` for each client")
    });
    DoctorFinding::error(
        "token.unreadable",
        format!("the tokens of clients cannot be read: {reason}"),
    )
    .consequence("no client with a token is let in")
    .mend(mend.unwrap_or_else(|| "mainstay token list".to_owned()))
}

fn check_client(token: &ClientToken, now: SystemTime) -> Option<DoctorFinding> {
    let end = DateTime::parse_from_rfc3339(token.expires_at.as_ref()?).ok()?;
    let name = &token.name;
    let mend = format!("mainstay token remove {name} && mainstay token add {name}");
    let (left, message) = standing(end.into(), now, &format!("the token of client {name}"))?;
    Some(if left.is_zero() {
        DoctorFinding::warning("token.expired", message)
            .consequence("the client is refused")
            .mend(mend)
    } else {
        DoctorFinding::warning("token.expiring", message)
            .consequence("the client is refused then")
            .mend(mend)
    })
}

/// The remaining time of a token that expires soon or has expired, and a sentence about it.
fn standing(end: SystemTime, now: SystemTime, token: &str) -> Option<(Duration, String)> {
    match end.duration_since(now) {
        Ok(left) if left > WARNING_PERIOD => None,
        Ok(left) => Some((left, format!("{token} expires in {}", output::span(left)))),
        Err(past) => {
            let past = output::span(past.duration());
            Some((Duration::ZERO, format!("{token} expired {past} ago")))
        }
    }
}

/// The expiry claim of a JSON Web Token.
#[derive(Deserialize)]
struct Claims {
    exp: u64,
}

/// Checks JSON Web Tokens in the headers of servers. Other tokens do not contain their expiry.
pub fn check_servers(config: &Config, path: Option<&Path>) -> Vec<DoctorFinding> {
    let now = SystemTime::now();
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let findings = enabled.filter_map(|server| {
        let Launch::Http(http) = &server.launch else {
            return None;
        };
        let ends = http
            .headers
            .iter()
            .filter_map(|(_, value)| end_of(value.expose()));
        let (left, message) = standing(ends.min()?, now, "the token in its headers")?;
        let finding = if left.is_zero() {
            DoctorFinding::error("token.server_expired", message)
                .consequence("the server refuses it")
        } else {
            DoctorFinding::warning("token.server_expiring", message)
                .consequence("the server refuses it then")
        };
        let comment = "put a new token into `headers` of its entry, or into what it refers to";
        Some(
            finding
                .about(server.name.as_str())
                .mend(edit(path, comment)),
        )
    });
    findings.collect()
}

/// The expiry of a header's token, if it is a JSON Web Token with an expiry claim.
fn end_of(header: &str) -> Option<SystemTime> {
    let token = header.rsplit(' ').next()?;
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_token_says_when_it_ends() {
        let token = |claims: &str| format!("Bearer eyJh.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(
            end_of(&token(r#"{"sub":"me","exp":1800000000}"#)),
            Some(end)
        );
        assert_eq!(end_of(&token(r#"{"sub":"me"}"#)), None);
        assert_eq!(end_of(&token(r#"{"exp":18446744073709551615}"#)), None);
        assert_eq!(end_of("Bearer mst_0123"), None);
        assert_eq!(end_of(""), None);
    }

    #[test]
    fn tokens_are_near_their_end_for_a_week() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365);
        let at = |end| standing(end, now, "it").map(|(_, message)| message);
        assert_eq!(at(now + Duration::from_hours(24 * 8)), None);
        assert_eq!(
            at(now + Duration::from_hours(48)),
            Some("it expires in 2 d".to_owned())
        );
        assert_eq!(
            at(now - Duration::from_hours(3)),
            Some("it expired 3 h ago".to_owned())
        );
    }
}
