//! Reads the energy of processor packages and memory, from the kernel's powercap files (RAPL). Most
//! machines let only root read them, and virtual ones have none: then the energy is absent, not
//! zero.

use super::number;
use schema::record::Telemetry;
use std::path::{Path, PathBuf};

/// The directory in which the kernel shows the counters.
pub(super) const POWERCAP: &str = "/sys/class/powercap";

#[derive(Default)]
pub(super) struct Rapl {
    packages: Vec<Zone>,
    dram: Vec<Zone>,
}

impl Rapl {
    /// Open the counters that can be read under `powercap`.
    pub(super) fn open(powercap: &Path) -> Self {
        let mut rapl = Self::default();
        let entries = std::fs::read_dir(powercap).into_iter().flatten().flatten();
        for dir in entries.map(|entry| entry.path()) {
            let Ok(name) = std::fs::read_to_string(dir.join("name")) else {
                continue;
            };
            // `psys` contains packages, and packages contain cores. Reading packages and memory
            // alone counts no energy twice.
            let zones = match name.trim() {
                name if name.starts_with("package-") => &mut rapl.packages,
                "dram" => &mut rapl.dram,
                _ => continue,
            };
            // The same zone may be there twice, through MSRs and through MMIO.
            let mmio = dir
                .file_name()
                .is_some_and(|name| name.to_string_lossy().contains("mmio"));
            if !mmio {
                zones.extend(Zone::open(&dir));
            }
        }
        rapl
    }

    pub(super) fn read(&mut self, reading: &mut Telemetry) {
        reading.package_energy_uj = sum(&mut self.packages);
        reading.dram_energy_uj = sum(&mut self.dram);
    }
}

fn sum(zones: &mut [Zone]) -> Option<u64> {
    // A counter that can't be read makes the sum unknown, not smaller.
    let total = zones.iter_mut().map(Zone::read).sum::<Option<u64>>()?;
    (!zones.is_empty()).then_some(total)
}

/// One counter; its overflows are corrected.
struct Zone {
    energy: PathBuf,
    range_uj: u64,
    last_uj: u64,
    total_uj: u64,
}

impl Zone {
    fn open(dir: &Path) -> Option<Self> {
        let energy = dir.join("energy_uj");
        Some(Self {
            range_uj: number(dir.join("max_energy_range_uj"))?,
            last_uj: number(&energy)?,
            total_uj: 0,
            energy,
        })
    }

    /// Energy since the zone was opened (µJ).
    fn read(&mut self) -> Option<u64> {
        let now_uj: u64 = number(&self.energy)?;
        // Wrapping around takes one unit of the counter (some 61 µJ) more than its range; the
        // kernel doesn't say how large the unit is, and it is negligible.
        self.total_uj += if now_uj >= self.last_uj {
            now_uj - self.last_uj
        } else {
            (self.range_uj + now_uj).saturating_sub(self.last_uj)
        };
        self.last_uj = now_uj;
        Some(self.total_uj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, dir: &str, name: &str, energy_uj: u64) -> PathBuf {
        let dir = root.join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("name"), format!("{name}\n")).unwrap();
        std::fs::write(dir.join("max_energy_range_uj"), "999\n").unwrap();
        std::fs::write(dir.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
        dir.join("energy_uj")
    }

    fn read(rapl: &mut Rapl) -> (Option<u64>, Option<u64>) {
        let mut reading = Telemetry::default();
        rapl.read(&mut reading);
        (reading.package_energy_uj, reading.dram_energy_uj)
    }

    #[test]
    fn packages_add_up_and_parts_of_them_do_not() {
        let root = tempfile::tempdir().unwrap();
        let first = zone(root.path(), "intel-rapl:0", "package-0", 100);
        let second = zone(root.path(), "intel-rapl:1", "package-1", 200);
        let core = zone(root.path(), "intel-rapl:0:0", "core", 10);
        let twice = zone(root.path(), "intel-rapl-mmio:0", "package-0", 100);
        let dram = zone(root.path(), "intel-rapl:0:1", "dram", 5);
        let mut rapl = Rapl::open(root.path());
        assert_eq!(read(&mut rapl), (Some(0), Some(0)));
        for (file, uj) in [
            (first, 150),
            (second, 207),
            (core, 40),
            (twice, 150),
            (dram, 6),
        ] {
            std::fs::write(file, format!("{uj}\n")).unwrap();
        }
        assert_eq!(read(&mut rapl), (Some(57), Some(1)));
    }

    #[test]
    fn a_counter_may_wrap_around() {
        let root = tempfile::tempdir().unwrap();
        let energy = zone(root.path(), "intel-rapl:0", "package-0", 990);
        let mut rapl = Rapl::open(root.path());
        std::fs::write(&energy, "20\n").unwrap();
        assert_eq!(read(&mut rapl), (Some(29), None));
        std::fs::write(&energy, "25\n").unwrap();
        assert_eq!(read(&mut rapl), (Some(34), None));
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(&mut Rapl::open(&root.path().join("no"))), (None, None));
        let first = zone(root.path(), "intel-rapl:0", "package-0", 1);
        zone(root.path(), "intel-rapl:1", "package-1", 1);
        let mut rapl = Rapl::open(root.path());
        std::fs::remove_file(first).unwrap();
        assert_eq!(read(&mut rapl), (None, None), "half a sum is no sum");
    }
}
