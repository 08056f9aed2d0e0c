//! This module reads the message out of a caught panic.

use std::any::Any;

/// Return the message in a panic's payload, as `catch_unwind` and panic hooks give it.
pub fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

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
