//! Settings: keys of the file whose values are stored in fields. One row of `words` defines everything
//! about a setting: its names, its shape, its description, its field, and the time at which a change takes
//! effect. Settings are read, written and compared by these rows.

use std::{
    any::{Any, TypeId},
    fmt,
    time::Duration,
};

use mainstay_core::{
    config::{Durability, Isolation, ListChanged, Naming, Payloads, ServerRequests},
    health::{HealthAction, ProbeMethod},
    lifecycle::{InitialFailure, ReconnectMode, RestartMode},
    words::SettingWords,
};
use serde_json::{Map, Value, json};

use crate::{
    read::{fields::Fields, node::Node, report::FindingReport},
    words::schema::{KeyRow, Least, ObjectShape, ValueShape},
};

/// The field that holds a setting.
pub(crate) struct Field {
    /// The type that has the field.
    pub holder: TypeId,
    /// `None` if other code reads the key.
    pub read: Option<ReadField>,
    pub write: fn(&dyn Any) -> Value,
    pub differs: fn(&dyn Any, &dyn Any) -> bool,
}

/// Reads a value into the field of the holder.
pub(crate) type ReadField = fn(&mut dyn Any, &Node<'_>, &mut FindingReport<'_>);

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field").finish_non_exhaustive()
    }
}

/// `field!(Journal, redact.keys)`: the field of a type. It is read by the shape of its key, and written as
/// a [`SettingValue`]. `read:` and `write:` set other functions. With `write:` alone, other code reads the
/// key.
macro_rules! field {
    ($holder:ty, $($path:ident).+) => {
        field!($holder, $($path).+, read: crate::words::settings::SettingValue::read)
    };
    ($holder:ty, $($path:ident).+, read: $read:expr) => {
        field!($holder, $($path).+, read: $read, write: crate::words::settings::SettingValue::file_value)
    };
    ($holder:ty, $($path:ident).+, read: $read:expr, write: $write:expr) => {
        crate::words::settings::Field {
            read: Some(|holder, node, report| {
                if let Some(value) = $read(node, report)
                    && let Some(holder) = holder.downcast_mut::<$holder>()
                {
                    holder.$($path).+ = value;
                }
            }),
            ..field!($holder, $($path).+, write: $write)
        }
    };
    ($holder:ty, $($path:ident).+, write: $write:expr) => {
        crate::words::settings::Field {
            holder: std::any::TypeId::of::<$holder>(),
            read: None,
            write: |holder| {
                let holder = holder.downcast_ref::<$holder>();
                holder.map_or(serde_json::Value::Null, |holder| $write(&holder.$($path).+))
            },
            differs: |one, other| {
                let [one, other] = [one, other].map(|holder| holder.downcast_ref::<$holder>());
                one.map(|holder| &holder.$($path).+) != other.map(|holder| &holder.$($path).+)
            },
        }
    };
}
pub(crate) use field;

/// A value of a setting, which can be read from the configuration file and written to it.
pub(crate) trait SettingValue: Sized {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self>;

    /// Returns the value in the words of the file. `null` if it is not set.
    fn file_value(&self) -> Value;
}

/// Settings that are one of a few words.
macro_rules! word_values {
    ($($type:ty),+ $(,)?) => {$(
        impl SettingValue for $type {
            fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
                let words = <$type>::WORDS.iter().copied();
                let words: Vec<_> = words.zip(<$type>::VALUES.iter().copied()).collect();
                node.word(report, &words)
            }

            fn file_value(&self) -> Value {
                self.word().into()
            }
        }
    )+};
}

word_values!(
    Naming,
    Isolation,
    Durability,
    Payloads,
    ReconnectMode,
    InitialFailure,
    RestartMode,
    ProbeMethod,
    HealthAction,
    ListChanged,
    ServerRequests,
);

impl SettingValue for bool {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        node.boolean(report)
    }

    fn file_value(&self) -> Value {
        (*self).into()
    }
}

impl SettingValue for usize {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let (least, most) = node.shape().and_then(ValueShape::range)?;
        node.whole(report, least, most)
    }

    fn file_value(&self) -> Value {
        (*self).into()
    }
}

/// A number above `u32::MAX` becomes `u32::MAX`.
impl SettingValue for u32 {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let number = usize::read(node, report)?;
        Some(Self::try_from(number).unwrap_or(Self::MAX))
    }

    fn file_value(&self) -> Value {
        (*self).into()
    }
}

