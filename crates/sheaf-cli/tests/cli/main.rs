//! The tool from outside: what is typed, what comes back, what is left on the disk.

mod bad_input;
mod gone_reader;
mod help;
mod interrupt;
mod journey;
mod mnist;
mod solve;
mod solve_sudoku;
mod sudoku;
mod support;
