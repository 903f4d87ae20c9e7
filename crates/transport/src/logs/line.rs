//! One line of a log.

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Stderr,
    /// What is no message.
    Stdout,
    /// Our own words about the server.
    Mainstay,
}

impl Source {
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
    /// RFC 3339
    pub time: String,
    pub source: Source,
    pub text: String,
}

impl Line {
    /// `TIME SOURCE TEXT`, as it stands in a file; `None` for what else may stand there, such as
    /// the rest of a line that a full disk cut off.
    pub fn parse(line: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        let (source, text) = rest.split_once(' ')?;
        let source = Source::ALL
            .into_iter()
            .find(|known| known.as_str() == source)?;
        Some(Self {
            time: time.to_owned(),
            source,
            text: text.to_owned(),
        })
    }
}
