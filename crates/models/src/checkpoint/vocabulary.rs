//! Converts tokenizer.json to the lists of a GGUF file: tokens by id, their types, and the merges.
//!
//! It knows byte-level BPE (GPT-2's kind: Llama 3, Qwen, SmolLM) and SentencePiece's BPE as
//! `tokenizers` stores it (Llama 2's kind: TinyLlama, Mistral, Phi-3); a model with a Unigram or
//! WordPiece tokenizer is refused. The harness sends ids, so how an engine tokenises text with
//! these lists affects no measurement, only requests by hand.

use super::shape::Shape;
use crate::gguf::Metadata;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::HashMap;

/// The values of llama.cpp's `llama_token_type`.
mod kind {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
    pub const BYTE: i32 = 6;
}

/// The vocabulary of a tokenizer.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// Token and type by id; ids without a token have the type unused.
    tokens: Vec<(String, i32)>,
    /// Pairs to merge, in order of priority.
    merges: Vec<(String, String)>,
    /// Whether it is SentencePiece's BPE, and not byte-level BPE.
    is_sentencepiece: bool,
    /// llama.cpp's name of the pre-tokenizer, for byte-level BPE.
    splits_as: &'static str,
}

impl Vocabulary {
    /// Read the text of tokenizer.json.
    ///
    /// # Errors
    /// In one line: the text is no JSON, the model isn't BPE, or a list is malformed.
    pub fn read(tokenizer: &[u8]) -> Result<Self> {
        let json: Value =
            serde_json::from_slice(tokenizer).context("tokenizer.json is not valid JSON")?;
        let model = &json["model"];
        let kind = model["type"].as_str().unwrap_or("BPE");
        let Some(vocab) = model["vocab"].as_object().filter(|_| kind == "BPE") else {
            bail!("tokenizer.json has a model of type {kind}; known here is BPE");
        };
        let is_sentencepiece = model["byte_fallback"] == Value::Bool(true);
        let id = |value: &Value| {
            let id = value.as_u64().filter(|id| *id < 1 << 24);
            id.map(|id| id as usize)
                .context("tokenizer.json gives a token no number as its id")
        };
        let mut tokens: Vec<Option<(String, i32)>> = Vec::new();
        let mut put = |id: usize, token: &str, kind: i32| {
            if tokens.len() <= id {
                tokens.resize(id + 1, None);
            }
            tokens[id] = Some((token.to_owned(), kind));
        };
        for (token, value) in vocab {
            let is_byte = is_sentencepiece && token.len() == 6 && token.starts_with("<0x");
            let kind = match is_byte {
                true => kind::BYTE,
                false => kind::NORMAL,
            };
            put(id(value)?, token, kind);
        }
        for added in json["added_tokens"].as_array().into_iter().flatten() {
            let token = added["content"]
                .as_str()
                .context("tokenizer.json adds a token without `content`")?;
            let kind = match (token, added["special"] == Value::Bool(true)) {
                ("<unk>", _) => kind::UNKNOWN,
                (_, true) => kind::CONTROL,
                (_, false) => kind::USER_DEFINED,
            };
            put(id(&added["id"])?, token, kind);
        }
        let merges = model["merges"].as_array().into_iter().flatten();
        Ok(Self {
            tokens: tokens
                .into_iter()
                .enumerate()
                .map(|(id, token)| token.unwrap_or_else(|| unused(id)))
                .collect(),
            merges: merges.map(merge).collect::<Result<_>>()?,
            is_sentencepiece,
            splits_as: splits_as(&json["pre_tokenizer"]),
        })
    }

    /// Number of ids that texts can encode to: the largest id plus one.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Write the tokenizer's keys for an embedding of `shape`'s rows; rows beyond the tokens are
    /// unused ids.
    pub(crate) fn describe(&self, m: &mut Metadata, shape: &Shape, begins_with_bos: bool) {
        let unused_ones = (self.len()..shape.spec.vocab_size).map(unused);
        let all: Vec<(String, i32)> = self.tokens.iter().cloned().chain(unused_ones).collect();
        let tokens: Vec<&str> = all.iter().map(|(token, _)| token.as_str()).collect();
        let types: Vec<i32> = all.iter().map(|(_, kind)| *kind).collect();
        match self.is_sentencepiece {
            true => m.string("tokenizer.ggml.model", "llama"),
            false => {
                m.string("tokenizer.ggml.model", "gpt2");
                m.string("tokenizer.ggml.pre", self.splits_as);
            }
        }
        m.strings("tokenizer.ggml.tokens", &tokens);
        m.i32s("tokenizer.ggml.token_type", &types);
        match self.is_sentencepiece {
            true => m.f32s("tokenizer.ggml.scores", &self.scores(&tokens)),
            false => {
                let merges: Vec<String> = self
                    .merges
                    .iter()
                    .map(|(a, b)| format!("{a} {b}"))
                    .collect();
                m.strings("tokenizer.ggml.merges", &merges);
            }
        }
        if let Some(id) = shape.bos_id {
            m.u32("tokenizer.ggml.bos_token_id", id);
        }
        if let Some(id) = shape.eos_id {
            m.u32("tokenizer.ggml.eos_token_id", id);
        }
        m.bool("tokenizer.ggml.add_bos_token", begins_with_bos);
        m.bool("tokenizer.ggml.add_eos_token", false);
    }

