//! `data/hypotheses.toml`: the predictions and targets of the specification, each as a statement
//! that can be computed from a run's cells. Here is only what is predicted, of which targets,
//! where, and within which bounds; `stats` judges whether it holds.

use crate::error::{DataError, fits, read_checked};
use crate::micro::{MicroRegistry, is_micro, scenario_id};
use crate::registry::{Registry, Target};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The content of `data/hypotheses.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypotheses {
    /// The kinds of machine and model that hypotheses are about.
    #[serde(rename = "place")]
    pub places: Vec<Place>,
    /// The predictions, in the order of the page.
    #[serde(rename = "hypothesis")]
    pub hypotheses: Vec<Hypothesis>,
}

/// A kind of machine and model that a prediction is about. Only publishable runs count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Id of the place.
    pub id: String,
    /// Description that reads on after the word "about".
    pub about: String,
    /// Backends of the targets that count; empty = all.
    #[serde(default)]
    pub backends: Vec<String>,
    /// Least parameters of the model; absent = any model.
    #[serde(default)]
    pub parameters_min: Option<u64>,
    /// The command whose run would measure the predictions for this place.
    pub command: String,
}

/// One prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// Id of the hypothesis, which also stands in URLs.
    pub id: String,
    /// Heading that it stands under.
    pub group: String,
    /// The prediction in the specification's words.
    pub says: String,
    /// Our interpretation, where the words leave a choice.
    pub reading: String,
    /// Id of the place it is about.
    pub place: String,
    /// Condition that must hold.
    pub claim: Claim,
    /// Id of the metric; absent = each scenario's leading one.
    #[serde(default)]
    pub metric: Option<String>,
    /// Scenario ids; empty = all. Or micro suites only, each as `micro/<suite>`: then targets are
    /// variants.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// The cases of these scenarios that it is about.
    #[serde(default)]
    pub at: CaseSelector,
    /// The targets whose numbers it predicts.
    #[serde(default)]
    pub of: Selector,
    /// Whether only the best target of each engine counts.
    #[serde(default)]
    pub per_engine: bool,
    /// Whether one cell that agrees is enough; otherwise all must.
    #[serde(default)]
    pub any: bool,
    /// Whether the prediction holds because of how runs are made and judged. Then its confirmation
    /// says nothing about engines.
    #[serde(default)]
    pub by_construction: bool,
    /// The command whose run would settle it, where it isn't the command of its place.
    #[serde(default)]
    pub command: Option<String>,
}

/// A condition on the cells. Bounds are in the metric's own unit, which its name states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Claim {
    /// The value lies within bounds.
    Range {
        /// Lower bound.
        #[serde(default)]
        min: Option<f64>,
        /// Upper bound.
        #[serde(default)]
        max: Option<f64>,
    },
    /// The ratio to another target in the same case lies within bounds: over 1 is better, under 1
    /// worse.
    Ratio {
        /// Ids of targets to compare with; the first that the run planned is taken.
        against: Vec<String>,
        /// Lower bound.
        #[serde(default)]
        min: Option<f64>,
        /// Upper bound.
        #[serde(default)]
        max: Option<f64>,
    },
    /// No other target has a value as high.
    Highest {
        /// The other targets.
        among: Selector,
    },
    /// No other target has a value as low.
    Lowest {
        /// The other targets.
        among: Selector,
    },
    /// The coefficient of variation across launches is under a limit.
    Variation {
        /// The limit, a fraction.
        max: f64,
    },
    /// No other target varies as little across launches.
    LeastVariation {
        /// The other targets.
        among: Selector,
    },
    /// There are at least this many timed requests. Their prompts are distinct, unless the user
    /// brought them.
    Samples {
        /// Least number of requests.
        min: u64,
    },
    /// From the least load to the greatest, throughput grows by at least this share of
    /// what linear growth would give.
    Linear {
        /// Least share, a fraction.
        min: f64,
    },
    /// No run measures the prediction yet.
    Unmeasured {
        /// Reason why no run measures it.
        why: String,
    },
}

/// The cases of a scenario that a prediction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CaseSelector {
    /// The case with this value on the scenario's axis.
    Value(u32),
    /// The cases that a word describes.
    Word(NamedCases),
}

impl Default for CaseSelector {
    fn default() -> Self {
        CaseSelector::Word(NamedCases::Every)
    }
}

/// A word that describes cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedCases {
    /// All cases.
    Every,
    /// The case with the greatest value on the axis.
    Largest,
    /// The case with the least value on the axis.
    Smallest,
}

/// A selection of targets. Each list that isn't empty must contain the target's value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// Target ids.
    pub targets: Vec<String>,
    /// Engine ids.
    pub engines: Vec<String>,
    /// Precisions.
    pub precisions: Vec<String>,
}

impl Selector {
    /// Whether a target is selected.
    pub fn has(&self, target: &Target) -> bool {
        let in_list = |list: &[String], own: &str| list.is_empty() || list.iter().any(|x| x == own);
        in_list(&self.targets, &target.id)
            && in_list(&self.engines, &target.engine)
            && in_list(&self.precisions, &target.precision)
    }
}

impl Place {
    /// Whether a target counts at this place.
    pub fn has(&self, target: &Target) -> bool {
        self.backends.is_empty() || self.backends.contains(&target.backend)
    }
}

impl Hypotheses {
    /// Load and validate. Names are checked against the registry and the scenarios;
    /// `stats::hypotheses::validate` checks metrics, because `stats` defines them.
    pub fn load(
        path: &Path,
        registry: &Registry,
        scenarios: &[Scenario],
    ) -> Result<Self, DataError> {
        read_checked(path, |all: &Self| all.check(registry, scenarios))
    }

    /// Check hypotheses on micro suites against the registry of suites; the error describes the
    /// first fault.
    pub fn check_suites(&self, registry: &MicroRegistry) -> Result<(), String> {
        let mut of_suites = self.hypotheses.iter().filter(|h| h.speaks_of_suites());
        of_suites.try_for_each(|hypothesis| {
            let found = hypothesis.check_suites(registry);
            found.map_err(|fault| in_field(&hypothesis.id, fault))
        })
    }

    /// The place of that id, if there is one.
    pub fn place(&self, id: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.id == id)
    }

    fn check(&self, registry: &Registry, scenarios: &[Scenario]) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        for place in &self.places {
            fits("place", &place.id)?;
            let fail = |field, why: &str| Err(in_field(&place.id, (field, why.to_owned())));
            if !ids.insert(&place.id) {
                return fail("id", "is listed twice");
            }
            if place.about.trim().is_empty() {
                return fail("about", "is empty: say which machine and model");
            }
            if place.command.trim().is_empty() {
                return fail("command", "is empty: say which run would measure it");
            }
        }
        for hypothesis in &self.hypotheses {
            fits("hypothesis", &hypothesis.id)?;
            let fail = |fault: Fault| in_field(&hypothesis.id, fault);
            if !ids.insert(&hypothesis.id) {
                return Err(fail(("id", "is listed twice".into())));
            }
            if self.place(&hypothesis.place).is_none() {
                let why = format!("{:?} is no [[place]] of this file", hypothesis.place);
                return Err(fail(("place", why)));
            }
            hypothesis.check(registry, scenarios).map_err(fail)?;
        }
        Ok(())
    }
}

/// A field, and what is wrong with it.
type Fault = (&'static str, String);

/// Describe a fault of the place or the hypothesis of that id.
fn in_field(id: &str, (field, why): Fault) -> String {
    format!("{id:?}, field `{field}`: {why}")
}

impl Hypothesis {
    fn check(&self, registry: &Registry, scenarios: &[Scenario]) -> Result<(), Fault> {
        let texts = [
            ("group", &self.group),
            ("says", &self.says),
            ("reading", &self.reading),
        ];
        if let Some((field, _)) = texts.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err((field, "is empty".into()));
        }
        let is_empty = |command: &String| command.trim().is_empty();
        if self.command.as_ref().is_some_and(is_empty) {
            return Err(("command", "is empty: leave it out for its place's".into()));
        }
        // Names of suites and variants are checked against their own registry.
        let registry = (!self.speaks_of_suites()).then_some(registry);
        for id in &self.scenarios {
            if registry.is_some() && !scenarios.iter().any(|scenario| scenario.id == *id) {
                return Err(("scenarios", format!("{id:?} is no scenario")));
            }
        }
        check_selector("of", &self.of, registry)?;
        let needs_metric = matches!(self.claim, Claim::Range { .. });
        if needs_metric && self.metric.is_none() {
            return Err(("metric", "a range needs one: its bounds have a unit".into()));
        }
        self.claim.check(registry)
    }

    /// Whether the hypothesis is about micro suites.
    pub fn speaks_of_suites(&self) -> bool {
        !self.scenarios.is_empty() && self.scenarios.iter().all(|id| is_micro(id))
    }

    /// The command whose run would settle it.
    pub fn command<'a>(&'a self, place: &'a Place) -> &'a str {
        self.command.as_deref().unwrap_or(&place.command)
    }

    /// Find the first suite or variant that doesn't exist, and the field that names it.
    fn check_suites(&self, registry: &MicroRegistry) -> Result<(), Fault> {
        let mut variants = Vec::new();
        for id in &self.scenarios {
            let mut suites = registry.suites.iter();
            let Some(suite) = suites.find(|suite| scenario_id(&suite.id) == *id) else {
                return Err(("scenarios", format!("{id:?} is no suite of micro.toml")));
            };
            variants.extend(suite.variants.iter().map(|variant| &variant.id));
        }
        let against = match &self.claim {
            Claim::Ratio { against, .. } => against.as_slice(),
            _ => &[],
        };
        let named = [
            ("of", self.of.targets.as_slice()),
            ("claim.against", against),
        ];
        for (field, ids) in named {
            if let Some(id) = ids.iter().find(|id| !variants.contains(id)) {
                let suites = self.scenarios.join(" or ");
                return Err((field, format!("{id:?} is no variant of {suites}")));
            }
        }
        Ok(())
    }
}

impl Claim {
    fn check(&self, registry: Option<&Registry>) -> Result<(), Fault> {
        match self {
            Claim::Range { min, max } => check_bounds(*min, *max),
            Claim::Ratio { against, min, max } => {
                if against.is_empty() {
                    return Err(("claim.against", "names no target".into()));
                }
                let against = Selector {
                    targets: against.clone(),
                    ..Selector::default()
                };
                check_selector("claim.against", &against, registry)?;
                if [min, max].into_iter().flatten().any(|x| *x <= 0.0) {
                    return Err(("claim", "a ratio is more than 0".into()));
                }
                check_bounds(*min, *max)
            }
            Claim::Highest { among }
            | Claim::Lowest { among }
            | Claim::LeastVariation { among } => check_selector("claim.among", among, registry),
            Claim::Variation { max } if !(max.is_finite() && *max > 0.0) => {
                Err(("claim.max", "must be a fraction above 0".into()))
            }
            Claim::Samples { min: 0 } => Err(("claim.min", "must be at least 1".into())),
            Claim::Linear { min } if !(*min > 0.0 && *min <= 1.0) => {
                Err(("claim.min", "must be a fraction above 0, at most 1".into()))
            }
            Claim::Unmeasured { why } if why.trim().is_empty() => {
                Err(("claim.why", "is empty".into()))
            }
            _ => Ok(()),
        }
    }
}

fn check_bounds(min: Option<f64>, max: Option<f64>) -> Result<(), Fault> {
    let bounds = [min, max];
    if bounds.iter().flatten().any(|bound| !bound.is_finite()) {
        return Err(("claim", "a bound is not a finite number".into()));
    }
    match (min, max) {
        (None, None) => Err(("claim", "has neither `min` nor `max`".into())),
        (Some(min), Some(max)) if min > max => {
            Err(("claim", format!("`min` {min} is more than `max` {max}")))
        }
        _ => Ok(()),
    }
}

/// Check names against a registry; `None` where they are names of suites, which it doesn't have.
fn check_selector(
    field: &'static str,
    of: &Selector,
    registry: Option<&Registry>,
) -> Result<(), Fault> {
    let Some(registry) = registry else {
        return Ok(());
    };
    let targets = registry.targets();
    for id in &of.targets {
        if !targets.iter().any(|target| target.id == *id) {
            return Err((field, format!("{id:?} is no target of engines.toml")));
        }
    }
    for id in &of.engines {
        if registry.engine(id).is_none() {
            return Err((field, format!("{id:?} is no engine of engines.toml")));
        }
    }
    for id in &of.precisions {
        if !targets.iter().any(|target| target.precision == *id) {
            return Err((field, format!("no target has precision {id:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
