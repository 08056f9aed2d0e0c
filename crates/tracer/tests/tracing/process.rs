//! Runs the library inside another process: with a scripted CUPTI, without one, with one that
//! refuses, and with NVIDIA's own where this machine has it.

use schema::kernels::{ClockMethod, KernelTrace, TRACE_VARIABLE};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

struct Built {
    _dir: tempfile::TempDir,
    host: PathBuf,
    cupti: PathBuf,
    old_cupti: PathBuf,
}

/// Compile the C programs, once. The project needs a C compiler anyway.
fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (host, cupti, old_cupti) = (at("host"), at("cupti.so"), at("old_cupti.so"));
        let fake = crate::source("fake_cupti.c");
        crate::cc(&crate::source("host.c"), &host, &[]).unwrap();
        crate::cc(&fake, &cupti, &["-shared", "-fPIC"]).unwrap();
        crate::cc(&fake, &old_cupti, &["-shared", "-fPIC", "-DOLD"]).unwrap();
        Built {
            host,
            cupti,
            old_cupti,
            _dir: dir,
        }
    })
}

/// Run the host with `kernels` kernels, and return its output and the trace that it left.
fn host(cupti: &Path, kernels: u32, ending: &str, script: &str) -> (Output, KernelTrace) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("t.jsonl");
    let output = Command::new(&built().host)
        .arg(crate::tracer())
        .arg(cupti)
        .args([&kernels.to_string(), ending])
        .env(TRACE_VARIABLE, &trace)
        .env("BENCH_CUPTI_LIBRARY", cupti)
        .env("FAKE_CUPTI", script)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&trace).unwrap_or_default();
    let loaded = KernelTrace::parse(&trace, &text);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, loaded)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Check that the host ended normally, and that the library told the driver to go on.
fn lived(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"1 1\n");
}

/// Run the host to its normal end, and return the trace.
fn traced(cupti: &Path, kernels: u32, script: &str) -> KernelTrace {
    let (output, trace) = host(cupti, kernels, "return", script);
    lived(&output);
    trace
}

