//! This module reserves standard output for the protocol, and ends the process when nobody reads
//! it. It deliberately does not format anything.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

/// Take over file descriptor 1 for events, and redirect every other writer to standard error, C
/// and C++ libraries included.
pub fn claim_stdout() -> io::Result<File> {
    // SAFETY: duplicating a descriptor touches no memory. Close-on-exec, so that
    // no child of an engine can hold the harness's pipe open.
    let stream = unsafe { libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3) };
    if stream < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above; both descriptors are open.
    if unsafe { libc::dup2(2, 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `stream` is open and no other code owns it.
    Ok(unsafe { File::from_raw_fd(stream) })
}

/// End this process as soon as the stream has no reader any more, even in the
/// middle of a batch that takes minutes: a harness that dies must not leave an engine
/// behind that disturbs the next measurement.
///
/// On Linux `PR_SET_PDEATHSIG` could do this, but it fires when the *thread* that started this
/// process ends, which may happen while the harness is running well. A pipe without readers
/// reports an error to `poll`, whoever closed it; a terminal or a file never does. The thread
/// sleeps in the kernel and costs nothing.
pub fn exit_when_output_closes(stream: &File) {
    let Ok(watched) = stream.as_fd().try_clone_to_owned() else {
        return;
    };
    std::thread::spawn(move || {
        let mut fd = libc::pollfd {
            fd: watched.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        loop {
            // SAFETY: `fd` is one valid pollfd; no events asked for means that
            // only errors and hang-ups are reported.
            let ready = unsafe { libc::poll(&mut fd, 1, -1) };
            let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if ready < 0 && !interrupted {
                return;
            }
            if fd.revents & (libc::POLLERR | libc::POLLHUP) != 0 {
                // SAFETY: `_exit` never returns. Not `exit`: the engine is at
                // work on other threads and its destructors must not run.
                unsafe { libc::_exit(0) }
            }
            if ready > 0 {
                return; // POLLNVAL: nothing to watch
            }
        }
    });
}
