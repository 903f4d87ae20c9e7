//! Tests of the command line: the built program, its exit codes and its output.

// The tests use Unix signals and process ids.
#![cfg(unix)]

mod add;
mod call;
mod client_files;
mod client_files_rest;
mod commands;
mod completion;
mod config;
mod config_history;
mod connect;
mod control;
mod doctor;
mod errors;
mod events;
mod failures;
mod fakes;
mod health;
mod help;
mod history;
mod hostile;
mod inline;
mod installed;
mod journal;
mod killed;
mod logs;
mod man;
mod manners;
mod network;
mod occasion;
mod operate;
mod reasons;
mod records;
mod records_export;
mod records_paging;
mod reload;
mod secret;
mod serve;
mod service;
mod setup;
mod shell;
mod shutdown;
mod standing;
mod state_dir;
mod stuck_stderr;
mod switches;
mod terminal;
mod tls;
mod token;
mod top;
mod ui;
mod unreadable;
mod windows_files;
