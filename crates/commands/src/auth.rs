//! `mainstay auth`: logs in to remote servers, shows logins, and logs out. The daemon carries out a login.
//! The command opens the browser and waits.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use clap::{Args, Subcommand};
use mainstay_api::{self as api, BeginLogin, BegunLogin, Client, Login, LoginName, LoginStatus};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    signals::Signals,
    stderr::complain,
    table::Column,
    time,
};
use tokio::time::sleep;

use crate::browser;

pub(super) const COLUMNS: [Column; 5] = [
    Column::new("SERVER").cut_to(20),
    Column::new("CLIENT").cut_to(20),
    Column::new("LOGIN"),
    Column::new("TOKEN UNTIL").rank(2),
    Column::new("SCOPES").rank(1),
];

const EXAMPLES: &str = "\
Examples:
  mainstay auth login github              in the browser
  mainstay auth login github --no-browser the link, to open anywhere
  mainstay auth login github --device     a code, to enter on another device
  mainstay auth status
  mainstay auth logout github
  mainstay auth login github --client ci  that of one client

A login serves all clients, unless the server has `oauth.perPrincipal`.
Mainstay renews it.";

/// The interval between two requests that check whether the login is complete.
const POLL_PAUSE: Duration = Duration::from_millis(400);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Auth {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: AuthAction,
}

#[derive(Debug, Subcommand)]
enum AuthAction {
    /// Log in to a server
    Login {
        /// The server
        name: String,
        #[command(flatten)]
        owner: LoginOwner,
        /// Print the link instead of opening it; the address at which the browser arrives can be pasted
        #[arg(long)]
        no_browser: bool,
        /// Log in with a code on another device
        #[arg(long, conflicts_with = "no_browser")]
        device: bool,
        /// Ask for this scope, too (repeatable)
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
    },
    /// List logins, or show one
    Status {
        /// The server
        name: Option<String>,
        #[command(flatten)]
        owner: LoginOwner,
    },
    /// Forget a login, and revoke its tokens where that is possible
    Logout {
        /// The server
        name: String,
        #[command(flatten)]
        owner: LoginOwner,
    },
}

#[derive(Debug, Args)]
struct LoginOwner {
    /// The client whose login is meant, by the name of its token; without it, Mainstay's own
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

impl LoginOwner {
    fn login<'n>(&'n self, server: &'n str) -> LoginName<'n> {
        let client = self.client.as_deref();
        LoginName { server, client }
    }
}

impl RunCommand for Auth {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            under_way: match self.action {
                AuthAction::Logout { .. } => Some("logging out"),
                AuthAction::Login { .. } | AuthAction::Status { .. } => None,
            },
            ..CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
        }
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let is_json = match self.action {
            AuthAction::Status { .. } => self.daemon.json,
            AuthAction::Login { .. } | AuthAction::Logout { .. } => {
                self.shape.only_json(self.daemon.json)?
            }
        };
        let work = async |client: &Client| match &self.action {
            AuthAction::Login {
                name,
                owner,
                no_browser,
                device,
                scopes,
            } => {
                let request = BeginLogin {
                    device: *device,
                    scopes: scopes.clone(),
                    ..BeginLogin::default()
                };
                log_in(client, owner.login(name), &request, !no_browser, is_json).await
            }
            AuthAction::Status { name: None, owner } => {
                let mut list = client.logins().await?;
                if owner.client.is_some() {
                    list.logins.retain(|login| login.client == owner.client);
                }
                self.list(&list)
            }
            AuthAction::Status {
                name: Some(name),
                owner,
            } => self.show(&client.login(owner.login(name)).await?),
            AuthAction::Logout { name, owner } => {
                let logged_out = client.log_out(owner.login(name)).await?;
                print_logout(&logged_out, is_json)
            }
        };
        self.daemon.with(host, work).await?;
        Ok(Exit::DONE)
    }
}

