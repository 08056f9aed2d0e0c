//! Runs an engine's process: started in its own process group with three pipes, its answers stamped
//! as they are read, the last lines of its stderr kept, and killed together with everything it
//! started when this value is dropped.

use super::Program;
use super::start::launch;
use super::unread::{Output, Unread};
use protocol::clock::now_ns;
use schema::record::IsaLimit;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use watch::Control;

/// The maximum length of an answer's line (bytes).
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Lines of stderr that are kept for a failure's record.
const STDERR_LINES_MAX: usize = 30;
/// Bytes that are kept of each such line.
const STDERR_LINE_BYTES_MAX: usize = 500;

/// The stdin of a process: whichever thread holds it writes lines to it.
pub struct Input(ChildStdin);

impl Input {
    /// Write one line, its newline included, in one call; returns the time after the write (ns). An
    /// error means that the process no longer reads; its output will say why.
    pub fn write(&mut self, line: &[u8]) -> std::io::Result<u64> {
        self.0.write_all(line)?;
        Ok(now_ns())
    }
}

/// The running process of an engine.
pub struct Process {
    child: Child,
    stdin: Option<Input>,
    output: Arc<Unread>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: Option<std::thread::JoinHandle<()>>,
    /// Time just before the process was started (ns, `CLOCK_MONOTONIC`).
    pub start_ns: u64,
    /// The instructions that its library is kept to, if it is limited.
    pub(super) isa_limit: Option<IsaLimit>,
    /// Whether [`Process::finish`] killed the process after it had waited in vain.
    pub(super) was_killed: bool,
    /// The handle through which the user can give up waiting for the process.
    pub(super) control: Control,
}

impl Process {
    /// Start `program` in our working directory, with the variables that `start` passes on.
    pub fn start(program: &Program, control: &Control) -> std::io::Result<Self> {
        let mut command = program.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let start_ns = now_ns();
        let mut child = launch(command)?;
        tracing::debug!(pid = child.id(), argv = ?program.argv, "process started");
        let stdin = child.stdin.take().expect("stdin is piped");
        widen_pipe(&stdin);
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr_pipe = child.stderr.take().expect("stderr is piped");
        let output = Arc::new(Unread::default());
        let unread = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(1 << 16, stdout);
            loop {
                let item = read_line(&mut reader);
                let last = !matches!(item, Output::Line { .. });
                if !unread.put(item) || last {
                    break;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&stderr);
        let stderr_reader = std::thread::spawn(move || keep_last_lines(stderr_pipe, &kept));
        Ok(Self {
            child,
            stdin: Some(Input(stdin)),
            output,
            stderr,
            stderr_reader: Some(stderr_reader),
            start_ns,
            isa_limit: program.isa_limit().cloned(),
            was_killed: false,
            control: control.clone(),
        })
    }

    /// The process id, which is also its process group's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Write one line, to which the newline is added, as [`Input::write`] does.
    pub fn write_line(&mut self, line: &str) -> std::io::Result<u64> {
        let stdin = self.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written_ns = stdin.write(&bytes)?;
        tracing::trace!(pid = self.child.id(), %line, "asked");
        Ok(written_ns)
    }

    /// Take the process's stdin, to write to it from another thread while answers are read here.
    /// Until it is returned nothing else can be written; dropping it closes it.
    pub fn take_input(&mut self) -> Option<Input> {
        self.stdin.take()
    }

    /// Return the stdin that [`Process::take_input`] took.
    pub fn return_input(&mut self, input: Input) {
        self.stdin = Some(input);
    }

    /// The next output of the process, or `None` at the deadline.
    pub fn read(&self, deadline: Instant) -> Option<Output> {
        self.output.take(deadline)
    }

    /// Whether the process itself has ended, though something it started may still hold its stdout
    /// open.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Stop its process group (SIGSTOP): from now on it takes no CPU time, whatever its threads
    /// were about to do.
    pub fn pause(&self) {
        self.signal_group(libc::SIGSTOP);
    }

    /// Continue its process group; the clock has run on meanwhile. No effect if not paused.
    pub fn resume(&self) {
        self.signal_group(libc::SIGCONT);
    }

    /// Close its stdin, wait at most `timeout`, then kill it; returns how it ended.
    pub fn finish(&mut self, timeout: Duration) -> Option<ExitStatus> {
        self.stdin = None;
        self.resume();
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.signal_group(libc::SIGKILL);
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.was_killed = true;
        self.signal_group(libc::SIGKILL);
        self.child.wait().ok()
    }

    /// The last lines of stderr. Call after [`Process::finish`].
    pub fn stderr_tail(&mut self) -> String {
        if let Some(reader) = self.stderr_reader.take() {
            // A process that outlived the group could hold the pipe open, so waiting has a limit.
            let deadline = Instant::now() + Duration::from_millis(500);
            while !reader.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let mut lines = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        lines.make_contiguous().join("\n")
    }

    fn signal_group(&self, signal: libc::c_int) {
        let group = self.child.id() as libc::pid_t;
        // SAFETY: plain system call; the group is the child's own (process_group(0)), and the child
        // has not been reaped under that id unless it already ended, in which case only processes
        // that it left behind are signalled.
        unsafe { libc::kill(-group, signal) };
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.output.leave();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal_group(libc::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// A description of how a process ended, to follow "the process".
pub fn describe_exit(status: Option<ExitStatus>) -> String {
    match status {
        None => "could not be waited for".into(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(libc::SIGKILL)) => {
                "was killed by SIGKILL (the kernel does that when memory runs out)".into()
            }
            (None, Some(libc::SIGILL)) => {
                "was killed by SIGILL: an illegal instruction, which this processor advertises or the program was built for (`cargo xtask doctor` tries what is advertised)".into()
            }
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".into(),
        },
    }
}

/// Enlarge the pipe to 1 MiB, in which a hundred queued requests fit, so that writing to an engine
/// that doesn't read can't block the schedule. Where the kernel refuses, it stays at 64 KiB.
fn widen_pipe(stdin: &ChildStdin) {
    // SAFETY: the descriptor is open for as long as `stdin` is borrowed.
    unsafe { libc::fcntl(stdin.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
}

fn read_line(reader: &mut impl BufRead) -> Output {
    let mut bytes = Vec::new();
    match reader
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut bytes)
    {
        Ok(0) | Err(_) => Output::End,
        Ok(_) => {
            let read_ns = now_ns();
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
                Output::Line { read_ns, bytes }
            } else if bytes.len() as u64 >= LINE_BYTES_MAX {
                Output::TooLong
            } else {
                Output::End // the process died within a line
            }
        }
    }
}

fn keep_last_lines(pipe: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(1 << 16).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                line.truncate(STDERR_LINE_BYTES_MAX);
                let text = base::text::last_printed(&line);
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == STDERR_LINES_MAX {
                    kept.pop_front();
                }
                kept.push_back(text);
            }
        }
    }
}
