//! Logins to remote servers: their state, and how a person logs in and out.
//! `mainstay_login::logins` carries them out.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use mainstay_api as api;
use mainstay_core::{
    config::Grant,
    principal::{ClientName, Principal},
};
use mainstay_gateway::supervisor::ServerHandle;
use mainstay_login::{
    discovery::{is_loopback, is_secure},
    flow::{Arrival, Redirect},
    landing::{PAGE_HEADERS, landing_page},
    logins::{Logins, Revocation},
    loopback::{self, Url},
    person::LoginError,
    report::LoginState,
    scopes::Scopes,
    server::LoginServer,
};
use mainstay_platform::utc;
use mainstay_tokens::TokenError;

use super::{
    RestDoor,
    address::{Path, Query},
    body::Body,
    refusal::Refusal,
    via::RequestView,
};

/// Maximum number of logins that are read from the vault at the same time.
const MAX_READS: usize = 16;

/// Answers `GET /api/logins`.
pub async fn logins(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Query(only): Query<OnlyServer>,
) -> Result<Json<api::Logins>, Refusal> {
    let Some(logins) = &door.logins else {
        return Ok(Json(api::Logins { logins: Vec::new() }));
    };
    let mut clients = logins.clients().await.map_err(LoginError::from)?;
    let tokens: BTreeMap<_, _> = (door.tokens.clients().into_iter())
        .map(|token| (token.name.to_string(), token.name))
        .collect();
    let mut list = Vec::new();
    let handles = match only.server {
        Some(name) => vec![door.gateway.server(&client_view, &name)?],
        None => door.gateway.servers_of(&client_view),
    };
    for handle in handles {
        let Some(server) = LoginServer::from_config(&handle.config()) else {
            continue;
        };
        let names = clients.remove(server.name.as_str()).unwrap_or_default();
        list.push(server.clone());
        if server.oauth.per_principal {
            let owners = names.iter().filter_map(|name| tokens.get(name));
            list.extend(owners.map(|client| server.clone().of_client(Some(client.clone()))));
        }
    }
    let views = stream::iter(list)
        .map(|server| async move { login_view(logins, &server).await })
        .buffered(MAX_READS);
    Ok(Json(api::Logins {
        logins: views.collect().await,
    }))
}

/// The parameters `?server=NAME`. Without them, the logins to all servers are listed.
#[derive(Debug, serde::Deserialize)]
pub struct OnlyServer {
    server: Option<String>,
}

/// The parameters `?client=NAME`. Without them, the login that all clients share is used.
#[derive(Debug, serde::Deserialize)]
pub struct Owner {
    client: Option<String>,
}

/// Answers `GET /api/servers/{name}/login`.
pub async fn login(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(owner): Query<Owner>,
) -> Result<Json<api::Login>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle, owner)?;
    Ok(Json(login_view(logins, &server).await))
}

/// Answers `POST /api/servers/{name}/login`.
pub async fn begin(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(owner): Query<Owner>,
    headers: HeaderMap,
    body: Option<Body<api::BeginLogin>>,
) -> Result<Json<api::BegunLogin>, Refusal> {
    let request = body.map(|Body(request)| request).unwrap_or_default();
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle, owner)?;
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
        (None, Some(origin)) => redirect_at_origin(&door, logins, origin, &headers)?,
        (None, None) => redirect_at_daemon(logins)?,
    };
    let login = logins.begin(&server, redirect, &scopes).await?;
    answer.authorization_url = Some(login.authorization_url.to_string());
    answer.redirect_uri = Some(login.redirect.to_string());
    answer.expires_at = Some(utc::rfc3339(login.expires_at));
    Ok(Json(answer))
}

/// Answers `POST /api/servers/{name}/login/answer`.
pub async fn answer(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(owner): Query<Owner>,
    Body(answer): Body<api::LoginAnswer>,
) -> Result<Json<api::Login>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle, owner)?;
    let address = answer.address.ok_or(Refusal::MissingParameter("address"))?;
    let redirect = Redirect::from_pasted(&address).map_err(LoginError::from)?;
    logins
        .complete(redirect, Arrival::Pasted(&server.entry()))
        .await?;
    Ok(Json(login_view(logins, &server).await))
}

