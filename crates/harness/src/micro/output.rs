//! Judges the outputs of calls: each is read whole from the file that the program wrote, and
//! compared with the reference's output, which is computed once per case and run.

use super::Context;
use super::session::Session;
use crate::engine::EngineFailure;
use crate::engine::session::Timeouts;
use protocol::micro::wire::{Load, Prepare};
use schema::micro::{PlannedSuite, SuiteCase, Variant};
use schema::plan::Plan;
use schema::record::Status;
use std::collections::BTreeMap;
use std::path::Path;

/// The reference's output for a case, and the work of a call as it counts it.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    values: Vec<f64>,
    work: f64,
}

/// The references of a run by suite and case; each is computed once.
#[derive(Default)]
pub(crate) struct References(BTreeMap<(String, String), Result<Reference, EngineFailure>>);

impl References {
    /// The reference of a case. Where it fails, no variant can be verified in this case.
    pub(crate) fn get(
        &mut self,
        context: &Context,
        suite: &PlannedSuite,
        case: &SuiteCase,
    ) -> Result<&Reference, EngineFailure> {
        let key = (suite.id.clone(), case.id.clone());
        let known = self.0.entry(key);
        let found = known.or_insert_with(|| {
            ask(context, suite, case).map_err(|failure| {
                let status = match failure.status {
                    Status::NotRun => Status::NotRun,
                    _ => Status::Unavailable,
                };
                EngineFailure::new(status, format!("the reference: {}", failure.reason))
            })
        });
        found.as_ref().map_err(Clone::clone)
    }
}

/// Start a process of the reference for one case, which is not timed, and read its output.
fn ask(
    context: &Context,
    suite: &PlannedSuite,
    case: &SuiteCase,
) -> Result<Reference, EngineFailure> {
    let program = context.programs.get(&suite.reference)?;
    let load = load(context.plan, context.model_dir, suite, &suite.reference);
    let timeouts = Timeouts::new(context.plan, context.control);
    let mut session = Session::open(program, &load, &timeouts)?;
    let prepared = session.prepare(prepare(case))?;
    let values = session.output(&context.scratch.join("reference.f64"))?;
    session.close()?;
    if values.iter().all(|value| value.is_finite()) {
        return Ok(Reference {
            values,
            work: prepared.work,
        });
    }
    Err(EngineFailure::new(
        Status::WrongOutput,
        "a value that is not finite",
    ))
}

/// The load message for a program of a suite.
pub(crate) fn load(plan: &Plan, model_dir: &Path, suite: &PlannedSuite, variant: &Variant) -> Load {
    Load {
        suite: suite.id.clone(),
        variant: variant.run.clone(),
        backend: variant.backend.clone(),
        precision: variant.precision.clone(),
        threads: plan.threads,
        model_dir: model_dir.display().to_string(),
        seed: plan.seed,
    }
}

/// The message that prepares a case.
pub(crate) fn prepare(case: &SuiteCase) -> Prepare {
    Prepare {
        case: case.id.clone(),
        params: case.params.clone(),
    }
}

/// The largest error of any value, relative to the reference's value of largest magnitude, or why
/// the output is wrong.
pub(super) fn judge(
    reference: &Reference,
    work: f64,
    values: &[f64],
    limit: f64,
) -> Result<f64, String> {
    if work != reference.work {
        return Err(format!(
            "says that a call is {work} of work, the reference {}",
            reference.work
        ));
    }
    let (own, its) = (values.len(), reference.values.len());
    if own != its {
        return Err(format!("{own} values, the reference has {its}"));
    }
    let magnitudes = reference.values.iter().map(|value| value.abs());
    let scale = magnitudes.fold(0.0, f64::max);
    let mut worst = 0.0;
    for (index, (value, expected)) in values.iter().zip(&reference.values).enumerate() {
        let difference = (value - expected).abs();
        // Where all reference values are 0, any difference is infinite.
        let error = match difference == 0.0 {
            true => 0.0,
            false => difference / scale,
        };
        if error.is_nan() || error > limit {
            return Err(format!(
                "value {index} is {value}, the reference has {expected}: an error of {error:.2e}, more than {limit:.0e}"
            ));
        }
        worst = f64::max(worst, error);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference() -> Reference {
        Reference {
            values: vec![1.0, -4.0, 0.0],
            work: 3.0,
        }
    }

    #[test]
    fn the_error_is_relative_to_the_largest_magnitude() {
        let judged = judge(&reference(), 3.0, &[1.0, -4.0, 0.001], 1e-3);
        assert_eq!(judged, Ok(0.00025));
        assert_eq!(judge(&reference(), 3.0, &[1.0, -4.0, 0.0], 0.0), Ok(0.0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong =
            |work, values: &[f64], limit| judge(&reference(), work, values, limit).unwrap_err();
        assert!(wrong(3.0, &[1.0, -4.1, 0.0], 1e-3).contains("value 1"));
        assert!(wrong(3.0, &[1.0, f64::NAN, 0.0], 1.0).contains("NaN"));
        assert!(wrong(3.0, &[1.0, -4.0], 1.0).contains("2 values"));
        assert!(wrong(2.0, &[1.0, -4.0, 0.0], 1.0).contains("2 of work"));
        // Limit 0 means equal.
        assert!(wrong(3.0, &[1.0, -4.0, 1e-300], 0.0).contains("value 2"));
    }
}
