//! Tokens on the client's side: the model's tokenizer, and the arrival time of each token.
//!
//! The tokenizer makes a text of a prompt if a server takes no token ids, and counts the tokens in
//! a piece of text. How a server tokenizes a text is not known, so a prompt whose text wouldn't
//! encode to the same ids is refused.
//!
//! Each output token is stamped with the arrival of the piece that contains it; a piece of several
//! tokens stamps all of them, because that is when the client had them.
//!
//! The server says how many tokens a piece has by their ids or log-probabilities. Text alone tells
//! this only roughly: a text needn't encode to the tokens that made it, special tokens have no
//! text, and bytes of an incomplete character are withheld until it is complete. So text is used
//! only to distribute the part of the server's own count that is still open, and must have about
//! that many tokens.

use crate::reply::Reply;
use protocol::engine::EngineError;
use serde_json::Value;
use std::path::Path;
use tokenizers::Tokenizer;

/// A tokenizer, with the model's BOS token.
pub struct ModelTokenizer {
    tokenizer: Tokenizer,
    bos: Option<u32>,
}

impl ModelTokenizer {
    /// Load `tokenizer.json` and `config.json` of a model directory.
    pub fn load(model_dir: &Path) -> Result<Self, EngineError> {
        let unavailable = |name: &str, why: String| {
            EngineError::unavailable(format!(
                "{name} of the model can't be used ({why}): point at the directory of the model that the server serves"
            ))
        };
        let tokenizer = Tokenizer::from_file(model_dir.join("tokenizer.json"))
            .map_err(|error| unavailable("tokenizer.json", error.to_string()))?;
        let config = std::fs::read(model_dir.join("config.json"))
            .map_err(|error| unavailable("config.json", error.to_string()))?;
        let config: Value = serde_json::from_slice(&config)
            .map_err(|error| unavailable("config.json", error.to_string()))?;
        let bos = config["bos_token_id"].as_u64();
        Ok(Self {
            tokenizer,
            bos: bos.map(|id| id as u32),
        })
    }

    /// Return a few ids to try a server with, beginning with BOS if the model has one.
    pub fn sample(&self) -> Result<Vec<u32>, EngineError> {
        let text = "The weather today is";
        let encoding = self.tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(EngineError::internal)?;
        Ok(self
            .bos
            .into_iter()
            .chain(encoding.get_ids().iter().copied())
            .collect())
    }

    /// Whether the tokenizer by itself adds BOS at the beginning of a text.
    pub fn adds_bos(&self) -> bool {
        let encoding = self.tokenizer.encode_fast("a", true);
        encoding.is_ok_and(|encoding| encoding.get_ids().first().copied() == self.bos)
            && self.bos.is_some()
    }

    /// Return how many tokens `text` has by itself.
    pub fn count(&self, text: &str) -> usize {
        let encoding = self.tokenizer.encode_fast(text, false);
        encoding.map_or(0, |encoding| encoding.len())
    }

    /// Return `ids` as a text that encodes to the same ids. A BOS at the beginning is written out
    /// only if `write_bos` is set, because most servers add it.
    pub fn prompt(&self, ids: &[u32], write_bos: bool) -> Result<String, EngineError> {
        let has_bos = self.bos.is_some() && ids.first().copied() == self.bos;
        let rest = &ids[usize::from(has_bos)..];
        let text = self
            .tokenizer
            .decode(rest, false)
            .map_err(EngineError::internal)?;
        let again = self.tokenizer.encode_fast(text.as_str(), false);
        let again = again.map_err(EngineError::internal)?;
        if again.get_ids() != rest {
            return Err(EngineError::unsupported(format!(
                "the server takes no token ids, and this prompt can't be sent as text: its {} tokens would be read as {} others",
                rest.len(),
                again.len()
            )));
        }
        let bos = self.bos.filter(|_| has_bos && write_bos);
        let bos = bos.and_then(|id| self.tokenizer.id_to_token(id));
        Ok(format!("{}{text}", bos.unwrap_or_default()))
    }
}

