//! Checks that only the owner can change directories and files.
//!
//! A person who can write to the state directory, or rename it, could present a false daemon to commands and
//! read the token that they send to it. Every directory on the path is therefore checked.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The reason that a file or directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error("{} belongs to user {owner}, and Mainstay runs as user {user}", path.display())]
    Owner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
    #[error("others can write to {} (mode {mode:04o})", path.display())]
    Writable {
        path: PathBuf,
        mode: u32,
        /// True if the directory is not the used one, but lies on the path to it.
        leads_there: bool,
    },
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("{} is not a regular file", .0.display())]
    NotFile(PathBuf),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Untrusted {
    /// The hint for the user: the next step.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Owner { .. } => Some(
                "run Mainstay as that user, or set MAINSTAY_HOME to a directory of your own"
                    .to_owned(),
            ),
            Self::Writable {
                path,
                leads_there: false,
                ..
            } => Some(format!(
                "see that nobody has changed what is in it, then run: chmod {} '{}'",
                if path.is_dir() { "700" } else { "600" },
                path.display()
            )),
            Self::Writable { path, .. } => Some(format!(
                "run: chmod go-w '{}', or set MAINSTAY_HOME to a directory of your own",
                path.display()
            )),
            Self::NotDirectory(path) | Self::NotFile(path) => {
                Some(format!("remove {}", path.display()))
            }
            Self::Io(_) => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Untrusted> for io::Error {
    fn from(error: Untrusted) -> Self {
        match error {
            Untrusted::Io(error) => error,
            other => Self::new(io::ErrorKind::PermissionDenied, other),
        }
    }
}

#[cfg(unix)]
pub use unix::{configuration, directory, file};

/// On other systems a home folder belongs to its user from the start, so only existence is checked.
#[cfg(not(unix))]
pub fn directory(path: &Path) -> Result<(), Untrusted> {
    fs::metadata(path)?;
    Ok(())
}

#[cfg(not(unix))]
pub fn configuration(path: &Path) -> Result<(), Untrusted> {
    fs::metadata(path)?;
    Ok(())
}

