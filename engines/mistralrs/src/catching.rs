//! Converts panics in calls into mistral.rs to errors.

use protocol::panicked;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Call into mistral.rs; a panic becomes an error too, because mistral.rs unwraps in some places.
pub fn catching<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let result = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(payload) => Err(panicked::message(payload.as_ref()).to_owned()),
    };
    // Without the backtrace that Candle appends if one is enabled.
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
