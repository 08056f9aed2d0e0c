//! The ways to encode: `tokenizers` by itself, this crate's pre-tokenizer in front of its BPE, and
//! other crates that can load the same vocabulary. The harness judges whether their ids are the
//! same.

use bpe::byte_pair_encoding::BytePairEncoding;
use simd_tokenizer::Fast;
use simd_tokenizer::class::Masks;
use std::collections::HashMap;
use tiktoken_rs::CoreBPE;
use tokenizers::{Encoding, ModelWrapper, Tokenizer};
use tokenizers_next::pipeline::{self, EncodeOptions, PipelineToken, PipelineTokenizer};

/// The regular expression of GPT-2's pieces, written as in `tokenizers`.
const PIECES: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Versions of the crates that are timed. A test compares them with the lockfile.
const TOKENIZERS: &str = "0.23.2";
const NEXT: &str = "1.0.0-rc.3";
const TIKTOKEN: &str = "0.12.1";
const BPE: &str = "0.2.3";

/// A way to encode.
pub enum Encoder {
    /// `Tokenizer::encode`, one text after the other.
    Serial(Box<Tokenizer>),
    /// `Tokenizer::encode_batch`, on rayon's threads.
    Parallel(Box<Tokenizer>),
    /// `Tokenizer::encode_fast`, which leaves out offsets.
    SerialFast(Box<Tokenizer>),
    /// `Tokenizer::encode_batch_fast`, on rayon's threads, which leaves out offsets.
    ParallelFast(Box<Tokenizer>),
    /// `tokenizers` 1.0, which was written anew: `encode_into`, one text after the other.
    Next(PipelineTokenizer),
    /// The same crate's `encode` of a batch, on its threads.
    NextParallel(PipelineTokenizer),
    /// This crate's pre-tokenizer in front of the BPE of `tokenizers`.
    Simd(Box<Fast>),
    /// The same as `Simd`, on rayon's threads.
    SimdParallel(Box<Fast>),
    /// tiktoken-rs with its own regular expression.
    Tiktoken(Box<CoreBPE>),
    /// This crate's pre-tokenizer in front of the crate `bpe`, whose first token has this id.
    SimdBpe(Box<Fast>, Box<BytePairEncoding>, u32),
}

/// The output of a call.
#[derive(Default)]
pub enum Encoded {
    /// No call was made yet.
    #[default]
    Nothing,
    /// The output of `tokenizers`.
    Encodings(Vec<Encoding>),
    /// The output of `tokenizers` 1.0.
    NextEncodings(Vec<pipeline::Encoding>),
    /// The tokens of `tokenizers` 1.0 alone.
    Tokens(Vec<Vec<PipelineToken>>),
    /// The output of every other encoder.
    Ids(Vec<Vec<u32>>),
}

impl Encoder {
    /// Create the encoder of that name; `None` if there is none, an error if it can't load this
    /// tokenizer.
    pub fn new(name: &str, tokenizer: &Tokenizer) -> Result<Option<Self>, String> {
        let without = match name {
            "serial_uncached" | "simd_uncached" => Some(uncached(tokenizer)),
            _ => None,
        };
        let tokenizer = without.as_ref().unwrap_or(tokenizer);
        let whole = || Box::new(tokenizer.clone());
        let fast = || Fast::new(tokenizer).map(Box::new);
        Ok(Some(match name {
            "serial" | "serial_uncached" => Self::Serial(whole()),
            "parallel" => Self::Parallel(whole()),
            "serial_fast" => Self::SerialFast(whole()),
            "parallel_fast" => Self::ParallelFast(whole()),
            "next" => Self::Next(next(tokenizer)?),
            "next_parallel" => Self::NextParallel(next(tokenizer)?),
            "simd" | "simd_uncached" => Self::Simd(fast()?),
            "simd_parallel" => Self::SimdParallel(fast()?),
            "tiktoken" => Self::Tiktoken(Box::new(tiktoken(tokenizer)?)),
            "simd_bpe" => {
                let (first, bpe) = other_bpe(tokenizer)?;
                Self::SimdBpe(fast()?, Box::new(bpe), first)
            }
            _ => return Ok(None),
        }))
    }

    /// Return the version of the code that is timed: that of this crate, if it splits the text, and
    /// that of the crate that encodes.
    pub fn version(&self) -> String {
        let ours = env!("CARGO_PKG_VERSION");
        match self {
            Self::Serial(_) | Self::Parallel(_) | Self::SerialFast(_) | Self::ParallelFast(_) => {
                format!("tokenizers {TOKENIZERS}")
            }
            Self::Next(_) | Self::NextParallel(_) => format!("tokenizers {NEXT}"),
            Self::Simd(_) | Self::SimdParallel(_) => format!("{ours}, tokenizers {TOKENIZERS}"),
            Self::Tiktoken(_) => format!("tiktoken-rs {TIKTOKEN}"),
            Self::SimdBpe(..) => format!("{ours}, bpe {BPE}"),
        }
    }

