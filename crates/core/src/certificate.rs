//! The facts of an X.509 certificate that an operator needs: until when it is valid, and for which names. Reads
//! the few fields of RFC 5280 that say so. Whether a certificate is trusted is decided elsewhere.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Maximum number of names that are read from a certificate. Public authorities issue at most 100.
pub const MAX_NAMES: usize = 1000;

/// Time before the end of a certificate at which people learn of it for the first time.
const EARLY_NOTICE: Duration = DAY.saturating_mul(14);

/// Time before the end of a certificate at which people learn of it again.
const LATE_NOTICE: Duration = DAY.saturating_mul(3);

const DAY: Duration = Duration::from_secs(86_400);

/// The validity and the names of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    /// The alternative names. Clients ignore the common name (RFC 9525, section 2).
    pub names: Vec<CertificateName>,
}

/// A name for which a certificate is issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// A DNS name in lower case. Its first label may be `*`.
    Dns(String),
    Address(IpAddr),
}

/// The certificate is no X.509 certificate in DER, or its dates cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no X.509 certificate")]
pub struct UnreadableCertificate;

/// The age of a certificate, in the steps of which people learn. Later steps are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateAge {
    /// It becomes valid in the future.
    NotYetValid,
    Fresh,
    /// It ends within 14 days.
    EndsSoon,
    /// It ends within 3 days.
    EndsVerySoon,
    Expired,
}

impl CertificateFacts {
    /// Reads a certificate in DER.
    pub fn read(der: &[u8]) -> Result<Self, UnreadableCertificate> {
        read(der).ok_or(UnreadableCertificate)
    }

    pub fn age(&self, now: SystemTime) -> CertificateAge {
        match self.not_after.duration_since(now) {
            Err(_) => CertificateAge::Expired,
            Ok(_) if now < self.not_before => CertificateAge::NotYetValid,
            Ok(left) if left <= LATE_NOTICE => CertificateAge::EndsVerySoon,
            Ok(left) if left <= EARLY_NOTICE => CertificateAge::EndsSoon,
            Ok(_) => CertificateAge::Fresh,
        }
    }

    /// Whole days until the end. 0 for a certificate that has expired.
    pub fn days_left(&self, now: SystemTime) -> u64 {
        let left = self.not_after.duration_since(now).unwrap_or_default();
        left.as_secs() / DAY.as_secs()
    }

    /// True if clients accept the certificate for this host: a name, or an address without brackets.
    pub fn covers(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match host.parse::<IpAddr>() {
            Ok(address) => self.names.contains(&CertificateName::Address(address)),
            Err(_) => self.names.iter().any(|name| match name {
                CertificateName::Dns(name) => matches_name(name, &host.to_ascii_lowercase()),
                CertificateName::Address(_) => false,
            }),
        }
    }
}

/// True if the name of a certificate matches a host. `*` stands for one whole first label.
fn matches_name(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        None => name == host,
        Some(parent) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest == parent),
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Tags of DER (X.690) in the fields that are read.
mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const OCTETS: u8 = 0x04;
    pub const IDENTIFIER: u8 = 0x06;
    pub const UTC_TIME: u8 = 0x17;
    pub const TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    /// The version of a certificate.
    pub const VERSION: u8 = 0xa0;
    /// Unique identifiers of issuer and subject.
    pub const ISSUER_ID: u8 = 0x81;
    pub const SUBJECT_ID: u8 = 0x82;
    pub const EXTENSIONS: u8 = 0xa3;
    pub const DNS_NAME: u8 = 0x82;
    pub const ADDRESS: u8 = 0x87;
}

/// `subjectAltName`, 2.5.29.17.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

