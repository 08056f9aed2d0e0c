//! Reads the facts of the processor: model, threads, the instruction sets that decide inference
//! speed, caches, governor. Measures nothing.

use super::{put, read};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Flags, as the kernel spells them, that decide which kernels an engine can use.
const FLAGS: &[&str] = &[
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16", // x86
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2", // Arm
];

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Marketing name.
    pub model: Option<String>,
    /// Family, model and stepping in the vendor's numbers: a hypervisor may hide the name.
    pub signature: Option<String>,
    /// Rust's name of the architecture.
    pub arch: String,
    /// Logical processors that are online.
    pub logical: Option<usize>,
    /// Physical cores of these processors.
    pub cores: Option<usize>,
    /// Threads that this process may use, by its affinity and cgroup quota.
    pub threads_usable: usize,
    /// The flags of `FLAGS` that the processor has, in the kernel's spelling.
    pub flags: Vec<String>,
    /// Data and unified caches; those of equal level and size are one entry.
    pub caches: Vec<Cache>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Whether the flags say that a hypervisor is present.
    pub hypervisor_flag: bool,
}

/// One level of cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// The level: 1, 2, 3, …
    pub level: u32,
    /// Size of one cache (bytes).
    pub size_bytes: u64,
    /// Number of such caches.
    pub instances: usize,
}

impl Cpu {
    /// Read this machine's processor.
    pub fn read() -> Self {
        let mut cpu = parse_cpuinfo(&read("/proc/cpuinfo").unwrap_or_default());
        cpu.arch = std::env::consts::ARCH.to_owned();
        cpu.threads_usable = std::thread::available_parallelism().map_or(1, |n| n.get());
        let root = Path::new("/sys/devices/system/cpu");
        cpu.caches = read_caches(root);
        cpu.governor = read(root.join("cpu0/cpufreq/scaling_governor"));
        cpu
    }

    /// Size of all caches of the highest level together (bytes).
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        let last = self.caches.iter().max_by_key(|cache| cache.level)?;
        Some(last.size_bytes * last.instances as u64)
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "arch", Some(&self.arch));
        put(facts, "cpu_model", self.model.as_ref());
        put(facts, "cpu_signature", self.signature.as_ref());
        put(facts, "cpus", Some(self.threads_usable));
        put(facts, "cpu_cores", self.cores);
        let flags = (!self.flags.is_empty()).then(|| self.flags.join(" "));
        put(facts, "cpu_flags", flags);
        let last_level_cache = self.last_level_cache_bytes();
        put(facts, "last_level_cache_bytes", last_level_cache);
        put(facts, "governor", self.governor.as_ref());
    }
}

/// Parse the text of /proc/cpuinfo, on x86 and Arm.
fn parse_cpuinfo(text: &str) -> Cpu {
    let mut cpu = Cpu::default();
    let mut logical = 0;
    let mut cores = BTreeSet::new();
    let (mut package, mut core_ids) = (String::new(), 0);
    let mut signature: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "processor" => logical += 1,
            "model name" | "Model" if cpu.model.is_none() && !value.is_empty() => {
                cpu.model = Some(value.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            "cpu family" | "model" | "stepping" | "CPU implementer" | "CPU part"
                if logical <= 1 =>
            {
                signature.push(format!("{} {value}", key.trim().trim_start_matches("cpu ")));
            }
            "physical id" => package = value.to_owned(),
            "core id" => {
                core_ids += 1;
                cores.insert((package.clone(), value.to_owned()));
            }
            "flags" | "Features" if cpu.flags.is_empty() => {
                let all: BTreeSet<_> = value.split_whitespace().collect();
                cpu.hypervisor_flag = all.contains("hypervisor");
                let known = FLAGS.iter().filter(|flag| all.contains(*flag));
                cpu.flags = known.map(|flag| (*flag).to_owned()).collect();
            }
            _ => {}
        }
    }
    cpu.signature = (!signature.is_empty()).then(|| signature.join(", "));
    cpu.logical = (logical > 0).then_some(logical);
    // Set only where every processor says which core it is on.
    cpu.cores = (core_ids == logical && !cores.is_empty()).then_some(cores.len());
    cpu
}

