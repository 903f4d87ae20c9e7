//! Finds the files of clients on this machine.

use mainstay_config::UnreadableFile;
use mainstay_platform::files;

use crate::{
    choices::with_choices,
    client::ClientKind,
    machine::Machine,
    places::{ClientFile, files_of},
    read::{FoundServer, servers},
};

/// A client with files on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundClient {
    pub client: ClientKind,
    /// The files that exist, the main one first.
    pub files: Vec<FoundFile>,
}

/// A file that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    pub file: ClientFile,
    /// The text of the file, or the reason why it cannot be read.
    pub text: Result<String, UnreadableFile>,
}

/// A file of a client in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    pub file: ClientFile,
    /// The names of the servers in the file.
    pub labels: Vec<String>,
}

/// Finds the clients with files on this machine. Reads only regular files, and does not wait for a disk
/// that does not respond.
pub fn find(machine: &Machine) -> Vec<FoundClient> {
    let clients = ClientKind::ALL.into_iter();
    let found = clients.map(|client| FoundClient {
        client,
        files: files_of(client, machine)
            .into_iter()
            .map(|file| with_choices(file, machine))
            .filter_map(read)
            .collect(),
    });
    found.filter(|found| !found.files.is_empty()).collect()
}

/// Finds the files of programs that Mainstay replaces. `import` reads these files. No command writes
/// them.
pub fn find_replaced(machine: &Machine) -> Vec<FoundFile> {
    let files = files_of(ClientKind::Unknown, machine).into_iter();
    files.filter_map(read).collect()
}

/// Finds client files in the machine's project with servers that Mainstay could run.
pub fn find_in_project(machine: &Machine) -> Vec<ProjectFile> {
    let clients = ClientKind::ALL.into_iter();
    let files = clients.flat_map(|client| files_of(client, machine));
    let files = files.filter(|file| file.project().is_some());
    let files = files.map(|file| with_choices(file, machine));
    let found = files.filter_map(read).filter_map(|found| {
        let servers = servers(&found.file, found.text.as_ref().ok()?).ok()?;
        let movable = servers.into_iter().filter(FoundServer::is_movable);
        let labels: Vec<String> = movable.map(|server| server.label).collect();
        (!labels.is_empty()).then_some(ProjectFile {
            file: found.file,
            labels,
        })
    });
    found.collect()
}

/// Reads a file. Returns `None` if there is no such file.
pub fn read(file: ClientFile) -> Option<FoundFile> {
    // Check first whether the file exists. Most files do not, and a thread for each file would take
    // long.
    if std::fs::symlink_metadata(&file.path)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    {
        return None;
    }
    match files::configuration(&file.path) {
        Err(UnreadableFile::Absent) => None,
        text => Some(FoundFile { file, text }),
    }
}
