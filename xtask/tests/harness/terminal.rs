//! Runs a command in a pseudo-terminal and reads its screen. Tests wait for what the screen shows,
//! not for a time; a command that ends or hangs instead fails the test with its last screen.

use crate::checkout::Checkout;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Size of the terminal, wide enough for all columns side by side.
const SIZE: PtySize = PtySize {
    rows: 40,
    cols: 120,
    pixel_width: 0,
    pixel_height: 0,
};
/// Longest wait for something that takes seconds; after it, the command counts as hanging.
const PATIENCE: Duration = Duration::from_secs(240);

/// A command and its terminal.
pub struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    /// Held open, so that the terminal's mode can be read after the command has ended.
    slave: Box<dyn SlavePty + Send>,
    reader: JoinHandle<()>,
}

/// The state in which a command left its terminal.
pub struct Ended {
    /// The command's exit status.
    pub code: u32,
    /// The text on the screen.
    pub text: String,
    /// Whether the terminal echoes and edits lines again.
    pub is_cooked: bool,
    /// Whether the earlier screen is shown again, with the cursor.
    pub is_restored: bool,
}

impl Terminal {
    /// Start `cargo xtask` in a checkout.
    pub fn start(checkout: &Checkout, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::run(&checkout.command(arguments, environment))
    }

    /// Start a command.
    pub fn run(command: &Command) -> Self {
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.cwd(command.get_current_dir().unwrap_or(Path::new(".")));
        for (name, value) in command.get_envs() {
            builder.env(name, value.unwrap_or_default());
        }
        builder.env("TERM", "xterm-256color");
        let pair = native_pty_system().openpty(SIZE);
        let pair = pair.expect("a pseudo-terminal can be had");
        let child = pair.slave.spawn_command(builder);
        let child = child.expect("the binary can be started");
        let mut output = pair
            .master
            .try_clone_reader()
            .expect("its output can be read");
        let keys = pair.master.take_writer().expect("keys can be pressed");
        let [rows, columns] =
            [SIZE.rows, SIZE.cols].map(|n| n.try_into().expect("the terminal has a size"));
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let drawn = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                drawn
                    .lock()
                    .expect("no test panics there")
                    .process(&bytes[..n]);
            }
        });
        Self {
            screen,
            child,
            keys,
            master: pair.master,
            slave: pair.slave,
            reader,
        }
    }

    /// Return the text on the screen.
    pub fn text(&self) -> String {
        let screen = self.screen.lock().expect("no test panics there");
        screen.screen().contents()
    }

    /// Wait until the screen shows all of these words; return its text.
    pub fn sees(&mut self, words: &[&str]) -> String {
        self.until(&format!("{words:?}"), |text| {
            words.iter().all(|word| text.contains(word))
        })
    }

    /// Wait until the screen is as wanted; return its text.
    pub fn until(&mut self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().expect("it can be waited for");
            let text = self.text();
            if is_wanted(&text) {
                return text;
            }
            assert!(ended.is_none(), "ended ({ended:?}) before {what}:\n{text}");
            assert!(Instant::now() < deadline, "never saw {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Press keys.
    pub fn press(&mut self, keys: &str) {
        let written = self.keys.write_all(keys.as_bytes());
        written
            .and_then(|()| self.keys.flush())
            .expect("the terminal is there");
    }

    /// Wait until the command has ended.
    pub fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "never ended:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        };
        let mode = self.master.get_termios().expect("it is a terminal");
        let mode: libc::termios = mode.into();
        // Once it is closed, the output ends when all of it has been read.
        drop(self.slave);
        drop(self.keys);
        let _ = self.reader.join();
        let parser = self.screen.lock().expect("no test panics there");
        let screen = parser.screen();
        Ended {
            code: status.exit_code(),
            text: screen.contents(),
            is_cooked: mode.c_lflag & libc::ICANON != 0 && mode.c_lflag & libc::ECHO != 0,
            is_restored: !screen.alternate_screen() && !screen.hide_cursor(),
        }
    }
}
