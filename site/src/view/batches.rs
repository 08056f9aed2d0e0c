//! Batches that had fewer requests than were in flight: what is measured then is that of smaller
//! batches, and of waiting for another.

use crate::fmt::{self, Unit};
use schema::plan::Case;
use stats::analysis::{Cell, MetricId};

/// Share of the requests in flight from which a batch counts as full: a loop's last batches are
/// smaller.
const FULL: f64 = 0.95;

/// Mean number of requests in a batch of a cell, in words, where it is smaller than the number in
/// flight of the cell's case; `None` where batches were full or their sizes aren't known.
pub fn smaller(cell: &Cell, case: &Case) -> Option<String> {
    let batch = cell.metric(MetricId::BatchRequests)?.value;
    let is_smaller = batch < FULL * f64::from(case.concurrency);
    is_smaller.then(|| fmt::quantity(Unit::Count, batch))
}

/// Like [`smaller`], for targets that put requests together at all; one that doesn't has batches of
/// one by design.
pub fn smaller_of_several(cell: &Cell, case: &Case) -> Option<String> {
    let batch = cell.metric(MetricId::BatchRequests)?.value;
    smaller(cell, case).filter(|_| batch > 1.0)
}
