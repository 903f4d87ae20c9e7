//! Derives a name for a server without a name, from its package, image, script or host.

use mainstay_config::edit::Entry;
use mainstay_core::programs;
use serde_json::Value;

const FALLBACK: &str = "server";

/// Common prefixes and suffixes in the names of server packages.
const PREFIXES: [&str; 5] = ["mcp-server-", "mcp_server_", "server-", "mcp-", "mcp_"];
const SUFFIXES: [&str; 6] = [
    "-mcp-server",
    "_mcp_server",
    "-server-mcp",
    "-mcp",
    "_mcp",
    "-server",
];

/// Names of scripts that do not identify the server.
const PLAIN: [&str; 12] = [
    "index", "main", "server", "cli", "app", "run", "start", "dist", "build", "src", "mcp", "bin",
];

pub(super) fn of_entry(entry: &Entry) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let args = entry.get("args").and_then(Value::as_array);
    let args: Vec<&str> = args
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let name = match (text("command"), text("url")) {
        (Some(command), _) => of_command(command, &args),
        (None, Some(url)) => of_url(url),
        (None, None) => None,
    };
    name.unwrap_or_else(|| FALLBACK.to_owned())
}

fn of_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = host.split(':').next().unwrap_or_default();
    let is_plain = |label: &&str| !matches!(*label, "www" | "mcp" | "api" | "" | "sse");
    let labels: Vec<&str> = host.split('.').filter(is_plain).collect();
    let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    match labels.as_slice() {
        _ if is_number || host.is_empty() || host.starts_with('[') => None,
        [] => None,
        [only] => Some((*only).to_owned()),
        // Take the label before the last one, which is the site's name: `example` of
        // `docs.example.com`.
        labels => Some(labels[labels.len() - 2].to_owned()),
    }
}

fn of_command(command: &str, args: &[&str]) -> Option<String> {
    let program = programs::program_name(command).to_ascii_lowercase();
    match program.as_str() {
        "npx" | "bunx" | "pnpx" | "uvx" | "dnx" => package(args),
        "npm" | "pnpm" | "yarn" | "bun" | "pipx" => {
            let runs = ["exec", "x", "dlx", "run"];
            let at = args.iter().position(|arg| runs.contains(arg))?;
            package(&args[at + 1..])
        }
        "uv" => {
            let at = args.iter().position(|arg| matches!(*arg, "run" | "x"))?;
            package(&args[at + 1..])
        }
        "docker" | "podman" => image(args),
        "cmd" => {
            let at = args.iter().position(|arg| arg.eq_ignore_ascii_case("/c"))?;
            let (command, args) = args[at + 1..].split_first()?;
            // Do not follow a `cmd` inside a `cmd`.
            match programs::program_name(command)
                .to_ascii_lowercase()
                .as_str()
            {
                "cmd" => None,
                _ => of_command(command, args),
            }
        }
        "python" | "python3" | "py" => match args.iter().position(|arg| *arg == "-m") {
            Some(at) => args.get(at + 1).and_then(|module| bare(module)),
            None => script(args),
        },
        "node" | "deno" | "tsx" | "java" | "dotnet" | "ruby" | "php" | "sh" | "bash" | "go" => {
            script(args)
        }
        name => bare(name),
    }
}

/// The package that a runner runs: the value of `-p` or `--from`, or the first word.
fn package(args: &[&str]) -> Option<String> {
    let takes_value = |arg: &str| {
        matches!(
            arg,
            "-p" | "--package"
                | "--from"
                | "--with"
                | "--directory"
                | "--python"
                | "-c"
                | "--registry"
        )
    };
    let mut after = "";
    let mut named = None;
    for arg in args {
        let value_of = std::mem::replace(&mut after, arg);
        if arg.starts_with('-') {
            continue;
        }
        match value_of {
            "-p" | "--package" | "--from" => named = named.or(Some(*arg)),
            _ if takes_value(value_of) => {}
            _ => return bare(named.unwrap_or(arg)),
        }
    }
    bare(named?)
}

