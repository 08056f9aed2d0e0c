//! Rotary position embeddings: the cosines and sines of every position, plain or
//! with Llama 3's scaling, rounded to f32 where transformers rounds them. Plain
//! numbers: [`crate::model`] makes tensors of them.

use std::f64::consts::PI;

/// How the frequencies are changed for contexts longer than those trained on.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Llama 3's: long waves are stretched by `factor`, short ones kept, those
    /// between are interpolated.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f64,
        /// Waves longer than `original_context / low_freq_factor` are stretched whole.
        low_freq_factor: f64,
        /// Waves shorter than `original_context / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Context the model was first trained on, in tokens.
        original_context: f64,
    },
}

/// Base and scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// `θ`.
    pub theta: f64,
    /// Change of the frequencies.
    pub scaling: Scaling,
}

/// Cosines and signed sines, `positions × head_dim` each.
pub struct Table {
    /// Of both halves.
    pub cos: Vec<f32>,
    /// Negative in the first half: then rotating a head is its product with the
    /// cosines plus the product of its swapped halves with these.
    pub sin: Vec<f32>,
}

impl Rope {
    /// Radians a position, for each of `head_dim / 2` pairs.
    pub fn frequencies(&self, head_dim: i64) -> Vec<f32> {
        (0..head_dim / 2)
            .map(|pair| {
                let exponent = (2 * pair) as f32 / head_dim as f32;
                self.scaled((1.0 / self.theta.powf(f64::from(exponent))) as f32)
            })
            .collect()
    }

    fn scaled(&self, frequency: f32) -> f32 {
        let Scaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context,
        } = self.scaling
        else {
            return frequency;
        };
        let wave = (2.0 * PI / f64::from(frequency)) as f32;
        if f64::from(wave) < original_context / high_freq_factor {
            frequency
        } else if f64::from(wave) > original_context / low_freq_factor {
            frequency / factor as f32
        } else {
            let smooth = (original_context as f32 / wave - low_freq_factor as f32)
                / (high_freq_factor - low_freq_factor) as f32;
            (1.0 - smooth) * frequency / factor as f32 + smooth * frequency
        }
    }

    /// The table of the first `positions` positions.
    pub fn table(&self, head_dim: i64, positions: i64) -> Table {
        let frequencies = self.frequencies(head_dim);
        let entries = (positions * head_dim) as usize;
        let mut table = Table {
            cos: Vec::with_capacity(entries),
            sin: Vec::with_capacity(entries),
        };
        for position in 0..positions {
            // Rounded to f32 before the cosine is taken, as transformers does.
            let angles = || frequencies.iter().map(|f| f64::from(position as f32 * f));
            for sign in [-1.0, 1.0] {
                table.cos.extend(angles().map(|angle| angle.cos() as f32));
                table
                    .sin
                    .extend(angles().map(|angle| (sign * angle.sin()) as f32));
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn llama3() -> Rope {
        Rope {
            theta: 500_000.0,
            scaling: Scaling::Llama3 {
                factor: 32.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_context: 8192.0,
            },
        }
    }

    #[test]
    fn short_waves_stay_and_long_ones_are_stretched() {
        let plain = Rope {
            scaling: Scaling::None,
            ..llama3()
        };
        let (plain, scaled) = (plain.frequencies(64), llama3().frequencies(64));
        assert_eq!(plain[0], 1.0);
        assert_eq!(scaled[0], 1.0);
        assert_eq!(scaled[31], plain[31] / 32.0);
        // Between: 2π / 0.00136 = 4 634 tokens, of 2 048 to 8 192.
        let (between, before) = (scaled[16], plain[16]);
        assert!(between < before && between > before / 32.0);
    }

    #[test]
    fn a_row_of_the_table() {
        let rope = Rope {
            theta: 100.0,
            scaling: Scaling::None,
        };
        let table = rope.table(4, 3);
        // Frequencies 1 and 1/10; the row of position 2.
        for (found, expected) in table.cos[8..].iter().zip([2f32, 0.2, 2.0, 0.2]) {
            assert!((found - expected.cos()).abs() < 1e-6);
        }
        for (found, expected) in table.sin[8..].iter().zip([-2f32, -0.2, 2.0, 0.2]) {
            assert!((found - expected.sin()).abs() < 1e-6);
        }
    }
}
