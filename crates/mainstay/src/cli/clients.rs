//! [002]'s flags of the commands that start servers (requirements, section B).

use std::path::PathBuf;

use clap::Args;
use mainstay_core::config::Inline;

use crate::surroundings::Clients;

#[derive(Clone, Debug, Args)]
pub struct ClientsArgs {
    /// Read ~/.cideldill/mcp_clients.json, or what `CIDELDILL_MCP_CLIENTS_CONFIG` and `CIDELDILL_HOME` say
    #[arg(long, conflicts_with = "config")]
    mcp_clients: bool,
    /// The configuration; each of its servers must say its `transport`
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    mcp_clients_config: Option<PathBuf>,
    /// One more server, as NAME:COMMAND or NAME:URL; wins over one of that name in the file
    #[arg(long, value_name = "NAME:VALUE")]
    mcp_client: Vec<Inline>,
}

impl From<ClientsArgs> for Clients {
    fn from(args: ClientsArgs) -> Self {
        Self {
            usual: args.mcp_clients,
            file: args.mcp_clients_config,
            inline: args.mcp_client,
        }
    }
}
