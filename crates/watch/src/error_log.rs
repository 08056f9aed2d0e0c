//! The user's log of errors, as `protocol::error_log` describes it, for alerts of the
//! harness: [`path`] with the build directory for a file that wasn't named.

use super::event::Alert;
use std::path::Path;

pub use protocol::error_log::path;

/// Append an alert that `command` raised.
pub fn append(path: &Path, command: &str, alert: &Alert) -> std::io::Result<()> {
    protocol::error_log::append(path, alert.severity.word(), command, &alert.text)
}
