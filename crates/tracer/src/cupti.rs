//! What we use of CUPTI's C interface, declared by hand from cupti_activity.h,
//! cupti_version.h and cupti_result.h of CUPTI API versions 26 (CUDA 12.8) and 130001
//! (CUDA 13.0 Update 1). `tests/layout.rs` compares it with those headers where they are.

use std::ffi::{c_char, c_void};

/// `CUptiResult`; 0 is success.
pub type Status = u32;
/// `CUPTI_ERROR_MAX_LIMIT_REACHED`: no more records in a buffer.
pub const MAX_LIMIT_REACHED: Status = 12;
/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`.
pub const INSUFFICIENT_PRIVILEGES: Status = 35;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
pub const MULTIPLE_SUBSCRIBERS: Status = 39;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`: unlike kind 3, it leaves kernels overlapping.
pub const KIND_CONCURRENT_KERNEL: u32 = 10;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: also buffers with incomplete records.
pub const FLUSH_FORCED: u32 = 1;

/// The part of `CUpti_ActivityKernel9` (CUDA 12) and `CUpti_ActivityKernel10` (CUDA 13)
/// that both have alike, as do the versions 5 to 8 before them: each only added to the end.
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

/// `CUpti_BuffersCallbackRequestFunc`.
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`.
pub type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// `CUpti_TimestampCallbackFunc`.
pub type Timestamp = extern "C" fn() -> u64;

/// The functions, as found in a library.
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
    /// Not in every version we accept.
    pub register_timestamp: Option<unsafe extern "C" fn(Timestamp) -> Status>,
}

/// Whether the kernel record of an API version is laid out as declared here. CUDA 12
/// counts from 19; since 13 a version reads 13yyzz. What comes after is unknown, and
/// to read its records could bring down the process that we are a guest of.
pub fn is_known(version: u32) -> bool {
    (19..100).contains(&version) || (130_000..140_000).contains(&version)
}

/// What to do about a status, where something can be done.
pub fn advice(status: Status) -> &'static str {
    match status {
        INSUFFICIENT_PRIVILEGES => {
            "; the driver lets only administrators trace: load it with NVreg_RestrictProfilingToAdminUsers=0"
        }
        MULTIPLE_SUBSCRIBERS => "; another profiler is at work in this process: run without it",
        _ => "",
    }
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
