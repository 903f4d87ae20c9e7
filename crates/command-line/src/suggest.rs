//! Suggests the name that was probably meant.

use mainstay_api::{self as api, Client, ClientError};
use mainstay_core::{
    config::Config,
    display::word,
    failure::{Failure, FailureKind},
};
use serde_json::Value;

use super::CommandError;

/// The member of an error that holds the suggestion.
pub(crate) const MEMBER: &str = "did_you_mean";

/// The member of a failure that holds its own hint.
pub(crate) const HINT: &str = "hint";

/// Adds the file's servers to an error about an unknown server.
pub fn in_file(file: Option<&Config>, name: &str, failure: Failure) -> Failure {
    if failure.kind != FailureKind::ServerNotFound {
        return failure;
    }
    let servers = file.iter().flat_map(|file| &file.servers);
    let names: Vec<&str> = servers.map(|server| server.name.as_str()).collect();
    let hint = if names.is_empty() {
        "it has no servers".to_owned()
    } else {
        nearest_or_all(name, &names)
    };
    failure.with(HINT, hint)
}

/// Adds a suggestion to an error of the daemon.
pub async fn completed<T>(
    client: &Client,
    mut outcome: Result<T, CommandError>,
) -> Result<T, CommandError> {
    if let Err(error) = &mut outcome {
        complete(client, error).await;
    }
    outcome
}

/// Adds a suggestion. If the lists are not available, the error stays unchanged.
async fn complete(client: &Client, error: &mut CommandError) {
    let CommandError::Client(ClientError::Refused { body, .. }) = error else {
        return;
    };
    let member_text = |member: &str| body.get(member).and_then(Value::as_str);
    let suggestion = match member_text("error") {
        Some("server_not_found") => {
            let (Some(name), Ok(listed)) = (member_text("server"), client.servers().await) else {
                return;
            };
            let names = listed.servers.iter().map(|server| server.name.as_str());
            nearest(name, names).map(str::to_owned)
        }
        Some("prompt_not_found") => {
            let (Some(name), Ok(listed)) = (member_text("prompt"), client.prompts().await) else {
                return;
            };
            let server = member_text("server").map(|server| format!("{server}/"));
            let whole = match server.filter(|server| !name.starts_with(server)) {
                Some(server) => server + name,
                None => name.to_owned(),
            };
            let names = listed.prompts.iter().map(|prompt| prompt.name.as_str());
            nearest(&whole, names).map(str::to_owned)
        }
        Some("token_not_found") => {
            let (Some(name), Ok(listed)) = (member_text("name"), client.client_tokens().await)
            else {
                return;
            };
            let names = listed.tokens.iter().map(|token| token.name.as_str());
            nearest(name, names).map(str::to_owned)
        }
        Some("tool_not_found" | "invalid_tool_name") => {
            let (Some(name), Ok(listed)) = (member_text("tool"), client.tools().await) else {
                return;
            };
            // The error has the server in a field of its own, in addition to the name.
            let server = member_text("server").map(|server| format!("{server}/"));
            match server.filter(|server| !name.starts_with(server)) {
                Some(server) => tool(&(server + name), &listed.tools),
                None => tool(name, &listed.tools),
            }
        }
        _ => None,
    };
    if let Some(suggestion) = suggestion {
        body.insert(MEMBER.to_owned(), suggestion.into());
    }
}

/// The tool that was probably meant: of the named server, or of any server.
pub fn tool(name: &str, tools: &[api::Tool]) -> Option<String> {
    let Some((server, name)) = name.split_once('/') else {
        let found = nearest_of(name, tools.iter(), |tool| &tool.original_name)?;
        return Some(found.name.clone());
    };
    let of_server = tools.iter().filter(|tool| tool.server == server);
    let found = nearest_of(name, of_server, |tool| &tool.original_name)?;
    Some(found.name.clone())
}

/// The name that was probably meant, or all names.
pub fn nearest_or_all(name: &str, names: &[&str]) -> String {
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean {}?", word(near)),
        None => {
            let words: Vec<String> = names.iter().map(|name| word(name)).collect();
            format!("it has {}", words.join(", "))
        }
    }
}

/// The nearest name, if it is near enough for a typing error.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    nearest_of(name, names, |name| *name)
}

fn nearest_of<T>(
    name: &str,
    candidates: impl Iterator<Item = T>,
    name_of: impl Fn(&T) -> &str,
) -> Option<T> {
    let name = name.to_lowercase();
    let most = (name.chars().count() / 3).max(1);
    let far =
        |candidate: &T| strsim::damerau_levenshtein(&name, &name_of(candidate).to_lowercase());
    let near = candidates
        .map(|candidate| (far(&candidate), candidate))
        .filter(|(far, _)| *far <= most);
    near.min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let names = ["alpha", "beta", "github", "git"];
        for (name, expected) in [
            ("alpa", Some("alpha")),
            ("aplha", Some("alpha")),
            ("ALPHA", Some("alpha")),
            ("githib", Some("github")),
            ("gitt", Some("git")),
            ("gamma", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
        }
    }
}
