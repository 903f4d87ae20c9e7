//! Reads an object with known keys. Reports every key that no reader takes, with the key that was probably
//! meant.

use mainstay_core::spelling::nearest;

use crate::{
    read::{
        node::{Member, Node},
        report::{FindingReport, KeyPath},
    },
    words::schema::{KeyRow, ObjectShape, ValueShape},
};

/// An object whose keys are in the schema. [`Self::finish`] reports the keys that no reader took.
pub(crate) struct Fields<'a> {
    pub place: KeyPath,
    /// The schema of the object.
    object: Option<&'static ObjectShape>,
    members: Vec<Member<'a>>,
    read_keys: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn open(node: &Node<'a>, report: &mut FindingReport<'_>) -> Option<Self> {
        let members = node.distinct_members(report)?;
        Some(Self {
            place: node.place.clone(),
            object: node.shape().and_then(ValueShape::object),
            members,
            read_keys: Vec::new(),
        })
    }

    /// Takes the value of a key. `null` counts as absent.
    pub fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        debug_assert!(
            self.object.is_some_and(|object| object.key(key).is_some()),
            "`{key}` at {:?} is read, and the schema does not have it",
            self.place.path
        );
        self.read_keys.push(key);
        let index = self.members.iter().position(|member| member.key == key)?;
        let node = self.members.swap_remove(index).node;
        (!node.is_null()).then_some(node)
    }

    /// Returns a value that was not taken yet.
    pub fn peek(&self, key: &str) -> Option<&Node<'a>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        (!member.node.is_null()).then_some(&member.node)
    }

    /// True if a key has a value that is not empty and was not taken yet.
    pub fn has(&self, key: &str) -> bool {
        self.peek(key).is_some_and(|node| !node.is_empty())
    }

    /// The keys that were not taken yet.
    pub fn left(&self) -> impl Iterator<Item = &'a str> {
        self.members.iter().map(|member| member.key)
    }

    /// Finds an unknown key that is probably a misspelling of this one.
    pub fn misspelt(&self, legal_key: &'static str) -> Option<&'a str> {
        let is_known = |key: &str| self.object.is_some_and(|object| object.key(key).is_some());
        self.left()
            .find(|key| !is_known(key) && nearest(key, &[legal_key]).is_some())
    }

    /// All keys of the schema.
    pub fn keys(&self) -> impl Iterator<Item = &'static KeyRow> + use<> {
        self.object.into_iter().flat_map(ObjectShape::all_keys)
    }

    /// Reports the keys that were not taken, as errors: a misspelt key would allow more than its author
    /// means.
    pub fn finish_strictly(self, report: &mut FindingReport<'_>) {
        for Member { key, key_place, .. } in &self.members {
            if !is_comment(key) {
                let hint = nearest(key, &self.read_keys);
                match hint.map(|legal_key| format!("did you mean `{legal_key}`?")) {
                    Some(hint) => report.error_with_hint(key_place, "unknown key", hint),
                    None => report.error(key_place, "unknown key"),
                }
            }
        }
    }

    /// Reports the keys that were not taken.
    pub fn finish(mut self, report: &mut FindingReport<'_>) {
        let later = self.object.map(|object| object.later).unwrap_or_default();
        let foreign = self.object.map(|object| object.foreign).unwrap_or_default();
        let is_foreign = |key| foreign.iter().any(|keys| keys.contains(key));
        self.members.sort_by_key(|member| member.key_place.offset);
        for Member { key, key_place, .. } in &self.members {
            // The search for a similar key is slow, so it ends with the last warning that is kept.
            if report.has_warnings_enough() {
                break;
            }
            if later.contains(key) {
                report.warn(key_place, "not supported by this version, and ignored");
            } else if !is_foreign(key) && !is_comment(key) {
                let hint = nearest(key, &self.read_keys)
                    .map(|legal_key| format!("did you mean `{legal_key}`?"));
                report.warn_with_hint(key_place, "unknown key", hint);
            }
        }
    }
}

/// True for keys under which people write notes, or tools the URL of a schema.
fn is_comment(key: &str) -> bool {
    key.starts_with(['$', '_']) || key.starts_with("//")
}
