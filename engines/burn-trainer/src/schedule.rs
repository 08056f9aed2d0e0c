//! The learning rate at each step: a linear warm-up over a tenth of the run, then half a cosine
//! down to a tenth of the highest rate. Burn's own schedulers can't be joined without keeping a
//! state of their own; here the number of the step is all that must be saved.

use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};
use models::training::Job;

/// The schedule of a run, and its current step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    highest: f64,
    steps: usize,
    done: usize,
}

/// The warm-up's share of the steps, as a divisor; and the share of the highest rate at the end.
const WARM_UP: usize = 10;
const LEFT: f64 = 0.1;

impl Schedule {
    /// Create the schedule at the beginning of `job`.
    pub fn new(job: &Job) -> Self {
        Self {
            highest: job.learning_rate,
            steps: job.steps,
            done: 0,
        }
    }

    /// Return the rate of step `step`, from 1.
    pub fn rate(&self, step: usize) -> f64 {
        let warm_up = (self.steps / WARM_UP).max(1);
        if step <= warm_up {
            return self.highest * step as f64 / warm_up as f64;
        }
        let way = (step - warm_up) as f64 / (self.steps - warm_up) as f64;
        let cosine = (1.0 + (std::f64::consts::PI * way).cos()) / 2.0;
        self.highest * (LEFT + (1.0 - LEFT) * cosine)
    }
}

impl LrScheduler for Schedule {
    fn step(&mut self) -> f64 {
        self.done += 1;
        self.rate(self.done)
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar("done", self.done as u64)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        let done: Option<u64> = record.scalar("done");
        self.done = done.expect("a checkpoint of this schedule") as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(steps: usize) -> Schedule {
        Schedule {
            highest: 1.0,
            steps,
            done: 0,
        }
    }

    #[test]
    fn it_rises_and_falls_to_a_tenth() {
        let schedule = schedule(100);
        let rates: Vec<f64> = (1..=100).map(|step| schedule.rate(step)).collect();
        assert_eq!(rates[0], 0.1);
        assert_eq!(rates[9], 1.0);
        assert!(rates[9..].is_sorted_by(|a, b| a > b));
        assert!((rates[99] - LEFT).abs() < 1e-12);
        assert!(
            (rates[54] - 0.55).abs() < 1e-12,
            "the middle: {}",
            rates[54]
        );
    }

    #[test]
    fn a_record_takes_it_up_where_it_was() {
        let mut one = schedule(50);
        for _ in 0..20 {
            one.step();
        }
        let mut other = schedule(50);
        other.load_record(one.to_record());
        assert_eq!(one.step(), other.step());
        assert!(schedule(1).rate(1) == 1.0, "a single step has a rate");
    }
}
