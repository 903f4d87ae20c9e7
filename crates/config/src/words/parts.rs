//! Building blocks for rows: common shapes, and functions that make a row.

use mainstay_core::{
    config::{Isolation, Naming},
    words::SettingWords as _,
};

use crate::words::{
    schema::{KeyRow, Least, ObjectShape, TakesEffect, ValueShape},
    settings::Field,
};

pub const TEXT: ValueShape = ValueShape::Text;
pub const FLAG: ValueShape = ValueShape::Flag;
pub const TEXTS: ValueShape = ValueShape::List(&ValueShape::Text);
pub const AT_LEAST_ONE: ValueShape = ValueShape::Whole(1, None);
/// A number, of which zero means that there is no limit.
pub const LIMIT: ValueShape = ValueShape::Whole(0, None);
pub const MS: ValueShape = ValueShape::Time(Least::AboveZero);
pub const MS_OR_ZERO: ValueShape = ValueShape::Time(Least::Of(0));
/// A delay of at least 100 ms, because a server that dies at once must not keep a core busy.
pub const DELAY: ValueShape = ValueShape::Time(Least::Of(100));
pub const FRACTION: ValueShape = ValueShape::Number(0.0, 1.0);
pub const NAMING: ValueShape = ValueShape::Words(Naming::WORDS);
pub const ISOLATION: ValueShape = ValueShape::Words(Isolation::WORDS);
pub const OWN_TOOLS: ValueShape = ValueShape::List(&ValueShape::Words(&[
    "meta", "external", "activity", "records", "control",
]));

pub const fn key(names: &'static [&'static str], shape: ValueShape, about: &'static str) -> KeyRow {
    KeyRow {
        names,
        shape,
        about,
        field: None,
        alias_of: None,
        takes_effect: None,
        is_of_clients: false,
        value_words: None,
        default_words: None,
    }
}

impl KeyRow {
    /// Marks a key that other clients have, too.
    pub const fn of_clients(self) -> Self {
        Self {
            is_of_clients: true,
            ..self
        }
    }

    /// Sets the description of the possible values, for the documentation.
    pub const fn value(self, words: &'static str) -> Self {
        Self {
            value_words: Some(words),
            ..self
        }
    }

    /// Sets the description of the default, for the documentation.
    pub const fn default(self, words: &'static str) -> Self {
        Self {
            default_words: Some(words),
            ..self
        }
    }
}

/// A key whose value is stored in a field.
pub const fn setting(
    names: &'static [&'static str],
    shape: ValueShape,
    about: &'static str,
    field: Field,
) -> KeyRow {
    KeyRow {
        field: Some(field),
        ..key(names, shape, about)
    }
}

/// A setting of Mainstay as a whole.
pub const fn setting_of_all(
    names: &'static [&'static str],
    shape: ValueShape,
    about: &'static str,
    takes_effect: TakesEffect,
    field: Field,
) -> KeyRow {
    KeyRow {
        takes_effect: Some(takes_effect),
        ..setting(names, shape, about, field)
    }
}

/// Another name of the setting `key` of `object`, outside of the object.
pub const fn alias(
    names: &'static [&'static str],
    shape: ValueShape,
    (about, object, key): (&'static str, &'static str, &'static str),
    field: Field,
) -> KeyRow {
    KeyRow {
        alias_of: Some((object, key)),
        ..setting(names, shape, about, field)
    }
}

/// An object without unknown keys and without keys of other programs.
pub const fn object(name: &'static str, keys: &'static [&'static [KeyRow]]) -> ObjectShape {
    ObjectShape {
        name,
        keys,
        foreign: &[],
        later: &[],
        required: &[],
        open: false,
    }
}
