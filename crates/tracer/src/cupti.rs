//! The part of CUPTI's C interface that the tracer uses, declared by hand from cupti_activity.h,
//! cupti_version.h and cupti_result.h of CUPTI API versions 26 (CUDA 12.8) and 130001 (CUDA 13.0
//! Update 1). `tests/tracing/layout.rs` compares it with those headers where they exist.
//!
//! The module also finds CUPTI and its functions in a running process, but calls none of them.

use std::ffi::{CStr, CString, c_char, c_void};

/// `CUptiResult`: the status that a function of CUPTI returns; 0 is success.
pub type Status = u32;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED`: there are no more records in a buffer.
pub const MAX_LIMIT_REACHED: Status = 12;
/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`: the driver lets only administrators trace.
pub const INSUFFICIENT_PRIVILEGES: Status = 35;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`: another profiler is at work in the process.
pub const MULTIPLE_SUBSCRIBERS: Status = 39;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`: records of kernels. Unlike kind 3, it lets kernels
/// overlap.
pub const KIND_CONCURRENT_KERNEL: u32 = 10;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: flush buffers with incomplete records too.
pub const FLUSH_FORCED: u32 = 1;

/// The part that `CUpti_ActivityKernel9` (CUDA 12) and `CUpti_ActivityKernel10` (CUDA 13) have in
/// common with each other and with the versions 5 to 8 before them: each version only added fields
/// at the end.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The header documents them.
pub struct ActivityKernel {
    pub kind: u32,
    pub cache_config: u8,
    pub shared_memory_config: u8,
    pub registers_per_thread: u16,
    pub partitioned_global_cache_requested: u32,
    pub partitioned_global_cache_executed: u32,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub device_id: u32,
    pub context_id: u32,
    pub stream_id: u32,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub static_shared_memory: i32,
    pub dynamic_shared_memory: i32,
    pub local_memory_per_thread: u32,
    pub local_memory_total: u32,
    pub correlation_id: u32,
    pub grid_id: i64,
    pub name: *const c_char,
    pub reserved0: *mut c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launch_type: u8,
    pub shared_memory_carveout_is_requested: u8,
    pub shared_memory_carveout_requested: u8,
    pub padding: u8,
    pub shared_memory_executed: u32,
    pub graph_node_id: u64,
}

/// `CUpti_BuffersCallbackRequestFunc`: the type of the callback by which CUPTI asks for a buffer.
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`: the type of the callback that takes back a full buffer.
pub type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// `CUpti_TimestampCallbackFunc`: the type of a clock that CUPTI can be given.
pub type Timestamp = extern "C" fn() -> u64;

/// The functions of CUPTI that were found in a library.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // The header documents them.
pub struct Functions {
    pub get_version: unsafe extern "C" fn(*mut u32) -> Status,
    pub get_result_string: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    pub get_timestamp: unsafe extern "C" fn(*mut u64) -> Status,
    pub register_callbacks: unsafe extern "C" fn(BufferRequested, BufferCompleted) -> Status,
    pub enable: unsafe extern "C" fn(u32) -> Status,
    pub flush_all: unsafe extern "C" fn(u32) -> Status,
    pub next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut u32) -> Status,
    pub dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Status,
    /// `None` where the version has no such function.
    pub register_timestamp: Option<unsafe extern "C" fn(Timestamp) -> Status>,
}

/// Whether the kernel record of an API version is laid out as declared here. CUDA 12 counts from
/// 19; since CUDA 13 a version reads 13yyzz. The layout of later versions is unknown, and reading
/// their records could crash the process that is traced.
pub fn is_known(version: u32) -> bool {
    (19..100).contains(&version) || (130_000..140_000).contains(&version)
}

/// Advice on what to do about a status; empty where nothing can be done.
pub fn advice(status: Status) -> &'static str {
    match status {
        INSUFFICIENT_PRIVILEGES => {
            "; the driver lets only administrators trace: load it with NVreg_RestrictProfilingToAdminUsers=0"
        }
        MULTIPLE_SUBSCRIBERS => "; another profiler is at work in this process: run without it",
        _ => "",
    }
}

/// Environment variable that names a libcupti to use instead of searching for one.
pub const LIBRARY_VARIABLE: &str = "BENCH_CUPTI_LIBRARY";
/// File names of libcupti, newest first.
const NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];

/// Open CUPTI: the one that is named, else the one that the process has loaded already
/// (two in one process would not both work), else the newest that the loader finds.
pub fn open(named: Option<&str>) -> Result<Functions, String> {
    let handle = match named {
        Some(path) => dlopen(path, 0)?,
        None => loaded()
            .or_else(|| NAMES.iter().find_map(|name| dlopen(name, 0).ok()))
            .ok_or_else(|| {
                format!(
                    "none of {} is loaded or can be: install CUPTI (it is part of the CUDA toolkit) and put its directory on LD_LIBRARY_PATH, or name the file in {LIBRARY_VARIABLE}",
                    NAMES.join(", ")
                )
            })?,
    };
    functions(handle)
}

fn loaded() -> Option<*mut c_void> {
    let find = |name: &&str| dlopen(name, libc::RTLD_NOLOAD).ok();
    NAMES.iter().find_map(find)
}

fn dlopen(name: &str, flags: i32) -> Result<*mut c_void, String> {
    let text = CString::new(name).map_err(|_| format!("{name:?} is no file name"))?;
    // SAFETY: `text` is a C string that outlives the call; the library's own
    // constructors are CUPTI's, made to be run in any process.
    let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | flags) };
    if handle.is_null() {
        return Err(last_error().unwrap_or_else(|| format!("{name} can't be opened")));
    }
    Ok(handle)
}

/// The last error message of the dynamic loader.
fn last_error() -> Option<String> {
    // SAFETY: dlerror gives null or a C string that is valid until the next dl call
    // of this thread, and it is copied before that.
    unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle is open and never closed; `name` is a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn functions(handle: *mut c_void) -> Result<Functions, String> {
    let required = |name: &CStr| {
        symbol(handle, name)
            .ok_or_else(|| format!("this libcupti has no {}", name.to_string_lossy()))
    };
    // SAFETY: each symbol has the type that CUPTI's header declares for its name, and
    // that `Functions` (cupti.rs) repeats.
    unsafe {
        Ok(Functions {
            get_version: function(required(c"cuptiGetVersion")?),
            get_result_string: function(required(c"cuptiGetResultString")?),
            get_timestamp: function(required(c"cuptiGetTimestamp")?),
            register_callbacks: function(required(c"cuptiActivityRegisterCallbacks")?),
            enable: function(required(c"cuptiActivityEnable")?),
            flush_all: function(required(c"cuptiActivityFlushAll")?),
            next_record: function(required(c"cuptiActivityGetNextRecord")?),
            dropped: function(required(c"cuptiActivityGetNumDroppedRecords")?),
            register_timestamp: symbol(handle, c"cuptiActivityRegisterTimestampCallback")
                .map(|address| function(address)),
        })
    }
}

/// Convert an address to the function that lies there.
///
/// # Safety
/// `F` is the type of a function pointer, and the right one for the address.
unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: as the caller promises; the sizes are equal.
    unsafe { std::mem::transmute_copy(&address) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_cuda_12_and_13_are_read() {
        for known in [19, 26, 28, 130_000, 130_001, 130_100] {
            assert!(is_known(known), "{known}");
        }
        for unknown in [0, 18, 120_000, 140_000] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
