//! This module reads the message out of a caught panic, and makes an error of it.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Return the message in a panic's payload, as `catch_unwind` and panic hooks give it.
pub fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

/// Call into a library that panics in some places where it could return an error; return the
/// first line of the error or of the panic's message. Some libraries append a backtrace to it.
///
/// # Errors
/// That line.
pub fn catching<T, E: Display>(call: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    let said = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(payload) => message(payload.as_ref()).to_owned(),
    };
    Err(said.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_one_line_and_so_is_an_error() {
        let caught = catching(|| -> Result<(), String> { panic!("no driver\nbacktrace") });
        assert_eq!(caught.unwrap_err(), "no driver");
        let failed: Result<(), _> = catching(|| Err("no room\nbacktrace"));
        assert_eq!(failed.unwrap_err(), "no room");
        assert_eq!(catching(|| Ok::<_, String>(5)), Ok(5));
    }

    #[test]
    fn a_message_is_a_literal_or_a_text_made_of_parts() {
        let said = |call: fn()| {
            let payload = std::panic::catch_unwind(call).unwrap_err();
            message(payload.as_ref()).to_owned()
        };
        assert_eq!(said(|| panic!("no room")), "no room");
        assert_eq!(
            said(|| panic!("no room for {} bytes", 5)),
            "no room for 5 bytes"
        );
        assert_eq!(
            said(|| std::panic::panic_any(5)),
            "a panic without a message"
        );
    }
}