impl Auth {
    fn list(&self, logins: &api::Logins) -> Result<(), CommandError> {
        let list = ItemList::list::<Login>(logins, &["logins"], &["server"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &list)? else {
            return Ok(());
        };
        if logins.logins.is_empty() {
            complain("there is no remote server to log in to");
            return Ok(());
        }
        let row = |login: &Login| {
            let expires_at = login.expires_at.as_deref();
            [
                login.server.clone(),
                login.client.clone().unwrap_or_default(),
                status_text(login),
                expires_at.map(time::local_with_day).unwrap_or_default(),
                login.scopes.join(" "),
            ]
        };
        output::rows_of(&COLUMNS, logins.logins.iter().map(row), wide)
    }

    fn show(&self, login: &Login) -> Result<(), CommandError> {
        let item = ItemList::one(login, &["server"]);
        if self.shape.print(self.daemon.json, &item)?.is_some() {
            for line in login_lines(login) {
                output::sentence(&line)?;
            }
        }
        Ok(())
    }
}

/// Begins a login, and waits until the person has completed it.
pub(super) async fn log_in(
    client: &Client,
    login_name: LoginName<'_>,
    request: &BeginLogin,
    opens_browser: bool,
    is_json: bool,
) -> Result<(), CommandError> {
    let before = client.login(login_name).await?;
    let begun_login = client.begin_login(login_name, request).await?;
    let takes_address = guide(&begun_login, opens_browser);
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let login = if begun_login.expires_at.is_none() {
        client.login(login_name).await?
    } else {
        tokio::select! {
            login = completed(client, login_name, before.logged_in_at.as_deref()) => login?,
            login = pasted(client, login_name), if takes_address => login?,
            signal = signals.next() => {
                return Err(CommandError::Interrupted {
                    name: signal.name,
                    exit: signal.exit_code(),
                });
            }
        }
    };
    if is_json {
        return output::json(&login);
    }
    for line in login_lines(&login) {
        output::sentence(&line)?;
    }
    Ok(())
}

/// Prints instructions for the person. Returns `true` if the command reads the browser's final address from
/// stdin.
fn guide(begun_login: &BegunLogin, opens_browser: bool) -> bool {
    if let (Some(code), Some(url)) = (&begun_login.user_code, &begun_login.verification_url) {
        complain(&format!(
            "open {url} on any device, and enter the code {code}"
        ));
        if let Some(url) = &begun_login.complete_url {
            complain(&format!("or open {url}"));
        }
        return false;
    }
    let Some(url) = &begun_login.authorization_url else {
        return false;
    };
    let opened = opens_browser.then(|| browser::open(url));
    match &opened {
        Some(Ok(())) => complain("opened your browser; if no page appears, open this link:"),
        Some(Err(reason)) => complain(&format!("{}:", reason.sentence())),
        None => complain("open this link in a browser:"),
    }
    complain(url);
    let takes_address = io::stdin().is_terminal() || !opens_browser;
    if takes_address {
        complain(
            "if the browser ends at a page that it cannot load, paste the address of that page here:",
        );
    }
    takes_address
}

/// Waits until there is a newer login. Fails if the attempt to log in fails.
async fn completed(
    client: &Client,
    login_name: LoginName<'_>,
    logged_in_before: Option<&str>,
) -> Result<Login, CommandError> {
    loop {
        sleep(POLL_PAUSE).await;
        let login = client.login(login_name).await?;
        let is_new =
            login.logged_in_at.is_some() && login.logged_in_at.as_deref() != logged_in_before;
        if is_new && login.status != LoginStatus::Ended {
            return Ok(login);
        }
        if let Some(reason) = login.login_error {
            return Err(failed(reason));
        }
        if !login.pending {
            return Err(failed("the time for the login is over".to_owned()));
        }
    }
}

/// Completes the login with an address that the person pastes. Waits forever if stdin has ended.
async fn pasted(client: &Client, login_name: LoginName<'_>) -> Result<Login, CommandError> {
    loop {
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            let length = io::stdin().read_line(&mut line)?;
            Ok::<_, io::Error>((length > 0).then_some(line))
        });
        let line = reading.await.map_err(io::Error::from).and_then(|line| line);
        let Ok(Some(line)) = line else {
            // Stdin has ended, so nobody can paste an address.
            return std::future::pending().await;
        };
        let address = line.trim();
        if address.is_empty() {
            continue;
        }
        match client.answer_login(login_name, address).await {
            Ok(login) => return Ok(login),
            // The person may still paste the right address. `completed` notices the end of the login.
            Err(error) => complain(&error.to_string()),
        }
    }
}

