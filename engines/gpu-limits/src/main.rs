//! Measures the limits of an NVIDIA GPU: the denominators of MBU and MFU for targets that compute
//! on it.
//!
//! It prints one JSON object: `memory_bandwidth_bytes_per_s`; `flops_f32_per_s`,
//! `flops_tf32_per_s`, `flops_f16_per_s`, `flops_bf16_per_s` and `ops_int8_per_s` (multiply-adds
//! counted as two), each if the device supports the format; and `last_level_cache_bytes`. Every
//! rate is the best of several readings, as for the processor's limits. If there is no GPU, one
//! line on stderr says why, and the exit status is 1.

mod card;
mod products;

use card::Card;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Number of readings of each rate.
const READINGS: usize = 10;

fn main() -> ExitCode {
    // The bindings panic if a library lacks a function. As for any failure, the last line says
    // why.
    std::panic::set_hook(Box::new(|panic| eprintln!("gpu-limits: {panic}")));
    match measure() {
        Ok(limits) => {
            println!("{}", Value::Object(limits));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("gpu-limits: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<Map<String, Value>, String> {
    let card = Card::open()?;
    let mut limits = Map::new();
    let cache = card.last_level_cache_bytes()?;
    limits.insert("last_level_cache_bytes".into(), cache.into());
    let bandwidth = card.memory_bandwidth_bytes_per_s()?;
    limits.insert("memory_bandwidth_bytes_per_s".into(), bandwidth.into());
    let blas = match products::library(&card) {
        Ok(blas) => blas,
        Err(why) => {
            eprintln!("gpu-limits: no arithmetic: {why}");
            return Ok(limits);
        }
    };
    for format in products::FORMATS {
        match products::rate(&card, &blas, &format) {
            Ok(rate) => drop(limits.insert(format.limit.into(), rate.into())),
            // Older cards lack a format; the other limits are still reported.
            Err(why) => eprintln!("gpu-limits: no {}: {why}", format.limit),
        }
    }
    Ok(limits)
}
