//! Progress without a dashboard, while something is measured or verified by the gate. On a terminal
//! it is a bar with what runs, the last sample and when it will be done; on another stream, a plain
//! line now and then.

use super::Observer;
use super::event::{Event, Stage};
use super::state::State;
use super::words::eta;
use base::say;
use indicatif::{ProgressBar, ProgressStyle};
use protocol::clock::now_ns;
use std::io::IsTerminal;

/// Time between two plain lines (ns).
const LINE_NS: u64 = 10_000_000_000;
/// Time between two drawings of the bar (ns): the thread that emits a sample also measures.
const DRAW_NS: u64 = 250_000_000;

#[derive(Default)]
pub struct Plain {
    state: State,
    terminal: bool,
    bar: Option<ProgressBar>,
    began_ns: u64,
    /// Number of launches of the stage that ended or won't be made.
    ended: usize,
    line_ns: Option<u64>,
    drawn_ns: u64,
}

impl Plain {
    pub fn stderr() -> Self {
        Self {
            state: State::new("", now_ns()),
            terminal: std::io::stderr().is_terminal() && !say::is_quiet(),
            ..Self::default()
        }
    }

    fn say(&self, line: &str) {
        if !say::is_quiet() {
            self.say_always(line);
        }
    }

    fn say_always(&self, line: &str) {
        match &self.bar {
            Some(bar) if self.terminal => bar.println(line),
            _ => say::always(cfg!(test), format_args!("{line}\n")),
        }
    }

    fn begin_stage(&mut self, stage: Stage, t_ns: u64) {
        if self.end_stage() && self.state.stage.is_some_and(is_measuring) {
            let s = t_ns.saturating_sub(self.began_ns) / 1_000_000_000;
            let failed = match self.state.tree.failed(self.state.stage) {
                0 => String::new(),
                n => format!(", {n} failed"),
            };
            let (ended, lasted) = (self.ended, base::text::lasted(s));
            self.say(&format!("Measured {ended} launches in {lasted}{failed}"));
        }
        if is_measuring(stage) || stage == Stage::Gate {
            (self.began_ns, self.ended) = (t_ns, 0);
            // Delay the first line of the gate: with a small model the gate ends before it is due.
            self.line_ns = (stage == Stage::Gate).then_some(t_ns);
            self.bar = Some(match self.terminal {
                true => ProgressBar::new(0).with_style(style()),
                false => ProgressBar::hidden(),
            });
        }
    }

    /// Remove the bar, and return whether there was one.
    fn end_stage(&mut self) -> bool {
        let bar = self.bar.take();
        bar.inspect(ProgressBar::finish_and_clear).is_some()
    }

    fn title(&self) -> String {
        let begin = self.state.running.as_ref().map(|running| &running.begin);
        begin.map_or(String::new(), |begin| {
            let words = [&begin.detail, &begin.item, &begin.group].map(String::as_str);
            let words = words.into_iter().filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(" · ")
        })
    }

    /// The remaining time in words; `None` in the gate, because nothing estimates how long a
    /// target's answers take.
    fn eta(&self) -> Option<String> {
        (!self.is_gate()).then(|| eta(self.state.eta_ns(), self.state.later_ns()))
    }

    fn is_gate(&self) -> bool {
        self.state.stage == Some(Stage::Gate)
    }

    fn line(&mut self, t_ns: u64) {
        let due = self.line_ns.is_none_or(|line_ns| t_ns >= line_ns + LINE_NS);
        if self.terminal || self.bar.is_none() || !due {
            return;
        }
        self.line_ns = Some(t_ns);
        eprintln!("{}", self.progress());
    }

    /// A plain line of progress, such as
    /// `[3/6] candle.cpu.q8_0 · parity on tiny-llama, requests in company`.
    fn progress(&self) -> String {
        let (behind, all) = self.state.tree.count(self.state.stage);
        let running = self.state.running.as_ref().filter(|_| self.is_gate());
        let part = running.and_then(|running| running.part.clone());
        let words = [Some(self.title()), part, self.eta()];
        let words: Vec<String> = words.into_iter().flatten().collect();
        format!("[{}/{all}] {}", behind + 1, words.join(", "))
    }

    fn draw(&mut self, t_ns: u64) {
        let Some(bar) = self.bar.as_ref().filter(|_| self.terminal) else {
            return;
        };
        self.drawn_ns = t_ns;
        let (behind, all) = self.state.tree.count(self.state.stage);
        bar.set_length(all.into());
        bar.set_position(behind.into());
        let running = self.state.running.as_ref();
        let part = running.map(|running| match &running.part {
            None => "loading".to_owned(),
            Some(part) => part.clone(),
        });
        let last = running
            .zip(self.state.meter())
            .and_then(|(running, (meter, name, unit))| {
                let last = *running.live.values(meter).last()?;
                Some(format!("{name} {last:.1} {unit}"))
            });
        let words = [Some(self.title()), part, last, self.eta()];
        let words: Vec<String> = words.into_iter().flatten().collect();
        bar.set_message(words.join(" · "));
    }
}

impl Observer for Plain {
    fn see(&mut self, t_ns: u64, event: Event) -> bool {
        match &event {
            Event::Stage(stage) => self.begin_stage(*stage, t_ns),
            Event::Over => {
                self.end_stage();
            }
            Event::End { .. } | Event::Drop { .. } => self.ended += 1,
            Event::Alert(alert) => {
                self.say_always(&format!("{}: {}", alert.severity.word(), alert.text));
            }
            Event::PrintAtExit(line) => self.say_always(line),
            Event::Line(line) => self.say(line),
            _ => {}
        }
        let (began, seldom) = match &event {
            Event::Begin(_) => (true, false),
            // In the gate a target can take minutes, with many questions.
            Event::Part { .. } => (self.is_gate(), false),
            Event::Sample(_) | Event::Reading(_) | Event::Share(_) => (false, true),
            _ => (false, false),
        };
        self.state.apply(t_ns, event);
        if began {
            self.line(t_ns);
        }
        if !seldom || t_ns >= self.drawn_ns + DRAW_NS {
            self.draw(t_ns);
        }
        true
    }

    fn is_live(&self) -> bool {
        false
    }
}

/// Whether a stage's progress is counted in launches.
fn is_measuring(stage: Stage) -> bool {
    matches!(stage, Stage::Measure | Stage::Micro)
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos}/{len} [{elapsed_precise}] {wide_msg}")
        .expect("the template is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Begin;
    use crate::event::scripted::{group, part};

    #[test]
    fn the_gate_says_whom_it_asks_what() {
        let mut plain = Plain::stderr();
        let name = "parity on tiny-llama";
        let events = [
            Event::Stage(Stage::Gate),
            group(name, &["a.cpu.f32", "b.cpu.f32"], 1),
            Event::Begin(Begin::plain(name, "a.cpu.f32")),
        ];
        for event in events {
            plain.see(0, event);
        }
        assert_eq!(plain.progress(), "[1/2] a.cpu.f32 · parity on tiny-llama");
        plain.see(1, part("a context of 17 tokens", 0));
        let said = "[1/2] a.cpu.f32 · parity on tiny-llama, a context of 17 tokens";
        assert_eq!(plain.progress(), said);
        plain.see(2, part("requests in company", 0));
        let said = "[1/2] a.cpu.f32 · parity on tiny-llama, requests in company";
        assert_eq!(plain.progress(), said);
    }
}
