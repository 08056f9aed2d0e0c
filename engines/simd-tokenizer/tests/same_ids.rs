//! Tests that the ids are those of `tokenizers` for every text, with 10 000 generated strings in
//! which all kinds of parts occur beside each other.

use models::prng::Rng;
use models::spec::ModelSpec;
use models::tokenizer::{tokenizer_json, vocabulary};
use simd_tokenizer::Fast;
use tokenizers::Tokenizer;

const STRINGS: usize = 10_000;

/// The parts that strings are made of. The ends of UTF-8's ranges look like truncated sequences to
/// code that counts bytes.
const PARTS: [&str; 56] = [
    "a",
    "Word",
    "don't",
    "'s",
    "'S",
    "'re",
    "'ve",
    "'ll",
    "'lls",
    "'m",
    "'d",
    "'t",
    "'",
    "''",
    "'r",
    "'l",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    "\u{b}",
    "\u{c}",
    "\u{1c}",
    "7",
    "1234",
    "3.14",
    "½",
    "٣",
    "Ⅷ",
    "!",
    "?!",
    "...",
    "-",
    "_",
    "#",
    "<s>",
    "</s>",
    "<pad>",
    "<",
    "<s",
    "é",
    "naïve",
    "東京",
    "ひらがな",
    "мир",
    "🌙",
    "👩‍👩‍👧",
    "🇩🇪",
    "e\u{301}",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    "\u{200b}",
];

/// The first and last characters of each length of UTF-8, and those beside the surrogates.
const EDGES: [char; 13] = [
    '\0',
    '\u{7f}',
    '\u{80}',
    '\u{7ff}',
    '\u{800}',
    '\u{d7ff}',
    '\u{e000}',
    '\u{feff}',
    '\u{fffd}',
    '\u{ffff}',
    '\u{10000}',
    '\u{10ffff}',
    '\u{85}',
];

fn string(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.between(0, 40) {
        match rng.below(12) {
            0 => text.push(EDGES[rng.below(EDGES.len())]),
            1 => {
                let code = rng.below(0x11_0000) as u32;
                text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            // Long enough to fill blocks.
            2 => {
                let run = [" ", "\n", "x", "9", "'", "\u{3000}", "é"][rng.below(7)];
                text.push_str(&run.repeat(rng.between(1, 150)));
            }
            _ => text.push_str(PARTS[rng.below(PARTS.len())]),
        }
    }
    text
}

#[test]
fn ids_are_those_of_tokenizers() {
    let bpe = vocabulary(&ModelSpec::tiny_llama()).expect("the text suffices");
    let tokenizer = Tokenizer::from_bytes(tokenizer_json(&bpe)).expect("it is a tokenizer");
    let fast = Fast::new(&tokenizer).expect("it is GPT-2's");
    let mut rng = Rng::new(7, "strings");
    let mut ids = 0;
    let mut texts = Vec::new();
    for _ in 0..STRINGS {
        let text = string(&mut rng);
        let expected = tokenizer.encode(text.as_str(), false).expect("it encodes");
        assert_eq!(fast.encode(&text), expected.get_ids(), "{text:?}");
        ids += expected.len();
        texts.push(text);
    }
    assert!(
        ids > 50 * STRINGS,
        "{ids} ids: the strings are too short to prove much"
    );
    let stories = models::text::text(3, 50_000);
    let expected = tokenizer
        .encode(stories.as_str(), false)
        .expect("it encodes");
    assert_eq!(fast.encode(&stories), expected.get_ids());
    // Reusing buffers must not change the ids.
    let (one, other) = (
        fast.encode_batch(&texts),
        fast.encode_batch_parallel(&texts),
    );
    assert_eq!(one, other);
    assert_eq!(one[9], fast.encode(&texts[9]));
}

#[test]
fn a_tokenizer_of_another_kind_is_refused() {
    use tokenizers::models::bpe::BPE;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    let mut tokenizer = Tokenizer::new(BPE::default());
    assert!(Fast::new(&tokenizer).is_err_and(|why| why.contains("pre-tokenizer")));
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(true, true, true)));
    assert!(Fast::new(&tokenizer).is_err_and(|why| why.contains("pre-tokenizer")));
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    assert!(Fast::new(&tokenizer).is_ok());
    let lowercase = tokenizers::normalizers::utils::Lowercase;
    tokenizer
        .with_normalizer(Some(lowercase))
        .expect("there are no added tokens to normalise");
    assert!(Fast::new(&tokenizer).is_err_and(|why| why.contains("normalises")));
}
