//! Tests of the text that a comparison prints.

use super::*;
use harness::environment::Kind;

fn subject(id: &str) -> Subject {
    Subject {
        id: id.into(),
        started: "2026-01-01T00:00:00Z".into(),
        plan_sha256: "p".into(),
        line: format!("{id} · cpu · 5 invocations · revision 0123456789ab"),
    }
}

fn change(n: usize, verdict: Verdict, ratio: f64) -> Change {
    Change {
        target: format!("engine{n}.cpu.q8_0"),
        scenario: "single_request".into(),
        case: "p1000".into(),
        metric: MetricId::from_id("ttft_ns"),
        before: Some(12.34e6),
        after: Some(12.34e6 / ratio),
        ratio: Some(ratio),
        ci95: Some((ratio * 0.99, ratio * 1.01)),
        p_holm: Some(0.001),
        inflation: Some(1.2),
        verdict,
        reason: String::new(),
        broken: false,
        disturbed: (0, 0),
    }
}

fn gap(n: usize, reason: &str) -> Change {
    Change {
        after: None,
        ratio: None,
        ci95: None,
        p_holm: None,
        verdict: Verdict::Unknown,
        reason: reason.into(),
        ..change(n, Verdict::Unknown, 1.0)
    }
}

fn difference(kind: Kind, item: &str, before: &str, after: &str) -> Difference {
    Difference {
        kind,
        item: item.into(),
        before: before.into(),
        after: after.into(),
    }
}

/// Differences as between two published runs: all programs differ, and little else does.
fn around() -> Vec<Difference> {
    let programs = (0..40).map(|i| {
        let (before, after) = (format!("b{i}"), format!("a{i}"));
        difference(
            Kind::Program,
            &format!("program of e{i}.cpu"),
            &before,
            &after,
        )
    });
    let versions =
        (0..12).map(|i| difference(Kind::Engine, &format!("e{i}.cpu rustc"), "1.94", "1.95"));
    let lengths = (0..9).map(|i| {
        let item = format!("length of s{i}/p10");
        difference(Kind::Plan, &item, "20 requests, 0 s", "40 requests, 0 s")
    });
    let hash = "0123456789abcdef".repeat(4);
    let others = (0..3).map(|i| difference(Kind::Other, &format!("fact{i}"), &hash, "y"));
    lengths
        .chain(versions)
        .chain(programs)
        .chain(others)
        .collect()
}

fn comparison(changes: Vec<Change>) -> Comparison {
    Comparison {
        a: subject("20260101-a"),
        b: subject("20260101-a2"),
        changes,
        agreement: Agreement::default(),
        environment: around(),
    }
}

fn quiet() -> Comparison {
    let same = (0..388).map(|i| change(i, Verdict::Equal, 1.001));
    let spent = (0..64).map(|i| gap(i, "over_budget in 20260101-a: 12.3 s of 4.5 s"));
    let new = (0..40).map(|i| gap(i, "not in the plan of 20260101-a2"));
    comparison(same.chain(spent).chain(new).collect())
}

#[test]
fn where_nothing_changed_it_is_a_screen_with_the_verdict_first() {
    let said = print::text(&quiet(), false);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "Nothing differs: none of 388 cells is faster or slower in B beyond chance and noise."
    );
    assert!(lines.len() <= 24, "{said}");
    assert!(
        lines.iter().all(|line| line.chars().count() < 160),
        "{said}"
    );
    for line in [
        "104 cells can't be compared:",
        "     64  over_budget in A",
        "     40  not in the plan of B",
        "  lengths: 20 requests, 0 s → 40 requests, 0 s (9: s0/p10, s1/p10, s2/p10 and 6 more)",
        "  rustc: 1.94 → 1.95 (12: e0.cpu, e1.cpu, e2.cpu and 9 more)",
        "  40 programs differ: e0.cpu, e1.cpu, e2.cpu and 37 more",
        "  fact1: 0123456789ab → y",
    ] {
        assert!(lines.contains(&line), "{line:?} is not in\n{said}");
    }
    assert!(!said.contains("engine1.cpu"), "{said}");
    let all = print::text(&quiet(), true);
    assert!(all.lines().count() > 492 + 64, "{all}");
    assert!(all.contains("not comparable: over_budget in 20260101-a: 12.3 s"));
    assert!(all.contains("program of e39.cpu: b39 → a39"));
}

#[test]
fn what_changed_is_there_the_worst_first() {
    let broken = Change {
        broken: true,
        ..gap(0, "crashed in 20260101-a2: signal 6")
    };
    let changed = comparison(vec![
        change(1, Verdict::Better, 1.1),
        change(2, Verdict::Undecided, 1.0),
        change(3, Verdict::Worse, 0.9),
        change(4, Verdict::Worse, 0.5),
        broken,
    ]);
    let said = print::text(&changed, false);
    let verdict = "B fails at 1 cell that worked in A; otherwise B is slower in 2 and faster in 1 of 4 cells.";
    assert_eq!(said.lines().next(), Some(verdict));
    let table: Vec<&str> = said.lines().filter(|l| l.contains(".cpu.q8_0")).collect();
    let order = ["engine0", "engine4", "engine3", "engine1"];
    for (line, engine) in table.iter().zip(order) {
        assert!(line.contains(engine), "{said}");
    }
    assert_eq!(table.len(), order.len());
    assert!(
        table[0].ends_with("fails: crashed in 20260101-a2: signal 6"),
        "{said}"
    );
    assert!(table[1].ends_with("slower"), "{said}");
    assert!(!said.contains("can't be compared"), "{said}");
    let bytes = MetricId::ALL
        .into_iter()
        .find(|id| id.describe().unit == "bytes");
    let memory = Change {
        metric: bytes,
        ..change(0, Verdict::Worse, 0.5)
    };
    let said = print::text(&comparison(vec![memory]), false);
    assert!(
        said.starts_with("B is slower or larger in 1 of 1 cell."),
        "{said}"
    );
}

