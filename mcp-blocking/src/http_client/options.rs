//! The configuration of an agent: certificates, proxies and timeouts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use mcp_application::{CONNECT_TIMEOUT, LONGEST_TIMEOUT, ProxyExceptions};
use mcp_proto::UsageError;
use mcp_proto::client::HttpConfig;
use mcp_proto::url::InvalidUrl;
use rustls::crypto::ring::default_provider;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::Resolver;
use ureq::{Agent, Proxy, ProxyProtocol};

use super::address_cache::{AddressCache, NoLookup};
use super::connection::connector;
use super::local_server::LocalServer;
use super::roots::Roots;

/// The maximum number of bytes in the head of a response (HT12).
const HEADER_ROOM: usize = 32 * 1024;

/// Options of the HTTP client: timeouts, certificates and proxy. The number of its threads is
/// [`Limits::exchanges`](mcp_proto::Limits::exchanges).
///
/// # Certificates
///
/// The certificate authorities of the operating system are trusted, or instead of them those in the file of
/// `SSL_CERT_FILE` and the folder of `SSL_CERT_DIR`; if there are none, those of Mozilla's list, which is a part of the
/// program. [`HttpOptions::trust`] adds authorities, [`HttpOptions::trust_only`] replaces all of them.
///
/// # HTTP proxies
///
/// By default, the environment sets the proxy: `HTTPS_PROXY` for servers at `https` URLs, `HTTP_PROXY` for `http`,
/// `ALL_PROXY` for both; the names in lower case are read first. The hosts listed in `NO_PROXY`
/// ([`ProxyExceptions`]) are reached directly, and so are servers on this machine. [`HttpOptions::proxy`] sets another proxy, [`HttpOptions::no_proxy`] none.
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
    /// How long resolving the server's name may take, and how long connecting to it may take. Default 10 s each.
    pub connect_timeout: Duration,
    /// How long the server may take to read the head of a request, and how long to read its body. Default 60 s each.
    pub send_timeout: Duration,
    /// The header `User-Agent` of every request.
    pub user_agent: String,
    roots: Roots,
    client_certificate: Option<ClientCert>,
    route: Route,
}

/// How a server is reached.
#[derive(Clone)]
enum Route {
    /// Through the proxy that the environment sets for the server, if any. The variables were not read yet.
    FromEnv,
    Direct,
    Proxy(Proxy),
    /// To a server of this machine.
    Local(LocalServer),
}

