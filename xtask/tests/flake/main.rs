//! Tests of the flake, evaluated as it is against a stand-in for nixpkgs: its shells have the right
//! variables, and mistakes in it are found. No network is used and nothing is built; whether
//! nixpkgs has what the stand-in has is checked by `nix flake check` where there is a network, and
//! whether the versions agree with the locks by `cargo xtask tidy`, which needs no Nix.
//!
//! Typical mistakes are each planted alone in a copy: the check must fail and say what is wrong.
//!
//! `nix/driver.sh`, by which the shell finds NVIDIA's driver, is run on made-up machines.

mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use world::{Copy, no_nix};

#[test]
fn the_flake_is_right() {
    if no_nix() {
        return;
    }
    if let Err(why) = Copy::of_checkout().check() {
        panic!("{why}");
    }
}

/// Return the check's complaint about a copy with one change.
fn complaint(name: &str, from: &str, to: &str) -> String {
    let copy = Copy::of_checkout();
    copy.change(name, from, to);
    let complaint = copy.check().expect_err("the mistake is seen");
    eprintln!("{name}: {from:?} → {to:?}\n{complaint}");
    complaint
}

/// Define a test of a planted mistake: the file, the original text, the text planted instead, and a
/// text that the complaint must contain.
macro_rules! mistakes {
    ($($test:ident: $name:literal, $from:literal => $to:literal, $named:literal;)*) => {$(
        #[test]
        fn $test() {
            if no_nix() {
                return;
            }
            let said = complaint($name, $from, $to);
            assert!(said.contains($named), "{said}");
        }
    )*};
}

mistakes! {
    wrong_attribute: "nix/cuda.nix",
        "set.libcublas\n" => "set.libcublass\n", "libcublass";
    wrong_package_set: "nix/cuda.nix",
        "pkgs.\"cudaPackages_${lib.replaceStrings [ \".\" ] [ \"_\" ] release}\"" =>
        "pkgs.\"cudaPackages_${lib.replaceStrings [ \".8\" ] [ \"_9\" ] release}\"",
        "cuda-12.9-stdenv";
    other_toolchain: "flake.nix",
        "pkgs.rust-bin.fromRustupToolchainFile ./rust-toolchain.toml" =>
        "pkgs.rust-bin.stable.\"1.94.0\".default", "not [\"@rust-1.95.0\"]";
    missing_unfree: "flake.nix",
        "        allowUnfree = true;\n" => "", "unfree";
    libtorch_missing: "nix/shell.nix",
        "        LIBTORCH = \"${libtorch}\";\n" => "        TORCH = \"${libtorch}\";\n", "LIBTORCH";
    wrong_output_name: "flake.nix",
        "      checks.${system}" => "      check.${system}", "checks";
    wrong_shell_name: "flake.nix",
        "        cpu = shell.cpu;" => "        cpus = shell.cpu;", "devShells";
    wrong_libtorch_hash_format: "nix/versions.toml",
        "hash = \"sha256-" => "hash = \"", "hash";
    truncated_libtorch_hash: "nix/versions.toml",
        "hash = \"sha256-dVVf" => "hash = \"sha256-", "hash";
    stub_of_the_driver_first: "nix/shell.nix",
        "${cuda.root}/lib:${cuda.root}/lib/stubs" => "${cuda.root}/lib/stubs:${cuda.root}/lib",
        "LIBRARY_PATH";
    libtorch_for_every_program: "nix/shell.nix",
        "LIBTORCH = \"${libtorch}\";" =>
        "LIBTORCH = \"${libtorch}\"; LD_LIBRARY_PATH = \"${libtorch}/lib\";",
        "LD_LIBRARY_PATH in the shell default: \"@libtorch";
    lock_without_its_wheels: "engines/tch/requirements.lock",
        "\ntorch==2.13.0" => "\ntorch==2.13.1", "run nix/wheels.py";
    environment_left_out: "nix/shell.nix",
        "(builtins.attrValues pythons)" => "[ pythons.python-pytorch ]",
        "BENCH_VENV in the shell default";
    other_name_of_an_environment: "flake.nix",
        "name = \"python-${name}\"" => "name = \"${name}\"", "python-pytorch";
    no_instructions_of_this_cpu: "nix/shell.nix",
        "NIX_ENFORCE_NO_NATIVE = \"0\"" => "NIX_ENFORCE_NO_NATIVE = \"1\"", "NIX_ENFORCE_NO_NATIVE";
}

