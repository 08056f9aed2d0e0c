//! Finds the ggml device that a backend's name and an index mean.

use llama_cpp_sys_2 as sys;
use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use std::ffi::CStr;

/// The device that the model is loaded on.
#[derive(Clone, Copy, Debug)]
pub enum Device {
    /// The processor.
    Cpu,
    /// One of ggml's GPU devices.
    Gpu(sys::ggml_backend_dev_t),
}

/// Return the `index`th device of `backend`.
pub fn find(backend: &str, index: u32) -> Result<Device, EngineError> {
    match backend {
        "cpu" => Ok(Device::Cpu),
        "cuda" => {
            let device = of_registry(c"CUDA").nth(index as usize);
            device.map(Device::Gpu).ok_or_else(|| missing(index))
        }
        other => Err(EngineError::unsupported(format!(
            "no backend {other:?}; there are cpu, cuda"
        ))),
    }
}

fn missing(index: u32) -> EngineError {
    let message = if cfg!(feature = "cuda") {
        format!("no CUDA device {index}; run where a driver shows one")
    } else {
        "this llamacpp-bench was built without its `cuda` feature; \
         build with `--features cuda` where there is a CUDA toolkit"
            .to_string()
    };
    EngineError::new(FailureKind::Unavailable, message)
}

/// Return the devices that one of ggml's backend registries found.
fn of_registry(name: &CStr) -> impl Iterator<Item = sys::ggml_backend_dev_t> {
    // SAFETY: the registries live as long as the process, each index below the
    // count is a device, and names are C strings.
    unsafe {
        let devices = 0..sys::ggml_backend_dev_count();
        devices
            .map(|index| sys::ggml_backend_dev_get(index))
            .filter(move |&device| {
                let registry = sys::ggml_backend_dev_backend_reg(device);
                CStr::from_ptr(sys::ggml_backend_reg_name(registry)) == name
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_unavailable() {
        assert!(find("cpu", 0).is_ok());
        assert_eq!(find("tpu", 0).unwrap_err().kind, FailureKind::Unsupported);
        let absent = find("cuda", 1_000_000).unwrap_err();
        assert_eq!(absent.kind, FailureKind::Unavailable);
    }
}
