//! The runtime that adapters share, under stand-in adapters: a batched one and one that
//! schedules by itself.

mod adapter;
mod common;
mod scheduled;
