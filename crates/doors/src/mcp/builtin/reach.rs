//! Which records and kept objects a client may see: those of calls with its own token, or without one
//! if it has none, about what its profile shows. The bearer of the control token sees those of all
//! clients.

use mainstay_core::{
    principal::Principal,
    record::{ClientInfo, Record},
};
use mainstay_gateway::{View, calls::Client};
use mainstay_journal::{Holder, Whose};

/// What one client may see of calls.
#[derive(Clone, Debug)]
pub struct Reach {
    whom: Whom,
    view: View,
}

/// One client among others: by its token, its session and, since not all have a session, its own name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whom {
    pub principal: Principal,
    pub session: Option<String>,
    pub client: Option<ClientInfo>,
}

impl Reach {
    pub fn new(client: &Client, view: View) -> Self {
        let whom = Whom {
            principal: client.principal.clone(),
            session: client.origin.session.clone(),
            client: client.origin.client.clone(),
        };
        Self { whom, view }
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
        is_own && self.sees(holder)
    }

    /// Whether the client sees everything that may be called.
    pub fn is_everything(&self) -> bool {
        self.view.has_all_tools()
    }

    fn sees(&self, holder: &Holder) -> bool {
        match (&holder.server, &holder.tool) {
            (Some(server), Some(tool)) => self.view.has_tool(server, tool),
            (Some(server), None) => self.view.has_server(server),
            // A name that leads nowhere may be that of what is hidden.
            (None, _) => self.view.has_all_tools(),
        }
    }
}
