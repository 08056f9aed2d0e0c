//! Whether the machine was slower beside an invocation than it usually was in its run, by known
//! work that the harness did there ([`CanaryReading`]).
//!
//! For each kind of work, an invocation's value is the median of its readings. Of an even number it
//! is the lower of the two in the middle: an effect that slowed only one of two readings was not
//! there all the time. The usual value is the median over all invocations of a run. The spread
//! around it is 1.4826 times the median absolute deviation, which for a normal distribution is its
//! standard deviation; it covers chance and the states that the machine is often in. A kind of work
//! is slow where it took longer than usual by both [`SLOWER_MIN`] and [`SPREADS`] of these spreads.
//! Faster work is no disturbance. Neither is slow work beside which launches took no longer: see
//! [`Unfelt`].

use crate::describe::describe;
use crate::evidence::Attempt;
use crate::slowdown::{Launch, slowdown};
use schema::record::{CanaryReading, CaseEnd};
use schema::run::Run;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

/// The source of this module, from which the data page's description of `results.json` is read.
pub const SOURCE: &str = include_str!("canary.rs");
/// Minimum slowdown of disturbed work, as a fraction of its usual time. Two invocations that differ
/// by less count as reproducible (see [`crate::describe`]).
pub const SLOWER_MIN: f64 = 0.05;
/// Minimum slowdown of disturbed work, in spreads of the run's invocations. In a normal
/// distribution one value in 30 000 is above this by chance, and each invocation has four kinds of
/// work.
pub const SPREADS: f64 = 4.0;
/// Minimum number of invocations from which a band can be told.
const INVOCATIONS_MIN: usize = 20;
/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_STDDEV: f64 = 1.4826;

/// A kind of known work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Integer products on one core.
    OneCore,
    /// Integer products on all cores at once.
    AllCores,
    /// Transfer of a cache line between two cores.
    CacheLine,
    /// A read of memory.
    Memory,
}

impl Work {
    const ALL: [Work; 4] = [Work::OneCore, Work::AllCores, Work::CacheLine, Work::Memory];

    fn reading(self, reading: &CanaryReading) -> Option<u32> {
        match self {
            Work::OneCore => reading.one_core_ns,
            Work::AllCores => reading.all_cores_ns,
            Work::CacheLine => reading.cache_line_ns,
            Work::Memory => reading.memory_ns,
        }
    }

    /// Describe the work in words, such as `a read of memory`.
    pub fn words(self) -> &'static str {
        match self {
            Work::OneCore => "products on one core",
            Work::AllCores => "products on all cores",
            Work::CacheLine => "a cache line between two cores",
            Work::Memory => "a read of memory",
        }
    }
}

/// The work in words.
impl Serialize for Work {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

/// Known work that took longer than usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Kind of work.
    pub work: Work,
    /// Duration (ns).
    pub ns: f64,
    /// Usual duration in this run (ns).
    pub usual_ns: f64,
}

/// A kind of known work that was slow beside some launches, which took no longer on average: the
/// disturbance hit the known work, not what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unfelt {
    /// The work, in words.
    pub work: Work,
    /// Number of launches beside which it was slow, counted by case.
    pub slow: usize,
    /// Number of launches in the cells that have such launches and others, counted by case.
    pub launches: usize,
    /// How many times as long the requests of the slow launches took as those of launches beside
    /// which no kind of work was slow.
    pub ratio: f64,
    /// Its 95 % interval.
    pub ci95: (f64, f64),
    /// Ids of the scenarios whose own launches were slower, by their 95 % interval. In these the
    /// slow work counts as a disturbance.
    pub felt_in: Vec<String>,
}

/// The bands of a run: the usual duration of each kind of work, and the longest that isn't slow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bands {
    all: Vec<Band>,
    /// Kinds of work that were slow and that no engine felt.
    pub(crate) unfelt: Vec<Unfelt>,
}

#[derive(Clone, Copy, Debug)]
struct Band {
    work: Work,
    usual_ns: f64,
    most_ns: f64,
}

impl Bands {
    /// Compute the bands from all invocations of all cases.
    pub(crate) fn new(run: &Run) -> Self {
        let logs = || run.launches.iter().chain(&run.twins);
        let ends = || logs().flat_map(|log| log.case_ends.iter().map(move |end| (log, end)));
        let band = |&work: &Work| {
            let all: Vec<f64> = ends().filter_map(|(_, end)| value(work, end)).collect();
            Band::new(work, &all)
        };
        let all: Vec<Band> = Work::ALL.iter().filter_map(band).collect();
        let beside = |(log, end)| {
            let slow = all.iter().filter(|band| band.is_slow(end));
            Some((
                Launch::new(log, end)?,
                end,
                slow.map(|band| band.work).collect(),
            ))
        };
        let launches: Vec<(Launch, &CaseEnd, Vec<Work>)> = ends().filter_map(beside).collect();
        let unfelt = all.iter().filter_map(|&Band { work, .. }| {
            // Launches beside which only other kinds of work were slow are left out.
            let compared: Vec<(&Launch, bool)> = launches
                .iter()
                .filter(|(_, end, slow)| {
                    value(work, end).is_some() && (slow.is_empty() || slow.contains(&work))
                })
                .map(|(launch, _, slow)| (launch, !slow.is_empty()))
                .collect();
            unfelt(work, &compared)
        });
        Self {
            unfelt: unfelt.collect(),
            all,
        }
    }

