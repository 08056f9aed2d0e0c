//! Rotary position embeddings (RoPE) for this project's own engines: their frequencies, and the
//! tables of cosines and sines.
//!
//! Frequencies and angles are rounded to f32 where the Hugging Face reference rounds them, because
//! at position 8000 the last bit of a frequency turns a vector visibly. This module deliberately
//! rotates nothing: each engine does that in its own way.

use std::f64::consts::PI;

/// How the frequencies are scaled for contexts longer than those trained on.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// The frequencies are not scaled.
    None,
    /// Scaling as in Llama 3.1: low frequencies are divided by `factor`, high ones are kept, and
    /// those in between are interpolated.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f32,
        /// Wavelengths longer than `original / low_freq_factor` are scaled in full.
        low_freq_factor: f32,
        /// Wavelengths shorter than `original / high_freq_factor` are kept.
        high_freq_factor: f32,
        /// Context length that the model was first trained on, in tokens.
        original_context: f32,
    },
    /// A divisor for each frequency, as in a GGUF file's `rope_freqs.weight`.
    Divisors(Vec<f32>),
}

/// The base and scaling of the rotary embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base `θ`.
    pub theta: f32,
    /// The scaling of the frequencies.
    pub scaling: Scaling,
}

impl Rope {
    /// Return the frequencies in radians per position, for each of `head_dim / 2` pairs.
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

    /// Return tables of cosines and sines, `positions × head_dim` each. Both halves of a row hold
    /// the same angles; the sines of the first half are negated, so that
    /// `x · cos + swapped(x) · sin` is the rotation, where `swapped` exchanges the halves of `x`.
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
mod tests;
