//! Begins and ends tracing: which functions of CUPTI are called, in which order.

use crate::buffers::{buffer_completed, buffer_requested};
use crate::clock::now_ns;
use crate::cupti;
use crate::cupti::Functions;
use crate::session::{SESSION, Session, sample};
use crate::trace_file::TraceFile;
use schema::kernels::{
    ClockMapping, ClockMethod, TRACE_FORMAT, TRACE_VARIABLE, TraceEvent, TraceHeader,
};
use std::panic::catch_unwind;
use std::path::Path;

/// Begin tracing. What prevents it is written to the trace, or to stderr where there is none.
pub fn begin() {
    if SESSION.get().is_some() {
        return; // the driver has called twice
    }
    let Some(path) = std::env::var_os(TRACE_VARIABLE).filter(|path| !path.is_empty()) else {
        eprintln!("kernel tracer: {TRACE_VARIABLE} names no file, so nothing is traced");
        return;
    };
    match TraceFile::create(Path::new(&path)) {
        Ok(file) => begin_into(file),
        // The file exists already: this is a child process that inherited our variables, say.
        Err(reason) => eprintln!("kernel tracer: {reason}; nothing is traced"),
    }
}

fn begin_into(mut file: TraceFile) {
    let opened_ns = now_ns();
    let named = std::env::var(cupti::LIBRARY_VARIABLE).ok();
    let found = cupti::open(named.as_deref().filter(|path| !path.is_empty()));
    let version = found.as_ref().ok().and_then(|cupti| {
        let mut version = 0;
        // SAFETY: `version` is writable for the call.
        let status = unsafe { (cupti.get_version)(&mut version) };
        (status == 0).then_some(version)
    });
    let known = version.is_some_and(cupti::is_known);
    // No further function of an unknown version is called.
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
    if SESSION.set(Session::new(cupti, mapping, file)).is_ok() {
        enable(SESSION.get().expect("it was set in the line above"));
    }
}

/// Have CUPTI use our clock, else measure the offset of its own clock from ours. `None` where
/// CUPTI's clock can't be read.
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

extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        if let Some(session) = SESSION.get() {
            session.end();
        }
    });
}