impl HttpOptions {
    /// Creates options that trust the certificate authorities of the operating system, and use the proxy from the
    /// environment, except for servers on this machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            send_timeout: Duration::from_secs(60),
            user_agent: concat!("mcp-blocking/", env!("CARGO_PKG_VERSION")).to_owned(),
            roots: Roots::default(),
            client_certificate: None,
            route: Route::FromEnv,
        }
    }

    /// Trusts the certificate authorities in this PEM text, too.
    ///
    /// # Errors
    ///
    /// [`OptionsError::NoCertificate`] if the text contains none.
    pub fn trust(&mut self, pem: &[u8]) -> Result<(), OptionsError> {
        self.roots.add(certificates(pem)?);
        Ok(())
    }

    /// Trusts the certificate authorities in this PEM text, and no others.
    ///
    /// # Errors
    ///
    /// As [`HttpOptions::trust`].
    pub fn trust_only(&mut self, pem: &[u8]) -> Result<(), OptionsError> {
        self.roots = Roots::only(certificates(pem)?);
        Ok(())
    }

    /// Sets the TLS client certificate and its private key; both are PEM texts.
    ///
    /// # Errors
    ///
    /// [`OptionsError::NoCertificate`] or [`OptionsError::NoKey`] if a text contains none.
    pub fn identify(&mut self, certificate: &[u8], key: &[u8]) -> Result<(), OptionsError> {
        let chain = certificates(certificate)?;
        let key = PrivateKey::from_pem(key).map_err(|_| OptionsError::NoKey)?;
        self.client_certificate = Some(ClientCert::new_with_certs(&chain, key));
        Ok(())
    }

    /// Reaches servers through this HTTP proxy, by `CONNECT`: `http://user:password@host:port`. The scheme may be
    /// omitted if there is a port.
    ///
    /// # Errors
    ///
    /// [`OptionsError::Proxy`] states what is wrong with the URL.
    pub fn proxy(&mut self, url: &str) -> Result<(), OptionsError> {
        self.route = Route::Proxy(parse_proxy(url).map_err(OptionsError::Proxy)?);
        Ok(())
    }

    /// Reaches servers without an HTTP proxy, whatever the environment sets.
    pub fn no_proxy(&mut self) {
        self.route = Route::Direct;
    }

    /// Reaches the server by HTTP/1.1 over the Unix socket at this path, whatever the host and port of its URL are: use
    /// `http://localhost/mcp`, since servers usually accept only requests for their own machine. Authorization servers are
    /// reached over the network.
    ///
    /// On systems without Unix sockets, connecting fails.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_blocking::{Client, HttpOptions};
    ///
    /// let mut options = HttpOptions::new();
    /// options.unix_socket("/run/user/1000/mcp.sock");
    /// let client = Client::builder().http("http://localhost/mcp")?.http_options(options).connect()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unix_socket(&mut self, path: impl Into<PathBuf>) {
        self.route = Route::Local(LocalServer::unix_socket(path.into(), None));
    }

    /// As [`HttpOptions::unix_socket`], for a server that is started on demand. When nothing accepts connections at the
    /// path, `start` is called, on the thread of the request that needs the connection, and then it is connected to once
    /// more. Several threads may call it at the same time. It must return within the time that a connection may take, since
    /// it is not interrupted.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::{Client, HttpOptions};
    ///
    /// let mut options = HttpOptions::new();
    /// options.unix_socket_of("/no/such/folder/mcp.sock", || Err(std::io::Error::other("the server is not installed")));
    /// let client = Client::builder().http("http://localhost/mcp")?.http_options(options).connect();
    /// # #[cfg(unix)]
    /// assert!(client.unwrap_err().to_string().contains("the server is not installed"));
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    pub fn unix_socket_of(
        &mut self,
        path: impl Into<PathBuf>,
        start: impl Fn() -> std::io::Result<()> + Send + Sync + 'static,
    ) {
        self.route = Route::Local(LocalServer::unix_socket(path.into(), Some(Arc::new(start))));
    }

    /// Reaches the server by HTTP/1.1 at the [`PrivatePort`](crate::PrivatePort) of this file, whatever the host and port of its
    /// URL are: use `http://localhost/mcp`. Authorization servers are reached over the network.
    ///
    /// When there is no file, when it names no port, or when the program at this port does not prove that it knows the file,
    /// `start` is called, on the thread of the request that needs the connection, and then it is connected to once more. Several
    /// threads may call it at the same time. It must itself find out whether a server runs that is only busy. It should return
    /// within the time that a connection may take, since it is not interrupted.
    pub fn private_port_of(
        &mut self,
        file: impl Into<PathBuf>,
        start: impl Fn() -> std::io::Result<()> + Send + Sync + 'static,
    ) {
        self.route = Route::Local(LocalServer::private_port(file.into(), Arc::new(start)));
    }

    /// The same options for a server that is not the one of this machine, if one is set.
    pub(super) fn over_network(mut self) -> Self {
        if let Route::Local(_) = self.route {
            self.route = Route::FromEnv;
        }
        self
    }

    /// Reads the variables of the environment that set the proxy for this server, unless [`HttpOptions::proxy`] or
    /// [`HttpOptions::no_proxy`] was called. The options are then for this server only. Without this call, the
    /// variables are read when the client connects or the [`Proxy`](crate::Proxy) runs.
    ///
    /// # Errors
    ///
    /// [`OptionsError::ProxyVariable`] contains the name of a variable whose value cannot be used.
    pub fn read_env(&mut self, server: &HttpConfig) -> Result<(), OptionsError> {
        if let Route::FromEnv = self.route {
            self.route = proxy_from_env(server)?.map_or(Route::Direct, Route::Proxy);
        }
        Ok(())
    }

    /// The password of the proxy, so that it can be removed from logs and recordings; `None` before
    /// [`HttpOptions::read_env`] if the environment sets the proxy.
    #[must_use]
    pub fn proxy_password(&self) -> Option<&str> {
        self.fixed_proxy()?.password()
    }

    fn fixed_proxy(&self) -> Option<&Proxy> {
        match &self.route {
            Route::Proxy(proxy) => Some(proxy),
            Route::FromEnv | Route::Direct | Route::Local(_) => None,
        }
    }

    /// Whether a request to this URI is sent over TLS, to the server or to the HTTP proxy. The certificates of the operating
    /// system are some hundred files, which are not read for anything else.
    pub(super) fn needs_tls(&self, uri: &Uri) -> bool {
        let has_tls_proxy = || self.fixed_proxy().is_some_and(|proxy| proxy.protocol() == ProxyProtocol::Https);
        uri.scheme() == Some(&Scheme::HTTPS) || has_tls_proxy()
    }

    /// An agent whose connections go to the server. Only with `has_tls`, they may use TLS.
    pub(super) fn agent(&self, cache: &AddressCache, has_tls: bool) -> Agent {
        match &self.route {
            Route::Local(server) => self.agent_with(NoLookup, Some(server.clone()), has_tls),
            Route::FromEnv | Route::Direct | Route::Proxy(_) => self.agent_with(cache.clone(), None, has_tls),
        }
    }

    pub(super) fn agent_with(&self, resolver: impl Resolver, local: Option<LocalServer>, has_tls: bool) -> Agent {
        let roots = if has_tls { self.roots.certificates() } else { RootCerts::Specific(Arc::default()) };
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .root_certs(roots)
            .client_cert(self.client_certificate.clone())
            .build();
        // `ureq` adds these to the time, and panics if the sum is too large.
        let (connect, send) = (self.connect_timeout.min(LONGEST_TIMEOUT), self.send_timeout.min(LONGEST_TIMEOUT));
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(self.fixed_proxy().cloned())
            .user_agent(&self.user_agent)
            // The machine interprets status codes and decides about redirects.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(1)
            .max_response_header_size(HEADER_ROOM)
            // A head that exceeds the limit is detected only while the buffer has room for more.
            .input_buffer_size(HEADER_ROOM + 16 * 1024)
            .output_buffer_size(16 * 1024)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_send_request(Some(send))
            .timeout_send_body(Some(send))
            // The machine decides how long a response may take, and aborts the exchange after that.
            .timeout_recv_response(None)
            .timeout_recv_body(None)
            .build();
        Agent::with_parts(config, connector(local), resolver)
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Omits the URL of the proxy, which may contain a password.
impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromEnv => "as the environment sets it",
            Self::Direct => "direct",
            Self::Proxy(_) => "through a proxy",
            Self::Local(_) => "to a server of this machine",
        })
    }
}

