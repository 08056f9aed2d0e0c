//! Finds where GPT-2's pieces begin. Their regular expression is
//!
//! ```text
//! 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//! ```
//!
//! It matches every character, so the pieces are determined by their beginnings alone. These
//! follow from the kinds of a character and its neighbours:
//!
//! - a letter, number or other character begins a piece unless the character before it is of the
//!   same kind, or is the space that the piece begins with;
//! - white space begins a piece if no white space is before it, and also if a character that is
//!   not white comes next: `\s+(?!\S)` leaves out the last one of a run. If that is a space, it
//!   begins the next piece;
//! - an apostrophe that begins a piece may begin a contraction, which ends the piece
//!   after one or two letters, whatever comes then.
//!
//! The first two rules are shifts of masks, 64 bytes at a time; the third is checked for pieces
//! that begin with an apostrophe. All bytes of a character beyond ASCII get the mask of its kind,
//! so that the shifts are right for them as well.

use crate::class::{BLOCK, Kind, Kinds, Masks};

/// The kinds of the byte before a block: 0 or 1, in the lowest bit of each mask.
#[derive(Clone, Copy, Default)]
struct Before {
    letter: u64,
    number: u64,
    other: u64,
    white: u64,
    space: u64,
}

/// Append the byte offset at which each piece of `text` begins to `out`.
pub fn starts(text: &str, kinds: &Kinds, out: &mut Vec<u32>) {
    let bytes = text.as_bytes();
    let mut before = Before::default();
    let mut at = 0;
    // Beginnings before this offset are inside a contraction.
    let mut resume_at = 0;
    while at < bytes.len() {
        let (mut masks, mut length) = load(&bytes[at..]);
        let mut continued = 0;
        if masks.beyond != 0 {
            (length, continued) = beyond_ascii(&text[at..], length, kinds, &mut masks);
        }
        let mut found = pieces(&masks, length, &mut before, || {
            text[at + length..]
                .chars()
                .next()
                .is_some_and(|c| kinds.kind(c) != Kind::White)
        });
        // The masks mark the last byte of a white character; a piece begins at its first byte.
        let mut misplaced = found & masks.white & continued;
        while misplaced != 0 {
            let last = misplaced.trailing_zeros();
            misplaced &= misplaced - 1;
            found &= !(1 << last);
            let first = (0..last).rev().find(|i| continued >> i & 1 == 0);
            found |= 1 << first.unwrap_or(0);
        }
        while found != 0 {
            let start = at + found.trailing_zeros() as usize;
            found &= found - 1;
            if start < resume_at {
                continue;
            }
            out.push(start as u32);
            if bytes[start] == b'\'' {
                let end = start + contraction(&bytes[start..]);
                resume_at = end;
                // A letter after the contraction's letters begins a piece, which the masks can't
                // show.
                let next = text[end..].chars().next();
                if end > start && next.is_some_and(|c| kinds.kind(c) == Kind::Letter) {
                    out.push(end as u32);
                    resume_at = end + 1;
                }
            }
        }
        at += length;
    }
}

/// Return the masks of the next block, and the number of its bytes.
#[inline]
fn load(rest: &[u8]) -> (Masks, usize) {
    match rest.first_chunk::<BLOCK>() {
        Some(block) => (Masks::new(block), BLOCK),
        None => {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            (Masks::new(&block), rest.len())
        }
    }
}

/// Return where pieces begin among the first `length` bytes, ignoring contractions.
/// `not_white_next`: whether the block is followed by a character that is not white.
#[inline]
fn pieces(
    masks: &Masks,
    length: usize,
    before: &mut Before,
    not_white_next: impl FnOnce() -> bool,
) -> u64 {
    let valid = u64::MAX >> (BLOCK - length);
    let last = length - 1;
    let Masks {
        letter,
        number,
        white,
        space,
        ..
    } = *masks;
    let other = !(letter | number | white) & valid;
    let after = |mask: u64, carry: u64| mask << 1 | carry;
    let after_space = after(space, before.space);
    let words = (letter & !after(letter, before.letter))
        | (number & !after(number, before.number))
        | (other & !after(other, before.other));
    let mut not_white = !white & valid;
    not_white >>= 1;
    if white >> last & 1 == 1 && not_white_next() {
        not_white |= 1 << last;
    }
    let gaps = white & (!after(white, before.white) | not_white);
    *before = Before {
        letter: letter >> last & 1,
        number: number >> last & 1,
        other: other >> last & 1,
        white: white >> last & 1,
        space: space >> last & 1,
    };
    (words & !after_space | gaps) & valid
}

