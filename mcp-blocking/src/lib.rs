//! tmp
mod client;
mod gate;
mod http_client;
mod mailbox;
mod proxy;
mod stdio;
pub use client::{Builder, Client, Error, Handler, InFlight, Observation};
pub use http_client::{HttpOptions, OptionsError};
pub use proxy::{Observer, Proxy, Stopper};
