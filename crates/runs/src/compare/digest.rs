//! The parts of a comparison that a reader wants: the verdict in a sentence, the cells that
//! changed, how many cells can't be compared and why, and each difference around the runs once.
//! Pure: `print::text` and `print::markdown` lay the parts out.

use super::Comparison;
use crate::summary::kind;
use base::text;
use harness::environment::{Difference, Kind};
use site::fmt::{self, Unit};
use stats::agreement::Agreement;
use stats::analysis::Verdict;
use stats::between::Change;
use stats::tie::apart_at_most;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of kinds of reason that are listed one by one.
const GAPS_MAX: usize = 6;
/// Maximum number of lines about differences around the runs.
const AROUND_MAX: usize = 10;
/// Maximum number of characters of one value in those lines.
const VALUE_CHARS_MAX: usize = 48;
/// Maximum number of members of a group that are named.
const NAMED_MAX: usize = 3;
/// Maximum number of characters of a name in a table, and (`LINE_CHARS`) of a reason or a
/// difference.
const NAME_CHARS: usize = 100;
pub(super) const LINE_CHARS: usize = 200;

/// Names of a table's columns.
pub(super) const HEAD: [&str; 8] = [
    "cell", "target", "metric", "A", "B", "ratio", "95 %", "verdict",
];

/// Return the verdict as a sentence. It quotes nothing from a record.
pub(super) fn verdict(comparison: &Comparison) -> String {
    let count = comparison.count();
    let judged = count.cells - count.not_comparable;
    let of = |verdict: Verdict, (words, of_bytes): (&str, &str), n: usize| {
        let mut found = comparison.changes.iter().filter(|c| c.verdict == verdict);
        let words = match found.any(is_bytes) {
            true => format!("{words} or {of_bytes}"),
            false => words.to_owned(),
        };
        (n > 0).then(|| format!("{words} in {n}"))
    };
    let differs = [
        of(Verdict::Worse, ("slower", "larger"), count.slower),
        of(Verdict::Better, ("faster", "smaller"), count.faster),
    ];
    let differs: Vec<String> = differs.into_iter().flatten().collect();
    let rest = match (differs.is_empty(), judged) {
        _ if comparison.a.id == comparison.b.id => "A and B are the same run".into(),
        (_, 0) => "nothing can be compared: no cell has numbers in both runs".into(),
        (true, _) => format!(
            "nothing differs: none of {} is faster or slower in B beyond chance and noise",
            cells(judged)
        ),
        (false, _) => format!("B is {} of {}", differs.join(" and "), cells(judged)),
    };
    let text = match count.broken {
        0 => rest,
        n => format!("B fails at {} that worked in A; otherwise {rest}", cells(n)),
    };
    text[..1].to_uppercase() + &text[1..] + "."
}

fn cells(n: usize) -> String {
    match n {
        1 => "1 cell".into(),
        n => format!("{n} cells"),
    }
}

fn is_bytes(change: &Change) -> bool {
    change.metric.is_some_and(|m| m.describe().unit == "bytes")
}

/// Return the cells that a table shows: all of them in plan order, or only those that changed,
/// worst first.
pub(super) fn shown(changes: &[Change], all: bool) -> Vec<&Change> {
    if all {
        return changes.iter().collect();
    }
    let is_changed = |c: &&Change| c.broken || c.verdict.is_difference();
    let mut changed: Vec<&Change> = changes.iter().filter(is_changed).collect();
    let size = |c: &Change| c.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    changed.sort_by(|a, b| {
        let rank = |c: &Change| (!c.broken, c.verdict == Verdict::Better);
        rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a)))
    });
    changed
}

