//! `mainstay man`: a manual page for every command.

use std::{collections::BTreeSet, fs};

use clap::{Command, CommandFactory as _};
use insta::assert_snapshot;
use mainstay::cli::Cli;
use mainstay_testkit::home;

use crate::installed::is_installed;

/// Collects the names of the pages of all visible commands.
fn collect_pages(command: &Command, name: &str, names: &mut BTreeSet<String>) {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        collect_pages(
            subcommand,
            &format!("{name}-{}", subcommand.get_name()),
            names,
        );
    }
    names.insert(format!("{name}.1"));
}

#[tokio::test]
async fn every_command_has_a_page() {
    let home = home!();
    let dir = home.path().join("man1");
    let dir = dir.to_str().expect("UTF-8");
    let run = home.run(&["man", "--dir", dir]).await;
    let mut expected = BTreeSet::new();
    collect_pages(&Cli::command(), "mainstay", &mut expected);
    let expected_output = format!("{} pages written to {dir}\n", expected.len());
    assert_eq!(
        (&*run.stdout, run.code),
        (&*expected_output, Some(0)),
        "{run}"
    );
    let files = fs::read_dir(dir).expect("there");
    let files: BTreeSet<String> = files
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert_eq!(files, expected);
    for file in &files {
        let page = fs::read_to_string(format!("{dir}/{file}")).expect("UTF-8");
        assert!(page.contains(".TH mainstay"), "{file}: {page}");
        assert!(!page.contains('\u{1b}'), "{file}: {page}");
        assert!(page.contains(".SH DESCRIPTION"), "{file}: {page}");
        assert!(!page.contains("\nExamples:\n"), "{file}: {page}");
    }
    let json = home.run(&["man", "--dir", dir, "--json"]).await.json();
    assert_eq!(json["pages"].as_array().map(Vec::len), Some(expected.len()));
    let first = home.run(&["man"]).await.stdout;
    assert_eq!(
        first,
        fs::read_to_string(format!("{dir}/mainstay.1")).expect("there")
    );
}

/// groff formats every page without warnings, and no markup remains.
#[tokio::test]
async fn groff_shows_the_pages() {
    if !is_installed("groff") {
        return;
    }
    let home = home!();
    let dir = home.path().join("man1");
    home.run(&["man", "--dir", dir.to_str().expect("UTF-8")])
        .await;
    for page in fs::read_dir(&dir).expect("there").flatten() {
        let groff_output = std::process::Command::new("groff")
            .args(["-k", "-man", "-Tutf8", "-ww", "-P-cbou"])
            .arg(page.path())
            .output()
            .expect("it starts");
        let (text, warnings) = (
            String::from_utf8_lossy(&groff_output.stdout),
            String::from_utf8_lossy(&groff_output.stderr),
        );
        let name = page.file_name();
        assert_eq!(warnings, "", "{name:?}");
        assert!(
            !text.contains("\\f") && !text.contains('\u{1b}'),
            "{name:?}: {text}"
        );
        if name == "mainstay-config.1" {
            assert_snapshot!("config_as_groff_shows_it", text);
        }
    }
}
