//! The buffers that CUPTI fills: handed out empty, taken back full, and read record by record.

use crate::clock;
use crate::cupti::{self, ActivityKernel};
use crate::session::{SESSION, Session};
use schema::kernels::{ClockMethod, Kernel, Lost, TraceEvent};
use std::ffi::{CStr, c_char, c_void};
use std::panic::catch_unwind;

/// Size of a buffer (bytes): room for some five thousand kernels.
const BUFFER_BYTES: usize = 1 << 20;
/// The alignment that CUPTI requires of a buffer (`ACTIVITY_RECORD_ALIGNMENT`, bytes).
const BUFFER_ALIGN: usize = 8;

impl Session {
    /// Write the records in a buffer to the trace.
    ///
    /// # Safety
    /// `buffer` holds `valid` bytes of records that CUPTI wrote.
    unsafe fn take(&self, context: *mut c_void, stream: u32, buffer: *mut u8, valid: usize) {
        let offset_ns = match self.mapping {
            Some(mapping) if mapping.method == ClockMethod::Offset => mapping.sample.offset_ns,
            _ => 0,
        };
        let mut kernels = Vec::new();
        let mut untimed = 0;
        let mut record: *mut u32 = std::ptr::null_mut();
        let status = loop {
            // SAFETY: as the caller promises; `record` is null or the last one it gave.
            let status = unsafe { (self.cupti.next_record)(buffer, valid, &mut record) };
            if status != 0 || record.is_null() {
                break status;
            }
            // SAFETY: every record begins with its kind.
            if unsafe { *record } != cupti::KIND_CONCURRENT_KERNEL {
                continue;
            }
            // SAFETY: a record of that kind is at least as long as our declaration in
            // every version that `is_known` accepts.
            let raw = unsafe { std::ptr::read_unaligned(record.cast::<ActivityKernel>()) };
            if raw.start == 0 || raw.end < raw.start {
                untimed += 1;
                continue;
            }
            // SAFETY: the name is null or a C string that lives as long as CUPTI.
            kernels.push((unsafe { name(raw.name) }, kernel(&raw, offset_ns)));
        };
        let mut dropped = 0;
        // SAFETY: `dropped` is writable; the context is the one CUPTI gave.
        let counted = unsafe { (self.cupti.dropped)(context, stream, &mut dropped) };
        let mut file = self.file();
        file.kernels_of_buffer(kernels);
        if untimed > 0 || (counted == 0 && dropped > 0) {
            let dropped = dropped as u64;
            file.event(&TraceEvent::Lost(Lost { dropped, untimed }));
        }
        drop(file);
        if status != cupti::MAX_LIMIT_REACHED {
            self.worked("cuptiActivityGetNextRecord", status);
        }
    }
}

/// # Safety
/// `text` is null or a C string.
unsafe fn name(text: *const c_char) -> String {
    if text.is_null() {
        return "(no name)".into();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn kernel(raw: &ActivityKernel, offset_ns: i64) -> Kernel {
    Kernel {
        name: 0, // set by `kernels_of_buffer`
        start_ns: clock::mapped(raw.start, offset_ns),
        end_ns: clock::mapped(raw.end, offset_ns),
        grid: raw.grid,
        block: raw.block,
        device: raw.device_id,
        stream: raw.stream_id,
        graph_node: raw.graph_node_id,
    }
}

/// `CUpti_BuffersCallbackRequestFunc`: allocate a new buffer for CUPTI.
pub extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let mut memory: *mut c_void = std::ptr::null_mut();
    // SAFETY: CUPTI gives three writable places. Without memory the buffer is null and
    // its size 0, and CUPTI counts what it drops.
    unsafe {
        let status = libc::posix_memalign(&mut memory, BUFFER_ALIGN, BUFFER_BYTES);
        *buffer = if status == 0 {
            memory.cast()
        } else {
            std::ptr::null_mut()
        };
        *size = if status == 0 { BUFFER_BYTES } else { 0 };
        *records = 0; // as many as fit
    }
}

/// `CUpti_BuffersCallbackCompleteFunc`: read a buffer that CUPTI has filled, and free it.
pub extern "C" fn buffer_completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    let _ = catch_unwind(|| {
        if let Some(session) = SESSION.get().filter(|_| !buffer.is_null() && valid > 0) {
            // SAFETY: CUPTI hands over the buffer with `valid` bytes written.
            unsafe { session.take(context, stream, buffer, valid) };
        }
    });
    // SAFETY: it came from posix_memalign in `buffer_requested`, or is null.
    unsafe { libc::free(buffer.cast()) };
}
