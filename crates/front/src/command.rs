//! `mainstay connect`: serves one client on stdin and stdout by a running daemon's endpoint.

use std::time::Duration;

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    run_command::{CommandFacts, Role, RunCommand},
};
use mainstay_core::ids::ProfileName;

use super::{Finder, run};

const EXAMPLES: &str = "\
Examples:
  claude mcp add mainstay -- mainstay connect
  mainstay connect --profile meta
  mainstay connect --server files
  mainstay connect --url http://127.0.0.1:8000 --wait 30";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Connect {
    /// The profile of the configuration that the client sees
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    profile: Option<String>,
    /// One server alone, with nothing renamed
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Use the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Wait this long for a daemon at the start; a daemon that is lost later is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=86_400))]
    wait: u64,
}

impl RunCommand for Connect {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            role: Role::Front,
            ..CommandFacts::default()
        }
    }

    /// Returns after the client has closed stdin and all answers are written. Stdout carries only
    /// MCP messages.
    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let path = path(self.profile.as_deref(), self.server.as_deref())?;
        let finder = Finder {
            url: self.url,
            path,
            config: None,
        };
        Box::pin(run(finder, Duration::from_secs(self.wait), None)).await
    }
}

/// The path of the endpoint for a profile or a server.
pub fn path(profile: Option<&str>, server: Option<&str>) -> Result<String, CommandError> {
    let checked_name = |name: &str| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !name.is_empty() && name.bytes().all(is_name) {
            return Ok(name.to_owned());
        }
        Err(CommandError::Usage {
            message: format!("{name:?} is no name of a profile or a server"),
            hint: Some("names have letters, digits, - and _".to_owned()),
        })
    };
    Ok(match (profile, server) {
        (_, Some(server)) => format!("/servers/{}/mcp", checked_name(server)?),
        (None | Some(ProfileName::DEFAULT), None) => "/mcp".to_owned(),
        (Some(profile), None) => format!("/mcp/{}", checked_name(profile)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_paths() {
        let path = |profile, server| path(profile, server).ok();
        assert_eq!(path(None, None).as_deref(), Some("/mcp"));
        assert_eq!(path(Some("meta"), None).as_deref(), Some("/mcp/meta"));
        assert_eq!(
            path(Some(ProfileName::DEFAULT), None).as_deref(),
            Some("/mcp")
        );
        assert_eq!(path(None, Some("fs")).as_deref(), Some("/servers/fs/mcp"));
        assert_eq!(path(None, Some("a/../b")), None);
        assert_eq!(path(Some("a\r\nx: y"), None), None);
    }
}
