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
    let text = sources.text(name).expect("it is a source");
    assert!(text.contains(from), "{name} has no {from:?}");
    let text = text.replacen(from, to, 1);
    sources.changed.insert(name.to_owned(), text);
    let error = sources.check().expect_err("the sources disagree");
    format!("{error:#}")
}

/// Check that the complaint after a change to one file names the file and contains a text.
fn noticed(name: &str, from: &str, to: &str, wanted: &str) {
    let said = changed(name, from, to);
    for wanted in [name, wanted] {
        assert!(
            said.contains(wanted),
            "{from:?} → {to:?}: {said:?} has no {wanted:?}"
        );
    }
}

/// Define tests of changes: the file, the original text, the text in its place, and a text that the
/// complaint must contain beside the file's name.
macro_rules! noticed {
    ($($test:ident { $($name:literal, $from:literal => $to:literal, $wanted:literal;)* })*) => {$(
        #[test]
        fn $test() {
            $(noticed($name, $from, $to, $wanted);)*
        }
    )*};
}

noticed! {
    another_release_where_it_is_cited {
        "CITATION.cff", "\nversion: " => "\nversion: 9", "CITATION.cff of 9";
        "CITATION.cff", "\nversion: " => "\nno-version: ", "names no version";
    }
    another_toolchain {
        "rust-toolchain.toml", "1.95.0" => "1.96.0", "pins 1.96.0";
        "Cargo.toml", "rust-version = \"1.95\"" => "rust-version = \"1.9\"", "rust-version 1.9";
        "engines/mistralrs/Cargo.toml",
            "rust-version = \"1.95\"" => "rust-version = \"1.94\"", "rust-version 1.94";
    }
    another_libtorch {
        "nix/versions.toml", "version = \"2.9.0\"" => "version = \"2.8.0\"", "2.8.0";
        "engines/pytorch/requirements.lock", "\ntorch==2.9.0" => "\ntorch==2.9.1", "2.9.1";
        "engines/pytorch/requirements.in", "torch==2.9.0" => "torch==2.10.0", "2.10.0";
        "Cargo.lock", "name = \"tch\"\nversion = \"0.22.0\"" =>
            "name = \"tch\"\nversion = \"0.23.0\"", "which libtorch it binds";
        "Cargo.lock", "name = \"torch-sys\"\nversion = \"0.22.0\"" =>
            "name = \"torch-sys\"\nversion = \"0.21.0\"", "another torch-sys";
        // The workspace of the newest `tch` has another libtorch.
        "engines/tch/requirements.in", "\ntorch==2.13.0" => "\ntorch==2.12.0", "2.12.0";
        "engines/tch/requirements.lock", "\ntorch==2.13.0" => "\ntorch==2.12.0", "2.12.0";
    }
    libtorch_from_nowhere {
        "engines/lmrs-upstream/Cargo.lock", "[[package]]\n" =>
            "[[package]]\nname = \"tch\"\nversion = \"0.26.0\"\n\n\
             [[package]]\nname = \"torch-sys\"\nversion = \"0.26.0\"\n\n[[package]]\n",
            "which requirements bring";
    }
    another_cuda {
        "nix/versions.toml", "cuda = \"12.8\"" => "cuda = \"13.0\"", "CUDA 13.0";
        "engines/pytorch/requirements.lock",
            "nvidia-cuda-runtime-cu12==12.8.90" => "nvidia-cuda-runtime-cu12==12.9.90", "12.9.90";
        "data/cuda-toolkit.lock",
            "nvidia-cuda-crt==13.0" => "nvidia-cuda-crt==13.1", "nvidia-cuda-crt 13.1";
        "crates/provision/src/build/cuda.rs",
            "MAJOR: u32 = 13" => "MAJOR: u32 = 12", "no `const WHEELS_CUDA_MAJOR: u32 = 13;`";
    }
    other_wheels_than_the_locked {
        "nix/wheels/pytorch.toml",
            "torch-2.9.0-cp313-cp313" => "torch-2.9.0-cp312-cp312", "Python 313";
        "nix/wheels/pytorch.toml", "\nsha256 = \"" => "\nsha256 = \"0", "wheels.py";
        "nix/wheels/pytorch.toml", "idna-3.20" => "idna-3.19", "idna-3.19";
        "nix/wheels/pytorch.toml", "file = \"idna-3.20" => "file = \"idea-3.20", "no idea";
        "engines/pytorch/requirements.lock", "\nidna==3.20" => "\nnew==1.0\nidna==3.20", "has new";
        // A wheel whose version is followed by the number of a build.
        "nix/wheels/openvino.toml", "openvino-2026" => "openvino-2025",
            "openvino-2025.4.1-22982-cp313-cp313-manylinux_2_28_x86_64.whl, whose version";
    }
    another_input_or_version_in_the_flake {
        "flake.nix", "nixos-26.05" => "nixos-25.11", "nixos-26.05";
        "flake.nix",
            "    nixpkgs.url" => "    other.url = \"github:a/b\";\n    nixpkgs.url", "github:a/b";
        "flake.lock", "\"rev\": \"" => "\"rev\": \"0", "nixpkgs without a whole revision";
        "flake.lock", "\"narHash\": \"sha256-" => "\"narHash\": \"md5-", "without a hash";
        "nix/cuda.nix", "pkgs.\"cudaPackages_${lib.replaceStrings [ \".\" ] [ \"_\" ] release}\"" =>
            "pkgs.cudaPackages_12_9", "cudaPackages_12_9";
    }
}

