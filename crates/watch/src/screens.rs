//! Tests of the renderer with scripted events: what is on the screen, at every size, and the
//! pictures in `crates/watch/DASHBOARD.md`, which are drawn here, so that they stay true.
//! `BENCH_BLESS=1 cargo test -p watch screens` draws them anew.

use super::event::scripted::{alert, end, group, launch, part};
use super::event::{Begin, Event, Mark, Reading, Sample, Severity, Stage};
use super::state::{Key, State};
use super::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::Path;

const S: u64 = 1_000_000_000;

fn drawn(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width.max(1)));
    let row = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned() + "\n"
    };
    rows.map(row).collect()
}

/// The state after the events of a run up to the point called `until`.
fn script(until: &str) -> State {
    let mut state = State::new("cargo xtask bench", 0);
    let mut t = 0;
    let mut then = |state: &mut State, events: Vec<Event>| {
        for event in events {
            t = state.now_ns.max(t) + S / 10;
            state.apply(t, event);
        }
    };
    let line = |text: &str| Event::Line(text.into());
    then(
        &mut state,
        vec![
            Event::Title("cpu · tiny-llama".into()),
            Event::Stage(Stage::Fetch),
            Event::Stage(Stage::Build),
            line("   Compiling quick-bench v0.1.0"),
            line("    Finished `release` profile in 48.10s"),
            Event::Stage(Stage::Gate),
            group(
                "parity on tiny-llama",
                &["quick.cpu.f32", "slow.cpu.q8_0"],
                1,
            ),
            begin("parity on tiny-llama", "quick.cpu.f32"),
        ],
    );
    if until == "start" {
        state.tick(2 * S);
        return state;
    }
    then(
        &mut state,
        vec![
            end(Mark::Done, ""),
            begin("parity on tiny-llama", "slow.cpu.q8_0"),
            line("Parity: quick.cpu.f32 verified"),
            end(Mark::Done, ""),
            line("Parity: slow.cpu.q8_0 verified"),
            line("Measuring 8 of 8 launches into runs/20260102-030405-cpu-1a2b"),
            Event::Stage(Stage::Measure),
            group("single_request", &["quick.cpu.f32", "slow.cpu.q8_0"], 2),
            group("sustained", &["quick.cpu.f32", "slow.cpu.q8_0"], 2),
        ],
    );
    for (item, ms) in [("quick.cpu.f32", 2.0), ("slow.cpu.q8_0", 5.0)] {
        for number in 0..2 {
            let begins = vec![launch("single_request", item), part("p50", 20)];
            then(&mut state, begins);
            let mut t_ns = state.now_ns;
            for i in 0..20_u32 {
                // Values that rise and fall, so that the picture shows a curve.
                let tpot = ms * (1.0 + 0.25 * f64::from(i % 7) / 7.0);
                t_ns += (tpot * 17e6) as u64;
                state.apply(t_ns, request(t_ns, tpot));
            }
            then(&mut state, vec![reading(t_ns, t_ns)]);
            state.tick(t_ns);
            if until == "mid-run" && item == "slow.cpu.q8_0" && number == 1 {
                let now_ns = state.now_ns + S / 2;
                state.apply(now_ns, reading(now_ns, now_ns - S / 4));
                return state;
            }
            then(&mut state, vec![Event::PartEnd, end(Mark::Done, "")]);
        }
    }
    let reason = "crashed: while answering the process was killed by signal 6";
    then(
        &mut state,
        vec![
            launch("sustained", "slow.cpu.q8_0"),
            alert(
                Severity::Error,
                &format!("slow.cpu.q8_0 · sustained: {reason}"),
            ),
            end(Mark::Failed, reason),
            Event::Drop {
                group: "sustained".into(),
                item: "slow.cpu.q8_0".into(),
                mark: Mark::Failed,
            },
            launch("sustained", "quick.cpu.f32"),
            alert(
                Severity::Warning,
                "No reference engine on this machine: the timed outputs stay unchecked, and the report says so",
            ),
        ],
    );
    state
}

fn begin(group: &str, item: &str) -> Event {
    Event::Begin(Begin {
        skippable: true,
        ..Begin::plain(group, item)
    })
}

fn request(t_ns: u64, tpot_ms: f64) -> Event {
    Event::Sample(Sample {
        t_ns,
        timed: true,
        values: [Some(tpot_ms), Some(3.0 * tpot_ms), Some(18.0 * tpot_ms)],
        work: 16.0,
    })
}

fn reading(t_ns: u64, cpu_ns: u64) -> Event {
    Event::Reading(Reading {
        t_ns,
        cpu_ns: Some(cpu_ns * 2),
        rss_bytes: Some(300 << 20),
        host_busy_ns: Some(cpu_ns * 2),
        host_idle_ns: Some(t_ns / 4),
        package_energy_uj: Some(t_ns / 1000 * 45),
        ..Reading::default()
    })
}

