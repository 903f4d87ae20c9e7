//! The state of a Mainstay that does not own the state directory: an instance in that directory. Several
//! instances may exist at the same time.

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

/// The directories and the journal of a Mainstay. A part is `None` if it cannot be used. Servers then run
/// without it, unless every call must be recorded.
#[derive(Debug, Default)]
pub struct LocalState {
    pub state: Option<StateDir>,
    /// The lock of the instance. Dropping it releases the lock.
    pub instance: Option<Instance>,
    /// The daemon that uses the journal closes it.
    pub journal: Option<Arc<Journal>>,
}

impl LocalState {
    pub fn open(loaded: &Loaded, lineage: &Lineage) -> Result<Self, CommandError> {
        let settings = &loaded.config.journal;
        // Use no directory that others can write to.
        let located = StateDir::locate(&Process).and_then(|state| state.check().map(|()| state));
        let state = or_warn(located, settings)?;
        // Without a file, the lineage id differs in each run, so use a fixed name.
        let name = loaded.path.as_ref().map_or("no-file", |_| lineage.own_id());
        let instance = match &state {
            Some(state) => or_warn(state.own_instance(name), settings)?,
            None => None,
        };
        let journal = match &instance {
            Some(instance) => store::open_if_enabled(instance.path(), settings)?,
            None => None,
        };
        Ok(Self {
            state,
            instance,
            journal,
        })
    }
}

/// Turns an error into `None` with a warning, unless the settings demand a record of every call.
fn or_warn<T>(
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
