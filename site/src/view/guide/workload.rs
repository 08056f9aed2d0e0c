//! The kinds of work that the guide speaks of: which scenario stands for each, at which
//! size, and which metric decides. Fixed before any number is looked at.

use crate::view::Shown;
use schema::plan::{Case, PlannedScenario};
use schema::record::Status;
use stats::analysis::{Cell, MetricId};

/// One kind of work.
pub struct Workload {
    /// In fragments.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// What the work is, and which applications have it.
    pub about: &'static str,
    /// Scenario id.
    pub scenario: &'static str,
    /// Whether its largest case stands for it, or its smallest.
    pub largest: bool,
    /// What decides: the first that any target has.
    pub metrics: &'static [MetricId],
    /// Why that decides.
    pub because: &'static str,
}

/// All of them, in the page's order.
pub const WORKLOADS: [Workload; 5] = [
    Workload {
        id: "interactive",
        title: "Interactive",
        about: "One person waits for one answer: a desktop assistant, an editor.",
        scenario: "single_request",
        largest: true,
        metrics: &[MetricId::E2eNs],
        because: "the whole answer is waited for, its first token and all others",
    },
    Workload {
        id: "batch",
        title: "Batch",
        about: "Much text to work through, and no user who waits: extraction, labelling, evaluation.",
        scenario: "sustained",
        largest: true,
        metrics: &[MetricId::OutputTokPerS],
        because: "no user waits, so only tokens a second count",
    },
    Workload {
        id: "long-documents",
        title: "Long documents",
        about: "Long prompts and short answers: retrieval, summaries.",
        scenario: "long_context",
        largest: true,
        metrics: &[MetricId::TtftNs],
        because: "reading the prompt is most of the work, and the first token comes after it",
    },
    Workload {
        id: "many-users",
        title: "Many users",
        about: "Several people share one server.",
        scenario: "concurrent",
        largest: true,
        metrics: &[MetricId::E2eNs],
        because: "each user waits for the whole answer while the others are served too",
    },
    Workload {
        id: "little-memory",
        title: "Little memory",
        about: "A small machine, or a model beside other programs.",
        scenario: "memory",
        largest: false,
        metrics: &[MetricId::PeakGpuMemoryBytes, MetricId::PeakRssBytes],
        because: "what doesn't fit doesn't run",
    },
];

/// A kind of work in a run: the case that stands for it, and the metric.
pub struct Asked<'a> {
    /// The scenario as planned.
    pub scenario: &'a PlannedScenario,
    /// The case.
    pub case: &'a Case,
    /// The metric.
    pub metric: MetricId,
    /// The cells of that case that have it, in plan order.
    pub cells: Vec<&'a Cell>,
}

impl Workload {
    /// The case that decides this workload in a run: the most extreme size for which at least half
    /// of the targets that were measured at any size have a number. A target that is too slow for
    /// the large sizes doesn't keep the others from being compared there; and a size that few
    /// targets reached would leave too few to choose from. `None` where no target was measured.
    pub fn asked<'a>(&self, shown: &Shown<'a>) -> Option<Asked<'a>> {
        let scenario = shown.scenarios().iter().find(|s| s.id == self.scenario)?;
        self.metrics.iter().find_map(|&metric| {
            let measured = |case: &Case| -> Vec<&'a Cell> {
                let targets = shown.targets().iter();
                targets
                    .filter_map(|t| shown.cell(&scenario.cell_key(case, &t.id)))
                    .filter(|cell| cell.status == Status::Ok)
                    .filter(|cell| cell.metric(metric).is_some())
                    .collect()
            };
            let size = |case: &Case| {
                let value = i64::from(case.axis_value(scenario.axis));
                if self.largest { value } else { -value }
            };
            let most = scenario
                .cases
                .iter()
                .map(|case| measured(case).len())
                .max()?;
            let case = scenario
                .cases
                .iter()
                .filter(|case| 2 * measured(case).len() >= most)
                .max_by_key(|case| size(case))?;
            let cells = measured(case);
            (!cells.is_empty()).then_some(Asked {
                scenario,
                case,
                metric,
                cells,
            })
        })
    }
}
