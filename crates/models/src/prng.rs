//! Counter-based random numbers: element `i` of a tensor depends on the seed, the tensor's name and
//! `i` alone, so any thread may make any part of it, in any order.
//!
//! Only integer arithmetic and correctly rounded IEEE operations are used; there is no `ln` or
//! `cos` (as Box–Muller would need), because libm results differ between machines in the last
//! digit. Not for cryptography.

use splitmix::{GOLDEN_GAMMA, hash, mix};

/// The key of a named stream: FNV-1a of the name, mixed with the seed.
pub fn stream_key(seed: u64, name: &str) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ hash(name))
}

/// 64 random bits for element `index` of the stream `key`.
#[inline]
pub fn bits(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
}

/// Standard deviation of the sum of four uniform 16-bit integers: √(4 · (65536² − 1) / 12).
const IRWIN_HALL_STD: f64 = 37_837.227_2;

/// Element `index` of the stream: approximately normal, mean 0, standard deviation `std`.
///
/// The sum of four uniform integers (Irwin–Hall, n = 4) is close to a normal distribution and ends
/// at ±3.46 standard deviations. Missing tails are an advantage: an outlier would stretch the scale
/// of its quantisation block, and nothing here needs real tails.
#[inline]
pub fn normal(key: u64, index: u64, std: f32) -> f32 {
    let z = bits(key, index);
    let sum = (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
    let centred = sum as i64 - 2 * 65_535;
    centred as f32 * (f64::from(std) / IRWIN_HALL_STD) as f32
}

/// A sequential generator over the same mixing function, for text.
#[derive(Debug, Clone)]
pub struct Rng {
    key: u64,
    next: u64,
}

impl Rng {
    /// A generator whose sequence depends on `seed` and the purpose's `name`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self {
            key: stream_key(seed, name),
            next: 0,
        }
    }

    /// A number in `0..n`. The bias of the multiplication method is below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        let z = bits(self.key, self.next);
        self.next += 1;
        ((u128::from(z) * n as u128) >> 64) as usize
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// One of `choices`, all equally likely.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// True with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_pinned() {
        // A change here changes every weight of every embedded model and voids the golden files.
        let first = mix(GOLDEN_GAMMA);
        assert_eq!(first, 0xe220_a839_7b1d_cdaf, "SplitMix64 of state 0");
        assert_eq!(bits(0, 0), first, "its first output");
        let key = stream_key(1, "model.norm.weight");
        assert_eq!(bits(key, 0), 0xa23b_9bae_bae6_4c1a);
    }

    #[test]
    fn moments_are_those_of_a_normal() {
        let (n, key) = (1_000_000_u64, stream_key(7, "moments"));
        let x: Vec<f64> = (0..n).map(|i| f64::from(normal(key, i, 1.0))).collect();
        let mean = x.iter().sum::<f64>() / n as f64;
        let var = x.iter().map(|x| x * x).sum::<f64>() / n as f64 - mean * mean;
        assert!(mean.abs() < 0.005, "mean {mean}");
        assert!((var - 1.0).abs() < 0.01, "variance {var}");
        assert!(x.iter().all(|x| x.abs() < 3.47));
    }

    #[test]
    fn below_covers_its_range() {
        let mut rng = Rng::new(3, "below");
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            seen[rng.below(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
