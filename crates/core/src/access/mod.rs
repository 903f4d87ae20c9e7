//! Decides which servers and items a principal may use: by the rules of the configuration
//! (`access`), and by the limits of the principal's token.
//!
//! The functions are pure. `gateway::view` calls them for every name in a client's request and for
//! every item of a list.

mod decision;
mod effect;
mod limits;
mod policy;
mod uris;

pub use decision::{Decision, DecisionReason, ItemQuestion, PrincipalAccess};
pub use effect::ToolEffect;
pub use limits::TokenLimits;
pub use policy::{AccessPolicy, AccessRule, ItemPatterns, RuleSubject, UnknownSubject};
