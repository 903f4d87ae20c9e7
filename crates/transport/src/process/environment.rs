//! Builds the environment of child processes.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use mainstay_core::config::{InheritEnv, PathOrder, StdioLaunch};

use crate::process::program_folders::{self, User};

pub type Variables = BTreeMap<OsString, OsString>;

/// The time limit for a login shell to print its environment.
const SHELL_TIME_LIMIT: Duration = Duration::from_secs(5);

/// The prefix of Mainstay's own variables. Children do not get them, because they include tokens.
const OURS: &str = "MAINSTAY_";

/// The environment of a child: the inherited variables, the standard folders in PATH, and the entry's own
/// variables. An entry's variable replaces the inherited one, PATH included.
pub fn of_child(launch: &StdioLaunch) -> Variables {
    let mut environment = match launch.inherit_env {
        InheritEnv::Process => env::vars_os().collect(),
        InheritEnv::LoginShell => login_shell().clone(),
        InheritEnv::None => Variables::new(),
    };
    environment.retain(|name, _| !is_ours(name));
    let inherited = environment.get(OsStr::new("PATH")).cloned();
    environment.insert(
        "PATH".into(),
        search_path(inherited.as_deref(), launch.path_order),
    );
    for name in &launch.unset {
        environment.remove(OsStr::new(name));
    }
    for (name, value) in &launch.env {
        environment.insert(name.into(), value.expose().into());
    }
    environment
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(OURS.as_bytes())
}

/// The given PATH with the standard folders, each folder once. In either order, the folders of installers and
/// version managers come after the inherited folders.
pub fn search_path(inherited: Option<&OsStr>, order: PathOrder) -> OsString {
    let inherited_folders = inherited.map(env::split_paths).into_iter().flatten();
    let user = User::current();
    let (system, installed, node) = (
        program_folders::system_folders(),
        user.folders().into_iter(),
        user.node_versions(),
    );
    let all: Vec<PathBuf> = match order {
        PathOrder::InheritedFirst => inherited_folders
            .chain(system)
            .chain(installed)
            .chain(node)
            .collect(),
        PathOrder::StandardFirst => system
            .into_iter()
            .chain(node)
            .chain(inherited_folders)
            .chain(installed)
            .collect(),
    };
    let mut unique = HashSet::new();
    let places = all.iter().filter(|place| unique.insert(*place));
    env::join_paths(places).unwrap_or_else(|_| inherited.unwrap_or_default().to_owned())
}

/// The environment of the user's login shell. It is read once.
fn login_shell() -> &'static Variables {
    static ENVIRONMENT: OnceLock<Variables> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        ask_login_shell().unwrap_or_else(|error| {
            tracing::warn!(%error, "the login shell's environment could not be read; using our own");
            env::vars_os().collect()
        })
    })
}

fn ask_login_shell() -> std::io::Result<Variables> {
    let shell = env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let mut command = Command::new(shell);
    for (name, _) in env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    let mut child = command
        .args(["-l", "-c", "env -0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut text).map(|_| text)
    });
    let deadline = Instant::now() + SHELL_TIME_LIMIT;
    while !reader.is_finished() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Kill a shell that hangs. This ends the reader, too.
    child.kill().ok();
    child.wait()?;
    let text = reader.join().map_err(|_| std::io::ErrorKind::Other)??;
    Ok(parse(&text))
}

fn parse(text: &[u8]) -> Variables {
    text.split(|byte| *byte == 0)
        .filter_map(|entry| {
            let entry = String::from_utf8_lossy(entry);
            entry
                .split_once('=')
                .map(|(name, value)| (name.into(), value.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_inherited_path_comes_first() {
        let path = search_path(
            Some(OsStr::new("/venv/bin:/usr/bin")),
            PathOrder::InheritedFirst,
        );
        let places: Vec<_> = env::split_paths(&path).collect();
        assert_eq!(
            places[..2],
            [PathBuf::from("/venv/bin"), PathBuf::from("/usr/bin")]
        );
        assert!(places.contains(&PathBuf::from("/usr/local/bin")));
        assert_eq!(
            places
                .iter()
                .filter(|place| **place == Path::new("/usr/bin"))
                .count(),
            1
        );
    }

    /// The preset `desktop` puts the standard folders first.
    #[test]
    fn under_desktop_the_standard_places_come_first() {
        let path = search_path(
            Some(OsStr::new("/venv/bin:/usr/bin")),
            PathOrder::StandardFirst,
        );
        let places: Vec<_> = env::split_paths(&path).collect();
        let at = |folder: &str| {
            let mut found = places
                .iter()
                .enumerate()
                .filter(|(_, place)| *place == Path::new(folder));
            let (index, _) = found.next().unwrap_or_else(|| panic!("no {folder}"));
            assert!(found.next().is_none(), "{folder} comes once");
            index
        };
        assert_eq!((at("/usr/local/bin"), at("/usr/bin")), (0, 1));
        assert!(at("/venv/bin") > at("/opt/homebrew/bin"), "{places:?}");
    }

    #[test]
    fn a_shells_environment_is_read_with_its_line_breaks() {
        let environment = parse(b"A=1\0B=x=y\nz\0\0");
        assert_eq!(
            environment.get(OsStr::new("B")),
            Some(&OsString::from("x=y\nz"))
        );
        assert_eq!(environment.len(), 2);
    }
}
