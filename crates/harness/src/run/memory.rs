//! Decides whether one more process fits in memory beside those that are there.

use super::launch::{Context, Running};
use super::residents::Residents;
use crate::machine::Memory;
use crate::telemetry::peak_rss_bytes;
use std::path::{Path, PathBuf};

/// The memory that loading may take, as a multiple of the weight file's size: 8-bit weights widened
/// to f32 are four times it, beside the file itself.
const LOAD_FACTOR: u64 = 5;
/// The variable that limits the memory of a block's engines together (bytes).
const LIMIT: &str = "BENCH_MEMORY_BYTES";

/// Whether twice the memory that a launch may need is free: whatever it needs, the machine must not
/// swap. False where the free memory isn't known.
pub(super) fn has_room(context: &Context, beside: &[Running], idle: &Residents) -> bool {
    let file_bytes = bytes_of(context.stage.model_dir, &context.target.weights);
    let taken = || {
        let idle = idle.pids().filter_map(peak_rss_bytes);
        beside
            .iter()
            .filter_map(Running::peak_rss_bytes)
            .chain(idle)
    };
    let limit = std::env::var(LIMIT)
        .ok()
        .and_then(|bytes| bytes.parse().ok());
    let left = |limit: u64| limit.saturating_sub(taken().sum());
    let free = [
        Memory::read().available_bytes,
        limit.map(left),
        of_cgroup(Path::new("/sys/fs/cgroup")),
    ];
    fits(free.into_iter().flatten().min(), file_bytes, taken().max())
}

/// The size of the weights, in one file or in shards (bytes).
fn bytes_of(model_dir: &Path, weights: &str) -> Option<u64> {
    let files = protocol::safetensors_files(model_dir, weights).ok()?;
    let bytes = |file: &PathBuf| Some(std::fs::metadata(file).ok()?.len());
    files.iter().map(bytes).sum()
}

fn fits(free: Option<u64>, file_bytes: Option<u64>, largest_beside: Option<u64>) -> bool {
    let Some((free, file_bytes)) = free.zip(file_bytes) else {
        return false;
    };
    let may_need = (LOAD_FACTOR * file_bytes).max(largest_beside.unwrap_or(0));
    free / 2 >= may_need
}

/// The memory that a container's limit leaves (bytes), by cgroup v2 (cgroups(7)) as it is seen from
/// inside; files cached in memory don't count, because they can be dropped.
fn of_cgroup(dir: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    let max: u64 = read("memory.max")?.trim().parse().ok()?;
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let files = stat
        .lines()
        .find_map(|line| line.strip_prefix("file ")?.trim().parse().ok());
    let taken = current.saturating_sub(files.unwrap_or(0));
    Some(max.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_it_may_need_must_fit_twice() {
        assert!(fits(Some(10 * GIB), Some(GIB), None));
        assert!(!fits(Some(10 * GIB - 2), Some(GIB), None));
        // The weights are small, but a process beside shows how much memory a runtime takes.
        assert!(fits(Some(2 * GIB), Some(1 << 20), Some(GIB)));
        assert!(!fits(Some(2 * GIB - 2), Some(1 << 20), Some(GIB)));
        assert!(!fits(None, Some(0), None));
        assert!(!fits(Some(GIB), None, None));
    }

    #[test]
    fn a_container_has_what_its_limit_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(of_cgroup(dir.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "300\n");
        assert_eq!(of_cgroup(dir.path()), None, "no limit");
        write("memory.max", "1000\n");
        assert_eq!(of_cgroup(dir.path()), Some(700));
        write("memory.stat", "anon 100\nfile 200\n");
        assert_eq!(of_cgroup(dir.path()), Some(900));
    }
}
