//! Decides whether the entries of a bundle may be unpacked, and to which paths.

use std::collections::{HashMap, HashSet};

use crate::{
    system::System,
    zip::{Entry, Method},
};

/// The name of the manifest in a bundle.
pub const MANIFEST: &str = "manifest.json";

/// The maximum number of entries in a bundle. `node_modules` of a large server has ten thousand entries.
pub const MAX_ENTRIES: usize = 20_000;

/// The maximum unpacked size of a bundle, in bytes. Python bundles contain whole environments.
pub const MAX_TOTAL: u64 = 1024 * 1024 * 1024;

/// The maximum number of unpacked bytes of a file for each byte in the bundle. Source code reaches 20. The
/// limit of deflate is 1032.
const MAX_RATIO: u64 = 200;

/// The size, in bytes, up to which a file may have any ratio, because empty tables compress well.
const ANY_RATIO: u64 = 1024 * 1024;

/// The maximum length of an entry's path, in bytes.
const MAX_PATH: usize = 512;

/// The maximum number of nested folders.
const MAX_DEPTH: usize = 40;

/// Bits of a Unix mode: the mask of the file type, the file types, and the permissions to execute.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const EXECUTABLE: u32 = 0o111;

/// The reason that a bundle is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleRefusal {
    #[error("it has {0} entries, more than {MAX_ENTRIES}")]
    TooMany(usize),
    #[error("it would unpack to more than {} MiB", MAX_TOTAL / 1024 / 1024)]
    TooLarge,
    #[error("{0:?} would unpack to {1} times its size, as in a ZIP bomb")]
    Bomb(String, u64),
    #[error("its entries overlap, as in a ZIP bomb")]
    Overlap,
    #[error("the path {0:?} leads out of the bundle")]
    Traversal(String),
    #[error("the path {0:?} is absolute")]
    Absolute(String),
    #[error("the path {0:?} cannot be used: {1}")]
    Path(String, &'static str),
    #[error("{0:?} stands in it twice")]
    Twice(String),
    #[error("{0:?} is a file and a folder")]
    FileAndFolder(String),
    #[error("{0:?} is a symbolic link")]
    Link(String),
    #[error("{0:?} is a device or another special file")]
    Special(String),
    #[error("{0:?} is encrypted")]
    Encrypted(String),
    #[error("{0:?} is compressed by method {1}; only stored and deflated files are read")]
    Method(String, u16),
    #[error("it has no {MANIFEST} at its top")]
    NoManifest,
}

/// The files and folders to unpack, in the order of the ZIP directory.
#[derive(Debug, PartialEq, Eq)]
pub struct UnpackPlan {
    pub files: Vec<PlannedFile>,
    /// Folders that are entries of the bundle.
    pub folders: Vec<Vec<String>>,
    /// Bytes of all files.
    pub total: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// The entry's index in the directory.
    pub index: usize,
    /// The components of its path. Each is a plain name.
    pub path: Vec<String>,
    pub executable: bool,
}

/// Checks all entries before the first byte is written.
pub fn plan(
    entries: &[Entry],
    overlaps: bool,
    system: System,
) -> Result<UnpackPlan, BundleRefusal> {
    if entries.len() > MAX_ENTRIES {
        return Err(BundleRefusal::TooMany(entries.len()));
    }
    if overlaps {
        return Err(BundleRefusal::Overlap);
    }
    let mut plan = UnpackPlan {
        files: Vec::new(),
        folders: Vec::new(),
        total: 0,
    };
    let mut kinds: HashMap<String, bool> = HashMap::new();
    let mut parents = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = parts(&entry.name, system)?;
        check(entry)?;
        plan.total = plan.total.saturating_add(entry.size);
        if plan.total > MAX_TOTAL {
            return Err(BundleRefusal::TooLarge);
        }
        let folded = path.iter().map(|part| system.folded(part));
        let folded: Vec<_> = folded.collect();
        for end in 1..folded.len() {
            parents.insert(folded[..end].join("/"));
        }
        let key = folded.join("/");
        if kinds.insert(key, entry.is_folder()).is_some() {
            return Err(BundleRefusal::Twice(entry.name.clone()));
        }
        if entry.is_folder() {
            plan.folders.push(path);
        } else {
            plan.files.push(PlannedFile {
                index,
                path,
                executable: entry.mode.is_some_and(|mode| mode & EXECUTABLE != 0),
            });
        }
    }
    let crossed = kinds
        .iter()
        .find(|(path, is_folder)| !**is_folder && parents.contains(*path));
    if let Some((path, _)) = crossed {
        return Err(BundleRefusal::FileAndFolder(path.clone()));
    }
    if !plan.files.iter().any(|file| file.path == [MANIFEST]) {
        return Err(BundleRefusal::NoManifest);
    }
    Ok(plan)
}