    /// Return the work that was slow beside an invocation. `None` where the machine's speed wasn't
    /// measured, or where there is nothing to compare it with.
    pub(crate) fn slow(&self, attempt: &Attempt) -> Option<Vec<Slow>> {
        let seen = |band: &Band| Some((*band, value(band.work, attempt.end)?));
        let seen: Vec<(Band, f64)> = self.all.iter().filter_map(seen).collect();
        let is_felt = |work: Work| {
            let mut unfelt = self.unfelt.iter();
            let unfelt = unfelt.find(|unfelt| unfelt.work == work);
            unfelt.is_none_or(|unfelt| unfelt.felt_in.contains(&attempt.log.launch.scenario))
        };
        (!seen.is_empty()).then(|| {
            seen.into_iter()
                .filter(|(band, ns)| *ns > band.most_ns && is_felt(band.work))
                .map(|(band, ns)| Slow {
                    work: band.work,
                    ns,
                    usual_ns: band.usual_ns,
                })
                .collect()
        })
    }
}

/// Compare the launches beside which a kind of work was slow with those beside which no kind was.
/// `None` where the launches may have been slower too, by [`SLOWER_MIN`] or more.
fn unfelt(work: Work, launches: &[(&Launch, bool)]) -> Option<Unfelt> {
    let of_all = slowdown(launches).filter(|of| of.ci95.1 < 1.0 + SLOWER_MIN)?;
    let scenarios: BTreeSet<&str> = launches.iter().map(|(l, _)| &*l.cell.scenario).collect();
    let is_felt = |scenario: &&str| {
        let of_scenario = launches
            .iter()
            .filter(|(l, _)| l.cell.scenario == **scenario);
        slowdown(&of_scenario.copied().collect::<Vec<_>>()).is_some_and(|of| of.ci95.0 > 1.0)
    };
    Some(Unfelt {
        work,
        slow: of_all.slow,
        launches: of_all.launches,
        ratio: of_all.ratio,
        ci95: of_all.ci95,
        felt_in: scenarios
            .into_iter()
            .filter(is_felt)
            .map(str::to_owned)
            .collect(),
    })
}

impl Band {
    fn new(work: Work, all: &[f64]) -> Option<Self> {
        let described = describe(all).filter(|d| d.n >= INVOCATIONS_MIN)?;
        let spread = MAD_TO_STDDEV * described.mad;
        let usual_ns = described.median;
        Some(Self {
            work,
            usual_ns,
            most_ns: usual_ns + (SPREADS * spread).max(SLOWER_MIN * usual_ns),
        })
    }

    fn is_slow(&self, end: &CaseEnd) -> bool {
        value(self.work, end).is_some_and(|ns| ns > self.most_ns)
    }
}

fn value(work: Work, end: &CaseEnd) -> Option<f64> {
    let readings = end.canary.iter();
    let mut readings: Vec<u32> = readings
        .filter_map(|reading| work.reading(reading))
        .collect();
    readings.sort_unstable();
    let middle = readings.len().checked_sub(1)? / 2;
    Some(f64::from(readings[middle]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(all: &[f64]) -> Option<Band> {
        Band::new(Work::OneCore, all)
    }

    #[test]
    fn a_band_reaches_as_far_as_the_runs_own_spread() {
        let alike = vec![100.0; 30];
        assert_eq!(band(&alike).unwrap().most_ns, 105.0);
        // Half of the invocations are 10 % slower, as in a state that the machine is often in.
        let two: Vec<f64> = (0..30).map(|i| 100.0 + 10.0 * f64::from(i % 2)).collect();
        let two = band(&two).unwrap();
        assert!((two.usual_ns, two.most_ns) == (105.0, 105.0 + 4.0 * 1.4826 * 5.0));
        assert!(band(&alike[..19]).is_none());
    }

    #[test]
    fn an_invocation_has_the_median_of_its_readings() {
        let reading = |ns| CanaryReading {
            memory_ns: Some(ns),
            ..CanaryReading::default()
        };
        let mut end = CaseEnd {
            canary: vec![reading(10), reading(1000), reading(12)],
            ..CaseEnd::default()
        };
        assert_eq!(value(Work::Memory, &end), Some(12.0));
        end.canary.pop();
        assert_eq!(value(Work::Memory, &end), Some(10.0), "not both were slow");
        assert_eq!(value(Work::AllCores, &end), None);
    }
}
