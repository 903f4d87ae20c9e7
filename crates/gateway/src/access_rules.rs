//! The rules of access: the servers and items that a principal may use. `view` applies them.

use std::fmt;

use mainstay_core::{catalog::ListKind, ids::ServerName, principal::Principal};

/// Decides what each principal may see and use. Everything else is not listed, and its names are
/// unknown. The methods are called once for each item of a list, so they must not block.
pub trait AccessRules: fmt::Debug + Send + Sync {
    /// True if the principal may see this server. Otherwise no item of the server is allowed.
    fn allows_server(&self, principal: &Principal, server: &ServerName) -> bool;

    /// True if an item of an allowed server is allowed, too. `original` is the original name of a
    /// tool or prompt, the URI of a resource, or a URI template. It need not be in any list.
    fn allows_item(
        &self,
        principal: &Principal,
        kind: ListKind,
        server: &ServerName,
        original: &str,
    ) -> bool;
}
