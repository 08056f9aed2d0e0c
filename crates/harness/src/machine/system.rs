//! Reads what surrounds the programs of this machine: operating system, kernel, container,
//! hypervisor, and the limits that a container sets. Deliberately no host name: records are
//! published.
//!
//! Also lists the names of packages in the systems' package managers, and the commands that install
//! them. That part is pure: it runs no command.

use super::{put, read};
use schema::registry::Need;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The operating system, and the container and hypervisor around it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct System {
    /// The system's name, e.g. `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// The package manager here.
    pub packages: Option<PackageManager>,
    /// The hypervisor's name; `unknown` where there is one without a name.
    pub hypervisor: Option<String>,
    /// `docker`, `podman`, `kubernetes` or `container`.
    pub container: Option<String>,
    /// Processors' worth of time that the cgroup may use.
    pub cpu_limit: Option<f64>,
    /// Memory that the cgroup may use (bytes).
    pub memory_limit_bytes: Option<u64>,
    /// Load average of the last minute, this program's own load included.
    pub load_1_min: Option<f64>,
}

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageManager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, RHEL.
    Dnf,
    /// Arch.
    Pacman,
    /// openSUSE.
    Zypper,
    /// macOS.
    Brew,
    /// NixOS.
    Nix,
}

impl System {
    /// Read this machine's system.
    pub fn read() -> Self {
        let release = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"));
        let release = parse_os_release(&release.unwrap_or_default());
        let cgroup = Path::new("/sys/fs/cgroup");
        let packages = if cfg!(target_os = "macos") {
            Some(PackageManager::Brew)
        } else {
            package_manager(&release)
        };
        Self {
            os: release.get("PRETTY_NAME").cloned(),
            kernel: read("/proc/sys/kernel/osrelease"),
            packages,
            hypervisor: hypervisor(),
            container: container(),
            cpu_limit: read(cgroup.join("cpu.max")).and_then(|text| parse_cpu_max(&text)),
            memory_limit_bytes: read(cgroup.join("memory.max"))
                .or_else(|| read(cgroup.join("memory/memory.limit_in_bytes")))
                .and_then(|text| parse_memory_max(&text)),
            load_1_min: read("/proc/loadavg")
                .and_then(|text| text.split_whitespace().next()?.parse().ok()),
        }
    }

    pub(super) fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        put(facts, "os", self.os.as_ref());
        put(facts, "kernel", self.kernel.as_ref());
        put(facts, "virtualization", self.hypervisor.as_ref());
        put(facts, "container", self.container.as_ref());
        put(facts, "cpu_limit", self.cpu_limit);
        put(facts, "memory_limit_bytes", self.memory_limit_bytes);
    }
}

/// Parse `KEY=value` lines, values with or without quotes.
fn parse_os_release(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().into(),
                value.trim().trim_matches(['"', '\'']).into(),
            )
        })
        .collect()
}

fn package_manager(release: &BTreeMap<String, String>) -> Option<PackageManager> {
    let get = |key| release.get(key).map_or("", String::as_str);
    let (id, like) = (get("ID"), get("ID_LIKE"));
    // The distribution's own id comes first: a derivative may name several in `ID_LIKE`.
    std::iter::once(id)
        .chain(like.split_whitespace())
        .find_map(|id| match id {
            "debian" | "ubuntu" => Some(PackageManager::Apt),
            "fedora" | "rhel" | "centos" | "amzn" => Some(PackageManager::Dnf),
            "arch" => Some(PackageManager::Pacman),
            "suse" | "opensuse" => Some(PackageManager::Zypper),
            "nixos" => Some(PackageManager::Nix),
            _ => None,
        })
}

/// The name that the hypervisor reports in CPUID leaf 0x4000_0000, else the firmware's vendor where
/// that is known for virtual machines.
fn hypervisor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Bit 31 of leaf 1's ecx: "running under a hypervisor".
        let under_one = __cpuid(1).ecx >> 31 == 1;
        if under_one {
            let leaf = __cpuid(0x4000_0000);
            let bytes = [leaf.ebx, leaf.ecx, leaf.edx]
                .map(u32::to_le_bytes)
                .concat();
            return Some(hypervisor_name(&bytes).to_owned());
        }
    }
    let vendor = read("/sys/class/dmi/id/sys_vendor")?;
    let virtual_vendors = ["QEMU", "Amazon EC2", "Google", "Xen", "VMware", "innotek"];
    let product = read("/sys/class/dmi/id/product_name").unwrap_or_default();
    (virtual_vendors.iter().any(|known| vendor.contains(known)) && !product.contains("metal"))
        .then_some(vendor)
}

