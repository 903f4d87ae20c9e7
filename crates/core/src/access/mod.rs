//! Decides which servers and items a principal may use: by the rules of the configuration
//! (`access`), and by the limits of the principal's token.
//!
//! Pure. `gateway::view` asks for every name that a client gives and for every item that it lists.

mod decision;
mod effect;
mod limits;
mod policy;

pub use decision::{Decision, DecisionReason, ItemQuestion, PrincipalAccess};
pub use effect::ToolEffect;
pub use limits::TokenLimits;
pub use policy::{AccessPolicy, AccessRule, ItemPatterns, RuleSubject, UnknownSubject};
