//! Makes prompts of an exact length in tokens: cut from one long seeded text that the harness
//! tokenises once. Equal seeds and tokenizers give equal prompts, so all targets get the same;
//! within a cell no prompt occurs twice.

use anyhow::{Context, Result, bail};
use base::random::{SplitMix64, hash};
use models::{Corpus, ModelSpec};
use schema::hash::sha256_hex;
use std::collections::HashSet;
use std::path::Path;
use tokenizers::Tokenizer;

/// Length of the text, in characters: some hundred thousand tokens.
const TEXT_CHARS: usize = 600_000;

/// The tokenised text that prompts are cut from.
pub struct Prompts {
    tokens: Vec<u32>,
    bos: Option<u32>,
    seed: u64,
}

impl Prompts {
    /// Tokenise the text with a model's tokenizer, and refuse a tokenizer that
    /// doesn't belong to the model.
    pub fn new(model_dir: &Path, seed: u64) -> Result<Self> {
        let path = model_dir.join("tokenizer.json");
        let tokenizer = tokenizer(model_dir)?;
        let config = read_config(model_dir)?;
        let text = corpus(model_dir).text(seed, TEXT_CHARS);
        let mut tokens = Vec::new();
        for paragraph in text.split_inclusive('\n') {
            let encoding = tokenizer.encode_fast(paragraph, false).map_err(|error| {
                anyhow::anyhow!("{}: can't encode text: {error}", path.display())
            })?;
            tokens.extend_from_slice(encoding.get_ids());
        }
        let vocab_size = config["vocab_size"]
            .as_u64()
            .context("config.json has no vocab_size")?;
        if let Some(id) = tokens.iter().find(|&&id| u64::from(id) >= vocab_size) {
            bail!(
                "{}: gives token id {id}, but config.json beside it has vocab_size {vocab_size}: they belong to different models; fetch the model again",
                path.display()
            );
        }
        let bos = config["bos_token_id"].as_u64().map(|id| id as u32);
        Ok(Self { tokens, bos, seed })
    }

    /// Prompts cut from a text of these tokens, without a model.
    #[cfg(test)]
    pub(crate) fn of_tokens(tokens: Vec<u32>) -> Self {
        Self {
            tokens,
            bos: None,
            seed: 5,
        }
    }

    /// `count` prompts of `length` tokens, beginning with the model's BOS token where it has one
    /// and there is room. Sets of prompts that are to differ need a different `purpose` (for a
    /// case, `scenario/case`) or a different `stream`.
    pub fn take(
        &self,
        purpose: &str,
        stream: u64,
        length: usize,
        count: usize,
    ) -> Result<Vec<Vec<u32>>> {
        self.take_alike(purpose, stream, (length, 0), count)
    }

    /// The same as [`Prompts::take`], but the first `shared` tokens, BOS among them, are equal in
    /// all prompts of one purpose, in every stream.
    pub fn take_alike(
        &self,
        purpose: &str,
        stream: u64,
        (length, shared): (usize, usize),
        count: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let bos = self.bos.filter(|_| length > 1);
        let room = length - usize::from(bos.is_some());
        let all = self.tokens.len();
        if all < 2 * room {
            bail!("prompts of {length} tokens can't be cut from a text of {all} tokens");
        }
        let mut random = SplitMix64(self.seed ^ hash(&format!("{purpose}/{length}/shared")));
        let shared = shared.min(length - 1).saturating_sub(length - room);
        let shared_passage = self.passage(&mut random, shared);
        let beginning: Vec<u32> = bos.into_iter().chain(shared_passage).collect();
        let cut = room - shared;
        let name = format!("{purpose}/{length}/{stream}");
        let mut random = SplitMix64(self.seed ^ hash(&name));
        let mut seen = HashSet::new();
        let mut prompts = Vec::with_capacity(count);
        let mut misses = 0;
        while prompts.len() < count {
            // A text has as many passages of a length as it has tokens. Where many prompts are
            // wanted, each is made of two passages: the number of such pairs is that squared.
            let head = if count > self.tokens.len() / 4 {
                cut / 2
            } else {
                0
            };
            let mut ids = beginning.clone();
            ids.extend(self.passage(&mut random, head));
            ids.extend(self.passage(&mut random, cut - head));
            if seen.insert(ids.clone()) {
                prompts.push(ids);
            } else {
                misses += 1;
                if misses > 1000 + 10 * count {
                    bail!(
                        "there are no {count} distinct prompts of {length} tokens in the text: ask for fewer or longer ones"
                    );
                }
            }
        }
        Ok(prompts)
    }