/// Answers `DELETE /api/servers/{name}/login`.
pub async fn log_out(
    State(door): State<RestDoor>,
    RequestView(client_view): RequestView,
    Path(name): Path<String>,
    Query(owner): Query<Owner>,
) -> Result<Json<api::LoggedOut>, Refusal> {
    let handle = door.gateway.server(&client_view, &name)?;
    let (logins, server) = login_server(&door, &handle, owner)?;
    let revocation = logins.log_out(&server).await.map_err(LoginError::from)?;
    let (revocation, reason) = match revocation {
        Revocation::Revoked => (api::TokenRevocation::Revoked, None),
        Revocation::Unsupported => (api::TokenRevocation::Unsupported, None),
        Revocation::NoLogin => (api::TokenRevocation::NoLogin, None),
        Revocation::Failed(reason) => (api::TokenRevocation::Failed, Some(reason)),
    };
    Ok(Json(api::LoggedOut {
        server: server.name.to_string(),
        client: server.client.map(|client| client.to_string()),
        revocation,
        reason,
    }))
}

/// Answers `GET /oauth/callback`, where an authorization server redirects a browser. The `state` in
/// the URL proves that Mainstay has started this login.
pub async fn callback(State(door): State<RestDoor>, uri: Uri) -> Response {
    let outcome = match &door.logins {
        Some(logins) => {
            // Behind a proxy, the browser uses another host and port.
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

/// The logins, and the part of a server's entry that they depend on. `owner` selects the client.
fn login_server<'d>(
    door: &'d RestDoor,
    handle: &ServerHandle,
    owner: Owner,
) -> Result<(&'d Arc<Logins>, LoginServer), Refusal> {
    let server = LoginServer::from_config(&handle.config());
    let client = owner.client.map(|name| known_client(door, handle, name));
    let client = client.transpose()?;
    match (&door.logins, server) {
        (Some(logins), Some(server)) => Ok((logins, server.of_client(client))),
        (None, _) => Err(no_login("this Mainstay keeps no logins".to_owned())),
        (_, None) => {
            let name = &handle.name;
            Err(no_login(format!(
                "{name} has no login: it is a process, or its entry has the credentials"
            )))
        }
    }
}

/// The client with this name. It must have a login of its own at the server.
fn known_client(
    door: &RestDoor,
    handle: &ServerHandle,
    name: String,
) -> Result<ClientName, Refusal> {
    let mut tokens = door.tokens.clients().into_iter();
    let token = tokens.find(|token| token.name.as_str() == name);
    let client = token.ok_or(TokenError::Unknown(name))?.name;
    let principal = Principal::Client(client);
    match handle.config().login_owner(&principal) {
        Some(client) => Ok(client.clone()),
        None => Err(no_login(format!(
            "all clients share one login to {}; `oauth.perPrincipal` gives each its own",
            handle.name
        ))),
    }
}

fn no_login(message: String) -> Refusal {
    Refusal::NoLogin(message)
}

/// The redirect URL at the origin of the page, which must be the origin of this request.
fn redirect_at_origin(
    door: &RestDoor,
    logins: &Logins,
    origin: &str,
    headers: &HeaderMap,
) -> Result<Url, Refusal> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let url = Url::parse(&format!("{origin}{}", api::LOGIN_CALLBACK)).ok();
    let url = url.filter(|_| authority.is_some() && authority == host);
    let url = url.ok_or_else(|| {
        Refusal::LoginFailed("`origin` must be the origin of this request".to_owned())
    })?;
    let port = door
        .endpoint
        .as_ref()
        .map(|endpoint| endpoint.address.port());
    if is_loopback(&url) && url.port_or_known_default() == port {
        // The redirect URL is registered under one address, but a browser may use another loopback
        // name.
        return redirect_at_daemon(logins);
    }
    if !is_secure(&url) {
        let message = "a browser comes back from a login to an address of this machine or one with https only; \
            run `mainstay auth login` there";
        return Err(Refusal::LoginFailed(message.to_owned()));
    }
    Ok(url)
}

/// The redirect URL at the daemon's own address.
fn redirect_at_daemon(logins: &Logins) -> Result<Url, Refusal> {
    logins.callback().cloned().ok_or_else(|| {
        let message = "Mainstay does not listen on loopback, where a browser could come back to without TLS: \
            log in on the page over https, or set `http.publicUrl` or `oauth.callbackPort`";
        Refusal::LoginFailed(message.to_owned())
    })
}

async fn login_view(logins: &Logins, server: &LoginServer) -> api::Login {
    let report = logins.report(server).await;
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
        client: report.client.map(|client| client.to_string()),
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
