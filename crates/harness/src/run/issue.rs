//! Issues a case's requests in the load shape of its scenario.

use super::closed_loop::{Extent, Issuer};
use super::load::{CaseError, CasePrompts, Sink, Window};
use super::open_loop::{self, Offered};
use super::serial::Serial;
use crate::engine::session::Session;
use schema::plan::Case;
use schema::record::{RecordEvent, RequestRecord};
use schema::scenario::LoadShape;

/// Issue the requests of a case. For an open loop, `offered` must give its rate.
pub fn issue(
    session: &mut Session,
    shape: LoadShape,
    case: &Case,
    warmup: u32,
    offered: Option<Offered>,
    prompts: CasePrompts,
    sink: Sink,
) -> Result<Window, CaseError> {
    if let Some(offered) = offered {
        return open_loop::issue(session, shape, case, warmup, &offered, prompts, sink);
    }
    let users = case.concurrency;
    match shape {
        LoadShape::Serial => Serial::new(case, prompts).all(session, warmup, sink),
        // A closed loop of one user is also one request at a time.
        LoadShape::ClosedLoop if users == 1 => {
            Serial::new(case, prompts).all(session, warmup.max(1), sink)
        }
        LoadShape::ClosedLoop => {
            let extent = Extent::of_case(case, warmup);
            let done = Issuer::new(session, case, prompts, sink).closed_loop(&extent)?;
            Ok(done.window)
        }
        LoadShape::Batch => Issuer::new(session, case, prompts, sink).batches(users),
        LoadShape::Poisson | LoadShape::ConstantRate => {
            panic!("an open loop is launched only with its capacity measured (see `pending`)")
        }
    }
}

/// Issue the requests of a case as [`issue`] does; returns the timed ones.
pub fn timed(
    session: &mut Session,
    shape: LoadShape,
    case: &Case,
    warmup: u32,
    offered: Option<Offered>,
    prompts: CasePrompts,
) -> Result<Vec<RequestRecord>, CaseError> {
    let mut timed = Vec::new();
    let mut keep = |event| {
        if let RecordEvent::Request(request) = event
            && !request.warmup
        {
            timed.push(request);
        }
        Ok(())
    };
    issue(session, shape, case, warmup, offered, prompts, &mut keep)?;
    Ok(timed)
}
