//! Random numbers for experiments of known truth.

use splitmix::SplitMix64;

/// A stream of random numbers.
pub struct Random {
    bits: SplitMix64,
    spare: Option<f64>,
}

impl Random {
    /// Start the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            bits: SplitMix64(seed),
            spare: None,
        }
    }

    /// Draw the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.bits.next_u64()
    }
    /// Draw a uniform number in (0, 1], so that it has a logarithm.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draw a standard normal number (Box & Muller 1958); two are made at a time.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_moments_of_the_normal() {
        let mut random = Random::new(1);
        let n = 200_000;
        let mut sums = [0.0; 4];
        for _ in 0..n {
            let x = random.normal();
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += x.powi(power as i32 + 1) / f64::from(n);
            }
        }
        // The moments are 0, 1, 0, 3, with errors of √(1, 2, 15, 96)/√n; five of these are allowed.
        let limits = [(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)];
        for (sum, (want, variance)) in sums.into_iter().zip(limits) {
            assert!((sum - want).abs() < 5.0 * f64::sqrt(variance / f64::from(n)));
        }
    }

    #[test]
    fn a_seed_is_a_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.normal(), random.normal(), random.unit()]
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
