//! Takes the terminal and gives it back: raw mode, the alternate screen, and stdout and stderr.
//! Meanwhile these two streams are redirected into pipes, so that whatever is printed (by a library
//! or a child) ends in the log and not across the picture.
//!
//! Giving back takes no lock and allocates nothing, so that a panic and a signal handler can do it
//! too. The terminal is taken once in the life of a process.

use ratatui::crossterm::cursor::Hide;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, PipeReader, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

static SCREEN: OnceLock<Screen> = OnceLock::new();
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The bytes that turn colours off, leave the alternate screen and show the cursor.
const FAREWELL: &[u8] = b"\x1b[0m\x1b[?1049l\x1b[?25h";
/// Longest time to wait for output of a process that still holds a pipe open.
const PATIENCE: Duration = Duration::from_millis(500);

struct Screen {
    /// A copy of the original stderr: the terminal.
    err: RawFd,
    /// A copy of the original stdout, where that was a terminal too.
    out: Option<RawFd>,
    /// The terminal's original mode.
    mode: libc::termios,
}

/// What gets each line that is printed.
type Each = Box<dyn FnMut(String) + Send>;

/// The threads that read from the pipes.
pub struct Readers(Vec<JoinHandle<()>>);

/// Take the terminal, and return where to draw and the readers of what is printed meanwhile. `said`
/// gets each line of stderr, `printed` each of stdout; a stdout that is no terminal is left alone.
/// The error says why there is no terminal.
pub fn take(said: Each, printed: Each) -> Result<(File, Readers), String> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err("stdin or stderr is no terminal".into());
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err("TERM names no terminal that can be drawn on".into());
    }
    if SCREEN.get().is_some() {
        return Err("this process had one already".into());
    }
    take_now(said, printed).map_err(|error| format!("the terminal can't be taken: {error}"))
}

fn take_now(said: Each, printed: Each) -> std::io::Result<(File, Readers)> {
    let err = std::io::stderr();
    let out = std::io::stdout();
    // Copies that no child inherits.
    let kept_err = err.as_fd().try_clone_to_owned()?;
    let mut tty = File::from(kept_err.try_clone()?);
    let kept_out = out.is_terminal().then(|| out.as_fd().try_clone_to_owned());
    let kept_out = kept_out.transpose()?;
    let screen = Screen {
        err: kept_err.into_raw_fd(),
        out: kept_out.map(IntoRawFd::into_raw_fd),
        mode: mode(libc::STDIN_FILENO)?,
    };
    let has_out = screen.out.is_some();
    let _ = SCREEN.set(screen); // the caller has checked that it is unset
    base::interrupt::before_exit(give_back);
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let redirected: std::io::Result<_> = (|| {
        execute!(tty, EnterAlternateScreen, Hide)?;
        let mut readers = vec![redirect(err.as_raw_fd(), said)?];
        if has_out {
            readers.push(redirect(out.as_raw_fd(), printed)?);
        }
        Ok(readers)
    })();
    let readers = redirected.inspect_err(|_| give_back())?;
    Ok((tty, Readers(readers)))
}

pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// Give the terminal back, if it is taken. May be called from a signal handler.
pub fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let Some(screen) = SCREEN.get() else { return };
    // SAFETY: plain system calls, all of them async-signal-safe, on descriptors that
    // are never closed and on memory that lives as long as the process.
    unsafe {
        libc::dup2(screen.err, libc::STDERR_FILENO);
        if let Some(out) = screen.out {
            libc::dup2(out, libc::STDOUT_FILENO);
        }
        libc::write(screen.err, FAREWELL.as_ptr().cast(), FAREWELL.len());
        libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &screen.mode);
    }
}

impl Readers {
    /// Wait until all that was printed is read. Call after [`give_back`].
    pub fn finish(self) {
        let deadline = Instant::now() + PATIENCE;
        for reader in self.0 {
            // A child process that lives on may hold its pipe open.
            while !reader.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

fn mode(fd: RawFd) -> std::io::Result<libc::termios> {
    // SAFETY: all zeros is a valid termios, which the call overwrites.
    let mut mode: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `mode` is writable.
    match unsafe { libc::tcgetattr(fd, &mut mode) } {
        0 => Ok(mode),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Redirect what is written to `fd` to `each`, line by line, on a new thread.
fn redirect(fd: RawFd, each: Each) -> std::io::Result<JoinHandle<()>> {
    let (reader, writer) = std::io::pipe()?;
    let _ = std::io::stdout().flush();
    // SAFETY: plain system call on open descriptors.
    if unsafe { libc::dup2(writer.as_raw_fd(), fd) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(std::thread::spawn(move || read(reader, each)))
}

fn read(reader: PipeReader, mut each: Each) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        // Where a program overwrote a line after `\r`, keep only the last version.
        let text = text.trim_end_matches(['\n', '\r']);
        each(text.rsplit('\r').next().unwrap_or_default().to_owned());
        line.clear();
    }
}
