//! Which records and kept objects a client may see: those of calls with its own token, or without one
//! if it has none, about what its profile shows. The bearer of the control token sees those of all
//! clients.

use mainstay_core::{
    ids::ServerName,
    principal::Principal,
    record::{ClientInfo, Record},
};
use mainstay_gateway::{View, calls::Client};
use mainstay_journal::{Holder, Whose};

/// What one client may see of calls.
#[derive(Clone, Debug)]
pub struct Reach {
    whom: Whom,
    within: Within,
}

/// One client among others: by its token, its session and, since not all have a session, its own name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whom {
    pub principal: Principal,
    pub session: Option<String>,
    pub client: Option<ClientInfo>,
}

/// What the client sees itself.
#[derive(Clone, Debug)]
pub enum Within {
    View(View),
    /// On the server's own path.
    Server(ServerName),
}

impl Reach {
    pub fn of(client: &Client, within: Within) -> Self {
        let whom = Whom {
            principal: client.principal.clone(),
            session: client.origin.session.clone(),
            client: client.origin.client.clone(),
        };
        Self { whom, within }
    }

    pub fn whom(&self) -> &Whom {
        &self.whom
    }

    /// Whose calls may be seen, by token.
    pub fn whose(&self) -> Whose {
        match &self.whom.principal {
            Principal::Operator => Whose::Anybodys,
            Principal::Anonymous => Whose::Of(None),
            own @ Principal::Client(_) => Whose::Of(Some(own.to_string())),
        }
    }

    pub fn shows_record(&self, record: &Record) -> bool {
        self.shows(&Holder::of(&record.origin, &record.target))
    }

    /// Whether the client may see what calls of this holder brought and took.
    pub fn shows(&self, holder: &Holder) -> bool {
        let is_own = match self.whose() {
            Whose::Anybodys => true,
            Whose::Of(principal) => holder.principal == principal,
        };
        is_own && self.within.has(holder)
    }

    /// Whether the client sees everything that may be called.
    pub fn is_everything(&self) -> bool {
        match &self.within {
            Within::View(view) => view.has_all_tools(),
            Within::Server(_) => false,
        }
    }
}

impl Within {
    fn has(&self, holder: &Holder) -> bool {
        match (self, &holder.server, &holder.tool) {
            (Self::View(view), Some(server), Some(tool)) => view.has_tool(server, tool),
            (Self::View(view), Some(server), None) => view.has_server(server),
            // A name that leads nowhere may be that of what is hidden.
            (Self::View(view), None, _) => view.has_all_tools(),
            (Self::Server(own), server, _) => server.as_ref() == Some(own),
        }
    }
}
