//! Batches that had fewer requests than were in flight: what is measured then is that of smaller
//! batches, and of waiting for another.

use crate::fmt::{self, Unit};
use schema::plan::Case;
use stats::analysis::{Cell, MetricId};
use stats::describe::mean;

/// Share of a cell's requests that may run in smaller batches without a remark, as the last ones of
/// a loop do.
const SHARE_MAX: f64 = 0.05;

/// Mean number of requests in a batch of a cell, in words, where too many of them ran in smaller
/// batches than the case's number in flight; `None` where batches were full or their sizes aren't
/// known.
pub fn smaller(cell: &Cell, case: &Case) -> Option<String> {
    let batches = batches(cell)?;
    let full = f64::from(case.concurrency);
    let small = batches.iter().filter(|batch| **batch < full).count();
    let mean = mean(batches).filter(|_| small as f64 > SHARE_MAX * batches.len() as f64)?;
    Some(fmt::quantity(Unit::Count, mean))
}

/// Like [`smaller`], for targets that put requests together at all; one that doesn't has batches of
/// one by design.
pub fn smaller_of_several(cell: &Cell, case: &Case) -> Option<String> {
    let puts_together = mean(batches(cell)?)? > 1.0;
    smaller(cell, case).filter(|_| puts_together)
}

/// The batches of the cell's requests, or 160 of them at even distances by size. The metric's value
/// is a mean of medians, which stays that of full batches where up to half of them are smaller.
fn batches(cell: &Cell) -> Option<&[f64]> {
    let batches = cell.metric(MetricId::BatchRequests)?;
    Some(&batches.shape.as_ref()?.quantiles)
}
