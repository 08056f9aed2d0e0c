//! Classifies characters as the regular expression does: `\p{L}`, `\p{N}`, `\s`, or none of them.
//! The tables are those of regex-syntax, so that both agree on every character of the Unicode
//! version they share.
//!
//! Blocks of 64 bytes are classified at once, into one bit per byte and kind. The instructions are
//! chosen at compile time, as everywhere in this repository (`-Ctarget-cpu=native`): AVX-512BW,
//! AVX2, or plain code that the compiler may vectorise. The tests compare all three where they are
//! available.

use regex_syntax::hir::{Class, HirKind};

/// Kinds of characters, as the bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Any other character: punctuation, symbols, marks.
    Other = 0,
    /// A letter, `\p{L}`.
    Letter = 1,
    /// A number, `\p{N}`.
    Number = 2,
    /// White space, `\s`.
    White = 3,
}

/// The highest code point plus one.
const CODES: usize = 0x11_0000;

/// The kind of every character, one byte each, of which a text touches only a few pages.
pub struct Kinds(Box<[u8]>);

impl Kinds {
    /// Build the table of all characters.
    pub fn new() -> Self {
        let mut table = vec![Kind::Other as u8; CODES].into_boxed_slice();
        for (class, kind) in [
            (r"\p{L}", Kind::Letter),
            (r"\p{N}", Kind::Number),
            (r"\s", Kind::White),
        ] {
            let parsed = regex_syntax::parse(class).expect("the class is valid");
            let HirKind::Class(Class::Unicode(ranges)) = parsed.kind() else {
                unreachable!("a Unicode class is one");
            };
            for range in ranges.iter() {
                table[range.start() as usize..=range.end() as usize].fill(kind as u8);
            }
        }
        Self(table)
    }

    /// Return the kind of a character.
    #[inline]
    pub fn kind(&self, c: char) -> Kind {
        match self.0[c as usize] {
            1 => Kind::Letter,
            2 => Kind::Number,
            3 => Kind::White,
            _ => Kind::Other,
        }
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::new()
    }
}

/// Number of bytes in a block.
pub const BLOCK: usize = 64;

/// Masks with one bit for each byte of a block; byte 0 is the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// ASCII letters.
    pub letter: u64,
    /// ASCII digits.
    pub number: u64,
    /// ASCII white space, the space included.
    pub white: u64,
    /// The space itself, U+0020.
    pub space: u64,
    /// Bytes of characters beyond ASCII.
    pub beyond: u64,
}

impl Masks {
    /// Compute the masks of a block.
    #[inline]
    pub fn new(block: &[u8; BLOCK]) -> Self {
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
        return avx512(block);
        #[cfg(all(
            target_arch = "x86_64",
            target_feature = "avx2",
            not(target_feature = "avx512bw")
        ))]
        return avx2(block);
        #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
        return portable(block);
    }

    /// Return the name of the instructions that [`Masks::new`] is compiled to.
    pub fn instructions() -> &'static str {
        if cfg!(all(target_arch = "x86_64", target_feature = "avx512bw")) {
            "AVX-512BW"
        } else if cfg!(all(target_arch = "x86_64", target_feature = "avx2")) {
            "AVX2"
        } else {
            "none of our own"
        }
    }
}

/// Compute the masks byte by byte.
pub fn portable(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks::default();
    for (i, &byte) in block.iter().enumerate() {
        let bit = |is: bool| u64::from(is) << i;
        masks.letter |= bit((byte | 0x20).wrapping_sub(b'a') < 26);
        masks.number |= bit(byte.wrapping_sub(b'0') < 10);
        masks.white |= bit(byte == b' ' || byte.wrapping_sub(b'\t') < 5);
        masks.space |= bit(byte == b' ');
        masks.beyond |= bit(byte >= 0x80);
    }
    masks
}

