//! `burn-trainer RUN_DIR [--tui]`: trains as `RUN_DIR/job.json` says, from the last checkpoint
//! there if there is one, and writes `curve.jsonl` and `trained.safetensors`. `cargo xtask train`
//! makes the directory and starts this program.

use std::path::PathBuf;
use std::process::ExitCode;

use models::training::RunDir;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (dir, tui) = match (args.next(), args.next().as_deref(), args.next()) {
        (Some(dir), None, None) => (dir, false),
        (Some(dir), Some("--tui"), None) => (dir, true),
        _ => {
            eprintln!("usage: burn-trainer RUN_DIR [--tui], where RUN_DIR has a job.json");
            return ExitCode::from(2);
        }
    };
    match burn_trainer::run(&RunDir(PathBuf::from(dir)), tui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
