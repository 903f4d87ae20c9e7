//! A server pinned to one era (`--era`), so that a gateway has to translate.
//! Modern-only is in rmcp: it refuses `initialize` with −32022. Legacy-only is
//! what servers from before 2026-07-28 do: over stdio `server/discover` is an
//! unknown method, over HTTP the version in the header is a bad one.

use axum::{extract::Request, middleware::Next, response::Response};
use clap::ValueEnum;
use http::StatusCode;
use rmcp::{
    ErrorData, RoleServer, Service,
    model::{
        ClientNotification, ClientRequest, DiscoverRequestMethod, ProtocolVersion, ServerConfig,
        ServerResult,
    },
    service::{NotificationContext, RequestContext},
};

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
    Both,
}

impl Era {
    pub fn versions(self) -> &'static [ProtocolVersion] {
        let versions = ProtocolVersion::KNOWN_VERSIONS;
        let modern = versions.partition_point(ProtocolVersion::has_initialize);
        match self {
            Self::Legacy => &versions[..modern],
            Self::Modern => &versions[modern..],
            Self::Both => versions,
        }
    }
}

/// HTTP: refuses what only a modern client sends.
pub async fn legacy_only(request: Request, next: Next) -> Response {
    let version = request.headers().get("mcp-protocol-version");
    let modern = ProtocolVersion::NO_INITIALIZE;
    if version.is_some_and(|version| version.as_bytes() >= modern.as_str().as_bytes()) {
        let mut refusal = Response::new("Bad Request: Unsupported protocol version".into());
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        return refusal;
    }
    next.run(request).await
}

/// Stdio: knows no `server/discover`.
pub struct LegacyOnly<S>(pub S);

impl<S: Service<RoleServer>> Service<RoleServer> for LegacyOnly<S> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if matches!(request, ClientRequest::DiscoverRequest(_)) {
            return Err(ErrorData::method_not_found::<DiscoverRequestMethod>());
        }
        self.0.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}
