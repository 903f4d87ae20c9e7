//! What the commands cannot do themselves: their daemons and the files of the journal's store.

use std::path::Path;

use mainstay_commands::{
    CommandError, StoreFault,
    host::{CallTable, Host, JournalReader, Occasion},
};
use mainstay_core::config::Config;
use mainstay_platform::{environment::Origin, lineage::Lineage};

use super::{instance::Kept, occasion::OwnDaemon, store};

/// The program, as its commands see it.
pub struct Program;

impl Host for Program {
    fn start(&self, origin: &Origin, recorded: bool) -> Result<Box<dyn Occasion>, CommandError> {
        Ok(Box::new(OwnDaemon::start(origin, recorded)?))
    }

    fn try_out(
        &self,
        config: &Config,
        lineage: Lineage,
    ) -> Result<Box<dyn Occasion>, CommandError> {
        Ok(Box::new(OwnDaemon::of(config, lineage, Kept::default())?))
    }

    fn journal(&self, state: &Path) -> Result<Option<Box<dyn JournalReader>>, StoreFault> {
        store::reader(state)
    }

    fn call_table(&self, path: &Path) -> Result<Box<dyn CallTable>, StoreFault> {
        store::call_table(path)
    }
}
