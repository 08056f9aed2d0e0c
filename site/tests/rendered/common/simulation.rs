//! An invented outcome of `cargo xtask simulate`.

use schema::simulation::{Found, PowerRow, ShapeRow, Simulation, SimulationRow};

/// A size without and one with a finding, and one row of power.
pub fn simulation() -> Simulation {
    let found = Found {
        coverage: 0.951,
        false_positive_test: 0.049,
        false_positive: 0.012,
        power_test: 0.31,
        power: 0.17,
        equal: 0.61,
        false_equal: 0.021,
    };
    let row = |invocations, found| SimulationRow {
        profiles: vec!["cpu".into()],
        invocations,
        requests: 20,
        icc: 0.5,
        found,
    };
    Simulation {
        experiments: 2000,
        seed: 1,
        log_stddev: 0.3,
        lag1: 0.5,
        difference: 0.05,
        rows: vec![row(1, None), row(5, Some(found))],
        power: vec![PowerRow {
            invocations: 5,
            launch_log_stddev: 0.02,
            found,
        }],
        shapes_difference: 0.2,
        shapes: vec![ShapeRow {
            invocations: 5,
            shape: "10 % of launches take 1.7 times as long".into(),
            found,
        }],
    }
}
