//! An engine's process: started in its own process group with three pipes, its
//! answers stamped as they are read, its stderr kept to the last lines, and gone
//! with everything it started when this value is dropped.

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
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use watch::Control;

/// A line longer than this is not an answer.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Lines of stderr kept for a failure's record.
const STDERR_LINES_MAX: usize = 30;
/// Bytes of each such line.
const STDERR_LINE_BYTES_MAX: usize = 500;

/// The way into a process: lines go in here, from whichever thread holds it.
pub struct Input(ChildStdin);

impl Input {
    /// Write one line, its newline included, in one call; the time after it was written.
    /// An error means the process no longer reads, which its output will explain.
    pub fn write(&mut self, line: &[u8]) -> std::io::Result<u64> {
        self.0.write_all(line)?;
        Ok(now_ns())
    }
}

/// A running engine.
pub struct Process {
    child: Child,
    stdin: Option<Input>,
    output: Arc<Unread>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    stderr_reader: Option<std::thread::JoinHandle<()>>,
    /// Just before it was started.
    pub start_ns: u64,
    /// What its library is kept to.
    pub(super) isa_limit: Option<IsaLimit>,
    /// Whether [`Process::finish`] lost its patience.
    pub(super) was_killed: bool,
    /// By which the user gives up what is waited for.
    pub(super) control: Control,
}

impl Process {
    /// Start `program`, with the variables that `start` lets it have, in our working directory.
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

    /// Process id, also its process group's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Write one line, without its newline, as [`Input::write`] does.
    pub fn write_line(&mut self, line: &str) -> std::io::Result<u64> {
        let stdin = self.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written_ns = stdin.write(&bytes)?;
        tracing::trace!(pid = self.child.id(), %line, "asked");
        Ok(written_ns)
    }

    /// Take the way in, to write from another thread while answers are read here.
    /// Until it is given back nothing else can be written; dropping it closes it.
    pub fn take_input(&mut self) -> Option<Input> {
        self.stdin.take()
    }

    /// Give it back.
    pub fn return_input(&mut self, input: Input) {
        self.stdin = Some(input);
    }

    /// What comes out next, or `None` at the deadline.
    pub fn read(&self, deadline: Instant) -> Option<Output> {
        self.output.take(deadline)
    }

    /// Whether the process itself is gone, though something it started may still
    /// hold its stream open.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Stop its process group where it is: from now on it takes no CPU time, whatever its
    /// threads were about to do.
    pub fn pause(&self) {
        self.signal_group(libc::SIGSTOP);
    }

    /// Let it go on; its clock has run on meanwhile. Of no effect where it wasn't paused.
    pub fn resume(&self) {
        self.signal_group(libc::SIGCONT);
    }

    /// Close its stdin, wait at most `patience`, then kill it; how it ended.
    pub fn finish(&mut self, patience: Duration) -> Option<ExitStatus> {
        self.stdin = None;
        self.resume();
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.kill_group();
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.was_killed = true;
        self.kill_group();
        self.child.wait().ok()
    }

    /// The last lines of stderr. Call after [`Process::finish`].
    pub fn stderr_tail(&mut self) -> String {
        if let Some(reader) = self.stderr_reader.take() {
            // Something that outlived the group could hold the pipe open: don't wait for it.
            let deadline = Instant::now() + Duration::from_millis(500);
            while !reader.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let lines = self
            .stderr
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn kill_group(&self) {
        self.signal_group(libc::SIGKILL);
    }

    fn signal_group(&self, signal: libc::c_int) {
        let group = self.child.id() as libc::pid_t;
        // SAFETY: plain system call; the group is the child's own (process_group(0)),
        // and the child has not been reaped under that id unless it already ended,
        // in which case only what it left behind is signalled.
        unsafe { libc::kill(-group, signal) };
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.output.leave();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// How a process ended, in words.
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

/// A hundred queued requests fit in 1 MiB, so that writing to an engine that
/// doesn't read can't block the schedule. Where the kernel refuses, 64 KiB stays.
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
                Output::End // cut short by death
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
                let text = base::text::said(&line);
                let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if kept.len() == STDERR_LINES_MAX {
                    kept.pop_front();
                }
                kept.push_back(text);
            }
        }
    }
}
