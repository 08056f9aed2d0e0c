//! The dashboard's loop: a thread that takes events and keys, and draws at most a few times a
//! second. The module `view` decides what is drawn, and `state` what a key means.
//!
//! A thread that emits an event only puts it into an unbounded queue, so no work ever waits for the
//! terminal. The CPU time that drawing costs is recorded (`dashboard_cpu_ns`) and printed at the
//! end.

use super::event::Event;
use super::state::{Action, Key, State};
use super::{Control, Observer, screen, view};
use protocol::clock::now_ns;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Name of the thread that draws.
pub const THREAD: &str = "dashboard";
/// Time between two drawings.
const FRAME: Duration = Duration::from_millis(250);
/// Time between two drawings while keys are pressed.
const FRAME_MIN: Duration = Duration::from_millis(100);
/// Longest time to wait for a drawing to end before the terminal is given back.
const PATIENCE: Duration = Duration::from_millis(200);

/// Locked while something is drawn.
static DRAWING: Mutex<()> = Mutex::new(());
/// CPU time of the thread that draws (ns); 0 = there is none.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// CPU time that drawing has taken so far (ns); `None` where nothing is drawn.
pub fn cpu_ns() -> Option<u64> {
    Some(CPU_NS.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
}

/// A running dashboard.
pub struct Dashboard {
    thread: JoinHandle<()>,
    readers: screen::Readers,
    said: Said,
    began: Instant,
}

/// Lines that are printed again when the dashboard is gone: on stderr, and on stdout.
type Said = Arc<Mutex<(Vec<String>, Vec<String>)>>;

fn said_again(said: &Said) -> std::sync::MutexGuard<'_, (Vec<String>, Vec<String>)> {
    said.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The sending end of the dashboard's queue of events.
struct Queue {
    sender: Sender<(u64, Event)>,
    said: Said,
}

impl Observer for Queue {
    fn see(&mut self, t_ns: u64, event: Event) -> bool {
        let again = match &event {
            Event::Alert(alert) => Some(format!("{}: {}", alert.severity.word(), alert.text)),
            Event::PrintAtExit(line) => Some(line.clone()),
            _ => None,
        };
        let looks = self.sender.send((t_ns, event)).is_ok();
        if let Some(again) = again.filter(|_| looks) {
            said_again(&self.said).0.push(again);
        }
        looks
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Take the terminal and show all events from now on. Keys make their requests through `control`.
/// The error says why there is no terminal.
pub fn open(command: &str, control: Control) -> Result<Dashboard, String> {
    let (sender, receiver) = channel();
    let said = Said::default();
    // Set the observer first, so that there is one before anything is printed.
    *super::observer() = Some(Box::new(Queue {
        sender,
        said: Arc::clone(&said),
    }));
    start(command, control, receiver, said).inspect_err(|_| {
        screen::give_back();
        *super::observer() = None;
    })
}

fn start(
    command: &str,
    control: Control,
    receiver: Receiver<(u64, Event)>,
    said: Said,
) -> Result<Dashboard, String> {
    let printed_to = Arc::clone(&said);
    let (tty, readers) = screen::take(
        Box::new(|line| super::emit(Event::Line(line))),
        Box::new(move |line| {
            said_again(&printed_to).1.push(line.clone());
            super::emit(Event::Line(line));
        }),
    )?;
    let failed = |error: std::io::Error| format!("nothing can be drawn: {error}");
    let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(tty))).map_err(failed)?;
    let state = State::new(command, now_ns());
    let thread = std::thread::Builder::new()
        .name(THREAD.into())
        .spawn(move || {
            // Give the terminal back even after an error, so that later output is visible.
            let _ = show(terminal, state, &control, &receiver);
            screen::give_back();
        })
        .map_err(failed)?;
    Ok(Dashboard {
        thread,
        readers,
        said,
        began: Instant::now(),
    })
}

impl Dashboard {
    /// Wait until the user has dismissed all alerts of a command that is over, give the terminal
    /// back, and print again what must stay visible after the dashboard is gone.
    pub fn close(self) {
        let panicked = self.thread.join().is_err();
        screen::give_back();
        self.readers.finish();
        *super::observer() = None;
        let (alerts, printed) = std::mem::take(&mut *said_again(&self.said));
        let mut out = std::io::stdout().lock();
        for line in printed {
            let _ = writeln!(out, "{line}");
        }
        let _ = out.flush();
        for line in alerts {
            eprintln!("{line}");
        }
        if let (Some(cpu_ns), false) = (cpu_ns(), panicked) {
            let share = cpu_ns as f64 / self.began.elapsed().as_nanos().max(1) as f64;
            eprintln!("The dashboard took {:.2} % of a core", 100.0 * share);
        }
    }
}

/// Give the terminal back once nothing is being drawn, or after a short time.
pub fn give_back() {
    let deadline = Instant::now() + PATIENCE;
    let mut drawing = DRAWING.try_lock();
    while matches!(drawing, Err(TryLockError::WouldBlock)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        drawing = DRAWING.try_lock();
    }
    screen::give_back();
}

fn show(
    mut terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    mut state: State,
    control: &Control,
    events: &Receiver<(u64, Event)>,
) -> std::io::Result<()> {
    // SAFETY: plain system call; on Linux it concerns this thread alone. What is measured has
    // priority over what is drawn.
    unsafe { libc::nice(10) };
    loop {
        for (t_ns, event) in events.try_iter() {
            state.apply(t_ns, event);
        }
        state.tick(now_ns());
        let drawn = Instant::now();
        {
            let _drawing = DRAWING.lock();
            if !screen::is_taken() {
                return Ok(());
            }
            terminal.draw(|frame| view::draw(frame, &mut state))?;
        }
        CPU_NS.store(base::cpu_time::of_thread().unwrap_or(0), Ordering::Relaxed);
        if state.is_finished() || (state.over && base::interrupt::requested()) {
            return Ok(());
        }
        if event::poll(FRAME)? {
            while event::poll(Duration::ZERO)? {
                if let event::Event::Key(key) = event::read()? {
                    press(&mut state, control, key);
                }
            }
            std::thread::sleep(FRAME_MIN.saturating_sub(drawn.elapsed()));
        }
    }
}

fn press(state: &mut State, control: &Control, key: KeyEvent) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if is_control && key.code == KeyCode::Char('c') {
        state.wish.quit = true;
        // Send the same signal as without a dashboard, so that a second one ends the process.
        base::interrupt::signal_group();
        return;
    }
    match state.key(meaning(key.code)) {
        Some(Action::Pause(pause)) => control.pause(pause),
        Some(Action::Skip) => control.skip(),
        // A stop that was requested already must not become a second signal.
        Some(Action::Quit) if base::interrupt::requested() => {}
        Some(Action::Quit) => base::interrupt::signal_group(),
        None => {}
    }
}

fn meaning(code: KeyCode) -> Key {
    match code {
        KeyCode::Enter | KeyCode::Esc | KeyCode::Char(' ') => Key::Dismiss,
        KeyCode::Char('p') => Key::Pause,
        KeyCode::Char('s') => Key::Skip,
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Char('m') => Key::Meter,
        KeyCode::Char('f') => Key::Follow,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::PageUp => Key::Back,
        KeyCode::PageDown => Key::Forth,
        _ => Key::Other,
    }
}
