//! Tests of traces that are whole, cut short or wrong, and of which of several is taken.

use super::*;

const HEADER: &str =
    r#"{"ev":"header","format":1,"synthetic":true,"tracer":"0","pid":7,"opened_ns":1}"#;
const NAME: &str = r#"{"ev":"name","id":0,"name":"gemm"}"#;
const KERNEL: &str = r#"{"ev":"kernel","name":0,"start_ns":20,"end_ns":30,"grid":[1,2,3],"block":[4,5,6],"device":0,"stream":7}"#;
const EARLIER: &str = r#"{"ev":"kernel","name":0,"start_ns":10,"end_ns":15,"grid":[1,1,1],"block":[1,1,1],"device":0,"stream":8,"graph_node":9}"#;
const END: &str = r#"{"ev":"end","kernels":2,"end_ns":40}"#;

fn parse(lines: &[&str]) -> Result<KernelTrace, String> {
    let text = lines.join("\n") + "\n";
    KernelTrace::parse(Path::new("t.jsonl"), &text).map_err(|error| error.to_string())
}

#[test]
fn a_whole_trace_is_read_and_ordered_by_start() {
    let lost = r#"{"ev":"lost","dropped":3,"untimed":1}"#;
    let trace = parse(&[HEADER, NAME, KERNEL, lost, EARLIER, lost, END]).unwrap();
    assert!(trace.header.synthetic && trace.end.is_some());
    assert_eq!(trace.names, ["gemm"]);
    let starts: Vec<u64> = trace.kernels.iter().map(|k| k.start_ns).collect();
    assert_eq!(starts, [10, 20]);
    assert_eq!(trace.kernels[0].graph_node, 9);
    assert_eq!(trace.kernels[1].grid, [1, 2, 3]);
    assert_eq!((trace.lost.dropped, trace.lost.untimed), (6, 2));
}

#[test]
fn what_is_written_is_what_is_read() {
    let trace = parse(&[HEADER, NAME, EARLIER]).unwrap();
    let events = [
        TraceEvent::Header(trace.header.clone()),
        TraceEvent::Name(KernelName {
            id: 0,
            name: "gemm".into(),
        }),
        TraceEvent::Kernel(trace.kernels[0]),
    ];
    let written: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .collect();
    assert_eq!(written, [HEADER, NAME, EARLIER]);
}

#[test]
fn a_trace_cut_short_keeps_what_is_whole_and_has_no_end() {
    let text = format!("{HEADER}\n{NAME}\n{KERNEL}\n{{\"ev\":\"ker");
    let trace = KernelTrace::parse(Path::new("t.jsonl"), &text).unwrap();
    assert_eq!((trace.kernels.len(), trace.end), (1, None));
    for text in ["", "{\"ev\":\"hea"] {
        let error = KernelTrace::parse(Path::new("t.jsonl"), text).unwrap_err();
        assert!(error.to_string().contains("no whole line"), "{error}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let future = HEADER.replace("\"format\":1", "\"format\":9");
    let backwards = KERNEL.replace("\"end_ns\":30", "\"end_ns\":3");
    let second = r#"{"ev":"name","id":2,"name":"x"}"#;
    for (lines, line, word) in [
        (vec![NAME], 1, "not a `header`"),
        (vec![&future], 1, "format 9"),
        (vec![HEADER, NAME, "\u{1}garbage"], 3, "not a line"),
        (vec![HEADER, KERNEL], 2, "name 0, not given"),
        (vec![HEADER, NAME, &backwards], 3, "before it starts"),
        (vec![HEADER, NAME, second], 3, "name 2 where 1 is due"),
        (vec![HEADER, HEADER], 2, "second `header`"),
        (vec![HEADER, NAME, KERNEL, END], 4, "counts 2 kernels"),
        (vec![HEADER, NAME, KERNEL, KERNEL, END, NAME], 6, "after"),
    ] {
        let error = parse(&lines).unwrap_err();
        assert!(error.starts_with(&format!("t.jsonl:{line}: ")), "{error}");
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn the_newest_trace_of_a_target_counts_and_a_broken_one_is_no_error_of_the_run() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("some-run");
    let dir = run.join("kernels/a.cuda.f16");
    std::fs::create_dir_all(&dir).unwrap();
    for (stem, attempt, trace) in [
        ("single.p10", 0, format!("{HEADER}\n")),
        ("single.p10.a1", 1, "garbage\n".to_owned()),
    ] {
        let launch = format!(
            r#"{{"ev":"launch","target":"a.cuda.f16","scenario":"single","invocation":0,"attempt":{attempt},"cases":["p10"],"argv":[],"start_ns":5}}"#
        );
        let requests = dir.join(format!("{stem}{REQUESTS_SUFFIX}"));
        std::fs::write(&requests, launch + "\n").unwrap();
        std::fs::write(trace_path(&requests), trace).unwrap();
    }
    std::fs::write(run.join("run.json"), "{}").unwrap();
    let all = TracedLaunch::load_all(&RunFiles::open(&run).unwrap()).unwrap();
    assert_eq!(all.len(), 1);
    let file = Path::new("kernels/a.cuda.f16/single.p10.a1.trace.jsonl");
    assert_eq!(all[0].file, file);
    assert!(all[0].trace.is_err());
    std::fs::remove_dir_all(run.join("kernels")).unwrap();
    let nothing = RunFiles::open(&run).unwrap();
    assert_eq!(TracedLaunch::load_all(&nothing).unwrap(), []);
}
