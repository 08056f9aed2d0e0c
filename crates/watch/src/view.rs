//! The renderer, from [`State`] to a buffer of cells. Pure.
//!
//! Shapes convey everything that colours do, so a terminal without colours loses nothing. No number
//! is drawn that isn't in the state.

use super::event::{Mark, Severity};
use super::state::{Running, State};
use super::tree::Row;
use super::words::{clock, eta, mark_sign, mib, number};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, LineGauge, Paragraph, Sparkline, Wrap};

/// Least width at which what runs is drawn beside the plan, and not below it.
const BESIDE_MIN: u16 = 90;
/// Height of the sparkline in its own units.
const LEVELS: f64 = 1000.0;

/// Draw everything. The state is told how many rows of the plan there is room for.
pub fn draw(frame: &mut Frame, state: &mut State) {
    let [head, gauge, body, log, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Percentage(25),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, state);
    draw_gauge(frame, gauge, state);
    let beside = body.width >= BESIDE_MIN;
    let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
    let [plan, right] = match beside {
        true => Layout::horizontal(halves).areas(body),
        false => Layout::vertical(halves).areas(body),
    };
    draw_plan(frame, plan, state);
    let [running, machine] =
        Layout::vertical([Constraint::Min(3), Constraint::Length(5)]).areas(right);
    draw_running(frame, running, state);
    draw_machine(frame, machine, state);
    draw_log(frame, log, state);
    draw_keys(frame, keys, state);
    draw_alert(frame, state);
}

fn draw_head(frame: &mut Frame, area: Rect, state: &State) {
    let now = match (state.over, state.paused, state.stage) {
        (true, _, _) => "over",
        (_, true, _) => "paused",
        (_, _, Some(stage)) => stage.name(),
        (_, _, None) => "beginning",
    };
    let elapsed = clock(state.now_ns.saturating_sub(state.began_ns));
    let rest = match state.eta_ns() {
        Some(ns) if !state.over => format!(" · {}", eta(Some(ns), state.later_ns())),
        _ => String::new(),
    };
    let left = Line::from(vec![
        Span::from(format!(" {} ", state.command)).bold(),
        Span::from(state.title.as_str()),
    ]);
    frame.render_widget(left, area);
    let right = format!("{now} · {elapsed}{rest} ");
    frame.render_widget(Line::from(right).right_aligned(), area);
}

fn draw_gauge(frame: &mut Frame, area: Rect, state: &State) {
    let (behind, all) = state.tree.count(state.stage);
    let ratio = f64::from(behind) / f64::from(all.max(1));
    let gauge = LineGauge::default()
        .ratio(ratio.clamp(0.0, 1.0))
        .label(format!(" {behind}/{all}"))
        .filled_symbol(symbols::line::THICK_HORIZONTAL)
        .filled_style(Style::new().fg(Color::Cyan))
        .unfilled_style(Style::new().fg(Color::DarkGray));
    frame.render_widget(gauge, area);
}

fn draw_plan(frame: &mut Frame, area: Rect, state: &mut State) {
    let block = Block::bordered().title(" plan ");
    let inner = block.inner(area);
    state.plan_rows = usize::from(inner.height).max(1);
    let rows = state.tree.rows();
    let visible = rows.iter().skip(state.plan_top()).take(state.plan_rows);
    let width = usize::from(inner.width);
    let lines: Vec<Line> = visible.map(|row| plan_line(row, width)).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn plan_line(row: &Row, width: usize) -> Line<'static> {
    let indent = if row.is_item { "   " } else { " " };
    let count = match row.count {
        (_, 0) => String::new(),
        (behind, all) => format!(" {behind}/{all} "),
    };
    let mut text = format!("{indent}{} {}", mark_sign(row.mark), row.name);
    if !row.reason.is_empty() {
        text = format!("{text}: {}", row.reason.replace('\n', " "));
    }
    let room = width.saturating_sub(count.chars().count());
    let cut: String = match text.chars().count() > room {
        true => text
            .chars()
            .take(room.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => format!("{text:<room$}"),
    };
    let style = match row.mark {
        Mark::Running => Style::new().add_modifier(Modifier::BOLD),
        Mark::Failed => Style::new().fg(Color::Red),
        Mark::Done => Style::new().fg(Color::Green),
        Mark::Refused | Mark::Skipped => Style::new().fg(Color::DarkGray),
        Mark::Waiting => Style::new(),
    };
    Line::styled(format!("{cut}{count}"), style)
}

fn draw_running(frame: &mut Frame, area: Rect, state: &State) {
    let Some(running) = &state.running else {
        frame.render_widget(Block::bordered().title(" nothing runs "), area);
        return;
    };
    let begin = &running.begin;
    let parts = [Some(&begin.item), Some(&begin.group), running.part.as_ref()];
    let mut title: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    if !begin.detail.is_empty() {
        title.push(&begin.detail);
    }
    let block = Block::bordered().title(format!(" {} ", title.join(" · ")));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = running_lines(state, running);
    let [chart, text] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(lines.len() as u16)]).areas(inner);
    draw_samples(frame, chart, state, running);
    frame.render_widget(Paragraph::new(lines), text);
}

fn draw_samples(frame: &mut Frame, area: Rect, state: &State, running: &Running) {
    let Some((meter, _, _)) = state.meter() else {
        return;
    };
    let values = running.live.values(meter);
    let shown = &values[values.len().saturating_sub(usize::from(area.width))..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    // The scale begins at zero, so that a bar's length is its value.
    let bars = shown.iter().map(|v| (v / most * LEVELS).round() as u64);
    let sparkline = Sparkline::default()
        .data(bars)
        .max(LEVELS as u64)
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, area);
}

