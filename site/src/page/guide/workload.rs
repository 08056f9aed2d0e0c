//! The kinds of work in the guide: which scenario stands for each, at which size, and which metric
//! decides. They are fixed before any number is looked at.

use crate::view::Shown;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use stats::analysis::{Cell, MetricId};

/// A kind of work.
pub struct Workload {
    /// The id, used in fragments.
    pub id: &'static str,
    /// The heading.
    pub title: &'static str,
    /// What the work is, and which applications have it.
    pub about: &'static str,
    /// Other words under which readers search for it.
    pub also: &'static str,
    /// Id of the scenario that stands for it.
    pub scenario: &'static str,
    /// Whether the scenario's largest case stands for it, or the smallest.
    pub largest: bool,
    /// The metrics that may decide: the first that any target has does.
    pub metrics: &'static [MetricId],
    /// Why that metric decides.
    pub because: &'static str,
    /// Number of tokens of a usual answer, where a time decides: how long one takes stands beside
    /// the choice as an estimate, since measured answers are shorter. It decides nothing.
    pub answer_tokens: Option<u32>,
}

/// All kinds of work, in the page's order.
pub const WORKLOADS: [Workload; 5] = [
    Workload {
        id: "interactive",
        title: "Interactive use",
        about: "One person waits for one answer: a desktop assistant, an editor.",
        also: "chat, streaming, code completion, latency",
        scenario: "single_request",
        largest: true,
        metrics: &[MetricId::E2eNs],
        because: "the whole answer is waited for, its first token and all others",
        answer_tokens: Some(256),
    },
    Workload {
        id: "batch",
        title: "Batch work",
        about: "Much text to work through, and no user who waits: extraction, labelling, evaluation.",
        also: "offline work, classification, throughput",
        scenario: "sustained",
        largest: true,
        metrics: &[MetricId::OutputTokPerS],
        because: "no user waits, so only tokens a second count",
        answer_tokens: None,
    },
    Workload {
        id: "long-documents",
        title: "Long documents",
        about: "Long prompts and short answers: retrieval, summaries.",
        also: "RAG, long context, question answering",
        scenario: "long_context",
        largest: true,
        metrics: &[MetricId::TtftNs],
        because: "reading the prompt is most of the work, and the first token comes after it",
        answer_tokens: None,
    },
    Workload {
        id: "many-users",
        title: "Many users",
        about: "Several people share one server.",
        also: "chat service, API, concurrency, serving",
        scenario: "concurrent",
        largest: true,
        metrics: &[MetricId::E2eNs],
        because: "each user waits for the whole answer while the others are served too",
        answer_tokens: None,
    },
    Workload {
        id: "little-memory",
        title: "Little memory",
        about: "A small machine, or a model beside other programs.",
        also: "RAM, laptop, embedded device",
        scenario: "memory",
        largest: false,
        metrics: &[MetricId::PeakGpuMemoryBytes, MetricId::PeakRssBytes],
        because: "what doesn't fit doesn't run",
        answer_tokens: None,
    },
];

/// The case of a run that stands for a kind of work, and the metric that decides.
pub struct Asked<'a> {
    /// The scenario as the run planned it.
    pub scenario: &'a PlannedScenario,
    /// The case that stands for the work.
    pub case: &'a Case,
    /// The metric that decides.
    pub metric: MetricId,
    /// The cells of the case that have the metric, in plan order.
    pub cells: Vec<&'a Cell>,
}

impl<'a> Asked<'a> {
    /// The cell of a target; `None` where it has no number.
    pub fn cell(&self, target: &str) -> Option<&'a Cell> {
        let mut cells = self.cells.iter().copied();
        cells.find(|cell| cell.target == target)
    }

    /// The same metric at each other size of the scenario, the nearest size first.
    pub fn at_other_sizes(&self, shown: &Shown<'a>) -> Vec<Asked<'a>> {
        let (scenario, metric) = (self.scenario, self.metric);
        let size = |case: &Case| case.axis_value(scenario.axis);
        let others = scenario.cases.iter().filter(|case| *case != self.case);
        let mut others: Vec<&Case> = others.collect();
        others.sort_by_key(|case| size(case).abs_diff(size(self.case)));
        let asked = others.into_iter().map(|case| Asked {
            scenario,
            case,
            metric,
            cells: measured(shown, scenario, case, metric),
        });
        asked.collect()
    }
}

impl Workload {
    /// Find the case that decides this workload in a run: the most extreme size at which at least
    /// half of the targets measured at any size have a number. So a target that is too slow for the
    /// large sizes doesn't keep the others from being compared there, and a size that few targets
    /// reached isn't chosen. `None` where no target was measured.
    pub fn asked<'a>(&self, shown: &Shown<'a>) -> Option<Asked<'a>> {
        let scenario = shown.scenario(self.scenario)?;
        self.metrics.iter().find_map(|&metric| {
            let size = |case: &Case| {
                let value = i64::from(case.axis_value(scenario.axis));
                if self.largest { value } else { -value }
            };
            let cases = scenario.cases.iter();
            let all = cases.map(|case| (case, measured(shown, scenario, case, metric)));
            let all: Vec<(&Case, Vec<&Cell>)> = all.collect();
            let most = all.iter().map(|(_, cells)| cells.len()).max()?;
            let enough = all.into_iter().filter(|(_, cells)| 2 * cells.len() >= most);
            let (case, cells) = enough.max_by_key(|(case, _)| size(case))?;
            (!cells.is_empty()).then_some(Asked {
                scenario,
                case,
                metric,
                cells,
            })
        })
    }
}

/// The cells of a case that are valid and have a metric, in plan order.
fn measured<'a>(
    shown: &Shown<'a>,
    scenario: &PlannedScenario,
    case: &Case,
    metric: MetricId,
) -> Vec<&'a Cell> {
    let cells = shown.measured(scenario, case, metric).map(|(cell, _)| cell);
    cells.filter(|cell| cell.status == Status::Ok).collect()
}
