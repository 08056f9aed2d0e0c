//! Tests of the analysis of a whole record, from files. The trace is synthetic: made by hand with
//! round numbers, as its name and its header say.
//!
//! Every request begins at 0 and has tokens at 5, 6, 7 and 8 ms. Prefill has kernels at 1–3, 3–3.5
//! and 4–4.5 ms. Each decode step of 1 ms has kernels at 0–0.4, 0.35–0.5 on another stream,
//! 0.6–0.65 and 0.65–0.9 ms. There is one request of warm-up, and two that count.

use schema::kernels::TracedLaunch;
use schema::record::Status;
use schema::run_files::RunFiles;
use stats::kernels::name::Class;
use stats::kernels::{analyse, name};
use std::path::Path;

const MS: u64 = 1_000_000;

fn launch() -> TracedLaunch {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernels.synthetic");
    let files = RunFiles::open(&dir).expect("it is a run's directory");
    let mut all = TracedLaunch::load_all(&files).expect("the record loads");
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn the_synthetic_trace_by_hand() {
    let launch = launch();
    assert!(launch.file.to_string_lossy().contains("synthetic"));
    let found = analyse(&launch).expect("it is whole");
    assert!(found.synthetic);
    assert_eq!(found.requests, 2);
    let prefill = &found.prefill;
    assert_eq!((prefill.tokens, prefill.kernels), (2, 6));
    assert_eq!((prefill.wall_ns, prefill.busy_ns), (10 * MS, 6 * MS));
    assert_eq!(prefill.gaps.unwrap().total_ns, MS);
    let decode = &found.decode;
    assert_eq!((decode.tokens, decode.kernels), (6, 24));
    assert_eq!(decode.kernels_per_token(), Some(4.0));
    assert_eq!(decode.busy_fraction(), Some(0.8));
    assert_eq!(decode.ns_per_token(), Some(MS as f64));
    let gaps = decode.gaps.unwrap();
    // Gaps are 0.1 ms within a step and 0.1 ms between two steps; after the last step there is
    // none.
    assert_eq!((gaps.n, gaps.total_ns, gaps.longest_ns), (10, MS, MS / 10));
    assert_eq!(gaps.median_ns, 1e5);
}

#[test]
fn time_by_kernel_and_by_class() {
    let found = analyse(&launch()).unwrap();
    let rows: Vec<(String, u64)> = found
        .kernels
        .iter()
        .map(|k| (name::short(&k.name), k.total_ns))
        .collect();
    let want = [
        ("synthetic_gemm_qkv", 6_400_000),
        ("synthetic_flash_fwd", 1_900_000),
        ("synthetic_gemm_down", 1_500_000),
        ("synthetic_rms_norm", 1_300_000),
    ];
    assert_eq!(rows, want.map(|(name, ns)| (name.to_owned(), ns)));
    assert_eq!(found.share(Class::Matmul), Some(7_900_000.0 / 11_100_000.0));
    assert_eq!(
        found.share(Class::Attention),
        Some(1_900_000.0 / 11_100_000.0)
    );
}

#[test]
fn a_launch_that_failed_says_so_instead() {
    let refused = |spoil: &dyn Fn(&mut TracedLaunch)| {
        let mut launch = launch();
        spoil(&mut launch);
        analyse(&launch).unwrap_err()
    };
    let why = refused(&|l| {
        let end = l.log.end.as_mut().unwrap();
        end.status = Status::Oom;
        end.reason = "no room".into();
    });
    assert_eq!(why, "oom: no room");
    assert!(refused(&|l| l.log.end = None).contains("harness was killed"));
    assert!(refused(&|l| l.log.requests.clear()).contains("no request"));
    let why = refused(&|l| {
        let missing = Path::new("nowhere.trace.jsonl");
        l.trace = Err(schema::DataError::new(missing, "never started CUDA"));
    });
    assert!(why.contains("never started CUDA"), "{why}");
}
