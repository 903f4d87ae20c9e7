//! One line of a log.

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSource {
    Stderr,
    /// Stray output: a line that is not a message.
    Stdout,
    /// A line that Mainstay writes about the server.
    Mainstay,
}

impl LineSource {
    const ALL: [Self; 3] = [Self::Stderr, Self::Stdout, Self::Mainstay];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Stdout => "stdout",
            Self::Mainstay => "mainstay",
        }
    }
}

/// One line of a server's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time in RFC 3339 format.
    pub time: String,
    pub source: LineSource,
    pub text: String,
}

impl Line {
    /// Parses `TIME SOURCE TEXT`, the format of the file. Returns `None` for any other line, such as the rest
    /// of a line that a full disk cut off.
    pub fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (source, text) = rest.split_once(' ')?;
        let source = LineSource::ALL
            .into_iter()
            .find(|candidate| candidate.as_str() == source)?;
        Some(Self {
            time: time.to_owned(),
            source,
            text: text.to_owned(),
        })
    }
}
