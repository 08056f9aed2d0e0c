//! The run's curve: a metric of Burn's that writes every loss it is shown into `curve.jsonl`, and
//! says some of them on stderr.
//!
//! A metric and not a logger, because loggers are given text in Burn's own rounding.
