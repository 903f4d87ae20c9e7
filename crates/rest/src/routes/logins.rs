//! Routes of logins to remote servers.

use mainstay_api as api;

use crate::{
    code::{
        Code::{LoginFailed, MissingParameter, NoLogin},
        SERVER_NOT_FOUND,
    },
    logins,
    operation::{Operation, delete, get, post},
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::LOGINS, logins::logins)
            .summary("The logins to remote servers")
            .answers::<api::Logins>(),
        get(api::LOGIN, logins::login)
            .summary("The login to a server")
            .answers::<api::Login>()
            .fails(&[SERVER_NOT_FOUND, NoLogin]),
        post(api::LOGIN, logins::begin)
            .summary("Begin a login to a server; a person completes it in a browser or on another device")
            .may_accept::<api::BeginLogin>()
            .answers::<api::BegunLogin>()
            .fails(&[SERVER_NOT_FOUND, NoLogin, LoginFailed]),
        post(api::LOGIN_ANSWER, logins::answer)
            .summary("Complete a login with the address at which the browser arrived")
            .accepts::<api::LoginAnswer>()
            .answers::<api::Login>()
            .fails(&[MissingParameter, SERVER_NOT_FOUND])
            .fails(&[NoLogin, LoginFailed]),
        delete(api::LOGIN, logins::log_out)
            .summary("Forget the login to a server, and revoke its tokens where that is possible")
            .answers::<api::LoggedOut>()
            .fails(&[SERVER_NOT_FOUND, NoLogin, LoginFailed]),
    ]
}
