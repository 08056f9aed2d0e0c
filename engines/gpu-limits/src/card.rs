//! The first GPU: its memory, and the timing of work on it.

use crate::READINGS;
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, sys};
use std::sync::Arc;

/// Intended duration of a reading (s): far longer than a launch, whose time is not part of the
/// work.
const READING_S: f64 = 5e-3;
/// Largest number of repetitions in a reading, in case one of them takes no measurable time.
const REPETITIONS_MAX: u32 = 10_000;
/// Bytes per copy, if the card has memory for it: far more than any cache holds.
const COPY_BYTES: usize = 1 << 30;

/// The GPU that programs compute on by default.
pub struct Card {
    pub stream: Arc<CudaStream>,
}

impl Card {
    /// Open the first GPU; the error is the reason why there is none.
    pub fn open() -> Result<Self, String> {
        // SAFETY: opening the library runs its own initialisers and nothing else.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no CUDA driver (libcuda.so.1) on this machine".into());
        }
        let context = CudaContext::new(0).map_err(|error| describe("the first GPU", &error))?;
        Ok(Self {
            stream: context.default_stream(),
        })
    }

    /// Return the size of the cache that all multiprocessors share (bytes).
    pub fn last_level_cache_bytes(&self) -> Result<u64, String> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        let bytes = self.stream.context().attribute(attribute);
        let bytes = bytes.map_err(|error| describe("the size of its cache", &error))?;
        u64::try_from(bytes)
            .map_err(|_| format!("the driver says that its cache has {bytes} bytes"))
    }

    /// Return the bytes per second that a copy within the card's memory reads and writes.
    pub fn memory_bandwidth_bytes_per_s(&self) -> Result<f64, String> {
        let copy = |error| describe("a copy", &error);
        let (free, _) = self.stream.context().mem_get_info().map_err(copy)?;
        let bytes = COPY_BYTES.min(free / 4);
        let from: CudaSlice<u8> = self.stream.alloc_zeros(bytes).map_err(copy)?;
        let mut to: CudaSlice<u8> = self.stream.alloc_zeros(bytes).map_err(copy)?;
        let seconds = self.best_s(|| self.stream.memcpy_dtod(&from, &mut to).map_err(copy))?;
        Ok(2.0 * bytes as f64 / seconds)
    }

    /// Return the shortest time that `work` takes (s), by the card's own clock.
    pub fn best_s(&self, mut work: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
        // The first call loads kernels and raises clocks, so its time is discarded; the second
        // shows how long one call takes.
        self.seconds(1, &mut work)?;
        let once = self.seconds(1, &mut work)?;
        let repetitions = (READING_S / once.max(1e-9)).ceil() as u32;
        let repetitions = repetitions.clamp(1, REPETITIONS_MAX);
        let mut best = f64::INFINITY;
        for _ in 0..READINGS {
            best = best.min(self.seconds(repetitions, &mut work)?);
        }
        match best > 0.0 {
            true => Ok(best),
            false => Err(format!(
                "{repetitions} repetitions took no time by the card's clock"
            )),
        }
    }

    /// Return the time of one of `repetitions` repetitions of `work` (s).
    fn seconds(
        &self,
        repetitions: u32,
        work: &mut impl FnMut() -> Result<(), String>,
    ) -> Result<f64, String> {
        let clock = |error| describe("the card's clock", &error);
        let now = || {
            self.stream
                .record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
        };
        let start = now().map_err(clock)?;
        for _ in 0..repetitions {
            work()?;
        }
        let end = now().map_err(clock)?;
        let milliseconds = start.elapsed_ms(&end).map_err(clock)?;
        Ok(f64::from(milliseconds) / 1e3 / f64::from(repetitions))
    }
}

/// Format the driver's error with what was attempted.
pub fn describe(what: &str, error: &DriverError) -> String {
    let text = error
        .error_string()
        .ok()
        .and_then(|text| text.to_str().ok());
    match text {
        Some(text) => format!("{what}: the driver says \"{text}\""),
        None => format!("{what}: {error:?}"),
    }
}
