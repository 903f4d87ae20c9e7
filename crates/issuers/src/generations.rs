//! A bounded map for answers that can be found out again. It forgets in two generations, which costs no list of uses.

use std::collections::HashMap;

use crate::digest::TokenDigest;

/// A map of at most two generations. When the young generation is full, it becomes the old one, and the former old
/// one is forgotten. An entry that is found in the old generation moves to the young one.
#[derive(Debug)]
pub struct Generations<V> {
    young: HashMap<TokenDigest, V>,
    old: HashMap<TokenDigest, V>,
    /// Entries of one generation at most.
    limit: usize,
}

impl<V: Clone> Generations<V> {
    /// A map of `entries` at most.
    pub fn new(entries: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            limit: (entries / 2).max(1),
        }
    }

    pub fn get(&mut self, key: &TokenDigest) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value.clone());
        Some(value)
    }

    pub fn insert(&mut self, key: TokenDigest, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.limit && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    pub fn remove(&mut self, key: &TokenDigest) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded_and_used_ones_stay() {
        let mut map = Generations::new(8);
        let key = |number: u32| TokenDigest::new(&number.to_be_bytes());
        map.insert(key(0), 0);
        for number in 1..1000 {
            map.insert(key(number), number);
            assert!(map.len() <= 8, "{}", map.len());
            assert_eq!(map.get(&key(0)), Some(0), "used after {number}");
        }
        assert_eq!(map.get(&key(999)), Some(999));
        assert_eq!(map.get(&key(500)), None);
        map.remove(&key(0));
        assert_eq!(map.get(&key(0)), None);
    }
}
