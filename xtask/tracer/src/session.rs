//! One traced process, from the driver's call to the process's exit: what is asked of
//! CUPTI in which order, and what is fetched when.

use crate::buffers::{buffer_completed, buffer_requested};
use crate::clock::{self, now_ns};
use crate::cupti::{self, Functions, Status};
use crate::library;
use crate::trace_file::TraceFile;
use schema::kernels::{
    ClockMapping, ClockMethod, ClockSample, TRACE_FORMAT, TRACE_VARIABLE, TraceEnd, TraceEvent,
    TraceHeader,
};
use std::ffi::{CStr, c_char};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// How often finished records are fetched: what a killed process loses at most.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How long the exit waits for a fetch that is under way.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

/// What the callbacks need. CUPTI gives them no pointer of ours, so it is global.
pub struct Session {
    /// CUPTI.
    pub cupti: Functions,
    /// How its times become ours.
    pub mapping: Option<ClockMapping>,
    file: Mutex<TraceFile>,
    /// Held while records are fetched, so that the exit doesn't tear CUPTI down below it.
    flushing: Mutex<()>,
    pid: u32,
}

/// Set once, before CUPTI is told of any callback.
pub static SESSION: OnceLock<Session> = OnceLock::new();

/// Begin tracing, or write why not.
pub fn begin() {
    if SESSION.get().is_some() {
        return; // a driver that asks twice
    }
    let Some(path) = std::env::var_os(TRACE_VARIABLE).filter(|path| !path.is_empty()) else {
        eprintln!("kernel tracer: {TRACE_VARIABLE} names no file, so nothing is traced");
        return;
    };
    match TraceFile::create(Path::new(&path)) {
        Ok(file) => begin_into(file),
        // Such as a child process that inherited our variables.
        Err(reason) => eprintln!("kernel tracer: {reason}; nothing is traced"),
    }
}

fn begin_into(mut file: TraceFile) {
    let opened_ns = now_ns();
    let named = std::env::var(library::LIBRARY_VARIABLE).ok();
    let found = library::open(named.as_deref().filter(|path| !path.is_empty()));
    let version = found.as_ref().ok().and_then(|cupti| {
        let mut version = 0;
        // SAFETY: `version` is writable for the call.
        let status = unsafe { (cupti.get_version)(&mut version) };
        (status == 0).then_some(version)
    });
    let known = version.is_some_and(cupti::is_known);
    // Nothing more is asked of a library that we don't know.
    let usable = found.as_ref().ok().filter(|_| known);
    let mapping = usable.and_then(map_clock);
    file.event(&TraceEvent::Header(TraceHeader {
        format: TRACE_FORMAT,
        synthetic: false,
        tracer: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        opened_ns,
        cupti_version: version,
        clock: mapping,
    }));
    let cupti = match found {
        Ok(cupti) => cupti,
        Err(reason) => return file.failure("libcupti", None, reason),
    };
    if !known {
        let reason = match version {
            Some(version) => format!(
                "its API version {version} is none that this tracer was written for (CUDA 12: 19 to 99, CUDA 13: 130000 to 139999)"
            ),
            None => "it does not say its version".into(),
        };
        return file.failure("libcupti", None, reason);
    }
    let session = Session {
        cupti,
        mapping,
        file: Mutex::new(file),
        flushing: Mutex::new(()),
        pid: std::process::id(),
    };
    if SESSION.set(session).is_ok() {
        enable(SESSION.get().expect("it was set in the line above"));
    }
}

/// Have CUPTI read our clock, else learn how far its own is from ours.
fn map_clock(cupti: &Functions) -> Option<ClockMapping> {
    // SAFETY: `now_ns` has the type that CUPTI declares, and lives as long as the process.
    let registered = cupti
        .register_timestamp
        .is_some_and(|register| unsafe { register(now_ns) } == 0);
    Some(ClockMapping {
        method: match registered {
            true => ClockMethod::Callback,
            false => ClockMethod::Offset,
        },
        sample: sample(cupti)?,
    })
}

fn sample(cupti: &Functions) -> Option<ClockSample> {
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

fn enable(session: &'static Session) {
    if session.mapping.is_none() {
        let reason = "CUPTI's clock can't be read, so its times could not be told from noise";
        return session
            .file()
            .failure("cuptiGetTimestamp", None, reason.into());
    }
    // SAFETY: both callbacks have CUPTI's types and live as long as the process.
    let status = unsafe { (session.cupti.register_callbacks)(buffer_requested, buffer_completed) };
    if !session.worked("cuptiActivityRegisterCallbacks", status) {
        return;
    }
    // SAFETY: plain call; the kind exists in every version we accept.
    let status = unsafe { (session.cupti.enable)(cupti::KIND_CONCURRENT_KERNEL) };
    if !session.worked("cuptiActivityEnable", status) {
        return;
    }
    let flusher = std::thread::Builder::new().name("kernel-tracer".into());
    if let Err(error) = flusher.spawn(|| session.fetch_until_closed()) {
        let reason = format!("{error}; a killed process will lose its records");
        session.file().failure("thread", None, reason);
    }
    // SAFETY: `at_exit` never unwinds. CUPTI was loaded before, so its own handlers
    // run after ours.
    if unsafe { libc::atexit(at_exit) } != 0 {
        let reason = "no more exit handlers; the last records may be lost";
        session.file().failure("atexit", None, reason.into());
    }
}

impl Session {
    /// The trace.
    pub fn file(&self) -> MutexGuard<'_, TraceFile> {
        self.file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a call succeeded; if not, that is written down.
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

    fn fetch_until_closed(&self) {
        loop {
            std::thread::sleep(FLUSH_EVERY);
            let _alone = self.flushing.lock().unwrap_or_else(|p| p.into_inner());
            if !self.file().is_open() {
                return;
            }
            // What fails now may work later, and the exit says what failed for good.
            // SAFETY: plain call; it may run on any thread.
            let _ = unsafe { (self.cupti.flush_all)(0) };
        }
    }

    fn end(&self) {
        // A fork has our memory, but neither our threads nor our file's end.
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

extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        if let Some(session) = SESSION.get() {
            session.end();
        }
    });
}
