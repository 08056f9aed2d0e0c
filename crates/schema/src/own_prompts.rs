//! The prompts that a user brought to a run, as token ids, so that the run can be resumed,
//! reproduced, merged and checked without the file.
//!
//! The harness converts the file to token ids.

use crate::hash::sha256_hex;
use serde::{Deserialize, Serialize};

/// Largest number of prompts of a run.
pub const PROMPTS_MAX: usize = 10_000;
/// Largest number of tokens of all prompts of a run: about 4 MB of `run.json`.
pub const TOKENS_MAX: usize = 500_000;

/// The prompts of a file that the user named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPrompts {
    /// The file's name, without its directory.
    pub file: String,
    /// sha256 of the file.
    pub sha256: String,
    /// The token ids of each prompt, in the file's order; a prompt is one string, its ids
    /// separated by spaces.
    #[serde(with = "ids")]
    pub tokens: Vec<Vec<u32>>,
}

/// The lengths of prompts (tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length of the shortest prompt.
    pub shortest: u32,
    /// The median length; of an even number of prompts, the lower one of the middle two.
    pub median: u32,
    /// Length of the longest prompt.
    pub longest: u32,
    /// The mean, rounded up.
    pub mean: u32,
}

impl OwnPrompts {
    /// The lengths of the prompts; zeros where there are none.
    pub fn lengths(&self) -> Lengths {
        let mut all: Vec<usize> = self.tokens.iter().map(Vec::len).collect();
        all.sort_unstable();
        let whole = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let at = |index: usize| all.get(index).copied().map_or(0, whole);
        let last = all.len().saturating_sub(1);
        Lengths {
            shortest: at(0),
            median: at(last / 2),
            longest: at(last),
            mean: whole(all.iter().sum::<usize>().div_ceil(all.len().max(1))),
        }
    }

    /// Hash of the token ids: equal where the engines are asked the same prompts, whatever the file
    /// is called.
    pub fn tokens_sha256(&self) -> String {
        let mut bytes = Vec::new();
        for prompt in &self.tokens {
            bytes.extend((prompt.len() as u64).to_le_bytes());
            bytes.extend(prompt.iter().flat_map(|id| id.to_le_bytes()));
        }
        sha256_hex(&bytes)
    }

    /// The file's name and the prompts' hash, by which prompts are told apart.
    pub fn name(&self) -> String {
        format!("{} ({:.12})", self.file, self.tokens_sha256())
    }

    /// Describe the number and the lengths of the prompts in words.
    pub fn words(&self) -> String {
        let (count, lengths) = (self.tokens.len(), self.lengths());
        let noun = if count == 1 { "prompt" } else { "prompts" };
        match lengths.shortest == lengths.longest {
            true => format!(
                "{count} {noun} of {}, {} tokens each",
                self.file, lengths.longest
            ),
            false => format!(
                "{count} {noun} of {}, {} to {} tokens long (median {})",
                self.file, lengths.shortest, lengths.longest, lengths.median
            ),
        }
    }

    /// Describe in words how often each prompt is asked in a case of this many requests.
    pub fn times(&self, requests: u64) -> String {
        let count = self.tokens.len().max(1) as u64;
        match (requests / count, requests % count) {
            (0, some) => format!("{some} of them asked once"),
            (1, 0) => "each asked once".into(),
            (times, 0) => format!("each asked {times} times"),
            (times, _) => format!("each asked {times} or {} times", times + 1),
        }
    }

    /// Refuse prompts that no run can hold; the error has the numbers.
    pub(crate) fn check(&self) -> Result<(), String> {
        let tokens: usize = self.tokens.iter().map(Vec::len).sum();
        let count = self.tokens.len();
        let wrong = if count == 0 || self.tokens.iter().any(Vec::is_empty) {
            "has no prompt, or an empty one".to_owned()
        } else if count > PROMPTS_MAX {
            format!("has {count} prompts, and a run holds {PROMPTS_MAX} at most")
        } else if tokens > TOKENS_MAX {
            format!("has prompts of {tokens} tokens together, and a run holds {TOKENS_MAX} at most")
        } else {
            return Ok(());
        };
        Err(wrong)
    }
}

