//! Variants of the engine that are deliberately worse: wrong, or slower.
//!
//! Wrong variants have deliberate faults, each of a kind that real engines ship, or leave out work
//! for speed. They prove that the parity gate detects such faults.
//!
//! A fault is selected by the target's variant and changes one marked place (search for
//! `Mutation::`). It can never be on by accident: only a variant of that very name selects it,
//! `hello` reports it, and a run without one pays nothing.
//!
//! Slower variants have a handicap: every pass takes longer by a given share, and computes the
//! same. They test whether the verdicts find a difference of known size.
//!
//! A handicap can't be on unnoticed either: only a target of that variant has it, and `hello`
//! reports it.

use protocol::clock::now_ns;

/// A deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The RoPE base is ten times too large.
    RopeBase,
    /// Llama 3's RoPE scaling (or a GGUF's `rope_freqs`) is dropped.
    RopeScaling,
    /// The first and the last query head are swapped.
    SwappedHeads,
    /// Decoded tokens are placed one position too far, relative to the prefill.
    Position,
    /// A new sequence still sees the previous one in the key/value cache.
    StaleKv,
    /// Every row of a batch attends to the first row's cache.
    BatchMask,
    /// The middle layer is skipped.
    ZeroedLayer,
    /// All positions from 4 096 on are treated as 4 096, like a table of angles that ends too
    /// soon.
    RopeFar,
    /// A prompt of 64·n + 37 tokens is read wrongly, like a kernel that is wrong for one remainder
    /// of its tile.
    PromptLength,
    /// A prompt with the same beginning as the previous one keeps one position too many of it.
    /// Only if the harness asks for a prefix cache.
    PrefixLength,
    /// Keys and values are rounded to 8 bits.
    KvInt8,
    /// The smallest 30 % of a token's activations in the MLP are set to zero.
    SparseMlp,
    /// The epsilon of the norms is ten times too large.
    RmsEpsilon,
    /// Decode steps leave out the last layer's MLP, unless the logits of each step are read, so
    /// that generating computes something else than scoring.
    GenerateOnly,
}

impl Mutation {
    /// Every fault, with the variant that selects it.
    pub const ALL: [(&str, Mutation); 14] = [
        ("rope_base", Mutation::RopeBase),
        ("rope_scaling", Mutation::RopeScaling),
        ("swapped_heads", Mutation::SwappedHeads),
        ("position", Mutation::Position),
        ("stale_kv", Mutation::StaleKv),
        ("batch_mask", Mutation::BatchMask),
        ("zeroed_layer", Mutation::ZeroedLayer),
        ("rope_far", Mutation::RopeFar),
        ("prompt_length", Mutation::PromptLength),
        ("prefix_length", Mutation::PrefixLength),
        ("kv_int8", Mutation::KvInt8),
        ("sparse_mlp", Mutation::SparseMlp),
        ("rms_epsilon", Mutation::RmsEpsilon),
        ("generate_only", Mutation::GenerateOnly),
    ];

    /// Return the fault that a variant selects; `None` for the empty variant.
    ///
    /// # Errors
    /// Fails if the variant names no fault.
    pub fn from_variant(variant: &str) -> Result<Option<Self>, String> {
        if variant.is_empty() {
            return Ok(None);
        }
        match Self::ALL.iter().find(|(name, _)| *name == variant) {
            Some((_, mutation)) => Ok(Some(*mutation)),
            None => {
                let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "lmrs has no variant `{variant}`: leave it empty, name a fault ({}), or `slowed_` and percent",
                    names.join(", ")
                ))
            }
        }
    }
}

/// Round values to 8 bits: 127 steps in either direction, up to the largest.
pub fn round_to_int8(values: &mut [f32]) {
    let largest = values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    if largest > 0.0 {
        let step = largest / 127.0;
        values
            .iter_mut()
            .for_each(|x| *x = (*x / step).round() * step);
    }
}

/// Set the smallest 30 % of the values to zero.
pub fn drop_smallest(values: &mut [f32]) {
    let mut sizes: Vec<f32> = values.iter().map(|x| x.abs()).collect();
    let at = sizes.len() * 3 / 10;
    if at < sizes.len() {
        let (_, &mut least, _) = sizes.select_nth_unstable_by(at, f32::total_cmp);
        let small = values.iter_mut().filter(|x| x.abs() < least);
        small.for_each(|x| *x = 0.0);
    }
}

/// The beginning of a slower variant's name, followed by whole percent.
const PREFIX: &str = "slowed_";

/// A handicap: how much longer a pass takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Additional time in percent of the pass's own; 0 means no handicap.
    percent: u64,
}

impl Slowdown {
    /// Return the handicap that a variant asks for, such as `slowed_10`; `None` for other
    /// variants.
    pub fn from_variant(variant: &str) -> Option<Self> {
        let percent = variant.strip_prefix(PREFIX)?.parse().ok()?;
        (1..=1000).contains(&percent).then_some(Self { percent })
    }

    /// Return the percentage, if the handicap is on.
    pub fn percent(self) -> Option<u64> {
        (self.percent > 0).then_some(self.percent)
    }

    /// Run a pass, then wait for the additional time. Waiting spins, as the engine's threads do: a
    /// sleeping process would lose its place on the CPU.
    pub fn stretch<T>(self, pass: impl FnOnce() -> T) -> T {
        if self.percent == 0 {
            return pass();
        }
        let start_ns = now_ns();
        let done = pass();
        let end_ns = until(start_ns, now_ns(), self.percent);
        while now_ns() < end_ns {
            std::hint::spin_loop();
        }
        done
    }
}

/// Return when a pass that took from `start_ns` to `now_ns` may end.
fn until(start_ns: u64, now_ns: u64, percent: u64) -> u64 {
    now_ns + (now_ns - start_ns) * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_name_selects_a_fault() {
        assert_eq!(Mutation::from_variant(""), Ok(None));
        for (name, mutation) in Mutation::ALL {
            assert_eq!(Mutation::from_variant(name), Ok(Some(mutation)));
        }
        let message = Mutation::from_variant("opt").unwrap_err();
        assert!(
            message.contains("`opt`") && message.contains("stale_kv"),
            "{message}"
        );
    }

    #[test]
    fn less_work_is_less_exact() {
        let mut values = [1.27, -0.004, 0.006, 0.0];
        round_to_int8(&mut values);
        assert_eq!(values.map(|x| (x * 100.0).round()), [127.0, 0.0, 1.0, 0.0]);
        let mut values: Vec<f32> = (1..=10).map(|x| x as f32).collect();
        drop_smallest(&mut values);
        assert_eq!(values[..5], [0.0, 0.0, 0.0, 4.0, 5.0]);
    }

    #[test]
    fn only_its_own_variants_turn_it_on() {
        let percent = |variant| Slowdown::from_variant(variant).and_then(Slowdown::percent);
        assert_eq!(percent("slowed_10"), Some(10));
        for other in [
            "",
            "slowed",
            "slowed_",
            "slowed_0",
            "slowed_-1",
            "slowed_1001",
            "stale_kv",
        ] {
            assert_eq!(Slowdown::from_variant(other), None, "{other}");
        }
        assert_eq!(Slowdown::default().percent(), None);
    }

    #[test]
    fn a_pass_ends_its_share_later_and_keeps_its_result() {
        assert_eq!(until(1_000, 2_000, 10), 2_100);
        assert_eq!(until(1_000, 1_000, 10), 1_000);
        let slow = Slowdown::from_variant("slowed_100").unwrap();
        assert_eq!(slow.stretch(|| 7), 7);
    }
}
