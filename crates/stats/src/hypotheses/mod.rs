//! The judgement of predictions by a run: confirmed, refuted, inconclusive, or not measured here.
//! The interval decides, never the point estimate.
//!
//! A prediction over several cells holds only if it holds in each, so each must lie within the
//! bounds at 95 % (an intersection–union test needs no correction). One cell is enough to refute
//! it, so the 5 % of error are shared among the cells (Bonferroni); otherwise chance would refute
//! it too often. Where one cell is enough to confirm it, the two levels are exchanged.
//!
//! Deliberately not here: texts. The wording of a prediction stands in `data/hypotheses.toml`; the
//! site prints verdicts.
//!
//! A micro suite is judged like a scenario: its variants are the targets, and the time of a call is
//! the leading metric.

mod measure;

use crate::analysis::{Analysis, MetricId};
use crate::ci::CONFIDENCE;
use crate::micro;
use crate::micro::{METRICS, SuiteAnalysis};
use measure::items;
use schema::hypothesis::{Claim, Hypotheses, Hypothesis, Place};
use schema::key::CaseKey;
use schema::micro::{SuiteCase, Variant, scenario_id};
use schema::plan::{Case, PlannedScenario};
use schema::registry::Target;
use schema::run::Run;
use schema::scenario::{Axis, Scenario};

/// The verdict on a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No run of the required kind has the cells.
    NotMeasured,
    /// The prediction holds.
    Confirmed,
    /// The intervals allow either.
    Inconclusive,
    /// The prediction does not hold.
    Refuted,
}

/// The meaning of a number in the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Value of the metric.
    Value(MetricId),
    /// How many times better the target is than the other, on the metric.
    TimesBetter(MetricId),
    /// How many times higher the metric is than the other target's.
    TimesHigher(MetricId),
    /// How many times lower the metric is than the other target's.
    TimesLower(MetricId),
    /// Coefficient of variation of the metric across launches, a fraction.
    Variation(MetricId),
    /// How many times more the other target's metric varies across launches.
    TimesSteadier(MetricId),
    /// Number of timed requests, of distinct prompts unless the user brought them; it is exact.
    Requests,
    /// Share of linear growth that was reached, a fraction.
    OfLinear(MetricId),
}

/// One number that a verdict rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Target id.
    pub target: String,
    /// Id of the target that it was compared with, if any.
    pub against: Option<String>,
    /// Scenario id.
    pub scenario: String,
    /// Case id.
    pub case: String,
    /// Meaning of the number.
    pub measure: Measure,
    /// The number, as `measure` says.
    pub value: f64,
    /// 95 % interval of the number; `None` with a single launch. The upper bound of a variation may
    /// be infinite.
    pub ci95: Option<(f64, f64)>,
    /// How far the number lies beyond the bound that it is closest to breaking, as a factor: 1 is
    /// on the bound, less is within.
    pub beyond: f64,
    /// Verdict by this number alone. Where one number is enough to decide, the 5 % of error are
    /// shared among all of them.
    pub verdict: Verdict,
}

impl Evidence {
    /// Return the key of the case.
    pub fn case_key(&self) -> CaseKey {
        CaseKey::new(&self.scenario, &self.case)
    }
}

/// The judgement of a prediction by one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Verdict by this run.
    pub verdict: Verdict,
    /// Numbers that the verdict rests on, in plan order; none where nothing was measured.
    pub evidence: Vec<Evidence>,
    /// Number of cells that the prediction is about and that have no number but could have had one.
    pub missing: u32,
    /// Reason why nothing was measured; empty otherwise.
    pub why: String,
}

/// Return a message for each unknown metric in the file, with what to do.
pub fn validate(all: &Hypotheses) -> Vec<String> {
    let named = |h: &Hypothesis| Some((h.id.clone(), h.metric.clone()?));
    all.hypotheses
        .iter()
        .filter_map(named)
        .filter(|(_, metric)| MetricId::from_id(metric).is_none())
        .map(|(id, metric)| {
            let known = MetricId::ALL.map(|id| id.describe().name).join(", ");
            format!("{id:?}, field `metric`: {metric:?} is no metric: use one of {known}")
        })
        .collect()
}

