//! Checks the number format of keys and values that a target declares against the size of the cache
//! that its engine reports. It can't notice an engine that also reports a wrong size.

use super::EngineFailure;
use crate::model_work;
use protocol::wire::Loaded;
use schema::record::Status;
use schema::registry::{KvFormat, Target, kv_bits};
use std::path::Path;

/// Check a target whose engine has loaded the model of `model_dir`. A target that declares no
/// format passes, and so does any with a model whose work isn't known.
///
/// # Errors
/// `wrong_output`, where the size that the engine reports isn't one of the declared format.
pub(crate) fn check(
    target: &Target,
    model_dir: &Path,
    loaded: &Loaded,
) -> Result<(), EngineFailure> {
    let Some(declared) = target.kv else {
        return Ok(());
    };
    let bytes = loaded.kv_bytes_per_token;
    match kv_bits(&model_work::facts(model_dir), bytes) {
        Some(bits) if !declared.has_bits(bits) => {
            let reason = format!(
                "engines.toml says that {} keeps keys and values in {}, but the engine reports {bytes} bytes of them per token, which is {bits:.1} bits each",
                target.id,
                declared.id()
            );
            Err(EngineFailure::new(Status::WrongOutput, reason))
        }
        _ => Ok(()),
    }
}

/// Whether a target keeps keys and values in 8 bits: as it declares, or where it declares no
/// format, by the size that its engine reports.
pub(crate) fn keeps_8_bits(target: &Target, model_dir: &Path, loaded: &Loaded) -> bool {
    let bits = || kv_bits(&model_work::facts(model_dir), loaded.kv_bytes_per_token);
    match target.kv {
        Some(declared) => declared == KvFormat::Int8,
        None => bits().is_some_and(|bits| KvFormat::Int8.has_bits(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of 2 × 2 × 2 × 16 = 128 keys and values per token.
    const CONFIG: &str = r#"{
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100
    }"#;

    #[test]
    fn a_target_whose_engine_contradicts_its_format_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let of = |kv, kv_bytes_per_token| {
            let target = Target {
                kv,
                ..fixtures::target("a.cpu.q8_0")
            };
            let loaded = Loaded {
                kv_bytes_per_token,
                ..Loaded::default()
            };
            check(&target, dir.path(), &loaded)
        };
        let f16 = Some(KvFormat::F16);
        assert_eq!(of(f16, 512), Ok(()), "the model isn't known");
        std::fs::write(dir.path().join("config.json"), CONFIG).expect("it can be written");
        assert_eq!(of(f16, 256), Ok(()));
        assert_eq!(of(None, 512), Ok(()), "it declares nothing");
        assert_eq!(of(Some(KvFormat::Int8), 136), Ok(()));
        let failure = of(f16, 512).expect_err("these are 32 bits");
        assert_eq!(failure.status, Status::WrongOutput);
        let reason = failure.reason;
        assert!(reason.contains("a.cpu.q8_0 keeps keys and values in f16"));
        assert!(reason.ends_with("512 bytes of them per token, which is 32.0 bits each"));
        // An engine that reports nothing doesn't confirm what the target declares.
        assert!(of(f16, 0).is_err());
        assert!(of(Some(KvFormat::Int8), 512).is_err());
    }
}