    /// Return the remarks that a reader of its numbers must know.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Simd(_) | Self::SimdParallel(_) | Self::SimdBpe(..) => vec![format!(
                "instructions of the pre-tokenizer: {}",
                Masks::instructions()
            )],
            _ => Vec::new(),
        }
    }

    /// Encode every text, without adding special tokens.
    pub fn encode(&self, texts: &[String]) -> Result<Encoded, String> {
        let encodings = |all: tokenizers::Result<Vec<Encoding>>| {
            all.map(Encoded::Encodings).map_err(|e| e.to_string())
        };
        let each = |of: &dyn Fn(&str) -> tokenizers::Result<Encoding>| {
            encodings(texts.iter().map(|text| of(text)).collect())
        };
        let batch = || texts.iter().map(String::as_str).collect::<Vec<&str>>();
        match self {
            Self::Serial(t) => each(&|text| t.encode(text, false)),
            Self::SerialFast(t) => each(&|text| t.encode_fast(text, false)),
            Self::Parallel(t) => encodings(t.encode_batch(batch(), false)),
            Self::ParallelFast(t) => encodings(t.encode_batch_fast(batch(), false)),
            Self::Next(next) => {
                let options = EncodeOptions::no_specials();
                let tokens = |text: &String| {
                    let mut tokens = Vec::new();
                    next.encode_into(text, &options, &mut tokens)?;
                    Ok(tokens)
                };
                let all = texts.iter().map(tokens);
                all.collect::<tokenizers_next::Result<_>>()
                    .map(Encoded::Tokens)
                    .map_err(|error| error.to_string())
            }
            Self::NextParallel(next) => {
                let all = next.encode(batch(), &EncodeOptions::no_specials()).wait();
                all.map(Encoded::NextEncodings).map_err(|e| e.to_string())
            }
            Self::Simd(fast) => Ok(Encoded::Ids(fast.encode_batch(texts))),
            Self::SimdParallel(fast) => Ok(Encoded::Ids(fast.encode_batch_parallel(texts))),
            Self::Tiktoken(core) => {
                let texts = texts.iter();
                let all = texts.map(|text| core.encode_with_special_tokens(text));
                Ok(Encoded::Ids(all.collect()))
            }
            Self::SimdBpe(fast, bpe, first) => {
                let ids = |text: &String| {
                    let pieces = fast.pieces(text).into_iter();
                    let ids = pieces.flat_map(|p| bpe.encode_via_backtracking(p.as_bytes()));
                    ids.map(|id| id + first).collect()
                };
                Ok(Encoded::Ids(texts.iter().map(ids).collect()))
            }
        }
    }
}

impl Encoded {
    /// Return, for each text, the number of its ids, followed by the ids.
    pub fn values(&self) -> Vec<f64> {
        let mut values = Vec::new();
        let mut add = |ids: &[u32]| {
            values.push(ids.len() as f64);
            values.extend(ids.iter().map(|&id| f64::from(id)));
        };
        match self {
            Self::Nothing => {}
            Self::Encodings(all) => all.iter().for_each(|encoding| add(encoding.get_ids())),
            Self::NextEncodings(all) => all
                .iter()
                .for_each(|encoding| add(PipelineToken::cast_slice(encoding.ids()))),
            Self::Tokens(all) => all
                .iter()
                .for_each(|tokens| add(PipelineToken::cast_slice(tokens))),
            Self::Ids(all) => all.iter().for_each(|ids| add(ids)),
        }
        values
    }
}

/// Return the same tokenizer with an empty cache in its BPE.
fn uncached(tokenizer: &Tokenizer) -> Tokenizer {
    let mut tokenizer = tokenizer.clone();
    let mut model = tokenizer.get_model().clone();
    model.resize_cache(0);
    tokenizer.with_model(model);
    tokenizer
}

/// Load the same tokenizer into `tokenizers` 1.0, whose reader wants another form of the file.
fn next(tokenizer: &Tokenizer) -> Result<PipelineTokenizer, String> {
    let json = tokenizer.to_string(false).map_err(|e| e.to_string())?;
    let json = tokenizers_next::canonicalize_str(&json).map_err(|e| e.to_string())?;
    tokenizers_next::from_json(&json).map_err(|e| e.to_string())
}

