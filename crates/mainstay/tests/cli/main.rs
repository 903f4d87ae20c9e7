//! The command line as people and scripts meet it: the real program, its exit codes and its output.

mod commands;
mod failures;
mod occasion;
mod serve;
mod world;
