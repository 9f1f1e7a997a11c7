//! The tool from outside: what is typed, what comes back, what is left on the disk.

mod bad_input;
mod gone_reader;
mod help;
mod interrupt;
mod journey;
mod solve;
mod support;
