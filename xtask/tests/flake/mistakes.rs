//! Mistakes that one makes in a flake, each planted alone in a copy: the check fails,
//! and says what is wrong.

use crate::world::{Copy, no_nix};

/// The check's complaint of a copy with a change in it.
fn complaint(name: &str, from: &str, to: &str) -> String {
    let copy = Copy::of_checkout();
    copy.change(name, from, to);
    let complaint = copy.check().expect_err("the mistake is seen");
    eprintln!("{name}: {from:?} → {to:?}\n{complaint}");
    complaint
}

/// A test of a planted mistake: file, what stands there, what is planted, and what the
/// complaint has to name.
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
        "pkgs.rust-bin.stable.\"1.94.0\".default", "-rust-1.95.0";
    missing_unfree: "flake.nix",
        "        allowUnfree = true;\n" => "", "unfree";
    changed_input_without_lock: "flake.nix",
        "nixos-26.05" => "nixos-25.11", "flake.lock's nixpkgs";
    new_input_without_lock: "flake.nix",
        "    nixpkgs.url" => "    other.url = \"github:a/b\";\n    nixpkgs.url", "nodes of flake.lock";
    libtorch_missing: "nix/shell.nix",
        "        LIBTORCH = \"${libtorch}\";\n" => "        TORCH = \"${libtorch}\";\n", "LIBTORCH";
    cuda_13_set: "nix/versions.toml",
        "cuda = \"12.8\"" => "cuda = \"13.0\"", "-cuda-13.0";
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
        "libtorch on LD_LIBRARY_PATH";
    no_instructions_of_this_cpu: "nix/shell.nix",
        "NIX_ENFORCE_NO_NATIVE = \"0\"" => "NIX_ENFORCE_NO_NATIVE = \"1\"", "NIX_ENFORCE_NO_NATIVE";
}

/// A linter's mistake is only seen where the linter is; in CI it is.
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