/// Omits keys and passwords.
impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("send_timeout", &self.send_timeout)
            .field("client_certificate", &self.client_certificate.is_some())
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

/// The proxy that the environment sets for a server, if any.
fn proxy_from_env(server: &HttpConfig) -> Result<Option<Proxy>, OptionsError> {
    let of_scheme = if server.is_https() { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
    let value = |name: &'static str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let first = |names: &[&'static str]| names.iter().find_map(|name| value(name).map(|value| (*name, value)));
    let Some((variable, named)) = first(&of_scheme).or_else(|| first(&["all_proxy", "ALL_PROXY"])) else {
        return Ok(None);
    };
    if server.is_loopback() {
        return Ok(None);
    }
    let (_, listed) = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
    if ProxyExceptions::parse(&listed).contain_server_of(&server.uri()) {
        return Ok(None);
    }
    let proxy = parse_proxy(&named).map_err(|reason| OptionsError::ProxyVariable { variable, reason })?;
    Ok(Some(proxy))
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

/// Parses the URL of an HTTP proxy strictly, because `ureq` accepts nearly any text, and panics on a SOCKS proxy if it
/// was built without SOCKS.
fn parse_proxy(text: &str) -> Result<Proxy, InvalidProxy> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => ("http".to_owned(), text),
    };
    match &*scheme {
        "http" | "https" => {}
        _ if scheme.starts_with("socks") => return Err(InvalidProxy::Socks),
        _ => return Err(InvalidProxy::Scheme),
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (credentials, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    // Any other character, such as a slash, may end the authority for another parser (RFC 3986, section 3.2.1).
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:%".contains(&byte);
    if !credentials.bytes().all(may_stand) {
        return Err(InvalidProxy::Credentials);
    }
    if address.contains(['/', '?', '#']) {
        return Err(InvalidProxy::Path);
    }
    if let Err(UsageError::Endpoint(reason)) = HttpConfig::new(&format!("http://{address}")) {
        return Err(InvalidProxy::Url(reason));
    }
    let has_port = !address.ends_with(']') && address.contains(':');
    if !text.contains("://") && !has_port {
        return Err(InvalidProxy::Scheme);
    }
    // The remaining failures are credentials that are not UTF-8 once they are decoded.
    Proxy::new(&format!("{scheme}://{authority}")).map_err(|_| InvalidProxy::Credentials)
}

/// An option that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The PEM text contains no certificate.
    #[error("there is no PEM certificate in it")]
    NoCertificate,
    /// The PEM text contains no private key.
    #[error("there is no PEM private key in it")]
    NoKey,
    /// The URL of the proxy cannot be used.
    #[error("the URL of the HTTP proxy {0}")]
    Proxy(InvalidProxy),
    /// The environment sets a proxy that cannot be used.
    #[error(
        "the environment variable {variable} names an HTTP proxy whose URL {reason}; \
         to reach the server without a proxy, list its host in NO_PROXY"
    )]
    ProxyVariable {
        /// The name of the variable.
        variable: &'static str,
        /// What is wrong with its value.
        reason: InvalidProxy,
    },
}

