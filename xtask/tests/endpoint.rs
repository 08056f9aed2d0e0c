//! A real OpenAI-compatible server through the parity gate, over HTTP: what no
//! scripted one can show is whether the API is what we think it is.
//!
//! `BENCH_REAL_SERVER` names a program that is called with a model's directory, a
//! weight file, a precision and the port 0, and prints its address; mistral.rs'
//! is built by `cargo build --release --manifest-path engines/mistralrs/Cargo.toml
//! --features serve --bin mistralrs-serve`. Without it there is nothing to test.

use schema::record::{Status, VerifyRecord};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use xtask::repo::Repo;

/// Gone with the test, however it ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, which the test has said then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_server_passes_the_gate_by_its_output() {
    let Ok(program) = std::env::var("BENCH_REAL_SERVER") else {
        println!("skipped: BENCH_REAL_SERVER names no server");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the checkout");
    let repo = Repo::at(root.to_owned());
    xtask::fetch::ensure(&repo, &["tiny-llama".to_owned()]).expect("the model can be made");
    let model_dir = repo.model_dir("tiny-llama");
    let mut server = Command::new(&program)
        .arg(model_dir)
        .args(["model.safetensors", "f32", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} can't be started: {error}"));
    let stdout = server.stdout.take().expect("stdout is piped");
    let server = Server(server);
    let mut lines = BufReader::new(stdout).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.starts_with("http://"))
        .unwrap_or_else(|| panic!("{program} ended without an address"));
    // Whatever else it prints must not block it.
    std::thread::spawn(move || lines.for_each(drop));

    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["verify", "--json", "--model", "tiny-llama"])
        .args(["--engines", "openai.http.f32"])
        .current_dir(root)
        .env("OPENAI_BASE_URL", format!("{}/v1", address.trim()))
        .output()
        .expect("the binary can be started");
    drop(server);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let record = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    let record: VerifyRecord = record.unwrap_or_else(|| panic!("no record: {said}{errors}"));
    assert_eq!(record.status, Status::Ok, "{}\n{errors}", record.reason);
    assert_eq!((record.scope.as_str(), record.kl_nats), ("text", None));
    assert!(record.verified_positions >= Some(256), "{record:?}");
    println!("{}", record.reason);
}
