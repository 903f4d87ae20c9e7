//! The listener's TLS, and the proxies in front of it.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

/// The files of the listener's TLS (`http.tls`), all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// The certificate, followed by those of its issuers (`cert`).
    pub certificate: PathBuf,
    /// The private key of the certificate (`key`). `None` if it is in the same file.
    pub key: Option<PathBuf>,
    /// The authorities of client certificates, which are then demanded (`clientCa`).
    pub client_ca: Option<PathBuf>,
}

/// An address, or the addresses with the same first bits: `192.0.2.7`, `10.0.0.0/8`, `fd00::/8`
/// (RFC 4632).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address.
    address: IpAddr,
    /// Number of bits that all addresses share.
    prefix: u8,
}

/// The reason that a text is no range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRange {
    #[error("expected an address or a range, such as 192.0.2.7, 10.0.0.0/8 or fd00::/8")]
    Address,
    #[error("the number behind the / is one from 0 to {most}")]
    Prefix { most: u8 },
    #[error("the address has bits behind the first {prefix}")]
    HostBits { prefix: u8 },
}

impl AddressRange {
    /// True if the address is in the range. An IPv4 address may be written as an IPv6 address
    /// (`::ffff:192.0.2.7`).
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or_default();
                address.to_bits() & mask == first.to_bits()
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or_default();
                address.to_bits() & mask == first.to_bits()
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidRange::Address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            // `parse` would also accept a sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = digits.parse().ok().filter(|prefix| *prefix <= most);
                number.ok_or(InvalidRange::Prefix { most })?
            }
            Some(_) => return Err(InvalidRange::Prefix { most }),
        };
        let range = Self { address, prefix };
        // Of `10.1.2.3/8` nobody knows which part is the mistake.
        if address.to_canonical() == address && !range.contains(address) {
            return Err(InvalidRange::HostBits { prefix });
        }
        if address.to_canonical() != address {
            return Err(InvalidRange::Address);
        }
        Ok(range)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.prefix == most {
            return self.address.fmt(f);
        }
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_the_addresses_with_their_first_bits() {
        for (range, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("192.0.2.0/31", "192.0.2.1", "192.0.2.2"),
            ("::1", "::1", "::2"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ] {
            let parsed: AddressRange = range.parse().expect(range);
            assert_eq!(parsed.to_string(), range);
            assert!(parsed.contains(inside.parse().expect(inside)), "{range}");
            assert!(!parsed.contains(outside.parse().expect(outside)), "{range}");
        }
    }

    #[test]
    fn bad_ranges_say_what_is_wrong() {
        for (text, expected) in [
            ("", InvalidRange::Address),
            ("proxy.example", InvalidRange::Address),
            ("10.0.0", InvalidRange::Address),
            ("::ffff:10.0.0.1", InvalidRange::Address),
            ("[::1]", InvalidRange::Address),
            ("10.0.0.0/33", InvalidRange::Prefix { most: 32 }),
            ("10.0.0.0/", InvalidRange::Prefix { most: 32 }),
            ("10.0.0.0/+8", InvalidRange::Prefix { most: 32 }),
            ("10.0.0.0/999", InvalidRange::Prefix { most: 32 }),
            ("fd00::/129", InvalidRange::Prefix { most: 128 }),
            ("10.1.0.0/8", InvalidRange::HostBits { prefix: 8 }),
            ("fd00::1/64", InvalidRange::HostBits { prefix: 64 }),
        ] {
            assert_eq!(text.parse::<AddressRange>(), Err(expected), "{text}");
        }
    }
}
