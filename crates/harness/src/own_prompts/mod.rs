//! Reads the user's own prompts: a file of texts or chats, rendered by the model's chat template
//! and encoded. The result is token ids, which are all that a plan holds of them.

mod chat;
mod file;
mod python;

pub use file::File;

use crate::positions;
use crate::prompts::{read_config, tokenizer};
use anyhow::{Context, Result};
use base::names::Refused;
use base::random::{SplitMix64, hash};
use base::repo::Repo;
use chat::Chat;
use file::{Asked, Line};
use schema::own_prompts::{OwnPrompts, TOKENS_MAX};
use std::path::Path;
use tokenizers::Tokenizer;

/// The prompts of a file as the model's token ids, each with room for `new_tokens` after it.
/// Encodes with the tokenizer alone: text gets the model's BOS token where it has one, and a chat
/// has only the tokens that its template writes.
pub fn encode(repo: &Repo, model: &str, file: &File, new_tokens: u32) -> Result<OwnPrompts> {
    let dir = repo.model_dir(model);
    let mut encoder = Encoder::open(&dir, model)?;
    encoder.positions = positions::of_model(repo, model)?;
    encoder.new_tokens = new_tokens;
    let tokens = encoder.all(file)?;
    Ok(OwnPrompts {
        file: file.name.clone(),
        sha256: file.sha256.clone(),
        tokens,
    })
}

struct Encoder<'a> {
    model: &'a str,
    dir: &'a Path,
    tokenizer: Tokenizer,
    vocab_size: u64,
    bos: Option<u32>,
    /// Loaded at the first line that has messages: a model for plain text may have no template.
    chat: Option<Chat>,
    positions: Option<u32>,
    new_tokens: u32,
}

impl<'a> Encoder<'a> {
    fn open(dir: &'a Path, model: &'a str) -> Result<Self> {
        let mut tokenizer = tokenizer(dir)?;
        // Some tokenizers are saved with padding and truncation, but a prompt must keep its length.
        tokenizer.with_padding(None);
        let off = tokenizer.with_truncation(None).map(drop);
        off.map_err(|error| anyhow::anyhow!("{}: {error}", dir.display()))?;
        let config = read_config(dir)?;
        let vocab_size = config["vocab_size"].as_u64();
        let bos = config["bos_token_id"].as_u64();
        Ok(Self {
            model,
            dir,
            tokenizer,
            vocab_size: vocab_size.context("config.json has no vocab_size")?,
            bos: bos.and_then(|id| u32::try_from(id).ok()),
            chat: None,
            positions: None,
            new_tokens: 0,
        })
    }

    fn all(&mut self, file: &File) -> Result<Vec<Vec<u32>>> {
        let mut total = 0;
        let mut all = Vec::with_capacity(file.lines.len());
        for line in &file.lines {
            let at = |why: String| Refused(format!("{}:{}: {why}", file.path, line.number));
            let ids = self.line(line).map_err(|why| match why {
                Wrong::Line(why) => at(why),
                Wrong::Model(why) => Refused(why),
            })?;
            self.check(&ids).map_err(at)?;
            total += ids.len();
            if total > TOKENS_MAX {
                return Err(at(format!(
                    "the prompts up to this one have {total} tokens together, and a run holds {TOKENS_MAX} at most: split the file"
                ))
                .into());
            }
            all.push(ids);
        }
        Ok(all)
    }

    fn line(&mut self, line: &Line) -> Result<Vec<u32>, Wrong> {
        match &line.asked {
            Asked::Text(text) => {
                let ids = self.ids(text)?;
                // Text that was rendered elsewhere may begin with the BOS token.
                let bos = self.bos.filter(|bos| ids.first() != Some(bos));
                Ok(bos.into_iter().chain(ids).collect())
            }
            Asked::Messages(messages) => {
                if self.chat.is_none() {
                    let chat = Chat::load(self.dir, self.model).map_err(Wrong::Model)?;
                    self.chat = Some(chat);
                }
                let chat = self.chat.as_ref().expect("it was just read");
                let text = chat.render(messages).map_err(Wrong::Line)?;
                self.ids(&text)
            }
        }
    }

    fn ids(&self, text: &str) -> Result<Vec<u32>, Wrong> {
        let encoding = self.tokenizer.encode(text, false);
        let encoding = encoding
            .map_err(|error| Wrong::Line(format!("the tokenizer can't encode it: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn check(&self, ids: &[u32]) -> Result<(), String> {
        if ids.is_empty() {
            return Err("it has no tokens: a prompt has one at least".into());
        }
        if let Some(id) = ids.iter().find(|&&id| u64::from(id) >= self.vocab_size) {
            return Err(format!(
                "it has token id {id}, and the vocabulary of {} has {}: tokenizer.json and config.json belong to different models; fetch the model again",
                self.model, self.vocab_size
            ));
        }
        let (length, new) = (ids.len() as u64, u64::from(self.new_tokens));
        match self.positions.map(u64::from) {
            Some(positions) if length + new > positions => Err(format!(
                "it has {length} tokens, and with {new} new ones that is more than the {positions} positions of {}: shorten it to {} tokens",
                self.model,
                positions.saturating_sub(new)
            )),
            _ => Ok(()),
        }
    }
}

/// What is at fault: one line of the file, or the model, so that no line is to be named.
enum Wrong {
    Line(String),
    Model(String),
}

/// The first `count` prompts of an endless sequence: pass after pass over all prompts, each pass in
/// an order of its own, drawn from the seed and `stream`.
pub fn in_order(prompts: &OwnPrompts, seed: u64, stream: &str, count: usize) -> Vec<Vec<u32>> {
    let mut all = Vec::with_capacity(count);
    let mut random = SplitMix64(seed ^ hash(&format!("own prompts/{stream}")));
    let mut order: Vec<&Vec<u32>> = prompts.tokens.iter().collect();
    while all.len() < count && !order.is_empty() {
        random.shuffle(&mut order);
        let left = count - all.len();
        all.extend(order.iter().take(left).map(|ids| (*ids).clone()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn own(count: u32) -> OwnPrompts {
        OwnPrompts {
            file: "mine.jsonl".into(),
            sha256: String::new(),
            tokens: (0..count).map(|id| vec![id]).collect(),
        }
    }

    #[test]
    fn a_pass_has_every_prompt_once_in_an_order_of_its_own() {
        let asked = in_order(&own(20), 1, "s/0", 50);
        assert_eq!(asked.len(), 50);
        let mut passes = asked.chunks(20);
        let mut orders = Vec::new();
        for pass in passes.by_ref().take(2) {
            orders.push(pass.to_vec());
            let mut sorted = pass.to_vec();
            sorted.sort();
            assert_eq!(sorted, own(20).tokens);
        }
        assert_ne!(orders[0], orders[1]);
        let mut times: BTreeMap<&Vec<u32>, u32> = BTreeMap::new();
        for prompt in &asked {
            *times.entry(prompt).or_default() += 1;
        }
        assert!(times.values().all(|count| (2..=3).contains(count)));
    }

    #[test]
    fn the_order_is_the_seeds_and_the_streams() {
        let of = |seed, stream| in_order(&own(20), seed, stream, 40);
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_ne!(of(1, "a"), of(2, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_eq!(of(1, "a")[..30], in_order(&own(20), 1, "a", 30));
        assert!(in_order(&own(0), 1, "a", 5).is_empty());
    }
}
