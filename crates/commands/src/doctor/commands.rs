//! Checks the commands of servers: their paths, their versions, and the PATH that is searched.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use mainstay_core::{
    config::{Config, Launch, StdioLaunch},
    redact::Secrets,
};
use mainstay_platform::blocking::try_off_the_runtime;
use mainstay_transport::{self as transport, Resolution, Variables};
use tokio::{process::Command, time::timeout};

use super::{
    super::programs::Program,
    finding::{DoctorFinding, edit},
    install,
};

/// Programs that start servers, and for which `--version` only prints the version. Other programs are never
/// run with `--version`, because a server may interpret the option.
const LAUNCHERS: [&str; 15] = [
    "bun", "bunx", "deno", "docker", "node", "npm", "npx", "pipx", "pnpm", "podman", "python",
    "python3", "uv", "uvx", "yarn",
];

/// The time limit of `--version`. `npx` starts Node, which is slow on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Programs that run on Node.
const ON_NODE: [&str; 4] = ["npm", "npx", "pnpm", "yarn"];

/// The oldest major version of Node that MCP servers run on.
const MIN_NODE: u32 = 18;

/// The maximum number of programs that run at a time.
const AT_ONCE: usize = 4;

/// The maximum length of a version line, in bytes.
const MAX_LINE: usize = 120;

/// The maximum number of PATH folders in the text for people.
const SHOWN_FOLDERS: usize = 4;

/// A server's command and its program. The program is looked up in the same way as when the server
/// starts.
struct LookedUp {
    server: String,
    command: String,
    program: Program,
    /// Secrets to hide in texts, because the command may come from a reference to a secret.
    secrets: Option<Secrets>,
}

impl LookedUp {
    /// A text about the command, without secrets.
    fn redacted(&self, text: String) -> String {
        match &self.secrets {
            Some(secrets) => secrets.hide(&text).into_owned(),
            None => text,
        }
    }
}

pub async fn check(config: &Config, path: Option<&Path>) -> Vec<DoctorFinding> {
    let stdio_launches: Vec<(String, StdioLaunch, Option<Secrets>)> = config
        .servers
        .iter()
        .filter(|server| server.enabled)
        .filter_map(|server| match &server.launch {
            Launch::Stdio(launch) => {
                let secrets = Secrets::from_config(server);
                Some((server.name.to_string(), launch.clone(), secrets))
            }
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => None,
        })
        .collect();
    // Do not block the runtime: the lookup reads folders, and may run a login shell.
    let looked_up =
        try_off_the_runtime(|| stdio_launches.into_iter().map(look_up).collect::<Vec<_>>());
    let looked_up = looked_up.await.unwrap_or_default();
    let mut findings = paths(&looked_up, path);
    let mut launchers: BTreeMap<PathBuf, &Variables> = BTreeMap::new();
    for command in &looked_up {
        match command.program.place() {
            None => findings.push(missing(command, path)),
            Some(program) if is_launcher(&command.command) => {
                launchers
                    .entry(program)
                    .or_insert(&command.program.variables);
                if let Some(node) = node_of(command) {
                    launchers.entry(node).or_insert(&command.program.variables);
                }
            }
            Some(_) => {}
        }
    }
    let versions = launchers
        .into_iter()
        .map(|(program, variables)| async move {
            let version = version(&program, variables).await;
            (program, version)
        });
    let versions: BTreeMap<_, _> = stream::iter(versions)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    findings.extend(
        looked_up
            .iter()
            .filter_map(|command| old_node(command, &versions)),
    );
    findings.extend(silent_docker(&looked_up).await);
    findings.extend(looked_up.iter().filter_map(|command| {
        let program = command.program.place()?;
        Some(found(command, &program, versions.get(&program)))
    }));
    findings
}

fn look_up((server, launch, secrets): (String, StdioLaunch, Option<Secrets>)) -> LookedUp {
    LookedUp {
        server,
        secrets,
        program: Program::look_up(&launch),
        command: launch.command,
    }
}

fn stem(command: &str) -> &OsStr {
    Path::new(command).file_stem().unwrap_or_default()
}

fn is_launcher(command: &str) -> bool {
    LAUNCHERS.iter().any(|launcher| stem(command) == *launcher)
}

/// The path of the Node that a server's command runs on.
fn node_of(looked: &LookedUp) -> Option<PathBuf> {
    if stem(&looked.command) == "node" {
        return looked.program.place();
    }
    if !ON_NODE.iter().any(|name| stem(&looked.command) == *name) {
        return None;
    }
    match transport::resolve("node", looked.program.search_path()) {
        Resolution::Found(node) => Some(node),
        Resolution::AsGiven(_) | Resolution::NotFound(_) => None,
    }
}

/// A finding about a Node that is too old for MCP servers.
fn old_node(
    looked: &LookedUp,
    versions: &BTreeMap<PathBuf, Result<String, String>>,
) -> Option<DoctorFinding> {
    let node = node_of(looked)?;
    let version = versions.get(&node)?.as_ref().ok()?;
    let (major, _) = version.strip_prefix('v')?.split_once('.')?;
    if major.parse::<u32>().ok()? >= MIN_NODE {
        return None;
    }
    let message = format!(
        "Node at {} is {version}, and MCP servers need {MIN_NODE} or later",
        node.display()
    );
    Some(
        DoctorFinding::error("command.old", message)
            .about(&looked.server)
            .consequence("the server ends with a syntax error, or misses what it needs")
            .mend(format!(
                "node --version  # install Node {MIN_NODE} or later from https://nodejs.org, or put a newer one first in PATH"
            )),
    )
}

