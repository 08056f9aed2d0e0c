//! Tests of `cargo xtask build` in a checkout of tiny packages: each way of building a package
//! gives a program of its own, and what can't be built is reported with the reason.

use crate::checkout::{Checkout, ended, says, text, words};
use std::path::Path;
use std::process::{Command, Output};

const MAIN: &str = "fn main() {
    let loud = if cfg!(feature = \"loud\") { \"loud\" } else { \"quiet\" };
    println!(\"{loud} {}\", option_env!(\"BENCH_LOCKFILE\").is_some());
}
";

/// Write a package without dependencies, with a feature; `more` is appended to its manifest.
fn package(root: &Path, id: &str, more: &str) {
    let dir = root.join("engines").join(id);
    std::fs::create_dir_all(dir.join("src")).expect("a directory can be made");
    let head = format!("name = \"{id}-bench\"\nversion = \"0.1.0\"\n");
    let manifest = format!("[package]\n{head}edition = \"2024\"\n[features]\nloud = []\n{more}");
    let lock = format!("version = 4\n\n[[package]]\n{head}");
    for (name, text) in [
        ("Cargo.toml", manifest.as_str()),
        ("Cargo.lock", &lock),
        ("src/main.rs", MAIN),
    ] {
        std::fs::write(dir.join(name), text).expect("a file can be written");
    }
}

/// Write the profile `cpu` as it is committed, and the files that the test names.
fn files(root: &Path, named: &[(&str, &str)]) {
    let profile = Checkout::real_repo().root.join("data/profiles/cpu.toml");
    let profile = std::fs::read_to_string(profile).expect("there is one");
    for (name, text) in [&[("data/profiles/cpu.toml", &*profile)], named].concat() {
        let path = root.join(name);
        let dir = path.parent().expect("it lies in the checkout");
        std::fs::create_dir_all(dir).expect("a directory can be made");
        std::fs::write(&path, text).expect("a file can be written");
    }
}

fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(arguments)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env("CARGO_NET_RETRY", "0")
        .env_remove("BENCH_LOCKFILE");
    command
}

fn xtask(root: &Path, arguments: &[&str]) -> Output {
    let output = command(root, arguments).output();
    output.expect("the binary can be started")
}

#[test]
fn each_way_of_being_built_is_a_program_of_its_own() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let root = dir.path();
    package(root, "a", "");
    package(root, "apart", "[workspace]\n");
    let nowhere = "[workspace]\n[dependencies]\nnope = { git = \"file:///no/such/repository\" }\n";
    package(root, "lost", nowhere);
    let from = |id: &str, more: &str| {
        format!("{{ kind = \"cargo\", package = \"{id}-bench\", bin = \"{id}-bench\"{more} }}")
    };
    let apart = |id: &str| from(id, &format!(", manifest = \"engines/{id}/Cargo.toml\""));
    let mut registry =
        "baseline = \"a.cpu.f32\"\nreference = \"a.cpu.f32\"\ncross_check = \"a.cpu.f32\"\n"
            .to_owned();
    for (id, build, on) in [
        ("a", from("a", ""), from("a", ", features = [\"loud\"]")),
        ("apart", apart("apart"), apart("apart")),
        ("lost", apart("lost"), apart("lost")),
    ] {
        let target = |backend| {
            format!("{{ backend = \"{backend}\", precision = \"f32\", weights = \"w\" }}")
        };
        registry.push_str(&format!(
            "[[engine]]\nid = \"{id}\"\nname = \"{id}\"\nabout = \"\"\nhomepage = \"\"\nbuild = {build}\non = {{ loud = {on} }}\ntarget = [{}, {}]\n",
            target("cpu"),
            target("loud")
        ));
    }
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"engines/a\"]\nexclude = [\"engines/apart\", \"engines/lost\"]\n";
    let named = [
        ("engines/engines.toml", registry.as_str()),
        ("Cargo.toml", workspace),
    ];
    files(root, &named);
    std::fs::copy(root.join("engines/a/Cargo.lock"), root.join("Cargo.lock"))
        .expect("there is one");

    let all = words("build a.cpu.f32 a.loud.f32 apart apart.loud.f32 lost");
    let said = ended(&xtask(root, &all), 3);
    says(&said, &["lost: unavailable: `cargo build", "`nope`"]);
    let run = |program: &str, bin: &str| {
        let file = root.join("target/programs").join(program).join(bin);
        let output = Command::new(&file).output();
        let output = output.unwrap_or_else(|e| panic!("{}: {e}\n{said}", file.display()));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(run("a", "a-bench"), "quiet false");
    assert_eq!(run("a-loud", "a-bench"), "loud false");
    // The package's own lockfile is the one that is hashed.
    assert_eq!(run("apart", "apart-bench"), "quiet true");
    assert!(
        !root.join("target/programs/apart-loud").exists(),
        "it is built alike"
    );

    let again = xtask(root, &["build", "a.cpu.f32", "--json"]);
    let costs: serde_json::Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
    assert_eq!(costs["a"]["targets"], serde_json::json!(["a.cpu.f32"]));
    assert_eq!(costs["a"]["built"], serde_json::Value::Null, "it was there");
    assert_eq!(costs["a"]["crates"], 0);
}

