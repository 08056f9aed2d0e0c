//! A process that has loaded its model, and everything that observes it while it works.

use super::audit::Audit;
use crate::engine::session::Session;
use crate::gpu;
use crate::telemetry::{Sampler, peak_rss_bytes, reset_peak_rss};
use ceilings::Canary;
use schema::plan::Case;
use schema::record::CanaryReading;

pub(super) struct Engine {
    pub(super) session: Session,
    pub(super) sampler: Sampler,
    /// Compares the process's stamps with the tokens that it commits.
    pub(super) audit: Audit,
    /// Readings of the machine's speed around the case.
    pub(super) canary: Vec<CanaryReading>,
    /// Whether the process serves several scenarios, so that a peak of memory must be counted from
    /// the start of a case.
    shared: bool,
    /// Whether the peak of memory is known: the process's, or that since the case began.
    knows_peak: bool,
}

impl Engine {
    /// Observe a process of this backend from now on, at moments drawn from `seed`; `shared`: it
    /// serves several scenarios.
    pub(super) fn new(session: Session, backend: &str, seed: u64, shared: bool) -> Self {
        Self {
            sampler: Sampler::start(session.process.pid(), gpu::device_of(backend)),
            audit: Audit::new(&session, seed ^ session.process.start_ns),
            canary: Vec::new(),
            session,
            shared,
            knows_peak: false,
        }
    }

    /// Begin a case with a reading of the machine's speed.
    pub(super) fn begin(&mut self, case: &Case, canary: &Canary) {
        self.canary.clear();
        self.look(canary);
        self.reset_peak();
        self.sampler.begin(&case.id);
        self.audit.begin();
        self.audit.watch();
    }

    pub(super) fn begin_turns(&mut self, case: &Case) {
        self.canary.clear();
        self.reset_peak();
        self.sampler.begin_turns(&case.id);
        self.audit.begin();
    }

    /// Read the machine's speed while the process is stopped, because a library's threads may spin
    /// for a while after a request.
    pub(super) fn look(&mut self, canary: &Canary) {
        self.session.process.pause();
        self.canary.push(canary.look());
        self.session.process.resume();
    }

    /// Read the machine's speed before a turn, with the process stopped, unless the last reading is
    /// still fresh.
    pub(super) fn look_before_turn(&mut self, canary: &Canary) {
        if self.canary.is_empty() || canary.is_due() {
            self.canary.push(canary.look());
        }
    }

    /// Read the machine's speed after the last turn, with the process stopped, where the turns have
    /// only one reading: of two the better counts.
    pub(super) fn look_after_turns(&mut self, canary: &Canary) {
        if self.canary.len() < 2 {
            self.canary.push(canary.look());
        }
    }

    fn reset_peak(&mut self) {
        self.knows_peak = !self.shared || reset_peak_rss(self.session.process.pid());
    }

    /// The peak resident memory of the process since it was started or, where it serves several
    /// scenarios, since the case began (bytes), if that is known.
    pub(super) fn peak_rss_bytes(&self) -> Option<u64> {
        peak_rss_bytes(self.session.process.pid()).filter(|_| self.knows_peak)
    }
}
