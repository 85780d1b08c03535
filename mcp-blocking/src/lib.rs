//! tmp
mod gate;
mod http_client;
mod proxy;
mod stdio;
pub use http_client::{HttpOptions, OptionsError};
pub use proxy::{Observer, Proxy, Stopper};
