//! Handles llama.cpp's log: errors go to standard error, and one is kept to explain why a call
//! failed. Everything else is dropped.

use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

/// Install the callback for llama.cpp's log.
pub fn take_over() {
    // SAFETY: the callback has no data and may be called from any thread.
    unsafe { sys::llama_log_set(Some(on_message), std::ptr::null_mut()) };
}

/// Return the first error since the last call of this function, if there was one; one line.
pub fn last_error() -> Option<String> {
    let mut last = LAST_ERROR.lock().ok()?;
    let message = std::mem::take(&mut *last);
    (!message.is_empty()).then_some(message)
}

unsafe extern "C" fn on_message(
    level: sys::ggml_log_level,
    text: *const c_char,
    _data: *mut c_void,
) {
    if level != sys::GGML_LOG_LEVEL_ERROR || text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a C string that lives as long as the call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    eprintln!("{text}");
    if let Ok(mut last) = LAST_ERROR.lock() {
        // The first of several errors is the cause; those that follow are its consequences.
        if last.is_empty() {
            *last = text.lines().next().unwrap_or_default().to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept_until_asked_for() {
        let say = |level, text: &CStr| {
            // SAFETY: a C string, and no data is looked at.
            unsafe { on_message(level, text.as_ptr(), std::ptr::null_mut()) };
        };
        say(sys::GGML_LOG_LEVEL_INFO, c"hello");
        assert_eq!(last_error(), None);
        say(sys::GGML_LOG_LEVEL_ERROR, c"no such tensor\n");
        say(sys::GGML_LOG_LEVEL_ERROR, c"failed to load\n");
        assert_eq!(last_error().as_deref(), Some("no such tensor"));
        assert_eq!(last_error(), None);
    }
}
