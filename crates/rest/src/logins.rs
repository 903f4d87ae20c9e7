//! Logins to remote servers: their state, and the logins of people. `mainstay_login::logins` carries them out.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use mainstay_api as api;
use mainstay_core::config::Grant;
use mainstay_gateway::supervisor::ServerHandle;
use mainstay_login::{
    discovery::{is_loopback, is_secure},
    flow::{Arrival, Redirect},
    landing::{PAGE_HEADERS, landing_page},
    logins::{Logins, Revocation},
    loopback::{self, Url},
    person::LoginError,
    report::{LoginReport, LoginState},
    scopes::Scopes,
    server::LoginServer,
};
use mainstay_platform::{loopback::reachable, utc};

use super::{RestDoor, address::Path, body::Body, refusal::Refusal, via::RequestView};

/// Logins that are read from the vault at the same time.
const MAX_READS: usize = 16;

/// `GET /api/logins`
pub async fn logins(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
) -> Json<api::Logins> {
    let servers = door.gateway.servers_of(&client_view);
    let servers: Vec<LoginServer> = servers
        .iter()
        .filter_map(|server| LoginServer::from_config(&server.config()))
        .collect();
    let list = match &door.logins {
        None => Vec::new(),
        Some(logins) => {
            stream::iter(servers)
                .map(|server| async move { login_view(logins, &server).await })
                .buffered(MAX_READS)
                .collect()
                .await
        }
    };
    Json(api::Logins { logins: list })
}

/// `GET /api/servers/NAME/login`
pub async fn login(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
) -> Result<Json<api::Login>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle)?;
    Ok(Json(login_view(logins, &server).await))
}

/// `POST /api/servers/NAME/login`
pub async fn begin(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Option<Body<api::BeginLogin>>,
) -> Result<Json<api::BegunLogin>, Refusal> {
    let request = body.map(|Body(request)| request).unwrap_or_default();
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle)?;
    let scopes: Scopes = (request.scopes.iter())
        .flat_map(|scope| scope.split_ascii_whitespace())
        .collect();
    let mut answer = api::BegunLogin {
        server: server.name.to_string(),
        authorization_url: None,
        redirect_uri: None,
        user_code: None,
        verification_url: None,
        complete_url: None,
        expires_at: None,
    };
    if server.grant() == Grant::ClientCredentials {
        logins.renew(&server).await?;
        return Ok(Json(answer));
    }
    if request.device {
        let login = logins.begin_on_device(&server, &scopes).await?;
        answer.user_code = Some(login.user_code);
        answer.verification_url = Some(login.verification_url);
        answer.complete_url = login.complete_url;
        answer.expires_at = Some(utc::rfc3339(login.expires_at));
        return Ok(Json(answer));
    }
    let redirect = match (server.oauth.callback_port, &request.origin) {
        (Some(port), _) => loopback::listen(logins, port)
            .map_err(|error| Refusal::LoginFailed(error.to_string()))?,
        (None, Some(origin)) => redirect_at_origin(&door, origin, &headers)?,
        (None, None) => redirect_at_daemon(&door)?,
    };
    let login = logins.begin(&server, redirect, &scopes).await?;
    answer.authorization_url = Some(login.authorization_url.to_string());
    answer.redirect_uri = Some(login.redirect.to_string());
    answer.expires_at = Some(utc::rfc3339(login.expires_at));
    Ok(Json(answer))
}

/// `POST /api/servers/NAME/login/answer`
pub async fn answer(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Body(answer): Body<api::LoginAnswer>,
) -> Result<Json<api::Login>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle)?;
    let address = answer.address.ok_or(Refusal::MissingParameter("address"))?;
    let redirect = Redirect::from_pasted(&address).map_err(LoginError::from)?;
    logins
        .complete(redirect, Arrival::Pasted(server.name.as_str()))
        .await?;
    Ok(Json(login_view(logins, &server).await))
}

/// `DELETE /api/servers/NAME/login`
pub async fn log_out(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
) -> Result<Json<api::LoggedOut>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle)?;
    let revocation = logins.log_out(&server).await.map_err(LoginError::from)?;
    let (revocation, reason) = match revocation {
        Revocation::Revoked => (api::TokenRevocation::Revoked, None),
        Revocation::Unsupported => (api::TokenRevocation::Unsupported, None),
        Revocation::NoLogin => (api::TokenRevocation::NoLogin, None),
        Revocation::Failed(reason) => (api::TokenRevocation::Failed, Some(reason)),
    };
    Ok(Json(api::LoggedOut {
        server: server.name.to_string(),
        revocation,
        reason,
    }))
}