/// Return the table row of a cell. `quote` makes text from a record safe to show, and cuts it to a
/// number of characters; `colon` stands between the verdict and why the cell can't be compared.
pub(super) fn row(change: &Change, quote: fn(&str, usize) -> String, colon: &str) -> [String; 8] {
    let unit = change.metric.map_or(Unit::Plain, Unit::from_metric);
    let value = |value: Option<f64>| value.map_or(fmt::NONE.into(), |v| fmt::quantity(unit, v));
    let ratio = change.ratio.map(|ratio| fmt::ratio(ratio, change.ci95));
    let (ratio, interval) = ratio.unwrap_or_default();
    let disturbed = match change.disturbed {
        (0, 0) => String::new(),
        (a, b) => format!(" (disturbed launches: {a} in A, {b} in B)"),
    };
    let reason = match quote(&change.reason, LINE_CHARS) {
        none if none.is_empty() => none,
        reason => format!("{colon} {reason}"),
    };
    let metric = change.metric.map_or("", |metric| metric.describe().name);
    [
        quote(&format!("{}/{}", change.scenario, change.case), NAME_CHARS),
        quote(&change.target, NAME_CHARS),
        quote(metric, NAME_CHARS),
        value(change.before),
        value(change.after),
        ratio,
        interval.unwrap_or_default(),
        words(change) + &disturbed + &reason,
    ]
}

/// Return the verdict in words; memory is smaller or larger, not faster or slower.
fn words(change: &Change) -> String {
    let apart = || apart_at_most(change.ci95).map_or(fmt::NONE.into(), fmt::percent_more);
    let words = match change.verdict {
        Verdict::Equal => return format!("equal within {}", apart()),
        Verdict::Undecided => return format!("undecided, up to {} apart", apart()),
        Verdict::Better if is_bytes(change) => "smaller",
        Verdict::Worse if is_bytes(change) => "larger",
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Unknown if change.broken => "fails",
        Verdict::Unknown => "not comparable",
    };
    words.into()
}

/// Count the cells that can't be compared, in total and by kind of reason; `None` where there are
/// none. Cells at which only B fails are left out, because they count as changed.
pub(super) fn gaps(comparison: &Comparison) -> Option<(String, Vec<(usize, String)>)> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let is_gap = |c: &&Change| c.verdict == Verdict::Unknown && !c.broken;
    for change in comparison.changes.iter().filter(is_gap) {
        let reason = sides(comparison, &change.reason);
        *kinds.entry(kind(&reason)).or_default() += 1;
    }
    let all: usize = kinds.values().sum();
    let mut kinds: Vec<(usize, String)> = kinds.into_iter().map(|(kind, n)| (n, kind)).collect();
    kinds.sort_by_key(|(n, _)| Reverse(*n));
    let rest = kinds.split_off(kinds.len().min(GAPS_MAX));
    if !rest.is_empty() {
        kinds.push((
            rest.iter().map(|(n, _)| n).sum(),
            "for other reasons".into(),
        ));
    }
    (all > 0).then(|| (format!("{} can't be compared", cells(all)), kinds))
}

/// Replace the runs' ids in a reason by `A` and `B`, so that cells with the same reason are counted
/// together.
fn sides(comparison: &Comparison, reason: &str) -> String {
    let mut names = [(&comparison.a.id, "A"), (&comparison.b.id, "B")];
    // The longer id first, because one id may begin with the other.
    names.sort_by_key(|(id, _)| Reverse(id.len()));
    let put = |text: String, (id, side): (&String, &str)| text.replace(id.as_str(), side);
    let names = names.into_iter().filter(|(id, _)| !id.is_empty());
    names.fold(reason.to_owned(), put)
}

/// Return the differences around the runs, a line each. Without `all`, equal differences share a
/// line, and so do the programs, which always differ. Everything is quoted from records.
pub(super) fn around(differences: &[Difference], all: bool) -> Vec<String> {
    if all {
        let lines = differences.iter().map(Difference::to_string);
        return lines.collect();
    }
    let mut groups: Vec<(Group, Vec<&Difference>)> = Vec::new();
    for difference in differences {
        let group = Group::new(difference);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(difference),
            None => groups.push((group, vec![difference])),
        }
    }
    let mut lines: Vec<String> = groups
        .iter()
        .take(AROUND_MAX)
        .map(|(group, members)| group.line(members))
        .collect();
    if groups.len() > AROUND_MAX {
        lines.push(format!("and {} more", groups.len() - AROUND_MAX));
    }
    lines
}

