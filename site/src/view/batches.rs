//! Batches that had fewer requests than were in flight: what is measured then is that of smaller
//! batches, and of waiting for another.

use crate::fmt::{self, Unit};
use schema::plan::Case;
use stats::analysis::{Cell, MetricId, Shape};

/// Mean number of requests in a batch of a cell, in words, where 5 % of them or more ran in smaller
/// batches than the case's number in flight (the last ones of a loop do); `None` where batches were
/// full or their sizes aren't known.
pub fn smaller(cell: &Cell, case: &Case) -> Option<String> {
    let of_requests = of_requests(cell)?;
    let is_smaller = of_requests.p5 < f64::from(case.concurrency);
    is_smaller.then(|| fmt::quantity(Unit::Count, of_requests.mean))
}

/// Like [`smaller`], for targets that put requests together at all; one that doesn't has batches of
/// one by design.
pub fn smaller_of_several(cell: &Cell, case: &Case) -> Option<String> {
    smaller(cell, case).filter(|_| of_requests(cell).is_some_and(|shape| shape.max > 1.0))
}

/// The batches of the cell's requests. The metric's value is a mean of medians, which stays that of
/// full batches where up to half of them are smaller.
fn of_requests(cell: &Cell) -> Option<&Shape> {
    cell.metric(MetricId::BatchRequests)?.shape.as_ref()
}
