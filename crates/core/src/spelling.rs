//! Finds the known name that is most similar to a misspelt one.

/// Returns the name in `names` that is most similar to `key`, ignoring case, `_` and `-`. `None` if
/// more than a third of the name differs.
pub fn nearest<'k>(key: &str, names: &[&'k str]) -> Option<&'k str> {
    // The time grows with the product of both lengths. Real keys are shorter.
    if key.len() > 64 {
        return None;
    }
    let normalize = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let key = normalize(key);
    let candidates = names
        .iter()
        .map(|candidate| (distance(&key, &normalize(candidate)), *candidate));
    let (distance, candidate) = candidates.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= candidate.len()).then_some(candidate)
}

/// Returns the Levenshtein distance, in bytes.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let replacement_cost = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replacement_cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
