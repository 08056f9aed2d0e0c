//! The types of everything under `data/` and of `engines/engines.toml`, and how each is loaded and
//! validated.
//!
//! Reading a file is the only I/O here; nothing is written, measured or derived. Loading returns
//! either a value that every consumer may trust or a [`DataError`] that names the file, the place
//! in it and what to do.

pub mod adapters;
pub mod adoption;
pub mod audit;
pub mod budget;
pub mod bundle;
pub mod calibration;
pub mod capacity;
pub mod claims;
pub mod document;
pub mod error;
pub mod golden;
pub mod hypothesis;
pub mod kernels;
pub mod key;
pub mod launch_log;
pub mod limits;
mod lines;
pub mod maturity;
pub mod micro;
pub mod model;
pub mod origin;
pub mod own_prompts;
pub mod pins;
pub mod plan;
pub mod prices;
pub mod processor;
pub mod profile;
pub mod provenance;
pub mod record;
pub mod registry;
pub mod run;
pub mod run_files;
pub mod scenario;
pub mod simulation;
pub mod telemetry;
pub mod train;

pub use error::DataError;
pub use lines::Log;

/// Hashes, as they are written in records and locks.
pub mod hash {
    use sha2::{Digest, Sha256};

    /// The sha256 of some bytes, lower-case hex.
    pub fn sha256_hex(bytes: &[u8]) -> String {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.hex()
    }

    /// Computes the sha256 of bytes that come piece by piece.
    #[derive(Clone, Default)]
    pub struct Hasher(Sha256);

    impl Hasher {
        /// Add the next piece.
        pub fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// The hash of all pieces, lower-case hex.
        pub fn hex(self) -> String {
            let digest = self.0.finalize();
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}
