//! What packages are called by the systems' package managers, and the commands that
//! install them. Pure: runs none of them.

use super::System;
use super::system::PackageManager;
use schema::registry::Need;

/// A package under its names, in the order apt, dnf, pacman, zypper, brew, nix.
pub type Names = [&'static str; 6];

/// A C and C++ compiler.
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
/// Clang.
pub const CLANG: Names = ["clang", "clang", "clang", "clang", "llvm", "clang"];
/// Python, with `venv`.
pub const PYTHON: Names = [
    "python3 python3-venv",
    "python3 python3-pip",
    "python",
    "python3 python3-pip",
    "python@3.12",
    "python3",
];
/// Git.
pub const GIT: Names = ["git"; 6];
/// Node and npm.
pub const NODE: Names = [
    "nodejs npm",
    "nodejs npm",
    "nodejs npm",
    "nodejs npm",
    "node",
    "nodejs",
];
/// Chromium.
pub const CHROMIUM: Names = ["chromium"; 6];

/// The packages that bring what a build needs; `None` where the project does.
pub fn names_of(need: Need) -> Option<&'static Names> {
    match need {
        Need::Cmake => Some(&CMAKE),
        Need::Libclang => Some(&LIBCLANG),
        Need::Clang => Some(&CLANG),
        Need::Libtorch | Need::CudaToolkit | Need::Libdevice => None,
    }
}

/// The command that installs what a build needs on a system.
pub fn install_command(system: &System, need: Need) -> Option<String> {
    install(system.packages, names_of(need)?)
}

/// The command that installs a package; `None` where we don't know the system.
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