/// The name for a signature, from the Linux kernel's `arch/x86/kernel/cpu/hypervisor.c` family.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn hypervisor_name(signature: &[u8]) -> &'static str {
    match signature {
        b"KVMKVMKVM\0\0\0" => "kvm",
        b"Microsoft Hv" => "hyper-v",
        b"VMwareVMware" => "vmware",
        b"XenVMMXenVMM" => "xen",
        b"VBoxVBoxVBox" => "virtualbox",
        b"TCGTCGTCGTCG" => "qemu (emulated)",
        _ => "unknown",
    }
}

fn container() -> Option<String> {
    let name = if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        "kubernetes"
    } else if Path::new("/.dockerenv").exists() {
        "docker"
    } else if Path::new("/run/.containerenv").exists() {
        "podman"
    } else if read("/proc/1/cgroup").is_some_and(|text| text.contains("/docker")) {
        "container"
    } else {
        return None;
    };
    Some(name.to_owned())
}

/// Processors' worth of time from `quota period` in microseconds; `None` for `max`, no limit.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The limit in bytes; `None` for `max` and for the huge number of cgroup v1, which mean no limit.
fn parse_memory_max(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&bytes| bytes < 1 << 60)
}

/// A package's names in the order apt, dnf, pacman, zypper, brew, nix.
pub type Names = [&'static str; 6];

/// The packages of a C and C++ compiler.
pub const COMPILER: Names = [
    "build-essential",
    "gcc gcc-c++ make",
    "base-devel",
    "gcc gcc-c++ make",
    "gcc",
    "gcc",
];
const CMAKE: Names = ["cmake"; 6];
const LIBCLANG: Names = [
    "libclang-dev",
    "clang-devel",
    "clang",
    "clang-devel",
    "llvm",
    "libclang",
];
/// The packages of Clang.
pub const CLANG: Names = ["clang", "clang", "clang", "clang", "llvm", "clang"];
/// The packages of Python with its module `venv`.
pub const PYTHON: Names = [
    "python3 python3-venv",
    "python3 python3-pip",
    "python",
    "python3 python3-pip",
    "python@3.12",
    "python3",
];
/// The packages of Git.
pub const GIT: Names = ["git"; 6];
/// The packages of Node.js and npm.
pub const NODE: Names = [
    "nodejs npm",
    "nodejs npm",
    "nodejs npm",
    "nodejs npm",
    "node",
    "nodejs",
];
/// The packages of Chromium.
pub const CHROMIUM: Names = ["chromium"; 6];

/// The packages that provide what a build needs; `None` where the project provides it itself.
pub fn names_of(need: Need) -> Option<&'static Names> {
    match need {
        Need::Cmake => Some(&CMAKE),
        Need::Libclang => Some(&LIBCLANG),
        Need::Clang => Some(&CLANG),
        Need::Libtorch | Need::CudaToolkit | Need::Libdevice => None,
    }
}

/// The command that installs what a build needs; `None` where the project provides it, or the
/// package manager is unknown.
pub fn install_command(system: &System, need: Need) -> Option<String> {
    install(system.packages, names_of(need)?)
}

/// The command that installs packages with `manager`; `None` where that is unknown.
pub fn install(manager: Option<PackageManager>, names: &Names) -> Option<String> {
    Some(match manager? {
        PackageManager::Apt => format!("sudo apt-get install -y {}", names[0]),
        PackageManager::Dnf => format!("sudo dnf install -y {}", names[1]),
        PackageManager::Pacman => format!("sudo pacman -S --needed {}", names[2]),
        PackageManager::Zypper => format!("sudo zypper install -y {}", names[3]),
        PackageManager::Brew => format!("brew install {}", names[4]),
        PackageManager::Nix => format!("nix-shell -p {}", names[5]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_and_their_package_managers() {
        let manager = |text: &str| package_manager(&parse_os_release(text));
        assert_eq!(manager("ID=debian\n"), Some(PackageManager::Apt));
        assert_eq!(
            manager("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"),
            Some(PackageManager::Dnf)
        );
        assert_eq!(
            manager("ID='opensuse-leap'\nID_LIKE='suse opensuse'"),
            Some(PackageManager::Zypper)
        );
        assert_eq!(manager("ID=plan9"), None);
        let release = parse_os_release("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n# x\n");
        assert_eq!(release["PRETTY_NAME"], "Debian GNU/Linux 12 (bookworm)");
    }

    #[test]
    fn limits_of_a_cgroup() {
        assert_eq!(parse_cpu_max("150000 100000"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_memory_max("2147483648"), Some(2 << 30));
        assert_eq!(parse_memory_max("max"), None);
        assert_eq!(parse_memory_max("9223372036854771712"), None);
    }

    #[test]
    fn hypervisors_by_signature() {
        assert_eq!(hypervisor_name(b"KVMKVMKVM\0\0\0"), "kvm");
        assert_eq!(hypervisor_name(b"            "), "unknown");
    }
}
