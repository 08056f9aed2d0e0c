//! Tests that a change to any one source of a version is noticed and named.

use super::*;

fn checkout() -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().expect("xtask lies in the checkout");
    Sources::read(root).expect("every source is there")
}

/// Return the complaint after a change to one file.
fn changed(name: &str, from: &str, to: &str) -> String {
    let mut sources = checkout();
    let text = sources.0.get_mut(name).expect("it is a source");
    assert!(text.contains(from), "{name} has no {from:?}");
    *text = text.replacen(from, to, 1);
    let error = sources.check().expect_err("the sources disagree");
    format!("{error:#}")
}

#[test]
fn the_checkout_agrees_with_itself() {
    checkout().check().expect("they agree");
}

#[test]
fn another_release_is_noticed_where_it_is_cited_and_in_each_workspace() {
    let said = changed("CITATION.cff", "\nversion: ", "\nversion: 9");
    assert!(said.contains("CITATION.cff of 9"), "{said}");
    let said = changed("CITATION.cff", "\nversion: ", "\nno-version: ");
    assert!(said.contains("CITATION.cff names no version"), "{said}");
    for dir in &WORKSPACES[1..] {
        let name = in_dir(dir, "Cargo.toml");
        let said = changed(&name, "\nversion = \"", "\nversion = \"9");
        assert!(said.contains(&format!("{name} of 9")), "{said}");
    }
}

#[test]
fn a_workspace_that_a_list_lacks_is_noticed() {
    let said = changed("Cargo.toml", "exclude = [", "exclude = [\"engines/new\", ");
    assert!(
        said.contains("leaves out engines/new; add it to WORKSPACES"),
        "{said}"
    );
    for at in &WORKSPACES[1..] {
        let said = changed(AUDIT, &format!("{at}/Cargo.toml check"), "other check");
        let wanted = format!("{AUDIT} must have --manifest-path {at}");
        assert!(said.contains(&wanted), "{said}");
        // The first list is Cargo's; another has folders of Python packages.
        let said = changed(DEPENDABOT, &format!("\"/{at}\""), "\"/other\"");
        let wanted = format!("{DEPENDABOT} must have \"/{at}\"");
        assert!(said.contains(&wanted), "{said}");
    }
}

#[test]
fn another_toolchain_is_noticed() {
    let said = changed("rust-toolchain.toml", "1.95.0", "1.96.0");
    assert!(said.contains("pins 1.96.0"), "{said}");
    let said = changed(
        "Cargo.toml",
        "rust-version = \"1.95\"",
        "rust-version = \"1.9\"",
    );
    assert!(said.contains("rust-version 1.9"), "{said}");
    let name = "engines/mistralrs/Cargo.toml";
    let said = changed(name, "rust-version = \"1.95\"", "rust-version = \"1.94\"");
    assert!(said.contains(name), "{said}");
}

#[test]
fn another_libtorch_is_noticed_wherever_it_stands() {
    let said = changed(
        "nix/versions.toml",
        "version = \"2.9.0\"",
        "version = \"2.8.0\"",
    );
    assert!(said.contains("2.8.0"), "{said}");
    let lock = "engines/pytorch/requirements.lock";
    let said = changed(lock, "\ntorch==2.9.0", "\ntorch==2.9.1");
    assert!(said.contains(lock) && said.contains("2.9.1"), "{said}");
    let wanted = "engines/pytorch/requirements.in";
    let said = changed(wanted, "torch==2.9.0", "torch==2.10.0");
    assert!(said.contains(wanted), "{said}");
    let crates = |name: &str, to: &str| {
        let from = format!("name = \"{name}\"\nversion = \"0.22.0\"");
        changed("Cargo.lock", &from, &from.replace("0.22.0", to))
    };
    let said = crates(TCH, "0.23.0");
    assert!(said.contains("which libtorch it binds"), "{said}");
    let said = crates(TORCH_SYS, "0.21.0");
    assert!(said.contains("another torch-sys"), "{said}");
    // The workspace of the newest `tch` has another libtorch.
    for name in ["requirements.in", "requirements.lock"] {
        let name = in_dir("engines/tch", name);
        let said = changed(&name, "\ntorch==2.13.0", "\ntorch==2.12.0");
        assert!(said.contains(&name) && said.contains("2.12.0"), "{said}");
    }
}

#[test]
fn a_workspace_whose_libtorch_comes_from_nowhere_is_noticed() {
    let name = "engines/lmrs-upstream/Cargo.lock";
    let more = "[[package]]\nname = \"tch\"\nversion = \"0.26.0\"\n\n\
                [[package]]\nname = \"torch-sys\"\nversion = \"0.26.0\"\n\n[[package]]\n";
    let said = changed(name, "[[package]]\n", more);
    assert!(said.contains(name), "{said}");
    assert!(said.contains("which requirements bring"), "{said}");
}

