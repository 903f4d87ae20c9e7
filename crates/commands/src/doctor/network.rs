//! Checks the network: proxies that the environment names and Mainstay does not use.

use std::path::Path;

use mainstay_core::{
    config::{Config, Launch},
    proxy::{self, Place},
};

use super::finding::{DoctorFinding, quoted};

/// A finding for each server that other programs would reach through a proxy.
pub fn unused_proxies(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<DoctorFinding> {
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let finding = |(name, url): (&str, &str)| {
        let place = Place::from_url(url)?;
        let variable = proxy::unused(place, &variable)?;
        Some(
            DoctorFinding::note("network.proxy_unused", proxy::unused_message(variable))
                .about(name)
                .consequence("where a firewall lets nothing through but the proxy, the server cannot be reached")
                .mend(format!("curl --noproxy '*' -sSI {}  # whether it can", quoted(Path::new(&origin(place))))),
        )
    };
    enabled
        .filter_map(|server| match &server.launch {
            Launch::Http(http) => Some((server.name.as_str(), http.url.as_str())),
            Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => None,
        })
        .filter_map(finding)
        .collect()
}

/// The URL without its path and query, which may hold keys.
fn origin(place: Place<'_>) -> String {
    let Place {
        is_encrypted,
        host,
        port,
    } = place;
    let scheme = if is_encrypted { "https" } else { "http" };
    if host.contains(':') {
        format!("{scheme}://[{host}]:{port}/")
    } else {
        format!("{scheme}://{host}:{port}/")
    }
}
