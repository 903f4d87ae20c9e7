//! Settings whose values are a fixed set of words.

/// A type whose values have words in the configuration.
pub trait SettingWords: Copy + 'static {
    /// The word of each value, in the order of [`SettingWords::VALUES`].
    const WORDS: &'static [&'static str];
    const VALUES: &'static [Self];
}

/// Defines the words of a type in the configuration: `words!(Naming { "slash" => Slash, … })`.
macro_rules! words {
    ($type:ty { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $type {
            /// The word of this value in a configuration.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl $crate::words::SettingWords for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}
pub(crate) use words;
