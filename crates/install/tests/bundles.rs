//! Tests with real bundles on a real disk: good bundles, and each kind of hostile bundle.

mod answers;

use std::{error::Error as _, fs, path::PathBuf};

use mainstay_install::{
    bundle::BundleRefusal,
    manifest::{BadManifest, Folders},
    recipe::{Recipe, Text},
    system::System,
    unpack::{Bundle, BundleError},
};
use mainstay_testkit::zip::{ZipEntry, ZipFile};
use serde_json::{Value, json};
use tempfile::TempDir;

use answers::answers;

fn manifest() -> Value {
    json!({
        "manifest_version": "0.3",
        "name": "thing",
        "version": "1.0.0",
        "description": "it",
        "author": {"name": "someone"},
        "server": {
            "type": "node",
            "entry_point": "server/index.js",
            "mcp_config": {"command": "node", "args": ["${__dirname}/server/index.js"]},
        },
    })
}

fn good() -> ZipFile {
    ZipFile::default()
        .with("manifest.json", manifest().to_string())
        .with("server/index.js", "// a server")
}

fn open(bytes: &[u8]) -> (TempDir, Result<Bundle, BundleError>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thing.mcpb");
    fs::write(&path, bytes).expect("written");
    let opened = Bundle::open(&path, System::Linux);
    (folder, opened)
}

/// Opens and unpacks a bundle. Returns the paths in the folder afterwards.
fn unpacked(zip: &ZipFile) -> (Result<(), BundleError>, Vec<PathBuf>) {
    let (folder, bundle) = open(&zip.bytes());
    let to = folder.path().join("bundles").join("x");
    let done = bundle.and_then(|mut bundle| bundle.unpack(&to));
    let entries = fs::read_dir(folder.path().join("bundles"));
    let paths = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path());
    (done, paths.collect())
}

/// The part of a bundle that is at fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Zip,
    Entries,
    Manifest,
    Other,
}

/// Checks that the bundle is refused because of `part`, with `words` in the error.
fn check(part: Part, words: &str, error: &BundleError) {
    let at_fault = match error {
        BundleError::Zip { .. } => Part::Zip,
        BundleError::Refused { .. } => Part::Entries,
        BundleError::Manifest { .. } => Part::Manifest,
        _ => Part::Other,
    };
    assert_eq!(at_fault, part, "{words}: {error:?}");
    let reason = error.source().expect("a reason").to_string();
    assert!(reason.contains(words), "{words}: {reason}");
}