/// The output tokens of a reply.
#[derive(Debug, PartialEq)]
pub struct Tokens {
    /// When each token arrived (ns); `new_tokens` entries.
    pub token_ns: Vec<u64>,
    /// The tokens' ids; `new_tokens` entries, or none if the server didn't send them.
    pub ids: Vec<u32>,
}

/// Return the tokens of a reply; `Err` unless the server's count and the received content both
/// make `new_tokens`. `count_text` returns how many tokens a text has by itself.
pub fn tokens(
    reply: &Reply,
    new_tokens: u32,
    count_text: impl Fn(&str) -> usize,
) -> Result<Tokens, String> {
    let asked = new_tokens as usize;
    let named: Vec<usize> = reply
        .chunks
        .iter()
        .map(|chunk| chunk.ids.len().max(chunk.logprobs))
        .collect();
    let named_sum: usize = named.iter().sum();
    let server = server_count(reply, asked);
    let mismatch = |client: usize, how: &str| {
        let server = server.map_or("none".to_owned(), |count| count.to_string());
        let reason = reply.finish_reason.as_deref().unwrap_or("none");
        format!(
            "{asked} tokens were asked for; the server counts {server} (finish_reason {reason}), the client {client} by {how}; a server that stops at an end-of-sequence token must take ignore_eos"
        )
    };
    if named_sum == asked && server.is_none_or(|count| count == asked) {
        let ids: Vec<u32> = reply
            .chunks
            .iter()
            .flat_map(|c| c.ids.iter().copied())
            .collect();
        return Ok(Tokens {
            token_ns: stamps(reply, &named),
            ids: if ids.len() == asked { ids } else { Vec::new() },
        });
    }
    // Some servers report only a part of a piece's tokens; then only the text is left to count by.
    let least: Vec<usize> = named.iter().map(|&count| count.max(1)).collect();
    let least_sum: usize = least.iter().sum();
    if server != Some(asked) || least_sum > asked || least.is_empty() {
        let how = if named_sum > 0 {
            "ids or log-probabilities"
        } else {
            "pieces of content"
        };
        return Err(mismatch(named_sum.max(reply.chunks.len()), how));
    }
    let mut open = asked - least_sum;
    let mut counts = least;
    if open > 0 {
        let chunks = reply.chunks.iter().zip(&counts);
        let mut spare: Vec<usize> = chunks
            .map(|(chunk, &count)| count_text(&chunk.text).saturating_sub(count))
            .collect();
        let spare_sum: usize = spare.iter().sum();
        // Tokens without a text of their own are a small part of any output.
        let textless_max = asked / 4;
        let by_text = least_sum + spare_sum;
        if by_text + textless_max < asked || by_text > 2 * asked {
            return Err(mismatch(by_text, "tokenizer"));
        }
        // The piece with the most spare text comes first, so that pieces of equal size get equal
        // shares.
        while open > 0 && spare.iter().any(|&left| left > 0) {
            let most = *spare.iter().max().expect("there is a chunk");
            let at = spare
                .iter()
                .position(|&left| left == most)
                .expect("it is the largest");
            spare[at] -= 1;
            counts[at] += 1;
            open -= 1;
        }
        // Tokens without text get the last stamp, which never makes a server look faster.
        *counts.last_mut().expect("there is a chunk") += open;
    }
    Ok(Tokens {
        token_ns: stamps(reply, &counts),
        ids: Vec::new(),
    })
}

/// Return how many tokens the server says it made: by its usage, or, without one, because it
/// stopped when it had made as many as it was asked for.
fn server_count(reply: &Reply, asked: usize) -> Option<usize> {
    let by_reason = reply.finish_reason.as_deref() == Some("length");
    let usage = reply.completion_tokens.map(|count| count as usize);
    usage.or(by_reason.then_some(asked))
}

