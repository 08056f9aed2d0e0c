//! Tests of a bundle packed from this checkout, unpacked elsewhere, and run with no more than a
//! shell and coreutils: it measures, renders, and reports what is missing.

use crate::checkout::{Checkout, ended, says, text};
use base::repo::Repo;
use schema::record::Status;
use schema::run::Run;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The only programs on PATH.
const COREUTILS: [&str; 6] = ["cat", "ls", "nproc", "sha256sum", "sort", "uname"];

/// A bundle that was packed and unpacked.
struct Unpacked {
    dir: tempfile::TempDir,
    top: PathBuf,
}

impl Unpacked {
    /// Pack and unpack a bundle of these engines.
    fn new(engines: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let packed = dir.path().join("packed");
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("dist")
            .args(engines)
            .arg("--out")
            .arg(&packed)
            .current_dir(Checkout::real_repo().root)
            .output()
            .expect("the binary can be started");
        assert!(output.status.success(), "{}", text(&output));
        let here = dir.path().join("unpacked");
        let mut archives = 0;
        for entry in std::fs::read_dir(&packed).expect("it was made").flatten() {
            if entry.path().extension().is_some_and(|ext| ext == "gz") {
                archives += 1;
                let file = std::fs::File::open(entry.path()).expect("it can be read");
                let size = file.metadata().expect("it has a size").len();
                assert!(size < 64 << 20, "{}: {size}", entry.path().display());
                let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(file));
                tar.unpack(&here).expect("it can be unpacked");
            }
        }
        assert_eq!(
            archives,
            1 + engines.len(),
            "a base, and one each: {}",
            text(&output)
        );
        let mut tops = std::fs::read_dir(&here).expect("it was made").flatten();
        let top = tops.next().expect("all is in one directory").path();
        assert!(tops.next().is_none(), "all is in one directory");
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).expect("it is ours");
        for name in COREUTILS {
            let path = std::env::var_os("PATH").expect("there is a PATH");
            let mut places = std::env::split_paths(&path).map(|dir| dir.join(name));
            let found = places.find(|file| file.is_file());
            let found = found.unwrap_or_else(|| panic!("no {name} here"));
            std::os::unix::fs::symlink(found, bin.join(name)).expect("a link can be made");
        }
        Self { dir, top }
    }

    /// Run a program of the bundle elsewhere, with only PATH and a lock in its environment.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(self.top.join(program))
            .args(arguments)
            .env_clear()
            .env("PATH", self.dir.path().join("bin"))
            .env("BENCH_LOCK", self.dir.path().join("bench.lock"))
            .current_dir(self.dir.path())
            .output()
            .unwrap_or_else(|error| panic!("{program} can't be started: {error}"))
    }

    fn read(&self, name: &str) -> String {
        let path = self.top.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn replace(&self, name: &str, from: &str, to: &str) {
        let old = self.read(name);
        let new = old.replace(from, to);
        assert_ne!(old, new, "{from} isn't in {name}");
        std::fs::write(self.top.join(name), new).expect("it is ours");
    }
}

#[test]
fn a_bundle_measures_and_renders_where_there_is_no_toolchain() {
    let bundle = Unpacked::new(&["lmrs", "candle"]);
    for part in ["base", "lmrs", "candle"] {
        let sums = format!("checksums/{part}.sha256");
        let checked = Command::new("sha256sum")
            .args(["--check", "--quiet", &sums])
            .current_dir(&bundle.top)
            .output()
            .expect("coreutils are here");
        assert!(checked.status.success(), "{}", text(&checked));
        let components: serde_json::Value =
            serde_json::from_str(&bundle.read(&format!("sbom/{part}.cdx.json"))).expect("JSON");
        let components = components["components"].as_array().expect("a list").len();
        assert!(components > 10, "{part}: {components}");
        assert!(
            bundle
                .read(&format!("licenses/{part}.txt"))
                .contains("serde_json")
        );
    }

    ended(&bundle.run("bench-all", &["--profile", "smoke"]), 0);
    let results = bundle.top.join("runs");
    let run = runs::results::Results::at(&results)
        .find("latest")
        .expect("a run was recorded");
    let run = Run::load(&run).expect("the records are valid");
    let repo = Repo::at(bundle.top.clone());
    let scenarios = repo.scenarios().expect("the scenarios are valid");
    let baseline = repo.registry().expect("the registry is valid").baseline;
    let analysis = stats::analyse(&run, &scenarios, &baseline);
    let (mut measured, mut lacking) = (0, 0);
    for cell in &analysis.cells {
        match cell.target.as_str() {
            "pytorch.cpu.f32" => {
                assert_eq!(cell.status, Status::Unavailable, "{}", cell.reason);
                assert!(
                    cell.reason.contains("python3 can't be started"),
                    "{}",
                    cell.reason
                );
                lacking += 1;
            }
            "candle.cpu.f32" | "candle.cpu.q8_0" if cell.scenario == "prefix_reuse" => {
                assert_eq!(cell.status, Status::Unsupported, "{}", cell.reason);
            }
            _ => {
                assert_eq!(cell.status, Status::Ok, "{}: {}", cell.target, cell.reason);
                measured += 1;
            }
        }
    }
    assert!(
        measured >= 20 && lacking > 0,
        "{measured} measured, {lacking} lacking"
    );
    assert!(!run.checks.is_empty(), "a judge is in the base");
    let index = bundle.read("target/site/index.html");
    assert!(index.contains("lmrs") && index.contains("Candle"));

    // The record says what the bundle was made from, though there is no checkout around it.
    let head = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(Checkout::real_repo().root)
        .output();
    let head = head.ok().filter(|o| o.status.success());
    let head = head.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    assert_eq!(run.header.provenance.git_revision, head);
    assert!(run.header.provenance.lockfiles.contains_key("Cargo.lock"));
    assert!(run.header.provenance.adoption.contains_key("lmrs"));
    let absolute = bundle.top.display().to_string();
    let recorded = std::fs::read_to_string(results.join(&run.header.id).join("run.json"));
    assert!(!recorded.expect("it is there").contains(&absolute));

    // An engine that isn't unpacked is reported as missing.
    std::fs::remove_dir_all(bundle.top.join("programs/lmrs")).expect("it is ours");
    let output = bundle.run("xtask", &["build", "lmrs"]);
    says(&ended(&output, 3), &["unpack its engine's archive"]);
    let output = bundle.run("xtask", &["dist"]);
    says(&text(&output), &["is a bundle already"]);

    if harness::machine::Gpu::read().devices.is_empty() {
        bundle.replace("bundle.json", "\"cuda\": false", "\"cuda\": true");
        let said = ended(&bundle.run("bench-all", &[]), 0);
        says(&said, &["There is no NVIDIA GPU here"]);
    }
    bundle.replace("bench-all", "needed='", "needed='no_such_flag ");
    let output = bundle.run("bench-all", &[]);
    says(&ended(&output, 1), &["this one lacks: no_such_flag\n"]);
}
