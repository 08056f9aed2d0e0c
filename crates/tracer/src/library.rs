//! Finding CUPTI and its functions in a running process. Nothing is called here.

use crate::cupti::Functions;
use std::ffi::{CStr, CString, c_void};

/// Variable that names a libcupti to use instead of those looked for.
pub const LIBRARY_VARIABLE: &str = "BENCH_CUPTI_LIBRARY";
/// Names it goes by, newest first.
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
        return Err(said().unwrap_or_else(|| format!("{name} can't be opened")));
    }
    Ok(handle)
}

/// The loader's last message.
fn said() -> Option<String> {
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

/// An address as the function that lies there.
///
/// # Safety
/// `F` is the type of a function pointer, and the right one for the address.
unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: as the caller promises; the sizes are equal.
    unsafe { std::mem::transmute_copy(&address) }
}
