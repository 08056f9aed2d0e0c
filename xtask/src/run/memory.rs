//! Whether one more process fits in memory beside those that are there.

use super::launch::{Context, Running};
use crate::doctor::Memory;

/// What loading may take, in sizes of the weight file: 8-bit weights that are kept as f32,
/// beside the file itself.
const FILES: u64 = 5;

/// Whether what a launch may need fits twice into what is free: whatever it needs, the
/// machine shall not swap. Where it can't be told how much is free there is none to spare.
pub(super) fn has_room(context: &Context, beside: &[Running]) -> bool {
    let weights = context.model_dir.join(&context.target.weights);
    let file_bytes = std::fs::metadata(weights).map_or(0, |file| file.len());
    let largest = beside.iter().filter_map(Running::peak_rss_bytes).max();
    fits(Memory::read().available_bytes, file_bytes, largest)
}

fn fits(available: Option<u64>, file_bytes: u64, largest_beside: Option<u64>) -> bool {
    let may_need = (FILES * file_bytes).max(largest_beside.unwrap_or(0));
    available.is_some_and(|bytes| bytes / 2 >= may_need)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn what_it_may_need_must_fit_twice() {
        const GIB: u64 = 1 << 30;
        assert!(fits(Some(10 * GIB), GIB, None));
        assert!(!fits(Some(10 * GIB - 2), GIB, None));
        // Small weights, beside a process that shows what a runtime takes.
        assert!(fits(Some(2 * GIB), 1 << 20, Some(GIB)));
        assert!(!fits(Some(2 * GIB - 2), 1 << 20, Some(GIB)));
        assert!(!fits(None, 0, None));
    }
}