/// Give the bytes of characters beyond ASCII the mask of their kind. A character that doesn't end
/// in the block is left to the next one. Return the number of bytes that are left, and the mask of
/// those that continue a character.
#[cold]
fn beyond_ascii(rest: &str, length: usize, kinds: &Kinds, masks: &mut Masks) -> (usize, u64) {
    let mut whole = length;
    while !rest.is_char_boundary(whole) {
        whole -= 1;
    }
    let mut continued = 0;
    for (i, c) in rest[..whole].char_indices().filter(|(_, c)| !c.is_ascii()) {
        let count = c.len_utf8();
        let run = ((1_u64 << count) - 1) << i;
        continued |= run & !(1 << i);
        match kinds.kind(c) {
            Kind::Letter => masks.letter |= run,
            Kind::Number => masks.number |= run,
            Kind::White => masks.white |= run,
            Kind::Other => {}
        }
    }
    let valid = u64::MAX >> (BLOCK - whole);
    masks.letter &= valid;
    masks.number &= valid;
    masks.white &= valid;
    masks.space &= valid;
    (whole, continued)
}

/// Return the length of the contraction that `rest` begins with; 0 if there is none.
#[inline]
fn contraction(rest: &[u8]) -> usize {
    match rest {
        [_, b's' | b't' | b'm' | b'd', ..] => 2,
        [_, b'r', b'e', ..] | [_, b'v', b'e', ..] | [_, b'l', b'l', ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        starts(text, &Kinds::new(), &mut found);
        let ends = found.iter().skip(1).copied().chain([text.len() as u32]);
        let ends: Vec<u32> = ends.collect();
        let pairs = found.iter().zip(ends);
        pairs
            .map(|(&from, to)| &text[from as usize..to as usize])
            .collect()
    }

    #[test]
    fn pieces_are_gpt_2_s() {
        for (text, pieces) in [
            ("", vec![]),
            ("Hello, world", vec!["Hello", ",", " world"]),
            ("  two", vec![" ", " two"]),
            ("two  ", vec!["two", "  "]),
            ("a\n\nb", vec!["a", "\n", "\n", "b"]),
            ("a \n b", vec!["a", " \n", " b"]),
            ("don't 'tis", vec!["don", "'t", " '", "tis"]),
            ("'tis", vec!["'t", "is"]),
            ("'s's9'll", vec!["'s", "'s", "9", "'ll"]),
            ("''s", vec!["''", "s"]),
            ("x12y !?", vec!["x", "12", "y", " !?"]),
            ("naïve東京 ½", vec!["naïve東京", " ½"]),
            ("\u{3000}\u{3000}x", vec!["\u{3000}", "\u{3000}", "x"]),
            ("'sé", vec!["'s", "é"]),
        ] {
            assert_eq!(pieces_of(text), pieces, "{text:?}");
        }
    }

    /// Split the text with `tokenizers`, which uses the regular expression itself.
    fn expected(text: &str) -> Vec<&str> {
        use tokenizers::pre_tokenizers::byte_level::ByteLevel;
        use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
        let mut split = PreTokenizedString::from(text);
        let level = ByteLevel::new(false, false, true);
        level.pre_tokenize(&mut split).expect("it splits any text");
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let places = splits.into_iter().map(|(_, place, _)| place);
        places.map(|(from, to)| &text[from..to]).collect()
    }

    #[test]
    fn a_block_s_edge_is_no_boundary() {
        // Test every feature at every distance from the edge of a block.
        let features = [
            "word",
            "  x",
            "don't",
            "'lls",
            "é東",
            "\u{3000} y",
            "12",
            "\n\n",
            "\u{3000}\u{3000}x",
        ];
        for feature in features {
            for lead in 0..140 {
                let before = "a ".repeat(lead / 2) + &"?".repeat(lead % 2);
                for text in [
                    format!("{before}{feature}"),
                    format!("{before}\n{feature} b"),
                    format!("{before}b{feature}.{feature}"),
                ] {
                    assert_eq!(
                        pieces_of(&text),
                        expected(&text),
                        "{feature:?} after {lead}"
                    );
                }
            }
        }
    }
}
