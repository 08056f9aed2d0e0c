//! Helps with words and lists inside a sentence.

use crate::fmt;

/// Format a count with its noun: `1 launch`, `5 launches`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", fmt::count(n), if n == 1 { one } else { many })
}

/// Join words: `a`, `a and b`, `a, b and c`.
pub fn join(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Make the first letter of a label lower case, for use inside a sentence.
pub fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Group values by key, the keys in the order in which they first come, as for `a 4, 8; b 8`.
pub fn by_key<K: PartialEq, V>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}
