//! Reads the directory of a ZIP file and the contents of its entries.
//!
//! Bundles are not trusted, so this reads a strict subset: one directory at the end of the file, entries that
//! are stored or deflated, no ZIP64, no encryption. Anything that two readers could interpret differently is
//! refused: a local header that contradicts the directory, entries that overlap, a comment that hides a
//! second directory.

use std::{
    io::{self, Read, Seek, SeekFrom, Take},
    ops::Range,
};

use flate2::{Crc, read::DeflateDecoder};

/// The signatures of the records.
const END: [u8; 4] = *b"PK\x05\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";

/// The lengths of the fixed parts of the records.
const END_LENGTH: usize = 22;
const ENTRY_LENGTH: usize = 46;
const LOCAL_LENGTH: usize = 30;

/// The maximum length of the comment, in bytes. The end record is at most this far from the end of the file.
const MAX_COMMENT: usize = u16::MAX as usize;

/// The maximum size of the directory, in bytes: twice 100 bytes for each of [`crate::bundle::MAX_ENTRIES`].
const MAX_DIRECTORY: u32 = 4 * 1024 * 1024;

/// The start and the end of the signature that `mcpb sign` appends to the ZIP file.
const SIGNATURE_START: &[u8] = b"MCPB_SIG_V1";
const SIGNATURE_END: &[u8] = b"MCPB_SIG_END";

/// The maximum size of a signature, in bytes.
const MAX_SIGNATURE: usize = 64 * 1024;

/// The flag bits of an encrypted entry.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

/// The reason that a ZIP file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ZipError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is no ZIP file, or it is cut off")]
    NoDirectory,
    #[error("it is a ZIP64 file, which bundles do not need")]
    Zip64,
    #[error("it is one of several volumes")]
    Volumes,
    #[error("its directory is damaged")]
    Damaged,
    #[error("its directory takes {0} bytes")]
    LargeDirectory(u32),
    #[error("the name of an entry is not UTF-8")]
    Name,
    #[error("entry {0:?} is damaged: {1}")]
    Entry(String, &'static str),
}

/// The compression of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Stored,
    Deflated,
    Other(u16),
}

/// An entry of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub method: Method,
    pub encrypted: bool,
    /// Compressed size in bytes, according to the directory.
    pub packed: u64,
    /// Uncompressed size in bytes, according to the directory.
    pub size: u64,
    /// The Unix file mode. `None` if the entry was not created on Unix.
    pub mode: Option<u32>,
    crc: u32,
    offset: u64,
}

impl Entry {
    /// Creates an entry for tests that do not read its data.
    #[cfg(test)]
    pub fn named(name: &str, size: u64, packed: u64, mode: Option<u32>) -> Self {
        Self {
            name: name.to_owned(),
            method: Method::Deflated,
            encrypted: false,
            packed,
            size,
            mode,
            crc: 0,
            offset: 0,
        }
    }

