//! The run's curve: a metric of Burn's that writes every loss into `curve.jsonl`, and prints some
//! of them on stderr if there is no dashboard.
//!
//! It is a metric and not a logger, because Burn passes loggers text that it has rounded.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use burn::tensor::{ExecutionError, Tensor, TensorReadError};
use burn::train::metric::{
    Adaptor, LossInput, Metric, MetricMetadata, MetricName, SerializedEntry,
};
use burn::train::{InferenceStep, ItemLazy, TrainOutput, TrainStep};
use models::training::{Point, RunDir};

use crate::data::Batch;
use crate::model::Llama;
use crate::schedule::Schedule;

/// Approximate number of lines that are printed for the steps of a run.
const LINES: usize = 50;

/// The result of a step.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Mean loss over the batch (nats).
    loss: Tensor<1>,
    /// Number of rows in the batch.
    rows: usize,
    step: usize,
    /// In a validation, whether this is its last batch; `None` while training.
    validation: Option<bool>,
}

impl TrainStep for Llama {
    type Input = Batch;
    type Output = Loss;

    fn step(&self, batch: Batch) -> TrainOutput<Loss> {
        let rows = batch.ids.dims()[0];
        let loss = self.loss(batch.ids, batch.targets);
        let said = Loss {
            loss: loss.clone().detach(),
            rows,
            step: batch.step,
            validation: None,
        };
        TrainOutput::new(self, loss.backward(), said)
    }
}

impl InferenceStep for Llama {
    type Input = Batch;
    type Output = Loss;

    fn step(&self, batch: Batch) -> Loss {
        Loss {
            rows: batch.ids.dims()[0],
            loss: self.loss(batch.ids, batch.targets),
            step: batch.step,
            validation: Some(batch.last),
        }
    }
}

impl ItemLazy for Loss {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

impl Adaptor<LossInput> for Loss {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

impl Adaptor<Loss> for Loss {
    fn adapt(&self) -> Loss {
        self.clone()
    }
}

/// The curve's metric. Clones write to the same file.
#[derive(Clone)]
pub struct Curve(Arc<Mutex<Writer>>);

struct Writer {
    file: File,
    schedule: Schedule,
    steps: usize,
    lines: bool,
    began: Instant,
    /// Number of steps made since `began`.
    taken: usize,
    /// The sum of the losses of the rows in the current validation, and their number.
    validation: (f64, usize),
    fault: Option<String>,
}

impl Curve {
    /// Open the curve of `run` for appending. `lines`: print progress on stderr.
    ///
    /// # Errors
    /// Fails if the file can't be opened.
    pub fn open(run: &RunDir, schedule: Schedule, steps: usize, lines: bool) -> Result<Self> {
        let path = run.curve();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self(Arc::new(Mutex::new(Writer {
            file,
            schedule,
            steps,
            lines,
            began: Instant::now(),
            taken: 0,
            validation: (0.0, 0),
            fault: None,
        }))))
    }

    /// Check that everything was written.
    ///
    /// # Errors
    /// Fails if a write failed.
    pub fn fault(&self) -> Result<()> {
        let writer = self.0.lock().expect("nobody panics while writing");
        match &writer.fault {
            Some(fault) => Err(anyhow!("the curve can't be written: {fault}")),
            None => Ok(()),
        }
    }
}

impl Writer {
    fn take(&mut self, step: usize, loss: f64, said: &Loss) {
        match said.validation {
            None => {
                self.taken += 1;
                let lr = self.schedule.rate(step);
                self.put(&Point::Step { step, loss, lr });
                let every = self.steps.div_ceil(LINES);
                if self.lines && (step.is_multiple_of(every) || step == self.steps) {
                    let pace = self.taken as f64 / self.began.elapsed().as_secs_f64();
                    let left_min = (self.steps - step) as f64 / pace / 60.0;
                    // An error is ignored: a closed pipe must not end the training.
                    let _ = writeln!(
                        std::io::stderr(),
                        "step {step}/{}  loss {loss:.4} nats  rate {lr:.2e}  {pace:.2} steps/s  {left_min:.0} min left",
                        self.steps
                    );
                }
            }
            Some(last) => {
                self.validation.0 += loss * said.rows as f64;
                self.validation.1 += said.rows;
                if !last {
                    return;
                }
                let (sum, rows) = std::mem::take(&mut self.validation);
                let valid_loss = sum / rows as f64;
                let perplexity = valid_loss.exp();
                self.put(&Point::Validation {
                    step,
                    valid_loss,
                    perplexity,
                });
                if self.lines {
                    let _ = writeln!(
                        std::io::stderr(),
                        "step {step}/{}  validation: perplexity {perplexity:.4}",
                        self.steps
                    );
                }
            }
        }
    }

    /// Append a point. Each line is one write, so that only the last line can be incomplete after
    /// a kill.
    fn put(&mut self, point: &Point) {
        let line = serde_json::to_string(point).expect("plain numbers serialise") + "\n";
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.fault.get_or_insert(error.to_string());
        }
    }
}

impl Metric for Curve {
    type Input = Loss;

    fn name(&self) -> MetricName {
        Arc::new("Curve".to_owned())
    }

    fn update(
        &mut self,
        said: &Loss,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let loss: f32 = said.loss.clone().try_into_scalar()?;
        let mut writer = self.0.lock().expect("nobody panics while writing");
        writer.take(said.step, f64::from(loss), said);
        Ok(nothing_to_show())
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(nothing_to_show())
    }

    fn clear(&mut self) {}
}

/// Returns an empty entry, because Burn shows and logs the loss with a metric of its own.
fn nothing_to_show() -> SerializedEntry {
    SerializedEntry::not_available(None)
}
