//! The commands: one file or folder for each. Most are clients of a daemon; the others edit configurations and
//! files of MCP clients, or look at the machine. With them is what all share: how they print, fail, ask a
//! person, and find their daemon.
//!
//! They know no door, no REST routes and no store of the journal. Where one needs a daemon of its own, or
//! reads a journal without its daemon, the program does that for it ([`host::Host`]). The command line as a
//! whole is the program's, too: which commands there are, and in which order.

mod add;
mod approve;
mod archive;
mod call;
mod clients;
mod completion;
mod config;
mod connect;
mod content;
mod doctor;
mod error;
mod events;
mod export;
mod fate;
pub mod front;
mod get;
mod health;
mod hint;
pub mod host;
mod import;
mod list;
mod logs;
mod man;
pub mod news;
mod object;
mod operate;
pub mod output;
pub mod own_entry;
mod pairs;
mod person;
mod progress;
mod prompts;
mod read;
mod records;
mod reload;
mod remove;
mod requests;
mod resolve;
mod resources;
pub mod screen;
mod search;
mod service;
mod setup;
mod shape;
mod shell;
pub mod signals;
pub mod starting;
mod stats;
pub mod stderr;
pub mod style;
pub mod suggest;
mod switch;
mod switches;
mod table;
mod template;
mod time;
mod token;
mod tools;
mod top;
mod trouble;
mod ui;
mod validate;
mod watch;
#[cfg(test)]
mod widths;
mod wrap;
mod yaml;

pub use self::{
    add::Add,
    approve::Approve,
    call::Call,
    clients::ClientsArgs,
    completion::{Completions, PLACES, answered as answered_a_shell},
    config::ConfigCommand,
    connect::DaemonArgs,
    doctor::Doctor,
    error::{CommandError, Exit, StoreFault},
    events::Events,
    export::Export,
    get::Get,
    health::Health,
    import::Import,
    list::List,
    logs::Logs,
    man::ManPages,
    object::Object,
    operate::Operate,
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
    shape::Shape,
    shell::Shell,
    stats::Stats,
    switch::Switch,
    switches::Switches,
    token::Token,
    tools::Tools,
    top::Top,
    ui::Ui,
    validate::Validate,
};