    /// True for a folder, whose name ends with a slash.
    pub fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// A ZIP file with its parsed directory.
#[derive(Debug)]
pub struct Archive<R> {
    reader: R,
    pub entries: Vec<Entry>,
    /// The offset of the directory. All entries end before it.
    directory: u64,
    /// True if a signature follows the ZIP file.
    pub is_signed: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<R: Read + Seek> Archive<R> {
    pub fn open(mut reader: R) -> Result<Self, ZipError> {
        let length = reader.seek(SeekFrom::End(0))?;
        let signed = signature(&mut reader, length)?;
        let (is_signed, length) = (signed.is_some(), signed.unwrap_or(length));
        let (end, end_offset) = end_record(&mut reader, length)?;
        let [disk, directory_disk] = [4, 6].map(|at| u16_at(&end, at));
        let [on_this_disk, count] = [8, 10].map(|at| u16_at(&end, at));
        let [size, offset] = [12, 16].map(|at| u32_at(&end, at));
        if count == u16::MAX || size == u32::MAX || offset == u32::MAX {
            return Err(ZipError::Zip64);
        }
        if disk != 0 || directory_disk != 0 || on_this_disk != count {
            return Err(ZipError::Volumes);
        }
        if size > MAX_DIRECTORY {
            return Err(ZipError::LargeDirectory(size));
        }
        // No bytes may stand before the first entry, or between the directory and the end record.
        if u64::from(offset) + u64::from(size) != end_offset {
            return Err(ZipError::Damaged);
        }
        reader.seek(SeekFrom::Start(offset.into()))?;
        let mut directory = vec![0; size as usize];
        reader.read_exact(&mut directory)?;
        let entries = entries(&directory, count)?;
        Ok(Self {
            reader,
            entries,
            directory: offset.into(),
            is_signed,
        })
    }

    /// Reads one entry of at most `limit` bytes.
    pub fn read(&mut self, index: usize, limit: u64) -> Result<Vec<u8>, ZipError> {
        let mut bytes = Vec::new();
        self.copy(index, limit, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes one entry to `to`. The data may not exceed its stated size.
    pub fn copy(
        &mut self,
        index: usize,
        limit: u64,
        to: &mut impl io::Write,
    ) -> Result<(), ZipError> {
        let entry = self.entries[index].clone();
        let damaged = |reason| ZipError::Entry(entry.name.clone(), reason);
        if entry.size > limit {
            return Err(damaged("it is too large"));
        }
        let data = self.data(&entry)?;
        self.reader.seek(SeekFrom::Start(data.start))?;
        let packed = (&mut self.reader).take(data.end - data.start);
        let mut source = match entry.method {
            Method::Stored => EntryReader::Stored(packed),
            Method::Deflated => EntryReader::Deflated(DeflateDecoder::new(packed)),
            Method::Other(_) => return Err(damaged("its compression is unknown")),
        };
        let (mut crc, mut written, mut buffer) = (Crc::new(), 0_u64, vec![0; 64 * 1024]);
        loop {
            let read = source
                .read(&mut buffer)
                .map_err(|_| damaged("its data cannot be unpacked"))?;
            if read == 0 {
                break;
            }
            written += read as u64;
            if written > entry.size {
                return Err(damaged("it is longer than it says"));
            }
            crc.update(&buffer[..read]);
            to.write_all(&buffer[..read])?;
        }
        if written != entry.size {
            return Err(damaged("it is shorter than it says"));
        }
        if crc.sum() != entry.crc {
            return Err(damaged("its checksum is wrong"));
        }
        Ok(())
    }

    /// The range of an entry's data. Its local header must match the directory.
    fn data(&mut self, entry: &Entry) -> Result<Range<u64>, ZipError> {
        let damaged = |reason| ZipError::Entry(entry.name.clone(), reason);
        let mut header = [0; LOCAL_LENGTH];
        self.reader.seek(SeekFrom::Start(entry.offset))?;
        self.reader
            .read_exact(&mut header)
            .map_err(|_| damaged("it is cut off"))?;
        if header[..4] != LOCAL {
            return Err(damaged("it has no header"));
        }
        let [name, extra] = [26, 28].map(|at| usize::from(u16_at(&header, at)));
        let mut local = vec![0; name];
        self.reader
            .read_exact(&mut local)
            .map_err(|_| damaged("it is cut off"))?;
        if local != entry.name.as_bytes() {
            return Err(damaged("its two names differ"));
        }
        let start = entry.offset + (LOCAL_LENGTH + name + extra) as u64;
        let end = start + entry.packed;
        if end > self.directory {
            return Err(damaged("it is cut off"));
        }
        Ok(start..end)
    }

    /// True if the data of two entries overlaps. With overlaps, a small file can unpack to a huge one.
    pub fn overlaps(&self) -> bool {
        let mut spans: Vec<_> = self
            .entries
            .iter()
            .map(|entry| (entry.offset, entry))
            .collect();
        spans.sort_by_key(|(offset, _)| *offset);
        let least = |entry: &Entry| (LOCAL_LENGTH + entry.name.len()) as u64 + entry.packed;
        let ends = spans.iter().map(|(offset, entry)| offset + least(entry));
        let starts = spans.iter().skip(1).map(|(offset, _)| *offset);
        ends.zip(starts.chain([self.directory]))
            .any(|(end, next)| end > next)
    }
}

/// The data of one entry.
enum EntryReader<R> {
    Stored(Take<R>),
    Deflated(DeflateDecoder<Take<R>>),
}

impl<R: Read> Read for EntryReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(source) => source.read(buffer),
            Self::Deflated(source) => source.read(buffer),
        }
    }
}

/// The position at which the ZIP file ends, if a signature follows it.
fn signature<R: Read + Seek>(reader: &mut R, length: u64) -> Result<Option<u64>, ZipError> {
    let tail = tail(reader, length, MAX_SIGNATURE)?;
    if !tail.ends_with(SIGNATURE_END) {
        return Ok(None);
    }
    let starts = tail.windows(SIGNATURE_START.len());
    let start = starts
        .rev()
        .zip(1..)
        .find(|(bytes, _)| *bytes == SIGNATURE_START);
    let (_, steps) = start.ok_or(ZipError::NoDirectory)?;
    let at = tail.len() - SIGNATURE_START.len() - (steps - 1);
    Ok(Some(length - (tail.len() - at) as u64))
}

/// Reads the bytes before `length`, at most `most` of them.
fn tail<R: Read + Seek>(reader: &mut R, length: u64, most: usize) -> Result<Vec<u8>, ZipError> {
    let start = length.saturating_sub(most as u64);
    reader.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    reader.take(length - start).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Returns the end record and its offset. The comment of the record must reach to the end of the file.
fn end_record<R: Read + Seek>(
    reader: &mut R,
    length: u64,
) -> Result<([u8; END_LENGTH], u64), ZipError> {
    let tail = tail(reader, length, END_LENGTH + MAX_COMMENT)?;
    let last = tail
        .len()
        .checked_sub(END_LENGTH)
        .ok_or(ZipError::NoDirectory)?;
    for at in (0..=last).rev() {
        let record = &tail[at..at + END_LENGTH];
        let comment = usize::from(u16_at(record, 20));
        if record[..4] == END && at + END_LENGTH + comment == tail.len() {
            let mut end = [0; END_LENGTH];
            end.copy_from_slice(record);
            return Ok((end, length - (tail.len() - at) as u64));
        }
    }
    Err(ZipError::NoDirectory)
}

fn entries(mut directory: &[u8], count: u16) -> Result<Vec<Entry>, ZipError> {
    let mut entries = Vec::with_capacity(count.into());
    for _ in 0..count {
        if directory.len() < ENTRY_LENGTH || directory[..4] != ENTRY {
            return Err(ZipError::Damaged);
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(directory, at)));
        let length = ENTRY_LENGTH + name + extra + comment;
        if directory.len() < length {
            return Err(ZipError::Damaged);
        }
        let [packed, size, offset] = [20, 24, 42].map(|at| u32_at(directory, at));
        if [packed, size, offset].contains(&u32::MAX) {
            return Err(ZipError::Zip64);
        }
        let named = &directory[ENTRY_LENGTH..ENTRY_LENGTH + name];
        let made_on_unix = directory[5] == 3;
        entries.push(Entry {
            name: str::from_utf8(named)
                .map_err(|_| ZipError::Name)?
                .to_owned(),
            method: match u16_at(directory, 10) {
                0 => Method::Stored,
                8 => Method::Deflated,
                other => Method::Other(other),
            },
            encrypted: u16_at(directory, 8) & ENCRYPTED != 0,
            packed: packed.into(),
            size: size.into(),
            mode: made_on_unix.then(|| u32_at(directory, 38) >> 16),
            crc: u32_at(directory, 16),
            offset: offset.into(),
        });
        directory = &directory[length..];
    }
    if !directory.is_empty() {
        return Err(ZipError::Damaged);
    }
    Ok(entries)
}
