//! The rules of access: which principal may use what. The gate (`view`) asks them.

use std::fmt;

use mainstay_core::{catalog::ListKind, ids::ServerName, principal::Principal};

/// Decides which principal may see and use what. What is refused is not listed, and its name is unknown.
/// The answers are asked for often (once for each item of a list), so they must come without waiting.
pub trait AccessRules: fmt::Debug + Send + Sync {
    /// Whether the principal may know of this server. Without it no item of the server is allowed.
    fn allows_server(&self, principal: &Principal, server: &ServerName) -> bool;

    /// Whether an item of a server that is allowed is allowed, too. `original` is the server's own name for
    /// a tool or prompt, the URI of a resource, or a URI template. It need not be in any list.
    fn allows_item(
        &self,
        principal: &Principal,
        kind: ListKind,
        server: &ServerName,
        original: &str,
    ) -> bool;
}
