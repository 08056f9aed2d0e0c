//! Statistics over samples. Pure: no I/O, no clock, no randomness that isn't seeded by the caller;
//! equal records give equal bytes.
//!
//! The basic functions, one subject a file, know nothing of engines. They return `None` for input
//! that is empty or not finite, so that no NaN reaches a page. On top of them [`analyse()`] turns a
//! run's records into cells, comparisons and ranks, and [`between()`](between::between) compares
//! two runs. The wording and display of results are the site's task.

pub mod agreement;
pub mod alone;
pub mod analyse;
pub mod analysis;
pub mod between;
pub mod calibration;
pub mod canary;
pub mod ci;
mod compare;
pub mod cost;
pub mod counters;
pub mod decide;
pub mod describe;
pub mod disturbance;
mod evidence;
pub mod family;
pub mod hypotheses;
mod judge;
pub mod kernels;
pub mod metrics;
pub mod micro;
pub mod noise;
pub mod open_loop;
pub mod opportunity;
pub mod pairs;
pub mod percentile;
pub mod power_law;
pub mod prefix;
pub mod random;
pub mod ratio;
mod sameness;
mod samples;
mod scaling;
pub mod sequence;
pub mod simulate;
pub mod simulate_percentile;
pub mod simulate_until;
mod slowdown;
pub mod stationarity;
pub mod tie;
pub mod timing;
pub mod usl;
pub mod utilization;
pub mod window;
pub mod witness;

pub use analyse::analyse;
pub use compare::{ALPHA, MATTERS};
