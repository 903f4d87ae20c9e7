//! Tests of files and keys of other clients. Each has the same meaning here, or causes a finding.

use std::time::Duration;

use insta::assert_snapshot;
use mainstay_core::config::{Grant, Launch, OAuth, Secret, ServerConfig, SignIn};

use crate::world::{entry_findings, findings, findings_in, http, read, server, stdio};

/// The entry `s` of a file at this path, and the findings in the file.
fn at(path: &str, entry: &str) -> (ServerConfig, String) {
    let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
    let mut servers = read(path, &text).unwrap().config.servers;
    (servers.remove(0), findings_in(path, &text))
}

/// The arguments of the entry `s` of a file at this path, which has no findings.
fn args_at(path: &str, entry: &str) -> Vec<String> {
    let (server, findings) = at(path, entry);
    assert_eq!(findings, "", "{path} {entry}");
    match server.launch {
        Launch::Stdio(launch) => launch.args,
        other => panic!("not stdio: {other:?}"),
    }
}

#[test]
fn files_of_other_programs_are_named() {
    let check = |file: &str, text: &str, expected_text: &str| {
        let found = findings_in(file, text);
        let expected = format!("error {file}:1:1: {expected_text}");
        assert!(found.starts_with(&expected), "{text}: {found}");
        assert!(
            found.ends_with(")\n") && found.lines().count() == 1,
            "{found}"
        );
    };
    let vs_code =
        r#"{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}}"#;
    check(
        "settings.json",
        vs_code,
        "this is a settings.json of VS Code",
    );
    let commented = "{\n// mine\n\"mcp\": {\"servers\": {}},\n}";
    check(
        "settings.json",
        commented,
        "this is a settings.json of VS Code",
    );
    let opencode = r#"{"mcp": {"a": {"type": "local", "command": ["npx", "x"]}}}"#;
    check(
        "opencode.json",
        opencode,
        "this is a configuration of opencode",
    );
    let crush = r#"{"mcp": {"a": {"type": "stdio", "command": "x"}}}"#;
    check(
        "crush.json",
        crush,
        "the servers stand in `mcp`, as Crush has them",
    );
    let zed = "{\n  // mine\n  \"context_servers\": {\"a\": {\"command\": {\"path\": \"x\"}}}}";
    check("settings.json", zed, "this is a settings.json of Zed");
    let amp = r#"{"amp.mcpServers": {"a": {"command": "x"}}}"#;
    check("settings.json", amp, "this is a settings.json of Amp");
    let claude = r#"{"projects": {"/p": {"mcpServers": {}}}}"#;
    check(".claude.json", claude, "this is Claude Code's own file");
    let registry = r#"{"name": "io.github.x/y", "packages": []}"#;
    check(
        "server.json",
        registry,
        "this is a server.json of the MCP registry",
    );
    let extension = r#"{"manifest_version": "0.2", "server": {"type": "node", "mcp_config": {}}}"#;
    check(
        "manifest.json",
        extension,
        "this is the manifest.json of a desktop extension",
    );
    let bare = r#"{"command": "npx", "args": []}"#;
    check("a.json", bare, "this is the entry of one server");
    let entries = r#"{"fs": {"command": "x"}, "web": {"url": "http://h"}}"#;
    check(
        "a.json",
        entries,
        "the servers stand at the top of the file",
    );

    let codex = "model = \"o3\"\n\n[mcp_servers.fs]\ncommand = \"npx\"\n";
    check(
        "config.toml",
        codex,
        "this is TOML, with servers in `mcp_servers`, as Codex has it",
    );
    check(
        "config.toml",
        "# mine\n[tools]\nx = 1\n",
        "this is TOML, and a configuration is JSON",
    );
    let goose = "GOOSE_MODEL: x\nextensions:\n  fs:\n    cmd: npx\n";
    check(
        "config.yaml",
        goose,
        "this is YAML, with servers in `extensions`, as goose has it",
    );
    let continued = "name: Local\nmcpServers:\n  - name: fs\n";
    check(
        "config.yaml",
        continued,
        "this is YAML, with servers in `mcpServers`",
    );
    check(
        "a.yaml",
        "---\nservers: []\n",
        "this is YAML, and a configuration is JSON",
    );
}