#[test]
fn a_bundle_is_unpacked_whole() {
    let program = ZipEntry::new("server/run", "#!/bin/sh").mode(0o100_755);
    let zip = good()
        .entry(program)
        .entry(ZipEntry::new("empty/", "").mode(0o040_755));
    let (folder, bundle) = open(&zip.bytes());
    let mut bundle = bundle.expect("good");
    assert_eq!((bundle.files(), bundle.is_signed), (3, false));
    let to = folder.path().join("bundles").join("x");
    fs::create_dir_all(&to).expect("made");
    fs::write(to.join("old"), "old").expect("written");
    bundle.unpack(&to).expect("unpacked");
    let text = fs::read_to_string(to.join("server/index.js")).expect("there");
    assert_eq!(text, "// a server");
    assert!(to.join("empty").is_dir() && !to.join("old").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |name: &str| {
            fs::metadata(to.join(name))
                .expect(name)
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!([mode("server/run"), mode("manifest.json")], [0o700, 0o600]);
    }
    let left = fs::read_dir(folder.path().join("bundles"))
        .expect("a folder")
        .count();
    assert_eq!(left, 1, "nothing is left beside it");
}

#[test]
fn a_signature_behind_it_is_cut_off() {
    let mut bytes = good().bytes();
    bytes.extend(b"MCPB_SIG_V1\x05\0\0\0PKCS7MCPB_SIG_END");
    let (_folder, bundle) = open(&bytes);
    assert!(bundle.expect("good").is_signed);
}

#[test]
fn hostile_entries_are_refused_and_leave_nothing() {
    let with = |entry: ZipEntry| good().entry(entry);
    let mut encrypted = ZipEntry::new("x", "x");
    encrypted.flags = 1;
    let mut strange = ZipEntry::new("x", "x");
    strange.method = 12;
    let cases: Vec<(&str, ZipFile)> = vec![
        ("leads out", with(ZipEntry::new("../../evil", "x"))),
        ("absolute", with(ZipEntry::new("/tmp/evil", "x"))),
        ("backslash", with(ZipEntry::new("..\\evil", "x"))),
        (
            "symbolic link",
            with(ZipEntry::new("link", "/etc/passwd").mode(0o120_777)),
        ),
        (
            "special file",
            with(ZipEntry::new("dev", "").mode(0o020_666)),
        ),
        (
            "special file",
            with(ZipEntry::new("pipe", "").mode(0o010_666)),
        ),
        ("twice", with(ZipEntry::new("server/index.js", "other"))),
        ("twice", with(ZipEntry::new("manifest.json", "{}"))),
        ("file and a folder", with(ZipEntry::new("server", "x"))),
        ("encrypted", with(encrypted)),
        ("method 12", with(strange)),
        (
            "ZIP bomb",
            with(ZipEntry::new("zeros", vec![0; 8 * 1024 * 1024])),
        ),
        ("no manifest.json", ZipFile::default().with("a", "b")),
    ];
    for (words, zip) in cases {
        let (refused, left) = unpacked(&zip);
        check(Part::Entries, words, &refused.expect_err(words));
        assert!(left.is_empty(), "{words}: {left:?}");
    }
}

#[test]
fn lies_about_contents_are_found_while_unpacking() {
    let lie = |change: fn(&mut ZipEntry)| {
        let mut entry = ZipEntry::new("x", "0123456789");
        change(&mut entry);
        good().entry(entry)
    };
    for (words, zip) in [
        ("longer than it says", lie(|entry| entry.size = Some(3))),
        ("shorter than it says", lie(|entry| entry.size = Some(30))),
        ("checksum", lie(|entry| entry.crc = Some(7))),
        (
            "names differ",
            lie(|entry| entry.local_name = Some(b"../y".to_vec())),
        ),
    ] {
        let (refused, left) = unpacked(&zip);
        check(Part::Zip, words, &refused.expect_err(words));
        assert!(left.is_empty(), "{words}: {left:?}");
    }
}

#[test]
fn what_is_no_zip_file_is_refused() {
    let bytes = good().bytes();
    let mut zip64 = bytes.clone();
    let at = zip64.len() - 6;
    zip64[at..at + 4].copy_from_slice(&[0xff; 4]);
    let mut counted = good();
    counted.count = Some(7);
    let mut before = b"#!/bin/sh\n".to_vec();
    before.extend(&bytes);
    let mut name = ZipEntry::new("x", "x");
    name.name = vec![0xff, 0xfe];
    let volumes = {
        let mut bytes = bytes.clone();
        let at = bytes.len() - 18;
        bytes[at] = 1;
        bytes
    };
    for (words, bytes) in [
        ("no ZIP file", b"hello".to_vec()),
        ("no ZIP file", Vec::new()),
        ("no ZIP file", bytes[..bytes.len() - 5].to_vec()),
        ("no ZIP file", b"MCPB_SIG_END".to_vec()),
        ("ZIP64", zip64),
        ("damaged", counted.bytes()),
        ("damaged", before),
        ("volumes", volumes),
        ("not UTF-8", good().entry(name).bytes()),
    ] {
        let (_folder, opened) = open(&bytes);
        check(Part::Zip, words, &opened.expect_err(words));
    }
}

/// If two entries of the directory share their data, a small file can unpack to a huge one.
#[test]
fn overlapping_entries_are_refused() {
    let mut bytes = good().with("other", "abc").bytes();
    // The last entry of the directory now names the data of the first entry.
    let at = bytes.len() - 22 - "other".len() - 4;
    bytes[at..at + 4].copy_from_slice(&[0; 4]);
    let (_folder, opened) = open(&bytes);
    let refused = opened.expect_err("overlap");
    assert!(
        matches!(
            &refused,
            BundleError::Refused {
                source: BundleRefusal::Overlap,
                ..
            }
        ),
        "{refused:?}"
    );
}

#[test]
fn bad_manifests_are_refused() {
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(&str, Change<'_>); 13] = [
        ("version \"9.0\"", &|manifest| {
            manifest["manifest_version"] = "9.0".into()
        }),
        ("no manifest_version", &|manifest| {
            manifest["manifest_version"] = "".into()
        }),
        ("no name", &|manifest| manifest["name"] = "".into()),
        ("not valid", &|manifest| manifest["name"] = 7.into()),
        ("no server.entry_point", &|manifest| {
            manifest["server"]["entry_point"] = "".into()
        }),
        ("not in it", &|manifest| {
            manifest["server"]["entry_point"] = "other.js".into()
        }),
        ("type \"rust\"", &|manifest| {
            manifest["server"]["type"] = "rust".into()
        }),
        ("made for win32", &|manifest| {
            manifest["compatibility"] = json!({"platforms": ["win32"]})
        }),
        ("not valid", &|manifest| {
            manifest["user_config"] = json!({"x": 5})
        }),
        ("\"../../../bin/sh\" leads out", &|manifest| {
            manifest["server"]["mcp_config"]["command"] = "../../../bin/sh".into()
        }),
        ("leads out", &|manifest| {
            manifest["server"]["mcp_config"]["command"] = "${__dirname}/../../bin/sh".into()
        }),
        ("leads out", &|manifest| {
            manifest["server"]["mcp_config"]["command"] = "server\\..\\..\\sh".into()
        }),
        ("leads out", &|manifest| {
            manifest["server"]["mcp_config"]["platform_overrides"] =
                json!({"linux": {"command": "./server/../../sh"}})
        }),
    ];
    for (words, change) in cases {
        let mut manifest = manifest();
        change(&mut manifest);
        let zip = ZipFile::default()
            .with("manifest.json", manifest.to_string())
            .with("server/index.js", "");
        let (_folder, opened) = open(&zip.bytes());
        check(Part::Manifest, words, &opened.expect_err(words));
    }
}

/// A command inside of the bundle, in several spellings of its path.
#[test]
fn a_command_within_the_bundle_is_taken() {
    for command in ["server/../server/index.js", "./server/index.js", "node"] {
        let server_recipe = recipe(
            |manifest| manifest["server"]["mcp_config"]["command"] = command.into(),
            &[],
            System::Linux,
        );
        let Recipe::Command {
            command: program, ..
        } = server_recipe.expect("made")
        else {
            panic!("a command");
        };
        assert!(
            program.value.ends_with(command.trim_start_matches("./")),
            "{program:?}"
        );
    }
}

fn recipe(
    change: impl FnOnce(&mut Value),
    values: &[(&str, &str)],
    system: System,
) -> Result<Recipe, BadManifest> {
    let mut manifest = manifest();
    change(&mut manifest);
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with("server/index.js", "");
    let (_folder, opened) = open(&zip.bytes());
    let folders = Folders {
        home: PathBuf::from("/home/me"),
    };
    let bundle = opened.expect("good");
    bundle
        .manifest
        .recipe(&PathBuf::from("/b"), &folders, &answers(values), system)
}

#[test]
fn variables_and_settings_are_filled_in() {
    let server_recipe = recipe(
        |manifest| {
            manifest["user_config"] = json!({
                "dirs": {"type": "directory", "title": "Dirs", "description": "d", "multiple": true, "default": ["${HOME}/Desktop"]},
                "key": {"type": "string", "title": "Key", "description": "k", "sensitive": true, "required": true},
                "unset": {"type": "string", "title": "Unset", "description": "u"},
                "evil": {"type": "string", "title": "E", "description": "e", "default": "${file:/etc/passwd}"},
                "brace": {"type": "string", "title": "B", "description": "b", "default": "{file:/etc/passwd}"},
            });
            manifest["server"]["mcp_config"] = json!({
                "command": "node",
                "args": ["${__dirname}/server/index.js", "${user_config.dirs}", "--key=${user_config.key}", "${user_config.unset}", "${SECRET}"],
                "env": {
                    "KEY": "${user_config.key}", "UNSET": "${user_config.unset}", "HOME_IS": "${HOME}${/}x",
                    "EVIL": "${user_config.evil}", "BRACE": "$${user_config.brace}",
                },
            });
        },
        &[("dirs", "/a b"), ("dirs", "/c"), ("key", "${API_KEY}")],
        System::Linux,
    );
    let Recipe::Command {
        command,
        args,
        env,
        cwd,
    } = server_recipe.expect("made")
    else {
        panic!("a command");
    };
    let values: Vec<_> = args.iter().map(|arg| arg.value.as_str()).collect();
    assert_eq!(command, Text::open("node"));
    assert_eq!(
        values,
        [
            "/b/server/index.js",
            "/a b",
            "/c",
            "--key=${API_KEY}",
            "$${SECRET}"
        ]
    );
    assert_eq!(args[3].masked(), "***");
    let env: Vec<_> = env
        .iter()
        .map(|(name, text)| (name.as_str(), text.value.as_str(), text.masked()))
        .collect();
    assert_eq!(
        env,
        [
            ("BRACE", "$${file:/etc/passwd}", "$${file:/etc/passwd}"),
            ("EVIL", "$${file:/etc/passwd}", "$${file:/etc/passwd}"),
            ("HOME_IS", "/home/me/x", "/home/me/x"),
            ("KEY", "${API_KEY}", "***"),
        ]
    );
    assert_eq!(cwd.as_deref(), Some("/b"));
}

#[test]
fn platforms_have_their_own_launch() {
    let change = |manifest: &mut Value| {
        manifest["server"] = json!({
            "type": "binary",
            "entry_point": "server/index.js",
            "mcp_config": {
                "command": "server/run", "args": ["a"], "env": {"A": "1"},
                "platform_overrides": {"win32": {"args": ["b"]}, "darwin": {"command": "${__dirname}/server/mac"}},
            },
        });
    };
    let command = |system| match recipe(change, &[], system).expect("made") {
        Recipe::Command { command, args, .. } => (command.value, args[0].value.clone()),
        Recipe::Url { .. } => panic!("a command"),
    };
    assert_eq!(
        command(System::Linux),
        ("/b/server/run".to_owned(), "a".to_owned())
    );
    assert_eq!(
        command(System::Mac),
        ("/b/server/mac".to_owned(), "a".to_owned())
    );
    assert_eq!(
        command(System::Windows),
        ("/b/server/run.exe".to_owned(), "b".to_owned())
    );
}

#[test]
fn uv_needs_no_launch() {
    let server_recipe = recipe(
        |manifest| manifest["server"] = json!({"type": "uv", "entry_point": "server/index.js"}),
        &[],
        System::Linux,
    );
    let Recipe::Command { command, args, .. } = server_recipe.expect("made") else {
        panic!("a command");
    };
    let values: Vec<_> = args.iter().map(|arg| arg.value.as_str()).collect();
    assert_eq!(command.value, "uv");
    assert_eq!(values, ["run", "--directory", "/b", "server/index.js"]);
}

/// All versions of the specification, and the first name of the version field.
#[test]
fn every_version_of_the_specification_is_read() {
    for version in ["0.1", "0.2", "0.3", "0.4"] {
        let change = |manifest: &mut Value| manifest["manifest_version"] = version.into();
        assert!(recipe(change, &[], System::Linux).is_ok(), "{version}");
    }
    let first = |manifest: &mut Value| {
        let members = manifest.as_object_mut().expect("an object");
        let version = members.remove("manifest_version").expect("it is there");
        members.insert("dxt_version".to_owned(), version);
    };
    assert!(recipe(first, &[], System::Linux).is_ok());
}

/// The full example of the specification. Some fields matter only to hosts, and file names are relative to
/// the bundle.
#[test]
fn the_fields_of_hosts_are_no_trouble() {
    let change = |manifest: &mut Value| {
        let more = json!({
            "display_name": "Thing", "long_description": "…", "icon": "icon.png",
            "icons": [{"src": "i.png", "size": "16x16", "theme": "light"}],
            "localization": {"resources": "r/${locale}.json", "default_locale": "en-US"},
            "tools": [{"name": "t", "description": "d"}], "tools_generated": true,
            "prompts": [{"name": "p", "arguments": ["topic"], "text": "${arguments.topic}"}],
            "privacy_policies": ["https://example.com/privacy"],
            "compatibility": {
                "claude_desktop": ">=1.0.0", "platforms": ["darwin", "win32", "linux"],
                "runtimes": {"node": ">=16.0.0"},
            },
            "_meta": {"com.example": {"static_responses": {}}},
        });
        let members = manifest.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        manifest["server"]["mcp_config"]["args"] =
            json!(["server/index.js", "${pathSeparator}", "${DOCUMENTS}"]);
    };
    let server_recipe = recipe(change, &[], System::Linux).expect("made");
    let Recipe::Command { args, cwd, .. } = server_recipe else {
        panic!("a command");
    };
    let values: Vec<_> = args.iter().map(|arg| arg.value.as_str()).collect();
    assert_eq!(values, ["server/index.js", "/", "/home/me/Documents"]);
    assert_eq!(cwd.as_deref(), Some("/b"));
}
