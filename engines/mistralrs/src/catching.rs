//! Calls into mistral.rs that may panic.

use protocol::panicked;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// mistral.rs unwraps here and there: a panic is an error like any other.
pub fn catching<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let result = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(payload) => Err(panicked::message(payload.as_ref()).to_owned()),
    };
    // Without the backtrace that Candle appends where one is enabled.
    result.map_err(|message| message.lines().next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_one_line() {
        let caught = catching(|| -> Result<(), String> { panic!("no driver\nbacktrace") });
        assert_eq!(caught.unwrap_err(), "no driver");
    }
}
