//! Tests of the gateway with real clients and servers, over sockets, pipes and processes.
//! [`gateway`] starts a Mainstay in this process, and [`backend`] starts a server. [`client`] and
//! [`pipe`] are clients. Tests poll conditions with a time limit.

/// Defines a test for each transport of a backend: `name::stdio`, `name::http` and `name::sse`.
macro_rules! over_every_transport {
    ($($(#[$doc:meta])* async fn $name:ident($kind:ident) $body:block)*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn over($kind: BackendKind) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn stdio() {
                over(BackendKind::Stdio).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn http() {
                over(BackendKind::Http).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sse() {
                over(BackendKind::Sse).await;
            }
        }
    )*};
}

mod backend;
mod client;
mod floods;
mod gateway;
mod modern;
mod pipe;
mod rest_client;
mod rogue;
mod world;

mod about;
mod access;
mod addressed;
mod bad_input;
mod bends;
mod bound;
mod builtin;
mod calls;
mod cancellation;
mod changes;
mod client_sessions;
mod configuration;
mod connections;
mod control;
mod credential_sources;
mod doors;
mod embed;
mod evidence;
mod gate;
mod handshake;
mod hangs;
mod headers_helper;
mod history;
mod isolated_servers;
mod isolation;
mod json_streams;
mod large_lists;
mod large_results;
mod limits;
mod lists;
mod logins;
mod loss;
mod matrix;
mod max_sessions;
mod metrics;
mod misbehaviour;
mod modern_backends;
mod modern_clients;
mod modern_questions;
mod modern_streams;
mod names;
mod never_up;
mod observing;
mod operations;
mod owners;
mod pass_through;
mod poison;
mod probes;
mod profiles;
mod progress;
mod questions;
mod questions_lost;
mod records;
mod recovery;
mod redaction;
#[cfg(unix)]
mod references;
mod refusals;
mod reloading;
mod requests;
mod resumption;
mod seeds;
mod shared_servers;
mod shutdown;
mod sole_client;
mod sse;
mod stalls;
mod start;
mod starts;
mod stored_catalogs;
mod subscriptions;
mod switches;
mod tasks;
mod tasks_awaited;
mod tls;
mod tokens;
mod traces;
mod trusted_proxies;
mod twice;
