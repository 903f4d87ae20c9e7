//! Tests of the entry that replaces the servers of a client.

use mainstay_client_files::{
    ClientKind, Machine, OwnEntry, System, files_of, point_at_mainstay, value,
};

/// The client applies the time limit of the one remaining entry to the calls of all servers.
#[test]
fn mainstay_gets_the_longest_times_of_the_servers_in_its_place() {
    let own_entry = OwnEntry::Connect {
        program: "/usr/bin/mainstay".into(),
        is_on_path: true,
        home: None,
    };
    let machine = Machine::new(System::Linux, "/home/me");
    let codex = files_of(ClientKind::Codex, &machine).swap_remove(0);
    let text = "[mcp_servers.a]\ncommand = \"a\"\ntool_timeout_sec = 600\nstartup_timeout_sec = 90\n\n[mcp_servers.b]\ncommand = \"b\"\ntool_timeout_sec = 30\n";
    let pointed = point_at_mainstay(&codex, text, &own_entry, |_| true).expect("pointed");
    let whole = value(codex.format, &pointed.text).expect("TOML");
    let entry = &whole["mcp_servers"]["mainstay"];
    assert_eq!(entry["tool_timeout_sec"], 600, "{}", pointed.text);
    assert_eq!(entry["startup_timeout_sec"], 90, "{}", pointed.text);
    let again = point_at_mainstay(&codex, &pointed.text, &own_entry, |_| true).expect("again");
    assert_eq!(again.text, pointed.text);
    // A server that stays with the client keeps its own time limit.
    let pointed =
        point_at_mainstay(&codex, text, &own_entry, |server| server.label == "b").expect("pointed");
    let whole = value(codex.format, &pointed.text).expect("TOML");
    assert_eq!(whole["mcp_servers"]["mainstay"]["tool_timeout_sec"], 30);
    // A limit below the default would end calls of the other servers too early.
    let text = "[mcp_servers.a]\ncommand = \"a\"\ntool_timeout_sec = 5\n\n[mcp_servers.b]\ncommand = \"b\"\n";
    let pointed = point_at_mainstay(&codex, text, &own_entry, |_| true).expect("pointed");
    assert!(
        !pointed.text.contains("tool_timeout_sec"),
        "{}",
        pointed.text
    );
}