#[test]
fn the_start_shows_the_stage_and_its_plan() {
    let screen = drawn(&mut script("start"), 100, 24);
    for word in [
        "cargo xtask bench cpu · tiny-llama",
        "parity gate · 0:02",
        "0/2",
        "▶ parity on tiny-llama",
        "▶ quick.cpu.f32",
        "· slow.cpu.q8_0",
        "Finished `release` profile",
        "CPU – ",
        "GPU – · – · – · –",
        "p pause · s skip · q quit",
    ] {
        assert!(screen.contains(word), "no {word:?} in\n{screen}");
    }
    assert!(!screen.contains("ETA"), "nothing is known yet\n{screen}");
}

#[test]
fn samples_have_their_median_interval_rate_and_the_machine_beside_them() {
    let mut state = script("mid-run");
    let screen = drawn(&mut state, 100, 24);
    let interval = state.running.as_ref().unwrap().live.median(0).unwrap();
    let (low, high) = interval.bounds.unwrap();
    let median = format!(
        "TPOT median {:.2} [{low:.2}, {high:.2}] ms",
        interval.median
    );
    for word in [
        median.as_str(),
        "slow.cpu.q8_0 · single_request · p50",
        "n 20 of 20 · running for",
        "1 complete launch",
        "tok/s",
        "3/8",
        "ETA",
        "RSS 300 MiB",
        "45 W",
    ] {
        assert!(screen.contains(word), "no {word:?} in\n{screen}");
    }
    assert!(screen.contains('█') && screen.contains('▃'), "{screen}");
    state.key(Key::Meter);
    assert!(drawn(&mut state, 100, 24).contains("TTFT median"));
}

#[test]
fn each_alert_is_a_dialog_over_everything() {
    let mut state = script("alert");
    let first = drawn(&mut state, 100, 24);
    assert!(first.contains("error 1 of 2"), "{first}");
    assert!(first.contains("killed by signal 6"), "{first}");
    assert!(first.contains("Enter, Esc or Space dismisses"), "{first}");
    state.key(Key::Dismiss);
    let second = drawn(&mut state, 100, 24);
    assert!(second.contains("warning 2 of 2"), "{second}");
    assert!(second.contains("stay unchecked"), "{second}");
    state.key(Key::Dismiss);
    let third = drawn(&mut state, 100, 24);
    assert!(!third.contains("dismisses"), "{third}");
    assert!(third.contains("✗ slow.cpu.q8_0: crashed"), "{third}");
    assert!(third.contains("2/2"), "what is not made counts: {third}");
}

#[test]
fn a_long_alert_is_whole() {
    let words: Vec<String> = (0..60).map(|i| format!("word{i:02}")).collect();
    let mut state = State::new("c", 0);
    state.apply(0, alert(Severity::Panic, &words.join(" ")));
    let screen = drawn(&mut state, 80, 24);
    assert!(screen.contains("panic 1 of 1"));
    for word in words {
        assert!(screen.contains(&word), "no {word} in\n{screen}");
    }
}

#[test]
fn keys_say_what_they_will_do() {
    let mut state = script("mid-run");
    state.key(Key::Quit);
    assert!(drawn(&mut state, 100, 24).contains("q again stops the run"));
    state.key(Key::Pause);
    assert!(drawn(&mut state, 100, 24).contains("p pauses after this launch"));
    let now_ns = state.now_ns;
    state.apply(now_ns, Event::Paused(true));
    let paused = drawn(&mut state, 100, 24);
    assert!(paused.contains("p goes on") && paused.contains("paused · "));
    state.key(Key::Quit);
    state.key(Key::Quit);
    assert!(drawn(&mut state, 100, 24).contains("Stopping: records are closed"));
    state.apply(now_ns, Event::Over);
    assert!(drawn(&mut state, 100, 24).contains("The command is over"));
}

#[test]
fn every_size_can_be_drawn() {
    for until in ["start", "mid-run", "alert"] {
        let mut state = script(until);
        for width in (1..140).step_by(3) {
            for height in (1..50).step_by(2) {
                drawn(&mut state, width, height);
            }
        }
    }
}

/// Draw the picture of this name, which DASHBOARD.md gives in the comment before each.
fn picture(name: &str) -> String {
    let mut state = script(name);
    drawn(&mut state, 96, 24)
}

#[test]
fn the_page_shows_what_is_drawn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("DASHBOARD.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut parts = page.split("<!-- screen: ");
    let mut expected = parts.next().unwrap().to_owned();
    let mut pictures = 0;
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").expect("a comment ends");
        let after = rest.splitn(3, "```").nth(2).expect("a picture is fenced");
        let picture = picture(name);
        expected += &format!("<!-- screen: {name} -->\n```text\n{picture}```{after}");
        pictures += 1;
    }
    assert_eq!(pictures, 3);
    if page != expected && std::env::var_os("BENCH_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "crates/watch/DASHBOARD.md shows another screen than is drawn now:\n{expected}\nBENCH_BLESS=1 writes it"
        );
    }
}
