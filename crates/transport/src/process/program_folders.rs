//! Folders of programs that are added to PATH.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The maximum length of a chain of nvm aliases.
const MAX_ALIASES: usize = 5;

/// The maximum size of an nvm alias file, in bytes.
const MAX_ALIAS: u64 = 1024;

/// The sources of a user's program folders: the environment and the home folder.
pub struct User<'a> {
    /// Reads a variable of the environment.
    pub var: &'a dyn Fn(&str) -> Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl User<'_> {
    /// The user of this process.
    pub fn current() -> User<'static> {
        User {
            var: &|name| env::var_os(name).map(PathBuf::from),
            home: env::home_dir(),
        }
    }

    /// The folder that a variable names. A relative folder is ignored, because it would depend on the folder
    /// in which Mainstay was started.
    fn named(&self, variable: &str) -> Option<PathBuf> {
        (self.var)(variable).filter(|path| path.is_absolute())
    }

    fn at_home(&self, below: &str) -> Option<PathBuf> {
        let home = self.home.as_deref().filter(|home| home.is_absolute())?;
        Some(home.join(below))
    }

    /// The folder that a variable names, or else the folder `below` in the home folder.
    fn named_or_at_home(&self, variable: &str, below: &str) -> Option<PathBuf> {
        self.named(variable).or_else(|| self.at_home(below))
    }

    fn data(&self, below: &str) -> Option<PathBuf> {
        let data = self.named_or_at_home("XDG_DATA_HOME", ".local/share")?;
        Some(data.join(below))
    }

    /// The folders of installers and version managers. Missing folders are omitted, so that PATH stays short.
    /// Each start builds the list again.
    pub fn folders(&self) -> Vec<PathBuf> {
        let below = |folder: Option<PathBuf>, below: &str| Some(folder?.join(below));
        let mise = self.named("MISE_DATA_DIR").or_else(|| self.data("mise"));
        let pnpm = self.named("PNPM_HOME").or_else(|| self.data("pnpm"));
        let pyenv = self.named_or_at_home("PYENV_ROOT", ".pyenv");
        let profile = self.named_or_at_home("XDG_STATE_HOME", ".local/state");
        let mut places = vec![
            self.at_home(".local/bin"),
            below(self.named_or_at_home("CARGO_HOME", ".cargo"), "bin"),
            below(self.named_or_at_home("BUN_INSTALL", ".bun"), "bin"),
            below(self.named_or_at_home("DENO_INSTALL", ".deno"), "bin"),
            below(self.named_or_at_home("VOLTA_HOME", ".volta"), "bin"),
            below(mise, "shims"),
            below(self.named_or_at_home("ASDF_DATA_DIR", ".asdf"), "shims"),
            below(pyenv.clone(), "shims"),
            below(pyenv, "bin"),
            below(pnpm.clone(), "bin"),
            pnpm,
            self.at_home("Library/pnpm"),
        ];
        places.extend(
            self.fnm_folders()
                .map(|fnm| Some(fnm.join("aliases/default/bin"))),
        );
        places.extend(self.nvm_folders().map(|nvm| nvm_default(&nvm)));
        places.extend([
            self.at_home(".nix-profile/bin"),
            below(profile, "nix/profile/bin"),
            below(
                (self.var)("USER").map(|user| Path::new("/etc/profiles/per-user").join(user)),
                "bin",
            ),
            Some("/nix/var/nix/profiles/default/bin".into()),
            Some("/run/current-system/sw/bin".into()),
        ]);
        let existing = places.into_iter().flatten().filter(|place| place.is_dir());
        existing.collect()
    }

    /// The versions of Node that nvm and fnm have installed, newest first.
    pub fn node_versions(&self) -> Vec<PathBuf> {
        let nvm = self.nvm_folders();
        let nvm = nvm.flat_map(|nvm| versions(&nvm.join("versions/node"), "bin"));
        let fnm = self.fnm_folders();
        let fnm = fnm.flat_map(|fnm| versions(&fnm.join("node-versions"), "installation/bin"));
        nvm.chain(fnm).map(|(_, place)| place).collect()
    }

    fn nvm_folders(&self) -> impl Iterator<Item = PathBuf> {
        let folders = [
            self.named("NVM_DIR"),
            self.at_home(".nvm"),
            self.at_home(".config/nvm"),
        ];
        folders.into_iter().flatten()
    }

    fn fnm_folders(&self) -> impl Iterator<Item = PathBuf> {
        let folders = [
            self.named("FNM_DIR"),
            self.data("fnm"),
            self.at_home(".fnm"),
            self.at_home("Library/Application Support/fnm"),
        ];
        folders.into_iter().flatten()
    }
}

/// The folders of the system. They may not exist.
pub fn system_folders() -> Vec<PathBuf> {
    if cfg!(windows) {
        let npm = env::var_os("APPDATA").map(|data| PathBuf::from(data).join("npm"));
        return npm
            .into_iter()
            .chain([r"C:\Program Files\nodejs".into()])
            .collect();
    }
    [
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/opt/homebrew/bin",
        "/home/linuxbrew/.linuxbrew/bin",
    ]
    .map(PathBuf::from)
    .into()
}

/// The program folder of the Node version in nvm's `default`. The alias names a version, the beginning of a
/// version, another alias, or `node` for the newest version.
fn nvm_default(nvm: &Path) -> Option<PathBuf> {
    let installed = versions(&nvm.join("versions/node"), "bin");
    let mut name = "default".to_owned();
    for _ in 0..MAX_ALIASES {
        let path = nvm.join("alias").join(&name);
        let Some(alias) = alias(&path) else { break };
        name = alias;
    }
    if matches!(name.as_str(), "node" | "stable") {
        return installed.into_iter().next().map(|(_, place)| place);
    }
    let is_version = name.starts_with(|c: char| c == 'v' || c.is_ascii_digit());
    let prefix = numbers(&name);
    let found = installed
        .into_iter()
        .find(|(version, _)| is_version && version.starts_with(&prefix));
    found.map(|(_, place)| place)
}

