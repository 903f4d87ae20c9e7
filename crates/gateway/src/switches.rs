//! The switches of clients, stored in a file. All sessions of a client share its switches.

use std::{borrow::Cow, io, path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use mainstay_core::switches::{ClientSwitches, Off};
use mainstay_platform::{blocking::try_off_the_runtime, state};
use tokio::sync::Mutex;

/// The switches of all clients.
#[derive(Debug)]
pub struct SwitchBoard {
    /// The file. `None`: the switches are lost when Mainstay ends.
    path: Option<PathBuf>,
    current: ArcSwap<Snapshot>,
    /// Held during a change and its write, so that changes run one after the other.
    changing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Snapshot {
    switches: ClientSwitches,
    by_client: HashMap<Box<str>, Arc<Off>>,
}

impl Snapshot {
    fn new(switches: ClientSwitches) -> Self {
        let off = |(name, off): (&str, &Off)| (name.into(), Arc::new(off.clone()));
        Self {
            by_client: switches.iter().map(off).collect(),
            switches,
        }
    }
}

impl SwitchBoard {
    /// Reads the file. If the file is invalid, all switches are on, and the next change overwrites
    /// the file.
    pub fn open(path: Option<PathBuf>) -> Self {
        let switches = path.as_ref().map(|path| match state::read_private(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.is_not_found() => Ok(ClientSwitches::default()),
            Err(error) => Err(error.into()),
        });
        let switches = switches.transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "the switches cannot be read: everything is on");
            None
        });
        Self {
            path,
            current: ArcSwap::from_pointee(Snapshot::new(switches.unwrap_or_default())),
            changing: Mutex::default(),
        }
    }

    pub fn all(&self) -> ClientSwitches {
        self.current.load().switches.clone()
    }

    /// The servers and tools that are off for the client of this name. The name is computed only if
    /// any client has switches, because it may have to be parsed from the client's declaration.
    pub fn off_for<'n>(&self, client_name: impl FnOnce() -> Cow<'n, str>) -> Option<Arc<Off>> {
        let current = self.current.load();
        if current.by_client.is_empty() {
            return None;
        }
        current.by_client.get(&*client_name()).cloned()
    }

    /// Changes the switches, and returns the names of the clients whose switches have changed. If the
    /// change cannot be saved, the switches stay unchanged.
    pub async fn change(
        &self,
        change: impl FnOnce(&mut ClientSwitches),
    ) -> io::Result<Vec<String>> {
        let _changing = self.changing.lock().await;
        let before = self.current.load_full();
        let mut after = before.switches.clone();
        change(&mut after);
        if let Some(path) = self.path.clone() {
            let text = serde_json::to_vec_pretty(&after)?;
            try_off_the_runtime(move || state::write_private(&path, &text)).await??;
        }
        let changed_clients = before
            .switches
            .differing(&after)
            .map(str::to_owned)
            .collect();
        self.current.store(Arc::new(Snapshot::new(after)));
        Ok(changed_clients)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mainstay_core::{ids::ServerName, switches::Switch};

    use super::*;

    /// Only the owner can read the file. A later run reads it.
    #[tokio::test]
    async fn a_later_run_finds_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("switches.json");
        let switch = Switch {
            server: ServerName::new("fs").expect("a legal name"),
            tool: None,
        };
        let board = SwitchBoard::open(Some(path.clone()));
        assert!(board.off_for(|| unreachable!("nobody has any")).is_none());
        let changed_clients = board
            .change(|switches| switches.set("one", &switch, false))
            .await
            .expect("written");
        assert_eq!(changed_clients, ["one"]);
        let again = SwitchBoard::open(Some(path.clone()));
        assert_eq!(again.all(), board.all());
        let off = again.off_for(|| "one".into()).expect("switches");
        assert!(off.has_server(&switch.server));
        assert!(again.off_for(|| "two".into()).is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::write(&path, "{").expect("written");
        assert_eq!(
            SwitchBoard::open(Some(path)).all(),
            ClientSwitches::default()
        );
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_not_changed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let board = SwitchBoard::open(Some(folder.path().join("nowhere").join("switches.json")));
        let switch = Switch {
            server: ServerName::new("fs").expect("a legal name"),
            tool: None,
        };
        let changed = board.change(|switches| switches.set("one", &switch, false));
        assert!(changed.await.is_err());
        assert_eq!(board.all(), ClientSwitches::default());
    }
}