#[test]
fn the_checkout_agrees_with_itself() {
    checkout().check().expect("they agree");
}

#[test]
fn another_release_of_a_workspace_is_noticed() {
    for dir in &WORKSPACES[1..] {
        let name = in_dir(dir, "Cargo.toml");
        let wanted = format!("{name} of 9");
        noticed(&name, "\nversion = \"", "\nversion = \"9", &wanted);
    }
}

#[test]
fn a_workspace_that_a_list_lacks_is_noticed() {
    let more = "exclude = [\"engines/new\", ";
    let wanted = "leaves out engines/new; add it to WORKSPACES";
    noticed("Cargo.toml", "exclude = [", more, wanted);
    for at in &WORKSPACES[1..] {
        let entry = format!("{at}/Cargo.toml check");
        let wanted = format!("{AUDIT} must have --manifest-path {at}");
        noticed(AUDIT, &entry, "other check", &wanted);
        // The first list is Cargo's; another has folders of Python packages.
        let entry = format!("\"/{at}\"");
        let wanted = format!("{DEPENDABOT} must have {entry}");
        noticed(DEPENDABOT, &entry, "\"/other\"", &wanted);
    }
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
        noticed(lock, "# Every", "# every", "run nix/wheels.py");
    }
}

#[test]
fn a_lock_that_nothing_updates_is_noticed() {
    let entry = "\"/engines/openvino\"";
    let wanted = format!("{DEPENDABOT} must have {entry}, for pip");
    noticed(DEPENDABOT, entry, "\"/other\"", &wanted);
    // The list for Cargo doesn't count.
    noticed(
        DEPENDABOT,
        "\"/engines/gigatoken\", \"/engines/tch\"]",
        "\"/engines/gigatoken\"]",
        &format!("{DEPENDABOT} must have \"/engines/tch\", for pip"),
    );
}

#[test]
fn wheels_that_are_missing_or_of_no_lock_are_noticed() {
    let mut sources = checkout();
    sources.wheel_files.insert("nix/wheels/x.toml".into());
    let said = sources.check().expect_err("it is of no lock").to_string();
    assert!(said.contains("nix/wheels/x.toml is of no lock"), "{said}");
    let mut sources = checkout();
    sources.wheel_files.remove("nix/wheels/tch.toml");
    let said = sources.check().expect_err("one is missing").to_string();
    assert!(said.contains("there is no nix/wheels/tch.toml"), "{said}");
    let from = "environment = \"venv-tch\"";
    let other = "environment = \"venv-tch\" }, more = { requirements = \"engines/x/y.lock\"";
    let said = changed("engines/engines.toml", from, other);
    assert!(said.contains("a registry names engines/x/y.lock"), "{said}");
}

#[test]
fn a_version_in_a_line_of_nix_is_seen() {
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
