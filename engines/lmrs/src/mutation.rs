//! Ten deliberate faults, each of a kind that real engines ship, to prove that
//! the parity gate would catch them.
//!
//! A fault is chosen by the target's variant and changes one marked place
//! (search for `Mutation::`). It deliberately can never be on by accident: only
//! a variant of that very name selects it, `hello` says so, and a run without
//! one pays nothing.

/// One fault.
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
    /// Positions from 4 096 on are all taken for 4 096: a table of angles that ends too soon.
    RopeFar,
    /// A prompt of 64·n + 37 tokens is read as something else: a kernel that is wrong for one
    /// remainder of its tile.
    PromptLength,
    /// A prompt that begins like the one before it keeps one position too many of it. Only where
    /// the harness asks for a prefix cache.
    PrefixLength,
}

impl Mutation {
    /// Every fault with the variant that selects it.
    pub const ALL: [(&str, Mutation); 10] = [
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
    ];

    /// The fault of a variant; none for the empty one.
    ///
    /// # Errors
    /// If the variant names no fault.
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

#[cfg(test)]
mod tests {
    use super::Mutation;

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
}
