//! The commands of servers: where they are, which version, and the PATH in which they are looked up.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use mainstay_core::config::{Config, Launch, StdioLaunch};
use mainstay_platform::blocking::try_off_the_runtime;
use mainstay_transport::{self as transport, Resolution, Variables};
use tokio::{process::Command, time::timeout};

use super::{
    super::programs::Program,
    finding::{Finding, edit},
    install,
};

/// Programs that start servers, and that print their version and nothing else with `--version`. Other
/// programs are never run to ask them: a server might take the option for an order.
const LAUNCHERS: [&str; 15] = [
    "bun", "bunx", "deno", "docker", "node", "npm", "npx", "pipx", "pnpm", "podman", "python",
    "python3", "uv", "uvx", "yarn",
];

/// `npx` starts Node, which takes a while on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Programs that run on Node.
const ON_NODE: [&str; 4] = ["npm", "npx", "pnpm", "yarn"];

/// The oldest Node that MCP servers run on.
const LEAST_NODE: u32 = 18;

/// Programs that are asked at once.
const AT_ONCE: usize = 4;

/// The longest line of a version.
const LONGEST: usize = 120;

/// Folders of a PATH that people are shown.
const SHOWN_FOLDERS: usize = 4;

/// A server's command, looked up as its start does.
struct Looked {
    server: String,
    command: String,
    program: Program,
}

pub async fn check(config: &Config, path: Option<&Path>) -> Vec<Finding> {
    let launches: Vec<(String, StdioLaunch)> = config
        .servers
        .iter()
        .filter(|server| server.enabled)
        .filter_map(|server| match &server.launch {
            Launch::Stdio(launch) => Some((server.name.to_string(), launch.clone())),
            Launch::Http(_) | Launch::Broken(_) | Launch::Unapproved => None,
        })
        .collect();
    // A login shell may be asked, and folders are read.
    let looked = try_off_the_runtime(|| launches.into_iter().map(look_up).collect::<Vec<_>>());
    let looked = looked.await.unwrap_or_default();
    let mut findings = paths(&looked, path);
    let mut asked: BTreeMap<PathBuf, &Variables> = BTreeMap::new();
    for it in &looked {
        match it.program.place() {
            None => findings.push(missing(it, path)),
            Some(program) if is_launcher(&it.command) => {
                asked.entry(program).or_insert(&it.program.variables);
                if let Some(node) = node_of(it) {
                    asked.entry(node).or_insert(&it.program.variables);
                }
            }
            Some(_) => {}
        }
    }
    let versions = asked.into_iter().map(|(program, variables)| async move {
        let version = version(&program, variables).await;
        (program, version)
    });
    let versions: BTreeMap<_, _> = stream::iter(versions)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    findings.extend(looked.iter().filter_map(|it| old_node(it, &versions)));
    findings.extend(silent_docker(&looked).await);
    findings.extend(looked.iter().filter_map(|it| {
        let program = it.program.place()?;
        Some(found(it, &program, versions.get(&program)))
    }));
    findings
}

