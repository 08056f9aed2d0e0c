//! Puts outliers into the weights of a model that is made from a seed. They make shortcuts visible.
//!
//! Trained models have channels of keys that are far larger than others (Liu et al., KIVI,
//! arXiv 2402.02750, §3) and neurons whose activations differ in size by orders of magnitude (Xiao
//! et al., SmoothQuant, arXiv 2211.10438, §3). Random weights have neither, so on them it costs
//! almost nothing to keep keys in 8 bits or to drop small activations: less than to round weights
//! to 8 bits. Here the sizes differ, and what is small matters as much as what is large.
//!
//! All gains are powers of two, and each is undone by the tensor that reads the value (as
//! SmoothQuant moves a scale between tensors), so floating-point numbers are rounded as they would
//! be without gains. Only the epsilon of the norms has a larger effect, because the residual stream
//! is small.

use crate::spec::ModelSpec;

/// Size of everything in the residual stream, relative to a model without outliers. The mean square
/// of its first values is about twenty times an epsilon of 1e-5, so that a wrong epsilon shows.
pub const RESIDUAL: f64 = INNER * OUTER;
/// Factor of [`RESIDUAL`] that value and up projections carry. [`OUTER`] is the other factor, which
/// the projections that write to the residual stream carry. If one of the two carried both factors,
/// its weights would be so small that the scale of a q8_0 block is no normal number of f16.
pub const INNER: f64 = 0.5;
/// See [`INNER`].
pub const OUTER: f64 = 0.25;
/// Gain of the keys of RoPE pairs that decide little, and the inverse of the gain of those that
/// decide much.
const KEY: f64 = 16.0;
/// Gain of the smaller neurons.
const NEURON: f64 = 1.0 / 64.0;
/// Number of neighbouring neurons that share a gain. An engine may round as many activations with
/// one scale (llama.cpp's `Q8_K`), and should lose nothing by that.
const NEURONS: usize = 256;

/// The gain of each row of a head's keys, by its index within the head (`[head_dim]`); the query's
/// gain is the inverse. Pairs that turn fast decide most of a score (`weights::score_share`), and
/// their keys are the small ones. A format of 8 bits may round a run of 32 rows with one scale. In
/// such a run they stand beside pairs that turn slowly, in Hugging Face's order of rows and in
/// llama.cpp's.
pub fn key_gains(spec: &ModelSpec) -> Vec<f64> {
    let frequencies = spec.rope_frequencies();
    let gain = |frequency: &f64| match *frequency >= 0.02 {
        true => KEY.recip(),
        false => KEY,
    };
    let pairs: Vec<f64> = frequencies.iter().map(gain).collect();
    // In Hugging Face's layout, pair i is the rows i and i + head_dim / 2.
    [pairs.clone(), pairs].concat()
}

/// The gain of each neuron of an MLP, `[intermediate_size]`: the first of every three groups is
/// small.
pub fn neuron_gains(spec: &ModelSpec) -> Vec<f64> {
    let gain = |neuron: usize| match (neuron / NEURONS) % 3 {
        0 => NEURON,
        _ => 1.0,
    };
    (0..spec.intermediate_size).map(gain).collect()
}
