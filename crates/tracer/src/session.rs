//! The tracing session of a process: the data that its callbacks share, and when records are
//! fetched.

use crate::clock::{self, now_ns};
use crate::cupti::{self, Functions, Status};
use crate::trace_file::TraceFile;
use schema::kernels::{ClockMapping, ClockSample, TraceEnd, TraceEvent};
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Time between two fetches of finished records: a killed process loses the records of this time.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Longest time that the exit waits for a fetch that is under way.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// The data that the callbacks need. It is global because CUPTI passes them no pointer of ours.
pub struct Session {
    /// The functions of CUPTI.
    pub cupti: Functions,
    /// How CUPTI's times are converted to our clock; `None` where its clock can't be read.
    pub mapping: Option<ClockMapping>,
    file: Mutex<TraceFile>,
    /// Locked while records are fetched, so that the exit doesn't shut CUPTI down meanwhile.
    flushing: Mutex<()>,
    pid: u32,
}

/// The session of this process, set once, before CUPTI is given any callback.
pub static SESSION: OnceLock<Session> = OnceLock::new();

/// Compare CUPTI's clock with ours; `None` where CUPTI's can't be read.
pub fn sample(cupti: &Functions) -> Option<ClockSample> {
    clock::sample(
        || now_ns(),
        || {
            let mut reading_ns = 0;
            // SAFETY: `reading_ns` is writable for the call.
            let status = unsafe { (cupti.get_timestamp)(&mut reading_ns) };
            (status == 0).then_some(reading_ns)
        },
    )
}

impl Session {
    /// Create the tracing session of this process.
    pub fn new(cupti: Functions, mapping: Option<ClockMapping>, file: TraceFile) -> Self {
        Self {
            cupti,
            mapping,
            file: Mutex::new(file),
            flushing: Mutex::new(()),
            pid: std::process::id(),
        }
    }

    /// Lock the trace's file.
    pub fn file(&self) -> MutexGuard<'_, TraceFile> {
        self.file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a call of CUPTI succeeded. If not, the failure is written to the trace.
    pub fn worked(&self, what: &str, status: Status) -> bool {
        if status != 0 {
            let reason = format!("{}{}", self.words(status), cupti::advice(status));
            self.file().failure(what, Some(status), reason);
        }
        status == 0
    }

    fn words(&self, status: Status) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: `text` is writable for the call.
        let found = unsafe { (self.cupti.get_result_string)(status, &mut text) };
        if found != 0 || text.is_null() {
            return format!("CUPTI status {status}");
        }
        // SAFETY: CUPTI gave a C string of its own, which is never freed.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// Fetch finished records periodically, until the trace is closed.
    pub fn fetch_until_closed(&self) {
        loop {
            std::thread::sleep(FLUSH_EVERY);
            let _alone = self.flushing.lock().unwrap_or_else(|p| p.into_inner());
            if !self.file().is_open() {
                return;
            }
            // What fails now may work later; a lasting failure is reported at the exit.
            // SAFETY: plain call; it may run on any thread.
            let _ = unsafe { (self.cupti.flush_all)(0) };
        }
    }

    /// Fetch the last records and close the trace.
    pub fn end(&self) {
        // A forked child has our memory, but not our threads, and the trace isn't its to end.
        if self.pid != std::process::id() {
            return;
        }
        let deadline = Instant::now() + EXIT_PATIENCE;
        let _alone = loop {
            match self.flushing.try_lock() {
                Ok(alone) => break Some(alone),
                Err(_) if Instant::now() >= deadline => break None,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        // SAFETY: plain call; no lock of ours that the callbacks take is held.
        let status = unsafe { (self.cupti.flush_all)(cupti::FLUSH_FORCED) };
        self.worked("cuptiActivityFlushAll", status);
        let clock = sample(&self.cupti);
        let mut file = self.file();
        let end = TraceEnd {
            kernels: file.kernels(),
            clock,
            end_ns: now_ns(),
        };
        file.close(&TraceEvent::End(end));
    }
}
