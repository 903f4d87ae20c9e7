//! A corpus of clients' files, written according to the clients' documentation. Reading must report
//! everything that it does not translate, and edits must change only servers.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use mainstay_client_files::{
    ClientFile, ClientKind, EditError, EntryChange, FoundServer, KeyFate, Machine, OwnEntry,
    System, apply, entry_for, files_of, meaning, point_at_mainstay, remove_mainstay, servers,
    value,
};
use serde_json::{Map, Value};

struct Case {
    name: String,
    file: ClientFile,
    text: String,
}

/// The files in `unknown`, with paths that no known client uses.
const ELSEWHERE: [(&str, &str); 3] = [
    ("5ire", "/home/me/.config/5ire/mcp.json"),
    ("docker", "/home/me/.docker/mcp.json"),
    ("visual-studio", "/home/me/app/.vs/mcp.json"),
];

/// All files, each at the path that its client uses. A file named `project-…` is in a project, and
/// `settings-…` is a settings.json.
fn corpus() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let machine = Machine::new(System::Linux, "/home/me").with_project(Some("/home/me/app".into()));
    let mut cases = Vec::new();
    for client in ClientKind::ALL {
        let folder = fs::read_dir(root.join(client.id())).expect("a folder for each client");
        let mut paths: Vec<PathBuf> = folder
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        for path in paths {
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .expect("a name");
            let ending = path.extension().expect("an ending");
            let is_of_project = stem.starts_with("project-");
            let wants_settings = stem.starts_with("settings-");
            let file = files_of(client, &machine).into_iter().find(|file| {
                let of_project = file.project().is_some();
                let in_settings =
                    file.path.ends_with("settings.json") && client == ClientKind::VsCode;
                of_project == is_of_project
                    && in_settings == wants_settings
                    && (file.path.extension() == Some(ending) || file.path.extension().is_none())
            });
            cases.push(Case {
                name: format!("{}/{stem}", client.id()),
                file: file.unwrap_or_else(|| panic!("a place for {}", path.display())),
                text: fs::read_to_string(&path).expect("a text"),
            });
        }
    }
    for (stem, place) in ELSEWHERE {
        let path = root.join("unknown").join(stem).with_extension("json");
        let text = fs::read_to_string(&path).expect("a text");
        let file = ClientFile::recognize(Path::new(place), &text, &machine);
        cases.push(Case {
            name: format!("unknown/{stem}"),
            file: file.unwrap_or_else(|| panic!("a client for {place}")),
            text,
        });
    }
    assert!(cases.len() >= 130, "{} files", cases.len());
    cases
}

/// The entry of a server in the file, found without the tested code.
fn raw<'v>(whole: &'v Value, server: &FoundServer) -> &'v Value {
    let section = server
        .section
        .keys
        .iter()
        .fold(whole, |value, key| &value[key]);
    match section {
        Value::Array(elements) => {
            let is_named =
                |element: &&Value| element["name"].as_str().unwrap_or_default() == server.label;
            elements.iter().find(is_named).expect("an element")
        }
        section => &section[&server.label],
    }
}

fn summary(case: &Case) -> String {
    let mut text = String::new();
    let found = match servers(&case.file, &case.text) {
        Ok(found) => found,
        Err(error) => return format!("  cannot be read: {error}\n"),
    };
    for server in &found {
        let project = server
            .project()
            .map(|folder| format!(" (project {})", folder.display()));
        writeln!(
            text,
            "  {:?} as {}{}",
            server.label,
            server.name,
            project.unwrap_or_default()
        )
        .expect("a text");
        match &server.left_out {
            Some(reason) => writeln!(text, "    left out: {reason}").expect("a text"),
            None => writeln!(text, "    {}", Value::Object(server.entry.clone())).expect("a text"),
        }
        for note in server.notes.iter().filter(|note| !note.text.is_empty()) {
            writeln!(text, "    {:?} {}: {}", note.fate, note.key, note.text).expect("a text");
        }
    }
    text
}

