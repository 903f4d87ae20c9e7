//! Programs that start servers, and the packages that install them.

mod caches;

pub use self::caches::{BrokenCache, CachedPackage};

/// A package that installs programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: &'static str,
    /// The page with installation instructions.
    pub url: &'static str,
}

/// Returns the package that installs `program`, which is a name without a folder. Windows file
/// extensions are ignored.
pub fn package_for(program: &str) -> Option<Package> {
    let program = stem(program).to_ascii_lowercase();
    let (name, url) = match &*program {
        "node" | "npm" | "npx" => ("Node.js", "https://nodejs.org"),
        "uv" | "uvx" => ("uv", "https://docs.astral.sh/uv"),
        "docker" => ("Docker", "https://docs.docker.com/get-started/get-docker"),
        "podman" => ("Podman", "https://podman.io"),
        "bun" | "bunx" => ("Bun", "https://bun.sh"),
        "deno" => ("Deno", "https://deno.com"),
        "pnpm" | "pnpx" => ("pnpm", "https://pnpm.io/installation"),
        "yarn" => ("Yarn", "https://yarnpkg.com"),
        "python" | "python3" | "pip" | "pip3" => ("Python", "https://www.python.org"),
        "pipx" => ("pipx", "https://pipx.pypa.io"),
        "poetry" => ("Poetry", "https://python-poetry.org"),
        "go" => ("Go", "https://go.dev"),
        "cargo" => ("Rust", "https://rustup.rs"),
        "java" => ("Java", "https://adoptium.net"),
        "dotnet" | "dnx" => (".NET", "https://dotnet.microsoft.com"),
        _ => return None,
    };
    Some(Package { name, url })
}

/// Returns the program of a command, without folder and Windows file extension.
pub fn program_name(command: &str) -> &str {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    stem(name)
}

fn stem(name: &str) -> &str {
    let stem = name.rsplit_once('.').filter(|(_, extension)| {
        let extensions = ["exe", "cmd", "bat"];
        extensions
            .iter()
            .any(|known_extension| extension.eq_ignore_ascii_case(known_extension))
    });
    stem.map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_installed_by_its_package() {
        for (package, programs) in [
            ("Node.js", "node npm npx npx.cmd NPX.EXE"),
            ("uv", "uv uvx uvx.exe"),
            ("Docker", "docker"),
            ("Podman", "podman"),
            ("Bun", "bun bunx"),
            ("Deno", "deno"),
            ("pnpm", "pnpm pnpx"),
            ("Yarn", "yarn"),
            ("Python", "python python3 pip pip3"),
            ("pipx", "pipx"),
            ("Poetry", "poetry"),
            ("Go", "go"),
            ("Rust", "cargo"),
            ("Java", "java"),
            (".NET", "dotnet dnx"),
        ] {
            for program in programs.split(' ') {
                let package_name = package_for(program).map(|package| package.name);
                assert_eq!(package_name, Some(package), "{program}");
            }
        }
        for program in ["my-server", "nodejs.org", "npx.sh", ""] {
            assert_eq!(package_for(program), None, "{program}");
        }
    }

    #[test]
    fn a_command_names_a_program() {
        for (command, name) in [
            ("npx", "npx"),
            ("/usr/bin/node", "node"),
            (r"C:\Program Files\nodejs\NPX.CMD", "NPX"),
            (".exe", ""),
            ("é", "é"),
        ] {
            assert_eq!(program_name(command), name, "{command}");
        }
    }
}
