//! The page of the specification's predictions: each with what was measured, its interval, and the
//! cells behind it. What the way of measuring makes true is counted apart from findings.

use crate::Input;
use crate::fmt::{self, NONE, Unit};
use crate::html::slug;
use crate::view::frame::Frame;
use crate::view::paths;
use crate::view::place::{self, RunLine, case_path};
use crate::view::{Shown, case_label};
use crate::words::{by_key, plural};
use schema::hypothesis::{Claim, Hypotheses, Hypothesis};
use schema::micro::scenario_id;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::hypotheses::{Evidence, Finding, Measure, Verdict, evaluate, over_runs};

/// Maximum number of values listed for a prediction and run; the rest are counted.
const LISTED: usize = 12;
/// Maximum number of refuted predictions named in the first sentence.
const NAMED: usize = 3;

/// The page of predictions.
#[derive(Serialize)]
pub struct HypothesesPage {
    frame: Frame,
    answer: String,
    runs: Vec<RunLine>,
    groups: Vec<GroupView>,
}

#[derive(Serialize)]
struct GroupView {
    anchor: String,
    title: String,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct RowView {
    anchor: String,
    says: String,
    reading: String,
    about: String,
    predicted: String,
    verdict: &'static str,
    tone: &'static str,
    /// The command of the run that settles it; empty where none does.
    command: String,
    why: String,
    findings: Vec<FindingView>,
}

#[derive(Serialize)]
struct FindingView {
    run: RunLine,
    tally: String,
    /// The numbers, the most decisive first.
    evidence: Vec<EvidenceView>,
    more: String,
}

#[derive(Serialize)]
struct EvidenceView {
    of: String,
    case: String,
    path: String,
    measured: String,
    interval: String,
    verdict: &'static str,
    tone: &'static str,
}

/// Make the page over all runs.
pub fn page(input: &Input, shown: &[Shown], all: &Hypotheses) -> HypothesesPage {
    // Use all runs: a prediction may be about targets that the broadest run lacks.
    let chosen = place::publishable(shown);
    let mut verdicts: Vec<(Verdict, &Hypothesis)> = Vec::new();
    let rows = all.hypotheses.iter().map(|hypothesis| {
        let (verdict, row) = row(&chosen, all, hypothesis);
        verdicts.push((verdict, hypothesis));
        (&hypothesis.group, row)
    });
    let groups = (1..).zip(by_key(rows));
    let groups = groups.map(|(number, (title, rows))| GroupView {
        anchor: format!("group-{number}"),
        title: title.clone(),
        rows,
    });
    let groups: Vec<GroupView> = groups.collect();
    let answer = answer(&verdicts);
    HypothesesPage {
        frame: place::frame(input, paths::HYPOTHESES, "Hypotheses", &answer),
        answer,
        runs: place::run_lines(shown, &chosen, |_| String::new()),
        groups,
    }
}

/// Write the sentence at the top of the page.
fn answer(verdicts: &[(Verdict, &Hypothesis)]) -> String {
    let count = |wanted| verdicts.iter().filter(|(v, _)| *v == wanted).count() as u64;
    let all = verdicts.len() as u64;
    let are = |n: u64, what: &str| format!("{n} {} {what}", if n == 1 { "is" } else { "are" });
    let is_given = |(v, h): &&(Verdict, &Hypothesis)| *v == Verdict::Confirmed && h.by_construction;
    let given = verdicts.iter().filter(is_given).count() as u64;
    let mut confirmed = are(count(Verdict::Confirmed) - given, "confirmed");
    if given > 0 {
        confirmed = format!("{confirmed}, {}", are(given, "true by construction"));
    }
    let text = format!(
        "Of {}, {confirmed}, {}, {}, and {}.",
        plural(all, "prediction", "predictions"),
        are(count(Verdict::Refuted), "refuted"),
        are(count(Verdict::Inconclusive), "inconclusive"),
        are(count(Verdict::NotMeasured), "not measured here"),
    );
    let refuted = verdicts.iter().filter(|(v, _)| *v == Verdict::Refuted);
    let named: Vec<String> = refuted
        .take(NAMED)
        .map(|(_, h)| format!("“{}”", h.says.trim_end_matches('.')))
        .collect();
    match (named.is_empty(), count(Verdict::Refuted) > NAMED as u64) {
        (true, _) => text,
        (false, true) => format!("{text} Refuted, among others: {}.", named.join(", ")),
        (false, false) => format!("{text} Refuted: {}.", named.join(", ")),
    }
}

fn row(shown: &[&Shown], all: &Hypotheses, hypothesis: &Hypothesis) -> (Verdict, RowView) {
    let place = all.place(&hypothesis.place);
    let judge = |shown: &&Shown| {
        Some(evaluate(
            hypothesis,
            place?,
            shown.run,
            shown.analysis,
            shown.input.scenarios,
            place::parameters(shown),
        ))
    };
    let findings: Vec<Finding> = shown.iter().filter_map(judge).collect();
    let verdict = over_runs(&findings);
    let unmeasured = match &hypothesis.claim {
        Claim::Unmeasured { why } => Some(why.clone()),
        _ => None,
    };
    // With several runs the reasons differ; the first run's stands for them.
    let why = match (verdict, &unmeasured, findings.first()) {
        (Verdict::NotMeasured, Some(why), _) => why.clone(),
        (Verdict::NotMeasured, None, Some(first)) => {
            format!("The run shown can’t settle it: {}.", first.why)
        }
        (Verdict::Inconclusive, ..) => why_open(&findings),
        _ => String::new(),
    };
    let (words, tone) = match hypothesis.by_construction && verdict == Verdict::Confirmed {
        true => ("✓ true by construction", "even"),
        false => words(verdict),
    };
    let settled_in = place.filter(|_| unmeasured.is_none());
    let command = settled_in.map(|place| hypothesis.command(place).to_owned());
    let row = RowView {
        anchor: slug(&hypothesis.id),
        says: hypothesis.says.clone(),
        reading: hypothesis.reading.clone(),
        about: place.map(|place| place.about.clone()).unwrap_or_default(),
        predicted: predicted(hypothesis),
        verdict: words,
        tone,
        command: command.unwrap_or_default(),
        why,
        findings: shown
            .iter()
            .zip(&findings)
            .filter(|(_, finding)| finding.verdict != Verdict::NotMeasured)
            .map(|(shown, finding)| finding_view(shown, hypothesis, finding))
            .collect(),
    };
    (verdict, row)
}

/// Say what keeps a prediction open, over all runs: numbers whose intervals allow either verdict,
/// and cells without a number.
fn why_open(findings: &[Finding]) -> String {
    let all = || findings.iter().flat_map(|finding| &finding.evidence);
    let open = || all().filter(|e| e.verdict == Verdict::Inconclusive);
    let (numbers, undecided) = (all().count() as u64, open().count());
    let mut parts: Vec<String> = Vec::new();
    if undecided > 0 {
        parts.push(format!(
            "the intervals of {} of {} allow either (values within the bound: {}), and more launches would narrow them",
            fmt::count(undecided as u64),
            plural(numbers, "number", "numbers"),
            fmt::count(open().filter(|e| e.beyond <= 1.0).count() as u64)
        ));
    }
    let missing: u64 = findings.iter().map(|f| u64::from(f.missing)).sum();
    if missing > 0 {
        let cells = plural(missing, "cell", "cells");
        parts.push(format!("without a number: {cells}"));
    }
    format!("It stays open: {}.", parts.join("; "))
}

/// A verdict in words, and its CSS class.
fn words(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Confirmed => ("✓ confirmed", "good"),
        Verdict::Refuted => ("✕ refuted", "bad"),
        Verdict::Inconclusive => ("? inconclusive", "warn"),
        Verdict::NotMeasured => ("– not measured here", "even"),
    }
}

