//! A tokenizer made from a tokenizer.json: special tokens, the pre-tokenizer with SIMD, and the
//! BPE of the `tokenizers` crate.

use crate::boundaries::starts;
use crate::class::Kinds;
use rayon::prelude::*;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::{Model, PreTokenizerWrapper, Tokenizer};

/// A tokenizer that returns the same ids as [`Tokenizer::encode`] without adding special tokens,
/// and nothing else.
pub struct Fast {
    bpe: BPE,
    kinds: Kinds,
    /// The tokens that are searched in the text before it is split, longest first.
    special: Vec<(String, u32)>,
    /// Whether a special token begins with this byte.
    special_begins: [bool; 256],
    /// The character of GPT-2's alphabet for each byte.
    alphabet: [char; 256],
}

/// Buffers of one encoding, which the next one reuses.
#[derive(Default)]
struct Scratch {
    starts: Vec<u32>,
    piece: String,
}

impl Fast {
    /// Make a fast tokenizer of a tokenizer.
    ///
    /// # Errors
    /// Fails if it isn't byte-level BPE with GPT-2's pieces and plainly matched special tokens.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, String> {
        if tokenizer.get_normalizer().is_some() {
            return Err("it normalises text, which this pre-tokenizer doesn't".into());
        }
        match tokenizer.get_pre_tokenizer() {
            Some(PreTokenizerWrapper::ByteLevel(level))
                if level.use_regex && !level.add_prefix_space => {}
            _ => return Err("its pre-tokenizer isn't GPT-2's byte level".into()),
        }
        let ModelWrapper::BPE(bpe) = tokenizer.get_model() else {
            return Err("its model isn't BPE".into());
        };
        let mut special = Vec::new();
        for (id, token) in tokenizer.get_added_tokens_decoder() {
            if token.single_word || token.lstrip || token.rstrip || token.normalized {
                return Err(format!(
                    "its token {:?} isn't matched plainly",
                    token.content
                ));
            }
            special.push((token.content.clone(), id));
        }
        special.sort_by_key(|(content, id)| (std::cmp::Reverse(content.len()), *id));
        let mut special_begins = [false; 256];
        for (content, _) in &special {
            special_begins[usize::from(content.as_bytes()[0])] = true;
        }
        Ok(Self {
            bpe: bpe.clone(),
            kinds: Kinds::new(),
            special,
            special_begins,
            alphabet: alphabet(),
        })
    }

    /// Return the ids of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(text, &mut Scratch::default())
    }

    /// Return the ids of several texts, encoded one after the other.
    pub fn encode_batch(&self, texts: &[String]) -> Vec<Vec<u32>> {
        let mut scratch = Scratch::default();
        let texts = texts.iter();
        texts
            .map(|text| self.encode_with(text, &mut scratch))
            .collect()
    }

    /// Return the ids of several texts, encoded on rayon's threads.
    pub fn encode_batch_parallel(&self, texts: &[String]) -> Vec<Vec<u32>> {
        texts
            .par_iter()
            .map_init(Scratch::default, |scratch, text| {
                self.encode_with(text, scratch)
            })
            .collect()
    }

    /// Split a text without special tokens into its pieces.
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut begins = Vec::new();
        starts(text, &self.kinds, &mut begins);
        begins.push(text.len() as u32);
        let pairs = begins.windows(2);
        pairs
            .map(|two| &text[two[0] as usize..two[1] as usize])
            .collect()
    }

    fn encode_with(&self, text: &str, scratch: &mut Scratch) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        let mut rest = text;
        while let Some((at, length, id)) = self.next_special(rest) {
            self.plain(&rest[..at], scratch, &mut ids);
            ids.push(id);
            rest = &rest[at + length..];
        }
        self.plain(rest, scratch, &mut ids);
        ids
    }

    /// Find the first special token: return its offset, its length and its id. Of several at the
    /// same offset, the longest is taken.
    fn next_special(&self, text: &str) -> Option<(usize, usize, u32)> {
        let bytes = text.as_bytes();
        let may_begin = |byte: &u8| self.special_begins[usize::from(*byte)];
        let mut from = 0;
        while let Some(found) = bytes[from..].iter().position(may_begin) {
            let at = from + found;
            let hit = self
                .special
                .iter()
                .find(|(content, _)| bytes[at..].starts_with(content.as_bytes()));
            if let Some((content, id)) = hit {
                return Some((at, content.len(), *id));
            }
            from = at + 1;
        }
        None
    }

    /// Encode a text without special tokens: split it into pieces, and pass each to the BPE in
    /// GPT-2's alphabet.
    fn plain(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let Scratch {
            starts: begins,
            piece,
        } = scratch;
        begins.clear();
        starts(text, &self.kinds, begins);
        begins.push(text.len() as u32);
        for two in begins.windows(2) {
            piece.clear();
            let bytes = &text.as_bytes()[two[0] as usize..two[1] as usize];
            piece.extend(bytes.iter().map(|&byte| self.alphabet[usize::from(byte)]));
            let tokens = self.bpe.tokenize(piece);
            // Without dropout and with all bytes in the vocabulary nothing can fail.
            ids.extend(tokens.into_iter().flatten().map(|token| token.id));
        }
    }
}

/// Return GPT-2's alphabet: printable bytes stand for themselves, the others for the characters
/// from U+0100 on, in order.
/// (<https://github.com/openai/gpt-2/blob/master/src/encoder.py>)
fn alphabet() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        if matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) {
            return char::from(byte);
        }
        next += 1;
        char::from_u32(next - 1).expect("none of these is a surrogate")
    })
}

/// Return the character of GPT-2's alphabet that stands for a byte.
pub fn letter(byte: u8) -> char {
    alphabet()[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    #[test]
    fn the_alphabet_is_that_of_tokenizers() {
        let ours: std::collections::BTreeSet<char> = alphabet().into_iter().collect();
        let theirs: std::collections::BTreeSet<char> = ByteLevel::alphabet().into_iter().collect();
        assert_eq!(ours, theirs);
        assert_eq!(alphabet()[b' ' as usize], 'Ġ');
    }
}
