//! Compares the precision that a weight file has with the one that was asked for, because
//! otherwise the file would be timed under a wrong name.

use std::collections::BTreeMap;

/// Return the type of most of the layers' weights in a GGUF file; `None` if it has no layers.
/// `tensors`: each one's name, type and size (bytes or elements).
pub fn main_type<'a>(tensors: impl IntoIterator<Item = (&'a str, String, u64)>) -> Option<String> {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (name, kind, size) in tensors {
        if name.starts_with("blk.") {
            *sizes.entry(kind).or_default() += size;
        }
    }
    let most = sizes.into_iter().max_by_key(|(_, size)| *size)?;
    Some(most.0)
}

/// Check that a GGUF file most of whose layers' weights have the type `held` (`Q8_0`, `q4_K`,
/// `Q4K`, in whatever spelling a library has) is one of the precision `asked`.
///
/// A mixture is named after its main type. Where a model's rows don't fill the blocks of 256
/// weights of `Q4_K`, llama.cpp's own mixture `q4_k_m` has `Q5_0` in their place.
///
/// # Errors
/// A message that names both.
pub fn check_precision(held: &str, asked: &str) -> Result<(), String> {
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let (has, wanted) = (plain(held), plain(asked));
    if wanted.starts_with(&has) || (wanted == "q4km" && has == "q50") {
        return Ok(());
    }
    Err(format!("its weights are {held}, not {asked}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_type_is_that_of_most_of_the_layers() {
        let tensors = [
            ("token_embd.weight", "q6_K", 1000),
            ("blk.0.ffn_up.weight", "q4_K", 30),
            ("blk.0.ffn_down.weight", "q6_K", 20),
        ];
        let of = |count: usize| {
            let some = tensors[..count].iter();
            main_type(some.map(|(name, kind, size)| (*name, (*kind).to_owned(), *size)))
        };
        assert_eq!(of(3).as_deref(), Some("q4_K"));
        assert_eq!(of(1), None);
        assert_eq!(of(0), None);
    }

    #[test]
    fn a_mixture_goes_by_its_main_type_and_narrow_rows_have_a_finer_one() {
        for (held, asked) in [
            ("Q8_0", "q8_0"),
            ("q4_K", "q4_k_m"),
            ("Q4K", "q4_k_m"),
            ("Q5_0", "q4_k_m"),
            ("F16", "f16"),
            ("f16", "f16"),
            ("BF16", "bf16"),
        ] {
            assert_eq!(check_precision(held, asked), Ok(()), "{held} for {asked}");
        }
        for (held, asked) in [
            ("Q5_0", "q8_0"),
            ("Q4K", "q8_0"),
            ("q4_K", "q8_0"),
            ("F16", "bf16"),
            ("f16", "bf16"),
            ("BF16", "f16"),
        ] {
            let why = check_precision(held, asked).unwrap_err();
            assert!(why.contains(held) && why.contains(asked), "{why}");
        }
    }
}
