//! `--mcp-clients` and related options: servers on the command line.

use std::path::PathBuf;

use clap::Args;
use mainstay_config::Inline;
use mainstay_platform::environment::ClientsFlags;

#[derive(Clone, Debug, Args)]
pub struct ClientsArgs {
    /// For scripts written for another program: reads that program's file, which docs/dev/seeds.md names.
    #[arg(long = "mcp-clients", conflicts_with = "config", hide = true)]
    usual: bool,
    /// The configuration; each of its servers must say its `transport`
    #[arg(
        long = "mcp-clients-config",
        value_name = "FILE",
        conflicts_with = "config"
    )]
    file: Option<PathBuf>,
    /// One more server, as NAME:COMMAND or NAME:URL; wins over one of that name in the file
    #[arg(long = "mcp-client", value_name = "NAME:VALUE")]
    inline: Vec<Inline>,
}

impl ClientsArgs {
    /// True if any server or file is given.
    pub fn are_given(&self) -> bool {
        self.usual || self.file.is_some() || !self.inline.is_empty()
    }
}

impl From<ClientsArgs> for ClientsFlags {
    fn from(args: ClientsArgs) -> Self {
        let ClientsArgs {
            usual,
            file,
            inline,
        } = args;
        Self {
            usual,
            file,
            inline,
        }
    }
}