/// A shell script in place of Cargo, for `build` alone: the package `full-bench` meets a full disk,
/// `wrong-bench` doesn't compile, and any other is built at once.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
*full-bench*)
    echo "error: failed to write to \`x.rmeta\`: No space left on device (os error 28)" >&2
    echo "error: could not compile \`full-bench\` (bin \"full-bench\") due to 1 previous error" >&2
    exit 101 ;;
*wrong-bench*)
    echo "error[E0432]: unresolved import \`x\`" >&2
    echo "error: could not compile \`wrong-bench\` (bin \"wrong-bench\") due to 1 previous error" >&2
    exit 101 ;;
build*)
    mkdir -p "$CARGO_TARGET_DIR/release"
    cp "$0" "$CARGO_TARGET_DIR/release/right-bench" ;;
esac
"#;

#[test]
fn an_engine_that_cannot_be_compiled_costs_no_other() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let root = dir.path();
    let mut registry = ["baseline", "reference", "cross_check"]
        .map(|who| format!("{who} = \"full.cpu.f32\"\n"))
        .concat();
    for id in ["full", "wrong", "right"] {
        registry.push_str(&format!(
            "[[engine]]\nid = \"{id}\"\nname = \"{id}\"\nabout = \"\"\nhomepage = \"\"\n\
             build = {{ kind = \"cargo\", package = \"{id}-bench\", bin = \"{id}-bench\" }}\n\
             target = [{{ backend = \"cpu\", precision = \"f32\", weights = \"w\" }}]\n"
        ));
    }
    let cargo = root.join("cargo");
    let named = [
        ("engines/engines.toml", registry.as_str()),
        ("Cargo.toml", "[workspace]\n"),
        ("cargo", CARGO),
    ];
    files(root, &named);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&cargo, executable).expect("it is ours");
    let built = command(root, &["build"])
        .env("CARGO", &cargo)
        .output()
        .expect("the binary can be started");
    let said = ended(&built, 3);
    let line = |id: &str| {
        let begins = format!("{id}: unavailable: ");
        let line = said.lines().find(|line| line.contains(&begins));
        line.unwrap_or_else(|| panic!("nothing of {id}: {said}"))
    };
    says(line("full"), &["the disk is full: make room"]);
    says(line("wrong"), &["unresolved import"]);
    let right = root.join("target/programs/right/right-bench");
    assert!(right.is_file(), "{said}");
}

#[test]
fn an_engine_that_is_named_and_not_there_is_no_success() {
    let checkout = Checkout::with(&[]);
    checkout.registry(|text| text.replace("fake-bench", "gone-bench"));
    let verify = |engines: &[&str]| {
        let arguments = [
            &["verify", "--model", "tiny-llama", "--profile", "test"],
            engines,
        ];
        checkout.xtask(&arguments.concat(), &[])
    };
    let named = verify(&["--engines", "fake.cpu.f32"]);
    says(&ended(&named, 3), &["gone-bench"]);
    let all = verify(&[]);
    let why = "what this machine lacks is no failure of the gate";
    assert_eq!(all.status.code(), Some(0), "{why}: {}", text(&all));
}
