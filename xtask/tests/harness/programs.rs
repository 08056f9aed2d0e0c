//! Tests of `cargo xtask build` in a checkout of tiny packages: each way of building a package
//! gives a program of its own, and what can't be built is reported with the reason.

use crate::checkout::{Checkout, ended, says, text, words};
use std::process::Command;

const MAIN: &str = "fn main() {
    let loud = if cfg!(feature = \"loud\") { \"loud\" } else { \"quiet\" };
    println!(\"{loud} {}\", option_env!(\"BENCH_LOCKFILE\").is_some());
}
";

/// Write a package without dependencies, with a feature; `more` is appended to its manifest.
fn package(checkout: &Checkout, id: &str, more: &str) {
    let head = format!("name = \"{id}-bench\"\nversion = \"0.1.0\"\n");
    let manifest = format!("[package]\n{head}edition = \"2024\"\n[features]\nloud = []\n{more}");
    let lock = format!("version = 4\n\n[[package]]\n{head}");
    for (name, text) in [
        ("Cargo.toml", manifest.as_str()),
        ("Cargo.lock", &lock),
        ("src/main.rs", MAIN),
    ] {
        checkout.write(&format!("engines/{id}/{name}"), text);
    }
}

/// Make a checkout that has only the profile `cpu`, as it is committed.
fn checkout() -> Checkout {
    let checkout = Checkout::empty();
    let name = "data/profiles/cpu.toml";
    let profile = std::fs::read_to_string(Checkout::real_repo().root.join(name));
    checkout.write(name, &profile.expect("there is one"));
    checkout
}

#[test]
fn each_way_of_being_built_is_a_program_of_its_own() {
    let checkout = checkout();
    package(&checkout, "a", "");
    package(&checkout, "apart", "[workspace]\n");
    let nowhere = "[workspace]\n[dependencies]\nnope = { git = \"file:///no/such/repository\" }\n";
    package(&checkout, "lost", nowhere);
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
    checkout.write("engines/engines.toml", &registry);
    checkout.write("Cargo.toml", workspace);
    let locks = ["engines/a/Cargo.lock", "Cargo.lock"].map(|name| checkout.path(name));
    std::fs::copy(&locks[0], &locks[1]).expect("there is one");

    let build = |arguments: &[&str]| {
        let mut command = checkout.command(arguments, &[("CARGO_NET_RETRY", "0")]);
        let output = command.env_remove("BENCH_LOCKFILE").output();
        output.expect("the binary can be started")
    };
    let all = words("build a.cpu.f32 a.loud.f32 apart apart.loud.f32 lost");
    let said = ended(&build(&all), 3);
    says(&said, &["lost: unavailable: `cargo build", "`nope`"]);
    let run = |program: &str, bin: &str| {
        let file = checkout.path(&format!("target/programs/{program}/{bin}"));
        let output = Command::new(&file).output();
        let output = output.unwrap_or_else(|e| panic!("{}: {e}\n{said}", file.display()));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(run("a", "a-bench"), "quiet false");
    assert_eq!(run("a-loud", "a-bench"), "loud false");
    // The package's own lockfile is the one that is hashed.
    assert_eq!(run("apart", "apart-bench"), "quiet true");
    let alike = checkout.path("target/programs/apart-loud");
    assert!(!alike.exists(), "it is built alike");

    let again = build(&["build", "a.cpu.f32", "--json"]);
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
    let checkout = checkout();
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
    checkout.write("engines/engines.toml", &registry);
    checkout.write("Cargo.toml", "[workspace]\n");
    let cargo = checkout.script("cargo", CARGO);
    let said = checkout.ended(&["build"], &[("CARGO", &cargo)], 3);
    let line = |id: &str| {
        let begins = format!("{id}: unavailable: ");
        let line = said.lines().find(|line| line.contains(&begins));
        line.unwrap_or_else(|| panic!("nothing of {id}: {said}"))
    };
    says(line("full"), &["the disk is full: make room"]);
    says(line("wrong"), &["unresolved import"]);
    let right = checkout.path("target/programs/right/right-bench");
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