#[test]
fn a_run_is_not_judged_by_itself_or_without_numbers() {
    let mut same = quiet();
    same.b.id = same.a.id.clone();
    assert_eq!(digest::verdict(&same), "A and B are the same run.");
    let none = comparison(vec![gap(0, "not in the plan of 20260101-a")]);
    let verdict = digest::verdict(&none);
    assert!(
        verdict.starts_with("Nothing can be compared: "),
        "{verdict}"
    );
}

#[test]
fn what_two_runs_say_of_pairs_of_targets_is_a_sentence() {
    let mut two = quiet();
    assert!(!print::text(&two, false).contains("Pairs of targets"));
    two.agreement = Agreement {
        pairs: 200,
        decided: 150,
        contradictory: 3,
        with_intervals: 200,
        within_errors: 188,
        held: 165,
        held_expected: 175.8,
    };
    let said = "Pairs of targets that both runs judge: 200. Decided in both: 150, with verdicts that contradict each other: 3. The ratios of 94.0 % are as near as both errors allow, of 95 % or more where nothing changed; B's 95 % interval holds A's ratio in 82.5 %, where as A's errs too 87.9 % are expected.";
    for text in [print::text(&two, false), print::markdown(&two, false)] {
        assert!(text.lines().any(|line| line == said), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&print::json(&two).unwrap()).unwrap();
    let agreement = serde_json::json!({
        "pairs": 200,
        "decided": 150,
        "contradictory": 3,
        "with_intervals": 200,
        "within_errors": 188,
        "held": 165,
        "held_expected": 175.8,
    });
    assert_eq!(json["agreement"], agreement);
    assert_eq!(json["cells"][0]["metric"], "ttft_ns");
}

/// Return Markdown with everything that is marked as code removed.
fn outside_code(markdown: &str) -> String {
    let outside = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("");
    markdown.lines().map(outside).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_comment_has_room_for_it_whatever_the_run() {
    let name = "ü|`\n# <b>".repeat(30);
    let many = |n| {
        let changes = (0..n).map(|i| Change {
            target: format!("{name}{i}"),
            scenario: name.clone(),
            reason: name.repeat(9),
            ..change(i, Verdict::Worse, 0.5)
        });
        let spent = (0..40).map(|i| gap(i, &format!("{i}{name}")));
        let mut comparison = comparison(changes.chain(spent).collect());
        comparison.a.line = name.repeat(50);
        for difference in &mut comparison.environment {
            difference.before = name.repeat(50);
        }
        comparison
    };
    for (changed, all) in [(5000, false), (5000, true), (3, false), (0, true)] {
        let said = print::markdown(&many(changed), all);
        assert!(said.len() < 60_000, "{changed}: {} bytes", said.len());
        let rows = said.matches("| slower ").count();
        let left_out = match said.split_once(" more cells are left out here; ") {
            Some((before, _)) => before.rsplit('\n').next().and_then(|n| n.parse().ok()),
            None => Some(0),
        };
        let gaps = said.matches("| not comparable ").count();
        let wanted = changed + if all { 40 } else { 0 };
        assert_eq!(
            left_out.map(|n: usize| n + rows + gaps),
            Some(wanted),
            "{said}"
        );
        assert!(changed < 100 || rows > 50, "{rows} rows");
        let outside = outside_code(&said);
        for markup in ["<b>", "ü", "# "] {
            assert!(!outside.contains(markup), "{markup} in {outside}");
        }
    }
}

#[test]
fn a_comment_says_what_the_terminal_says() {
    let said = print::markdown(&quiet(), false);
    assert!(
        said.starts_with("**Nothing differs: none of 388 cells"),
        "{said}"
    );
    for line in [
        "- A: `20260101-a · cpu · 5 invocations · revision 0123456789ab`",
        "104 cells can't be compared:",
        "- 64: `over_budget in A`",
        "- `40 programs differ: e0.cpu, e1.cpu, e2.cpu and 37 more`",
    ] {
        assert!(said.lines().any(|known| known == line), "{line:?}: {said}");
    }
    let said = print::markdown(&comparison(vec![change(7, Verdict::Worse, 0.5)]), false);
    let row = "| `single_request/p1000` | `engine7.cpu.q8_0` | `ttft_ns` | 12.3 ms | 24.7 ms | 0.500× | [0.495, 0.505] | slower |";
    assert!(said.lines().any(|line| line == row), "{said}");
}
