//! The request with which a target is loaded.

use protocol::wire::Load;
use schema::plan::Case;
use schema::registry::Target;
use std::path::Path;

/// The `load` request for a target.
pub fn load_request(
    target: &Target,
    model_dir: &Path,
    threads: u32,
    max_context: u32,
    max_batch: u32,
) -> Load {
    Load {
        model_dir: model_dir.display().to_string(),
        weights: target.weights.clone(),
        precision: target.precision.clone(),
        backend: target.backend.clone(),
        variant: target.variant.clone(),
        device: 0,
        threads,
        max_context,
        max_batch,
        prefix_cache: false,
    }
}

/// The `load` request for a target that is about to run `cases`.
pub fn load_for_cases<'a>(
    target: &Target,
    model_dir: &Path,
    threads: u32,
    cases: impl IntoIterator<Item = &'a Case>,
) -> Load {
    let (mut max_context, mut max_batch) = (1, 1);
    for case in cases {
        max_context = max_context.max(case.prompt_tokens + case.new_tokens);
        max_batch = max_batch.max(case.concurrency);
    }
    load_request(target, model_dir, threads, max_context, max_batch)
}
