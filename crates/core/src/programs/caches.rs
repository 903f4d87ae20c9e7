//! Packages that `npx`, `uvx` and similar programs download into a cache before they start a
//! server, and error messages about a broken cache.

use super::program_name;

/// Options of npx and similar programs that come before the package and take the next argument as
/// their value.
const NPX_VALUES: [&str; 8] = [
    "-c",
    "--call",
    "-w",
    "--workspace",
    "--registry",
    "--cache",
    "--prefix",
    "--userconfig",
];

/// Like [`NPX_VALUES`], for uvx and similar programs.
const UVX_VALUES: [&str; 16] = [
    "-p",
    "--python",
    "--with",
    "--with-editable",
    "--with-requirements",
    "--index",
    "--default-index",
    "--index-url",
    "-i",
    "--extra-index-url",
    "--find-links",
    "--env-file",
    "--cache-dir",
    "--directory",
    "--project",
    "--config-file",
];

/// Identifies a cached package: the program, and the package as written in the command. Two starts
/// with equal values download the same package into the same cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CachedPackage(String);

/// A program that downloads packages, and the options that name the package.
struct Runner {
    name: &'static str,
    /// Options with the package as value. Without them, the first argument that is not an option is
    /// the package.
    package: &'static [&'static str],
    /// Other options with a value.
    values: &'static [&'static str],
}

const fn npx(name: &'static str) -> Runner {
    Runner {
        name,
        package: &["-p", "--package"],
        values: &NPX_VALUES,
    }
}

const fn uvx(name: &'static str, package: &'static [&'static str]) -> Runner {
    Runner {
        name,
        package,
        values: &UVX_VALUES,
    }
}

impl CachedPackage {
    /// Returns the package that this command downloads before it runs. `None` if there is none.
    pub fn from_command(command: &str, args: &[String]) -> Option<Self> {
        let program = program_name(command).to_ascii_lowercase();
        let args_after = |names: &[&str]| {
            let is_there = args
                .iter()
                .map(String::as_str)
                .take(names.len())
                .eq(names.iter().copied());
            is_there.then(|| &args[names.len()..])
        };
        let (runner, args) = match &*program {
            // Clients on Windows write `cmd /c npx …`.
            "cmd" => {
                let index = args.iter().position(|arg| !arg.starts_with('/'))?;
                return Self::from_command(&args[index], &args[index + 1..]);
            }
            "npx" | "bunx" | "pnpx" => (npx("npx"), args),
            "npm" => (
                npx("npx"),
                args_after(&["exec"]).or_else(|| args_after(&["x"]))?,
            ),
            "pnpm" | "yarn" => (npx("dlx"), args_after(&["dlx"])?),
            "bun" => (npx("bunx"), args_after(&["x"])?),
            "uvx" => (uvx("uvx", &["--from"]), args),
            "uv" => (uvx("uvx", &["--from"]), args_after(&["tool", "run"])?),
            "pipx" => (uvx("pipx", &["--spec"]), args_after(&["run"])?),
            _ => return None,
        };
        let package = runner.package_in(args)?;
        Some(Self(format!("{} {package}", runner.name)))
    }
}

impl Runner {
    fn package_in<'a>(&self, args: &'a [String]) -> Option<&'a str> {
        let mut remaining_args = args.iter().map(String::as_str);
        while let Some(arg) = remaining_args.next() {
            if arg == "--" {
                return remaining_args.next();
            }
            if !arg.starts_with('-') {
                return Some(arg);
            }
            if let Some((option, value)) = arg.split_once('=') {
                if self.package.contains(&option) {
                    return Some(value);
                }
            } else if self.package.contains(&arg) {
                return remaining_args.next();
            } else if self.values.contains(&arg) {
                remaining_args.next();
            }
        }
        None
    }
}

/// A broken package cache, found in a server's stderr, and the command that repairs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenCache {
    /// The cache folder as the server writes it.
    pub folder: String,
    /// A command that empties the folder.
    pub mend: String,
}

/// Error texts of npx and node about package files that are missing, or that another start is
/// replacing.
const NPX_ERRORS: [&str; 7] = [
    "ENOTEMPTY",
    "ENOENT",
    "EEXIST",
    "EBUSY",
    "Cannot find module",
    "Cannot find package",
    "MODULE_NOT_FOUND",
];

/// Like [`NPX_ERRORS`], for uv.
const UV_ERRORS: [&str; 6] = [
    "os error 2",
    "os error 17",
    "os error 39",
    "waiting for lock",
    "acquire lock",
    "ailed to lock",
];

