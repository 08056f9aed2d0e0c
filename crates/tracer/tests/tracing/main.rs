//! The tracer: its declarations against NVIDIA's headers, and what it writes in a process
//! that plays the driver.

mod common;
mod layout;
mod process;
