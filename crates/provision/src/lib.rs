//! Provides everything that a measurement needs: fetches or makes models, builds engines, examines
//! the machine, and describes all of it for the record.

#[macro_use]
extern crate base;

pub mod build;
pub mod dist;
pub mod doctor;
pub mod fetch;
pub mod pins;
pub mod provenance;
pub mod train;
mod waiting_lock;

/// Write a file and make the folders that it lies in, for tests.
#[cfg(test)]
fn write(path: impl AsRef<std::path::Path>, bytes: impl AsRef<[u8]>) {
    let dir = path.as_ref().parent().unwrap();
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(path, bytes).unwrap();
}