fn stamps(reply: &Reply, counts: &[usize]) -> Vec<u64> {
    let pairs = reply.chunks.iter().zip(counts);
    pairs
        .flat_map(|(chunk, &count)| std::iter::repeat_n(chunk.at_ns, count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Chunk;

    /// Count each word as one token.
    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn reply(texts: &[&str], usage: Option<u64>, reason: &str) -> Reply {
        let chunk = |(index, text): (usize, &&str)| Chunk {
            at_ns: 10 * (index as u64 + 1),
            text: (*text).to_owned(),
            ..Chunk::default()
        };
        Reply {
            chunks: texts.iter().enumerate().map(chunk).collect(),
            completion_tokens: usage,
            finish_reason: Some(reason.to_owned()),
            ..Reply::default()
        }
    }

    #[test]
    fn ids_count_first_and_are_kept() {
        let mut reply = reply(&["a b", "c"], Some(3), "length");
        reply.chunks[0].ids = vec![7, 8];
        reply.chunks[1].ids = vec![9];
        let found = tokens(&reply, 3, words).unwrap();
        assert_eq!(
            (found.token_ns, found.ids),
            (vec![10, 10, 20], vec![7, 8, 9])
        );
    }

    #[test]
    fn without_ids_log_probabilities_and_then_text_share_out_the_count() {
        let mut logprobs = reply(&["x", "y"], Some(3), "length");
        (logprobs.chunks[0].logprobs, logprobs.chunks[1].logprobs) = (1, 2);
        assert_eq!(tokens(&logprobs, 3, words).unwrap().token_ns, [10, 20, 20]);
        let one_each = reply(&["a b c", "d"], Some(2), "length");
        assert_eq!(tokens(&one_each, 2, words).unwrap().token_ns, [10, 20]);
        let several = reply(&["a b c", "d", "e f"], Some(6), "length");
        assert_eq!(
            tokens(&several, 6, words).unwrap().token_ns,
            [10, 10, 10, 20, 30, 30]
        );
        // Two of eight tokens have no text; the finish reason says that the count was reached.
        let textless = reply(&["a", "b", "c", "d", "e", "f"], None, "length");
        assert_eq!(
            tokens(&textless, 8, words).unwrap().token_ns,
            [10, 20, 30, 40, 50, 60, 60, 60]
        );
    }

    #[test]
    fn ids_that_were_given_in_part_are_no_output() {
        let mut reply = reply(&["a", "b c"], Some(3), "length");
        (reply.chunks[0].ids, reply.chunks[1].ids) = (vec![7], vec![9]);
        let found = tokens(&reply, 3, words).unwrap();
        assert_eq!((found.token_ns, found.ids), (vec![10, 20, 20], vec![]));
    }

    #[test]
    fn counts_that_disagree_are_an_error_that_names_both() {
        let fails = |reply: &Reply, asked, server: &str, client: &str| {
            let error = tokens(reply, asked, words).unwrap_err();
            assert!(
                error.contains(&format!("the server counts {server}")),
                "{error}"
            );
            assert!(error.contains(&format!("the client {client}")), "{error}");
        };
        // The server stopped early, or says so.
        fails(&reply(&["a", "b"], Some(2), "stop"), 3, "2", "2");
        fails(&reply(&["a", "b"], None, "stop"), 2, "none", "2");
        fails(&reply(&[], Some(3), "length"), 3, "3", "0");
        // The server counts more than arrived, or less.
        fails(&reply(&["a", "b", "c"], Some(8), "length"), 8, "8", "3");
        fails(&reply(&["a", "b", "c"], Some(2), "length"), 2, "2", "3");
        let mut ids = reply(&["a", "b"], Some(3), "length");
        ids.chunks[0].ids = vec![1, 2, 3, 4];
        fails(&ids, 3, "3", "4");
    }
}