#[test]
fn another_cuda_is_noticed() {
    let said = changed("nix/versions.toml", "cuda = \"12.8\"", "cuda = \"13.0\"");
    assert!(said.contains("CUDA 13.0"), "{said}");
    let lock = "engines/pytorch/requirements.lock";
    let said = changed(
        lock,
        "nvidia-cuda-runtime-cu12==12.8.90",
        "nvidia-cuda-runtime-cu12==12.9.90",
    );
    assert!(said.contains("12.9.90"), "{said}");
    let lock = "data/cuda-toolkit.lock";
    let said = changed(lock, "nvidia-cuda-crt==13.0", "nvidia-cuda-crt==13.1");
    assert!(said.contains("nvidia-cuda-crt 13.1"), "{said}");
    let said = changed(
        "crates/provision/src/build/cuda.rs",
        "MAJOR: u32 = 13",
        "MAJOR: u32 = 12",
    );
    assert!(said.contains("knows 12"), "{said}");
}

#[test]
fn wheels_other_than_the_locked_are_noticed() {
    let name = "nix/wheels/pytorch.toml";
    let said = changed(name, "torch-2.9.0-cp313-cp313", "torch-2.9.0-cp312-cp312");
    assert!(said.contains("Python 313"), "{said}");
    let said = changed(name, "\nsha256 = \"", "\nsha256 = \"0");
    assert!(said.contains("wheels.py"), "{said}");
    let said = changed(name, "idna-3.20", "idna-3.19");
    assert!(said.contains("idna-3.19"), "{said}");
    let said = changed(name, "file = \"idna-3.20", "file = \"idea-3.20");
    assert!(said.contains("no idea"), "{said}");
    let lock = "engines/pytorch/requirements.lock";
    let said = changed(lock, "\nidna==3.20", "\nnew==1.0\nidna==3.20");
    assert!(said.contains("has new"), "{said}");
    // A wheel whose version is followed by the number of a build.
    let said = changed("nix/wheels/openvino.toml", "openvino-2026", "openvino-2025");
    assert!(said.contains("openvino-2025.4.1-22982-cp313"), "{said}");
    assert!(said.contains("whose version"), "{said}");
}

#[test]
fn a_lock_and_its_wheels_change_together() {
    let locks = checkout().locks().expect("the registries are TOML");
    for lock in ["engines/openvino", "engines/pytorch", "engines/tch"] {
        let lock = in_dir(lock, "requirements.lock");
        assert!(locks.contains(&lock), "{lock} is not among {locks:?}");
    }
    for lock in &locks {
        // An environment is found by the hash of the whole file.
        let said = changed(lock, "# Every", "# every");
        assert!(said.contains(lock), "{said}");
        assert!(said.contains("run nix/wheels.py"), "{said}");
    }
}

#[test]
fn wheels_that_are_missing_or_of_no_lock_are_noticed() {
    let mut sources = checkout();
    sources.0.insert("nix/wheels/x.toml".into(), String::new());
    let said = sources.check().expect_err("it is of no lock").to_string();
    assert!(said.contains("nix/wheels/x.toml is of no lock"), "{said}");
    let mut sources = checkout();
    sources.0.remove("nix/wheels/tch.toml");
    let said = sources.check().expect_err("one is missing").to_string();
    assert!(said.contains("there is no nix/wheels/tch.toml"), "{said}");
    let from = "environment = \"venv-tch\"";
    let other = "environment = \"venv-tch\" }, more = { requirements = \"engines/x/y.lock\"";
    let said = changed("engines/engines.toml", from, other);
    assert!(said.contains("a registry names engines/x/y.lock"), "{said}");
}

#[test]
fn a_version_or_an_input_of_the_flakes_own_is_noticed() {
    let said = changed("flake.nix", "nixos-26.05", "nixos-25.11");
    assert!(said.contains("nixos-26.05"), "{said}");
    let said = changed(
        "flake.nix",
        "fromRustupToolchainFile ./rust-toolchain.toml",
        "stable.latest.default",
    );
    assert!(said.contains("toolchain"), "{said}");
    let set = "pkgs.\"cudaPackages_${lib.replaceStrings [ \".\" ] [ \"_\" ] release}\"";
    let said = changed("nix/cuda.nix", set, "pkgs.cudaPackages_12_9");
    assert!(said.contains("cudaPackages_12_9"), "{said}");
    for (line, version) in [
        ("  x = \"2.9.0\";", Some("2.9.0")),
        ("  python = pkgs.python312;", Some("pkgs.python312")),
        ("  python = pkgs.python3;", None),
        ("  # as of 2.9.0", None),
        ("  build = \"cu128\";", Some("cu128")),
        ("  cuda.root cuda_nvcc x86_64-linux", None),
    ] {
        assert_eq!(version_in(line), version, "{line}");
    }
}
