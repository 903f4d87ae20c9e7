//! Routes for logins to remote servers.

use mainstay_api as api;

use crate::{
    code::{
        Code::{LoginFailed, MissingParameter, NoLogin, UnknownToken},
        SERVER_NOT_FOUND,
    },
    logins,
    operation::{Operation, delete, get, post},
    schema::text,
};

const CLIENT: &str =
    "The client whose login is meant, by the name of its token. Without it, Mainstay's own";

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::LOGINS, logins::logins)
            .summary("The logins to remote servers")
            .query("server", "Only those to this server", &text())
            .answers::<api::Logins>()
            .fails(&[SERVER_NOT_FOUND, LoginFailed]),
        get(api::LOGIN, logins::login)
            .summary("The login to a server")
            .query("client", CLIENT, &text())
            .answers::<api::Login>()
            .fails(&[SERVER_NOT_FOUND, NoLogin, UnknownToken]),
        post(api::LOGIN, logins::begin)
            .summary("Begin a login to a server; a person completes it in a browser or on another device")
            .query("client", CLIENT, &text())
            .may_accept::<api::BeginLogin>()
            .answers::<api::BegunLogin>()
            .fails(&[SERVER_NOT_FOUND, NoLogin, LoginFailed, UnknownToken]),
        post(api::LOGIN_ANSWER, logins::answer)
            .summary("Complete a login with the address at which the browser arrived")
            .query("client", CLIENT, &text())
            .accepts::<api::LoginAnswer>()
            .answers::<api::Login>()
            .fails(&[MissingParameter, SERVER_NOT_FOUND])
            .fails(&[NoLogin, LoginFailed, UnknownToken]),
        delete(api::LOGIN, logins::log_out)
            .summary("Forget the login to a server, and revoke its tokens where that is possible")
            .query("client", CLIENT, &text())
            .answers::<api::LoggedOut>()
            .fails(&[SERVER_NOT_FOUND, NoLogin, LoginFailed, UnknownToken]),
    ]
}