/// The claim in words, in the page's units.
fn predicted(hypothesis: &Hypothesis) -> String {
    let metric = hypothesis.metric.as_deref().and_then(MetricId::from_id);
    let title = metric.map_or("leading metric".into(), |id| {
        id.describe().title.to_lowercase()
    });
    let bounds = |min: Option<f64>, max: Option<f64>, unit: Unit| {
        let text = |x| fmt::tick(unit, x);
        match (min, max) {
            (Some(min), Some(max)) if min == max => text(min),
            (Some(min), Some(max)) => format!("{} to {}", text(min), text(max)),
            (Some(min), None) => format!("{} or more", text(min)),
            (None, Some(max)) => format!("{} or less", text(max)),
            (None, None) => NONE.into(),
        }
    };
    let percent = |fraction: f64| fmt::tick(Unit::Percent, 100.0 * fraction);
    match &hypothesis.claim {
        Claim::Range { min, max } => {
            let unit = metric.map_or(Unit::Plain, Unit::from_metric);
            format!("{title}: {}", bounds(*min, *max, unit))
        }
        Claim::Ratio { min, max, .. } => {
            // A ratio below 1 is worded as its inverse, so many times worse.
            match max.is_some_and(|max| max < 1.0) {
                _ if *max == Some(1.0) && min.is_none() => format!("{title}: no better"),
                true => {
                    let turned = |x: &Option<f64>| x.map(|x| 1.0 / x);
                    let bounds = bounds(turned(max), turned(min), Unit::Ratio);
                    format!("{title}: {bounds} worse")
                }
                false => format!("{title}: {} better", bounds(*min, *max, Unit::Ratio)),
            }
        }
        Claim::Highest { .. } => format!("{title}: the highest"),
        Claim::Lowest { .. } => format!("{title}: the lowest"),
        Claim::Variation { max } => {
            format!("variation across launches: under {}", percent(*max))
        }
        Claim::LeastVariation { .. } => "variation across launches: the least".into(),
        Claim::Samples { min } => format!("{} or more", plural(*min, "request", "requests")),
        Claim::Linear { min } => format!("{title}: {} of linear growth or more", percent(*min)),
        Claim::Unmeasured { .. } => NONE.into(),
    }
}

