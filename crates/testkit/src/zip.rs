//! Builds valid and hostile ZIP files byte by byte.

use std::io::Write as _;

use flate2::{Compression, Crc, write::DeflateEncoder};

/// A ZIP file under construction.
#[derive(Default)]
pub struct ZipFile {
    entries: Vec<ZipEntry>,
    /// The number of entries in the end record, if it differs from the real number.
    pub count: Option<u16>,
}

/// An entry of a ZIP file. Its fields may contradict each other.
#[derive(Clone)]
pub struct ZipEntry {
    pub name: Vec<u8>,
    /// The name in the local header, if it differs from `name`.
    pub local_name: Option<Vec<u8>>,
    pub data: Vec<u8>,
    /// The compression method: 0 is stored, 8 is deflated.
    pub method: u16,
    pub flags: u16,
    pub mode: u32,
    /// The stated size, if it differs from that of `data`.
    pub size: Option<u32>,
    pub crc: Option<u32>,
}

impl ZipEntry {
    pub fn new(name: &str, data: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.as_bytes().to_vec(),
            local_name: None,
            data: data.into(),
            method: 8,
            flags: 0,
            mode: 0o100_644,
            size: None,
            crc: None,
        }
    }

    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}

impl ZipFile {
    #[must_use]
    pub fn with(mut self, name: &str, data: impl Into<Vec<u8>>) -> Self {
        self.entries.push(ZipEntry::new(name, data));
        self
    }

    #[must_use]
    pub fn entry(mut self, entry: ZipEntry) -> Self {
        self.entries.push(entry);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            let offset = length(&out);
            let packed = match entry.method {
                8 => deflated(&entry.data),
                _ => entry.data.clone(),
            };
            let mut crc = Crc::new();
            crc.update(&entry.data);
            let crc = entry.crc.unwrap_or(crc.sum());
            let size = entry.size.unwrap_or(length(&entry.data));
            // Version, flags, method, time, date, checksum and sizes are the same in both records.
            let mut common = Vec::new();
            for number in [20, entry.flags, entry.method, 0, 0x21] {
                common.extend(number.to_le_bytes());
            }
            for number in [crc, length(&packed), size] {
                common.extend(number.to_le_bytes());
            }
            let local_name = entry.local_name.as_ref().unwrap_or(&entry.name);
            out.extend(b"PK\x03\x04");
            out.extend(&common);
            out.extend(short(local_name.len()));
            out.extend([0, 0]);
            out.extend(local_name);
            out.extend(packed);
            directory.extend(b"PK\x01\x02");
            // The version and system of the writer: 3 is Unix.
            directory.extend([20, 3]);
            directory.extend(&common);
            directory.extend(short(entry.name.len()));
            // Length of the extra field, length of the comment, disk, internal attributes.
            directory.extend([0; 8]);
            directory.extend((entry.mode << 16).to_le_bytes());
            directory.extend(offset.to_le_bytes());
            directory.extend(&entry.name);
        }
        let offset = length(&out);
        let count = self
            .count
            .unwrap_or(u16::try_from(self.entries.len()).expect("few"));
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0");
        out.extend(count.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(length(&directory).to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend([0, 0]);
        out
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("small")
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("short").to_le_bytes()
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).expect("in memory");
    encoder.finish().expect("in memory")
}
