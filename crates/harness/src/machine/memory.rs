//! Reads the size of main memory, how much of it is free, and how it is paged.

use super::{put, read};
use serde::Serialize;
use std::collections::BTreeMap;

/// Main memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Memory that the kernel manages.
    pub total_bytes: Option<u64>,
    /// Memory that is available without swapping.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// Memory set aside for explicit huge pages.
    pub huge_pages_bytes: Option<u64>,
    /// When the kernel uses transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
}

impl Memory {
    /// Read this machine's memory.
    pub fn read() -> Self {
        let mut memory = parse_meminfo(&read("/proc/meminfo").unwrap_or_default());
        memory.transparent_huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled")
            .as_deref()
            .and_then(chosen)
            .map(str::to_owned);
        memory
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "memory_bytes", self.total_bytes);
        put(facts, "swap_bytes", self.swap_bytes);
        let thp = self.transparent_huge_pages.as_ref();
        put(facts, "transparent_huge_pages", thp);
    }
}

fn parse_meminfo(text: &str) -> Memory {
    let fields: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let mut words = value.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            let unit = if words.next() == Some("kB") { 1024 } else { 1 };
            Some((key, number.checked_mul(unit)?))
        })
        .collect();
    let get = |key| fields.get(key).copied();
    Memory {
        total_bytes: get("MemTotal"),
        available_bytes: get("MemAvailable"),
        swap_bytes: get("SwapTotal"),
        huge_pages_bytes: get("HugePages_Total")
            .zip(get("Hugepagesize"))
            .and_then(|(pages, size)| pages.checked_mul(size)),
        transparent_huge_pages: None,
    }
}

/// The choice in brackets, such as `madvise` in `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo() {
        let memory = parse_meminfo(
            "MemTotal:       24684084 kB\nMemFree:        24075444 kB\nMemAvailable:   24296608 kB\n\
             SwapTotal:             0 kB\nHugePages_Total:       4\nHugepagesize:       2048 kB\n",
        );
        assert_eq!(memory.total_bytes, Some(24_684_084 * 1024));
        assert_eq!(memory.available_bytes, Some(24_296_608 * 1024));
        assert_eq!(memory.swap_bytes, Some(0));
        assert_eq!(memory.huge_pages_bytes, Some(8 << 20));
        assert_eq!(parse_meminfo("nonsense\nMemTotal: x kB"), Memory::default());
    }

    #[test]
    fn the_choice_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }
}