/// Compute the masks with comparisons that return masks.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
#[inline]
fn avx512(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::*;
    // SAFETY: the block has 64 bytes and the load may be unaligned; the instructions
    // are there, or this function wouldn't be.
    unsafe {
        let bytes = _mm512_loadu_si512(block.as_ptr().cast());
        let splat = |byte: u8| _mm512_set1_epi8(byte as i8);
        let below = |from: u8, count: u8, of: __m512i| {
            _mm512_cmplt_epu8_mask(_mm512_sub_epi8(of, splat(from)), splat(count))
        };
        let space = _mm512_cmpeq_epi8_mask(bytes, splat(b' '));
        Masks {
            letter: below(b'a', 26, _mm512_or_si512(bytes, splat(0x20))),
            number: below(b'0', 10, bytes),
            white: space | below(b'\t', 5, bytes),
            space,
            beyond: _mm512_movepi8_mask(bytes),
        }
    }
}

/// Compute the masks in two halves of 32 bytes.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[cfg_attr(target_feature = "avx512bw", allow(dead_code))]
#[inline]
fn avx2(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::*;
    let mut masks = Masks::default();
    for half in 0..2 {
        // SAFETY: both halves lie in the block and the load may be unaligned; the
        // instructions are there, or this function wouldn't be.
        unsafe {
            let bytes = _mm256_loadu_si256(block.as_ptr().add(32 * half).cast());
            let splat = |byte: u8| _mm256_set1_epi8(byte as i8);
            let bits =
                |lanes: __m256i| u64::from(_mm256_movemask_epi8(lanes) as u32) << (32 * half);
            // There is no unsigned comparison, but x ≤ y if the lesser of both is x.
            let below = |from: u8, count: u8, of: __m256i| {
                let from_zero = _mm256_sub_epi8(of, splat(from));
                _mm256_cmpeq_epi8(_mm256_min_epu8(from_zero, splat(count - 1)), from_zero)
            };
            let space = bits(_mm256_cmpeq_epi8(bytes, splat(b' ')));
            masks.letter |= bits(below(b'a', 26, _mm256_or_si256(bytes, splat(0x20))));
            masks.number |= bits(below(b'0', 10, bytes));
            masks.white |= space | bits(below(b'\t', 5, bytes));
            masks.space |= space;
            masks.beyond |= bits(bytes);
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_of_the_kind_that_unicode_says() {
        let kinds = Kinds::new();
        for (c, kind) in [
            ('a', Kind::Letter),
            ('é', Kind::Letter),
            ('東', Kind::Letter),
            ('7', Kind::Number),
            ('٣', Kind::Number),
            ('½', Kind::Number),
            (' ', Kind::White),
            ('\u{3000}', Kind::White),
            ('\u{85}', Kind::White),
            ('\u{200b}', Kind::Other), // a zero-width space is none
            ('\'', Kind::Other),
            ('🌙', Kind::Other),
            ('\u{301}', Kind::Other), // a combining accent is no letter
        ] {
            assert_eq!(kinds.kind(c), kind, "{c:?}");
        }
    }

    #[test]
    fn every_byte_at_every_place_is_classified_alike() {
        for byte in 0..=255_u8 {
            for place in 0..BLOCK {
                let mut block = [b'.'; BLOCK];
                block[place] = byte;
                let expected = portable(&block);
                assert_eq!(Masks::new(&block), expected, "{byte:#x} at {place}");
                #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
                assert_eq!(avx2(&block), expected, "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn kinds_are_ascii_s() {
        let mut block = [b'.'; BLOCK];
        block[..10].copy_from_slice(b"aZ09 \t\r\x1c\xc3\xa9");
        let masks = Masks::new(&block);
        assert_eq!(masks.letter, 0b11);
        assert_eq!(masks.number, 0b1100);
        assert_eq!(masks.white, 0b111_0000);
        assert_eq!(masks.space, 0b1_0000);
        assert_eq!(masks.beyond, 0b11_0000_0000);
    }
}