fn finding_view(shown: &Shown, hypothesis: &Hypothesis, finding: &Finding) -> FindingView {
    let mut evidence: Vec<&Evidence> = finding.evidence.iter().collect();
    // Refuting evidence comes first, that furthest beyond the bound before the rest; or, where one
    // number is enough to confirm, confirming evidence, that furthest within before the rest.
    evidence.sort_by(|a, b| {
        let verdict = a.verdict.cmp(&b.verdict);
        let order = verdict.then(a.beyond.total_cmp(&b.beyond));
        if hypothesis.any {
            order
        } else {
            order.reverse()
        }
    });
    let count = |wanted| evidence.iter().filter(|e| e.verdict == wanted).count() as u64;
    let mut tally = format!(
        "{} of {} within, {} outside",
        count(Verdict::Confirmed),
        plural(evidence.len() as u64, "number", "numbers"),
        count(Verdict::Refuted)
    );
    if finding.missing > 0 {
        tally.push_str(&format!(", {} without a number", finding.missing));
    }
    let listed = evidence.iter().take(LISTED);
    FindingView {
        run: RunLine::new(shown, String::new()),
        tally,
        evidence: listed.map(|e| evidence_view(shown, e)).collect(),
        more: match evidence.len().saturating_sub(LISTED) as u64 {
            0 => String::new(),
            n => format!(
                "{} not listed: the most decisive ones are listed here.",
                plural(n, "more is", "more are")
            ),
        },
    }
}

fn evidence_view(shown: &Shown, evidence: &Evidence) -> EvidenceView {
    let scenario = shown.scenario(&evidence.scenario);
    let case = scenario.and_then(|s| s.case(&evidence.case));
    let title = scenario.map_or(evidence.scenario.as_str(), |s| shown.title(s));
    let mut suites = shown.run.header.plan.micro.suites.iter();
    let suite = suites.find(|suite| scenario_id(&suite.id) == evidence.scenario);
    let of_suite = suite.and_then(|suite| suite.cases.iter().find(|c| c.id == evidence.case));
    let label = match (scenario, case, of_suite) {
        (Some(s), Some(c), _) => case_label(s, c),
        (_, _, Some(case)) => case.label.clone(),
        _ => evidence.case.clone(),
    };
    let (measured, interval) = number(evidence);
    let (verdict, tone) = match evidence.verdict {
        Verdict::Confirmed => ("within", "good"),
        Verdict::Refuted => ("outside", "bad"),
        _ => ("open", "even"),
    };
    EvidenceView {
        of: match &evidence.against {
            Some(against) if *against != evidence.target => {
                format!("{} against {against}", evidence.target)
            }
            _ => evidence.target.clone(),
        },
        case: format!("{title}, {label}"),
        path: case_path(shown, &evidence.case_key()),
        measured,
        interval,
        verdict,
        tone,
    }
}

/// A number and its interval, formatted.
fn number(evidence: &Evidence) -> (String, String) {
    let (unit, factor, what) = match evidence.measure {
        Measure::Value(id) => (Unit::from_metric(id), 1.0, ""),
        Measure::TimesBetter(_) => (Unit::Ratio, 1.0, " as good"),
        Measure::TimesHigher(_) => (Unit::Ratio, 1.0, " higher"),
        Measure::TimesLower(_) => (Unit::Ratio, 1.0, " lower"),
        Measure::TimesSteadier(_) => (Unit::Ratio, 1.0, " steadier"),
        Measure::Variation(_) | Measure::OfLinear(_) => (Unit::Percent, 100.0, ""),
        Measure::Requests => {
            let n = evidence.value.max(0.0) as u64;
            return (plural(n, "request", "requests"), "a count".into());
        }
    };
    let ci95 = evidence.ci95.map(|(a, b)| (factor * a, factor * b));
    let (text, interval) = fmt::with_interval(unit, factor * evidence.value, ci95);
    let interval = interval.unwrap_or_else(|| match ci95 {
        Some((low, _)) if low.is_finite() => {
            format!("[{}, no upper bound]", fmt::quantity(Unit::Plain, low))
        }
        _ => NONE.into(),
    });
    (format!("{text}{what}"), interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_prediction_open_is_counted_over_all_runs() {
        let number = |verdict, beyond| Evidence {
            target: "a".into(),
            against: None,
            scenario: "s".into(),
            case: "c".into(),
            measure: Measure::Requests,
            value: 1.0,
            ci95: None,
            beyond,
            verdict,
        };
        let finding = |evidence, missing| Finding {
            verdict: Verdict::Inconclusive,
            evidence,
            missing,
            why: String::new(),
        };
        let open = Verdict::Inconclusive;
        let first = vec![
            number(Verdict::Confirmed, 0.5),
            number(open, 0.9),
            number(open, 1.2),
        ];
        let all = [finding(first, 0), finding(vec![number(open, 0.8)], 2)];
        assert_eq!(
            why_open(&all),
            "It stays open: the intervals of 3 of 4 numbers allow either (values within the \
             bound: 2), and more launches would narrow them; without a number: 2 cells."
        );
        let within = vec![number(Verdict::Confirmed, 0.5)];
        assert_eq!(
            why_open(&[finding(within, 1)]),
            "It stays open: without a number: 1 cell."
        );
    }
}