/// Test a mistake that only a linter finds. Skipped where there is no linter, except in CI.
fn linted(linter: &str, from: &str, to: &str) {
    if no_nix() || crate::world::no_linter(linter) {
        return;
    }
    let said = complaint("nix/cuda.nix", from, to);
    assert!(said.contains("cuda.nix"), "{said}");
}

#[test]
fn unformatted() {
    linted("nixfmt", "  parts = [\n", "  parts =    [\n");
}

#[test]
fn dead_code() {
    linted("deadnix", "  parts = [\n", "  unused = 1;\n  parts = [\n");
}

const NIXOS: &str = "run/opengl-driver/lib";
const DEBIAN: &str = "usr/lib/x86_64-linux-gnu";

/// A made-up machine with these files, and a directory in which the script may make links.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        for (place, name) in files {
            let place = dir.path().join("root").join(place);
            std::fs::create_dir_all(&place).expect("it can be made");
            std::fs::write(place.join(name), "").expect("it can be written");
        }
        Self { dir }
    }

    fn root(&self, place: &str) -> PathBuf {
        self.dir.path().join("root").join(place)
    }

    fn private(&self) -> PathBuf {
        self.dir.path().join("private")
    }

    /// Run the script; return LD_LIBRARY_PATH, and the path where Triton looks for the driver.
    fn after(&self) -> (String, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nix/driver.sh");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c"])
            .arg("source \"$1\"; bench_use_driver \"$2\" \"$3\"; printf '%s\\n%s' \"$LD_LIBRARY_PATH\" \"${TRITON_LIBCUDA_PATH-}\"")
            .arg("bash")
            .args([&script, &self.dir.path().join("root"), &self.private()])
            .env("LD_LIBRARY_PATH", "/before")
            .env_remove("TRITON_LIBCUDA_PATH")
            .output()
            .expect("bash can be started");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let (path, triton) = text.split_once('\n').expect("two lines");
        (path.to_owned(), triton.to_owned())
    }

    fn links(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.private())
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn nixos_keeps_the_driver_in_one_place() {
    let machine = Machine::with(&[(NIXOS, "libcuda.so.1"), (DEBIAN, "libcuda.so.1")]);
    let (path, triton) = machine.after();
    let driver = machine.root(NIXOS).display().to_string();
    assert_eq!(path, format!("{driver}:/before"));
    assert_eq!(triton, driver);
    assert!(machine.links().is_empty());
}

#[test]
fn elsewhere_only_the_drivers_own_files_are_linked() {
    let machine = Machine::with(&[
        (DEBIAN, "libc.so.6"),
        (DEBIAN, "libcuda.so.1"),
        (DEBIAN, "libnvidia-ml.so.1"),
        ("usr/lib64", "libcuda.so.1"),
    ]);
    for _ in 0..2 {
        let (path, triton) = machine.after();
        assert_eq!(path, format!("{}:/before", machine.private().display()));
        assert_eq!(triton, machine.private().display().to_string());
        assert_eq!(machine.links(), ["libcuda.so.1", "libnvidia-ml.so.1"]);
    }
    let linked = std::fs::canonicalize(machine.private().join("libcuda.so.1"));
    let first = std::fs::canonicalize(machine.root(DEBIAN).join("libcuda.so.1"));
    assert_eq!(linked.unwrap(), first.unwrap());
}

#[test]
fn without_a_driver_nothing_changes() {
    let machine = Machine::with(&[(DEBIAN, "libc.so.6")]);
    assert_eq!(machine.after(), ("/before".to_owned(), String::new()));
    // Links to a driver that was removed must be ignored.
    std::fs::create_dir_all(machine.private()).unwrap();
    std::os::unix::fs::symlink("/gone", machine.private().join("libcuda.so.1")).unwrap();
    assert_eq!(machine.after().0, "/before");
}
