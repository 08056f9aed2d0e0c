//! Tests of the summary on made-up runs, and of its parts.

use super::*;
use schema::key::CellKey;
use stats::analysis::{Comparison, MetricId, Verdict};

fn lead(scenario: &str, targets: &[&str], ratio: Option<f64>) -> Lead {
    Lead {
        scenario: scenario.into(),
        case: "p10".into(),
        targets: targets.iter().map(|id| (*id).to_owned()).collect(),
        ratio,
    }
}

fn gap(status: Status, kinds: &[(&str, u64)]) -> Gap {
    Gap {
        status,
        cells: kinds.iter().map(|(_, cells)| cells).sum(),
        kinds: kinds.iter().map(|(kind, n)| ((*kind).into(), *n)).collect(),
    }
}

fn places(report: Option<&Path>) -> Places<'_> {
    Places {
        records: Path::new("data/results/x"),
        report,
    }
}

#[test]
fn a_run_ends_with_what_was_measured_who_leads_and_what_is_missing() {
    let summary = Summary {
        cells: (203, 312),
        samples: 60_412,
        launches: 640,
        wall_s: Some(1392.4),
        timed_share: Some(0.714),
        leads: vec![
            lead("single_request", &["a.cpu.q8_0"], Some(4.314)),
            lead("sustained", &["a.cpu.q8_0", "b.cpu.q8_0"], Some(3.0)),
            lead("memory", &["a", "b", "c", "d", "e"], None),
        ],
        baseline: "p.cpu.f32".into(),
        gaps: vec![
            gap(Status::Crashed, &[("killed by signal 6", 2)]),
            gap(Status::Unavailable, &[("no device", 12), ("no cmake", 2)]),
        ],
        exceeded: vec![],
    };
    let report = Some(Path::new("target/site/index.html"));
    assert_eq!(
        summary.screen(&places(report)).replace('\u{202f}', " "),
        "\
Measured 203 of 312 cells: 60 412 samples in 640 launches, 23 min 12 s, 71 % of it in timed requests
Who leads, and how many times better than p.cpu.f32:
  single_request p10: a.cpu.q8_0: 4.31×
  sustained p10: a.cpu.q8_0, b.cpu.q8_0 tie: 3.00×
  memory p10: a, b, c and 2 more tie
Without numbers:
  crashed 2: killed by signal 6 (2)
  unavailable 14: no device (12), no cmake (2)
Records: data/results/x
Cells:   target/site/coverage.html
Report:  target/site/index.html
"
    );
    assert!(summary.has_faults());
}

#[test]
fn whatever_the_run_it_is_a_screen() {
    let long = "a reason with many words in it ".repeat(3);
    let kinds: Vec<(String, u64)> = (0..200).map(|i| (format!("{long}{i}"), 1)).collect();
    let statuses = [
        Status::Crashed,
        Status::Oom,
        Status::Timeout,
        Status::WrongOutput,
        Status::ProtocolError,
        Status::BadTiming,
        Status::NotRun,
        Status::Unavailable,
        Status::Unsupported,
        Status::OverBudget,
    ];
    let targets: Vec<String> = (0..40).map(|i| format!("engine{i}.cpu.q8_0")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let summary = Summary {
        leads: (0..30)
            .map(|i| lead(&format!("s{i}"), &names, Some(1.5)))
            .collect(),
        gaps: statuses
            .map(|status| Gap {
                status,
                cells: 200,
                kinds: kinds.clone(),
            })
            .into(),
        ..Summary::default()
    };
    let report = Some(Path::new("target/site/index.html"));
    let screen = summary.screen(&places(report));
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines.len() < 25, "{} lines:\n{screen}", lines.len());
    assert!(
        lines.iter().all(|line| line.chars().count() < 130),
        "{screen}"
    );
    assert!(screen.contains("and 22 more scenarios") && screen.contains("and 2 more statuses"));
}

#[test]
fn an_empty_run_says_so_and_no_more() {
    let screen = Summary::default().screen(&places(None));
    assert_eq!(
        screen,
        "Measured 0 of 0 cells: 0 samples in 0 launches\nRecords: data/results/x\n"
    );
}