#[cfg(not(unix))]
pub fn file(_path: &Path, file: &fs::File) -> Result<(), Untrusted> {
    file.metadata()?;
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::VecDeque,
        ffi::OsString,
        fs::{File, Metadata},
        os::unix::fs::MetadataExt as _,
    };

    use super::{Path, PathBuf, Untrusted, fs, io};

    /// The maximum number of links on the path to a directory. Linux has the same limit.
    const MAX_LINKS: usize = 40;
    const ROOT: u32 = 0;
    const STICKY: u32 = 0o1000;
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;

    /// Checks that only this user can write to a directory, and that no other user can replace it. Each
    /// directory above it must belong to this user or root, and so must each link on the path. A directory
    /// that others can write to must be sticky, as `/tmp` is. In a sticky directory they can rename only
    /// their own files.
    pub fn directory(path: &Path) -> Result<(), Untrusted> {
        let (at, found) = led_to(path)?;
        ours(&at, &found)
    }

    /// Checks that only this user and root can write to a configuration file, and that no other user can
    /// replace it. In a container, the owner of a mounted file is not checked, because the container has no
    /// other users.
    pub fn configuration(path: &Path) -> Result<(), Untrusted> {
        let path = std::path::absolute(path)?;
        let is_alone = is_container();
        let (at, found) = match led_to(&path) {
            Err(Untrusted::Owner { .. }) if is_alone => return Ok(()),
            led => led?,
        };
        // A pipe is safe, because only the shell that opened it writes to it.
        if !found.is_file() {
            return Ok(());
        }
        if !is_alone {
            ours_or_root(&at, &found)?;
        }
        if is_written_by_others(&at, &found) {
            return Err(writable(&at, &found, false));
        }
        Ok(())
    }

    /// True if this process runs in a container of Docker, Podman or Kubernetes.
    fn is_container() -> bool {
        ["/.dockerenv", "/run/.containerenv"]
            .iter()
            .any(|mark| Path::new(mark).exists())
            || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
    }

    /// Resolves a path and checks each directory on it.
    fn led_to(path: &Path) -> Result<(PathBuf, Metadata), Untrusted> {
        let mut names: VecDeque<OsString> = names(path).collect();
        let mut at = PathBuf::from("/");
        let mut links = 0;
        above(&at, &fs::symlink_metadata(&at)?)?;
        while let Some(name) = names.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(name);
            let found = fs::symlink_metadata(&next)?;
            if found.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::from(rustix::io::Errno::LOOP).into());
                }
                ours_or_root(&next, &found)?;
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let rest = std::mem::take(&mut names);
                names = self::names(&target).chain(rest).collect();
                continue;
            }
            at = next;
            if !names.is_empty() {
                above(&at, &found)?;
            }
        }
        let found = fs::symlink_metadata(&at)?;
        Ok((at, found))
    }

    /// Checks that an open file is a regular file, belongs to this user, and cannot be written by other
    /// users.
    pub fn file(path: &Path, file: &File) -> Result<(), Untrusted> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(Untrusted::NotFile(path.to_owned()));
        }
        owned(path, &found)?;
        if found.mode() & (GROUP_WRITES | OTHERS_WRITE) == 0 {
            return Ok(());
        }
        Err(writable(path, &found, false))
    }

    fn names(path: &Path) -> impl Iterator<Item = OsString> {
        use std::path::Component::{Normal, ParentDir};
        let names = path.components().filter_map(|part| match part {
            Normal(name) => Some(name.to_owned()),
            ParentDir => Some("..".into()),
            _ => None,
        });
        names.collect::<Vec<_>>().into_iter()
    }

    fn ours(path: &Path, found: &Metadata) -> Result<(), Untrusted> {
        if !found.is_dir() {
            return Err(Untrusted::NotDirectory(path.to_owned()));
        }
        owned(path, found)?;
        if is_written_by_others(path, found) {
            return Err(writable(path, found, false));
        }
        Ok(())
    }

    fn above(path: &Path, found: &Metadata) -> Result<(), Untrusted> {
        if !found.is_dir() {
            return Err(Untrusted::NotDirectory(path.to_owned()));
        }
        ours_or_root(path, found)?;
        if found.mode() & STICKY == 0 && is_written_by_others(path, found) {
            return Err(writable(path, found, true));
        }
        Ok(())
    }

    fn owned(path: &Path, found: &Metadata) -> Result<(), Untrusted> {
        let user = rustix::process::geteuid().as_raw();
        if found.uid() == user {
            return Ok(());
        }
        Err(Untrusted::Owner {
            path: path.to_owned(),
            owner: found.uid(),
            user,
        })
    }

    fn ours_or_root(path: &Path, found: &Metadata) -> Result<(), Untrusted> {
        if found.uid() == ROOT {
            return Ok(());
        }
        owned(path, found)
    }

    fn writable(path: &Path, found: &Metadata, leads_there: bool) -> Untrusted {
        Untrusted::Writable {
            path: path.to_owned(),
            mode: found.mode() & 0o7777,
            leads_there,
        }
    }

    fn is_written_by_others(path: &Path, found: &Metadata) -> bool {
        let mode = found.mode();
        mode & OTHERS_WRITE != 0
            || mode & GROUP_WRITES != 0 && (has_acl(path) || !is_private_group(found.gid()))
    }

    /// True if the file has an access control list. The group bits of the mode then apply to all users on the
    /// list.
    fn has_acl(path: &Path) -> bool {
        #[cfg(target_os = "linux")]
        {
            let mut nothing: [u8; 0] = [];
            let name = "system.posix_acl_access";
            matches!(rustix::fs::lgetxattr(path, name, &mut nothing), Ok(1..))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = path;
            true
        }
    }

    /// True if the group belongs to one user. Many systems give each user a group, and let groups write to
    /// new directories.
    fn is_private_group(group: u32) -> bool {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let user = rustix::process::geteuid().as_raw();
        is_of_one(user, group, &read("/etc/passwd"), &read("/etc/group"))
    }

    /// True if the files of users and groups show that the group contains only this user. Users from other
    /// sources, such as LDAP, are not in these files, so their groups do not count.
    fn is_of_one(user: u32, group: u32, passwd: &str, groups: &str) -> bool {
        let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let users: Vec<Vec<String>> = passwd.lines().map(fields).collect();
        let in_it =
            |fields: &&Vec<String>| fields.get(3).is_some_and(|id| *id == group.to_string());
        let mut members = users.iter().filter(in_it);
        let (Some(only), None) = (members.next(), members.next()) else {
            return false;
        };
        if only.get(2).is_none_or(|id| *id != user.to_string()) {
            return false;
        }
        let groups: Vec<Vec<String>> = groups.lines().map(fields).collect();
        let mut matching = groups
            .iter()
            .filter(|fields| fields.get(2).is_some_and(|id| *id == group.to_string()));
        let (Some(found), None) = (matching.next(), matching.next()) else {
            return false;
        };
        let members = found.get(3).map(String::as_str).unwrap_or_default();
        members.is_empty() || members == only[0]
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_group_is_private_where_nobody_else_is_in_it() {
            let passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nalan:x:1001:1001::/h:/bin/sh\n";
            for (groups, expected) in [
                ("ada:x:1000:\n", true),
                ("ada:x:1000:ada\n", true),
                ("ada:x:1000:alan\n", false),
                ("ada:x:1000:ada,alan\n", false),
                ("ada:x:1000:\nalso:x:1000:alan\n", false),
                ("", false),
            ] {
                assert_eq!(is_of_one(1000, 1000, passwd, groups), expected, "{groups}");
            }
            let shared = format!("{passwd}grace:x:1002:1000::/h:/bin/sh\n");
            assert!(!is_of_one(1000, 1000, &shared, "ada:x:1000:\n"));
            assert!(!is_of_one(1001, 1000, passwd, "ada:x:1000:\n"));
        }
    }
}
