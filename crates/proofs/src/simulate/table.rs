//! The tables of plain text that `cargo xtask simulate` prints.

use schema::simulation::{Outcome, Simulation, UntilRow};

/// Print a simulation as tables of plain text.
pub(super) fn table(result: &Simulation) -> String {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let verdicts = |f: &Outcome| {
        format!(
            "{:>8}  {:>11}  {:>7}  {:>11}  {:>7}",
            percent(f.coverage),
            percent(f.false_positive_test),
            percent(f.false_positive),
            percent(f.power_test),
            percent(f.power)
        )
    };
    let mut text = format!(
        "{} experiments a row, seed {}: log-normal samples (σ of the logarithm {}), lag-1 \
         autocorrelation {}. Shares in %; a true difference of {} %.\n\n\
         launches requests  ICC  coverage  false: test  verdict  found: test  verdict  profiles\n",
        result.experiments,
        result.seed,
        result.log_stddev,
        result.lag1,
        100.0 * result.difference
    );
    for row in &result.rows {
        let shares = match &row.found {
            None => "  one launch gives neither interval nor verdict      ".into(),
            Some(found) => verdicts(found),
        };
        text.push_str(&format!(
            "{:>8} {:>8}  {:>3}  {shares}  {}\n",
            row.invocations,
            row.requests,
            row.icc,
            row.profiles.join(" ")
        ));
    }
    let line = |f: &Outcome| {
        let (equal, wrongly) = (percent(f.equal), percent(f.false_equal));
        format!("{}  {equal:>5}  {wrongly:>7}", verdicts(f))
    };
    let columns = "coverage  false: test  verdict  found: test  verdict  equal  wrongly";
    text.push_str(&format!("\nlaunches  CV of launches  {columns}\n"));
    for row in &result.power {
        let (spread, found) = (percent(row.launch_log_stddev), line(&row.found));
        text.push_str(&format!("{:>8}  {spread:>14}  {found}\n", row.invocations));
    }
    text.push_str(&format!(
        "\nA true difference of {} %.\n\nlaunches  {columns}\n",
        100.0 * result.shapes_difference
    ));
    for row in &result.shapes {
        let found = line(&row.found);
        text.push_str(&format!("{:>8}  {found}  {}\n", row.invocations, row.shape));
    }
    text.push_str(
        "\nUntil all cells are narrow enough, or their ratios to others (R), with A/A pairs (A), \
         and each name having a factor of its own besides (N).\n\n\
         cells    from  until  CV of launches  blocks  gave up  coverage  of the widest  \
         false: verdict  found: verdict\n",
    );
    for row in &result.until {
        text.push_str(&format!(
            "{:>4}{:<3}  {:>4}  ±{:>2} %  {:>14}  {:>6.1}  {:>7}  {:>8}  {:>13}  {:>14}  {:>14}\n",
            row.cells,
            compared(row),
            row.invocations,
            row.percent,
            percent(row.launch_log_stddev),
            row.found.blocks,
            percent(row.found.gave_up),
            percent(row.found.coverage),
            percent(row.found.coverage_widest),
            row.found.false_positive.map_or(String::new(), percent),
            row.found.power.map_or(String::new(), percent)
        ));
    }
    text.push_str(&format!(
        "\nIntervals of percentiles, in the runs that have one; intraclass correlation {}.\n\n\
         launches requests  slow launches  percentile  given  coverage  half-width\n",
        result.percentiles_icc
    ));
    for row in &result.percentiles {
        let Some(found) = row.found else { continue };
        text.push_str(&format!(
            "{:>8} {:>8}  {:>13}  p{:<9}  {:>5}  {:>8}  ±{:>7.1} %\n",
            row.invocations,
            row.requests,
            percent(row.slow),
            row.percentile,
            percent(found.given),
            percent(found.coverage),
            found.half_width_percent
        ));
    }
    text
}

/// Name what a run's cells are compared with: another cell (R), with A/A pairs (A), under names
/// that have factors of their own (N).
fn compared(row: &UntilRow) -> &'static str {
    match (row.compared, row.pairs) {
        (false, _) => "",
        (true, None) => "R",
        (true, Some(own)) if own > 0.0 => "RAN",
        (true, Some(_)) => "RA",
    }
}
