//! Lists the Vulkan devices of this machine. The loader runs the code of every driver that is
//! installed, so a separate process asks it, which may crash or hang without harm.

use super::asked::{NoAnswer, ask_process};
use crate::engine::start::narrow;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_void};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The hidden verb that starts the separate process.
pub const VERB: &str = "probe-vulkan";
/// How long the separate process may take; usually it answers within a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(10);
const LOADER: &CStr = match cfg!(target_os = "macos") {
    true => c"libvulkan.1.dylib",
    false => c"libvulkan.so.1",
};

/// A physical device that Vulkan lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VulkanDevice {
    /// The name that its driver reports.
    pub name: String,
    /// Whether the device is the processor itself (llvmpipe, SwiftShader).
    pub is_software: bool,
}

/// The answer of the separate process, one line of JSON.
type Answer = Result<Vec<VulkanDevice>, String>;

/// All Vulkan devices, or why there are none. Asked once per process of the harness.
pub fn devices() -> &'static Answer {
    static ANSWER: OnceLock<Answer> = OnceLock::new();
    ANSWER.get_or_init(|| {
        let this = std::env::current_exe();
        let this = this.map_err(|error| format!("this program can't be started again: {error}"))?;
        let mut command = Command::new(this);
        command.arg(VERB);
        narrow(&mut command, &[]);
        answer(command, PATIENCE)
    })
}

/// The name of the first device that isn't a software rasteriser, or why there is none.
pub fn hardware(devices: &Answer) -> Result<String, String> {
    let devices = devices.as_ref().map_err(Clone::clone)?;
    match devices.iter().find(|device| !device.is_software) {
        Some(device) => Ok(device.name.clone()),
        None => Err(match devices.first() {
            Some(software) => format!(
                "there is no Vulkan device but the software rasteriser {}",
                software.name
            ),
            None => "there is no Vulkan device".into(),
        }),
    }
}

/// Start the separate process and read its answer, or say why there is none.
fn answer(mut command: Command, timeout: Duration) -> Answer {
    // Drivers write much to stderr, and none of it is a reason that a user could act on.
    command.stderr(Stdio::null());
    let answered = ask_process(command, timeout).map(|(answer, _)| answer);
    answered.unwrap_or_else(|silence| {
        Err(match silence {
            NoAnswer::NotStarted(error) => {
                format!("Vulkan can't be asked for its devices: {error}")
            }
            NoAnswer::Late(timeout) => format!(
                "Vulkan did not name its devices within {} s",
                timeout.as_secs_f64()
            ),
            NoAnswer::Failed(status, _) => {
                format!("a Vulkan driver failed when it was asked for its devices ({status})")
            }
        })
    })
}

/// The main function of the separate process: print the answer.
pub fn probe() {
    let answer = ask();
    println!("{}", serde_json::to_string(&answer).unwrap_or_default());
}

#[repr(C)]
struct InstanceCreateInfo {
    kind: u32,
    next: *const c_void,
    flags: u32,
    application: *const c_void,
    layer_count: u32,
    layers: *const *const c_char,
    extension_count: u32,
    extensions: *const *const c_char,
}

#[repr(C)]
struct PhysicalDeviceProperties {
    versions_and_ids: [u32; 4],
    kind: u32,
    name: [c_char; 256],
    /// Limits and other fields: 548 bytes in Vulkan's headers, and some room to spare.
    rest: [u64; 96],
}

type CreateInstance =
    unsafe extern "C" fn(*const InstanceCreateInfo, *const c_void, *mut *mut c_void) -> i32;
type EnumerateDevices = unsafe extern "C" fn(*mut c_void, *mut u32, *mut *mut c_void) -> i32;
type GetProperties = unsafe extern "C" fn(*mut c_void, *mut PhysicalDeviceProperties);

const STRUCTURE_TYPE_INSTANCE_CREATE_INFO: u32 = 1;
const PHYSICAL_DEVICE_TYPE_CPU: u32 = 4;
const SUCCESS: i32 = 0;
const DEVICES_MAX: usize = 32;