fn failed(message: String) -> CommandError {
    CommandError::Cannot {
        code: "login_failed",
        message,
        hint: None,
    }
}

fn print_logout(logged_out: &api::LoggedOut, is_json: bool) -> Result<(), CommandError> {
    if is_json {
        return output::json(logged_out);
    }
    let name = login_text(&logged_out.server, logged_out.client.as_deref());
    output::line(&match logged_out.revocation {
        api::TokenRevocation::Revoked => {
            format!("logged out of {name}, and its tokens are revoked")
        }
        api::TokenRevocation::Unsupported => format!("logged out of {name}"),
        api::TokenRevocation::NoLogin => format!("there was no login to {name}"),
        api::TokenRevocation::Failed => format!(
            "logged out of {name}, but its tokens could not be revoked: {}",
            logged_out.reason.as_deref().unwrap_or_default()
        ),
    })
}

/// Names a login in a sentence: `github`, or `github for ci`.
fn login_text(server: &str, client: Option<&str>) -> String {
    match client {
        Some(client) => format!("{server} for {client}"),
        None => server.to_owned(),
    }
}

/// The state of a login in a few words.
fn status_text(login: &Login) -> String {
    match login.status {
        LoginStatus::None if login.required => "needed".to_owned(),
        LoginStatus::None => "none".to_owned(),
        LoginStatus::Pending => "waits for you".to_owned(),
        LoginStatus::Valid if !login.missing_scopes.is_empty() => "lacks scopes".to_owned(),
        LoginStatus::Valid => "valid".to_owned(),
        LoginStatus::Expired if login.renewable => "to be renewed".to_owned(),
        LoginStatus::Expired => "expired".to_owned(),
        LoginStatus::Ended => "ended".to_owned(),
    }
}

/// Lines for people about a login, with the command that repairs it.
fn login_lines(login: &Login) -> Vec<String> {
    let name = login_text(&login.server, login.client.as_deref());
    let client = login
        .client
        .as_ref()
        .map(|client| format!(" --client {client}"));
    let client = client.unwrap_or_default();
    let remedy = format!("`mainstay auth login {}{client}`", login.server);
    let mut lines = vec![match login.status {
        LoginStatus::None if login.required => format!("{name} needs a login: {remedy}"),
        LoginStatus::None => format!("not logged in to {name}"),
        LoginStatus::Pending => format!("the login to {name} waits for you"),
        LoginStatus::Valid => format!("logged in to {name}"),
        LoginStatus::Expired if login.renewable => {
            format!("logged in to {name}; the token is renewed at the next request")
        }
        LoginStatus::Expired => format!("the login to {name} has expired: {remedy}"),
        LoginStatus::Ended => {
            let reason = login.reason.as_deref().unwrap_or_default();
            format!("the login to {name} has ended: {reason}; log in again with {remedy}")
        }
    }];
    let mut detail = |label: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            lines.push(format!("  {label}: {text}"));
        }
    };
    // The last token of an ended login may still be valid. Do not show when it expires.
    let expires_at = login.expires_at.as_deref();
    let expires_at = expires_at.filter(|_| login.status != LoginStatus::Ended);
    let expires_at = expires_at.map(time::local_with_day);
    let renewed = if login.renewable {
        ", renewed before"
    } else {
        ""
    };
    detail(
        "token until",
        expires_at.map(|time| format!("{time}{renewed}")),
    );
    detail("scopes", Some(login.scopes.join(" ")));
    if !login.missing_scopes.is_empty() {
        let scopes = login.missing_scopes.join(" ");
        detail(
            "missing scopes",
            Some(format!("{scopes}; get them with {remedy}")),
        );
    }
    detail("by", login.issuer.clone());
    detail(
        "since",
        login.logged_in_at.as_deref().map(time::local_with_day),
    );
    if let Some(refresh) = &login.last_refresh {
        let time = time::local_with_day(&refresh.at);
        detail(
            "last renewal",
            Some(match &refresh.error {
                None => time,
                Some(error) => format!("{time} failed: {error}"),
            }),
        );
    }
    detail("last attempt", login.login_error.clone());
    detail("not saved", login.save_error.clone());
    lines
}
