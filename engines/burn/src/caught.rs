//! Converts Burn's panics to errors. CubeCL works on one thread per device: if that one panics, a
//! thread that waits for it only learns that the channel is closed. So the message of the first
//! panic is kept, and becomes the error.

use protocol::panicked;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Largest number of characters of an error, which is shown in a table: a loader's message lists
/// every file it looked for.
const CHARS_MAX: usize = 300;

/// How many panics there were on threads that were not inside `caught`, and the last one's message.
static PANICS: Mutex<(u64, String)> = Mutex::new((0, String::new()));

thread_local! {
    /// Whether this thread is inside `caught`.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Call `call`; if it panics, return the first line of the panic's message as the error.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    listen();
    let before = panics().0;
    let was_caught = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CAUGHT.set(was_caught);
    result.map_err(|payload| {
        let own = line(payload.as_ref());
        // The channel was closed because the thread at its other end panicked.
        let is_gone = ["RecvError", "SendError"].iter().any(|e| own.contains(e));
        let panics = panics();
        match is_gone && panics.0 > before {
            true => panics.1.clone(),
            false => own,
        }
    })
}

fn panics() -> MutexGuard<'static, (u64, String)> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Install a panic hook that records the messages of other threads' panics and then reports them
/// as before.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                let line = line(panic.payload());
                let mut panics = panics();
                *panics = (panics.0 + 1, line);
            }
            previous(panic);
        }));
    });
}

fn line(payload: &(dyn Any + Send)) -> String {
    let text = panicked::message(payload);
    let mut line = text.lines().next().unwrap_or_default().to_owned();
    if let Some((end, _)) = line.char_indices().nth(CHARS_MAX) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_error_is_the_first_line_of_who_panicked() {
        assert_eq!(caught(|| 1), Ok(1));
        let own = caught(|| panic!("no room\nfor {} bytes", 5));
        assert_eq!(own, Err::<(), _>("no room".into()));
        let long = caught(|| panic!("{}", "é".repeat(1000))).map(|()| 0);
        assert_eq!(long.unwrap_err().chars().count(), CHARS_MAX + 1);

        let device = || {
            let (answer, answered) = channel::<()>();
            std::thread::spawn(move || {
                let _answer = answer;
                panic!("there is no driver");
            });
            answered.recv().unwrap();
        };
        assert_eq!(caught(device), Err("there is no driver".into()));
        // An earlier message doesn't count, nor does one beside a panic of this thread.
        let silent = caught(|| {
            let (answer, answered) = channel::<()>();
            drop(answer);
            answered.recv().unwrap();
        });
        assert!(silent.unwrap_err().contains("RecvError"));
        let both = caught(|| {
            let _ = catch_unwind(device);
            panic!("ours");
        });
        assert_eq!(both, Err::<(), _>("ours".into()));
    }
}