/// Judge a prediction by a run. `parameters` is the number of parameters of the run's model, where
/// that is known.
pub fn evaluate(
    hypothesis: &Hypothesis,
    place: &Place,
    run: &Run,
    analysis: &Analysis,
    scenarios: &[Scenario],
    parameters: Option<u64>,
) -> Finding {
    if let Some(why) = elsewhere(hypothesis, place, run, parameters) {
        return not_measured(why);
    }
    let suites = named_suites(hypothesis, run);
    let found = items(hypothesis, place, run, analysis, scenarios, &suites);
    let (items, missing) = (found.items, found.missing);
    if items.is_empty() {
        return not_measured("the run has no such cell with a number".into());
    }
    let family = 1.0 - (1.0 - CONFIDENCE) / items.len() as f64;
    // What must hold for every number is tested at 95 %, and what one number can decide at the
    // level of the family.
    let (inside, outside) = match hypothesis.any {
        false => (CONFIDENCE, family),
        true => (family, CONFIDENCE),
    };
    let evidence: Vec<Evidence> = items
        .iter()
        .filter_map(|item| item.judge(inside, outside))
        .collect();
    if evidence.is_empty() {
        return not_measured("its cells have no such number".into());
    }
    let undefined = (items.len() - evidence.len()) as u32;
    let missing = missing + undefined;
    let count = |wanted: Verdict| evidence.iter().filter(|e| e.verdict == wanted).count();
    let (confirmed, refuted) = (count(Verdict::Confirmed), count(Verdict::Refuted));
    let all = |n: usize| n == evidence.len() && missing == 0;
    let verdict = match hypothesis.any {
        false if refuted > 0 => Verdict::Refuted,
        false if all(confirmed) => Verdict::Confirmed,
        true if confirmed > 0 => Verdict::Confirmed,
        true if all(refuted) => Verdict::Refuted,
        _ => Verdict::Inconclusive,
    };
    Finding {
        verdict,
        evidence,
        missing,
        why: String::new(),
    }
}

/// Combine the findings of several runs of the required kind into one verdict. One run is enough to
/// refute a prediction about all of them, so the worst verdict counts.
pub fn over_runs(findings: &[Finding]) -> Verdict {
    let verdicts = findings.iter().map(|finding| finding.verdict);
    verdicts.max().unwrap_or(Verdict::NotMeasured)
}

fn not_measured(why: String) -> Finding {
    Finding {
        verdict: Verdict::NotMeasured,
        evidence: Vec::new(),
        missing: 0,
        why,
    }
}

/// Return the reason why a run can't measure a prediction; `None` where it can.
fn elsewhere(
    hypothesis: &Hypothesis,
    place: &Place,
    run: &Run,
    parameters: Option<u64>,
) -> Option<String> {
    let plan = &run.header.plan;
    if let Claim::Unmeasured { why } = &hypothesis.claim {
        return Some(why.clone());
    }
    if !plan.publishable {
        return Some("its profile has too few samples for any claim".into());
    }
    let variants = plan.micro.suites.iter().flat_map(|suite| &suite.variants);
    let ran = match hypothesis.speaks_of_suites() {
        true => variants.map(target).any(|target| place.has(&target)),
        false => plan.targets.iter().any(|target| place.has(target)),
    };
    if !ran {
        return Some(format!("it ran nothing on {}", place.backends.join(" or ")));
    }
    let least = place.parameters_min?;
    match parameters {
        Some(n) if n >= least => None,
        Some(_) => Some("its model is too small".into()),
        None => Some("the size of its model is not known".into()),
    }
}

/// The metric that a prediction about suites is judged by unless it names another.
const LEADING: MetricId = METRICS[0];

/// A micro suite in the form of a scenario with its analysis.
struct Suite {
    targets: Vec<Target>,
    scenario: PlannedScenario,
    analysis: Analysis,
}

/// Return the suites of a run that a prediction names.
fn named_suites(hypothesis: &Hypothesis, run: &Run) -> Vec<Suite> {
    if !hypothesis.speaks_of_suites() {
        return Vec::new();
    }
    let plan = &run.header.plan.micro;
    let is_named = |suite: &SuiteAnalysis| hypothesis.scenarios.contains(&scenario_id(&suite.id));
    let one = |suite: SuiteAnalysis| {
        let planned = plan.suite(&suite.id)?;
        Some(Suite {
            targets: planned.variants.iter().map(target).collect(),
            scenario: PlannedScenario {
                id: scenario_id(&suite.id),
                axis: Axis::PromptTokens,
                cases: planned.cases.iter().map(case).collect(),
                ..PlannedScenario::default()
            },
            analysis: suite.analysis,
        })
    };
    let named = micro::analyse(run).into_iter().filter(is_named);
    named.filter_map(one).collect()
}

/// Convert a variant into a target; it reads no weights.
fn target(variant: &Variant) -> Target {
    Target {
        id: variant.id.clone(),
        engine: variant.engine.clone(),
        backend: variant.backend.clone(),
        precision: variant.precision.clone(),
        ..Target::default()
    }
}

/// Convert a suite's case into a scenario's, with its length, where it has one (`seq`), on the
/// axis.
fn case(case: &SuiteCase) -> Case {
    let length = case.params.get("seq").copied().unwrap_or(0);
    Case {
        id: case.id.clone(),
        prompt_tokens: u32::try_from(length).unwrap_or(u32::MAX),
        ..Case::default()
    }
}
