//! Rotary position embeddings: the table of cosines and sines of every position,
//! plain or with Llama 3's scaling.
//!
//! Frequencies and angles are rounded to f32 where the Hugging Face reference
//! rounds them, because at position 8000 the last bit of a frequency turns a
//! vector visibly. It deliberately does not rotate anything: see
//! [`crate::kernels::portable::rotate`].

use std::f64::consts::PI;

/// How the frequencies are changed for contexts longer than those trained on.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Llama 3.1's: low frequencies are divided by `factor`, high ones kept, those
    /// between are interpolated.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Wavelengths longer than `original / low_freq_factor` are scaled in full.
        low_freq_factor: f32,
        /// Wavelengths shorter than `original / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// Context the model was first trained on.
        original_context: f32,
    },
    /// A divisor for each frequency, as a GGUF file's `rope_freqs.weight`.
    Divisors(Vec<f32>),
}

/// Base and scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// `θ`.
    pub theta: f32,
    /// Change of the frequencies.
    pub scaling: Scaling,
}

impl RopeConfig {
    /// Radians a position, for each of `head_dim / 2` pairs.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let half = head_dim / 2;
        let plain = (0..half).map(|i| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            (1.0 / f64::from(self.theta).powf(f64::from(exponent))) as f32
        });
        match &self.scaling {
            Scaling::None => plain.collect(),
            Scaling::Divisors(divisors) => plain.zip(divisors).map(|(f, d)| f / d).collect(),
            Scaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            } => {
                let low_wavelength = original_context / low_freq_factor;
                let high_wavelength = original_context / high_freq_factor;
                let scaled = plain.map(|frequency| {
                    let wavelength = (2.0 * PI / f64::from(frequency)) as f32;
                    if wavelength < high_wavelength {
                        frequency
                    } else if wavelength > low_wavelength {
                        frequency / factor
                    } else {
                        let smooth = (original_context / wavelength - low_freq_factor)
                            / (high_freq_factor - low_freq_factor);
                        (1.0 - smooth) * frequency / factor + smooth * frequency
                    }
                });
                scaled.collect()
            }
        }
    }
}

/// Cosines and sines of every position.
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>, // [position][half]
    sin: Vec<f32>, // [position][half]
}

impl RopeTable {
    /// The table for `positions` positions.
    pub fn new(config: &RopeConfig, head_dim: usize, positions: usize) -> Self {
        let frequencies = config.frequencies(head_dim);
        let half = frequencies.len();
        let mut cos = Vec::with_capacity(positions * half);
        let mut sin = Vec::with_capacity(positions * half);
        for position in 0..positions {
            for frequency in &frequencies {
                let angle = f64::from(position as f32 * frequency);
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        Self { half, cos, sin }
    }

    /// Cosines and sines of one position.
    ///
    /// # Panics
    /// If the table does not reach that far.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_frequencies_are_powers_of_the_base() {
        let config = RopeConfig {
            theta: 10_000.0,
            scaling: Scaling::None,
        };
        let frequencies = config.frequencies(8);
        for (frequency, expected) in frequencies.iter().zip([1.0, 0.1, 0.01, 0.001]) {
            assert!((frequency - expected).abs() < 1e-7);
        }
        let table = RopeTable::new(&config, 8, 4);
        assert_eq!(table.at(0), (&[1.0f32; 4][..], &[0.0f32; 4][..]));
        let (cos, sin) = table.at(3);
        assert!((cos[0] - 3f32.cos()).abs() < 1e-7 && (sin[1] - 0.3f32.sin()).abs() < 1e-7);
    }

    #[test]
    fn llama3_scaling_keeps_high_frequencies_and_divides_low_ones() {
        // Llama 3.2 1B: a wavelength of 2048 lies between pairs 14 and 15, one of
        // 8192 between 17 and 18.
        let scaling = Scaling::Llama3 {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192.0,
        };
        let plain = RopeConfig {
            theta: 500_000.0,
            scaling: Scaling::None,
        }
        .frequencies(64);
        let scaled = RopeConfig {
            theta: 500_000.0,
            scaling,
        }
        .frequencies(64);
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[14], plain[14]);
        assert_eq!(scaled[31], plain[31] / 32.0);
        for i in 15..=17 {
            assert!(
                scaled[i] < plain[i] && scaled[i] > plain[i] / 32.0,
                "pair {i}"
            );
        }
    }

    #[test]
    fn divisors_divide() {
        let scaling = Scaling::Divisors(vec![1.0, 2.0]);
        let config = RopeConfig {
            theta: 100.0,
            scaling,
        };
        assert_eq!(config.frequencies(4), [1.0, 0.05]);
    }
}
