//! Decides whether one more process fits in memory beside those that are there.

use super::launch::{Context, Running};
use super::residents::Residents;
use crate::machine::Memory;
use crate::telemetry::peak_rss_bytes;
use anyhow::Result;
use base::names::Refused;
use std::path::{Path, PathBuf};

/// The memory that loading may take, as a multiple of the weight file's size: 8-bit weights widened
/// to f32 are four times it, beside the file itself.
const LOAD_FACTOR: u64 = 5;
/// The variable that limits the memory of a block's engines together (bytes).
const LIMIT: &str = "BENCH_MEMORY_BYTES";

/// Whether twice the memory that a launch may need is free: whatever it needs, the machine must not
/// swap. False where the free memory isn't known.
///
/// # Errors
/// As for [`limit`].
pub(super) fn has_room(context: &Context, beside: &[Running], idle: &Residents) -> Result<bool> {
    let file_bytes = bytes_of(context.stage.model_dir, &context.target.weights);
    let taken = || {
        let idle = idle.pids().filter_map(peak_rss_bytes);
        beside
            .iter()
            .filter_map(Running::peak_rss_bytes)
            .chain(idle)
    };
    let left = |limit: u64| limit.saturating_sub(taken().sum());
    let free = [
        Memory::read().available_bytes,
        limit()?.map(left),
        of_cgroup(Path::new("/sys/fs/cgroup")),
    ];
    let free = free.into_iter().flatten().min();
    Ok(fits(free, file_bytes, taken().max()))
}

/// The user's limit of the memory of a block's engines together (bytes); `None` where none is set.
///
/// # Errors
/// If the variable is no number of bytes.
pub fn limit() -> Result<Option<u64>> {
    std::env::var_os(LIMIT)
        .filter(|bytes| !bytes.is_empty())
        .map(|bytes| bytes_in(&bytes.to_string_lossy()))
        .transpose()
}

fn bytes_in(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        let why = format!(
            "{LIMIT}={text} is no number of bytes: set it to one, such as 8000000000, or unset it"
        );
        Refused(why).into()
    })
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
    fn a_limit_that_is_no_number_is_refused_by_its_variables_name() {
        assert_eq!(bytes_in("8000000000").unwrap(), 8_000_000_000);
        for text in ["lots", "8G", "-1", " 1"] {
            let error = bytes_in(text).unwrap_err();
            let said = format!("BENCH_MEMORY_BYTES={text} is no number of bytes: ");
            assert!(error.to_string().starts_with(&said), "{error}");
            assert!(base::names::is_refused(&error));
        }
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