/// Return every token that text can encode to: its id, and its bytes.
fn vocabulary(tokenizer: &Tokenizer) -> Result<Vec<(u32, Vec<u8>)>, String> {
    let ModelWrapper::BPE(bpe) = tokenizer.get_model() else {
        return Err("its model isn't BPE".into());
    };
    let byte_of: HashMap<char, u8> = (0..=255).map(|b| (simd_tokenizer::letter(b), b)).collect();
    let special = tokenizer.get_added_tokens_decoder();
    let mut all: Vec<(u32, Vec<u8>)> = bpe
        .get_vocab()
        .into_iter()
        .filter(|(_, id)| !special.contains_key(id))
        .filter_map(|(token, id)| {
            let bytes = token.chars().map(|c| byte_of.get(&c).copied());
            Some((id, bytes.collect::<Option<Vec<u8>>>()?))
        })
        .collect();
    all.sort_unstable();
    Ok(all)
}

fn tiktoken(tokenizer: &Tokenizer) -> Result<CoreBPE, String> {
    let ranks = vocabulary(tokenizer)?;
    let special = tokenizer.get_added_tokens_decoder();
    let special = special.into_iter().map(|(id, token)| (token.content, id));
    let ranks = ranks.into_iter().map(|(id, bytes)| (bytes, id));
    CoreBPE::new(ranks.collect(), special.collect(), PIECES).map_err(|error| error.to_string())
}

/// Make the tokenizer of the crate `bpe`, which numbers its tokens from 0; so the ids must be
/// consecutive.
fn other_bpe(tokenizer: &Tokenizer) -> Result<(u32, BytePairEncoding), String> {
    let ranks = vocabulary(tokenizer)?;
    let first = ranks.first().map_or(0, |(id, _)| *id);
    if !ranks
        .iter()
        .map(|(id, _)| *id)
        .eq(first..first + ranks.len() as u32)
    {
        return Err("its ids have gaps, which the crate bpe can't number".into());
    }
    let tokens = ranks.into_iter().map(|(_, bytes)| bytes);
    Ok((
        first,
        BytePairEncoding::from_dictionary(tokens, Some(FACTOR)),
    ))
}

/// The factor of the hash with which the crate `bpe` finds tokens: any odd 64-bit number. A
/// collision of two tokens would show as a wrong output.
const FACTOR: u64 = 17_846_336_922_010_275_747;

#[cfg(test)]
mod tests {
    use super::*;
    use models::spec::ModelSpec;
    use models::tokenizer::{tokenizer_json, vocabulary};
    use protocol::engine::testing::assert_locked;

    const NAMES: [&str; 12] = [
        "serial",
        "parallel",
        "serial_fast",
        "parallel_fast",
        "serial_uncached",
        "next",
        "next_parallel",
        "simd",
        "simd_parallel",
        "simd_uncached",
        "tiktoken",
        "simd_bpe",
    ];

    fn tokenizer() -> Tokenizer {
        let bpe = vocabulary(&ModelSpec::tiny_llama()).expect("the text suffices");
        Tokenizer::from_bytes(tokenizer_json(&bpe)).expect("it is a tokenizer")
    }

    #[test]
    fn every_way_gives_the_ids_of_the_first() {
        let tokenizer = tokenizer();
        let texts = [
            "Once upon a time, once upon a time.".to_owned(),
            "é 7".into(),
        ];
        let values = |name: &str| {
            let encoder = Encoder::new(name, &tokenizer).unwrap().expect(name);
            // Encode twice, so that a cache is tested too.
            encoder.encode(&texts).unwrap();
            encoder.encode(&texts).unwrap().values()
        };
        for name in NAMES {
            assert_eq!(values(name), values("serial"), "{name}");
        }
        for name in ["tiktoken_uncached", "serial_", ""] {
            assert!(Encoder::new(name, &tokenizer).unwrap().is_none(), "{name}");
        }
    }

    #[test]
    fn a_version_is_that_of_the_crate_that_is_timed() {
        let tokenizer = tokenizer();
        let lock = include_str!("../../../Cargo.lock");
        assert_locked(lock, &["tokenizers"], TOKENIZERS);
        assert_locked(lock, &["tokenizers"], NEXT);
        assert_locked(lock, &["bpe"], BPE);
        assert_locked(lock, &["tiktoken-rs"], TIKTOKEN);
        for (name, of, has_note) in [
            ("serial_fast", "tokenizers 0.", false),
            ("next_parallel", "tokenizers 1.", false),
            ("simd_uncached", ", tokenizers 0.", true),
            ("tiktoken", "tiktoken-rs 0.", false),
            ("simd_bpe", ", bpe 0.", true),
        ] {
            let encoder = Encoder::new(name, &tokenizer).unwrap().expect(name);
            assert!(
                encoder.version().contains(of),
                "{name}: {}",
                encoder.version()
            );
            assert_eq!(!encoder.notes().is_empty(), has_note, "{name}");
        }
    }
}
