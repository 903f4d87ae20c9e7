//! Checks the listener's certificate: its validity, its names, and who can read its key (`http.tls`).

use std::{path::Path, time::SystemTime};

use mainstay_command_line::output;
use mainstay_core::{
    certificate::{CertificateAge, CertificateFacts},
    config::{Config, ListenerTls},
};
use mainstay_platform::{
    listener_tls::{TlsTexts, UnusableTls},
    utc,
};

use super::finding::{DoctorFinding, quoted};

/// Maximum number of names in a finding.
const SHOWN_NAMES: usize = 5;

/// Reads the files.
pub fn check(config: &Config) -> Vec<DoctorFinding> {
    let Some(tls) = &config.tls else {
        return Vec::new();
    };
    let now = SystemTime::now();
    let mut findings = match TlsTexts::read(tls).usable(now) {
        Ok(usable) => of_usable(config, tls, &usable.facts, now),
        Err(error) => vec![unusable(&error)],
    };
    findings.extend(key_permissions(
        tls.key.as_ref().unwrap_or(&tls.certificate),
    ));
    findings
}

fn unusable(error: &UnusableTls) -> DoctorFinding {
    DoctorFinding::error("tls.unusable", format!("http.tls.{}: {error}", error.key))
        .consequence("the daemon does not start; one that runs keeps the certificate it has")
        .mend(format!(
            "ls -l {}  # {}",
            quoted(&error.path),
            error.fault.hint()
        ))
}

fn of_usable(
    config: &Config,
    tls: &ListenerTls,
    facts: &CertificateFacts,
    now: SystemTime,
) -> Vec<DoctorFinding> {
    let path = &tls.certificate;
    let end = utc::rfc3339(facts.not_after);
    let validity = match facts.age(now) {
        CertificateAge::EndsSoon | CertificateAge::EndsVerySoon | CertificateAge::Expired => {
            let days = usize::try_from(facts.days_left(now)).unwrap_or(usize::MAX);
            let days = output::count(days, "day");
            let message = format!(
                "the certificate {} expires in {days}, at {end}",
                path.display()
            );
            DoctorFinding::warning("tls.expires", message)
                .consequence("clients and browsers refuse an expired certificate")
                .mend(format!(
                    "ls -l {}  # renew it: a running daemon takes new files into use by itself",
                    quoted(path)
                ))
        }
        CertificateAge::NotYetValid | CertificateAge::Fresh => {
            let message = format!(
                "the certificate {} is valid until {end}, for {}",
                path.display(),
                names(facts)
            );
            DoctorFinding::ok("tls.certificate", message)
        }
    };
    let missing = hosts(config).filter(|(_, host)| !facts.covers(host));
    let missing = missing.map(|(setting, host)| {
        let message = format!("the certificate {} is not for {host}", path.display());
        DoctorFinding::warning("tls.name", message)
            .consequence("clients and browsers that use this name refuse the certificate")
            .mend(format!(
                "ls -l {}  # have a certificate issued for {host}, too, or correct `{setting}`",
                quoted(path)
            ))
    });
    std::iter::once(validity).chain(missing).collect()
}

fn names(facts: &CertificateFacts) -> String {
    let names: Vec<String> = facts.names.iter().map(ToString::to_string).collect();
    match names.len() {
        0 => "no name".to_owned(),
        count if count > SHOWN_NAMES => {
            let first = names[..SHOWN_NAMES].join(", ");
            format!("{first} and {} more", count - SHOWN_NAMES)
        }
        _ => names.join(", "),
    }
}

/// The hosts under which the configuration says that Mainstay is reached, with the setting that says so.
fn hosts(config: &Config) -> impl Iterator<Item = (&'static str, &str)> {
    let public = config.public_url.as_deref().map(host);
    let allowed = config.allowed_hosts.iter().map(String::as_str);
    let allowed = allowed.filter(|host| *host != "*");
    let public = public.map(|host| ("http.publicUrl", host));
    public
        .into_iter()
        .chain(allowed.map(|host| ("http.allowedHosts", host.trim_matches(['[', ']']))))
}

/// The host of a checked URL without a path.
fn host(url: &str) -> &str {
    let authority = url
        .split_once("://")
        .map_or(url, |(_, authority)| authority);
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// A finding about a private key that others can read.
#[cfg(unix)]
fn key_permissions(path: &Path) -> Option<DoctorFinding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & 0o004 != 0).then(|| {
        let message = format!("every user can read the private key {}", path.display());
        DoctorFinding::warning("tls.key_readable", message)
            .consequence("who has the key can pass for this Mainstay")
            .mend(format!("chmod o-r {}", quoted(path)))
    })
}

#[cfg(not(unix))]
fn key_permissions(_path: &Path) -> Option<DoctorFinding> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_are_those_of_the_settings() {
        let config = Config {
            public_url: Some("https://gate.example:8443".to_owned()),
            allowed_hosts: vec!["a.example".to_owned(), "*".to_owned(), "[::1]".to_owned()],
            ..Config::default()
        };
        let hosts: Vec<&str> = hosts(&config).map(|(_, host)| host).collect();
        assert_eq!(hosts, ["gate.example", "a.example", "::1"]);
        assert_eq!(host("https://[2001:db8::1]:1"), "2001:db8::1");
    }
}
