//! The records and stored objects that a client may see: those of calls with its own token, for the
//! servers and tools of its profile. The control token gives access to all of them.

use mainstay_core::{
    principal::Principal,
    record::{ClientInfo, Record},
};
use mainstay_gateway::{View, calls::CallClient};
use mainstay_journal::{Holder, PrincipalFilter};

/// The records and objects that one client may see.
#[derive(Clone, Debug)]
pub struct Reach {
    identity: ClientIdentity,
    view: View,
}

/// Identifies a client by token, session and declared name, because not every client has a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    pub principal: Principal,
    pub session: Option<String>,
    pub client: Option<ClientInfo>,
}

impl Reach {
    pub fn new(client: &CallClient, view: View) -> Self {
        let identity = ClientIdentity {
            principal: client.principal.clone(),
            session: client.origin.session.clone(),
            client: client.origin.client.clone(),
        };
        Self { identity, view }
    }

    pub fn identity(&self) -> &ClientIdentity {
        &self.identity
    }

    /// The owner of the records that the client may see, by token.
    pub fn record_owner(&self) -> PrincipalFilter {
        match &self.identity.principal {
            Principal::Operator => PrincipalFilter::Anybodys,
            Principal::Anonymous => PrincipalFilter::Of(None),
            client @ Principal::Client(_) => PrincipalFilter::Of(Some(client.to_string())),
        }
    }

    pub fn shows_record(&self, record: &Record) -> bool {
        self.shows_holder(&Holder::from_call(&record.origin, &record.target))
    }

    /// True if the client may see arguments and results of this holder's calls.
    pub fn shows_holder(&self, holder: &Holder) -> bool {
        let is_own = match self.record_owner() {
            PrincipalFilter::Anybodys => true,
            PrincipalFilter::Of(principal) => holder.principal == principal,
        };
        is_own && self.sees(holder)
    }

    /// True if the client can see all tools.
    pub fn is_everything(&self) -> bool {
        self.view.has_all_tools()
    }

    fn sees(&self, holder: &Holder) -> bool {
        match (&holder.server, &holder.tool) {
            (Some(server), Some(tool)) => self.view.has_tool(server, tool),
            (Some(server), None) => self.view.has_server(server),
            // An unresolved name may belong to a hidden item.
            (None, _) => self.view.has_all_tools(),
        }
    }
}
