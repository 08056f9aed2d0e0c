//! Tests on a trace worked out by hand: overlapping kernels, gaps, and traces that are refused.

use super::*;
use schema::kernels::{TraceEnd, TraceFailure, TraceHeader};

const LIFE: (u64, u64) = (0, 10_000);

/// Make a trace of kernels, each as (name id, start ns, end ns, stream).
fn trace(kernels: &[(u32, u64, u64, u32)]) -> KernelTrace {
    KernelTrace {
        header: TraceHeader {
            synthetic: true,
            ..TraceHeader::default()
        },
        names: vec!["a_gemm".into(), "flash_fwd".into(), "rms".into()],
        kernels: kernels
            .iter()
            .map(|&(name, start_ns, end_ns, stream)| Kernel {
                name,
                start_ns,
                end_ns,
                stream,
                graph_node: u64::from(name == 2),
                ..Kernel::default()
            })
            .collect(),
        end: Some(TraceEnd::default()),
        ..KernelTrace::default()
    }
}

fn request(started_ns: u64, token_ns: &[u64]) -> RequestRecord {
    RequestRecord {
        started_ns,
        token_ns: token_ns.to_vec(),
        ..RequestRecord::default()
    }
}

fn analyse(trace: &KernelTrace, requests: &[RequestRecord]) -> Result<KernelAnalysis, String> {
    analyse_requests(trace, &requests.iter().collect::<Vec<_>>(), LIFE)
}

/// A trace of one request: begun at 100, tokens at 200, …, 400; two streams overlap in decode.
fn example() -> KernelTrace {
    trace(&[
        (0, 50, 90, 7),   // before the request
        (0, 110, 180, 7), // prefill
        (1, 180, 190, 7),
        (0, 210, 250, 7), // decode
        (1, 240, 260, 8), // overlaps by 10
        (2, 270, 280, 7),
        (0, 310, 360, 7),
        (2, 390, 410, 7), // 10 of 20 after the last token
    ])
}

#[test]
fn a_small_trace_by_hand() {
    let found = analyse(&example(), &[request(100, &[200, 300, 400])]).unwrap();
    assert!(found.synthetic && found.requests == 1);
    let prefill = &found.prefill;
    assert_eq!((prefill.tokens, prefill.wall_ns), (1, 100));
    assert_eq!((prefill.kernels, prefill.busy_ns), (2, 80));
    assert_eq!(prefill.gaps, None, "the two kernels touch");
    let decode = &found.decode;
    assert_eq!((decode.tokens, decode.wall_ns, decode.kernels), (2, 200, 5));
    assert_eq!(decode.kernels_of_graphs, 2);
    assert_eq!(decode.busy_ns, 50 + 10 + 50 + 10);
    assert_eq!(decode.kernels_per_token(), Some(2.5));
    assert_eq!(decode.busy_fraction(), Some(0.6));
    assert_eq!(decode.ns_per_token(), Some(100.0));
    let gaps = decode.gaps.unwrap();
    // The gaps are 260–270, 280–310 and 360–390.
    assert_eq!((gaps.n, gaps.median_ns, gaps.longest_ns), (3, 30.0, 30));
    assert_eq!(decode.gap_fraction(), Some(0.35));
}

#[test]
fn kernels_are_ordered_by_their_time_and_classed() {
    let found = analyse(&example(), &[request(100, &[200, 300, 400])]).unwrap();
    let rows: Vec<(&str, Class, u64, u64)> = found
        .kernels
        .iter()
        .map(|k| (k.name.as_str(), k.class, k.n, k.total_ns))
        .collect();
    assert_eq!(
        rows,
        [
            ("a_gemm", Class::Matmul, 3, 160),
            ("flash_fwd", Class::Attention, 2, 30),
            ("rms", Class::Other, 2, 30),
        ]
    );
    let share = |class| found.share(class).unwrap();
    assert_eq!(share(Class::Matmul), 160.0 / 220.0);
    let sum: f64 = Class::ALL.into_iter().map(share).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}

#[test]
fn time_between_requests_belongs_to_none() {
    let requests = [request(100, &[200, 300, 400]), request(500, &[600, 700])];
    let mut all = example();
    all.kernels
        .extend(trace(&[(0, 450, 460, 7), (0, 550, 560, 7)]).kernels);
    let found = analyse(&all, &requests).unwrap();
    assert_eq!((found.prefill.tokens, found.prefill.kernels), (2, 3));
    assert_eq!((found.decode.tokens, found.decode.kernels), (3, 5));
    assert_eq!(found.decode.gaps.unwrap().n, 3, "none across requests");
}

#[test]
fn what_cannot_be_analysed_is_refused_with_the_reason() {
    let refused = |requests: &[&RequestRecord], life| {
        analyse_requests(&example(), requests, life).unwrap_err()
    };
    assert!(refused(&[], LIFE).contains("no request"));
    let (one, next) = (&request(100, &[200, 300, 400]), &request(399, &[450, 500]));
    assert!(refused(&[one, next], LIFE).contains("overlap"));
    assert!(refused(&[one], (60, 10_000)).contains("1 kernels ran before"));
    assert!(refused(&[one], (0, 405)).contains("clock"));
    let elsewhere = request(5000, &[5100, 5200]);
    assert!(refused(&[&elsewhere], LIFE).contains("none of 8 kernels"));
}

#[test]
fn a_trace_with_a_hole_is_refused() {
    assert_eq!(whole(&example()), Ok(()));
    let spoiled = |spoil: &dyn Fn(&mut KernelTrace)| {
        let mut trace = example();
        spoil(&mut trace);
        whole(&trace).unwrap_err()
    };
    assert!(spoiled(&|t| t.end = None).contains("has no end"));
    assert!(spoiled(&|t| t.lost.dropped = 2).contains("2 dropped"));
    assert!(spoiled(&|t| t.lost.untimed = 1).contains("1 kernels left no record"));
    assert!(spoiled(&|t| t.kernels.clear()).contains("no kernel ran"));
    let failure = TraceFailure {
        what: "cuptiActivityEnable".into(),
        code: Some(35),
        reason: "not allowed".into(),
    };
    let said = spoiled(&|t| t.failures.push(failure.clone()));
    assert_eq!(said, "cuptiActivityEnable: not allowed");
}

#[test]
fn overlapping_nested_and_touching_intervals_count_once() {
    let all = [(50, 60), (0, 10), (5, 20), (6, 8), (20, 30), (40, 40)];
    let merged = union(all.into_iter());
    assert_eq!(merged, [(0, 30), (50, 60)]);
    assert_eq!(length_ns(&merged), 40);
    assert_eq!(union(std::iter::empty()), []);
}

#[test]
fn only_what_lies_in_the_window_stays() {
    let all = [(0, 5), (5, 15), (18, 30), (30, 40)];
    let clipped: Vec<_> = clip(all.into_iter(), (10, 20)).collect();
    assert_eq!(clipped, [(10, 15), (18, 20)]);
}