/// The name or version that an nvm alias stands for. Paths outside of the folder of aliases are ignored.
fn alias(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    if !file.is_file() || file.len() > MAX_ALIAS {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let name = text.trim();
    let is_name = !name.is_empty() && !name.starts_with('/') && !name.contains("..");
    is_name.then(|| name.to_owned())
}

/// The folders `folder/*/below`, newest version first. Versions are compared as numbers: 22.17 comes before
/// 20.10.
fn versions(folder: &Path, below: &str) -> Vec<(Vec<u64>, PathBuf)> {
    // A folder that cannot be read counts as empty.
    let mut found: Vec<(Vec<u64>, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| {
            (
                numbers(&entry.file_name().to_string_lossy()),
                entry.path().join(below),
            )
        })
        .filter(|(_, path)| path.is_dir())
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

fn numbers(version: &str) -> Vec<u64> {
    version
        .trim_start_matches('v')
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    struct World {
        home: tempfile::TempDir,
        vars: Vec<(&'static str, &'static str)>,
    }

    impl World {
        /// Creates a home folder with these folders.
        fn with(folders: &[&str]) -> Self {
            let home = tempfile::tempdir().expect("a temporary folder");
            for folder in folders {
                fs::create_dir_all(home.path().join(folder)).expect("made");
            }
            let vars = Vec::new();
            Self { home, vars }
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.home.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }

        /// The program folders and the versions of Node, relative to the home folder.
        fn find(&self) -> [Vec<String>; 2] {
            let var = |name: &str| {
                let var = self.vars.iter().find(|(variable, _)| *variable == name)?;
                Some(match var.1.strip_prefix("~/") {
                    Some(below) => self.home.path().join(below),
                    None => var.1.into(),
                })
            };
            let user = User {
                var: &var,
                home: Some(self.home.path().to_owned()),
            };
            [user.folders(), user.node_versions()].map(|places| {
                let below = places
                    .iter()
                    .filter_map(|place| place.strip_prefix(self.home.path()).ok());
                below
                    .map(|place| place.to_str().expect("UTF-8").to_owned())
                    .collect()
            })
        }

        fn places(&self) -> Vec<String> {
            let [places, _] = self.find();
            places
        }
    }

    /// Versions are compared as numbers, newest first.
    #[test]
    fn node_versions_compare_as_numbers() {
        let world = World::with(&[
            ".nvm/versions/node/v20.10.0/bin",
            ".nvm/versions/node/v22.17.0/bin",
            ".nvm/versions/node/v9.1.0/bin",
            ".local/share/fnm/node-versions/v24.0.0/installation/bin",
        ]);
        assert_eq!(
            world.find()[1],
            [
                ".nvm/versions/node/v22.17.0/bin",
                ".nvm/versions/node/v20.10.0/bin",
                ".nvm/versions/node/v9.1.0/bin",
                ".local/share/fnm/node-versions/v24.0.0/installation/bin",
            ]
        );
    }

    #[test]
    fn installers_and_version_managers_have_their_usual_folders() {
        let usual = [
            ".local/bin",
            ".cargo/bin",
            ".bun/bin",
            ".deno/bin",
            ".volta/bin",
            ".local/share/mise/shims",
            ".asdf/shims",
            ".pyenv/shims",
            ".pyenv/bin",
            ".local/share/pnpm",
            ".local/share/fnm/aliases/default/bin",
            ".nix-profile/bin",
            ".local/state/nix/profile/bin",
        ];
        assert_eq!(World::with(&usual).places(), usual);
        assert!(World::with(&[]).places().is_empty());
    }

    #[test]
    fn variables_move_the_folders() {
        let mut world = World::with(&[
            ".bun/bin",
            "opt/bun/bin",
            ".local/share/mise/shims",
            "data/mise/shims",
            ".volta/bin",
        ]);
        world.vars = vec![
            ("BUN_INSTALL", "~/opt/bun"),
            ("XDG_DATA_HOME", "~/data"),
            ("VOLTA_HOME", "relative"),
        ];
        assert_eq!(
            world.places(),
            ["opt/bun/bin", ".volta/bin", "data/mise/shims"]
        );
    }

    #[test]
    fn nvms_default_is_found_by_its_alias() {
        let found = |aliases: &[(&str, &str)]| {
            let world = World::with(&[
                ".nvm/versions/node/v20.10.0/bin",
                ".nvm/versions/node/v20.9.0/bin",
                ".nvm/versions/node/v22.17.0/bin",
            ]);
            for (alias, text) in aliases {
                world.file(&format!(".nvm/alias/{alias}"), text);
            }
            world.file("secret", "v22.17.0");
            world.places()
        };
        let v20 = [".nvm/versions/node/v20.10.0/bin"];
        assert_eq!(found(&[("default", "20\n")]), v20);
        assert_eq!(found(&[("default", "v20.10.0")]), v20);
        assert_eq!(
            found(&[
                ("default", "lts/*"),
                ("lts/*", "lts/iron"),
                ("lts/iron", "v20.10.0"),
            ]),
            v20
        );
        assert_eq!(
            found(&[("default", "node")]),
            [".nvm/versions/node/v22.17.0/bin"]
        );
        for aliases in [
            &[][..],
            &[("default", "system")],
            &[("default", "18")],
            &[("default", "default")],
            &[("default", "../../secret")],
        ] {
            assert_eq!(found(aliases), [""; 0], "{aliases:?}");
        }
    }
}