impl BrokenCache {
    /// Searches the last lines of a server's stderr for an error about a broken cache.
    pub fn in_lines<L: AsRef<str>>(lines: &[L]) -> Option<Self> {
        let contain = |phrases: &[&str]| {
            let mut remaining_lines = lines.iter();
            remaining_lines.any(|line| phrases.iter().any(|phrase| line.as_ref().contains(phrase)))
        };
        let find = |folder: fn(&str) -> Option<&str>| {
            lines.iter().find_map(|line| {
                let phrases = line
                    .as_ref()
                    .split(|c: char| c.is_whitespace() || "\"'`(),".contains(c));
                phrases.into_iter().find_map(folder).map(str::to_owned)
            })
        };
        if contain(&NPX_ERRORS)
            && let Some(folder) = find(npx_folder)
        {
            let mend = format!("rm -r {folder}");
            return Some(Self { folder, mend });
        }
        if contain(&UV_ERRORS)
            && let Some(folder) = find(uv_folder)
        {
            let mend = "uv cache clean".to_owned();
            return Some(Self { folder, mend });
        }
        None
    }
}

/// Returns a package's folder in npx's cache, such as `/home/ada/.npm/_npx/5a9d879542beca3a`.
fn npx_folder(path: &str) -> Option<&str> {
    let mut names = ["/_npx/", "\\_npx\\"].iter();
    let index = names.find_map(|name| Some(path.find(name)? + name.len()))?;
    let is_hash = |c: char| c.is_ascii_alphanumeric();
    let length = path[index..].find(|c| !is_hash(c));
    let folder = &path[..index + length.unwrap_or(path.len() - index)];
    (folder.len() > index && is_plain(folder)).then_some(folder)
}

/// True if a path from a server's output is safe in a command that a person pastes.
fn is_plain(path: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/\\:._-@+~".contains(c);
    path.chars().all(is_safe) && !path.contains("..")
}

/// Returns uv's cache folder, such as `/home/ada/.cache/uv`.
fn uv_folder(path: &str) -> Option<&str> {
    let names = ["/.cache/uv", "/Caches/uv", "\\uv\\cache", "/uv/cache"];
    let end = names
        .iter()
        .find_map(|name| Some(path.find(name)? + name.len()))?;
    let folder = &path[..end];
    (path[end..].starts_with(['/', '\\']) && is_plain(folder)).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(command: &str) -> Option<String> {
        let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let package = CachedPackage::from_command(&arguments[0], &arguments[1..])?;
        Some(package.0)
    }

    #[test]
    fn a_command_fetches_a_package() {
        for (command, expected) in [
            ("npx -y @scope/server@1 /data", Some("npx @scope/server@1")),
            ("/usr/bin/npx --yes -- server --port 1", Some("npx server")),
            ("npx -p server bin", Some("npx server")),
            ("npx --package=server bin", Some("npx server")),
            ("npx --registry http://r server", Some("npx server")),
            ("cmd /c npx -y server", Some("npx server")),
            ("npm exec server", Some("npx server")),
            ("npm x server", Some("npx server")),
            ("npm run server", None),
            ("pnpm dlx server", Some("dlx server")),
            ("bun x server", Some("bunx server")),
            ("uvx mcp-server-git", Some("uvx mcp-server-git")),
            (
                "uvx --python 3.12 --from git+https://x mcp",
                Some("uvx git+https://x"),
            ),
            ("uv tool run mcp", Some("uvx mcp")),
            ("uv run server.py", None),
            ("pipx run mcp", Some("pipx mcp")),
            ("node server.js", None),
            ("npx", None),
            ("cmd /c", None),
        ] {
            assert_eq!(package(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn a_broken_cache_is_recognised() {
        for (lines, folder) in [
            (
                &[
                    "npm error code ENOTEMPTY",
                    "npm error path /home/ada/.npm/_npx/5a9d/node_modules/x",
                ][..],
                Some("/home/ada/.npm/_npx/5a9d"),
            ),
            (
                &["Error: Cannot find module '/root/.npm/_npx/5a9d/node_modules/x/dist/index.js'"],
                Some("/root/.npm/_npx/5a9d"),
            ),
            (
                &[
                    r"npm ERR! ENOENT: no such file or directory, lstat 'C:\Users\ada\npm-cache\_npx\5a9d\node_modules'",
                ],
                Some(r"C:\Users\ada\npm-cache\_npx\5a9d"),
            ),
            (
                &[
                    "error: failed to open file `/home/ada/.cache/uv/archive-v0/x/y`: No such file or directory (os error 2)",
                ],
                Some("/home/ada/.cache/uv"),
            ),
            (
                &["Error: ENOENT: no such file or directory, open '/data/x'"],
                None,
            ),
            (
                &["listening in /home/ada/.npm/_npx/5a9d/node_modules/x"],
                None,
            ),
            (&["ENOTEMPTY /_npx/"], None),
            (&["ENOTEMPTY /x;$HOME/_npx/5a9d/y"], None),
            (&["ENOTEMPTY /home/ada/.npm/../_npx/5a9d/y"], None),
            (&["ENOTEMPTY /home/ada/.npm/_npx/../x"], None),
            (&[], None),
        ] {
            let broken_folder = BrokenCache::in_lines(lines).map(|cache| cache.folder);
            assert_eq!(broken_folder.as_deref(), folder, "{lines:?}");
        }
    }
}
