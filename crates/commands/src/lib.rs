//! The commands, one file or folder for each. Commands that keep the terminal are in `mainstay_terminal`, and
//! the fronts are in `mainstay_front`. Most commands are clients of a daemon. The others edit configurations
//! and files of MCP clients, or check the machine.
//!
//! The commands depend on no door, on no REST route and on no store of the journal. The program does two
//! things for them: it starts a daemon ([`mainstay_command_line::host::Host`]), and it reads a journal
//! without a daemon ([`store::StoreHost`]). The program also defines the command line: the commands and their
//! order.

mod access;
mod add;
mod approve;
mod archive;
mod auth;
mod browser;
mod call;
mod completion;
mod config;
mod content;
mod doctor;
mod events;
mod export;
mod get;
mod health;
mod history;
mod import;
mod list;
mod logs;
mod man;
mod moved_secrets;
mod object;
mod operate;
pub mod own_entry;
mod pairs;
mod person;
mod probe;
mod programs;
mod prompts;
mod read;
mod records;
mod reload;
mod remove;
mod requests;
mod resolve;
mod resources;
mod search;
mod secret;
mod service;
mod setup;
mod stats;
pub mod store;
mod switch;
mod switches;
mod token;
mod tools;
mod typed;
mod ui;
mod validate;
mod warnings;
mod watch;
#[cfg(test)]
mod widths;

pub use self::{
    access::AccessCommand,
    add::Add,
    approve::Approve,
    auth::Auth,
    call::CallCommand,
    completion::{Completions, PLACES, answered as answered_a_shell},
    config::ConfigCommand,
    doctor::Doctor,
    events::EventsCommand,
    export::Export,
    get::Get,
    health::Health,
    history::HistoryCommand,
    import::{Import, warn_of_unread_rules},
    list::List,
    logs::LogsCommand,
    man::ManPages,
    object::ObjectCommand,
    operate::{Reconnect, Restart, Start, Stop},
    prompts::Prompts,
    read::ReadCommand,
    records::Records,
    reload::Reload,
    remove::Remove,
    requests::Requests,
    resolve::Resolve,
    resources::ResourcesCommand,
    search::Search,
    secret::SecretCommand,
    service::Service,
    setup::Setup,
    stats::Stats,
    switch::{Disable, Enable},
    switches::SwitchesCommand,
    token::Token,
    tools::Tools,
    typed::typed,
    ui::Ui,
    validate::Validate,
};
