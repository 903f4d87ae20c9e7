//! Recognises entries that lead to Mainstay itself. Such an entry is not imported as a server.

use mainstay_config::edit::Entry;
use mainstay_core::programs;
use serde_json::Value;

/// Mainstay's name in the files of clients.
pub const LABEL: &str = "mainstay";

/// The default address at which a daemon serves MCP.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7420/mcp";

/// Returns the host and the port in a URL.
pub fn authority(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

/// True if both are the same address of this machine. All loopback addresses and wildcard addresses count
/// as one address.
fn is_same_address(one: &str, other: &str) -> bool {
    const HERE: [&str; 5] = ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]"];
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let is_here = |host: &str| HERE.contains(&host);
    match (one.rsplit_once(':'), other.rsplit_once(':')) {
        (Some((host, port)), Some((other_host, other_port))) => {
            port == other_port && (host == other_host || is_here(host) && is_here(other_host))
        }
        _ => false,
    }
}

/// True if the entry leads to Mainstay itself: at these addresses, or at the default address.
pub fn is_mainstay(entry: &Entry, own_addresses: &[String]) -> bool {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let args = entry.get("args").and_then(Value::as_array);
    let has = |is_it: &dyn Fn(&str) -> bool| {
        args.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(is_it)
    };
    let is_ours = |url: &str| {
        let listed = own_addresses.iter().map(String::as_str);
        let mut addresses = listed.chain(authority(DEFAULT_URL));
        authority(url)
            .is_some_and(|target| addresses.any(|address| is_same_address(target, address)))
    };
    let is_program = |command: &str| programs::program_name(command) == "mainstay";
    let serves = || has(&|arg| matches!(arg, "connect" | "mcp" | "serve"));
    text("url").is_some_and(is_ours)
        || text("command").is_some_and(is_program) && serves()
        || has(&is_program) && serves()
        || has(&is_ours)
}
