//! The limits of clients' tokens, as the gateway asks for them.

use std::sync::Arc;

use mainstay_core::{access::TokenLimits, principal::ClientName};
use mainstay_gateway::TokenLimitSource;
use mainstay_tokens::Tokens;

/// Finds limits in the tokens of the daemon.
#[derive(Clone, Debug)]
pub struct LimitsOfTokens(pub Tokens);

impl TokenLimitSource for LimitsOfTokens {
    fn limits_of(&self, client: &ClientName) -> Option<Arc<TokenLimits>> {
        self.0.limits_of(client)
    }
}
