//! Programs that download a package before they run it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::{
    backend::Backend,
    gateway::{Gateway, config},
};

/// A script in place of `npx`. It fails if two processes fetch the same package at the same time.
/// Otherwise it runs the package.
const NPX: &str = r#"#!/bin/sh
cache="$(dirname "$0")/_npx/$2"
if [ ! -e "$cache/done" ]; then
    mkdir -p "$(dirname "$cache")"
    if ! mkdir "$cache"; then
        echo "npm error code ENOTEMPTY" >&2
        echo "npm error path $cache/node_modules/x" >&2
        exit 190
    fi
    sleep 0.3
    touch "$cache/done"
fi
shift 2
exec "$@"
"#;

/// Servers of the same package fetch it one after the other, and all of them connect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_of_one_package_take_turns_while_its_cache_is_cold() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let npx = folder.path().join("npx");
    std::fs::write(&npx, NPX).expect("written");
    let executable_mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&npx, executable_mode).expect("it is ours");
    let mut servers = Vec::new();
    for number in 0..6 {
        let mut backend = Backend::stdio().await;
        let package = if number < 4 { "one" } else { "other" };
        let mut args = vec![json!("-y"), json!(package), backend.entry["command"].take()];
        args.extend(backend.entry["args"].as_array().expect("a list").clone());
        backend.entry = json!({"command": npx, "args": args});
        servers.push((format!("s{number}"), backend));
    }
    let servers: Vec<_> = servers
        .iter()
        .map(|(name, backend)| (name.as_str(), backend))
        .collect();
    let settings = json!({"startup": {"maxConcurrent": 16}});
    let gateway = Gateway::start(&config(&servers, settings)).await;
    let rest = gateway.rest();
    for (name, _) in &servers {
        let server = rest.until_status(name, "connected").await;
        assert_eq!(server["crashCount"], 0, "{server}");
    }
}
