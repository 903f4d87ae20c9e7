//! Tests of requests through proxies, and with certificates from files.

mod certificates;
mod peers;
mod proxies;

use std::time::Duration;

use bytes::BytesMut;
use mainstay_core::{
    config::{HttpLaunch, NetworkSettings, ProxyChoice, Secret},
    proxy::ProxyVariables,
};
use tokio::time::timeout;

use self::peers::{Authority, HOST, Identity, ProxyRequests, TestProxy, echo_server};
use crate::{
    HealthUrl,
    http::{http_client::HttpTarget, http1::Error},
};

const LIMIT: Duration = Duration::from_secs(20);

fn variables(set: &[(&str, &str)]) -> ProxyVariables {
    ProxyVariables::read(|name| {
        let mut matching = set.iter().filter(|(key, _)| *key == name);
        matching.next().map(|(_, value)| (*value).to_owned())
    })
}

fn through(url: &str) -> NetworkSettings {
    NetworkSettings {
        proxy: ProxyChoice::Through(Secret::new(url)),
        ..NetworkSettings::default()
    }
}

fn target(url: &str, network: &NetworkSettings, variables: &ProxyVariables) -> HttpTarget {
    let launch = HttpLaunch {
        url: url.to_owned(),
        network: network.clone(),
        ..HttpLaunch::default()
    };
    HttpTarget::through(&launch, None, variables).expect("a usable URL")
}

/// The head of the request, as the server echoes it.
async fn server_head(target: &HttpTarget) -> Result<String, Error> {
    let template = target.template("POST", &[("accept", "*/*")]);
    let exchange = async {
        let mut response = target.send_body(&template, "{}").await?;
        assert_eq!(response.head.status, 200);
        let body = response.collect(&mut BytesMut::new(), 65536).await;
        Ok(String::from_utf8(body.expect("a body").to_vec()).expect("text"))
    };
    timeout(LIMIT, exchange).await.expect("in time")
}

/// The text of a failed connection. The request has not run.
async fn failure(target: &HttpTarget) -> String {
    match server_head(target).await {
        Err(Error::Connect(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}