/// The image of a `docker run` command.
fn image(args: &[&str]) -> Option<String> {
    let at = args.iter().position(|arg| *arg == "run")?;
    let takes_value = |arg: &str| {
        let long = [
            "--env",
            "--env-file",
            "--name",
            "--volume",
            "--mount",
            "--network",
            "--publish",
            "--user",
            "--workdir",
            "--entrypoint",
            "--platform",
            "--label",
            "--add-host",
            "--memory",
            "--cpus",
            "--gpus",
            "--pull",
        ];
        matches!(arg, "-e" | "-v" | "-p" | "-u" | "-w" | "-l" | "-m") || long.contains(&arg)
    };
    let mut after = "";
    for arg in &args[at + 1..] {
        let value_of = std::mem::replace(&mut after, arg);
        if arg.starts_with('-') || takes_value(value_of) {
            continue;
        }
        return bare(arg);
    }
    None
}

/// The script that an interpreter runs. Returns its name, or its folder's name if the script's name
/// says nothing.
fn script(args: &[&str]) -> Option<String> {
    let is_script = |arg: &&&str| !arg.starts_with('-') && !matches!(**arg, "run" | "-jar");
    let path = args.iter().find(is_script)?;
    let mut parts = path.rsplit(['/', '\\']);
    let file = parts.next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let is_telling = |part: &&str| {
        !part.is_empty() && !PLAIN.contains(part) && !part.starts_with(['.', '~', '$'])
    };
    let part = std::iter::once(stem).chain(parts).find(is_telling);
    part.and_then(bare)
}

/// Returns the bare name of a package: `filesystem` for
/// `@modelcontextprotocol/server-filesystem@1.2`.
fn bare(package: &str) -> Option<String> {
    let package = package.strip_prefix("git+").unwrap_or(package);
    let package = package.split(['?', '#']).next().unwrap_or_default();
    let (scope, name) = match package.rsplit_once('/') {
        Some((scope, name)) => (scope.rsplit('/').next().unwrap_or_default(), name),
        None => ("", package),
    };
    // Cut off the version, the tag of an image, the extras of a Python package, or the extension of
    // a repository.
    let at = name
        .char_indices()
        .skip(1)
        .find(|(_, c)| matches!(c, '@' | ':' | '[' | '=' | '<' | '>' | '~'));
    let name = at.map_or(name, |(at, _)| &name[..at]);
    let name = name.strip_suffix(".git").unwrap_or(name);
    let short = trimmed(name);
    let chosen = if short.is_empty() || PLAIN.contains(&short) {
        let scope = scope.trim_start_matches('@');
        let scope = trimmed(scope);
        if scope.is_empty() { name } else { scope }
    } else {
        short
    };
    let chosen = chosen.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

fn trimmed(name: &str) -> &str {
    let name = PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    SUFFIXES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(command: &str, expected: &str) {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let args: Vec<&str> = words.collect();
        let entry = json!({"command": program, "args": args});
        let name = of_entry(entry.as_object().expect("an entry"));
        assert_eq!(name, expected, "{command}");
    }

    #[test]
    fn a_name_is_what_the_package_does() {
        check(
            "npx -y @modelcontextprotocol/server-filesystem@1.2 /x",
            "filesystem",
        );
        check("npx @playwright/mcp@latest", "playwright");
        check("npx -y -p some-mcp mcp", "some");
        check("uvx mcp-server-git --repository x", "git");
        check(
            "uvx --from git+https://github.com/o/thing.git thing-mcp",
            "thing",
        );
        check("pnpm dlx @scope/docs-mcp", "docs");
        check("uv --directory /x run weather.py", "weather.py");
        check(
            "docker run -i --rm -e KEY ghcr.io/github/github-mcp-server:latest stdio",
            "github",
        );
        check("docker run -i mcp/time", "time");
        check("node /home/me/weather/build/index.js", "weather");
        check("python -m mcp_server_time", "time");
        check("cmd /c npx -y tavily-mcp", "tavily");
        check("/opt/bin/thing.exe --x", "thing");
        check("npx", "server");
        check("cmd /c", "server");
    }

    #[test]
    fn a_url_has_the_name_of_its_site() {
        let check = |url: &str, expected: &str| {
            let entry = json!({"url": url});
            assert_eq!(
                of_entry(entry.as_object().expect("an entry")),
                expected,
                "{url}"
            );
        };
        check("https://mcp.linear.app/sse", "linear");
        check("https://api.githubcopilot.com/mcp/", "githubcopilot");
        check("http://localhost:3000/mcp", "localhost");
        check("http://127.0.0.1:3000/mcp", "server");
        check("http://[::1]/mcp", "server");
        check("https://user:pass@docs.example.com", "example");
        check("https://", "server");
    }
}