#[test]
fn kernels_are_recorded_with_all_that_is_asked() {
    let trace = traced(&built().cupti, 3, "");
    assert_eq!(trace.header.cupti_version, Some(26));
    assert_eq!((trace.failures.len(), trace.lost.dropped), (0, 0));
    assert_eq!(trace.names, ["fake_gemm", "fake_flash_fwd"]);
    let kernels = &trace.kernels;
    assert_eq!(
        kernels.iter().map(|k| k.name).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    assert_eq!(
        (kernels[2].grid, kernels[2].block),
        ([2, 2, 3], [128, 1, 1])
    );
    assert_eq!((kernels[0].device, kernels[0].stream), (1, 7));
    assert_eq!(kernels[0].graph_node, 42);
    assert!(kernels.iter().all(|k| k.end_ns - k.start_ns == 1000));
    let end = trace.end.expect("the process ended in good order");
    assert_eq!(end.kernels, 3);
}

#[test]
fn times_are_on_our_clock_with_a_callback_and_without() {
    for (cupti, method) in [
        (&built().cupti, ClockMethod::Callback),
        (&built().old_cupti, ClockMethod::Offset),
    ] {
        let trace = traced(cupti, 5, "");
        let mapping = trace.header.clock.expect("the clock can be read");
        assert_eq!(mapping.method, method);
        let error_ns = mapping.sample.error_ns;
        let end = trace
            .end
            .expect("it ended")
            .clock
            .expect("it could still be read");
        for sample in [mapping.sample, end] {
            let expected = if method == ClockMethod::Offset {
                7_000_000_000
            } else {
                0
            };
            let off = (sample.offset_ns - expected).unsigned_abs();
            assert!(off <= sample.error_ns, "{sample:?}");
        }
        let from = trace.header.opened_ns - error_ns;
        let to = trace.end.unwrap().end_ns + error_ns + 1000;
        for kernel in &trace.kernels {
            assert!((from..=to).contains(&kernel.start_ns), "{kernel:?}");
        }
    }
}

#[test]
fn more_kernels_than_a_buffer_holds_are_all_there() {
    let trace = traced(&built().cupti, 12_000, "");
    assert_eq!(trace.kernels.len(), 12_000);
}

#[test]
fn what_is_lost_is_counted() {
    let trace = traced(&built().cupti, 4, "dropped=3");
    assert_eq!((trace.lost.dropped, trace.kernels.len()), (3, 4));
    let trace = traced(&built().cupti, 4, "untimed=1");
    assert_eq!((trace.lost.untimed, trace.kernels.len()), (1, 3));
}

#[test]
fn a_killed_process_leaves_what_it_had_run() {
    let (output, trace) = host(&built().cupti, 6, "kill", "");
    assert!(!output.status.success());
    assert_eq!((trace.kernels.len(), trace.end), (6, None));
}

#[test]
fn every_failure_is_one_line_and_the_process_goes_on() {
    for (script, what, code, word) in [
        (
            "enable=35",
            "cuptiActivityEnable",
            Some(35),
            "NVreg_RestrictProfilingToAdminUsers",
        ),
        (
            "enable=39",
            "cuptiActivityEnable",
            Some(39),
            "another profiler",
        ),
        (
            "register=999",
            "cuptiActivityRegisterCallbacks",
            Some(999),
            "FAKE_ERROR_999",
        ),
        (
            "timestamp=7",
            "cuptiGetTimestamp",
            None,
            "clock can't be read",
        ),
        ("version=140000", "libcupti", None, "140000"),
    ] {
        let trace = traced(&built().cupti, 0, script);
        assert_eq!(trace.failures.len(), 1, "{script}: {:?}", trace.failures);
        let failure = &trace.failures[0];
        assert_eq!((failure.what.as_str(), failure.code), (what, code));
        assert!(failure.reason.contains(word), "{failure}");
        assert_eq!((trace.kernels.len(), trace.end), (0, None));
    }
    let trace = traced(&built().cupti, 2, "flush=999");
    assert_eq!(trace.failures[0].what, "cuptiActivityFlushAll");
    assert!(trace.end.is_some() && trace.kernels.len() == 2);
}

#[test]
fn without_cupti_one_line_says_so() {
    let trace = traced(Path::new("/nowhere/libcupti.so"), 0, "");
    assert_eq!(trace.header.cupti_version, None);
    assert_eq!(trace.failures.len(), 1);
    let failure = trace.failures[0].to_string();
    assert!(
        failure.starts_with("libcupti: ") && failure.contains("/nowhere"),
        "{failure}"
    );
}

#[test]
fn a_library_that_is_not_cupti_is_refused() {
    let trace = traced(&crate::tracer(), 0, "");
    assert!(
        trace.failures[0].reason.contains("has no cupti"),
        "{:?}",
        trace.failures
    );
}

#[test]
fn a_trace_that_cannot_be_written_is_said_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    let run = |trace: Option<&Path>| {
        let mut command = Command::new(&built().host);
        command.arg(crate::tracer()).args(["-", "0", "return"]);
        command.env_remove(TRACE_VARIABLE);
        if let Some(trace) = trace {
            command.env(TRACE_VARIABLE, trace);
        }
        command.output().unwrap()
    };
    for (trace, word) in [
        (None, "names no file"),
        (Some(taken.as_path()), "can't be created"),
        (Some(Path::new("/nowhere/t")), "can't be created"),
    ] {
        let output = run(trace);
        lived(&output);
        assert!(said(&output).contains(word), "{}", said(&output));
    }
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
}

/// Without a driver NVIDIA's library refuses to trace; with one there is nothing to trace in this
/// process. Either way the host goes on, and the trace tells which case it was.
#[test]
fn nvidias_own_library_does_no_harm() {
    let mut tried = 0;
    for (_, libraries) in crate::toolkits() {
        for dir in libraries {
            for name in ["libcupti.so.13", "libcupti.so.12"] {
                let library = dir.join(name);
                if !library.is_file() {
                    continue;
                }
                let trace = traced(&library, 0, "");
                assert!(trace.header.cupti_version.is_some());
                let ended = trace.end.is_some();
                assert!(ended || trace.failures.len() == 1, "{:?}", trace.failures);
                eprintln!("{name}: {:?} {:?}", trace.header, trace.failures);
                tried += 1;
            }
        }
    }
    if tried == 0 {
        eprintln!("skipped: no libcupti; name a CUDA toolkit in CUDA_HOME");
    }
}
