//! The fault matrix: one row per fault, written by the test that provoked it. `cargo
//! xtask test` prints them as a table.

use std::path::PathBuf;

/// Timed requests recorded, before the fault and once all is over.
pub struct Samples {
    /// On disk when the fault struck.
    pub before: usize,
    /// On disk at the end.
    pub after: usize,
}

/// Note what a fault led to. What was there before it must be there after it.
pub fn row(fault: &str, status: &str, samples: &Samples) {
    assert!(
        samples.after >= samples.before,
        "{fault}: {} samples became {}",
        samples.before,
        samples.after
    );
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fault-matrix");
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    let name: String = fault
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    let line = format!("{fault}\t{status}\t{}\t{}\n", samples.before, samples.after);
    std::fs::write(dir.join(name), line).expect("the target directory can be written");
}