fn look_up((server, launch): (String, StdioLaunch)) -> Looked {
    Looked {
        server,
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

/// The Node on which a server's command runs.
fn node_of(looked: &Looked) -> Option<PathBuf> {
    if stem(&looked.command) == "node" {
        return looked.program.place();
    }
    if !ON_NODE.iter().any(|it| stem(&looked.command) == *it) {
        return None;
    }
    match transport::resolve("node", looked.program.search_path()) {
        Resolution::Found(node) => Some(node),
        Resolution::AsGiven(_) | Resolution::NotFound(_) => None,
    }
}

/// A Node that is too old for MCP servers.
fn old_node(
    looked: &Looked,
    versions: &BTreeMap<PathBuf, Result<String, String>>,
) -> Option<Finding> {
    let node = node_of(looked)?;
    let version = versions.get(&node)?.as_ref().ok()?;
    let (major, _) = version.strip_prefix('v')?.split_once('.')?;
    if major.parse::<u32>().ok()? >= LEAST_NODE {
        return None;
    }
    let what = format!(
        "Node at {} is {version}, and MCP servers need {LEAST_NODE} or later",
        node.display()
    );
    Some(
        Finding::error("command.old", what)
            .of(&looked.server)
            .why("the server ends with a syntax error, or misses what it needs")
            .mend(format!(
                "node --version  # install Node {LEAST_NODE} or later from https://nodejs.org, or put a newer one first in PATH"
            )),
    )
}

/// Docker without its daemon, which the first server of it needs.
async fn silent_docker(looked: &[Looked]) -> Option<Finding> {
    let mut of_docker = looked.iter().filter(|it| stem(&it.command) == "docker");
    let first = of_docker.find_map(|it| Some((it, it.program.place()?)));
    let (looked, program) = first?;
    let asked = Command::new(program)
        .args(["version", "--format", "{{.Server.Version}}"])
        .env_clear()
        .envs(&looked.program.variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, asked).await.ok()?.ok()?;
    if output.status.success() {
        return None;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("it says nothing").trim();
    let end = line.floor_char_boundary(LONGEST.min(line.len()));
    let start = if cfg!(target_os = "linux") {
        "sudo systemctl start docker  # or start Docker Desktop"
    } else {
        "start Docker Desktop"
    };
    Some(
        Finding::error(
            "docker.stopped",
            format!("Docker's own daemon does not answer: {}", &line[..end]),
        )
        .of(&looked.server)
        .why("no server runs in a container without it")
        .mend(start),
    )
}

/// The PATHs, each with the servers that have it.
fn paths(looked: &[Looked], file: Option<&Path>) -> Vec<Finding> {
    let mut paths: BTreeMap<&OsStr, Vec<&str>> = BTreeMap::new();
    for it in looked {
        paths
            .entry(it.program.search_path())
            .or_default()
            .push(&it.server);
    }
    let finding = |(path, servers): (&OsStr, Vec<&str>)| {
        let folders = env::split_paths(path).map(|folder| folder.display().to_string());
        let folders: Vec<String> = folders.filter(|folder| !folder.is_empty()).collect();
        let servers = servers.join(", ");
        if folders.is_empty() {
            return Finding::warning("command.path", format!("PATH of {servers} is empty"))
                .why("no program is found by its name")
                .mend(edit(
                    file,
                    "take PATH out of the servers' `env`, or name programs by their whole paths",
                ));
        }
        let finding = Finding::ok(
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

fn missing(looked: &Looked, file: Option<&Path>) -> Finding {
    let Looked {
        server,
        command,
        program,
    } = looked;
    let finding = match &program.resolution {
        Resolution::AsGiven(path) => Finding::error(
            "command.missing",
            format!("there is no program {}", path.display()),
        )
        .mend(edit(
            file,
            "correct `command` in its entry, or install the program",
        )),
        Resolution::Found(_) | Resolution::NotFound(_) => {
            let looked = transport::looked_in(program.search_path(), 6);
            Finding::error(
                "command.missing",
                format!("command not found: {command}; {looked}"),
            )
            .mend(install::command(command).unwrap_or_else(|| {
                let what = format!(
                    "correct `command` in its entry, or {}",
                    transport::remedy(command)
                );
                edit(file, &what)
            }))
        }
    };
    finding.of(server).why("the server cannot be started")
}

fn found(looked: &Looked, program: &Path, version: Option<&Result<String, String>>) -> Finding {
    let program = program.display();
    let what = |rest: &str| format!("{} is {program}{rest}", looked.command);
    match version {
        Some(Ok(version)) => Finding::ok("command.found", what(&format!(", {version}"))),
        None => Finding::ok("command.found", what("")),
        Some(Err(why)) => Finding::warning("command.broken", what(&format!(", and {why}")))
            .why("the server is started by it")
            .mend(format!(
                "{program} --version  # {}",
                transport::remedy(&looked.command)
            )),
    }
    .of(&looked.server)
}

/// The first line of `program --version`, with the variables that the server has.
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
            let end = line.floor_char_boundary(LONGEST.min(line.len()));
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