fn read(der: &[u8]) -> Option<CertificateFacts> {
    let mut certificate = Der(Der(der).take(tag::SEQUENCE)?);
    let mut fields = Der(certificate.take(tag::SEQUENCE)?);
    fields.take(tag::VERSION);
    fields.take(tag::INTEGER)?; // serial number
    fields.take(tag::SEQUENCE)?; // algorithm
    fields.take(tag::SEQUENCE)?; // issuer
    let mut validity = Der(fields.take(tag::SEQUENCE)?);
    let (not_before, not_after) = (validity.time()?, validity.time()?);
    fields.take(tag::SEQUENCE)?; // subject
    fields.take(tag::SEQUENCE)?; // key
    fields.take(tag::ISSUER_ID);
    fields.take(tag::SUBJECT_ID);
    let names = match fields.take(tag::EXTENSIONS) {
        Some(extensions) => alternative_names(Der(extensions).take(tag::SEQUENCE)?)?,
        None => Vec::new(),
    };
    Some(CertificateFacts {
        not_before,
        not_after,
        names,
    })
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<CertificateName>> {
    let mut extensions = Der(extensions);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(tag::SEQUENCE)?);
        let identifier = extension.take(tag::IDENTIFIER)?;
        extension.take(tag::BOOLEAN); // critical
        let value = extension.take(tag::OCTETS)?;
        if identifier == ALTERNATIVE_NAMES {
            return names(Der(value).take(tag::SEQUENCE)?);
        }
    }
    Some(Vec::new())
}

fn names(list: &[u8]) -> Option<Vec<CertificateName>> {
    let mut list = Der(list);
    let mut names = Vec::new();
    while !list.0.is_empty() && names.len() < MAX_NAMES {
        let (tag, value) = list.next()?;
        match tag {
            tag::DNS_NAME if value.is_ascii() => {
                let name = String::from_utf8_lossy(value).to_ascii_lowercase();
                names.push(CertificateName::Dns(name));
            }
            tag::ADDRESS => {
                let v4 = <[u8; 4]>::try_from(value).map(|octets| Ipv4Addr::from(octets).into());
                let v6 = <[u8; 16]>::try_from(value).map(|octets| Ipv6Addr::from(octets).into());
                names.push(CertificateName::Address(v4.or(v6).ok()?));
            }
            // Names of mailboxes, directories and the like.
            _ => {}
        }
    }
    Some(names)
}

