//! Checks the network: the proxies on the way to servers.

use mainstay_core::{
    config::{Config, HttpLaunch, Launch},
    proxy::{self, ChosenProxy, Place, ProxySource, ProxyVariables, UnusableProxy},
};

use super::finding::DoctorFinding;

/// A note for each proxy, with the servers that use it, and an error for each server whose proxy setting is
/// unusable.
pub fn proxies(config: &Config, variables: &ProxyVariables) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let mut chosen_proxies: Vec<(ChosenProxy, Vec<&str>)> = Vec::new();
    for server in config.servers.iter().filter(|server| server.enabled) {
        let name = server.name.as_str();
        let chosen = match &server.launch {
            Launch::Http(launch) => choose(launch, variables),
            Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => continue,
        };
        let chosen = match chosen {
            Ok(Some(chosen)) => chosen,
            Ok(None) => continue,
            Err(error) => {
                findings.push(
                    DoctorFinding::error("network.proxy_unusable", error.to_string()).about(name),
                );
                continue;
            }
        };
        match chosen_proxies
            .iter_mut()
            .find(|(proxy, _)| *proxy == chosen)
        {
            Some((_, servers)) => servers.push(name),
            None => chosen_proxies.push((chosen, vec![name])),
        }
    }
    findings.extend(
        chosen_proxies
            .into_iter()
            .map(|(chosen, servers)| note(&chosen, &servers)),
    );
    findings
}

fn choose(
    launch: &HttpLaunch,
    variables: &ProxyVariables,
) -> Result<Option<ChosenProxy>, UnusableProxy> {
    match Place::from_url(&launch.url) {
        Some(place) => proxy::choose(&launch.network.proxy, variables, place),
        None => Ok(None),
    }
}

fn note(chosen: &ChosenProxy, servers: &[&str]) -> DoctorFinding {
    let verb = if servers.len() == 1 { "is" } else { "are" };
    let servers = servers.join(", ");
    let message = format!("{servers} {verb} reached through {chosen}");
    let finding = DoctorFinding::note("network.proxy", message);
    match chosen.source {
        ProxySource::Setting => finding,
        ProxySource::Variable(_) => finding
            .consequence("a daemon uses the proxies of the environment in which it was started"),
    }
}
