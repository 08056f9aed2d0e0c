//! A comparison as text and as JSON. The columns of the JSON are stable: scripts
//! depend on them.

use super::Comparison;
use anyhow::Result;
use schema::run::Run;
use serde_json::{Value, json};
use site::fmt::{self, Unit};
use stats::between::{Change, Verdict};

/// For people: the cells by case, what differs around them, the sum.
pub(super) fn text(comparison: &Comparison) -> String {
    let Comparison {
        a,
        b,
        changes,
        environment,
    } = comparison;
    let mut lines = vec![format!("A  {}", who(a)), format!("B  {}", who(b))];
    let mut rows: Vec<[String; 6]> = Vec::new();
    let mut groups: Vec<(String, Vec<&Change>)> = Vec::new();
    for change in changes {
        let name = format!("{}/{}", change.scenario, change.case);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(change),
            None => groups.push((name, vec![change])),
        }
    }
    for (name, members) in &groups {
        let metric = members.iter().find_map(|change| change.metric);
        let metric = metric.map_or("no metric", |metric| metric.describe().name);
        let mut heading: [String; 6] = Default::default();
        heading[0] = format!("{name} · {metric}");
        rows.push(heading);
        rows.extend(members.iter().map(|change| row(change)));
    }
    lines.push(String::new());
    lines.extend(aligned(&rows));
    lines.push(String::new());
    if environment.is_empty() {
        lines.push("Nothing recorded of the environment differs.".into());
    } else {
        lines.push("What differs around them, A → B:".into());
        lines.extend(
            environment
                .iter()
                .map(|difference| format!("  {difference}")),
        );
    }
    lines.push(String::new());
    lines.extend(notes(changes));
    lines.push(summary(comparison));
    lines.join("\n") + "\n"
}

fn who(run: &Run) -> String {
    let header = &run.header;
    let revision = header.provenance.git_revision.as_deref();
    format!(
        "{} · {} · {} invocations · revision {}",
        header.id,
        header.plan.profile,
        header.plan.invocations,
        revision.map_or("unknown", |r| r.get(..12).unwrap_or(r))
    )
}

fn row(change: &Change) -> [String; 6] {
    let unit = change.metric.map_or(Unit::Plain, Unit::of);
    let value = |value: Option<f64>| value.map_or(fmt::NONE.into(), |v| fmt::quantity(unit, v));
    let (ratio, interval) = change.ratio.map_or((String::new(), None), |ratio| {
        fmt::ratio(ratio, change.ci95)
    });
    let mut said = words(change).to_owned();
    if !change.reason.is_empty() {
        said += &format!(": {}", change.reason);
    }
    said += &disturbed(change);
    [
        format!("  {}", change.target),
        value(change.before),
        format!("→ {}", value(change.after)),
        ratio,
        interval.unwrap_or_default(),
        said,
    ]
}

/// Where a verdict may be the machine's doing.
fn disturbed(change: &Change) -> String {
    match change.disturbed {
        (0, 0) => String::new(),
        (a, b) => format!(" (disturbed invocations: {a} in A, {b} in B)"),
    }
}

/// Columns padded to the widest of those that have more than a heading.
fn aligned(rows: &[[String; 6]]) -> Vec<String> {
    let mut widths = [0; 6];
    for row in rows.iter().filter(|row| !row[1].is_empty()) {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    rows.iter()
        .map(|row| {
            let padded: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(text, width)| format!("{text:width$}"))
                .collect();
            padded.join("  ").trim_end().to_owned()
        })
        .collect()
}

fn id(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDetectableDifference => "no_detectable_difference",
        Verdict::NotComparable => "not_comparable",
    }
}

/// Memory isn't fast or slow.
fn words(change: &Change) -> &'static str {
    let bytes = change.metric.is_some_and(|m| m.describe().unit == "bytes");
    match change.verdict {
        Verdict::Faster if bytes => "smaller",
        Verdict::Slower if bytes => "larger",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDetectableDifference => "no detectable difference",
        Verdict::NotComparable => "not comparable",
    }
}

/// What a reader must know to take the verdicts for what they are.
fn notes(changes: &[Change]) -> Vec<String> {
    let tested = changes.iter().filter(|c| c.p_holm.is_some()).count();
    let mut notes = vec![format!(
        "Ratios over 1 are in favour of B; intervals are 95 %, by Welch's t over invocations; verdicts are Holm-corrected over {tested} cells."
    )];
    if changes.iter().all(|change| change.noise_floor.is_none()) {
        notes.push(
            "Neither run knows its noise floor, so a shift of the whole machine between them looks like a change.".into(),
        );
    }
    notes
}

fn summary(comparison: &Comparison) -> String {
    let count = comparison.count();
    let mut text = format!(
        "{} of {} cells differ: {} faster, {} slower; {} without a detectable difference, {} not comparable",
        count.faster + count.slower,
        count.cells,
        count.faster,
        count.slower,
        count.no_detectable_difference,
        count.not_comparable
    );
    if count.broken > 0 {
        text += &format!(", {} of which worked in A and fail in B", count.broken);
    }
    text
}

/// For programs.
pub(super) fn json(comparison: &Comparison) -> Result<String> {
    let run = |run: &Run| {
        json!({
            "run": run.header.id,
            "started": run.header.started,
            "plan_sha256": run.header.plan_sha256,
        })
    };
    let value = json!({
        "a": run(&comparison.a),
        "b": run(&comparison.b),
        "cells": comparison.changes.iter().map(cell).collect::<Vec<_>>(),
        "environment": comparison.environment,
        "summary": comparison.count(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn cell(change: &Change) -> Value {
    let about = change.metric.map(|metric| metric.describe());
    json!({
        "target": change.target,
        "scenario": change.scenario,
        "case": change.case,
        "metric": about.map(|about| about.name),
        "unit": about.map(|about| about.unit),
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio,
        "ci_low": change.ci95.map(|ci| ci.0),
        "ci_high": change.ci95.map(|ci| ci.1),
        "p_holm": change.p_holm,
        "noise_floor_ratio": change.noise_floor.map(f64::exp),
        "verdict": id(change.verdict),
        "reason": change.reason,
        "broken": change.broken,
        "disturbed_before": change.disturbed.0,
        "disturbed_after": change.disturbed.1,
    })
}
