//! Finds the command that installs a missing launcher, such as `uvx`.

use std::{env, ffi::OsStr, path::Path};

use mainstay_core::programs;

/// A package manager, and the first words of its install command.
struct Manager {
    program: &'static str,
    command: &'static str,
}

const fn manager(program: &'static str, command: &'static str) -> Manager {
    Manager { program, command }
}

/// Package managers, in the order of preference.
const MANAGERS: [Manager; 7] = [
    manager("brew", "brew install"),
    manager("winget", "winget install"),
    manager("apt-get", "sudo apt-get install"),
    manager("dnf", "sudo dnf install"),
    manager("pacman", "sudo pacman -S"),
    manager("zypper", "sudo zypper install"),
    manager("apk", "sudo apk add"),
];

/// The command that installs the program on this machine, if one is known.
pub fn command(program: &str) -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    command_on(program, |manager| is_in(&path, manager))
}

fn is_in(path: &OsStr, program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::split_paths(path).any(|folder| folder.join(&name).is_file())
}

fn command_on(program: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let program = Path::new(program).file_name()?.to_str()?;
    let package = programs::package_for(program)?.name;
    // Prefer the publishers' scripts: they work everywhere, and few distributions have a package.
    let script = match package {
        "uv" => Some("curl -LsSf https://astral.sh/uv/install.sh | sh"),
        "Bun" => Some("curl -fsSL https://bun.com/install | bash"),
        "Deno" => Some("curl -fsSL https://deno.land/install.sh | sh"),
        _ => None,
    };
    let manager = MANAGERS.iter().find(|manager| has(manager.program));
    let name = manager.and_then(|manager| name_of(package, manager.program));
    match (manager, name, script) {
        (Some(manager), Some(name), _) => Some(format!("{} {name}", manager.command)),
        (_, None, Some(script)) if !cfg!(windows) => Some(script.to_owned()),
        _ => None,
    }
}

/// The name of a package in a package manager.
fn name_of(package: &str, manager: &str) -> Option<&'static str> {
    Some(match (package, manager) {
        ("Node.js", "brew") => "node",
        ("Node.js", "winget") => "OpenJS.NodeJS.LTS",
        ("Node.js", "dnf") => "nodejs-npm",
        ("Node.js", "zypper") => "npm-default",
        ("Node.js", "apt-get" | "pacman" | "apk") => "npm",
        ("uv", "brew") => "uv",
        ("uv", "winget") => "astral-sh.uv",
        ("Python", "winget") => "Python.Python.3.13",
        ("Python", "pacman" | "brew") => "python",
        ("Python", _) => "python3",
        ("pipx", "pacman") => "python-pipx",
        ("pipx", "zypper") => "python3-pipx",
        ("pipx", "brew" | "apt-get" | "dnf" | "apk") => "pipx",
        ("Docker", "apt-get") => "docker.io",
        ("Docker", "pacman" | "zypper" | "apk") => "docker",
        ("Docker", "brew") => "--cask docker-desktop",
        ("Docker", "winget") => "Docker.DockerDesktop",
        ("Podman", "winget") => "RedHat.Podman",
        ("Podman", _) => "podman",
        ("Deno", "brew") => "deno",
        ("Deno", "winget") => "DenoLand.Deno",
        ("Bun", "winget") => "Oven-sh.Bun",
        ("Yarn", "brew") => "yarn",
        ("pnpm", "brew") => "pnpm",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_of_the_machine() {
        let on = |program, manager: &str| command_on(program, |name| name == manager);
        assert_eq!(
            on("npx", "apt-get").as_deref(),
            Some("sudo apt-get install npm")
        );
        assert_eq!(
            on("/usr/bin/python3", "dnf").as_deref(),
            Some("sudo dnf install python3")
        );
        assert_eq!(on("uvx", "brew").as_deref(), Some("brew install uv"));
        if cfg!(unix) {
            let script = "curl -LsSf https://astral.sh/uv/install.sh | sh";
            assert_eq!(on("uvx", "apt-get").as_deref(), Some(script));
            assert_eq!(on("uvx", "none").as_deref(), Some(script));
        }
        assert_eq!(on("npx", "none"), None);
        assert_eq!(on("my-server", "apt-get"), None);
    }
}
