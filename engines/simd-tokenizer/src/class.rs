//! What kind a character is, as the regular expression sees it: `\p{L}`, `\p{N}`,
//! `\s`, or none of them. The tables are regex-syntax' own, so that both agree on
//! every character of the Unicode version they share.

use regex_syntax::hir::{Class, HirKind};

/// Kinds of characters, as the bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anything else: punctuation, symbols, marks.
    Other = 0,
    /// `\p{L}`.
    Letter = 1,
    /// `\p{N}`.
    Number = 2,
    /// `\s`.
    White = 3,
}

/// Highest code point and one.
const CODES: usize = 0x11_0000;

/// The kind of every character: a byte each, of which a text touches few pages.
pub struct Kinds(Box<[u8]>);

impl Kinds {
    /// Read the tables.
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

    /// The kind of a character.
    #[inline]
    pub fn of(&self, c: char) -> Kind {
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
            assert_eq!(kinds.of(c), kind, "{c:?}");
        }
    }
}
