//! The records and stored objects that a client may read. They belong to calls with its token, to
//! servers and tools that it can see. The operator reads those of all clients.

use mainstay_core::{
    principal::Principal,
    record::{ClientInfo, Record},
};
use mainstay_gateway::{View, calls::CallClient};
use mainstay_journal::{Holder, PrincipalFilter};

/// Decides which records and objects one client may read.
#[derive(Clone, Debug)]
pub struct Reach {
    identity: ClientIdentity,
    view: View,
}

/// Identifies a client by its token, session and declared name. Not every client has a session.
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

    /// The principal of the records that the client may read.
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

    /// True if the client may read the arguments and results of this holder's calls.
    pub fn shows_holder(&self, holder: &Holder) -> bool {
        let is_own = match self.record_owner() {
            PrincipalFilter::Anybodys => true,
            PrincipalFilter::Of(principal) => holder.principal == principal,
        };
        is_own && self.sees(holder)
    }

    /// True if the client can see all tools, so that no record needs a check.
    pub fn is_everything(&self) -> bool {
        self.view.has_all_tools()
    }

    fn sees(&self, holder: &Holder) -> bool {
        match (&holder.server, &holder.tool) {
            (Some(server), Some(tool)) => self.view.has_tool(server, tool),
            (Some(server), None) => self.view.has_server(server),
            // A name without a server may be that of a hidden item.
            (None, _) => self.view.has_all_tools(),
        }
    }
}
