//! A made-up run beside the text of its scenario, to be analysed, and helpers that tests share.

pub use fixtures::{CASE, Engine, SCENARIO, case, check, log, unit};

use schema::hypothesis::{CaseSelector, Claim, Hypothesis, Place, Selector};
use schema::key::{Twin, TwinRole, twin_name};
use schema::launch_log::LaunchLog;
use schema::record::{CheckRecord, RequestRecord, Status};
use schema::run::Run;
use schema::scenario::{Axis, LoadShape, Scenario};
use stats::analysis::{Analysis, Cell, Metric, MetricId};

/// Assert equality to a relative 1e-9.
#[track_caller]
pub fn assert_close(got: f64, want: f64) {
    let scale = want.abs().max(f64::MIN_POSITIVE);
    assert!(
        (got - want).abs() <= 1e-9 * scale,
        "got {got:e}, want {want:e}"
    );
}

/// A run of one serial case, `invocations` × `requests`, without any failure.
#[derive(Clone)]
pub struct Made {
    pub run: Run,
    pub scenarios: Vec<Scenario>,
}

pub fn made(engines: &[Engine], invocations: u32, requests: u32) -> Made {
    Made {
        run: fixtures::run(engines, invocations, requests, 0),
        scenarios: vec![scenario(&["ttft_ns", "itl_ns"])],
    }
}

impl Made {
    pub fn analyse(&self) -> Analysis {
        stats::analyse(&self.run, &self.scenarios, "base.cpu.f32")
    }

    /// Return the first cell: the only one of a run with one target.
    pub fn cell(&self) -> Cell {
        self.analyse().cells.remove(0)
    }

    /// Add the judgement of a cell's outputs.
    pub fn judge(&mut self, check: CheckRecord) {
        self.run.checks.insert(check.key(), check);
    }

    /// Let a target run twice: these are its second launches, one for each block.
    pub fn twice(&mut self, target: &str, second: impl Iterator<Item = LaunchLog>) {
        for mut log in second {
            log.launch.target = twin_name(target);
            self.run.twins.push(log);
        }
        let budget = self.run.budget.get_or_insert_default();
        budget.twins.push(Twin {
            target: target.into(),
            role: TwinRole::Fastest,
            cost_s: 1.0,
        });
    }

    pub fn log(&mut self, invocation: u32) -> &mut LaunchLog {
        self.run
            .launches
            .iter_mut()
            .find(|log| log.launch.invocation == invocation)
            .expect("the invocation is there")
    }

    /// Change every request of the run.
    pub fn each(&mut self, mut change: impl FnMut(&mut RequestRecord)) {
        for log in &mut self.run.launches {
            log.requests.iter_mut().for_each(&mut change);
        }
    }

    pub fn reports(mut self, names: &[&str]) -> Self {
        self.scenarios = vec![scenario(names)];
        self
    }
}

/// Assert that the made run's only cell has this status, a reason with this in it, and no numbers.
#[track_caller]
pub fn assert_refused(made: &Made, status: Status, reason: &str) {
    let cell = made.cell();
    assert_eq!(cell.status, status, "{}", cell.reason);
    assert!(cell.reason.contains(reason), "{}", cell.reason);
    assert!(!cell.reason.contains('\n'));
    assert!(cell.metrics.is_empty());
    assert_eq!(cell.rank, None);
    assert!(made.analyse().comparisons.is_empty());
}

/// Return a plain engine, the baseline.
pub fn plain() -> Engine {
    Engine::plain("base.cpu.f32")
}

pub fn metric(cell: &Cell, id: MetricId) -> &Metric {
    let metric = cell.metric(id);
    metric.unwrap_or_else(|| panic!("no {} in {cell:?}", id.describe().name))
}

pub fn scenario(reports: &[&str]) -> Scenario {
    Scenario {
        id: SCENARIO.into(),
        version: 1,
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: reports.iter().map(|&name| name.to_owned()).collect(),
        ..Scenario::default()
    }
}

/// Make a place that targets on these backends are measured for; without one, any.
pub fn place(backends: &[&str]) -> Place {
    Place {
        id: "p".into(),
        about: "any".into(),
        backends: backends.iter().map(|&b| b.to_owned()).collect(),
        parameters_min: None,
        command: "make it so".into(),
    }
}

/// Make a prediction about each scenario's leading metric of these targets; without one, of all.
pub fn prediction(claim: Claim, scenario: &str, targets: &[&str]) -> Hypothesis {
    Hypothesis {
        id: "h".into(),
        group: "g".into(),
        says: "s".into(),
        reading: "r".into(),
        place: "p".into(),
        claim,
        metric: None,
        scenarios: vec![scenario.into()],
        at: CaseSelector::default(),
        of: Selector {
            targets: targets.iter().map(|&t| t.to_owned()).collect(),
            ..Selector::default()
        },
        per_engine: false,
        any: false,
        by_construction: false,
        command: None,
    }
}
