//! Makes the vocabulary of a model, and `tokenizer.json` from it: a byte-level BPE in the format of
//! the `tokenizers` crate. GGUF files have the same vocabulary as lists.
//!
//! Text is split as by GPT-2, which llama.cpp knows as pre-tokenizer `gpt-2`: both encode alike. A
//! BOS token is put before every text, as Llama's tokenizers do.

use anyhow::Result;

use crate::bpe::{self, Bpe};
use crate::prng;
use crate::spec::ModelSpec;
use crate::stories;

/// Padding token; no engine here needs it, but some libraries want one to exist.
pub const PAD: &str = "<pad>";
/// Begin-of-text token.
pub const BOS: &str = "<s>";
/// End-of-text token.
pub const EOS: &str = "</s>";
/// Id of [`PAD`].
pub const PAD_ID: u32 = 0;
/// Id of [`BOS`].
pub const BOS_ID: u32 = 1;
/// Id of [`EOS`].
pub const EOS_ID: u32 = 2;
/// The special tokens, by id; `tokenizer.json` adds the same ones.
pub const SPECIAL: [&str; 3] = [PAD, BOS, EOS];

/// Number of texts the vocabulary is trained on, and of characters of each: about 1.5 MB in all.
const TEXTS: u64 = 500;
const TEXT_CHARS: usize = 3_000;

/// The vocabulary of `spec`: trained tokens, then reserved ones up to `vocab_size`.
///
/// The reserved ones are plain entries that no merge leads to, so no text encodes to them. Making
/// them "added tokens", as Llama 3 does with its 256, would mean a search automaton over 124 000
/// patterns at every load.
pub fn vocabulary(spec: &ModelSpec) -> Result<Bpe> {
    let texts: Vec<String> = (0..TEXTS)
        .map(|i| {
            let seed = prng::bits(prng::stream_key(spec.seed, "tokenizer text"), i);
            // Marks between texts are tokens of their own, not words.
            let text = spec.corpus.text(seed, TEXT_CHARS);
            text.replace(stories::BETWEEN, "\n")
        })
        .collect();
    let mut bpe = bpe::train(
        texts.iter().map(String::as_str),
        &SPECIAL,
        spec.tokenizer_vocab,
    )?;
    let reserved = spec.vocab_size.saturating_sub(bpe.tokens.len());
    bpe.tokens
        .extend((0..reserved).map(|i| format!("<|reserved_{i}|>")));
    Ok(bpe)
}

/// The content of `tokenizer.json` but for the vocabulary, as `tokenizers` writes it.
const WITHOUT_VOCABULARY: &str = include_str!("tokenizer.json");

/// The text of `tokenizer.json` for a vocabulary made by [`vocabulary`].
pub fn tokenizer_json(bpe: &Bpe) -> String {
    let quoted = |text: &str| serde_json::to_string(text).expect("a string serialises");
    let tokens = bpe.tokens.iter().enumerate();
    let tokens = tokens.map(|(id, token)| format!("      {}: {id}", quoted(token)));
    let tokens: Vec<String> = tokens.collect();
    // "a b" and not ["a","b"]: older readers know only this form, and no token has a space.
    let merges = bpe.merges.iter().map(|(a, b)| format!("{a} {b}"));
    let merges = merges.map(|merge| format!("      {}", quoted(&merge)));
    let merges: Vec<String> = merges.collect();
    let vocab = format!("\"vocab\": {{\n{}\n    }}", tokens.join(",\n"));
    let merges = format!("\"merges\": [\n{}\n    ]", merges.join(",\n"));
    WITHOUT_VOCABULARY
        .replace("\"merges\": []", &merges)
        .replace("\"vocab\": {}", &vocab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use tokenizers::Tokenizer;

    #[test]
    fn text_survives_and_compresses() {
        let spec = ModelSpec::tiny_llama();
        let bpe = vocabulary(&spec).unwrap();
        assert_eq!(bpe.tokens.len(), spec.vocab_size);
        assert_eq!(vocabulary(&spec).unwrap(), bpe, "trained twice");
        let tokenizer = Tokenizer::from_bytes(tokenizer_json(&bpe)).unwrap();
        assert_eq!(tokenizer.token_to_id(EOS), Some(EOS_ID));

        let sample = text::text(99, 5_000) + " naïve 東京 🌙\n\tlet x = 1;  // two spaces";
        let ids = tokenizer.encode(sample.as_str(), true).unwrap();
        assert_eq!(ids.get_ids()[0], BOS_ID);
        assert!(ids.len() * 3 < sample.len(), "{} tokens", ids.len());
        assert_eq!(tokenizer.decode(ids.get_ids(), true).unwrap(), sample);
    }

    #[test]
    fn a_story_is_few_tokens_and_its_end_is_one() {
        let spec = ModelSpec::tiny_stories();
        let bpe = vocabulary(&spec).unwrap();
        assert_eq!(bpe.tokens.len(), spec.vocab_size);
        let tokenizer = Tokenizer::from_bytes(tokenizer_json(&bpe)).unwrap();
        let story = stories::story(5, 5);
        let ids = tokenizer.encode(story.as_str(), false).unwrap();
        let words = story.split(' ').count();
        assert!(ids.len() < 2 * words, "{} tokens, {words} words", ids.len());
        let between = tokenizer.encode(stories::BETWEEN, false).unwrap();
        assert_eq!(between.get_ids(), [EOS_ID, BOS_ID]);
    }

    #[test]
    fn reserved_tokens_fill_the_vocabulary_and_nothing_encodes_to_them() {
        let spec = ModelSpec {
            vocab_size: 4200,
            ..ModelSpec::tiny_llama()
        };
        let bpe = vocabulary(&spec).unwrap();
        assert_eq!(bpe.tokens.len(), 4200);
        let tokenizer = Tokenizer::from_bytes(tokenizer_json(&bpe)).unwrap();
        assert_eq!(tokenizer.get_vocab_size(true), 4200);
        let ids = tokenizer.encode("<|reserved_3|>", false).unwrap();
        assert!(ids.get_ids().iter().all(|&id| id < 4096), "{ids:?}");
    }
}
