//! The summary that a run ends with: what was measured, which targets lead, which cells have no
//! numbers and why, and the paths of the records and the report. It always fits on one screen;
//! single cells are on the report's coverage page.

use anyhow::Result;
use base::repo::Repo;
use base::text::few;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use schema::run::Run;
use site::fmt;
use stats::analysis::{Analysis, Cell, Exceeded, Role};
use stats::micro::SuiteAnalysis;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of scenarios, and of statuses, that get a line.
const LINES_MAX: usize = 8;
/// Maximum number of characters of a line that can be shortened.
const WIDTH_MAX: usize = 100;
/// Maximum number of targets of a tie that are listed by name.
const NAMES_MAX: usize = 3;

/// The contents of the summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of cells with numbers, and of all cells.
    cells: (u64, u64),
    /// Number of timed requests, and of readings of the micro suites.
    samples: u64,
    /// Number of processes that were launched.
    launches: u64,
    /// Time during which engines ran (s); `None` for a run merged from several sources.
    wall_s: Option<f64>,
    /// Share of that time in which a timed request was under way.
    timed_share: Option<f64>,
    /// The leading targets of each scenario, in plan order.
    leads: Vec<Lead>,
    /// The target that ratios are relative to; empty where it wasn't measured.
    baseline: String,
    /// Cells without numbers by status and kind of reason, faults first.
    gaps: Vec<Gap>,
    /// Limits of the machine that a target seemed to exceed, with the target.
    exceeded: Vec<Exceeded>,
}

/// The targets that lead a scenario.
#[derive(Clone, Debug, PartialEq)]
struct Lead {
    scenario: String,
    case: String,
    /// The leading target, or all targets that tie for the lead.
    targets: Vec<String>,
    /// How many times better the first target is than the baseline; `None` where there is no ratio.
    ratio: Option<f64>,
}

/// The cells without numbers that have one status.
#[derive(Clone, Debug, PartialEq)]
struct Gap {
    status: Status,
    cells: u64,
    /// Kinds of reason, each with its number of cells, the commonest first.
    kinds: Vec<(String, u64)>,
}

/// The paths with which a summary ends.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The run's directory.
    pub records: &'a Path,
    /// The report's index page; `None` where none was rendered.
    pub report: Option<&'a Path>,
}

/// Tell whether a status means that something broke, in the engine or in the benchmark. A cell that
/// wasn't run is a fault, though not the engine's: a run that is over has none.
fn is_fault(status: Status) -> bool {
    status == Status::NotRun || status.is_engines_fault()
}

/// The analyses that are derived from a run's records.
pub(crate) struct Analysed {
    /// The analysis of the run's scenarios.
    pub(crate) analysis: Analysis,
    /// The analyses of the run's micro suites.
    pub(crate) suites: Vec<SuiteAnalysis>,
    /// The target that ratios are relative to.
    baseline: String,
}

impl Analysed {
    /// Analyse a run. Fails where the checkout's registry or scenarios can't be read.
    pub(crate) fn new(repo: &Repo, run: &Run) -> Result<Self> {
        let baseline = repo
            .registry()?
            .baseline_of(&run.header.plan.targets)
            .to_owned();
        Ok(Self {
            analysis: stats::analyse(run, &repo.scenarios()?, &baseline),
            suites: stats::micro::analyse(run),
            baseline,
        })
    }
}

impl Summary {
    /// Summarise a run. Fails where the checkout's registry or scenarios can't be read.
    pub fn new(repo: &Repo, run: &Run) -> Result<Self> {
        Ok(Self::from_records(run, &Analysed::new(repo, run)?))
    }