#[test]
fn what_is_no_other_programs_file_is_judged_as_before() {
    assert_snapshot!(findings(r#"{"mcp_servers": {"a": {"command": "x"}}}"#), @r#"error config.json:1:1: Missing mcpServers field (it is called "mcp_servers" here)"#);
    assert_snapshot!(findings(r#"{"mcp": []}"#), @r#"error config.json:1:1: Missing mcpServers field (servers stand in {"mcpServers": {NAME: {…}}})"#);
    assert_snapshot!(findings("hello"), @"error config.json:1:1: unexpected word");
    assert_eq!(
        findings(r#"{"mcp": {"servers": {}}, "mcpServers": {}}"#),
        "warning config.json:1:2: mcp: unknown key\n"
    );
}

#[test]
fn timeouts_are_in_the_unit_of_the_files_program() {
    let check = |path: &str, entry: &str, expected: Duration| {
        let (server, findings) = at(path, entry);
        assert_eq!(
            (server.call_timeout, &*findings),
            (expected, ""),
            "{path} {entry}"
        );
    };
    let (ms, s) = (Duration::from_millis, Duration::from_secs);
    let cline = "/home/me/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
    let roo = "/home/me/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";
    for path in [
        cline,
        roo,
        "/srv/app/.roo/mcp.json",
        "/srv/app/.kilocode/mcp.json",
    ] {
        check(path, r#"{"command": "x", "timeout": 3600}"#, s(3600));
        check(path, r#"{"command": "x", "timeout": 60}"#, s(60));
        check(path, r#"{"command": "x", "timeout": 1}"#, s(1));
    }
    for path in [
        "/srv/app/.gemini/settings.json",
        "/home/me/.kiro/settings/mcp.json",
        "/home/me/.aws/amazonq/mcp.json",
        "/srv/app/.mcp.json",
    ] {
        check(path, r#"{"command": "x", "timeout": 3600}"#, ms(3600));
    }
    // The keys of the entry decide the unit.
    check(
        "a.json",
        r#"{"command": "x", "timeout": 3600, "alwaysAllow": []}"#,
        s(3600),
    );
    check(
        "a.json",
        r#"{"command": "x", "timeout": 60, "autoApprove": []}"#,
        s(60),
    );
    check(
        "a.json",
        r#"{"command": "x", "timeout": 60000, "autoApprove": []}"#,
        s(60),
    );
    check("a.json", r#"{"command": "x", "timeout": 5000}"#, s(5));
    let mixed = r#"{"mcpServers": {"a": {"command": "x", "timeout": 90}, "b": {"command": "x", "alwaysAllow": []}}}"#;
    assert_eq!(findings(mixed), "");
    let servers = read("a.json", mixed).unwrap().config.servers;
    assert_eq!(servers[0].call_timeout, s(90));
}

#[test]
fn a_timeout_of_either_unit_is_warned_about() {
    let findings_of = |entry: &str| entry_findings(entry);
    assert_snapshot!(findings_of(r#"{"command": "x", "timeout": 3600}"#), @"warning config.json:2:29: mcpServers.s.timeout: taken as milliseconds, which is 3.6 s; Cline and Roo Code have seconds here (write `timeout_s`: 3600 for seconds)");
    assert_snapshot!(findings_of(r#"{"command": "x", "timeout": 1800, "autoApprove": []}"#), @"warning config.json:2:29: mcpServers.s.timeout: taken as milliseconds, which is 1.8 s; Cline and Roo Code have seconds here (write `timeout_s`: 1800 for seconds)");
    assert_snapshot!(findings_of(r#"{"command": "x", "timeout": 60}"#), @"problem config.json:2:29: mcpServers.s.timeout: Server s: timeout must be between 1000-300000ms (`timeout` is in milliseconds; `timeout_s` is in seconds)");
    let (server, _) = at("config.json", r#"{"command": "x", "timeout": 3600}"#);
    assert_eq!(server.call_timeout, Duration::from_millis(3600));
}

#[test]
fn every_clients_filter_restricts() {
    let tools = ["read", "write", "delete"];
    let check = |fields: &str, visible: &[&str]| {
        let withheld = server(&format!(r#"{{"command": "x", {fields}}}"#)).withheld;
        let mut found = tools.to_vec();
        found.retain(|tool| !withheld.has(tool));
        assert_eq!(found, visible, "{fields}");
    };
    for key in [
        "includeTools",
        "enabledTools",
        "enabled_tools",
        "allowedTools",
        "allowed_tools",
        "tools",
    ] {
        check(
            &format!(r#""{key}": ["read", "write"]"#),
            &["read", "write"],
        );
        check(&format!(r#""{key}": ["*"]"#), &tools);
        check(&format!(r#""{key}": []"#), &[]);
        check(
            &format!(r#""{key}": ["read", "write"], "excludeTools": ["write"]"#),
            &["read"],
        );
    }
    for key in ["disabledTools", "disabled_tools", "excludeTools"] {
        check(&format!(r#""{key}": ["write"]"#), &["read", "delete"]);
    }
    check(r#""includeTools": ["read"], "tools": ["write"]"#, &[]);
    check(
        r#""disabledTools": ["read"], "excludeTools": ["write"]"#,
        &["delete"],
    );
    assert_snapshot!(entry_findings(r#"{"command": "x", "tools": {"read": true}}"#), @"problem config.json:2:27: mcpServers.s.tools: expected an array, found an object");
}

#[test]
fn a_file_of_variables_is_read() {
    let env = |path: &str, entry: &str| {
        let (server, findings) = at(path, entry);
        assert_eq!(findings, "", "{entry}");
        let Launch::Stdio(launch) = server.launch else {
            panic!("not stdio: {entry}")
        };
        launch
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", value.expose()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let entry = r#"{"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"OWN": "own"}}"#;
    assert_eq!(
        env("/srv/app/.vscode/mcp.json", entry),
        "KEY=from file OWN=own"
    );
    let entry = r#"{"command": "x", "envFile": "/srv/app/.env"}"#;
    assert_eq!(env("config.json", entry), "KEY=from file OWN=from file");
    assert_snapshot!(entry_findings(r#"{"command": "x", "envFile": "none.env"}"#), @r#"problem config.json:2:29: mcpServers.s.envFile: cannot read "/etc/mainstay/none.env": there is no such file (create it, or leave `envFile` out)"#);
    assert_snapshot!(entry_findings(r#"{"command": "x", "envFile": "bad.env"}"#), @"problem config.json:2:29: mcpServers.s.envFile: line 2 is not NAME=VALUE");
    assert_snapshot!(entry_findings(r#"{"url": "http://h", "envFile": ".env"}"#), @"warning config.json:2:32: mcpServers.s.envFile: not used by a remote server");
}

#[test]
fn request_init_has_headers() {
    let launch = http(
        r#"{"url": "http://h", "requestInit": {"headers": {"Authorization": "Bearer ${TOKEN}"}}}"#,
    );
    let headers: Vec<_> = launch
        .headers
        .iter()
        .map(|(name, value)| (&**name, value.expose()))
        .collect();
    assert_eq!(headers, [("authorization", "Bearer t0ken")]);
    assert_snapshot!(entry_findings(r#"{"url": "http://h", "headers": {"x-a": "1"}, "requestInit": {"mode": "cors", "headers": {"X-A": "2"}}}"#), @"
    problem config.json:2:90: mcpServers.s.requestInit.headers.X-A: duplicate header; case does not count
    warning config.json:2:62: mcpServers.s.requestInit.mode: unknown key
    ");
}

#[test]
fn a_way_to_sign_in_that_is_not_there_is_an_error_of_the_server() {
    for fields in [
        r#""auth": "kerberos""#,
        r#""authProviderType": "google_credentials""#,
    ] {
        let found = entry_findings(&format!(r#"{{"url": "http://h", {fields}}}"#));
        assert!(
            found.starts_with("problem ") && found.contains("`bearerToken`"),
            "{found}"
        );
    }
    for off in ["false", "{}", r#"{"enabled": false}"#, "null", r#""""#] {
        http(&format!(r#"{{"url": "http://h", "oauth": {off}}}"#));
    }
    assert_snapshot!(entry_findings(r#"{"command": "x", "sandboxEnabled": true}"#), @"problem config.json:2:36: mcpServers.s.sandboxEnabled: Mainstay has no sandbox for servers (take the key out if the server may run without one)");
    stdio(r#"{"command": "x", "sandboxEnabled": false}"#);
}

fn oauth(fields: &str) -> OAuth {
    let launch = http(&format!(r#"{{"url": "http://h", {fields}}}"#));
    match launch.sign_in {
        SignIn::OAuth(oauth) => oauth,
        other => panic!("{fields}: {other:?}"),
    }
}

#[test]
fn a_login_is_read_in_our_words_and_in_those_of_other_clients() {
    for fields in [
        r#""headers": {}"#,
        r#""oauth": true"#,
        r#""oauth": {}"#,
        r#""auth": "oauth""#,
        r#""authProviderType": "dynamic_discovery""#,
    ] {
        assert_eq!(oauth(fields), OAuth::default(), "{fields}");
    }
    let expected = OAuth {
        client_id: Some("me".to_owned()),
        client_secret: Some(Secret::new("t0ken")),
        scopes: vec!["a".to_owned(), "b".to_owned()],
        ..OAuth::default()
    };
    for fields in [
        r#""oauth": {"clientId": "me", "clientSecret": "${TOKEN}", "scopes": ["a", "b"]}"#,
        r#""oauth": {"clientId": "me", "clientSecret": "${TOKEN}", "scope": "a b", "enabled": true}"#,
        r#""auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${TOKEN}", "scopes": ["a b"]}"#,
    ] {
        assert_eq!(oauth(fields), expected, "{fields}");
    }
    let oauth = oauth(
        r#""oauth": {"clientId": "me", "privateKey": "pem", "grant": "clientCredentials", "callbackPort": 7000, "authServerMetadataUrl": "https://a/.well-known/oauth-authorization-server/tenant"}"#,
    );
    assert_eq!(oauth.grant, Grant::ClientCredentials);
    assert_eq!(oauth.callback_port, Some(7000));
    assert!(!oauth.per_principal);
    assert_eq!(oauth.issuer.as_deref(), Some("https://a/tenant"));
}

#[test]
fn credentials_of_an_entry_leave_no_room_for_a_login() {
    for fields in [r#""oauth": false"#, r#""oauth": {"enabled": false}"#] {
        let launch = http(&format!(r#"{{"url": "http://h", {fields}}}"#));
        assert_eq!(launch.sign_in, SignIn::HeadersOnly, "{fields}");
    }
    for fields in [
        r#""bearerToken": "t""#,
        r#""headers": {"Authorization": "Basic x"}"#,
    ] {
        let launch = http(&format!(r#"{{"url": "http://h", {fields}}}"#));
        assert!(launch.has_authorization(), "{fields}");
    }
    assert_snapshot!(entry_findings(r#"{"url": "http://h", "bearerToken": "t", "oauth": true}"#), @"warning config.json:2:50: mcpServers.s.oauth: not used: the entry has credentials of its own");
}

#[test]
fn settings_of_a_login_that_cannot_work_are_errors() {
    let findings =
        |oauth: &str| entry_findings(&format!(r#"{{"url": "http://h", "oauth": {oauth}}}"#));
    assert_snapshot!(findings(r#"{"clientSecret": "s"}"#), @"problem config.json:2:30: mcpServers.s.oauth: `clientSecret` belongs to a `clientId`");
    assert_snapshot!(findings(r#"{"privateKey": "k"}"#), @"problem config.json:2:30: mcpServers.s.oauth: `privateKey` belongs to a `clientId` or a `clientMetadataUrl`");
    assert_snapshot!(findings(r#"{"clientId": "c", "grant": "clientCredentials"}"#), @"problem config.json:2:30: mcpServers.s.oauth: the grant `clientCredentials` needs a `clientId`, and a `clientSecret` or a `privateKey`");
    assert_snapshot!(findings(r#"{"clientId": "c", "clientSecret": "s", "grant": "clientCredentials", "perPrincipal": true}"#), @"problem config.json:2:30: mcpServers.s.oauth: `perPrincipal` needs the grant `person`: the credentials of `clientCredentials` are the same for all");
    assert_snapshot!(findings(r#"{"clientMetadataUrl": "http://h/c.json"}"#), @"problem config.json:2:30: mcpServers.s.oauth: `clientMetadataUrl` must be an `https://` URL, at which the document lies");
    assert_snapshot!(findings(r#"{"callbackPort": 0, "issuer": "nowhere", "grant": "me", "clientID": "c"}"#), @r#"
    problem config.json:2:47: mcpServers.s.oauth.callbackPort: expected a whole number from 1 to 65535
    problem config.json:2:60: mcpServers.s.oauth.issuer: the URL must begin with http:// or https://
    problem config.json:2:80: mcpServers.s.oauth.grant: expected "person" or "clientCredentials", found "me"
    warning config.json:2:86: mcpServers.s.oauth.clientID: unknown key (did you mean `clientId`?)
    "#);
    assert_snapshot!(entry_findings(r#"{"command": "x", "oauth": {"clientId": "c"}}"#), @"warning config.json:2:27: mcpServers.s.oauth: not used by a stdio server");
}

#[test]
fn editors_names_for_folders_are_known_or_named() {
    let entry = r#"{"command": "x", "args": ["${workspaceFolder}/src", "${workspaceFolderBasename}", "${userHome}", "a${/}b"]}"#;
    let expected = ["/srv/app/src", "app", "/home/me", "a/b"];
    for path in ["/srv/app/.vscode/mcp.json", "/srv/app/.cursor/mcp.json"] {
        assert_eq!(args_at(path, entry), expected, "{path}");
    }
    let findings_of =
        |text: &str| entry_findings(&format!(r#"{{"command": "x", "args": ["{text}"]}}"#));
    assert_snapshot!(findings_of("${workspaceFolder}/src"), @r#"problem config.json:2:27: mcpServers.s.args[0]: "workspaceFolder" stands for the folder that is open in an editor, which is not known here (write what it stands for, or give a default: ${workspaceFolder:-…})"#);
    assert_snapshot!(findings_of("${extensionPath}${/}x"), @r#"problem config.json:2:27: mcpServers.s.args[0]: "extensionPath" stands for the folder of an extension of Gemini CLI, which is not known here (write what it stands for, or give a default: ${extensionPath:-…})"#);
    assert_snapshot!(findings_of("${command:pick}"), @"problem config.json:2:27: mcpServers.s.args[0]: unknown kind of reference ${command:…} (only an editor knows what it stands for; write that itself)");
    assert_snapshot!(findings_of("$PROJECT_DIR$/src"), @r#"problem config.json:2:27: mcpServers.s.args[0]: "$PROJECT_DIR$" stands for the project's folder, which is not known here (write the path itself)"#);
    // The home folder is not a project.
    let (_, found) = at(
        "/home/me/.cursor/mcp.json",
        r#"{"command": "x", "args": ["${workspaceFolder}"]}"#,
    );
    assert!(found.starts_with("problem "), "{found}");
    assert_eq!(
        stdio(r#"{"command": "x", "args": ["${workspaceFolder:-/srv}"]}"#).args,
        ["/srv"]
    );
    let entry =
        r#"{"command": "x", "args": ["${workspaceFolder}"], "env": {"workspaceFolder": "/w"}}"#;
    assert_eq!(stdio(entry).args, ["/w"]);
    let jetbrains = r#"{"command": "x", "args": ["$PROJECT_DIR$/src", "$USER_HOME$"]}"#;
    for path in ["/srv/app/.idea/mcp.json", "/srv/app/.junie/mcp/mcp.json"] {
        assert_eq!(
            args_at(path, jetbrains),
            ["/srv/app/src", "/home/me"],
            "{path}"
        );
    }
}

#[test]
fn a_plain_variable_is_one_for_gemini_only() {
    let entry = r#"{"command": "x", "args": ["$TOKEN", "a-$TOKEN-b", "pa$word", "$5"]}"#;
    let expected = ["t0ken", "a-t0ken-b", "pa$word", "$5"];
    assert_eq!(
        args_at(
            "/srv/app/.gemini/settings.json",
            &entry.replace(r#", "$5""#, "")
        ),
        expected[..3]
    );
    let (_, found) = at(
        "/home/me/.gemini/settings.json",
        r#"{"command": "x", "env": {"KEY": "$NOPE"}}"#,
    );
    assert!(found.contains("variable \"NOPE\" is not set"), "{found}");
    assert_snapshot!(entry_findings(r#"{"command": "x", "env": {"KEY": "$TOKEN"}, "args": ["$HOME/src", "pa$word", "$5"]}"#), @"
    warning config.json:2:33: mcpServers.s.env.KEY: `$` and a name are taken as they stand here (${NAME} stands for a variable)
    warning config.json:2:53: mcpServers.s.args[0]: `$` and a name are taken as they stand here (${NAME} stands for a variable)
    ");
}

#[test]
fn a_command_is_one_word_and_not_mainstay_itself() {
    assert_snapshot!(entry_findings(r#"{"command": "npx -y server"}"#), @r#"problem config.json:2:13: mcpServers.s.command: a command is a program without its arguments (put what follows "npx" into `args`, 2 of them)"#);
    assert_snapshot!(entry_findings(r#"{"command": "/opt/My Server/run"}"#), @r#"warning config.json:2:13: mcpServers.s.command: a command is a program without its arguments (put what follows "/opt/My" into `args`, 1 of them)"#);
    for program in [
        r"C:\\Program Files\\nodejs\\node.exe",
        "c:/Program Files (x86)/a b/npx.CMD",
    ] {
        assert_eq!(
            entry_findings(&format!(r#"{{"command": "{program}"}}"#)),
            "",
            "{program}"
        );
    }
    for line in [
        r"C:\\node.exe server.js",
        r"C:\\a\\node.exe C:\\b\\x.exe",
        "C:server one.exe",
    ] {
        let found = entry_findings(&format!(r#"{{"command": "{line}"}}"#));
        assert!(found.contains("without its arguments"), "{line}: {found}");
    }
    assert_snapshot!(entry_findings(r#"{"command": "x", "cwd": "/missing/folder"}"#), @"warning config.json:2:25: mcpServers.s.cwd: there is no such folder; the server cannot start without it");
    let same_file = "problem config.json:2:13: mcpServers.s.command: this starts Mainstay on this same file, which would start it again (take the entry out: clients have it, Mainstay does not)\n";
    let other = "warning config.json:2:13: mcpServers.s.command: this starts another Mainstay (it is refused if that one reads this file)\n";
    let check = |fields: &str, expected: &str| {
        let found = entry_findings(&format!(r#"{{"command": "mainstay", {fields}}}"#));
        assert_eq!(found, expected, "{fields}");
    };
    check(
        r#""args": ["mcp", "--config", "/etc/mainstay/config.json"]"#,
        same_file,
    );
    check(
        r#""args": ["serve", "--config=/etc/mainstay/config.json"]"#,
        same_file,
    );
    check(
        r#""args": ["mcp", "--config", "config.json"], "cwd": "/etc/mainstay""#,
        same_file,
    );
    check(
        r#""args": ["mcp"], "env": {"MAINSTAY_CONFIG": "/etc/mainstay/config.json"}"#,
        same_file,
    );
    // A child does not get the variables of this Mainstay.
    check(r#""args": ["mcp"]"#, other);
    check(r#""args": ["mcp", "--config", "/srv/other.json"]"#, other);
    check(r#""args": ["--version"]"#, "");
    let usual = read(
        "/home/me/.config/mainstay/config.json",
        r#"{"mcpServers": {"s": {"command": "/usr/bin/mainstay", "args": ["mcp"]}}}"#,
    )
    .unwrap();
    assert_eq!(usual.config.problems().count(), 1);
    assert_snapshot!(entry_findings(r#"{"url": "http://localhost:7420/mcp"}"#), @"warning config.json:2:9: mcpServers.s.url: Mainstay itself listens at this address, unless it is told otherwise (a Mainstay that is led back to itself refuses the server)");
}

/// A key that restricts a server in another client restricts it here, or keeps it from running.
#[test]
fn keys_that_restrict_are_never_ignored() {
    let off = |entry: &str| {
        let server = server(entry);
        (server.enabled, server.auto_start)
    };
    assert_eq!(off(r#"{"command": "x", "isActive": false}"#), (false, true));
    assert_eq!(off(r#"{"command": "x", "isActive": true}"#), (true, true));
    assert_eq!(
        off(r#"{"command": "x", "start_on_launch": false}"#),
        (true, false)
    );
    let suppressed = r#"{"command": "x", "anythingllm": {"autoStart": false, "suppressedTools": ["a"]}, "suppressedTools": ["b"]}"#;
    assert_eq!(off(suppressed), (true, false));
    let withheld = server(suppressed).withheld;
    assert!(withheld.has("a") && withheld.has("b") && !withheld.has("c"));
    for key in [
        "disabled_prompts",
        "disabled_resources",
        "include_tags",
        "exclude_tags",
    ] {
        let found = entry_findings(&format!(r#"{{"command": "x", "{key}": ["a"]}}"#));
        assert!(found.contains("problem ") && found.contains(key), "{found}");
        let nothing = format!(r#"{{"command": "x", "{key}": []}}"#);
        assert_eq!(entry_findings(&nothing), "");
    }
    let found = entry_findings(r#"{"command": "x", "sandbox": true}"#);
    assert!(
        found.contains("Mainstay has no sandbox for servers"),
        "{found}"
    );

    let chosen = |choice: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"command": "x"}}, "b c": {{"command": "x"}}}}, "mcp": {choice}}}"#
        );
        let servers = read("config.json", &text).unwrap().config.servers;
        servers
            .iter()
            .map(|server| server.enabled)
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(r#"{"excluded": ["a"]}"#), [false, true]);
    assert_eq!(chosen(r#"{"excluded": ["b c"]}"#), [true, false]);
    assert_eq!(chosen(r#"{"allowed": ["a"]}"#), [true, false]);
    assert_eq!(
        chosen(r#"{"allowed": ["a", "b-c"], "excluded": ["a"]}"#),
        [false, true]
    );
    assert_eq!(chosen(r#"{"allowed": []}"#), [false, false]);
}

#[test]
fn a_variable_that_is_null_is_not_inherited() {
    let launch = stdio(r#"{"command": "x", "env": {"HOME": null, "A": "1"}}"#);
    assert!(launch.unset.contains("HOME") && launch.unset.len() == 1);
    assert_eq!(launch.env.len(), 1);
}

#[test]
fn a_variable_inside_a_text_is_named_as_what_it_is() {
    let warns = |entry: &str| {
        let found = entry_findings(entry);
        found.contains("taken as they stand here") || {
            assert_eq!(found, "", "{entry}");
            false
        }
    };
    for (entry, expected) in [
        (
            r#"{"url": "http://h/", "headers": {"Authorization": "Bearer $GTOKEN"}}"#,
            true,
        ),
        (r#"{"command": "x", "args": ["--t=$GTOKEN"]}"#, true),
        (r#"{"command": "x", "env": {"A": "key=$GTOKEN"}}"#, true),
        (r#"{"url": "http://h/mcp?key=$GTOKEN&x=1"}"#, true),
        (
            r#"{"command": "sh", "args": ["-c", "exec x --t=$GTOKEN"]}"#,
            false,
        ),
        (r#"{"command": "x", "env": {"A": "pa$$word =$x"}}"#, false),
    ] {
        assert_eq!(warns(entry), expected, "{entry}");
    }
}

#[test]
fn files_whose_programs_read_comments_may_have_them() {
    let text = "{\n// mine\n\"servers\": {\"s\": {\"command\": \"x\"},}}";
    for path in [
        "/p/.vscode/mcp.json",
        "/h/.config/Code/User/mcp.json",
        "/p/.cursor/mcp.json",
        "/p/.gemini/settings.json",
        "/p/.zed/settings.json",
    ] {
        assert_eq!(read(path, text).unwrap().config.servers.len(), 1, "{path}");
    }
    assert!(read("/p/mcp.json", text).is_err());
}

#[test]
fn yaml_and_toml_are_known_by_extension_and_first_line() {
    for (file, text, expected) in [
        ("a.json", "- name: x\n  command: y\n", "this is YAML"),
        (
            "a.json",
            "\"mcpServers\":\n  a:\n    command: x\n",
            "this is YAML, with servers in `mcpServers`",
        ),
        (
            "a.json",
            "extensions: # mine\n  a:\n",
            "this is YAML, with servers in `extensions`",
        ),
        ("a.yaml", "? odd\n", "this is YAML"),
        (
            "a.json",
            "\"model\" = \"x\"\n[mcp_servers.a]\n",
            "this is TOML, with servers in `mcp_servers`",
        ),
        ("a.toml", "'x'.y = 1\n", "this is TOML"),
        (
            "config.json",
            r#"{"experimental": {"modelContextProtocolServers": []}}"#,
            "this is a config.json of Continue",
        ),
        (
            "a.json",
            r#"{"mcp": {"a": {"enabled": false}}}"#,
            "this is a configuration of opencode",
        ),
        (
            "a.json",
            r#"{"$schema": "https://opencode.ai/config.json", "mcp": {"a": {}}}"#,
            "this is a configuration of opencode",
        ),
        (
            "a.json",
            r#"{"$schema": "https://charm.land/crush.json", "mcp": {"a": {"enabled": true}}}"#,
            "the servers stand in `mcp`, as Crush",
        ),
    ] {
        let found = findings_in(file, text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

/// `tools` of an agent of Amazon Q or Kiro.
#[test]
fn an_agent_has_what_it_names_of_its_servers() {
    let check = |tools: &str, enabled: bool, visible: &[&str]| {
        let text =
            format!(r#"{{"mcpServers": {{"my files": {{"command": "x"}}}}, "tools": {tools}}}"#);
        let server = read("agent.json", &text).unwrap().config.servers.remove(0);
        assert_eq!(server.enabled, enabled, "{tools}");
        let mut found = vec!["read", "write"];
        found.retain(|tool| !server.withheld.has(tool));
        assert_eq!(found, visible, "{tools}");
    };
    check(r#"["*"]"#, true, &["read", "write"]);
    check(r#"["fs_read", "@my files"]"#, true, &["read", "write"]);
    check(r#"["@my files/*"]"#, true, &["read", "write"]);
    check(r#"["@my files/read", "shell"]"#, true, &["read"]);
    check(r#"["@my filesystem/read"]"#, false, &[]);
    check(r#"["fs_read", "@builtin"]"#, false, &[]);
    check(r#"["@my files/re*"]"#, false, &[]);
    check("[]", false, &[]);
    // Gemini CLI has an object there.
    check(r#"{"core": ["read"]}"#, true, &["read", "write"]);
}
