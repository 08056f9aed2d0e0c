//! Trains a byte-level BPE vocabulary: splits text as GPT-2 does, then merges the most frequent
//! pair again and again.
//!
//! It has the same algorithm as the trainer of the `tokenizers` crate. That one walks hash maps
//! with a seed per process, and where it queues the same pair twice (a string reachable by two
//! different merges), which entry it pops first, and so the result, can change from run to run.
//! This one breaks every tie by the pair's ids. Encoding is left to `tokenizers`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use anyhow::{Result, anyhow, ensure};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

/// A trained vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bpe {
    /// Tokens by id, in GPT-2's byte alphabet; special ones first, then the 256 bytes.
    pub tokens: Vec<String>,
    /// Pairs of tokens to merge, in order of priority.
    pub merges: Vec<(String, String)>,
}

type Pair = (u32, u32);

/// Trains on `texts` until there are `vocab_size` tokens, `special` ones included.
///
/// Fails where the texts don't have enough different pairs for that many tokens.
pub fn train<'a>(
    texts: impl Iterator<Item = &'a str>,
    special: &[&str],
    vocab_size: usize,
) -> Result<Bpe> {
    let mut tokens: Vec<String> = special.iter().map(|s| (*s).to_owned()).collect();
    let mut bytes: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    bytes.sort_unstable();
    tokens.extend(bytes.iter().map(char::to_string));
    let mut ids: HashMap<String, u32> = tokens.iter().cloned().zip(0..).collect();

    let counted = count_words(texts)?;
    let mut words: Vec<(Vec<u32>, u64)> = counted
        .iter()
        .map(|(word, &count)| (word.chars().map(|c| ids[&c.to_string()]).collect(), count))
        .collect();

    // How often each pair occurs in the text, and the indices of the words that may contain it.
    let mut counts: HashMap<Pair, i64> = HashMap::new();
    let mut places: HashMap<Pair, Vec<usize>> = HashMap::new();
    for (index, (word, count)) in words.iter().enumerate() {
        for pair in pairs(word) {
            *counts.entry(pair).or_default() += *count as i64;
            places.entry(pair).or_default().push(index);
        }
    }

    // Pairs by count, the most frequent first; ties go to the pair with the lowest ids. An entry
    // whose count has changed since stays in the queue, and is skipped when it is popped.
    let mut queue: BinaryHeap<(i64, Reverse<Pair>)> = counts
        .iter()
        .map(|(&pair, &count)| (count, Reverse(pair)))
        .collect();

    let mut merges = Vec::new();
    while tokens.len() < vocab_size {
        let (count, Reverse(pair)) = queue.pop().ok_or_else(|| anyhow!("no pairs left"))?;
        if counts.get(&pair) != Some(&count) {
            continue;
        }
        ensure!(
            count > 1,
            "the text is too poor for {vocab_size} tokens: {} so far",
            tokens.len()
        );
        let (left, right) = (&tokens[pair.0 as usize], &tokens[pair.1 as usize]);
        let merged = format!("{left}{right}");
        merges.push((left.clone(), right.clone()));
        let id = *ids.entry(merged.clone()).or_insert_with(|| {
            tokens.push(merged);
            tokens.len() as u32 - 1
        });

        let mut where_it_stands = places.remove(&pair).unwrap_or_default();
        where_it_stands.dedup();
        let mut changed = Vec::new();
        for index in where_it_stands {
            let (word, count) = &mut words[index];
            let replaced = merge(word, pair, id);
            if replaced.len() == word.len() {
                continue;
            }
            for pair in pairs(word) {
                *counts.entry(pair).or_default() -= *count as i64;
            }
            changed.extend(pairs(word).chain(pairs(&replaced)));
            for pair in pairs(&replaced) {
                *counts.entry(pair).or_default() += *count as i64;
                // The list may name a word twice; the second visit finds nothing to merge.
                if pair.0 == id || pair.1 == id {
                    places.entry(pair).or_default().push(index);
                }
            }
            *word = replaced;
        }
        counts.remove(&pair);
        changed.sort_unstable();
        changed.dedup();
        let changed = changed.into_iter();
        queue.extend(changed.filter_map(|pair| Some((*counts.get(&pair)?, Reverse(pair)))));
    }
    Ok(Bpe { tokens, merges })
}

/// Splits the texts into words as GPT-2 does (contractions, letters, digits, punctuation, white
/// space; a space sticks to the word it precedes), in its byte alphabet, and counts them.
fn count_words<'a>(texts: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, u64>> {
    let splitter = ByteLevel::new(false, true, true);
    let mut counts = BTreeMap::new();
    for text in texts {
        let mut split = PreTokenizedString::from(text);
        splitter
            .pre_tokenize(&mut split)
            .map_err(|e| anyhow!("splitting the training text: {e}"))?;
        for (word, _, _) in split.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

fn pairs(word: &[u32]) -> impl Iterator<Item = Pair> {
    word.windows(2).map(|w| (w[0], w[1]))
}

/// Returns `word` with every occurrence of `pair`, from the left, replaced by `id`.
fn merge(word: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let mut merged = Vec::with_capacity(word.len());
    let mut i = 0;
    while i < word.len() {
        if i + 1 < word.len() && (word[i], word[i + 1]) == pair {
            merged.push(id);
            i += 2;
        } else {
            merged.push(word[i]);
            i += 1;
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_the_most_frequent_pair_first() {
        let bpe = train(
            ["low low low lower lowest newest newest"].into_iter(),
            &["<s>"],
            262,
        )
        .unwrap();
        assert_eq!(bpe.tokens[0], "<s>");
        // " lo" occurs four times and "lo" five; "ow" as often, but its ids are higher.
        assert_eq!(bpe.merges[0], ("l".into(), "o".into()));
        assert_eq!(bpe.merges[1], ("lo".into(), "w".into()));
        assert_eq!(bpe.tokens.len(), 262);
    }

    #[test]
    fn overlapping_pairs_merge_from_the_left() {
        assert_eq!(merge(&[1, 1, 1, 2], (1, 1), 9), [9, 1, 2]);
    }

    #[test]
    fn a_poor_text_is_an_error() {
        let error = train(["ab ab"].into_iter(), &[], 4096).unwrap_err();
        assert!(error.to_string().contains("too poor"), "{error}");
    }
}
