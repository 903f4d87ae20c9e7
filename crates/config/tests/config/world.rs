//! A fake environment for the parser, and functions that render the results.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use mainstay_config::{ConfigSource, Environment, Parsed, UnreadableFile, UnreadableSecret, parse};
use mainstay_core::config::{ConfigError, HttpLaunch, Launch, Secret, ServerConfig, StdioLaunch};

/// An environment, a home and files that exist only here.
#[derive(Default)]
pub struct ConfigWorld {
    pub vars: HashMap<&'static str, &'static str>,
    pub files: HashMap<&'static str, &'static str>,
    pub secrets: HashMap<&'static str, &'static str>,
    pub home: Option<&'static str>,
}

impl ConfigWorld {
    pub fn usual() -> Self {
        Self {
            vars: [
                ("TOKEN", "t0ken"),
                ("EMPTY", ""),
                ("PATH", "/usr/bin"),
                ("SNEAKY", "${TOKEN}"),
                ("MAINSTAY_CONFIG", "/etc/mainstay/config.json"),
                ("INPUT_API_KEY", "asked"),
            ]
            .into(),
            files: [
                ("/etc/mainstay/token.txt", "from file\n"),
                ("/etc/mainstay/crlf.txt", "from file\r\n"),
                ("/etc/mainstay/two.txt", "a\n\n"),
                ("/home/me/token.txt", "at home"),
                ("/srv/app/.env", "# keys\nKEY=from file\nOWN=from file\n"),
                ("/etc/mainstay/bad.env", "A=1\nnothing\n"),
            ]
            .into(),
            secrets: [("github", "k3pt-secret"), ("empty", "")].into(),
            home: Some("/home/me"),
        }
    }
}

impl Environment for ConfigWorld {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).map(ToString::to_string)
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        let text = path.to_str().and_then(|path| self.files.get(path));
        text.map(ToString::to_string).ok_or(UnreadableFile::Absent)
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        if name == "sealed" {
            let reason = "the key of the vault is gone from the system's keyring";
            return Err(UnreadableSecret::Vault(reason.to_owned()));
        }
        let secret = self.secrets.get(name);
        secret
            .map(|text| Secret::new(*text))
            .ok_or(UnreadableSecret::Absent)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.home.map(PathBuf::from)
    }

    fn has_folder(&self, path: &Path) -> bool {
        !path.starts_with("/missing")
    }
}

/// Parses a file of this name in `/etc/mainstay`, or at this path.
pub fn read(file: &str, text: &str) -> Result<Parsed, Vec<ConfigError>> {
    let path = Path::new("/etc/mainstay").join(file);
    parse(text, &ConfigSource::file(&path), &ConfigWorld::usual()).map_err(|errors| errors.0)
}

/// All findings in `config.json`, one on each line, as the command line prints them.
pub fn findings(text: &str) -> String {
    findings_in("config.json", text)
}

pub fn findings_in(file: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut add =
        |kind, finding: &ConfigError| writeln!(lines, "{kind} {}", finding.at(file)).unwrap();
    match read(file, text) {
        Err(errors) => errors.iter().for_each(|error| add("error", error)),
        Ok(parsed) => {
            parsed
                .config
                .problems()
                .for_each(|(_, problem)| add("problem", problem));
            parsed
                .warnings
                .iter()
                .for_each(|warning| add("warning", warning));
        }
    }
    lines
}

/// Parses a file with this entry, which must have no findings, and returns its only server.
pub fn server(entry: &str) -> ServerConfig {
    let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
    assert_eq!(findings(&text), "", "{entry}");
    read("config.json", &text).unwrap().config.servers.remove(0)
}

/// The findings in an entry called `s`.
pub fn entry_findings(entry: &str) -> String {
    findings(&format!("{{\"mcpServers\": {{\"s\":\n{entry}}}}}"))
}

pub fn stdio(entry: &str) -> StdioLaunch {
    match server(entry).launch {
        Launch::Stdio(launch) => launch,
        other => panic!("not stdio: {other:?}"),
    }
}

pub fn http(entry: &str) -> HttpLaunch {
    match server(entry).launch {
        Launch::Http(launch) => launch,
        other => panic!("not http: {other:?}"),
    }
}
