//! Bundles are checked, unpacked, tried, replaced and removed.

use std::fs;

use mainstay_testkit::{
    Home, home,
    zip::{ZipEntry, ZipFile},
};
use serde_json::json;

use super::{
    fake_registry::{FakeAnswer, FakeRegistry},
    install_stand_in, saved_config,
};

/// The source of a small MCP server in Python.
const PYTHON: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "bundled", "version": "1"}}
    elif message["method"] == "tools/list":
        names = ["greet", os.environ.get("SUFFIX", "none")] + sys.argv[1:]
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

fn bundle(
    home: &Home,
    name: &str,
    version: &str,
    change: impl FnOnce(ZipFile) -> ZipFile,
) -> String {
    let manifest = json!({
        "manifest_version": "0.3", "name": "Greeter", "version": version, "description": "Greets",
        "author": {"name": "someone"},
        "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": {
            "command": "python3",
            "args": ["${__dirname}/server/main.py", "${user_config.names}"],
            "env": {"SUFFIX": "${user_config.suffix}", "KEY": "${user_config.key}"},
        }},
        "user_config": {
            "names": {"type": "string", "title": "Names", "description": "More tools", "multiple": true},
            "suffix": {"type": "string", "title": "Suffix", "description": "One tool's name", "required": true},
            "key": {"type": "string", "title": "Key", "description": "A secret", "sensitive": true},
        },
    });
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with("server/main.py", PYTHON);
    let path = home.path().join(name);
    fs::write(&path, change(zip).bytes()).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// The folders of unpacked bundles, as `NAME/DIGEST`.
fn folders(home: &Home) -> Vec<String> {
    let mut folders = Vec::new();
    for server in fs::read_dir(home.state().join("bundles"))
        .into_iter()
        .flatten()
    {
        let server = server.expect("an entry").path();
        for version in fs::read_dir(&server).expect("a folder") {
            let version = version.expect("an entry").path();
            folders.push(
                version
                    .strip_prefix(home.state().join("bundles"))
                    .expect("in it")
                    .display()
                    .to_string(),
            );
        }
    }
    folders
}

/// A person sees the variables of a bundle, because variables can change what the program does.
#[tokio::test]
async fn the_variables_of_a_bundle_are_shown_with_their_values() {
    let home = home!();
    let manifest = json!({
        "manifest_version": "0.3", "name": "Loader", "version": "1.0.0", "description": "Loads",
        "author": {"name": "someone"},
        "server": {"type": "binary", "entry_point": "run", "mcp_config": {
            "command": "sh",
            "env": {
                "LD_PRELOAD": "${__dirname}/evil.so", "KEY": "${user_config.key}", "MODE": "a b",
                "DB_PASSWORD": "fixed-secret", "URL": "https://me:hidden@example.com",
            },
        }},
        "user_config": {"key": {"type": "string", "title": "Key", "description": "A secret", "sensitive": true}},
    });
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with("run", "");
    let path = home.path().join("loader.mcpb");
    fs::write(&path, zip.bytes()).expect("written");
    let path = path.to_str().expect("UTF-8");
    let run = home
        .run(&["add", "--no-check", path, "--set", "key=s3cret-value"])
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    for text in [
        "LD_PRELOAD=",
        "/evil.so",
        "MODE=\"a b\"",
        "KEY=***",
        "DB_PASSWORD=***",
        "URL=***",
    ] {
        assert!(run.stderr.contains(text), "{text}: {run}");
    }
    for secret in ["s3cret-value", "fixed-secret", "hidden"] {
        assert!(!run.stderr.contains(secret), "{secret}: {run}");
    }
}

