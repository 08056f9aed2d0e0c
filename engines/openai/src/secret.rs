//! The API key. It goes into one header and nowhere else: whatever a server says
//! passes through [`Secret::redact`] before it reaches a message or a record.
//! It deliberately has no `Debug` and no `Display`.

/// What stands where the key was.
const REDACTED: &str = "[key]";

/// A key, or none.
pub struct Secret(Option<String>);

impl Secret {
    /// An empty key is none. One that can't stand in a header is refused, without
    /// being quoted.
    pub fn new(key: Option<String>) -> Result<Self, &'static str> {
        let key = key.filter(|key| !key.is_empty());
        let visible = |key: &String| key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if !key.as_ref().is_none_or(visible) {
            return Err("has characters that can't stand in an HTTP header");
        }
        Ok(Self(key))
    }

    /// The value of the `Authorization` header.
    pub fn bearer(&self) -> Option<String> {
        self.0.as_ref().map(|key| format!("Bearer {key}"))
    }

    /// `text` without the key, plain or as JSON would escape it.
    pub fn redact(&self, text: &str) -> String {
        let Some(key) = &self.0 else {
            return text.to_owned();
        };
        let quoted = serde_json::Value::from(key.as_str()).to_string();
        let escaped = quoted.trim_matches('"');
        text.replace(key, REDACTED).replace(escaped, REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_taken_out_however_it_is_written() {
        let secret = Secret::new(Some("sk-\\7".into())).ok().unwrap();
        assert_eq!(secret.bearer().unwrap(), "Bearer sk-\\7");
        let said = r#"bad key sk-\7, as in {"h":"Bearer sk-\\7"}"#;
        assert_eq!(
            secret.redact(said),
            r#"bad key [key], as in {"h":"Bearer [key]"}"#
        );
    }

    #[test]
    fn no_key_is_no_header_and_a_broken_one_is_refused_unquoted() {
        for none in [None, Some(String::new())] {
            assert_eq!(Secret::new(none).ok().unwrap().bearer(), None);
        }
        let error = Secret::new(Some("two\nlines".into())).err().unwrap();
        assert!(!error.contains("lines"), "{error}");
    }
}