    /// The score of each token. SentencePiece merges the pair with the highest score first, so
    /// earlier merges get higher scores. Tokens that no merge makes get 0, as the alphabet has in
    /// Llama's own file.
    fn scores(&self, tokens: &[&str]) -> Vec<f32> {
        let mut ranks: HashMap<String, usize> = HashMap::new();
        for (rank, (a, b)) in self.merges.iter().enumerate() {
            ranks.entry(format!("{a}{b}")).or_insert(rank);
        }
        let score = |token: &&str| ranks.get(*token).map_or(0.0, |rank| -(*rank as f32) - 1.0);
        tokens.iter().map(score).collect()
    }
}

/// The placeholder for an id that no token has, as llama.cpp's converter writes it.
fn unused(id: usize) -> (String, i32) {
    (format!("[PAD{id}]"), kind::UNUSED)
}

/// Reads a merge: `"a b"`, or `["a", "b"]` in newer files.
fn merge(value: &Value) -> Result<(String, String)> {
    let pair = match value {
        Value::String(text) => text.split_once(' '),
        pair => pair[0].as_str().zip(pair[1].as_str()),
    };
    let (a, b) = pair.context("tokenizer.json has a merge that is no pair of tokens")?;
    Ok((a.to_owned(), b.to_owned()))
}

/// llama.cpp's name of a pre-tokenizer, found by patterns that differ between these families.
fn splits_as(pre_tokenizer: &Value) -> &'static str {
    let text = pre_tokenizer.to_string();
    if text.contains(r"\\p{N}{1,3}") {
        "llama-bpe"
    } else if text.contains(r"\\p{N}| ?[^") {
        "qwen2"
    } else if text.contains("\"Digits\"") {
        "smollm"
    } else if text.contains("\"Split\"") {
        "default"
    } else {
        "gpt-2"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{tokenizer_json, vocabulary};
    use crate::{ModelSpec, bpe::Bpe};

    #[test]
    fn our_own_tokenizer_is_read_as_it_was_made() {
        let spec = ModelSpec::tiny_stories();
        let bpe: Bpe = vocabulary(&spec).unwrap();
        let read = Vocabulary::read(tokenizer_json(&bpe).as_bytes()).unwrap();
        assert_eq!(read.len(), 768);
        assert!(!read.is_sentencepiece && !read.is_empty());
        assert_eq!(read.splits_as, "gpt-2");
        let tokens: Vec<&String> = read.tokens.iter().map(|(token, _)| token).collect();
        assert_eq!(tokens, bpe.tokens.iter().collect::<Vec<_>>());
        assert_eq!(read.merges, bpe.merges);
        let types: Vec<i32> = read.tokens.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(
            types[..4],
            [kind::CONTROL, kind::CONTROL, kind::CONTROL, kind::NORMAL]
        );
    }

    const SENTENCEPIECE: &str = r#"{"model": {"type": "BPE", "byte_fallback": true,
        "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "a": 3, "b": 4, "ab": 5, "aab": 7},
        "merges": [["a", "b"], "a ab"]},
        "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
            {"id": 1, "content": "<s>", "special": true},
            {"id": 8, "content": "<mine>", "special": false}]}"#;

    #[test]
    fn sentencepiece_has_scores_in_the_order_of_its_merges() {
        let read = Vocabulary::read(SENTENCEPIECE.as_bytes()).unwrap();
        let types: Vec<i32> = read.tokens.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(types, [2, 3, 6, 1, 1, 1, 5, 1, 4]);
        assert_eq!(read.tokens[6].0, "[PAD6]", "an id that nothing has");
        let tokens: Vec<&str> = read
            .tokens
            .iter()
            .map(|(token, _)| token.as_str())
            .collect();
        let scores = read.scores(&tokens);
        assert_eq!(scores[5], -1.0);
        assert_eq!(scores[7], -2.0);
        assert_eq!(scores[3], 0.0);
    }

    #[test]
    fn families_are_told_apart_by_how_they_split() {
        let of = |text: &str| splits_as(&serde_json::from_str(text).unwrap());
        let split = |pattern: &str| {
            format!(
                r#"{{"type": "Sequence", "pretokenizers": [{{"type": "Split", "pattern": {{"Regex": "{pattern}"}}}}]}}"#
            )
        };
        assert_eq!(of(&split(r"\\p{L}+|\\p{N}{1,3}| ?[^\\s]")), "llama-bpe");
        assert_eq!(of(&split(r"\\p{L}+|\\p{N}| ?[^\\s]")), "qwen2");
        assert_eq!(of(&split("x")), "default");
        let smollm = r#"{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel"}]}"#;
        assert_eq!(of(smollm), "smollm");
        assert_eq!(of(r#"{"type": "ByteLevel"}"#), "gpt-2");
    }

    #[test]
    fn what_is_no_bpe_is_refused_in_one_line() {
        let cases = [
            ("{", "not valid JSON"),
            (
                r#"{"model": {"type": "Unigram", "vocab": []}}"#,
                "type Unigram; known here is BPE",
            ),
            (r#"{"model": {"vocab": {"a": "x"}}}"#, "no number as its id"),
            (
                r#"{"model": {"vocab": {"a": 0}, "merges": [3]}}"#,
                "no pair of tokens",
            ),
            (
                r#"{"model": {"vocab": {}}, "added_tokens": [{"id": 1}]}"#,
                "without `content`",
            ),
        ];
        for (text, why) in cases {
            let error = Vocabulary::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
