//! What a run's pilot says of a cell without a number. The pilot is one launch of each target before
//! anything is measured, so its times are estimates: they stand in no table of results.

use crate::fmt::{self, Unit};
use crate::view::Shown;
use crate::words::plural;
use schema::budget::{Round, about};
use schema::plan::Case;

/// Say how long a target took for as many requests as a case has in flight, such as `11.7 s for
/// 1 request`; `None` where the pilot timed no such request.
pub fn took(shown: &Shown, case: &Case, target: &str) -> Option<String> {
    let round = round(shown, case, target)?;
    Some(format!(
        "{} for {}",
        fmt::quantity(Unit::Ns, round.round_s * 1e9),
        plural(u64::from(case.concurrency), "request", "requests")
    ))
}

/// Say how long all requests of a case would take a target, such as `its 100 requests would take
/// about 25 min`; `None` where the pilot timed no such request.
pub fn whole(shown: &Shown, case: &Case, target: &str) -> Option<String> {
    let round = round(shown, case, target)?;
    let requests = shown.run.header.plan.requests(case);
    let rounds = requests as f64 / f64::from(case.concurrency.max(1));
    Some(format!(
        "its {} would take about {}",
        plural(requests, "request", "requests"),
        about(rounds * round.round_s)
    ))
}

/// The pilot's round with the load of a case; `None` where the pilot had none, where another
/// scenario measures the case, where its load is a share of the target's capacity, or where prompts
/// begin alike, which the pilot's don't.
fn round<'a>(shown: &Shown<'a>, case: &Case, target: &str) -> Option<&'a Round> {
    let is_another = case.measured_by.is_some() || case.load_percent.is_some();
    if is_another || case.shared_tokens() > 0 {
        return None;
    }
    let mut pilots = shown.run.budget.iter().flat_map(|budget| &budget.pilots);
    let pilot = pilots.find(|pilot| pilot.target == target)?;
    pilot.rounds.iter().find(|round| case.is_timed_by(round))
}