    /// Summarise a run that has been analysed already.
    pub(crate) fn from_records(run: &Run, analysed: &Analysed) -> Self {
        let Analysed {
            analysis,
            suites,
            baseline,
        } = analysed;
        let of_suites = suites.iter().flat_map(|suite| &suite.analysis.cells);
        let cells: Vec<&Cell> = analysis.cells.iter().chain(of_suites).collect();
        let measured = || cells.iter().filter(|cell| cell.status == Status::Ok);
        let logs = || run.launches.iter().chain(&run.twins);
        let timed = || logs().flat_map(|log| log.requests.iter().filter(|r| !r.warmup));
        let readings = run.micro.iter().flat_map(|log| &log.cases);
        // Stamps of different machines can't be compared.
        let one_machine = run.header.origin.sources.is_empty();
        let span = |log: &LaunchLog| Some((log.launch.start_ns, log.end.as_ref()?.end_ns));
        let wall_ns = covered_ns(logs().filter_map(span)).filter(|_| one_machine);
        let timed_ns = covered_ns(timed().map(|r| (r.sent_ns, r.answered_ns)));
        let has_baseline = measured().any(|cell| cell.target == *baseline);
        Self {
            cells: (measured().count() as u64, cells.len() as u64),
            samples: timed().count() as u64
                + readings.map(|case| case.ns.len() as u64).sum::<u64>(),
            launches: (logs().count() + run.micro.len()) as u64,
            wall_s: wall_ns.map(|ns| ns as f64 / 1e9),
            timed_share: wall_ns
                .zip(timed_ns)
                .map(|(wall_ns, timed_ns)| timed_ns as f64 / wall_ns as f64),
            leads: leads(&run.header.plan.scenarios, analysis, baseline),
            baseline: match has_baseline {
                true => baseline.clone(),
                false => String::new(),
            },
            gaps: gaps(&cells),
            exceeded: analysis.exceeded.clone(),
        }
    }

    /// Tell whether something broke in a cell, or a cell wasn't run.
    pub fn has_faults(&self) -> bool {
        self.gaps.iter().any(|gap| is_fault(gap.status))
    }

    /// Format the summary.
    pub fn screen(&self, places: &Places) -> String {
        let mut lines = vec![self.measured()];
        if !self.leads.is_empty() {
            lines.push(match self.baseline.as_str() {
                "" => "Who leads:".into(),
                baseline => format!("Who leads, and how many times better than {baseline}:"),
            });
        }
        let (shown, rest) = self.leads.split_at(self.leads.len().min(LINES_MAX));
        lines.extend(shown.iter().map(Lead::line));
        if !rest.is_empty() {
            lines.push(format!("  and {} more scenarios", rest.len()));
        }
        if !self.gaps.is_empty() {
            lines.push("Without numbers:".into());
        }
        let (shown, rest) = self.gaps.split_at(self.gaps.len().min(LINES_MAX));
        lines.extend(shown.iter().map(Gap::line));
        if !rest.is_empty() {
            lines.push(format!("  and {} more statuses", rest.len()));
        }
        for limit in &self.exceeded {
            lines.push(format!(
                "Left out: {}, because {} would reach {:.0} % of the limit measured on this machine",
                limit.metric.describe().name,
                limit.target,
                limit.percent
            ));
        }
        lines.push(format!("Records: {}", places.records.display()));
        if let Some(report) = places.report {
            let coverage = report.with_file_name("coverage.html");
            lines.push(format!("Cells:   {}", coverage.display()));
            lines.push(format!("Report:  {}", report.display()));
        }
        lines.join("\n") + "\n"
    }

    fn measured(&self) -> String {
        let (ok, all) = self.cells;
        let mut line = format!(
            "Measured {} of {} cells: {} samples in {} launches",
            fmt::count(ok),
            fmt::count(all),
            fmt::count(self.samples),
            fmt::count(self.launches)
        );
        if let Some(wall_s) = self.wall_s {
            line.push_str(&format!(", {}", base::text::lasted(wall_s as u64)));
        }
        if let Some(share) = self.timed_share {
            line.push_str(&format!(", {:.0} % of it in timed requests", 100.0 * share));
        }
        line
    }
}

