//! The bodies of the targets, by subject.

mod aggregate;
mod api;
mod authorization;
mod codecs;
mod era;
mod extensions;
mod frontmatter;
mod gateway;
mod http;
mod instances;
mod param_headers;
mod redirect;
mod rules;
mod schema;
mod stdio;
mod stored;
mod uri_template;

pub use aggregate::aggregate;
pub use api::api;
pub use authorization::{challenge, metadata, token_response};
pub use codecs::{line, message, splice, sse};
pub use era::era;
pub use extensions::extensions;
pub use frontmatter::frontmatter;
pub use gateway::gateway;
pub use http::{client, relay, server};
pub use instances::instances;
pub use param_headers::param_headers;
pub use redirect::redirect;
pub use rules::rules;
pub use schema::schema;
pub use stdio::{client_stdio, server_stdio};
pub use stored::stored;
pub use uri_template::uri_template;
