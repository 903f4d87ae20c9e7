//! The services that the program provides to its commands: daemons, the files of the journal's store, and the
//! other commands for the shell.

use std::path::Path;

use mainstay_command_line::{
    CommandError,
    connect::DaemonArgs,
    host::{Host, Occasion, RunningCommand, Typed},
};
use mainstay_commands::store::{CallTable, JournalReader, StoreFault, StoreHost};
use mainstay_core::config::Config;
use mainstay_platform::{environment::ConfigurationSource, lineage::Lineage};

use super::{instance::LocalState, occasion::OwnDaemon, store};

/// Provides the services of this program to the commands.
pub struct Program;

impl Host for Program {
    fn start(
        &self,
        origin: &ConfigurationSource,
        recorded: bool,
    ) -> Result<Box<dyn Occasion>, CommandError> {
        Ok(Box::new(OwnDaemon::start(origin, recorded)?))
    }

    fn try_out(
        &self,
        config: &Config,
        lineage: Lineage,
    ) -> Result<Box<dyn Occasion>, CommandError> {
        Ok(Box::new(OwnDaemon::with_config(
            config,
            lineage,
            LocalState::default(),
        )?))
    }

    fn typed<'h>(
        &'h self,
        command: Typed,
        arguments: &[&str],
        daemon: DaemonArgs,
    ) -> Result<RunningCommand<'h>, clap::Error> {
        mainstay_commands::typed(self, command, arguments, daemon)
    }
}

impl StoreHost for Program {
    fn journal(&self, state: &Path) -> Result<Option<Box<dyn JournalReader>>, StoreFault> {
        store::reader(state)
    }

    fn call_table(&self, path: &Path) -> Result<Box<dyn CallTable>, StoreFault> {
        store::call_table(path)
    }
}
