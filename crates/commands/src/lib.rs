//! The commands, one file or folder for each, except those that hold the terminal (`mainstay_terminal`) or are a
//! front (`mainstay_front`). Most are clients of a daemon; the others edit configurations and files of MCP
//! clients, or look at the machine.
//!
//! They know no door, no REST routes and no store of the journal. Where one needs a daemon of its own
//! ([`mainstay_command_line::host::Host`]), or reads a journal without its daemon ([`store::StoreHost`]), the
//! program does that for it. The
//! command line as a whole is the program's, too: which commands there are, and in which order.

mod add;
mod approve;
mod archive;
mod asked;
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
mod object;
mod operate;
pub mod own_entry;
mod pairs;
mod person;
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
    add::Add,
    approve::Approve,
    call::Call,
    completion::{Completions, PLACES, answered as answered_a_shell},
    config::ConfigCommand,
    doctor::Doctor,
    events::Events,
    export::Export,
    get::Get,
    health::Health,
    history::History,
    import::{Import, warn_of_unread_rules},
    list::List,
    logs::Logs,
    man::ManPages,
    object::Object,
    operate::{Reconnect, Restart, Start, Stop},
    prompts::Prompts,
    read::Read,
    records::Records,
    reload::Reload,
    remove::Remove,
    requests::Requests,
    resolve::Resolve,
    resources::Resources,
    search::Search,
    service::Service,
    setup::Setup,
    stats::Stats,
    switch::{Disable, Enable},
    switches::Switches,
    token::Token,
    tools::Tools,
    typed::typed,
    ui::Ui,
    validate::Validate,
};
