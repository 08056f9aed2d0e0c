//! SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014), and
//! FNV-1a, which spreads names over its seeds.
//!
//! It is written out here because a published run's order, prompts and arrivals, the embedded
//! models and the micro suites' inputs must come out the same in every later version. It is not
//! for secrets. It depends on nothing, so that every crate and engine can use it.
//!
//! ```
//! use splitmix::{SplitMix64, hash};
//!
//! let mut random = SplitMix64(7 ^ hash("order of the targets"));
//! let mut order = [0, 1, 2, 3];
//! random.shuffle(&mut order);
//! order.sort();
//! assert_eq!(order, [0, 1, 2, 3], "the same items, in another order");
//! ```

/// 2^64 divided by the golden ratio: what each draw adds to the state.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64: a bijection of 64 bits in which every bit of the input
/// changes about half of the bits of the output.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash a name to 64 bits with FNV-1a (Fowler, Noll, Vo).
#[inline]
pub fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A SplitMix64 generator. The field is its state, which begins as the seed.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Draw the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// Draw a number below `bound` (which must not be 0). The bias of the remainder is under 2⁻⁴⁰
    /// for the bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    /// Shuffle `items` with the Fisher–Yates algorithm.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        // From the reference implementation by Sebastiano Vigna, seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let drawn = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
