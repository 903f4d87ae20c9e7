//! Settings with a closed set of words.

/// A type whose values are words in a configuration.
pub trait SettingWords: Copy + 'static {
    /// The words, in the order of [`SettingWords::VALUES`].
    const WORDS: &'static [&'static str];
    const VALUES: &'static [Self];
}

/// `words!(Naming { "slash" => Slash, … })` defines the words of a type in a configuration.
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
