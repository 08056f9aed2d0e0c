//! The models that the harness makes: the same bytes everywhere, and behaviour of models.

mod behaviour;
mod determinism;
mod stories;
