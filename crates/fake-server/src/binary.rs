//! The path of the built program, which cargo provides only to this package's own tests. Other
//! packages look for it in the build folder of cargo that contains their test binary, and build it
//! if it is missing or outdated.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// The path of the program `fake-server` in the caller's profile and target directory. Concurrent
/// builds wait for cargo's lock.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(find).clone()
}

fn find() -> PathBuf {
    let caller = std::env::current_exe().expect("a test knows its own path");
    let mut profile = caller.parent().expect("an executable lies in a directory");
    if profile.ends_with("deps") {
        profile = profile.parent().expect("deps lies in a profile");
    }
    let binary = profile.join(format!("fake-server{}", std::env::consts::EXE_SUFFIX));
    if is_stale(&binary) {
        build(profile);
    }
    binary
}

/// True if the program is older than its sources. Ignores missing sources, as in a moved test
/// archive.
fn is_stale(binary: &Path) -> bool {
    let Some(build_time) = modified(binary) else {
        return true;
    };
    has_newer(&Path::new(PACKAGE).join("src"), build_time)
}

fn has_newer(folder: &Path, build_time: SystemTime) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            has_newer(&path, build_time)
        } else {
            modified(&path).is_some_and(|edit_time| edit_time > build_time)
        }
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn build(profile: &Path) {
    let target = profile
        .parent()
        .expect("a profile lies in a target directory");
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        // Profile `dev` has the directory `debug`.
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "fake-server"])
        .args(["--bin", "fake-server", "--profile", name])
        .arg("--manifest-path")
        .arg(Path::new(PACKAGE).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "building fake-server failed");
}