/// A finding about a server that needs Docker while Docker's daemon does not run.
async fn silent_docker(looked: &[LookedUp]) -> Option<DoctorFinding> {
    let mut with_docker = looked
        .iter()
        .filter(|command| stem(&command.command) == "docker");
    let first = with_docker.find_map(|command| Some((command, command.program.place()?)));
    let (looked, program) = first?;
    let version = Command::new(program)
        .args(["version", "--format", "{{.Server.Version}}"])
        .env_clear()
        .envs(&looked.program.variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, version).await.ok()?.ok()?;
    if output.status.success() {
        return None;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("it says nothing").trim();
    let end = line.floor_char_boundary(MAX_LINE.min(line.len()));
    let start = if cfg!(target_os = "linux") {
        "sudo systemctl start docker  # or start Docker Desktop"
    } else {
        "start Docker Desktop"
    };
    Some(
        DoctorFinding::error(
            "docker.stopped",
            format!("Docker's own daemon does not answer: {}", &line[..end]),
        )
        .about(&looked.server)
        .consequence("no server runs in a container without it")
        .mend(start),
    )
}

/// Findings about each PATH, with the servers that use it.
fn paths(looked: &[LookedUp], file: Option<&Path>) -> Vec<DoctorFinding> {
    let mut paths: BTreeMap<&OsStr, Vec<&str>> = BTreeMap::new();
    for command in looked {
        paths
            .entry(command.program.search_path())
            .or_default()
            .push(&command.server);
    }
    let finding = |(path, servers): (&OsStr, Vec<&str>)| {
        let folders = env::split_paths(path).map(|folder| folder.display().to_string());
        let folders: Vec<String> = folders.filter(|folder| !folder.is_empty()).collect();
        let servers = servers.join(", ");
        if folders.is_empty() {
            return DoctorFinding::warning("command.path", format!("PATH of {servers} is empty"))
                .consequence("no program is found by its name")
                .mend(edit(
                    file,
                    "take PATH out of the servers' `env`, or name programs by their whole paths",
                ));
        }
        let finding = DoctorFinding::ok(
            "command.path",
            format!("PATH of {servers}: {}", folders.join(":")),
        );
        match folders.len().checked_sub(SHOWN_FOLDERS) {
            None | Some(0) => finding,
            Some(rest) => finding.brief(format!(
                "PATH of {servers}: {} and {rest} more, which --json shows",
                folders[..SHOWN_FOLDERS].join(":")
            )),
        }
    };
    paths.into_iter().map(finding).collect()
}

fn missing(looked: &LookedUp, file: Option<&Path>) -> DoctorFinding {
    let LookedUp {
        server,
        command,
        program,
        secrets: _,
    } = looked;
    let finding = match &program.resolution {
        Resolution::AsGiven(path) => DoctorFinding::error(
            "command.missing",
            looked.redacted(format!("there is no program {}", path.display())),
        )
        .mend(edit(
            file,
            "correct `command` in its entry, or install the program",
        )),
        Resolution::Found(_) | Resolution::NotFound(_) => {
            let searched = transport::looked_in(program.search_path(), 6);
            DoctorFinding::error(
                "command.missing",
                looked.redacted(format!("command not found: {command}; {searched}")),
            )
            .mend(install::command(command).unwrap_or_else(|| {
                let comment = format!(
                    "correct `command` in its entry, or {}",
                    transport::remedy(command)
                );
                edit(file, &comment)
            }))
        }
    };
    finding
        .about(server)
        .consequence("the server cannot be started")
}

fn found(
    looked: &LookedUp,
    program: &Path,
    version: Option<&Result<String, String>>,
) -> DoctorFinding {
    let program = program.display();
    let message = |rest: &str| format!("{} is {program}{rest}", looked.command);
    match version {
        Some(Ok(version)) => DoctorFinding::ok("command.found", message(&format!(", {version}"))),
        None => DoctorFinding::ok("command.found", message("")),
        Some(Err(reason)) => {
            DoctorFinding::warning("command.broken", message(&format!(", and {reason}")))
                .consequence("the server is started by it")
                .mend(format!(
                    "{program} --version  # {}",
                    transport::remedy(&looked.command)
                ))
        }
    }
    .about(&looked.server)
}

/// The first line of the output of `program --version`, run with the server's variables.
async fn version(program: &Path, variables: &Variables) -> Result<String, String> {
    let output = Command::new(program)
        .arg("--version")
        .env_clear()
        .envs(variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(LIMIT, output).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("it cannot be run: {error}")),
        Err(_) => {
            return Err(format!(
                "`--version` takes longer than {} s",
                LIMIT.as_secs()
            ));
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) if output.status.success() => {
            let end = line.floor_char_boundary(MAX_LINE.min(line.len()));
            Ok(line[..end].to_owned())
        }
        _ => Err(format!("`--version` fails ({})", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_launchers_are_run() {
        for (command, expected) in [
            ("npx", true),
            ("/usr/bin/python3", true),
            ("uvx.exe", true),
            ("./server.py", false),
            ("my-npx", false),
            ("mcp-server-git", false),
        ] {
            assert_eq!(is_launcher(command), expected, "{command}");
        }
    }
}