/// Checks an entry, except for its path.
fn check(entry: &Entry) -> Result<(), BundleRefusal> {
    let name = || entry.name.clone();
    if entry.encrypted {
        return Err(BundleRefusal::Encrypted(name()));
    }
    if let Method::Other(method) = entry.method {
        return Err(BundleRefusal::Method(name(), method));
    }
    match entry.mode.map_or(0, |mode| mode & KIND) {
        0 | REGULAR | FOLDER => {}
        LINK => return Err(BundleRefusal::Link(name())),
        _ => return Err(BundleRefusal::Special(name())),
    }
    if entry.size > ANY_RATIO && entry.size / entry.packed.max(1) > MAX_RATIO {
        return Err(BundleRefusal::Bomb(
            name(),
            entry.size / entry.packed.max(1),
        ));
    }
    Ok(())
}

/// The components of a path. Each is a plain name.
fn parts(name: &str, system: System) -> Result<Vec<String>, BundleRefusal> {
    let refuse = |reason| Err(BundleRefusal::Path(name.to_owned(), reason));
    if name.len() > MAX_PATH {
        return refuse("it is too long");
    }
    if name.contains('\\') {
        return refuse("it has a backslash");
    }
    if name.starts_with('/') || name.as_bytes().get(1) == Some(&b':') {
        return Err(BundleRefusal::Absolute(name.to_owned()));
    }
    let path = name.strip_suffix('/').unwrap_or(name);
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => return Err(BundleRefusal::Traversal(name.to_owned())),
            "" | "." => return refuse("a part of it is empty"),
            _ if part.chars().any(char::is_control) => return refuse("it has a control character"),
            _ if system != System::Windows => parts.push(part.to_owned()),
            _ if part.contains([':', '<', '>', '"', '|', '?', '*']) => {
                return refuse("it has a character that no file's name has on Windows");
            }
            _ if part.ends_with(['.', ' ']) => {
                return refuse("a part of it ends with a dot or a blank");
            }
            _ if is_device(part) => return refuse("it names a device of Windows"),
            _ => parts.push(part.to_owned()),
        }
    }
    if parts.len() > MAX_DEPTH {
        return refuse("it is too deep");
    }
    Ok(parts)
}