fn running_lines(state: &State, running: &Running) -> Vec<Line<'static>> {
    let elapsed = clock(running.took_ns(state.now_ns));
    let ended = match running.ended {
        None => match running.share {
            None => format!("running for {elapsed}"),
            Some(share) => format!("{:.0} % after {elapsed}", 100.0 * share),
        },
        Some(Mark::Done) => "done".into(),
        Some(Mark::Failed) => "failed".into(),
        Some(_) => "left".into(),
    };
    let Some((meter, name, unit)) = state.meter() else {
        return vec![Line::from(ended)];
    };
    let live = &running.live;
    let mut lines = Vec::new();
    lines.push(match live.median(meter) {
        None => format!("{name}: no samples yet"),
        Some(median) => {
            let bounds = median.bounds.map_or(String::new(), |(low, high)| {
                format!(" [{}, {}]", number(low), number(high))
            });
            format!("{name} median {}{bounds} {unit}", number(median.median))
        }
    });
    lines.push(match state.launches() {
        (0, _) => "no complete launch yet".into(),
        (1, _) => "1 complete launch".into(),
        (k, None) => format!("{k} complete launches"),
        (k, Some(mean)) => format!(
            "{k} launches: {} [{}, {}] {unit}",
            number(mean.mean),
            number(mean.low),
            number(mean.high)
        ),
    });
    let of = match running.samples {
        0 => String::new(),
        n => format!(" of {n}"),
    };
    let rate = live.work_per_s().map_or(String::new(), |rate| {
        format!("{} {}/s · ", number(rate), running.begin.meters.work)
    });
    let untimed = match live.untimed {
        0 => String::new(),
        n => format!(" + {n} untimed"),
    };
    lines.push(format!("{rate}n {}{of}{untimed} · {ended}", live.timed));
    lines.into_iter().map(Line::from).collect()
}

fn draw_machine(frame: &mut Frame, area: Rect, state: &State) {
    let machine = &state.machine;
    let last = &machine.last;
    // A value that the machine can't read is a dash, never a zero.
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let lines = vec![
        Line::from(format!(
            "CPU {} · RSS {}",
            or_dash(machine.cpus.map(|n| format!("{n:.2} cores"))),
            or_dash(last.rss_bytes.map(mib)),
        )),
        Line::from(format!(
            "machine {} · {}",
            or_dash(machine.host_percent.map(|p| format!("{p:.0} %"))),
            or_dash(machine.package_w.map(|w| format!("{w:.0} W"))),
        )),
        Line::from(format!(
            "GPU {} · {} · {} · {}",
            or_dash(last.gpu_percent.map(|p| format!("{p:.0} %"))),
            or_dash(last.gpu_memory_bytes.map(mib)),
            or_dash(machine.gpu_w.map(|w| format!("{w:.0} W"))),
            or_dash(last.gpu_celsius.map(|c| format!("{c} °C"))),
        )),
    ];
    let block = Block::bordered().title(" machine ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_log(frame: &mut Frame, area: Rect, state: &State) {
    let title = match state.log_back {
        0 => " log ".to_owned(),
        n => format!(" log, {n} lines below "),
    };
    let block = Block::bordered().title(title);
    let height = usize::from(block.inner(area).height);
    let end = state.log.len().saturating_sub(state.log_back);
    let shown = state.log.range(end.saturating_sub(height)..end);
    let lines: Vec<Line> = shown.map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_keys(frame: &mut Frame, area: Rect, state: &State) {
    let wish = state.wish;
    let text: String = match () {
        () if state.over => " The command is over: dismiss what is left, or q to leave.".into(),
        () if wish.quit => " Stopping: records are closed, and --resume goes on from them.".into(),
        () if wish.quit_asked => {
            " q again stops the run, which --resume can go on with; any other key goes on.".into()
        }
        () => {
            let pause = match (wish.pause, state.paused) {
                (true, true) => "p goes on",
                (true, false) => "p pauses after this launch",
                (false, _) => "p pause",
            };
            let skip = if state.can_skip() { " · s skip" } else { "" };
            format!(" {pause}{skip} · q quit · m meter · ↑ ↓ f plan · PgUp PgDn log")
        }
    };
    frame.render_widget(Line::from(text).reversed(), area);
}

fn draw_alert(frame: &mut Frame, state: &State) {
    let Some(alert) = state.alerts.front() else {
        return;
    };
    let screen = frame.area();
    let width = (screen.width * 4 / 5).max(30).min(screen.width);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let rows_of = |line: &str| line.chars().count().div_ceil(inside).max(1);
    let rows: usize = alert.text.lines().map(rows_of).sum();
    // Wrapping at words sometimes takes more rows than this count, so an eighth is added below.
    let rows = rows.min(1000) as u16;
    let height = (rows + rows / 8 + 4).min(screen.height);
    let area = Rect {
        x: (screen.width - width) / 2,
        y: (screen.height - height) / 2,
        width,
        height,
    };
    let number = state.alerts_raised - state.alerts.len() + 1;
    let color = match alert.severity {
        Severity::Warning => Color::Yellow,
        Severity::Error | Severity::Panic => Color::Red,
    };
    let block = Block::bordered()
        .border_set(symbols::border::DOUBLE)
        .border_style(Style::new().fg(color))
        .padding(ratatui::widgets::Padding::horizontal(1))
        .title(format!(
            " {} {number} of {} ",
            alert.severity.word(),
            state.alerts_raised
        ))
        .title_bottom(" Enter, Esc or Space dismisses ");
    let text = Paragraph::new(alert.text.as_str())
        .wrap(Wrap { trim: false })
        .block(block);
    frame.render_widget(Clear, area);
    frame.render_widget(text, area);
}
