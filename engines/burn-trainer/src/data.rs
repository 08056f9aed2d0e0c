//! Batches for Burn's `Learner`. The windows of a batch are a function of the job and the step, so
//! that a resumed run gets the same batches as an uninterrupted one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::{Device, Int, Tensor, TensorData};
use models::training::{Job, Split, Windows};

/// The input of a step.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The ids, `rows × context`.
    pub ids: Tensor<2, Int>,
    /// The id that follows each of `ids`, `rows·context`.
    pub targets: Tensor<1, Int>,
    /// Number of the step, from 1; in a validation, the number of steps so far.
    pub step: usize,
    /// Whether this is the last batch before the next checkpoint or of a validation.
    pub last: bool,
}

/// A source of batches. An "epoch" of Burn's is the steps up to the next checkpoint: text is
/// unlimited, so no window is seen twice.
#[derive(Clone)]
pub struct Loader {
    /// Where the windows are cut.
    pub windows: Arc<Windows>,
    /// The job of the run.
    pub job: Arc<Job>,
    /// The split whose batches these are.
    pub split: Split,
    /// The device that gets them.
    pub device: Device,
    /// Number of steps made, shared by the loaders of both splits.
    pub done: Arc<AtomicUsize>,
}

impl Loader {
    /// Return the numbers of the batches that come next.
    fn range(&self) -> std::ops::Range<usize> {
        let done = self.done.load(Ordering::SeqCst);
        match self.split {
            Split::Training => {
                let checkpoint = done / self.job.checkpoint_steps + 1;
                done..self.job.steps_at(checkpoint)
            }
            Split::Validation => 0..self.job.validation_windows.div_ceil(self.job.batch),
        }
    }

    /// Return the windows of batch `number`, and their length (tokens).
    fn windows(&self, number: usize) -> (std::ops::Range<u64>, usize) {
        let job = &self.job;
        match self.split {
            Split::Training => (job.windows_at(number + 1), job.context_at(number + 1)),
            Split::Validation => {
                let first = number * job.batch;
                let end = (first + job.batch).min(job.validation_windows);
                (first as u64..end as u64, job.context)
            }
        }
    }

    /// Make batch `number` of the split.
    fn batch(&self, number: usize, last: bool) -> Batch {
        let (windows, context) = self.windows(number);
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        let count = windows.clone().count();
        for index in windows {
            let seed = self.job.seed;
            let window = self.windows.window_of(context, seed, self.split, index);
            let window = window.expect("the vocabulary has every byte");
            ids.extend(window[..context].iter().map(|id| *id as i32));
            targets.extend(window[1..].iter().map(|id| *id as i32));
        }
        let ids = TensorData::new(ids, [count, context]);
        let targets = TensorData::new(targets, [count * context]);
        Batch {
            ids: Tensor::from_data(ids, &self.device),
            targets: Tensor::from_data(targets, &self.device),
            step: match self.split {
                Split::Training => number + 1,
                Split::Validation => self.done.load(Ordering::SeqCst),
            },
            last,
        }
    }
}

impl DataLoader<Batch> for Loader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let left = self.range();
        Box::new(Batches {
            loader: self,
            count: left.len(),
            left,
        })
    }

    fn num_items(&self) -> usize {
        self.range().len()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self {
            device: device.clone(),
            ..self.clone()
        })
    }

    /// Splitting over devices isn't supported, so this is never called for a part.
    fn slice(&self, _start: usize, _end: usize) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(self.clone())
    }
}

struct Batches<'a> {
    loader: &'a Loader,
    count: usize,
    left: std::ops::Range<usize>,
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.left.next()?;
        let batch = self.loader.batch(number, self.left.is_empty());
        if self.loader.split == Split::Training {
            self.loader.done.store(number + 1, Ordering::SeqCst);
        }
        Some(Ok(batch))
    }
}

impl DataLoaderIterator<Batch> for Batches<'_> {
    fn progress(&self) -> Progress {
        Progress::new(
            self.count - self.left.len(),
            self.count,
            Some("steps".to_owned()),
        )
    }
}
