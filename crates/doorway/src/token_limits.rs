//! The limits of clients' tokens, as the gateway asks for them.

use mainstay_core::principal::ClientName;
use mainstay_gateway::{ClientLimits, TokenLimitSource};
use mainstay_tokens::Tokens;

/// Finds limits in the tokens of the daemon.
#[derive(Clone, Debug)]
pub struct LimitsOfTokens(pub Tokens);

impl TokenLimitSource for LimitsOfTokens {
    fn limits_of(&self, client: &ClientName) -> ClientLimits {
        match self.0.limits_of(client) {
            None => ClientLimits::NoToken,
            Some(limits) if limits.is_nothing() => ClientLimits::Unlimited,
            Some(limits) => ClientLimits::Limited(limits),
        }
    }
}
