//! Starts every program that measures, answers or probes: with only the variables that it needs,
//! and so that it never outlives the harness.
//!
//! Builds are started elsewhere, with all of the user's variables.

use super::Program;
use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// The user's variables that every program sees: paths, and the language. The registry names those
/// that one engine reads.
const NAMES: [&str; 19] = [
    "ATEN_CPU_CAPABILITY",
    "COLORTERM",
    "DRI_PRIME",
    "GLIBC_TUNABLES",
    "HF_HOME",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LIBTORCH",
    "LOCALE_ARCHIVE",
    "LOGNAME",
    "NIX_LD",
    "NIX_LD_LIBRARY_PATH",
    "PATH",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// Prefixes of further such variables: settings of drivers and numeric libraries, and our own.
const PREFIXES: [&str; 23] = [
    "BENCH_",
    "CUBECL_",
    "CUDA_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "LC_",
    "LP_",
    "MALLOC_",
    "MESA_",
    "MKL_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "RADV_",
    "RAYON_",
    "RUST_",
    "TORCH_",
    "VK_",
    "WGPU_",
    "XDG_",
];

/// Endings of the names of secrets. These pass only where the registry names them in full.
const SECRETS: [&str; 5] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIALS"];

/// Whether a program sees a variable of the user's. `of_engine`: those that the registry names for
/// the engine, each a name, or the beginning of names before a `*`.
fn passes(name: &str, of_engine: &[String]) -> bool {
    if NAMES.contains(&name) || of_engine.iter().any(|own| own == name) {
        return true;
    }
    if name == "RUST_LOG" {
        return false; // it is meant for the harness; logging would cost an engine time
    }
    let begins = of_engine.iter().filter_map(|own| own.strip_suffix('*'));
    let mut begins = begins.chain(PREFIXES).filter(|prefix| !prefix.is_empty());
    begins.any(|prefix| name.starts_with(prefix)) && !SECRETS.iter().any(|end| name.ends_with(end))
}

/// Remove from a command's environment all variables that it may not see.
pub(crate) fn narrow(command: &mut Command, of_engine: &[String]) {
    let all = std::env::vars_os();
    let kept = all.filter(|(name, _)| name.to_str().is_some_and(|name| passes(name, of_engine)));
    command.env_clear().envs(kept);
}

impl Program {
    /// The command that starts the program, with its whole environment.
    pub fn command(&self) -> Command {
        let (name, arguments) = self.argv.split_first().expect("a program has a name");
        let mut command = Command::new(name);
        command.args(arguments);
        narrow(&mut command, &self.passed);
        command.envs(self.variables());
        command
    }
}

/// A command to start, and the channel on which its child process (or the error) is sent back.
type Job = (Command, Sender<io::Result<Child>>);

/// Start a command that the kernel kills when this process ends, however that ends and even
/// while the command is stopped.
///
/// The kernel kills the child when the *thread* that started it ends, not the process. So one
/// thread starts all commands, and it lives as long as this process.
pub fn launch(mut command: Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt;
    static LAUNCHER: OnceLock<Sender<Job>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, answer) in jobs {
                let _ = answer.send(command.spawn()); // the caller of `launch` waits for it
            }
        });
        sender
    });
    let harness = std::process::id();
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(move || end_with(harness)) };
    let gone = || io::Error::other("the thread that starts programs is gone");
    let (answer, answered) = channel();
    launcher.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// Run in the child: ask the kernel to kill it when its parent `harness` ends.
fn end_with(harness: u32) -> io::Result<()> {
    // SAFETY: plain system calls without pointers.
    let (set, parent) = unsafe {
        let signal = libc::SIGKILL as libc::c_ulong;
        (libc::prctl(libc::PR_SET_PDEATHSIG, signal), libc::getppid())
    };
    match set {
        // The harness may have ended just before; then no signal would come.
        0 if parent.cast_unsigned() == harness => Ok(()),
        0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_needed_passes_and_no_secret_does() {
        let own = ["SERVER_KEY", "SERVER_*"].map(str::to_owned);
        for name in ["PATH", "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "BENCH_X"] {
            assert!(passes(name, &[]), "{name}");
        }
        for name in ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PATHS", "PYTHONPATH"] {
            assert!(!passes(name, &own), "{name}");
        }
        for name in ["BENCH_X_TOKEN", "CUDA_API_KEY", "TORCH_PASSWORD"] {
            assert!(!passes(name, &[]), "{name}");
        }
        assert!(passes("RUST_BACKTRACE", &[]) && !passes("RUST_LOG", &own));
        assert!(passes("SERVER_KEY", &own) && passes("SERVER_ADDRESS", &own));
        assert!(!passes("SERVER_TOKEN", &own) && !passes("SERVER_ADDRESS", &[]));
        assert!(!passes("ANYTHING", &["*".to_owned()]), "all is not a name");
    }

    #[test]
    fn a_program_has_what_passes_and_what_it_is_given() {
        let argv = vec!["sh".to_owned()];
        let own = vec![("BENCH_GIVEN".to_owned(), "1".to_owned())];
        let program = Program::new(argv, vec![], Path::new("/"), Path::new("/")).with_env(own);
        let command = program.command();
        let set: Vec<(&str, bool)> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value.is_some())))
            .collect();
        assert!(set.contains(&("BENCH_GIVEN", true)) && set.contains(&("PATH", true)));
        // Cargo sets these for every test.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        assert!(!set.iter().any(|(name, _)| name.starts_with("CARGO_")));
    }

    #[test]
    fn what_is_launched_outlives_the_thread_that_asked() {
        let mut command = Command::new("cat");
        command.stdin(std::process::Stdio::piped());
        let asked = std::thread::spawn(move || launch(command));
        let mut child = asked.join().unwrap().unwrap();
        assert!(matches!(child.try_wait(), Ok(None)));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "it ended by itself");
    }

    #[test]
    fn what_cannot_be_started_says_so() {
        let error = launch(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
