//! Tests which build of the page a program embeds.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, SystemTime},
};

#[path = "../page_build.rs"]
mod page_build;

use page_build::PageBuild;

/// Writes a file, and sets its modification time to this number of seconds after the epoch.
fn write(ui: &Path, name: &str, seconds: u64) {
    let path = ui.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    let file = File::create(path).expect("created");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_modified(modified).expect("modified");
}

/// A clone: sources, and the build of the last release.
fn cloned_ui() -> tempfile::TempDir {
    let ui = tempfile::tempdir().expect("a folder");
    write(ui.path(), "build/README.md", 10);
    write(ui.path(), "dist/index.html", 10);
    write(ui.path(), "src/lib/clock.ts", 20);
    write(ui.path(), "index.html", 20);
    ui
}

#[test]
fn a_clone_embeds_the_page_of_the_last_release() {
    let ui = cloned_ui();
    let found = PageBuild::find(ui.path()).expect("found");
    assert_eq!(found.folder, ui.path().join("dist"));
    assert_eq!(found.newer_source, None);
    assert!(found.watched.iter().all(|path| path.exists()), "{found:?}");
    assert!(found.watched.contains(&ui.path().join("build")));

    // An interrupted build has no index.
    write(ui.path(), "build/page/favicon.svg", 30);
    let found = PageBuild::find(ui.path()).expect("found");
    assert_eq!(found.folder, ui.path().join("dist"));
}

#[test]
fn a_fresh_build_goes_before_the_page_of_the_last_release() {
    let ui = cloned_ui();
    write(ui.path(), "build/page/index.html", 30);
    // Neither packages nor builds are sources.
    write(ui.path(), "node_modules/svelte/package.json", 40);
    write(ui.path(), "dist/index.html", 40);
    let found = PageBuild::find(ui.path()).expect("found");
    assert_eq!(found.folder, ui.path().join("build/page"));
    assert_eq!(found.newer_source, None);
    let watched = ["build", "dist", "index.html", "src"].map(|name| ui.path().join(name));
    assert_eq!(found.watched, watched);
}

#[test]
fn a_source_that_is_newer_than_the_fresh_build_is_reported() {
    for source in [
        "src/lib/clock.ts",
        "src/new/Screen.svelte",
        "package-lock.json",
    ] {
        let ui = cloned_ui();
        write(ui.path(), "build/page/index.html", 30);
        write(ui.path(), source, 31);
        let found = PageBuild::find(ui.path()).expect("found");
        assert_eq!(found.folder, ui.path().join("build/page"));
        assert_eq!(found.newer_source, Some(ui.path().join(source)));
    }
}
