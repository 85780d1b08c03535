//! What the `Authorization` of each driver consists of, besides what belongs to its kind of I/O.

use std::fmt;
use std::io::Error;

use mcp_proto::UsageError;

use super::authorizer::Cause;
use super::config::Config;

/// Shows a URL to a person, in a browser or elsewhere.
pub type OpenUrl = Box<dyn FnMut(&str) + Send>;

/// Gets a token that another program issues.
pub type ObtainToken = Box<dyn FnMut() -> Result<String, Error> + Send>;

/// Signs messages with the key of the client.
pub type Sign = Box<dyn FnMut(&[u8]) -> Result<Vec<u8>, Error> + Send>;

/// What an application sets for a sign-in. `S` is the driver's trait of stores.
#[non_exhaustive]
pub struct Settings<S: ?Sized> {
    /// The configuration of the machine.
    pub config: Config,
    /// Where tokens are kept.
    pub store: Box<S>,
    /// How a URL is shown to a person.
    pub open_url: OpenUrl,
    /// Where tokens come from that another program issues.
    pub obtain_token: Option<ObtainToken>,
    /// The key with which the client authenticates.
    pub sign: Option<Sign>,
}

impl<S: ?Sized> Settings<S> {
    /// The settings for signing in to the server with this URL, as an application with this name.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the URL cannot be used.
    pub fn new(
        server: &str,
        client_name: &str,
        store: Box<S>,
        open_url: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, UsageError> {
        let config = Config::new(server, client_name)?;
        Ok(Self { config, store, open_url: Box::new(open_url), obtain_token: None, sign: None })
    }
}

impl<S: ?Sized> fmt::Debug for Settings<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What an application passes to a sign-in that runs. `B` is the driver's way to return whether a URL belongs to it.
#[derive(Debug)]
pub enum SignInInput<B> {
    /// A token is needed.
    Begin(Cause),
    /// A person was redirected to a URL.
    Redirected(String, B),
}

/// The methods of a driver's `Authorization` that are the same in all drivers. Its field `settings` is a [`Settings`]. The
/// texts state on which thread the driver calls the store and the functions.
#[doc(hidden)]
#[macro_export]
macro_rules! authorization_methods {
    (
        store: $store:literal,
        open_url: $open_url:literal,
        obtain_token: $obtain_token:literal,
        sign_with: $sign_with:literal $(,)?
    ) => {
        #[doc = concat!("Sets where tokens are kept. ", $store)]
        #[must_use]
        pub fn store(mut self, store: impl Store) -> Self {
            self.settings.store = Box::new(store);
            self
        }

        #[doc = concat!(
            "Sets how a URL is opened in the person's browser. The function is called ", $open_url,
            "; it must not pass the URL to a shell."
        )]
        #[must_use]
        pub fn open_url(mut self, open_url: impl FnMut(&str) + Send + 'static) -> Self {
            self.settings.open_url = Box::new(open_url);
            self
        }

        /// Sets where tokens come from that another program issues: the platform's assertion, an ID token or an access
        /// token, as [`Grant`](mcp_auth::Grant) demands.
        #[doc = concat!(
            "The function is called ", $obtain_token,
            ", for each new token, and must return within [`Config::request_timeout`](mcp_auth::Config::request_timeout)."
        )]
        #[must_use]
        pub fn obtain_token(
            mut self,
            obtain: impl FnMut() -> Result<String, ::std::io::Error> + Send + 'static,
        ) -> Self {
            self.settings.obtain_token = Some(Box::new(obtain));
            self
        }

        /// Sets the key with which the client authenticates, if its identity says so
        /// ([`ClientIdentity::with_key`](mcp_auth::ClientIdentity::with_key)).
        #[must_use]
        pub fn private_key(self, key: PrivateKey) -> Self {
            self.sign_with(move |message| key.sign(message))
        }

        /// Like [`Authorization::private_key`], for a key that is kept elsewhere. The signature has the form of RFC 7518.
        #[doc = $sign_with]
        #[must_use]
        pub fn sign_with(
            mut self,
            sign: impl FnMut(&[u8]) -> Result<Vec<u8>, ::std::io::Error> + Send + 'static,
        ) -> Self {
            self.settings.sign = Some(Box::new(sign));
            self
        }

        /// Changes the configuration of the machine, for settings without a method of their own.
        #[must_use]
        pub fn configure(mut self, change: impl FnOnce(&mut $crate::Config)) -> Self {
            change(&mut self.settings.config);
            self
        }

        /// The configuration.
        #[must_use]
        pub const fn config(&self) -> &$crate::Config {
            &self.settings.config
        }
    };
}