impl Lead {
    fn line(&self) -> String {
        let who = few(&self.targets, NAMES_MAX, ", ");
        let tie = if self.targets.len() > 1 { " tie" } else { "" };
        let ratio = self.ratio.map_or(String::new(), |ratio| {
            format!(": {}", fmt::ratio(ratio, None).0)
        });
        format!("  {} {}: {who}{tie}{ratio}", self.scenario, self.case)
    }
}

impl Gap {
    fn line(&self) -> String {
        let mut line = format!("  {} {}", self.status.id(), fmt::count(self.cells));
        for (i, (kind, cells)) in self.kinds.iter().enumerate() {
            let kind = format!(
                "{} {kind} ({})",
                if i == 0 { ":" } else { "," },
                fmt::count(*cells)
            );
            if i > 0 && line.chars().count() + kind.chars().count() > WIDTH_MAX {
                line.push_str(", …");
                break;
            }
            line.push_str(&kind);
        }
        line
    }
}

/// Return the time covered by spans that may overlap (ns); `None` where they cover none.
fn covered_ns(spans: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    let mut spans: Vec<(u64, u64)> = spans.collect();
    spans.sort_unstable();
    let (mut covered_ns, mut behind) = (0, 0);
    for (start, end) in spans {
        covered_ns += end.saturating_sub(start.max(behind));
        behind = behind.max(end);
    }
    (covered_ns > 0).then_some(covered_ns)
}

fn leads(scenarios: &[PlannedScenario], analysis: &Analysis, baseline: &str) -> Vec<Lead> {
    let lead = |scenario: &PlannedScenario| {
        let cells = || analysis.cells.iter().filter(|c| c.scenario == scenario.id);
        // Choose the case that the report's first page shows: the largest of those with the fewest
        // cells over budget.
        let over = |case: &Case| {
            let of_case = cells().filter(|cell| cell.case == case.id);
            of_case.filter(|c| c.status == Status::OverBudget).count()
        };
        let case = scenario
            .cases
            .iter()
            .max_by_key(|case| (Reverse(over(case)), case.axis_value(scenario.axis)))?;
        let first = |cell: &&Cell| cell.case == case.id && cell.rank == Some(1);
        let targets: Vec<String> = cells().filter(first).map(|c| c.target.clone()).collect();
        let first = targets.first()?;
        let comparison = analysis.comparison(&scenario.cell_key(case, first), Role::Baseline);
        Some(Lead {
            ratio: comparison
                .filter(|c| c.target != baseline && c.ratio.is_finite())
                .map(|c| c.ratio),
            scenario: scenario.id.clone(),
            case: case.id.clone(),
            targets,
        })
    };
    scenarios.iter().filter_map(lead).collect()
}

fn gaps(cells: &[&Cell]) -> Vec<Gap> {
    let mut by_status: BTreeMap<Status, BTreeMap<String, u64>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.status != Status::Ok) {
        let kinds = by_status.entry(cell.status).or_default();
        *kinds.entry(kind(&cell.reason)).or_default() += 1;
    }
    let mut gaps: Vec<Gap> = by_status
        .into_iter()
        .map(|(status, kinds)| {
            let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
            kinds.sort_by_key(|(_, cells)| Reverse(*cells));
            Gap {
                status,
                cells: kinds.iter().map(|(_, cells)| cells).sum(),
                kinds,
            }
        })
        .collect();
    gaps.sort_by_key(|gap| (!is_fault(gap.status), Reverse(gap.cells)));
    gaps
}

/// Reduce a reason to its kind, so that similar reasons are counted together: its first statement,
/// without numbers that stand by themselves.
pub(crate) fn kind(reason: &str) -> String {
    const CHARS_MAX: usize = 60;
    let reason = base::text::without_escapes(reason);
    let ends = [": ", "; ", " (", ", "];
    let end = ends.iter().filter_map(|end| reason.find(end)).min();
    let statement = &reason[..end.unwrap_or(reason.len())];
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let words = statement.split_whitespace();
    let words = words.map(|word| if is_number(&word) { "…" } else { word });
    let words = words.collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", words[..end].trim_end()),
        None => words,
    }
}

#[cfg(test)]
mod tests;
