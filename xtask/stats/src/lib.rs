//! Statistics over samples. Pure: no I/O, no clock, no randomness that isn't
//! seeded by the caller; equal records give equal bytes.

pub mod analysis;
