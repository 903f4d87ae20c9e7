//! HTTP as a client: the HTTP/1.1 client, the target with its headers, and the readers of answers.

pub mod answer_reader;
pub mod bounded;
pub mod credentials;
pub mod download;
pub mod events;
pub mod headers_helper;
pub mod health_url;
pub mod http1;
pub mod http_client;
pub mod json_values;
pub mod leftovers;
pub mod public_address;
pub mod refusals;
pub mod urls;
pub mod webhook;

#[cfg(test)]
mod tests;
