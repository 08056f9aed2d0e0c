//! Sessions with engines that are shell scripts, for tests of what an engine may do.

use super::Program;
use super::load::load_request;
use super::session::{Session, Timeouts};
use fixtures::target;
use std::path::Path;
use std::time::Duration;

/// The beginning of each script: prints `hello` and `loaded`; `skip N` reads N requests; `answer ID`
/// answers a request of two tokens.
const PRELUDE: &str = r#"
skip() { i=0; while [ $i -lt $1 ]; do read -r line || exit 9; i=$((i+1)); done; }
answer() { echo "{\"ev\":\"done\",\"id\":$1,\"received_ns\":1,\"started_ns\":2,\"token_ns\":[3,4],\"output_ids\":[5,6],\"batch\":1}"; }
skip 1
echo '{"ev":"hello","protocol":1,"engine":"scripted","version":"1","build":{"made":"by hand"},"capabilities":{"batching":"none","score":'$score',"notes":[]}}'
echo '{"ev":"loaded","load_ns":1,"weight_bytes":1,"kv_bytes_per_token":1,"runtime":{"isa":"avx2"}}'
"#;

/// Start an engine that runs `script` after the prelude; `score` is what it declares. Requests are
/// numbered from 1, and each answer may take `answer_within`.
pub(crate) fn session(score: bool, script: &str, answer_within: Duration) -> Session {
    let script = format!("score={score}{PRELUDE}{script}");
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let program = Program::new(argv, vec![], Path::new("/"), Path::new("/"));
    let load = load_request(&target("scripted"), Path::new("/"), 1, 16, 1);
    let timeouts = Timeouts::outside_a_run(Duration::from_secs(10), answer_within);
    Session::open(&program, &load, &timeouts)
        .unwrap_or_else(|failure| panic!("{failure}\n{}", failure.stderr_tail))
}
