//! Counts the requests that a scheduler has at the same time, for one whose engine doesn't show
//! which of them share a step: this is the best known upper bound.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests in flight, each with the peak of their number.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<Vec<Arc<AtomicU32>>>>);

/// A request's entry, which is removed when this is dropped.
pub struct Seat {
    all: InFlight,
    peak: Arc<AtomicU32>,
}

impl InFlight {
    /// Add a request.
    pub fn join(&self) -> Seat {
        let peak = Arc::new(AtomicU32::new(0));
        let mut peaks = self.peaks();
        peaks.push(peak.clone());
        let together = peaks.len() as u32;
        for peak in peaks.iter() {
            peak.fetch_max(together, Ordering::Relaxed);
        }
        drop(peaks);
        Seat {
            all: self.clone(),
            peak,
        }
    }

    fn peaks(&self) -> MutexGuard<'_, Vec<Arc<AtomicU32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Remove the request; return the largest number of requests that were in flight while it was,
    /// itself included.
    pub fn leave(self) -> u32 {
        let peak = self.peak.clone();
        drop(self);
        peak.load(Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.all
            .peaks()
            .retain(|peak| !Arc::ptr_eq(peak, &self.peak));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_of_ones_own_life() {
        let all = InFlight::default();
        let first = all.join();
        let second = all.join();
        assert_eq!(first.leave(), 2);
        let third = all.join();
        assert_eq!((third.leave(), second.leave()), (2, 2));
        let fourth = all.join();
        drop(fourth);
        assert_eq!(all.join().leave(), 1);
    }
}
