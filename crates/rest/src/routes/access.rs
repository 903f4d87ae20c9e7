//! Routes for browser sessions and tokens.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::json;

use crate::{
    access,
    code::{
        Code::{
            Failed, InvalidLifetime, InvalidTokenName, MissingParameter, StateUnusable,
            TokenExists, TooManyTokens, UnknownRoute, UnknownToken, WrongSignIn,
        },
        SERVER_NOT_FOUND,
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
get(api::ACCESS, access::overview).summary("The rules of access, and which servers each client sees")
        .answers::<api::AccessOverview>(),
get(api::EXPLAIN_ACCESS, access::explain).summary("Whether a client may use a server or an item, and the rule that decides")
        .query_needed("principal", "The name of a token, `anonymous` or `operator`", &json!({"type": "string", "pattern": "^(client:)?[a-zA-Z0-9._-]{1,64}$"}))
        .query("profile", "The profile at whose endpoint the client asks. Without it, the endpoint of the server itself", &json!({"type": "string"}))
        .query_needed("server", "The server", &json!({"type": "string"}))
        .query("tool", "A tool, by the server's own name", &json!({"type": "string"}))
        .query("prompt", "A prompt, by the server's own name", &json!({"type": "string"}))
        .query("resource", "The URI of a resource", &json!({"type": "string"}))
        .answers::<api::AccessExplanation>()
        .fails(&[MissingParameter, SERVER_NOT_FOUND, Failed(FailureKind::ProfileNotFound)]),
get(api::TOKENS, tokens::list).summary("The clients that have a token").answers::<api::ClientTokens>(),
post(api::TOKENS, tokens::add).summary("Make a client's token, which is said once")
            .accepts::<api::AddToken>()
            .answers::<api::AddedToken>()
            .fails(&[MissingParameter, InvalidTokenName, InvalidLifetime, Failed(FailureKind::ProfileNotFound)])
            .fails(&[TokenExists, TooManyTokens, StateUnusable]),
delete(api::TOKEN, tokens::remove).summary("Have a client's token open nothing any more")
            .answers::<api::RemovedToken>()
            .fails(&[UnknownToken, StateUnusable]),
post(api::ROTATE, tokens::rotate).summary("Replace the control token")
            .answers::<api::RotatedToken>()
            .fails(&[StateUnusable]),
]
}
