//! A daemon that a command starts for itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    time::Duration,
};

use futures_util::future::join_all;
use mainstay_api::Client;
use mainstay_command_line::{
    CommandError, Exit,
    host::{Occasion, Waiting},
    signals::Signals,
    starting,
};
use mainstay_commands::warn_of_unread_rules;
use mainstay_core::config::Config;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::{
    environment::{ConfigurationSource, Process},
    lineage::Lineage,
    state::{self, StateDir},
};
use tokio::task::JoinHandle;

use super::{instance::LocalState, serve};
use crate::{
    daemon::{self, Daemon, DaemonOptions},
    logins,
};

/// A daemon on a free port, with a token that only this command knows. It uses the state directory only
/// through its `LocalState`.
pub struct OwnDaemon {
    daemon: Daemon,
    doors: JoinHandle<()>,
    client: Client,
    /// Open while this value exists.
    local_state: LocalState,
}

impl OwnDaemon {
    pub fn start(origin: &ConfigurationSource, recorded: bool) -> Result<Self, CommandError> {
        let mut loaded = origin.load()?;
        warn_of_unread_rules(&mut loaded);
        starting::print_findings(&loaded);
        let lineage = Lineage::begin(loaded.path.as_deref())?;
        let local_state = if recorded {
            LocalState::open(&loaded, &lineage)?
        } else {
            LocalState::default()
        };
        Self::with_config(&loaded.config, lineage, local_state)
    }

    /// Starts the daemon of this configuration.
    pub fn with_config(
        config: &Config,
        lineage: Lineage,
        local_state: LocalState,
    ) -> Result<Self, CommandError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let unbound = |source| CommandError::Listen {
            address: any.into(),
            source,
        };
        let listener = daemon::bind(any).map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let token = state::random_token()?;
        let client = Client::new(&format!("http://{address}"), Some(token.clone()))?;
        let state = StateDir::locate(&Process).and_then(|state| state.check().map(|()| state));
        let daemon = Daemon::start(
            config,
            DaemonOptions {
                gateway: GatewayOptions {
                    journal: local_state.journal.clone(),
                    lineage,
                    ..GatewayOptions::default()
                },
                // Do not use logins from a directory that others can write to.
                logins: state.ok().as_ref().map(logins::in_state_dir),
                ..DaemonOptions::default()
            },
        );
        let doors = daemon.serve_http(listener, address, token);
        Ok(Self {
            daemon,
            doors,
            client,
            local_state,
        })
    }
}

impl Occasion for OwnDaemon {
    fn client(&self) -> &Client {
        &self.client
    }

    fn settled(&self) -> Waiting<'_> {
        Box::pin(self.daemon.gateway.registry.settled())
    }

    fn examined(&self, limit: Duration) -> Waiting<'_> {
        let servers = self.daemon.gateway.registry.servers().into_iter();
        let examined = servers.map(move |server| async move {
            server.settled(limit).await;
            if server.view().is_to_be_listed() {
                server.listed(limit).await;
            }
        });
        Box::pin(async { drop(join_all(examined).await) })
    }

    fn stop<'s>(
        self: Box<Self>,
        signals: &'s mut Signals,
    ) -> Pin<Box<dyn Future<Output = Result<Exit, CommandError>> + 's>> {
        let Self {
            daemon,
            doors,
            local_state,
            ..
        } = *self;
        Box::pin(async move {
            let stopped = serve::stop(daemon, Some(doors), signals).await;
            drop(local_state);
            stopped
        })
    }
}
