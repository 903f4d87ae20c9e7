//! Servers in the files of other MCP clients. This crate finds the files on a machine, reads servers as
//! entries of our configuration, merges them, and edits the files in place.
//!
//! ```text
//! find(machine)            the clients that are here, with the texts of their files
//!   servers(file, text)    their servers: an entry of ours each, and a note for every key
//!     merge(servers, known)   one list: equal servers once, every name once
//! point_at_mainstay(file, text, own_entry, takes)  a client's text with Mainstay in it
//! remove_mainstay(file, text)                       and without it
//! entry_for(client, name, entry, section)           an entry of ours in a client's words
//! pasted(text)                                    the servers in what a person pasted
//! apply(file, text, changes)                      any change of a client's servers
//! warn_of_unread_rules(loaded, machine)           warnings of a client's rules that the daemon does not read
//! revert(file, before, after, now)                undoes a change in a file that was changed since
//! back_up(path), write(path, text)                the only functions that write, with write_in
//! ```
//!
//! Only the functions that find, read, back up or write files, [`with_choices`] and [`warn_of_unread_rules`]
//! access the disk. All others depend only on their arguments. Texts of notes never contain a secret. Entries
//! may, so show them only through `mainstay_config::masking`.

mod choices;
mod client;
mod document;
mod edit;
mod find;
mod format;
mod machine;
mod merge;
mod own_address;
mod own_entry;
mod pasted;
mod placeholders;
mod places;
mod read;
mod revert;
mod rules;
mod save;
mod translate;
mod unread;
mod write;
mod yaml;

pub use choices::with_choices;
pub use client::{ClientKind, UnknownClient};
pub use document::{NotReadable, value};
pub use edit::{EditError, EntryChange, Pointed, apply, block, point_at_mainstay, remove_mainstay};
pub use find::{
    FoundClient, FoundFile, ProjectFile, find, find_in_project, find_replaced, read as read_file,
};
pub use format::FileFormat;
pub use machine::{Machine, System};
pub use merge::{MergeStatus, Merged, meaning, merge};
pub use own_address::{DEFAULT_URL, LABEL, is_mainstay};
pub use own_entry::OwnEntry;
pub use pasted::{MAX_PASTED, NotPasted, Pasted, PastedServer, pasted};
pub use places::{Choices, ClientFile, FileScope, Section, files_of};
pub use read::{FoundServer, ImportNote, KeyFate, LeftOut, left_out_by_list, servers};
pub use revert::{Reverted, revert, unpatched};
pub use save::{back_up, write, write_in};
pub use unread::warn_of_unread_rules;
pub use write::{Written, entry_for};