#[tokio::test]
async fn a_bundle_is_unpacked_tried_replaced_and_removed() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let valid_bundle = bundle(&home, "greeter.mcpb", "1.0.0", |zip| zip);
    let run = registry.run(&home, &["add", &valid_bundle]).await;
    assert!(
        run.code == Some(2) && run.stderr.contains("suffix: Suffix: One tool's name"),
        "{run}"
    );
    assert!(folders(&home).is_empty());
    let settings = [
        "--set",
        "suffix=wave",
        "--set",
        "key=s3cret",
        "--set",
        "names=one",
        "--set",
        "names=two",
    ];
    let add = |path: &'_ str, extra_arguments: &[&str]| -> Vec<String> {
        ["add", path]
            .iter()
            .chain(&settings)
            .chain(extra_arguments)
            .map(ToString::to_string)
            .collect()
    };
    let run_all = async |has_warning: Vec<String>| {
        let has_warning: Vec<&str> = has_warning.iter().map(String::as_str).collect();
        registry.run(&home, &has_warning).await
    };
    let run = run_all(add(&valid_bundle, &["--json"])).await;
    assert_eq!(
        run.json()["tools"],
        json!(["greet", "wave", "one", "two"]),
        "{run}"
    );
    assert!(!run.stderr.contains("s3cret"), "{run}");
    let has_warning = run
        .stderr
        .contains(r#"{"warning":"key is saved in clear in the configuration"}"#)
        && run.stderr.contains("--set key='${file:PATH}'");
    assert!(has_warning, "{run}");
    let first = folders(&home);
    assert_eq!(first.len(), 1);
    let entry = saved_config(&home).expect("saved")["mcpServers"]["Greeter"].clone();
    let folder = home.state().join("bundles").join(&first[0]);
    assert_eq!(
        entry,
        json!({
            "command": "python3",
            "args": [folder.join("server/main.py"), "one", "two"],
            "env": {"KEY": "s3cret", "SUFFIX": "wave"},
            "cwd": folder,
        })
    );
    // A bundle that does not start does not replace the old one.
    let broken_bundle = bundle(&home, "broken.mcpb", "2.0.0", |zip| {
        zip.with("server/x.py", "").entry(ZipEntry::new("y", ""))
    });
    let text = fs::read(&broken_bundle).expect("there");
    assert!(!text.is_empty());
    let run = run_all(add(&broken_bundle, &["--replace", "--set", "nobody=asks"])).await;
    assert_eq!(run.code, Some(2), "{run}");
    let mut crash = add(&broken_bundle, &["--replace"]);
    install_stand_in(&home, "python3", "echo 'SyntaxError' >&2; exit 3");
    let run = run_all(crash.clone()).await;
    assert!(
        run.code == Some(1) && run.stderr.contains("SyntaxError"),
        "{run}"
    );
    assert_eq!(folders(&home), first);
    fs::remove_file(home.path().join("bin/python3")).expect("removed");
    // With a reference to a file, the value is not in the configuration.
    let secret = home.file("secret.txt", "elsewhere\n");
    let reference = format!("key=${{file:{secret}}}");
    let run = registry
        .run(
            &home,
            &[
                "add",
                "other",
                &valid_bundle,
                "--set",
                "suffix=wave",
                "--set",
                &reference,
            ],
        )
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stderr.contains("in clear"), "{run}");
    let entry = saved_config(&home).expect("saved")["mcpServers"]["other"].clone();
    assert_eq!(entry["env"]["KEY"], format!("${{file:{secret}}}"));
    let run = registry.run(&home, &["remove", "other"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    // A bundle that starts replaces the old one.
    crash.push("--yes".to_owned());
    let run = run_all(crash).await;
    assert_eq!(run.code, Some(0), "{run}");
    let second_folders = folders(&home);
    assert!(
        second_folders.len() == 1 && second_folders != first,
        "{second_folders:?}"
    );
    let run = registry.run(&home, &["remove", "Greeter"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(folders(&home).is_empty());
}

/// Adds a bundle with its own program through a daemon, and then a bundle of a registry.
#[tokio::test]
async fn a_bundle_of_a_registry_is_checked_by_its_hash() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let fake = fake_server::binary();
    let manifest = json!({
        "manifest_version": "0.2", "name": "native", "version": "1", "description": "d", "author": {"name": "a"},
        "server": {"type": "binary", "entry_point": "server/run", "mcp_config": {"command": "server/run", "args": []}},
    });
    let zip = ZipFile::default()
        .with("manifest.json", manifest.to_string())
        .with(
            "server/run",
            format!("#!/bin/sh\nexec '{}'\n", fake.display()),
        );
    let bytes = zip.bytes();
    let sha256 =
        mainstay_install::unpack::sha256(&mut std::io::Cursor::new(&bytes)).expect("in memory");
    registry.answer(
        "/native.mcpb",
        FakeAnswer::with_body("200 OK", "application/octet-stream", &bytes),
    );
    let url = format!("{}/native.mcpb", registry.url);
    let package = |sha256: &str| json!({"packages": [{"registryType": "mcpb", "identifier": url, "fileSha256": sha256, "transport": {"type": "stdio"}}]});
    registry.publish("a.b/native", &package(&sha256));
    registry.publish("a.b/forged", &package(&"0".repeat(64)));
    let config = home.file("servers.json", "{\"mcpServers\": {}}\n");
    let daemon = home.serve(&["--config", &config]).await;
    let run = registry.run(&home, &["add", "a.b/forged"]).await;
    assert!(
        run.stderr
            .contains("is not the one that the registry names"),
        "{run}"
    );
    assert!(folders(&home).is_empty());
    let run = registry.run(&home, &["add", "mine", "a.b/native"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(folders(&home).len(), 1);
    let run = home.run(&["remove", "mine"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(folders(&home).is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn hostile_bundles_are_refused() {
    let (home, registry) = (home!(), FakeRegistry::start().await);
    let zero_bytes = vec![0; 8 * 1024 * 1024];
    let cases: [(&str, ZipEntry); 4] = [
        (
            "leads out of the bundle",
            ZipEntry::new("../../../pwned", "x"),
        ),
        (
            "is a symbolic link",
            ZipEntry::new("link", "/etc").mode(0o120_777),
        ),
        ("as in a ZIP bomb", ZipEntry::new("zeros", zero_bytes)),
        (
            "has a control character",
            ZipEntry::new("\u{1b}[2J/../..", "x"),
        ),
    ];
    for (error, entry) in cases {
        let path = bundle(&home, "evil.dxt", "1", |zip| zip.entry(entry));
        let run = registry
            .run(&home, &["add", "--set", "suffix=x", &path])
            .await;
        assert!(
            run.code == Some(1) && run.stderr.contains(error),
            "{error}: {run}"
        );
        assert!(!run.stderr.contains('\u{1b}'), "{run}");
    }
    let missing_path = home.path().join("missing.mcpb");
    let run = registry
        .run(&home, &["add", missing_path.to_str().expect("UTF-8")])
        .await;
    assert!(
        run.code == Some(1) && run.stderr.contains("cannot read the bundle"),
        "{run}"
    );
    let no_zip_file = home.file("no.mcpb", "hello");
    let run = registry.run(&home, &["add", &no_zip_file]).await;
    assert!(
        run.code == Some(1) && run.stderr.contains("is no ZIP file"),
        "{run}"
    );
    assert!(folders(&home).is_empty() && saved_config(&home).is_none());
    assert!(!home.path().join("pwned").exists());
}