/// The servers of every file, with all notes.
#[test]
fn the_notes_of_every_file() {
    let mut text = String::new();
    for case in corpus() {
        write!(text, "{}\n{}", case.name, summary(&case)).expect("a text");
    }
    insta::assert_snapshot!(text);
}

/// Every key of every entry is honoured, kept or reported.
#[test]
fn no_key_is_dropped_in_silence() {
    let mut entries = 0;
    for case in corpus() {
        let Ok(found) = servers(&case.file, &case.text) else {
            continue;
        };
        let whole = value(case.file.format, &case.text).expect("it was read");
        for server in &found {
            let Value::Object(members) = raw(&whole, server) else {
                assert!(server.left_out.is_some(), "{}: {}", case.name, server.label);
                continue;
            };
            entries += 1;
            check_keys(&case.name, server, members);
        }
    }
    assert!(entries > 90, "{entries} entries");
}

fn check_keys(case: &str, server: &FoundServer, members: &Map<String, Value>) {
    let client_part = server.entry.get(&format!("_{}", server.client.id()));
    for (key, value) in members {
        let inner = format!("{key}.");
        let notes: Vec<_> = server
            .notes
            .iter()
            .filter(|note| note.key == *key || note.key.starts_with(&inner))
            .collect();
        assert!(!notes.is_empty(), "{case}: {}: {key} is lost", server.label);
        let is_kept = notes.iter().any(|note| note.fate == KeyFate::Kept);
        if is_kept && server.left_out.is_none() {
            assert_eq!(
                client_part.and_then(|client_part| client_part.get(key)),
                Some(value),
                "{case}: {key}"
            );
        }
        for note in notes.iter().filter(|note| note.fate.is_reported()) {
            assert!(
                !note.text.is_empty(),
                "{case}: {key} is reported without a word"
            );
        }
    }
    // Notes must not contain secrets of the corpus.
    for secret in ["ghp_0123456789abcdef", "me:secret", "hf_x"] {
        assert!(
            server.notes.iter().all(|note| !note.text.contains(secret)),
            "{case}"
        );
    }
}

/// A server is imported, exported to its own client, and imported again. It keeps its meaning, or the
/// export reports what the client does not support.
#[test]
fn what_is_imported_can_be_exported_and_imported_again() {
    let mut same = 0;
    for case in corpus() {
        let Ok(found) = servers(&case.file, &case.text) else {
            continue;
        };
        for server in found.iter().filter(|server| server.left_out.is_none()) {
            let client = case.file.client;
            let written = entry_for(client, &server.label, &server.entry, &server.section);
            let Some(entry) = written.entry else {
                assert!(
                    !written.notes.is_empty(),
                    "{}: {} is gone",
                    case.name,
                    server.label
                );
                continue;
            };
            let change = EntryChange::Put {
                section: server.section.clone(),
                label: server.label.clone(),
                entry,
            };
            let text = match apply(&case.file, &case.text, &[change]) {
                Ok(text) => text,
                Err(EditError::Unwritable { .. }) => continue,
                Err(error) => panic!("{}: {error}", case.name),
            };
            let again = servers(&case.file, &text).expect("it can be read");
            let again = again.iter().find(|candidate| {
                candidate.label == server.label && candidate.section == server.section
            });
            let again = again.expect("it is there");
            let lost: BTreeSet<&str> = written.notes.iter().map(|note| note.key.as_str()).collect();
            let without = |entry: &mainstay_client_files::FoundServer| {
                let mut entry = entry.entry.clone();
                entry.retain(|key, _| !lost.contains(key.as_str()));
                meaning(&entry)
            };
            if written.notes.is_empty() {
                same += 1;
            }
            let (Value::Object(mut before), Value::Object(mut after)) =
                (without(server), without(again))
            else {
                panic!("an entry is an object");
            };
            // Ignore that a token becomes a header, and a default becomes a value.
            for entry in [&mut before, &mut after] {
                entry.retain(|key, _| key != "inputParams" && key != "type");
            }
            assert_eq!(
                text_of(&before, server),
                text_of(&after, server),
                "{}: {}",
                case.name,
                server.label
            );
        }
    }
    assert!(same > 60, "only {same} servers go back without a note");
}

