//! The tool from outside: arguments, output, and files on disk.

mod asynchronous;
mod bad_input;
mod explore;
mod gone_reader;
mod help;
mod hostile;
mod interrupt;
mod journey;
mod kills;
mod mnist;
mod reproduce;
mod run;
mod runs;
mod solve;
mod solve_sudoku;
mod stages;
mod sudoku;
mod support;
