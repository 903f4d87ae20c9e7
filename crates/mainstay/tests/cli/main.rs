//! The command line as people and scripts meet it: the real program, its exit codes and its output.

// Signals and process ids are asked about in the words of Unix.
#![cfg(unix)]

mod commands;
mod events;
mod failures;
mod logs;
mod occasion;
mod serve;
mod world;