impl SettingValue for u64 {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        usize::read(node, report).map(|number| number as Self)
    }

    fn file_value(&self) -> Value {
        (*self).into()
    }
}

/// A duration in milliseconds.
impl SettingValue for Duration {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        match node.shape()? {
            ValueShape::Time(Least::AboveZero) => node.milliseconds(report),
            ValueShape::Time(Least::Of(0)) => node.milliseconds_or_zero(report),
            ValueShape::Time(Least::Of(least)) => {
                node.milliseconds_from(Self::from_millis(u64::from(*least)), report)
            }
            _ => u64::read(node, report).map(Self::from_millis),
        }
    }

    fn file_value(&self) -> Value {
        match u64::try_from(self.as_millis()) {
            Ok(whole) if *self == Self::from_millis(whole) => whole.into(),
            _ => (self.as_secs_f64() * 1000.0).into(),
        }
    }
}

impl SettingValue for f64 {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let Some(ValueShape::Number(least, most)) = node.shape() else {
            return None;
        };
        node.number(*least..=*most, &format!("from {least} to {most}"), report)
    }

    fn file_value(&self) -> Value {
        (*self).into()
    }
}

impl SettingValue for String {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        node.string(report).map(str::to_owned)
    }

    fn file_value(&self) -> Value {
        self.as_str().into()
    }
}

impl SettingValue for Vec<String> {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        Some(node.strings(report))
    }

    fn file_value(&self) -> Value {
        json!(self)
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        T::read(node, report).map(Some)
    }

    fn file_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::file_value)
    }
}

impl KeyRow {
    /// The field of `T` that holds the setting. `None` for an alias of a setting.
    pub fn field_of<T: Any>(&self) -> Option<&Field> {
        let field = self.field.as_ref().filter(|_| self.alias_of.is_none())?;
        (field.holder == TypeId::of::<T>()).then_some(field)
    }

    /// The shape of the value, if it is an object whose settings are fields of `T`.
    pub fn object_of<T: Any>(&self) -> Option<&'static ObjectShape> {
        let object = self.shape.object()?;
        let mut keys = object.all_keys();
        keys.any(|key| key.field_of::<T>().is_some())
            .then_some(object)
    }
}

/// Reads the settings whose values are fields of `holder`, including those of inner objects.
pub(crate) fn read<T: Any>(
    holder: &mut T,
    fields: &mut Fields<'_>,
    report: &mut FindingReport<'_>,
) {
    for key in fields.keys() {
        if let Some(field) = key.field_of::<T>() {
            let Some(read) = field.read else { continue };
            for name in key.names {
                if let Some(node) = fields.take(name) {
                    read(holder, &node, report);
                }
            }
        } else if key.object_of::<T>().is_some()
            && let Some(node) = fields.take(key.names[0])
            && let Some(mut inner) = Fields::open(&node, report)
        {
            read(holder, &mut inner, report);
            inner.finish(report);
        }
    }
}

/// Returns the settings in the fields of `holder`, in the words of the file. Unset settings are left out.
pub(crate) fn file_values<T: Any>(holder: &T, object: &'static ObjectShape) -> Map<String, Value> {
    let members = object.all_keys().filter_map(|key| {
        let value = match (key.field_of::<T>(), key.object_of::<T>()) {
            (Some(field), _) => (field.write)(holder),
            (None, Some(object)) => match file_values(holder, object) {
                nothing if nothing.is_empty() => Value::Null,
                members => members.into(),
            },
            (None, None) => Value::Null,
        };
        (!value.is_null()).then(|| (key.names[0].to_owned(), value))
    });
    members.collect()
}

/// A setting, and its path in the file: the names of its outer objects, and its own.
pub(crate) type Placed = (Vec<&'static str>, &'static KeyRow);

/// Returns the settings in which two holders differ.
pub(crate) fn differing<T: Any>(one: &T, other: &T, object: &'static ObjectShape) -> Vec<Placed> {
    let differing = object.all_keys().flat_map(|key| {
        let name = key.names[0];
        match (key.field_of::<T>(), key.object_of::<T>()) {
            (Some(field), _) if (field.differs)(one, other) => vec![(vec![name], key)],
            (Some(_), _) | (None, None) => Vec::new(),
            (None, Some(object)) => {
                let mut inner = differing(one, other, object);
                for (path, _) in &mut inner {
                    path.insert(0, name);
                }
                inner
            }
        }
    });
    differing.collect()
}
