//! State of a Mainstay without a daemon: an instance in the state directory. Many instances may exist
//! beside each other.

use std::{error::Error, sync::Arc};

use mainstay_command_line::CommandError;
use mainstay_core::config::{self, Durability};
use mainstay_journal::Journal;
use mainstay_platform::{
    environment::{Loaded, Process},
    lineage::Lineage,
    state::{Instance, StateDir, StateError},
};

use super::store;

/// Where state can be kept. Servers can run without, unless every call must be on record.
#[derive(Debug, Default)]
pub struct Kept {
    pub state: Option<StateDir>,
    /// Owned while this lives.
    pub instance: Option<Instance>,
    /// Ends with the daemon that has it.
    pub journal: Option<Arc<Journal>>,
}

impl Kept {
    pub fn open(loaded: &Loaded, lineage: &Lineage) -> Result<Self, CommandError> {
        let settings = &loaded.config.journal;
        // A directory that others write to is neither read nor written.
        let located = StateDir::locate(&Process).and_then(|state| state.check().map(|()| state));
        let state = or_without(located, settings)?;
        // Without a file the id is another one each time.
        let name = loaded.path.as_ref().map_or("no-file", |_| lineage.own());
        let instance = match &state {
            Some(state) => or_without(state.own_instance(name), settings)?,
            None => None,
        };
        let journal = match &instance {
            Some(instance) => store::open_if_wanted(instance.path(), settings)?,
            None => None,
        };
        Ok(Self {
            state,
            instance,
            journal,
        })
    }
}

/// `None` where it must be done without.
fn or_without<T>(
    found: Result<T, StateError>,
    settings: &config::Journal,
) -> Result<Option<T>, CommandError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if settings.enabled && settings.durability == Durability::Strict => {
            Err(CommandError::NotRecorded(error))
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn Error, "nothing is kept");
            Ok(None)
        }
    }
}
