//! Actions of the user on a server.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAction {
    Start,
    Stop,
    Restart,
    Reconnect,
    Enable,
    Disable,
}

impl ServerAction {
    /// The action of a key. The same key enables a disabled server and disables an enabled one.
    pub const fn for_key(key: char, is_enabled: bool) -> Option<Self> {
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

    /// The action's name in REST.
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

    /// An explanation of the action, if its name alone is not clear.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Start => "",
            Self::Stop => "; it stays down until it is started",
            Self::Restart | Self::Reconnect => "; its calls in flight end",
            Self::Enable | Self::Disable => ", in the configuration, too",
        }
    }
}
