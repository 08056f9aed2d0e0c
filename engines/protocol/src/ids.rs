//! Checks token ids before an engine looks them up.

use crate::engine::EngineError;

/// Check that each id is below `vocabulary`: for any other, an engine would read past its embedding
/// table, or panic.
///
/// # Errors
/// `bad_request`, which names the first id outside the vocabulary.
pub fn check_ids(ids: &[u32], vocabulary: usize) -> Result<(), EngineError> {
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        None => Ok(()),
        Some(id) => Err(EngineError::bad_request(format!(
            "id {id} is outside the vocabulary of {vocabulary}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FailureKind;

    #[test]
    fn the_first_id_outside_is_named() {
        assert!(check_ids(&[0, 9], 10).is_ok());
        let refused = check_ids(&[9, 10, 11], 10).unwrap_err();
        assert_eq!(refused.kind, FailureKind::BadRequest);
        assert_eq!(refused.message, "id 10 is outside the vocabulary of 10");
    }
}
