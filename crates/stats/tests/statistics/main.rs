//! Tests of the statistics on made-up runs: against values worked out by hand, against NumPy and
//! SciPy, and by their properties.

mod between;
mod canary;
mod cells;
mod common;
mod comparisons;
mod hypotheses;
mod kernels;
mod micro;
mod noise;
mod open_loop;
mod properties;
mod reference;
mod scipy;
mod stopped;
mod telemetry;
mod timing;
mod values;
