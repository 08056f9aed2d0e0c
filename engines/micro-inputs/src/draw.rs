//! Random numbers from a seed. Each depends only on its array's name and its index, so that an
//! array can be drawn in any order and in any language: seed and name give a key, key and index
//! give 64 bits (SplitMix64's output function), and the highest 24 of them give a float.

use splitmix::{GOLDEN_GAMMA, hash, mix};

/// Return the key of an array: the FNV-1a hash of its name and the seed, mixed.
pub fn key(seed: u64, name: &str) -> u64 {
    mix(seed ^ hash(name))
}

/// Return the 64 random bits of the element at `index`.
pub fn bits(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(GOLDEN_GAMMA.wrapping_mul(index.wrapping_add(1))))
}

/// Draw `count` numbers in `−scale … scale`, exactly representable before scaling.
pub fn uniform(seed: u64, name: &str, count: usize, scale: f32) -> Vec<f32> {
    let key = key(seed, name);
    (0..count as u64)
        .map(|index| ((bits(key, index) >> 40) as f32 / 8_388_608.0 - 1.0) * scale)
        .collect()
}

/// Draw `count` integers below `bound`.
pub fn below(seed: u64, name: &str, count: usize, bound: usize) -> Vec<u32> {
    let key = key(seed, name);
    (0..count as u64)
        .map(|index| (bits(key, index) % bound as u64) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_seed_name_and_place_alone() {
        let drawn = uniform(1, "q", 1000, 3.0);
        assert_eq!(drawn, uniform(1, "q", 1000, 3.0));
        assert_eq!(drawn[..10], uniform(1, "q", 10, 3.0));
        assert_ne!(drawn, uniform(2, "q", 1000, 3.0));
        assert_ne!(drawn, uniform(1, "k", 1000, 3.0));
        let mean = drawn.iter().sum::<f32>() / 1000.0;
        assert!(
            mean.abs() < 0.3 && drawn.iter().all(|x| x.abs() <= 3.0),
            "{mean}"
        );
        assert!(below(1, "ids", 1000, 7).iter().all(|id| *id < 7));
    }

    #[test]
    fn the_numbers_are_those_that_the_python_programs_draw() {
        // engines/pytorch/test_micro.py checks the same numbers.
        assert_eq!(key(7, "q"), 0x6bad_b866_31df_1443);
        let drawn = uniform(7, "q", 3, 1.0).into_iter().map(f64::from);
        let drawn: Vec<f64> = drawn.collect();
        assert_eq!(
            drawn,
            [
                0.381_126_046_180_725_1,
                -0.996_571_421_623_23,
                -0.212_363_719_940_185_55
            ]
        );
    }
}