#[test]
fn what_the_machine_lacks_is_no_fault_and_what_broke_is() {
    let lacks = [
        Status::Ok,
        Status::Unavailable,
        Status::Unsupported,
        Status::OverBudget,
    ];
    assert!(lacks.iter().all(|status| !is_fault(*status)));
    let broke = [
        Status::Crashed,
        Status::WrongOutput,
        Status::BadTiming,
        Status::Timeout,
        Status::ProtocolError,
        Status::Oom,
        Status::NotRun,
    ];
    assert!(broke.iter().all(|status| is_fault(*status)));
}

fn cell(target: &str, case: &str, status: Status, reason: &str) -> Cell {
    Cell {
        status,
        reason: reason.into(),
        rank: (status == Status::Ok && target != "slow").then_some(1),
        ..Cell::new(CellKey::new(target, "s", case), 0)
    }
}

#[test]
fn reasons_are_counted_by_kind_and_faults_come_first() {
    let over = |s: u32| {
        let reason = format!("about {s} s by the pilot; the target's share is {s} s");
        cell("t", "p10", Status::OverBudget, &reason)
    };
    let long = "no vulkan device 0 but llvmpipe (LLVM 15.0.6): it takes a GPU";
    let cells = [
        over(3),
        over(17),
        over(4),
        cell("t", "p10", Status::Unavailable, long),
        cell("t", "p10", Status::Ok, ""),
        cell(
            "t",
            "p10",
            Status::Crashed,
            "killed by signal 6: core dumped",
        ),
    ];
    let found = gaps(&cells.iter().collect::<Vec<_>>());
    assert_eq!(
        found,
        [
            gap(Status::Crashed, &[("killed by signal …", 1)]),
            gap(Status::OverBudget, &[("about … s by the pilot", 3)]),
            gap(
                Status::Unavailable,
                &[("no vulkan device … but llvmpipe", 1)]
            ),
        ]
    );
    let cut = kind(&"word ".repeat(40));
    assert!(cut.ends_with('…') && cut.chars().count() <= 61, "{cut}");
}

#[test]
fn the_leader_is_that_of_the_case_that_most_had_time_for() {
    let mut scenario = fixtures::plan().scenarios.remove(0);
    let case = scenario.cases[0].clone();
    scenario.cases = ["p10", "p50", "p99"]
        .map(|id| Case {
            id: id.into(),
            ..case.clone()
        })
        .into();
    let comparison = |target: &str, ratio| Comparison {
        scenario: "s".into(),
        case: "p50".into(),
        metric: MetricId::TpotNs,
        target: target.into(),
        against: "slow".into(),
        role: Role::Baseline,
        ratio,
        ci95: None,
        p_holm: None,
        cliffs_delta: None,
        blocks: 5,
        inflation: None,
        matters: 1.02,
        verdict: Verdict::Better,
        not_comparable: vec![],
    };
    let mut analysis = Analysis {
        cells: vec![
            cell("slow", "p10", Status::Ok, ""),
            cell("slow", "p50", Status::Ok, ""),
            cell("quick", "p50", Status::Ok, ""),
            cell("other", "p50", Status::Ok, ""),
            cell("quick", "p99", Status::Ok, ""),
            cell("slow", "p99", Status::OverBudget, ""),
        ],
        comparisons: vec![comparison("other", 2.0), comparison("quick", 2.5)],
        ..Analysis::default()
    };
    let all = [scenario];
    let wanted = Lead {
        case: "p50".into(),
        ..lead("s", &["quick", "other"], Some(2.5))
    };
    assert_eq!(leads(&all, &analysis, "slow"), [wanted]);
    // The baseline has no ratio to itself, and without ranks no target leads.
    assert_eq!(leads(&all, &analysis, "quick")[0].ratio, None);
    for cell in &mut analysis.cells {
        cell.rank = None;
    }
    assert_eq!(leads(&all, &analysis, "slow"), []);
}

#[test]
fn time_that_launches_share_counts_once() {
    let spans = [(10, 20), (15, 30), (40, 50), (41, 42)];
    assert_eq!(covered_ns(spans.into_iter()), Some(30));
    assert_eq!(covered_ns(std::iter::empty()), None);
}
