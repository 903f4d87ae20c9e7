//! `serve --demo`: three small servers that are part of Mainstay, and suggestions for trying them.

pub mod server;
mod tools;

use std::{env, fmt::Write as _, io, sync::Arc};

use mainstay_core::{
    config::{Launch, ServerConfig, StdioLaunch},
    ids::ServerName,
};
use mainstay_gateway::supervisor::ServerHandle;

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// The configuration of the demo servers. Each server runs this program.
pub fn servers() -> io::Result<Vec<ServerConfig>> {
    let program = env::current_exe()?;
    let command = program
        .to_str()
        .ok_or_else(|| io::Error::other("it is not UTF-8"))?;
    let server = |name: &str| {
        let launch = StdioLaunch {
            command: command.to_owned(),
            args: vec!["demo-server".to_owned(), name.to_owned()],
            ..StdioLaunch::default()
        };
        ServerName::new(name)
            .map(|name| ServerConfig::new(name, Launch::Stdio(launch)))
            .map_err(io::Error::other)
    };
    NAMES.into_iter().map(server).collect()
}

/// Commands to try, as lines to copy.
pub fn tour(url: &str, servers: &[Arc<ServerHandle>]) -> String {
    // Use the program name of this call, so that the lines work before Mainstay is installed.
    let us = env::args().next().unwrap_or_else(|| "mainstay".to_owned());
    let mut tour = format!(
        "\nTry in another terminal:\n\
         \x20 {us} list\n\
         \x20 {us} call alpha/echo text=hello\n\
         \x20 {us} call beta/add a=2 b=3\n\
         \x20 {us} call gamma/flaky\n\
         \x20 claude mcp add --transport http mainstay {url}/mcp\n"
    );
    let pid = servers
        .iter()
        .find_map(|server| Some((server.view().session?.pid?, &server.name)));
    if let Some((pid, name)) = pid {
        // Writing to a String cannot fail.
        let _ = write!(tour, "  kill -9 {pid}    # {name}: watch it come back here");
    }
    tour
}
