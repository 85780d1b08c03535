//! What an agent is made of: certificates, proxies and timeouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Proxy};

use super::names::Names;

/// Bytes of the head of a response (HT12).
const HEADER_ROOM: usize = 32 * 1024;

/// How servers are reached.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use mcp_blocking::HttpOptions;
///
/// let mut options = HttpOptions::new();
/// options.connect_timeout = Duration::from_secs(3);
/// assert!(options.trust(b"no certificate").is_err());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// How long looking up the server's name and connecting to it may take, each. Default 10 s.
    pub connect_timeout: Duration,
    /// How long the server may take to read a request. Default 60 s.
    pub send_timeout: Duration,
    /// Threads, and so exchanges at one time; it takes the place of `Limits::exchanges`, where it is said how many of them
    /// carry requests. [`Limits::exchanges_for`](mcp_proto::Limits::exchanges_for) has the value for a number of requests.
    /// Default 64, which is 48 requests.
    pub max_workers: usize,
    /// `User-Agent` of every request.
    pub user_agent: String,
    roots: RootCerts,
    client_certificate: Option<ClientCert>,
    proxy: Option<Proxy>,
}

impl HttpOptions {
    /// Trusts the certificate authorities of Mozilla's list, and uses no proxy.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(60),
            max_workers: 64,
            user_agent: concat!("mcp-blocking/", env!("CARGO_PKG_VERSION")).to_owned(),
            roots: RootCerts::WebPki,
            client_certificate: None,
            proxy: None,
        }
    }

    /// Trusts the certificate authorities of this PEM text, and no others.
    ///
    /// # Errors
    ///
    /// [`OptionsError::NoCertificate`] if there is none in it.
    pub fn trust(&mut self, pem: &[u8]) -> Result<(), OptionsError> {
        let certificates = certificates(pem)?;
        self.roots = RootCerts::Specific(Arc::new(certificates));
        Ok(())
    }

    /// Shows the server this certificate, and proves with this key that it is ours; both are PEM texts.
    ///
    /// # Errors
    ///
    /// [`OptionsError::NoCertificate`] or [`OptionsError::NoKey`] if there is none in them.
    pub fn identify(&mut self, certificate: &[u8], key: &[u8]) -> Result<(), OptionsError> {
        let chain = certificates(certificate)?;
        let key = PrivateKey::from_pem(key).map_err(|_| OptionsError::NoKey)?;
        self.client_certificate = Some(ClientCert::new_with_certs(&chain, key));
        Ok(())
    }

    /// Reaches servers through this HTTP proxy.
    ///
    /// # Errors
    ///
    /// [`OptionsError::Proxy`] if the URL is none.
    pub fn proxy(&mut self, url: &str) -> Result<(), OptionsError> {
        self.proxy = Some(Proxy::new(url).map_err(|_| OptionsError::Proxy)?);
        Ok(())
    }

    /// Reaches the server at `url` through the proxy that the environment names for it, if it names one.
    ///
    /// `HTTPS_PROXY` is for `https`, `HTTP_PROXY` for `http`, `ALL_PROXY` for both; lower case counts too. `NO_PROXY`
    /// lists hosts that are reached directly, and so are this machine's own addresses.
    ///
    /// # Errors
    ///
    /// [`OptionsError::Proxy`] if the environment names something that is no URL.
    pub fn proxy_from_env(&mut self, url: &str) -> Result<(), OptionsError> {
        let variable = |name: &str| {
            [name.to_ascii_lowercase(), name.to_owned()]
                .into_iter()
                .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        };
        let scheme = if url.starts_with("https:") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let Some(named) = variable(scheme).or_else(|| variable("ALL_PROXY")) else { return Ok(()) };
        let named = Proxy::new(&named).map_err(|_| OptionsError::Proxy)?;
        let mut proxy = Proxy::builder(named.protocol()).host(named.host()).port(named.port());
        if let Some(username) = named.username() {
            proxy = proxy.username(username);
        }
        if let Some(password) = named.password() {
            proxy = proxy.password(password);
        }
        let listed = variable("NO_PROXY").unwrap_or_default();
        let direct = listed.split(',').map(str::trim).filter(|host| !host.is_empty());
        for host in direct.chain(["localhost", "127.0.0.1", "::1", "[::1]"]) {
            proxy = proxy.no_proxy(host);
        }
        self.proxy = Some(proxy.build().map_err(|_| OptionsError::Proxy)?);
        Ok(())
    }

    pub(super) fn agent(&self, names: &Names) -> Agent {
        let tls =
            TlsConfig::builder().root_certs(self.roots.clone()).client_cert(self.client_certificate.clone()).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(self.proxy.clone())
            .user_agent(&self.user_agent)
            // The machine decides what a status means and where a redirect may lead.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(1)
            .max_response_header_size(HEADER_ROOM)
            // A head that is too large is noticed while there is still room for more of it.
            .input_buffer_size(HEADER_ROOM + 16 * 1024)
            .output_buffer_size(16 * 1024)
            .timeout_resolve(Some(self.connect_timeout))
            .timeout_connect(Some(self.connect_timeout))
            .timeout_send_request(Some(self.send_timeout))
            .timeout_send_body(Some(self.send_timeout))
            // How long an answer may take is the machine's to say; it aborts what takes too long.
            .timeout_recv_response(None)
            .timeout_recv_body(None)
            .build();
        Agent::with_parts(config, DefaultConnector::default(), names.clone())
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Keys and passwords stay out of it.
impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("max_workers", &self.max_workers)
            .field("client_certificate", &self.client_certificate.is_some())
            .field("proxy", &self.proxy.is_some())
            .finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, OptionsError> {
    let found: Vec<_> = parse_pem(pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if found.is_empty() { Err(OptionsError::NoCertificate) } else { Ok(found) }
}

/// Options that cannot be worked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is no certificate in the PEM text.
    #[error("there is no PEM certificate in it")]
    NoCertificate,
    /// There is no private key in the PEM text.
    #[error("there is no PEM private key in it")]
    NoKey,
    /// The proxy is no URL that can be used.
    #[error("the proxy must be an http URL, such as http://user:password@host:port")]
    Proxy,
}