/// Writes each prompt as one string, because JSON is written here with one value per line and ids
/// would fill the file.
mod ids {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        tokens: &[Vec<u32>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tokens.iter().map(|prompt| {
            let ids: Vec<String> = prompt.iter().map(u32::to_string).collect();
            ids.join(" ")
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<u32>>, D::Error> {
        let prompts: Vec<String> = Deserialize::deserialize(deserializer)?;
        let ids = |prompt: &String| {
            let ids = prompt.split_ascii_whitespace();
            let ids: Result<Vec<u32>, _> = ids.map(str::parse).collect();
            ids.map_err(|error| D::Error::custom(format!("a prompt has no token ids: {error}")))
        };
        prompts.iter().map(ids).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(lengths: &[usize]) -> OwnPrompts {
        OwnPrompts {
            file: "mine.jsonl".into(),
            sha256: "00".into(),
            tokens: lengths
                .iter()
                .map(|&length| (0..length as u32).collect())
                .collect(),
        }
    }

    #[test]
    fn lengths_are_those_of_all_prompts() {
        let of = prompts(&[9, 2, 4, 3]).lengths();
        assert_eq!((of.shortest, of.median, of.longest, of.mean), (2, 3, 9, 5));
        assert_eq!(prompts(&[]).lengths().longest, 0);
        assert_eq!(
            prompts(&[2, 9, 4]).words(),
            "3 prompts of mine.jsonl, 2 to 9 tokens long (median 4)"
        );
        assert_eq!(
            prompts(&[5]).words(),
            "1 prompt of mine.jsonl, 5 tokens each"
        );
    }

    #[test]
    fn it_is_said_how_often_each_is_asked() {
        let times = |requests| prompts(&[1, 1, 1]).times(requests);
        assert_eq!(times(2), "2 of them asked once");
        assert_eq!(times(3), "each asked once");
        assert_eq!(times(10), "each asked 3 or 4 times");
        assert_eq!(times(12), "each asked 4 times");
    }

    #[test]
    fn a_prompt_is_one_string_and_comes_back_whole() {
        let before = prompts(&[3, 1]);
        let json = serde_json::to_string(&before).unwrap();
        assert!(json.contains(r#""tokens":["0 1 2","0"]"#), "{json}");
        assert_eq!(serde_json::from_str::<OwnPrompts>(&json).unwrap(), before);
        let wrong = json.replace("0 1 2", "0 x 2");
        let error = serde_json::from_str::<OwnPrompts>(&wrong).unwrap_err();
        assert!(error.to_string().contains("no token ids"), "{error}");
    }

    #[test]
    fn prompts_are_the_same_where_their_tokens_are() {
        let (one, mut other) = (prompts(&[3, 1]), prompts(&[3, 1]));
        other.file = "copy.jsonl".into();
        assert_eq!(one.tokens_sha256(), other.tokens_sha256());
        assert_ne!(
            one.tokens_sha256(),
            prompts(&[1, 3]).tokens_sha256(),
            "their order counts"
        );
    }

    #[test]
    fn what_no_run_can_hold_is_refused_with_the_numbers() {
        let wrong = |lengths: &[usize]| prompts(lengths).check().unwrap_err();
        assert!(prompts(&[1]).check().is_ok());
        assert!(wrong(&[]).contains("has no prompt"));
        assert!(wrong(&[1, 0]).contains("an empty one"));
        assert!(wrong(&[1; PROMPTS_MAX + 1]).contains("has 10001 prompts"));
        assert!(wrong(&[TOKENS_MAX, 1]).contains("of 500001 tokens together"));
    }
}