/// The entry as text, with inputs replaced by their defaults.
fn text_of(entry: &Map<String, Value>, server: &FoundServer) -> String {
    let mut keys: Vec<_> = entry.iter().collect();
    keys.sort_by_key(|(key, _)| (*key).clone());
    let mut text = format!("{keys:?}");
    let params = server.entry.get("inputParams").and_then(Value::as_object);
    for (name, value) in params.into_iter().flatten() {
        text = text.replace(
            &format!("${{input:{name}}}"),
            value.as_str().unwrap_or_default(),
        );
    }
    text
}

fn own_entry() -> OwnEntry {
    OwnEntry::Connect {
        program: "/usr/local/bin/mainstay".into(),
        is_on_path: true,
        home: None,
    }
}

/// True if the text has exactly this line, including its line end.
fn has_line(text: &str, line: &str) -> bool {
    text.split_inclusive('\n')
        .any(|candidate| candidate == line)
}

/// Adding Mainstay to a client's file and removing it again restores every byte. A new empty section of
/// servers may remain.
#[test]
fn pointing_a_client_at_mainstay_and_back_leaves_every_byte() {
    let (mut back, mut pasted) = (0, Vec::new());
    for case in corpus() {
        let Ok(found) = servers(&case.file, &case.text) else {
            continue;
        };
        if found
            .iter()
            .any(|server| server.left_out == Some(mainstay_client_files::LeftOut::Mainstay))
        {
            continue;
        }
        let pointed = match point_at_mainstay(&case.file, &case.text, &own_entry(), |_| false) {
            Ok(pointed) => pointed,
            Err(EditError::Unwritable { block, .. }) => {
                assert!(block.contains("mainstay"), "{}: {block}", case.name);
                pasted.push(case.name);
                continue;
            }
            Err(error) => panic!("{}: {error}", case.name),
        };
        assert_eq!(pointed.removed, Vec::<String>::new());
        let with = servers(&case.file, &pointed.text).expect("it can be read");
        assert_eq!(with.len(), found.len() + 1, "{}", case.name);
        let again =
            point_at_mainstay(&case.file, &pointed.text, &own_entry(), |_| false).expect("again");
        assert_eq!(again.text, pointed.text, "{}", case.name);
        let undone = remove_mainstay(&case.file, &pointed.text)
            .expect("undone")
            .expect("it was there");
        let whole = value(case.file.format, &case.text).expect("it was read");
        let main = &case.file.sections(&whole)[0];
        if found.iter().any(|server| server.section.keys == main.keys) {
            assert_eq!(undone, case.text, "{}", case.name);
            back += 1;
            continue;
        }
        // Only an empty section of servers may remain.
        let lines = case.text.split_inclusive('\n');
        for line in lines.filter(|line| line.contains('#') || line.contains("//")) {
            assert!(
                undone.contains(line.trim()),
                "{}: {line:?} in {undone}",
                case.name
            );
        }
    }
    assert!(back >= 40, "{back} files came back");
    assert_eq!(
        pasted,
        ["codex/array", "continue/flow"],
        "these cannot be written in place"
    );
}