/// True for names that Windows reserves for devices, with any extension.
fn is_device(part: &str) -> bool {
    let stem = part
        .split('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let numbered = |name: &str| {
        let digit = stem.strip_prefix(name).map(str::as_bytes);
        matches!(digit, Some([b'1'..=b'9']))
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(names: &[&str]) -> Result<UnpackPlan, BundleRefusal> {
        let all_names = names.iter().chain(&[MANIFEST]);
        let entries: Vec<_> = all_names
            .map(|name| Entry::named(name, 10, 5, None))
            .collect();
        plan(&entries, false, System::Windows)
    }

    #[test]
    fn good_entries_are_planned() {
        let entries = [
            Entry::named(MANIFEST, 10, 5, Some(0o100_644)),
            Entry::named("server/", 0, 0, Some(0o040_755)),
            Entry::named("server/run", 10, 5, Some(0o100_755)),
            Entry::named("server/ünï.js", 10, 5, None),
        ];
        let plan = plan(&entries, false, System::Linux).expect("good");
        assert_eq!(plan.total, 30);
        assert_eq!(plan.folders, [["server"]]);
        let files: Vec<_> = plan
            .files
            .iter()
            .map(|file| (file.path.join("/"), file.executable))
            .collect();
        assert_eq!(
            files,
            [
                (MANIFEST.to_owned(), false),
                ("server/run".to_owned(), true),
                ("server/ünï.js".to_owned(), false)
            ]
        );
    }

    #[test]
    fn paths_that_leave_the_bundle_are_refused() {
        let out = |name: &str| planned(&[name]).expect_err(name);
        for name in ["../x", "a/../../x", "a/..", ".."] {
            assert_eq!(
                out(name),
                BundleRefusal::Traversal(name.to_owned()),
                "{name}"
            );
        }
        for name in ["/etc/passwd", "C:/x", "c:x"] {
            assert_eq!(
                out(name),
                BundleRefusal::Absolute(name.to_owned()),
                "{name}"
            );
        }
        for name in [
            "..\\x",
            "a//b",
            "./a",
            "a/./b",
            "a\0b",
            "a\u{1b}[2Jb",
            "x:stream",
            "NUL",
            "con.txt",
            "com1",
            "a.",
            "a ",
            "",
            "/",
        ] {
            let refused = out(name);
            assert!(
                matches!(
                    refused,
                    BundleRefusal::Path(..) | BundleRefusal::Absolute(_)
                ),
                "{name:?}: {refused}"
            );
        }
        assert!(matches!(out(&"a/".repeat(60)), BundleRefusal::Path(..)));
        assert!(matches!(out(&"a".repeat(600)), BundleRefusal::Path(..)));
    }

    #[test]
    fn names_stand_once() {
        for names in [&["a", "a"][..], &["A/b", "a/B"], &["a", "a/"]] {
            assert!(
                matches!(planned(names), Err(BundleRefusal::Twice(_))),
                "{names:?}"
            );
        }
        for names in [&["a", "a/b"][..], &["A/b", "a"]] {
            let refused = planned(names).expect_err("crossed");
            assert!(
                matches!(refused, BundleRefusal::FileAndFolder(_)),
                "{names:?}: {refused}"
            );
        }
    }

    /// `node_modules` that was made on Linux may contain such names.
    #[test]
    fn names_of_linux_are_good_on_linux() {
        let names = ["README", "readme", "aux.js", "a to:b", "what?", MANIFEST];
        let entries = names.map(|name| Entry::named(name, 10, 5, None));
        assert!(plan(&entries, false, System::Linux).is_ok());
        assert!(plan(&entries, false, System::Mac).is_err());
        let twice = [MANIFEST, MANIFEST].map(|name| Entry::named(name, 10, 5, None));
        assert_eq!(
            plan(&twice, false, System::Linux),
            Err(BundleRefusal::Twice(MANIFEST.to_owned()))
        );
    }

    #[test]
    fn special_files_are_refused() {
        for (mode, expected) in [
            (0o120_777, BundleRefusal::Link("x".to_owned())),
            (0o020_666, BundleRefusal::Special("x".to_owned())),
            (0o060_666, BundleRefusal::Special("x".to_owned())),
            (0o010_666, BundleRefusal::Special("x".to_owned())),
            (0o140_666, BundleRefusal::Special("x".to_owned())),
        ] {
            let entries = [Entry::named("x", 10, 5, Some(mode))];
            assert_eq!(
                plan(&entries, false, System::Linux),
                Err(expected),
                "{mode:o}"
            );
        }
        let mut encrypted = Entry::named("x", 10, 5, None);
        encrypted.encrypted = true;
        assert_eq!(
            plan(&[encrypted], false, System::Linux),
            Err(BundleRefusal::Encrypted("x".to_owned()))
        );
        let mut other = Entry::named("x", 10, 5, None);
        other.method = Method::Other(12);
        assert_eq!(
            plan(&[other], false, System::Linux),
            Err(BundleRefusal::Method("x".to_owned(), 12))
        );
    }

    #[test]
    fn bombs_are_refused() {
        const MIB: u64 = 1024 * 1024;
        let one = |size, packed| {
            plan(
                &[Entry::named("x", size, packed, None)],
                false,
                System::Linux,
            )
        };
        assert_eq!(
            one(500 * MIB, MIB),
            Err(BundleRefusal::Bomb("x".to_owned(), 500))
        );
        assert_eq!(one(MAX_TOTAL + 1, MAX_TOTAL), Err(BundleRefusal::TooLarge));
        // Small files may have any ratio.
        assert_eq!(one(MIB, 10), Err(BundleRefusal::NoManifest));
        let many: Vec<_> = (0..=MAX_ENTRIES)
            .map(|number| Entry::named(&number.to_string(), 0, 0, None))
            .collect();
        assert_eq!(
            plan(&many, false, System::Linux),
            Err(BundleRefusal::TooMany(MAX_ENTRIES + 1))
        );
        let halves =
            ["x", "y", "z"].map(|name| Entry::named(name, MAX_TOTAL / 2, MAX_TOTAL / 2, None));
        assert_eq!(
            plan(&halves, false, System::Linux),
            Err(BundleRefusal::TooLarge)
        );
        assert_eq!(plan(&[], true, System::Linux), Err(BundleRefusal::Overlap));
    }
}