/// The properties by which differences are grouped.
#[derive(PartialEq)]
struct Group<'a> {
    kind: Kind,
    /// What differs, without the target or program that it belongs to.
    item: &'a str,
    /// The values in A and in B; `None` for programs, whose hashes always differ and say nothing.
    values: Option<(&'a str, &'a str)>,
}

const PROGRAM: &str = "program of ";
const LENGTH: &str = "length of ";

impl<'a> Group<'a> {
    fn new(difference: &'a Difference) -> Self {
        let item = difference.item.as_str();
        let item = match difference.kind {
            Kind::Program if item.starts_with(PROGRAM) => "programs",
            Kind::Engine => item.split_once(' ').map_or(item, |(_, key)| key),
            Kind::Plan if item.starts_with(LENGTH) => "lengths",
            _ => item,
        };
        let values = (difference.before.as_str(), difference.after.as_str());
        Self {
            kind: difference.kind,
            item,
            values: (difference.kind != Kind::Program).then_some(values),
        }
    }

    /// Return the target, program or file that a member of the group belongs to.
    fn owner(&self, member: &'a Difference) -> &'a str {
        let item = member.item.as_str();
        match self.kind {
            Kind::Engine => item.split_once(' ').map_or(item, |(target, _)| target),
            _ => item.trim_start_matches(PROGRAM).trim_start_matches(LENGTH),
        }
    }

    fn line(&self, members: &[&'a Difference]) -> String {
        let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let short = |text: &str| match is_hash(text) {
            true => text[..12].to_owned(),
            false => text::line(text, VALUE_CHARS_MAX),
        };
        let values = |before: &str, after: &str| format!("{} → {}", short(before), short(after));
        if let [one] = members {
            return format!("{}: {}", short(&one.item), values(&one.before, &one.after));
        }
        let owners = members.iter().map(|&member| short(self.owner(member)));
        let owners = text::few(&owners.collect::<Vec<_>>(), NAMED_MAX, ", ");
        let what = self
            .values
            .map_or("differ".into(), |(before, after)| values(before, after));
        let (n, item) = (members.len(), short(self.item));
        match self.kind {
            Kind::Program => format!("{n} {item} {what}: {owners}"),
            _ => format!("{item}: {what} ({n}: {owners})"),
        }
    }
}

/// Describe how well the runs agree on the ratios between targets; `None` where they have no pair
/// in common.
fn agreement(agreement: &Agreement) -> Option<String> {
    let Agreement {
        pairs,
        decided,
        contradictory,
        with_intervals,
        within_errors,
        held,
        held_expected,
    } = *agreement;
    let share = |n: f64| fmt::percent(n / with_intervals as f64);
    let mut text = format!(
        "Pairs of targets that both runs judge: {pairs}. Decided in both: {decided}, with verdicts that contradict each other: {contradictory}."
    );
    if with_intervals > 0 {
        text += &format!(
            " The ratios of {} are as near as both errors allow, of 95 % or more where nothing changed; B's 95 % interval holds A's ratio in {}, where as A's errs too {} are expected.",
            share(within_errors as f64),
            share(held as f64),
            share(held_expected)
        );
    }
    (pairs > 0).then_some(text)
}

/// Return the notes that a reader needs to interpret the verdicts.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let changes = &comparison.changes;
    let tested = changes.iter().filter(|c| c.p_holm.is_some()).count();
    if tested == 0 {
        return Vec::new();
    }
    let mut notes: Vec<String> = agreement(&comparison.agreement).into_iter().collect();
    notes.push(format!(
        "Ratios over 1 are in favour of B; intervals are 95 %, by Welch's t over blocks; verdicts are Holm-corrected over {}.",
        cells(tested)
    ));
    if changes.iter().all(|change| change.inflation.is_none()) {
        notes.push(
            "In neither run a target ran twice, so what all blocks of a run share looks like a change.".into(),
        );
    }
    notes
}
