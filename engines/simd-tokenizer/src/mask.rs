//! 64 bytes → one bit a byte and kind. The instructions are chosen when this is
//! compiled, as everywhere in this repository (`-Ctarget-cpu=native`): AVX-512BW,
//! AVX2, or plain code that the compiler may vectorise. All three are tested against
//! each other where they exist.

/// Bytes of a block.
pub const BLOCK: usize = 64;

/// A bit for each byte of a block, byte 0 the lowest.
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
    /// Of a block.
    #[inline]
    pub fn of(block: &[u8; BLOCK]) -> Self {
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

    /// What [`Masks::of`] is compiled to.
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

/// Byte by byte.
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

/// Comparisons that give masks.
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

/// Two halves of 32 bytes.
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
            // There is no unsigned comparison: x ≤ y where the lesser of both is x.
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
    fn every_byte_at_every_place_is_classified_alike() {
        for byte in 0..=255_u8 {
            for place in 0..BLOCK {
                let mut block = [b'.'; BLOCK];
                block[place] = byte;
                let expected = portable(&block);
                assert_eq!(Masks::of(&block), expected, "{byte:#x} at {place}");
                #[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
                assert_eq!(avx2(&block), expected, "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn kinds_are_ascii_s() {
        let mut block = [b'.'; BLOCK];
        block[..10].copy_from_slice(b"aZ09 \t\r\x1c\xc3\xa9");
        let masks = Masks::of(&block);
        assert_eq!(masks.letter, 0b11);
        assert_eq!(masks.number, 0b1100);
        assert_eq!(masks.white, 0b111_0000);
        assert_eq!(masks.space, 0b1_0000);
        assert_eq!(masks.beyond, 0b11_0000_0000);
    }
}