/// The rest of a text in DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element: its tag and its content. Lengths are definite, and of at most four bytes.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes.iter().try_fold(0_usize, |length, byte| {
                    length.checked_mul(256)?.checked_add(usize::from(*byte))
                });
                (length?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element if it has this tag. Any other element stays.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        match self.next() {
            Some((found, content)) if found == tag => Some(content),
            _ => {
                self.0 = before;
                None
            }
        }
    }

    /// A time in UTC, with seconds (RFC 5280, 4.1.2.5).
    fn time(&mut self) -> Option<SystemTime> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            let digits = digits.get(range)?;
            Some(
                digits
                    .iter()
                    .fold(0, |number, digit| number * 10 + i64::from(digit - b'0')),
            )
        };
        let (year, at) = match (tag, digits.len()) {
            (tag::UTC_TIME, 12) => match number(0..2)? {
                year @ 0..50 => (2000 + year, 2),
                year => (1900 + year, 2),
            },
            (tag::TIME, 14) => (number(0..4)?, 4),
            _ => return None,
        };
        let field = |index: usize| number(at + 2 * index..at + 2 * index + 2);
        let (month, day) = (field(0)?, field(1)?);
        let (hour, minute, second) = (field(2)?, field(3)?, field(4)?);
        let is_valid = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && (hour < 24 && minute < 60 && second <= 60);
        if !is_valid {
            return None;
        }
        let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
        let distance = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        }
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that a leap day is
/// the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut element = vec![tag];
        match u8::try_from(content.len()) {
            Ok(length) if length < 0x80 => element.push(length),
            _ => {
                let length = u16::try_from(content.len()).expect("short");
                element.push(0x82);
                element.extend(length.to_be_bytes());
            }
        }
        element.extend(content);
        element
    }

    fn certificate(not_before: &[u8], not_after: &[u8], names: &[(u8, &[u8])]) -> Vec<u8> {
        let time = |text: &[u8]| {
            let tag = if text.len() == 13 {
                tag::UTC_TIME
            } else {
                tag::TIME
            };
            element(tag, text)
        };
        let names: Vec<u8> = names
            .iter()
            .flat_map(|(tag, name)| element(*tag, name))
            .collect();
        let names = element(tag::OCTETS, &element(tag::SEQUENCE, &names));
        let other = [
            element(tag::IDENTIFIER, &[0x55, 0x1d, 0x0f]),
            element(tag::OCTETS, b"x"),
        ];
        let identifier = element(tag::IDENTIFIER, &ALTERNATIVE_NAMES);
        let names_extension = [identifier, element(tag::BOOLEAN, &[0xff]), names].concat();
        let extensions = [
            element(tag::SEQUENCE, &other.concat()),
            element(tag::SEQUENCE, &names_extension),
        ];
        let fields = [
            element(tag::VERSION, &element(tag::INTEGER, &[2])),
            element(tag::INTEGER, &[7; 20]),
            element(tag::SEQUENCE, b""),
            element(tag::SEQUENCE, b""),
            element(tag::SEQUENCE, &[time(not_before), time(not_after)].concat()),
            element(tag::SEQUENCE, b""),
            element(tag::SEQUENCE, &[0; 300]),
            element(
                tag::EXTENSIONS,
                &element(tag::SEQUENCE, &extensions.concat()),
            ),
        ];
        element(tag::SEQUENCE, &element(tag::SEQUENCE, &fields.concat()))
    }

    const NAMES: &[(u8, &[u8])] = &[
        (tag::DNS_NAME, b"Gate.Example"),
        (0x81, b"a@b"),
        (tag::DNS_NAME, b"*.wild.example"),
        (tag::ADDRESS, &[192, 0, 2, 1]),
        (
            tag::ADDRESS,
            &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ),
    ];

    #[test]
    fn validity_and_names_are_read() {
        let der = certificate(b"000229000000Z", b"20500301123456Z", NAMES);
        let facts = CertificateFacts::read(&der).expect("a certificate");
        assert_eq!(facts.not_before, at(951_782_400));
        assert_eq!(facts.not_after, at(2_529_750_896));
        let names: Vec<String> = facts.names.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["gate.example", "*.wild.example", "192.0.2.1", "2001:db8::1"]
        );
        for (host, expected) in [
            ("gate.example", true),
            ("GATE.example.", true),
            ("x.gate.example", false),
            ("a.wild.example", true),
            ("a.b.wild.example", false),
            ("wild.example", false),
            (".wild.example", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("2001:db8::1", true),
        ] {
            assert_eq!(facts.covers(host), expected, "{host}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, expected) in [
            (&b"700101000000Z"[..], Some(0)),
            (b"491231235959Z", Some(2_524_607_999)),
            (b"20500101000000Z", Some(2_524_608_000)),
            (b"99991231235959Z", Some(253_402_300_799)),
            (b"701301000000Z", None),
            (b"70010100000Z", None),
            (b"7001010000000", None),
            (b"7001010000+1Z", None),
        ] {
            let der = certificate(b"700101000000Z", text, &[]);
            let facts = CertificateFacts::read(&der).ok();
            assert_eq!(facts.map(|facts| facts.not_after), expected.map(at));
        }
        let der = certificate(b"690101000000Z", b"700101000000Z", &[]);
        let facts = CertificateFacts::read(&der).expect("a certificate");
        assert!(facts.not_before < UNIX_EPOCH);
    }

    #[test]
    fn no_cut_or_changed_certificate_is_trouble() {
        let der = certificate(b"000229000000Z", b"20500301123456Z", NAMES);
        for length in 0..der.len() {
            CertificateFacts::read(&der[..length]).expect_err("it is cut");
        }
        for index in 0..der.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[index] = byte;
                let _ = CertificateFacts::read(&changed);
            }
        }
    }

    #[test]
    fn the_age_is_told_in_steps() {
        let facts = CertificateFacts {
            not_before: at(0),
            not_after: at(100 * 86_400),
            names: Vec::new(),
        };
        let age = |days: u64| facts.age(at(days * 86_400));
        assert_eq!(age(10), CertificateAge::Fresh);
        assert_eq!(age(86), CertificateAge::EndsSoon);
        assert_eq!(age(97), CertificateAge::EndsVerySoon);
        assert_eq!(age(101), CertificateAge::Expired);
        assert_eq!(facts.days_left(at(86 * 86_400 - 1)), 14);
        let later = CertificateFacts {
            not_before: at(50 * 86_400),
            ..facts.clone()
        };
        assert_eq!(later.age(at(0)), CertificateAge::NotYetValid);
    }
}