/// All data and unified caches below `root`, each counted once by the processors that share it.
fn read_caches(root: &Path) -> Vec<Cache> {
    let mut seen = BTreeSet::new();
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    for cpu in entries.filter(|entry| is_cpu(&entry.file_name().to_string_lossy())) {
        for index in 0..8 {
            let dir = cpu.path().join(format!("cache/index{index}"));
            let get = |name: &str| read(dir.join(name));
            if get("type").is_none_or(|kind| kind == "Instruction") {
                continue;
            }
            let level = get("level").and_then(|level| level.parse().ok());
            let size = get("size").and_then(|size| parse_size(&size));
            if let (Some(level), Some(size), Some(shared)) = (level, size, get("shared_cpu_list")) {
                seen.insert((level, size, shared));
            }
        }
    }
    let mut by_size: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    for (level, size, _) in seen {
        *by_size.entry((level, size)).or_default() += 1;
    }
    by_size
        .into_iter()
        .map(|((level, size_bytes), instances)| Cache {
            level,
            size_bytes,
            instances,
        })
        .collect()
}

fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Parse a size as the kernel prints it, such as `32768K`, into bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_of_a_hyperthreaded_xeon() {
        let one = |processor: u32, core: u32| {
            format!(
                "processor\t: {processor}\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R)  Platinum 8481C CPU @ 2.70GHz\n\
                 physical id\t: 0\ncore id\t\t: {core}\n\
                 flags\t\t: fpu sse2 hypervisor avx avx2 fma avx512f avx512_vnni amx_tile amx_int8 amx_bf16 nonsense\n\n"
            )
        };
        let cpu = parse_cpuinfo(&(one(0, 0) + &one(1, 0) + &one(2, 1) + &one(3, 1)));
        assert_eq!(
            cpu.model.as_deref(),
            Some("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz")
        );
        assert_eq!(cpu.signature.as_deref(), Some("family 6, model 143"));
        assert_eq!((cpu.logical, cpu.cores), (Some(4), Some(2)));
        assert!(cpu.hypervisor_flag);
        assert_eq!(
            cpu.flags.join(" "),
            "avx avx2 fma avx512f avx512_vnni amx_tile amx_int8 amx_bf16"
        );
    }

    #[test]
    fn cpuinfo_of_an_arm_server_has_features_and_no_model() {
        let text = "processor\t: 0\nBogoMIPS\t: 2000.00\n\
                    Features\t: fp asimd evtstrm aes asimdhp asimddp sve i8mm bf16\n\
                    CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        let cpu = parse_cpuinfo(text);
        assert_eq!((cpu.model, cpu.cores, cpu.logical), (None, None, Some(1)));
        assert_eq!(
            cpu.signature.as_deref(),
            Some("CPU implementer 0x41, CPU part 0xd4f")
        );
        assert_eq!(
            cpu.flags,
            ["asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"]
        );
    }

    #[test]
    fn no_cpuinfo_is_nothing_known() {
        assert_eq!(parse_cpuinfo(""), Cpu::default());
    }

    #[test]
    fn caches_shared_by_processors_count_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |cpu: u32, index: u32, level: &str, kind: &str, size: &str, shared: &str| {
            let dir = dir.path().join(format!("cpu{cpu}/cache/index{index}"));
            std::fs::create_dir_all(&dir).unwrap();
            for (name, value) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(dir.join(name), format!("{value}\n")).unwrap();
            }
            std::fs::write(dir.join("shared_cpu_list"), shared).unwrap();
        };
        for cpu in 0..4 {
            put(cpu, 0, "1", "Data", "32K", &cpu.to_string());
            put(cpu, 1, "1", "Instruction", "32K", &cpu.to_string());
            put(
                cpu,
                3,
                "3",
                "Unified",
                "16384K",
                if cpu < 2 { "0-1" } else { "2-3" },
            );
        }
        std::fs::create_dir_all(dir.path().join("cpufreq")).unwrap();
        let cpu = Cpu {
            caches: read_caches(dir.path()),
            ..Cpu::default()
        };
        let expected = |level, size_bytes, instances| Cache {
            level,
            size_bytes,
            instances,
        };
        assert_eq!(
            cpu.caches,
            [expected(1, 32 << 10, 4), expected(3, 16 << 20, 2)]
        );
        assert_eq!(cpu.last_level_cache_bytes(), Some(32 << 20));
        assert!(read_caches(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn sizes_as_the_kernel_prints_them() {
        assert_eq!(parse_size("1024K"), Some(1 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("x"), None);
    }
}