/// Why a text is not a valid HTTP proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProxy {
    /// The URL is that of a SOCKS proxy.
    #[error("is one of a SOCKS proxy, which is not supported; use an HTTP proxy, such as http://host:port")]
    Socks,
    /// The URL has neither a supported scheme nor a port.
    #[error("must begin with http:// or https://, such as http://host:port")]
    Scheme,
    /// The URL has more than a host and a port.
    #[error("must end after the host and the port")]
    Path,
    /// The host or port cannot be used.
    #[error("{0}")]
    Url(InvalidUrl),
    /// The user name or password has characters that must be percent-encoded.
    #[error("has a user name or password with characters that must be percent-encoded")]
    Credentials,
}

#[cfg(test)]
mod tests {
    use ureq::tls::RootCerts;

    use super::*;

    #[test]
    fn only_an_http_proxy_is_taken_for_one() {
        for (text, expected) in [
            ("http://proxy.example:3128", Ok(("proxy.example", 3128))),
            ("HTTP://proxy.example:3128/", Ok(("proxy.example", 3128))),
            ("https://proxy.example", Ok(("proxy.example", 443))),
            ("http://user:p%40ss@proxy.example", Ok(("proxy.example", 80))),
            ("http://user:a/b@proxy.example", Err(InvalidProxy::Credentials)),
            ("proxy.example:3128", Ok(("proxy.example", 3128))),
            ("http://[::1]:3128", Ok(("[::1]", 3128))),
            ("nonsense", Err(InvalidProxy::Scheme)),
            ("[::1]", Err(InvalidProxy::Scheme)),
            ("", Err(InvalidProxy::Url(InvalidUrl::NoHost))),
            ("http://", Err(InvalidProxy::Url(InvalidUrl::NoHost))),
            ("not a url", Err(InvalidProxy::Url(InvalidUrl::Blank))),
            ("http://proxy.example:80800", Err(InvalidProxy::Url(InvalidUrl::Port))),
            ("proxy.example:", Err(InvalidProxy::Url(InvalidUrl::Port))),
            ("http://proxy.example/path", Err(InvalidProxy::Path)),
            ("http://proxy.example?x", Err(InvalidProxy::Path)),
            ("ftp://proxy.example:21", Err(InvalidProxy::Scheme)),
            ("socks5://127.0.0.1:1080", Err(InvalidProxy::Socks)),
            ("SOCKS5h://127.0.0.1:1080", Err(InvalidProxy::Socks)),
            ("socks4a://127.0.0.1", Err(InvalidProxy::Socks)),
            ("socks://127.0.0.1", Err(InvalidProxy::Socks)),
        ] {
            let proxy = parse_proxy(text);
            let found = proxy.as_ref().map(|proxy| (proxy.host(), proxy.port())).map_err(|reason| *reason);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_agent_has_the_settings_of_the_options_and_the_machine() {
        let mut options = HttpOptions::new();
        options.connect_timeout = Duration::from_secs(3);
        options.send_timeout = Duration::from_secs(4);
        options.proxy("http://user:secret@127.0.0.1:3128").unwrap();
        let agent = options.agent(&AddressCache::default(), false);
        let config = agent.config();
        let (connect, send) = (Some(options.connect_timeout), Some(options.send_timeout));
        let timeouts = config.timeouts();
        assert_eq!((timeouts.resolve, timeouts.connect), (connect, connect));
        assert_eq!((timeouts.send_request, timeouts.send_body), (send, send));
        assert_eq!((timeouts.recv_response, timeouts.recv_body, timeouts.global), (None, None, None));
        assert_eq!(config.max_response_header_size(), HEADER_ROOM);
        assert_eq!((config.input_buffer_size(), config.output_buffer_size()), (HEADER_ROOM + 16384, 16384));
        assert!(!config.http_status_as_error() && !config.max_redirects_will_error());
        assert_eq!((config.max_redirects(), config.max_idle_connections()), (0, 1));
        assert_eq!(config.proxy().map(Proxy::port), Some(3128));
        assert_eq!(options.proxy_password(), Some("secret"));
        let shown = format!("{options:?}");
        let expected = "HttpOptions { connect_timeout: 3s, send_timeout: 4s, client_certificate: false, route: through a proxy, .. }";
        assert_eq!(shown, expected);
        assert_eq!(HttpOptions::default().proxy_password(), None);
        // Neither a set proxy nor the choice of none depends on the environment.
        let server = HttpConfig::new("http://server.invalid/").unwrap();
        options.read_env(&server).unwrap();
        assert_eq!(options.proxy_password(), Some("secret"));
        options.no_proxy();
        options.read_env(&server).unwrap();
        assert!(options.fixed_proxy().is_none() && format!("{options:?}").contains("route: direct"));
        (options.connect_timeout, options.send_timeout) = (Duration::MAX, Duration::MAX);
        let timeouts = options.agent(&AddressCache::default(), false).config().timeouts();
        let longest = Some(LONGEST_TIMEOUT);
        assert_eq!((timeouts.resolve, timeouts.connect), (longest, longest));
        assert_eq!((timeouts.send_request, timeouts.send_body), (longest, longest));
    }

    #[test]
    fn certificates_are_read_for_connections_with_tls_only() {
        for (proxy, url, expected) in [
            (None, "http://server.invalid/mcp", false),
            (None, "https://server.invalid/mcp", true),
            (Some("http://proxy.invalid:3128"), "http://server.invalid/mcp", false),
            (Some("http://proxy.invalid:3128"), "https://server.invalid/mcp", true),
            (Some("https://proxy.invalid:3128"), "http://server.invalid/mcp", true),
        ] {
            let mut options = HttpOptions::new();
            if let Some(proxy) = proxy {
                options.proxy(proxy).unwrap();
            }
            let needs_tls = options.needs_tls(&url.parse().unwrap());
            assert_eq!(needs_tls, expected, "{proxy:?} {url}");
            options.agent(&AddressCache::default(), needs_tls);
            assert_eq!(options.roots.are_read(), expected, "{proxy:?} {url}");
        }
    }

    #[test]
    fn invalid_certificates_and_invalid_keys_are_different_errors() {
        let certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let mut options = HttpOptions::new();
        for nothing in [&b""[..], b"no PEM", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(options.trust(nothing), Err(OptionsError::NoCertificate));
            assert_eq!(options.identify(nothing, nothing), Err(OptionsError::NoCertificate));
        }
        assert_eq!(options.identify(certificate, certificate), Err(OptionsError::NoKey));
        assert!(options.client_certificate.is_none());
        let count = |options: &HttpOptions| {
            let RootCerts::Specific(trusted) = options.roots.certificates() else { panic!("certificates") };
            trusted.len()
        };
        let before = count(&options);
        assert!(before > 0, "those of the system, or of the list");
        options.trust(&certificate.repeat(2)).unwrap();
        options.trust(certificate).unwrap();
        assert_eq!(count(&options), before + 3);
        options.trust_only(certificate).unwrap();
        assert_eq!(count(&options), 1);
    }
}