    /// `length` tokens from a random place in the text.
    fn passage(&self, random: &mut SplitMix64, length: usize) -> impl Iterator<Item = u32> + '_ {
        let start = match length {
            0 => 0, // no draw, so that prompts of a single passage stay what they always were
            _ => random.below(self.tokens.len() - length),
        };
        self.tokens[start..start + length].iter().copied()
    }

    /// Hash of everything that prompts depend on, for a run's provenance.
    pub fn sha256(&self) -> String {
        let mut bytes = self.seed.to_le_bytes().to_vec();
        bytes.extend(self.bos.unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(self.tokens.iter().flat_map(|id| id.to_le_bytes()));
        sha256_hex(&bytes)
    }
}

/// The text that prompts for a model are cut from: its training text, where the model is ours.
fn corpus(model_dir: &Path) -> Corpus {
    let id = model_dir.file_name().and_then(|name| name.to_str());
    id.and_then(ModelSpec::named)
        .map_or(Corpus::Varied, |spec| spec.corpus)
}

/// Load a model's tokenizer.
pub fn tokenizer(model_dir: &Path) -> Result<Tokenizer> {
    let path = model_dir.join("tokenizer.json");
    Tokenizer::from_file(&path)
        .map_err(|error| anyhow::anyhow!("{}: not a tokenizer: {error}", path.display()))
}

/// Read a model's `config.json`.
pub fn read_config(model_dir: &Path) -> Result<serde_json::Value> {
    let path = model_dir.join("config.json");
    let shown = path.display();
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("{shown} can't be read: fetch the model with `cargo xtask fetch`")
    })?;
    serde_json::from_str(&text).with_context(|| format!("{shown} is no JSON"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Prompts cut from a text of 400 tokens; BOS is 1.
    pub(crate) fn prompts() -> Prompts {
        Prompts {
            tokens: (0..400).map(|i| i * 7 % 101).collect(),
            bos: Some(1),
            seed: 5,
        }
    }

    #[test]
    fn prompts_are_distinct_of_one_length_and_begin_with_bos() {
        let cut = prompts().take("s/c", 0, 12, 40).unwrap();
        assert!(cut.iter().all(|ids| ids.len() == 12 && ids[0] == 1));
        assert_eq!(cut.iter().collect::<HashSet<_>>().len(), 40);
        assert_eq!(cut, prompts().take("s/c", 0, 12, 40).unwrap());
        assert_ne!(cut, prompts().take("s/c", 1, 12, 40).unwrap());
    }

    #[test]
    fn prompts_that_begin_alike_differ_after_it() {
        let take = |purpose: &str, stream, shared| {
            let prompts = prompts().take_alike(purpose, stream, (40, shared), 20);
            prompts.unwrap()
        };
        let alike = |a: &[u32], b: &[u32]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (timed, untimed) = (take("s/s90", 0, 36), take("s/s90", 1, 36));
        let all = [timed.as_slice(), &untimed].concat();
        assert!(all.iter().all(|ids| ids.len() == 40 && ids[0] == 1));
        assert!(all.iter().all(|ids| ids[..36] == timed[0][..36]));
        assert_eq!(timed.iter().collect::<HashSet<_>>().len(), 20);
        assert_eq!(timed, take("s/s90", 0, 36), "the same for every target");
        // Each case has a beginning of its own, and prompts that share nothing are those of `take`.
        assert!(alike(&take("s/s50", 0, 20)[0], &timed[0]) < 20);
        let apart = take("s/s0", 0, 0);
        assert_eq!(apart, prompts().take("s/s0", 0, 40, 20).unwrap());
        let longest = (1..20).map(|i| alike(&apart[i - 1], &apart[i])).max();
        assert!(longest < Some(10), "{longest:?}");
    }

    #[test]
    fn a_model_trained_on_stories_is_asked_for_stories() {
        assert_eq!(corpus(Path::new("models/tiny-stories")), Corpus::Stories);
        assert_eq!(corpus(Path::new("models/tiny-llama")), Corpus::Varied);
        assert_eq!(corpus(Path::new("models/llama-3.2-1b")), Corpus::Varied);
    }

    #[test]
    fn more_prompts_than_the_text_has_passages_are_still_distinct() {
        let cut = prompts().take("s/c", 0, 12, 2000).unwrap();
        assert!(cut.iter().all(|ids| ids.len() == 12));
        assert_eq!(cut.iter().collect::<HashSet<_>>().len(), 2000);
    }

    #[test]
    fn too_many_or_too_long_prompts_are_refused_with_the_reason() {
        for (length, count, why) in [
            (2, 500, "no 500 distinct prompts of 2 tokens"),
            (999, 1, "999 tokens can't be cut"),
        ] {
            let error = prompts().take("s/c", 0, length, count).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
