//! What the commands share that start servers, or have them started: where to listen, how often silent servers
//! are asked, and what is odd about a configuration.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use mainstay_platform::environment::{Clients, Loaded, Origin};

use super::stderr::complain;

/// How often silent servers are asked, for all commands that start servers.
#[derive(Clone, Copy, Debug, Args)]
pub struct HealthInterval {
    /// Ask a silent server after this many seconds, 0 is never; what the file says wins
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    health_interval: Option<u64>,
}

impl HealthInterval {
    pub const fn is_given(self) -> bool {
        self.health_interval.is_some()
    }

    /// A configuration that is read with this in mind.
    pub fn origin(self, flag: Option<PathBuf>, clients: Clients) -> Origin {
        let interval = |seconds| (seconds > 0).then(|| Duration::from_secs(seconds));
        Origin {
            flag,
            health_interval: self.health_interval.map(interval),
            clients,
        }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("expected ADDRESS:PORT, such as 127.0.0.1:7420 or [::1]:7420")]
pub struct BadAddress;

/// An address to listen on: `127.0.0.1:7420`, `localhost:0`.
pub fn address(text: &str) -> Result<SocketAddr, BadAddress> {
    let text = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| BadAddress)
}

/// Says on stderr what is wrong or odd about a configuration that can be used.
pub fn tell_findings(loaded: &Loaded) {
    for finding in loaded.findings() {
        complain(&finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_localhost() {
        for (text, expected) in [
            ("127.0.0.1:7420", "127.0.0.1:7420"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(address(text).expect(text).to_string(), expected);
        }
        for text in ["", "7420", "localhost", "example.com:80", "127.0.0.1:99999"] {
            address(text).expect_err(text);
        }
    }
}