/// Replacing a client's servers by Mainstay changes no lines outside of the servers.
#[test]
fn mainstay_in_the_place_of_the_servers_leaves_the_rest() {
    for case in corpus() {
        let Ok(found) = servers(&case.file, &case.text) else {
            continue;
        };
        let pointed = match point_at_mainstay(&case.file, &case.text, &own_entry(), |_| true) {
            Ok(pointed) => pointed,
            Err(EditError::Unwritable { remove, .. }) => {
                assert!(!remove.is_empty(), "{}", case.name);
                continue;
            }
            Err(error) => panic!("{}: {error}", case.name),
        };
        let left = servers(&case.file, &pointed.text).expect("it can be read");
        let runs = left
            .iter()
            .filter(|server| server.left_out.is_none())
            .count();
        assert_eq!(runs, 0, "{}: {}", case.name, pointed.text);
        let ours = found
            .iter()
            .filter(|server| server.left_out.is_none())
            .count();
        assert_eq!(pointed.removed.len(), ours, "{}", case.name);
        // The lines above the first server and below the last server stay byte for byte.
        let names = found
            .iter()
            .map(|server| server.label.as_str())
            .filter(|label| !label.is_empty());
        let names: Vec<&str> = names.collect();
        let lines: Vec<&str> = case.text.split_inclusive('\n').collect();
        let of_server = |line: &&str| names.iter().any(|name| line.contains(name));
        let first = lines.iter().position(of_server).unwrap_or(0);
        for line in lines[..first]
            .iter()
            .filter(|line| line.contains('#') || line.contains("//"))
        {
            // A comment directly above a server may be removed with the server.
            let is_above = *lines[first - 1] == **line;
            assert!(
                is_above || has_line(&pointed.text, line),
                "{}: {line:?}\n{}",
                case.name,
                pointed.text
            );
        }
        let ends = |text: &str| (text.ends_with("\r\n"), text.starts_with('\u{feff}'));
        if !case.text.trim().is_empty() {
            assert_eq!(ends(&pointed.text), ends(&case.text), "{}", case.name);
        }
    }
}

/// The files of each client, on each system.
#[test]
fn the_places_of_files() {
    let systems = [
        (System::Linux, "/home/me"),
        (System::MacOs, "/Users/me"),
        (System::Windows, "C:/Users/me"),
    ];
    let mut text = String::new();
    for (system, home) in systems {
        let project = Path::new(home).join("app");
        let machine = Machine::new(system, home).with_project(Some(project));
        writeln!(text, "{system:?}").expect("a text");
        for client in ClientKind::ALL {
            let files = files_of(client, &machine).into_iter();
            // Print the files of projects once, because they are the same on every system.
            let files = files.filter(|file| file.project().is_none() || system == System::Linux);
            for file in files {
                let mark = if file.is_main { "*" } else { " " };
                let path = file.path.display().to_string().replace('\\', "/");
                writeln!(text, "  {:<15} {mark} {path}", client.id()).expect("a text");
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// Variables can set folders. The home folder is not a project.
#[test]
fn folders_that_variables_name() {
    let mut machine = Machine::new(System::Linux, "/home/me").with_project(Some("/home/me".into()));
    assert_eq!(machine.project, None);
    machine.xdg_config_home = Some("/xdg".into());
    machine.codex_home = Some("/codex".into());
    machine.claude_config_dir = Some("/claude".into());
    let main = |client| files_of(client, &machine)[0].path.clone();
    for (client, path) in [
        (
            ClientKind::ClaudeDesktop,
            "/xdg/Claude/claude_desktop_config.json",
        ),
        (ClientKind::ClaudeCode, "/claude/.claude.json"),
        (ClientKind::Codex, "/codex/config.toml"),
        (ClientKind::Opencode, "/xdg/opencode/opencode.json"),
        (ClientKind::Cursor, "/home/me/.cursor/mcp.json"),
    ] {
        assert_eq!(main(client), Path::new(path), "{client}");
    }
    let mut windows = Machine::new(System::Windows, "C:/Users/me");
    windows.appdata = Some("D:/Roaming".into());
    let main = files_of(ClientKind::VsCode, &windows)[0].path.clone();
    assert_eq!(main, Path::new("D:/Roaming/Code/User/mcp.json"));
}
