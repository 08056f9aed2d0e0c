//! The environment in which a run's programs were built and started (the flake's shell, Python,
//! libtorch, the CUDA toolkit), and the command that makes it again. It only describes: hashes of
//! the lockfiles stand in [`crate::provenance::Provenance`], the driver among its facts.

use serde::{Deserialize, Serialize};

/// The environment of a run's programs. An item is absent where it wasn't there, or where the
/// record is older than its field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Name of the flake's shell, `default` or `cpu`; absent outside of a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nix_shell: Option<String>,
    /// Whether every directory on `PATH` was in the Nix store; absent outside of a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nix_shell_pure: Option<bool>,
    /// The Python environment of the engines in Python; its version is Python's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Pin>,
    /// The libtorch that programs are linked with, except those for which the registry names
    /// another one. These report its version themselves, and its lockfile is among the record's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<Pin>,
    /// The CUDA toolkit that programs are compiled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_toolkit: Option<Pin>,
}

/// An item that came from outside of this repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Version, as the item itself states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Origin: a path in the Nix store, a lockfile of this repository that the project made it
    /// from, or the variable that named it.
    pub from: String,
    /// sha256 of its contents, where it is cheap to compute. For a wheel it is the hash of the
    /// lines that name the files in question in the wheel's own list (`RECORD`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(version) = &self.version {
            write!(f, "{version} ")?;
        }
        write!(f, "from {}", self.from)?;
        match &self.sha256 {
            Some(hash) => write!(f, ", sha256 {hash}"),
            None => Ok(()),
        }
    }
}

impl Pins {
    /// The name of the item that influences measurements most.
    pub const LIBTORCH: &str = "libtorch";

    /// Whether nothing is known, as in records that are older than this field.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Return the items that several have in common; those that differ are absent.
    pub fn shared(all: &[&Self]) -> Self {
        let mut shared = all.first().copied().cloned().unwrap_or_default();
        for other in all {
            fn keep<T: PartialEq>(mine: &mut Option<T>, other: &Option<T>) {
                if mine != other {
                    *mine = None;
                }
            }
            keep(&mut shared.nix_shell, &other.nix_shell);
            keep(&mut shared.nix_shell_pure, &other.nix_shell_pure);
            keep(&mut shared.python, &other.python);
            keep(&mut shared.libtorch, &other.libtorch);
            keep(&mut shared.cuda_toolkit, &other.cuda_toolkit);
        }
        shared
    }

    /// Every item by name, in a fixed order; `None` where it is absent.
    pub fn items(&self) -> [(&'static str, Option<String>); 5] {
        let pin = |pin: &Option<Pin>| pin.as_ref().map(Pin::to_string);
        let pure = self.nix_shell_pure.map(|pure| match pure {
            true => "yes".to_owned(),
            false => "no".to_owned(),
        });
        [
            ("nix shell", self.nix_shell.clone()),
            ("nix shell is pure", pure),
            ("python environment", pin(&self.python)),
            (Self::LIBTORCH, pin(&self.libtorch)),
            ("cuda toolkit", pin(&self.cuda_toolkit)),
        ]
    }

    /// Return the command that makes the same environment in a checkout at `revision`.
    pub fn command(&self, revision: Option<&str>) -> String {
        let get = match self.nix_shell.as_deref() {
            Some(shell) => {
                let mut words = vec!["nix develop".to_owned()];
                if self.nix_shell_pure == Some(true) {
                    // Without a home Cargo has nowhere to keep what it downloads.
                    words.push("--ignore-environment --keep HOME".into());
                }
                if shell != "default" {
                    words.push(format!(".#{shell}"));
                }
                words.join(" ")
            }
            None => "cargo xtask build".into(),
        };
        match revision {
            Some(revision) => format!("git checkout {revision} && {get}"),
            None => get,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Provenance;

    #[test]
    fn the_command_enters_the_same_shell() {
        let mut pins = Pins::default();
        assert_eq!(pins.command(None), "cargo xtask build");
        pins.nix_shell = Some("default".into());
        pins.nix_shell_pure = Some(false);
        assert_eq!(pins.command(Some("ab")), "git checkout ab && nix develop");
        pins.nix_shell = Some("cpu".into());
        pins.nix_shell_pure = Some(true);
        assert_eq!(
            pins.command(Some("ab")),
            "git checkout ab && nix develop --ignore-environment --keep HOME .#cpu"
        );
    }

    #[test]
    fn only_what_all_say_is_shared() {
        let one = Pins {
            nix_shell: Some("cpu".into()),
            nix_shell_pure: Some(true),
            ..Pins::default()
        };
        let other = Pins {
            nix_shell_pure: Some(false),
            ..one.clone()
        };
        let shared = Pins::shared(&[&one, &other]);
        assert_eq!(shared.nix_shell.as_deref(), Some("cpu"));
        assert_eq!(shared.nix_shell_pure, None);
        assert_eq!(Pins::shared(&[&one]), one);
        assert!(Pins::shared(&[]).is_empty());
    }

    #[test]
    fn what_is_absent_is_not_written_and_needs_not_be_there() {
        assert_eq!(serde_json::to_string(&Pins::default()).unwrap(), "{}");
        assert!(serde_json::from_str::<Pins>("{}").unwrap().is_empty());
        // A record from before this field existed, and one made now.
        let old: Provenance = serde_json::from_str("{\"git_dirty\":false}").unwrap();
        assert!(old.pins.is_empty());
        assert!(!serde_json::to_string(&old).unwrap().contains("pins"));
        let pin = Pin {
            version: Some("2.9.0".into()),
            from: "a.lock".into(),
            sha256: Some("ab".into()),
        };
        assert_eq!(pin.to_string(), "2.9.0 from a.lock, sha256 ab");
    }
}
