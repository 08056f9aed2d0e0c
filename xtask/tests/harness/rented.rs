//! Tests `examples/rented-gpu`: a run in parts, on machines that keep nothing, which is passed on
//! as one packed file.

use crate::checkout::{Checkout, PROFILE, text};
use crate::contexts::LONG;
use std::path::Path;
use std::process::Command;

#[test]
fn parts_that_begin_with_packed_records_make_a_whole_run() {
    let checkout = Checkout::with(&["slow", "crash"]);
    // Contexts beyond the committed golden, so that a golden must be made.
    checkout.profile(&format!("{PROFILE}{LONG}"));
    let script = Checkout::real_repo().root;
    let script = script.join("examples/rented-gpu/part.sh");
    let bench = format!("{} bench", env!("CARGO_BIN_EXE_xtask"));
    let part = || {
        Command::new("sh")
            .arg(&script)
            .args(["--engines", "fake.cpu.f32,fake+slow.cpu.f32"])
            .current_dir(checkout.path(""))
            .envs(checkout.environment())
            .env("BENCH", &bench)
            .env("PROFILE", "test")
            .env("MODEL", "tiny-llama")
            .env("MINUTES", "0")
            .output()
            .expect("sh can be started")
    };
    let records = checkout.path("records.tar.gz");
    let mut parts = 0;
    loop {
        let output = part();
        parts += 1;
        let bytes = std::fs::metadata(&records).expect("they are packed").len();
        assert!(bytes < 16 << 20, "{bytes}");
        match output.status.code() {
            Some(4) => {}
            Some(0) => break,
            _ => panic!("{}", text(&output)),
        }
        assert!(parts < 50, "it never ends: {}", text(&output));
        // The next machine gets only the packed records.
        std::fs::remove_dir_all(checkout.path("lent")).expect("it was there");
        std::fs::remove_file(checkout.path("models/tiny-llama/golden.json")).expect("it was made");
        assert!(!text(&output).contains("is made to reach") || parts == 1);
    }
    assert!(parts > 2, "nothing was stopped");
    let runs = std::fs::read_dir(checkout.path("lent")).expect("it is there");
    let runs: Vec<_> = runs.flatten().map(|entry| entry.path()).collect();
    let [run] = runs.as_slice() else {
        panic!("a run was begun twice: {runs:?}");
    };
    let run = schema::run::Run::load(Path::new(run)).expect("the records are valid");
    checkout.all_ok(&run, 12);
}