/// `GET /oauth/callback`: a browser comes back from an authorization server. The `state` in its address is the proof
/// that Mainstay has sent it there.
pub async fn callback(State(door): State<RestDoor>, uri: Uri) -> Response {
    let outcome = match &door.logins {
        Some(logins) => {
            // Behind a proxy the browser has arrived at another host and port.
            let arrival = Arrival::Browser {
                path: api::LOGIN_CALLBACK,
                port: None,
            };
            let query = uri.query().unwrap_or_default();
            logins.complete_query(query, arrival).await
        }
        None => Err("this Mainstay keeps no logins".to_owned()),
    };
    let status = match outcome {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = (status, landing_page(&outcome)).into_response();
    for (name, value) in PAGE_HEADERS {
        response.headers_mut().insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// The part of a server's entry that a login depends on.
fn login_server<'d>(
    door: &'d RestDoor,
    handle: &ServerHandle,
) -> Result<(&'d Arc<Logins>, LoginServer), Refusal> {
    let server = LoginServer::from_config(&handle.config());
    match (&door.logins, server) {
        (Some(logins), Some(server)) => Ok((logins, server)),
        (None, _) => Err(no_login("this Mainstay keeps no logins".to_owned())),
        (_, None) => {
            let name = &handle.name;
            Err(no_login(format!(
                "{name} has no login: it is a process, or its entry has the credentials"
            )))
        }
    }
}

fn no_login(message: String) -> Refusal {
    Refusal::NoLogin(message)
}

/// The redirect address at the origin of a page, which must be the origin of the request.
fn redirect_at_origin(door: &RestDoor, origin: &str, headers: &HeaderMap) -> Result<Url, Refusal> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let url = Url::parse(&format!("{origin}{}", api::LOGIN_CALLBACK)).ok();
    let url = url.filter(|_| authority.is_some() && authority == host);
    let url = url.ok_or_else(|| {
        Refusal::Malformed("`origin` must be the origin of this request".to_owned())
    })?;
    let port = door
        .endpoint
        .as_ref()
        .map(|endpoint| endpoint.address.port());
    if is_loopback(&url) && url.port_or_known_default() == port {
        // A client is registered for one address, whatever name of this machine the browser uses.
        return redirect_at_daemon(door);
    }
    if !is_secure(&url) {
        let message = "a browser comes back from a login to an address of this machine or one with https only; \
            run `mainstay auth login` there";
        return Err(Refusal::LoginFailed(message.to_owned()));
    }
    Ok(url)
}

/// The redirect address at the daemon's own loopback address.
fn redirect_at_daemon(door: &RestDoor) -> Result<Url, Refusal> {
    let address = door
        .endpoint
        .as_ref()
        .map(|endpoint| reachable(endpoint.address));
    let url = address
        .filter(|address| address.ip().is_loopback())
        .and_then(|address| Url::parse(&format!("http://{address}{}", api::LOGIN_CALLBACK)).ok());
    url.ok_or_else(|| {
        let message = "Mainstay does not listen on loopback, where a browser could come back to without TLS: \
            log in on the page over https, or set `oauth.callbackPort`";
        Refusal::LoginFailed(message.to_owned())
    })
}

async fn login_view(logins: &Logins, server: &LoginServer) -> api::Login {
    let keeper = logins.keeper(server);
    keeper.loaded().await;
    view(keeper.report())
}

fn view(report: LoginReport) -> api::Login {
    let scopes = |scopes: &Scopes| scopes.iter().map(str::to_owned).collect();
    let (status, reason) = match report.state {
        LoginState::LoggedOut if report.is_pending => (api::LoginStatus::Pending, None),
        LoginState::LoggedOut => (api::LoginStatus::None, None),
        LoginState::LoggedIn => (api::LoginStatus::Valid, None),
        LoginState::Expired => (api::LoginStatus::Expired, None),
        LoginState::Ended(reason) => (api::LoginStatus::Ended, Some(reason)),
    };
    api::Login {
        server: report.server.to_string(),
        status,
        reason,
        required: report.is_required,
        pending: report.is_pending,
        grant: match report.grant {
            Grant::Person => api::LoginGrant::Person,
            Grant::ClientCredentials => api::LoginGrant::ClientCredentials,
        },
        issuer: report.issuer,
        client_id: report.client_id,
        scopes: scopes(&report.scopes),
        missing_scopes: scopes(&report.missing_scopes),
        logged_in_at: report.logged_in_at.map(utc::rfc3339),
        expires_at: report.token_expires_at.map(utc::rfc3339),
        renewable: report.is_renewable,
        last_refresh: report.last_refresh.map(|refresh| api::LoginRefresh {
            at: utc::rfc3339(refresh.at),
            error: refresh.error,
        }),
        login_error: report.login_error,
        save_error: report.save_error,
    }
}
