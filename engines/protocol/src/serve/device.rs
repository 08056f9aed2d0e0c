//! Which backend and device a request made by hand means, in the many ways of naming one. It
//! doesn't know whether a device is there: the engine says so.

use serde::Deserialize;

/// `1`, `"cuda"` and `"cuda:1"` are all ways to name a device.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Device {
    /// Of the backend that is taken anyway.
    Index(u32),
    /// A backend, and an index behind a colon.
    Name(String),
}

/// A backend to load on.
#[derive(Debug, PartialEq)]
pub struct Choice {
    /// As in [`crate::wire::Load::backend`].
    pub backend: String,
    /// As in [`crate::wire::Load::device`].
    pub device: u32,
}

/// What to load on: what was named, or else each of `built` until one is there.
///
/// # Errors
/// If what stands behind a colon is no index.
pub fn choices(
    backend: Option<&str>,
    device: Option<&Device>,
    built: &[&str],
) -> Result<Vec<Choice>, String> {
    let (name, device) = match device {
        None => (None, 0),
        Some(Device::Index(index)) => (None, *index),
        Some(Device::Name(name)) => match name.split_once(':') {
            None => (Some(name.as_str()), 0),
            Some((name, index)) => {
                let number = index.parse();
                let number = number.map_err(|_| format!("no device index: {index}"))?;
                (Some(name), number)
            }
        },
    };
    let on = |backend: &str| Choice {
        backend: backend.to_owned(),
        device,
    };
    Ok(match backend.or(name) {
        Some(named) => vec![on(named)],
        None => built.iter().map(|backend| on(backend)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: [&str; 2] = ["cuda", "cpu"];

    fn chosen(backend: Option<&str>, device: Option<Device>) -> Result<Vec<String>, String> {
        let all = choices(backend, device.as_ref(), &BUILT)?;
        let text = |choice: &Choice| format!("{}:{}", choice.backend, choice.device);
        Ok(all.iter().map(text).collect())
    }

    #[test]
    fn a_device_has_many_names() {
        let named = |text: &str| chosen(None, Some(Device::Name(text.to_owned())));
        assert_eq!(named("vulkan").unwrap(), ["vulkan:0"]);
        assert_eq!(named("cuda:3").unwrap(), ["cuda:3"]);
        assert!(named("cuda:x").unwrap_err().contains('x'));
        let index = chosen(Some("cuda"), Some(Device::Index(1)));
        assert_eq!(index.unwrap(), ["cuda:1"]);
        assert_eq!(chosen(Some("cpu"), None).unwrap(), ["cpu:0"]);
    }

    #[test]
    fn where_none_is_named_it_is_what_the_build_is_for() {
        assert_eq!(chosen(None, None).unwrap(), ["cuda:0", "cpu:0"]);
        let index = chosen(None, Some(Device::Index(1)));
        assert_eq!(index.unwrap(), ["cuda:1", "cpu:1"]);
    }
}
