//! Routes of credentials: browser sessions and tokens.

use mainstay_api as api;
use serde_json::json;

use crate::{
    code::Code::{
        InvalidLifetime, InvalidTokenName, MissingParameter, StateUnusable, TokenExists,
        TooManyTokens, UnknownRoute, UnknownToken, WrongSignIn,
    },
    operation::{Operation, delete, get, post},
    sign_in, tokens,
};

pub fn operations() -> Vec<Operation> {
    vec![
get(api::BROWSER_SESSION, sign_in::show).summary("The browser session of the web page's cookie")
        .answers::<api::BrowserSession>(),
post(api::BROWSER_SESSION, sign_in::sign_in).summary("Sign a browser in, with a one-time code or the control token; sets the cookie")
        .public()
        .accepts::<api::SignIn>()
        .needing(&json!({"anyOf": [{"required": ["code"]}, {"required": ["token"]}]}))
        .answers::<api::SignedIn>()
        .fails(&[UnknownRoute, MissingParameter, WrongSignIn, StateUnusable]),
delete(api::BROWSER_SESSION, sign_in::sign_out).summary("Sign the browser out")
            .answers::<api::SignedOut>()
            .fails(&[StateUnusable]),
post(api::SESSION_LINKS, sign_in::make_link).summary("Make a one-time code, and the path of the page that signs a browser in with it")
        .answers::<api::SignInLink>()
        .fails(&[UnknownRoute, StateUnusable]),
post(api::SESSION_DOWNLOADS, sign_in::make_ticket).summary("Make an address that the browser of this session can download once, without its page key")
        .accepts::<api::Download>()
        .answers::<api::DownloadTicket>()
        .fails(&[MissingParameter, StateUnusable]),
get(api::TOKENS, tokens::list).summary("The clients that have a token").answers::<api::ClientTokens>(),
post(api::TOKENS, tokens::add).summary("Make a client's token, which is said once")
            .accepts::<api::AddToken>()
            .answers::<api::AddedToken>()
            .fails(&[MissingParameter, InvalidTokenName, InvalidLifetime])
            .fails(&[TokenExists, TooManyTokens, StateUnusable]),
delete(api::TOKEN, tokens::remove).summary("Have a client's token open nothing any more")
            .answers::<api::RemovedToken>()
            .fails(&[UnknownToken, StateUnusable]),
post(api::ROTATE, tokens::rotate).summary("Replace the control token")
            .answers::<api::RotatedToken>()
            .fails(&[StateUnusable]),
]
}
