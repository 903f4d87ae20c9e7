//! What a person can do with a server.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    Restart,
    Reconnect,
    Enable,
    Disable,
}

impl Action {
    /// The action of a key. One key enables what is disabled, and disables what is enabled.
    pub const fn of(key: char, is_enabled: bool) -> Option<Self> {
        Some(match key {
            't' => Self::Start,
            'x' => Self::Stop,
            'r' => Self::Restart,
            'c' => Self::Reconnect,
            'e' if is_enabled => Self::Disable,
            'e' => Self::Enable,
            _ => return None,
        })
    }

    /// Its name in REST.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Reconnect => "reconnect",
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }

    /// What it means, where the word alone does not say it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Start => "",
            Self::Stop => "; it stays down until it is started",
            Self::Restart | Self::Reconnect => "; its calls in flight end",
            Self::Enable | Self::Disable => ", in the configuration, too",
        }
    }
}
