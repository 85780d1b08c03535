//! What the compiler states if a feature is missing.

/// A bound that no type has, for what needs the feature `http-client`.
#[cfg(not(feature = "http-client"))]
#[diagnostic::on_unimplemented(
    message = "a client over HTTP needs the feature `http-client` of `mcp-tokio`",
    label = "needs the feature `http-client`",
    note = "enable it: `cargo add mcp-tokio --features http-client`"
)]
pub trait NeedsFeatureHttpClient {}

/// A bound that no type has, for what needs the feature `http-server`.
#[cfg(not(feature = "http-server"))]
#[diagnostic::on_unimplemented(
    message = "a server over HTTP needs the feature `http-server` of `mcp-tokio`",
    label = "needs the feature `http-server`",
    note = "enable it: `cargo add mcp-tokio --features http-server`"
)]
pub trait NeedsFeatureHttpServer {}
