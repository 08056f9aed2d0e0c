//! Rotary position embeddings: the tables of cosines and sines, plain or with
//! Llama 3's scaling. Frequencies and angles are rounded to f32 where the
//! reference rounds them: at far positions the last bit of a frequency shows.
//! It deliberately rotates nothing; that is a line of [`crate::model`].

/// Base and scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// `θ`.
    pub theta: f32,
    /// How the frequencies are changed for long contexts.
    pub scaling: Scaling,
}

/// How the frequencies are changed for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Llama 3.1's.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Wavelengths above `original_context / low_freq_factor` are scaled in full.
        low_freq_factor: f32,
        /// Wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// The context the model was first trained on.
        original_context: f32,
    },
}

impl Rope {
    /// Radians a position, for each of `head_dim / 2` pairs.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let plain = |i: usize| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            (1.0 / f64::from(self.theta).powf(f64::from(exponent))) as f32
        };
        (0..head_dim / 2).map(|i| self.scaled(plain(i))).collect()
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
        let wavelength = (2.0 * std::f64::consts::PI / f64::from(frequency)) as f32;
        if wavelength < original_context / high_freq_factor {
            frequency
        } else if wavelength > original_context / low_freq_factor {
            frequency / factor
        } else {
            let smooth = (original_context / wavelength - low_freq_factor)
                / (high_freq_factor - low_freq_factor);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    }

    /// Cosines and sines, `positions × head_dim`. Both halves of a row hold the
    /// same angles; the sines of the first half are negated, so that
    /// `x · cos + swapped(x) · sin` is the rotation, `swapped` exchanging the
    /// halves of `x`.
    pub fn tables(&self, head_dim: usize, positions: usize) -> (Vec<f32>, Vec<f32>) {
        let frequencies = self.frequencies(head_dim);
        let half = frequencies.len();
        let mut cos = Vec::with_capacity(positions * head_dim);
        let mut sin = Vec::with_capacity(positions * head_dim);
        for position in 0..positions {
            for i in 0..head_dim {
                let angle = f64::from(position as f32 * frequencies[i % half]);
                let sign = if i < half { -1.0 } else { 1.0 };
                cos.push(angle.cos() as f32);
                sin.push((sign * angle.sin()) as f32);
            }
        }
        (cos, sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_frequencies_are_powers_of_the_base() {
        let rope = Rope {
            theta: 10_000.0,
            scaling: Scaling::None,
        };
        let expected = [1.0, 0.1, 0.01, 0.001];
        for (frequency, expected) in rope.frequencies(8).iter().zip(expected) {
            assert!((frequency - expected).abs() < 1e-7);
        }
        let (cos, sin) = rope.tables(8, 4);
        assert!((cos[3 * 8] - 3f32.cos()).abs() < 1e-7 && cos[3 * 8] == cos[3 * 8 + 4]);
        assert!((sin[3 * 8 + 1] + 0.3f32.sin()).abs() < 1e-7 && sin[3 * 8] == -sin[3 * 8 + 4]);
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let scaling = Scaling::Llama3 {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 512.0,
        };
        let plain = |scaling| Rope {
            theta: 500_000.0,
            scaling,
        };
        let (before, after) = (
            plain(Scaling::None).frequencies(64),
            plain(scaling).frequencies(64),
        );
        // Wavelengths: 2π is under 512/4; that of the last is far above 512.
        assert_eq!(before[0], after[0]);
        assert_eq!(before[31] / 32.0, after[31]);
        let between = before.iter().zip(&after);
        assert!(between.clone().all(|(b, a)| a <= b && *a >= b / 32.0));
        assert!(between.clone().any(|(b, a)| a < b && *a > b / 32.0 * 1.01));
    }
}