fn ask() -> Answer {
    // SAFETY: the name is a C string; loading runs code of the drivers, which is why this is a
    // process of its own.
    let library = unsafe { libc::dlopen(LOADER.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        let name = LOADER.to_string_lossy();
        return Err(format!("there is no Vulkan loader ({name} not found)"));
    }
    let symbol = |name: &CStr| {
        // SAFETY: the library is open, and the name is a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        match symbol.is_null() {
            true => Err(format!("Vulkan's loader has no {}", name.to_string_lossy())),
            false => Ok(symbol),
        }
    };
    // SAFETY: these are the signatures of Vulkan 1.0, which every loader exports.
    let (create, enumerate, properties) = unsafe {
        (
            std::mem::transmute::<*mut c_void, CreateInstance>(symbol(c"vkCreateInstance")?),
            std::mem::transmute::<*mut c_void, EnumerateDevices>(symbol(
                c"vkEnumeratePhysicalDevices",
            )?),
            std::mem::transmute::<*mut c_void, GetProperties>(symbol(
                c"vkGetPhysicalDeviceProperties",
            )?),
        )
    };
    let info = InstanceCreateInfo {
        kind: STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        next: std::ptr::null(),
        flags: 0,
        application: std::ptr::null(),
        layer_count: 0,
        layers: std::ptr::null(),
        extension_count: 0,
        extensions: std::ptr::null(),
    };
    let mut instance = std::ptr::null_mut();
    // SAFETY: `info` is a complete request for an instance without layers and extensions.
    let result = unsafe { create(&info, std::ptr::null(), &mut instance) };
    if result != SUCCESS {
        return Err(format!(
            "there is no Vulkan driver (vkCreateInstance: {result})"
        ));
    }
    let mut handles = [std::ptr::null_mut(); DEVICES_MAX];
    let mut count = DEVICES_MAX as u32;
    // SAFETY: there is room for `count` handles.
    let result = unsafe { enumerate(instance, &mut count, handles.as_mut_ptr()) };
    if result < SUCCESS {
        return Err(format!(
            "there is no Vulkan device (vkEnumeratePhysicalDevices: {result})"
        ));
    }
    let handles = handles.iter().take(count as usize);
    let devices = handles.map(|&handle| {
        // SAFETY: all zeros are a valid value of this type.
        let mut found: PhysicalDeviceProperties = unsafe { std::mem::zeroed() };
        // SAFETY: the handle was just returned by Vulkan, and `found` is at least as large as the
        // structure that is written.
        unsafe { properties(handle, &mut found) };
        found.name[255] = 0;
        // SAFETY: the name ends with a zero within its 256 bytes: the last was just set to zero.
        let name = unsafe { CStr::from_ptr(found.name.as_ptr()) };
        VulkanDevice {
            name: name.to_string_lossy().into_owned(),
            is_software: found.kind == PHYSICAL_DEVICE_TYPE_CPU,
        }
    });
    Ok(devices.collect())
    // The instance ends with the process.
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience_ms: u64) -> Answer {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command, Duration::from_millis(patience_ms))
    }

    fn device(name: &str, is_software: bool) -> VulkanDevice {
        VulkanDevice {
            name: name.into(),
            is_software,
        }
    }

    #[test]
    fn a_software_rasteriser_is_no_device() {
        let both = Ok(vec![device("llvmpipe", true), device("a GPU", false)]);
        assert_eq!(hardware(&both), Ok("a GPU".into()));
        let software = hardware(&Ok(vec![device("llvmpipe", true)])).unwrap_err();
        assert!(software.contains("but the software rasteriser llvmpipe"));
        assert!(hardware(&Ok(vec![])).is_err());
        let none = Err("no loader".to_owned());
        assert_eq!(hardware(&none), Err("no loader".into()));
    }

    #[test]
    fn an_answer_is_the_last_line_that_is_one() {
        let said = serde_json::to_string(&Answer::Ok(vec![device("a GPU", false)])).unwrap();
        let script = format!("echo loading; echo '{said}'");
        assert_eq!(shell(&script, 60_000), Ok(vec![device("a GPU", false)]));
        let refused = serde_json::to_string(&Answer::Err("none".into())).unwrap();
        assert_eq!(
            shell(&format!("echo '{refused}'"), 60_000),
            Err("none".into())
        );
    }

    #[test]
    fn a_driver_that_crashes_hangs_or_babbles_is_no_device() {
        let crashed = shell("kill -SEGV $$", 60_000).unwrap_err();
        assert!(crashed.contains("signal: 11"), "{crashed}");
        let hung = shell("exec sleep 600", 20).unwrap_err();
        assert!(hung.contains("did not name its devices"), "{hung}");
        assert!(shell("echo running 0 tests", 60_000).is_err());
    }

    #[test]
    fn this_machine_is_asked_without_harm() {
        // Whatever is installed here, the separate process gives an answer.
        if let Err(why) = ask() {
            assert!(why.contains("Vulkan"), "{why}");
        }
    }
}
