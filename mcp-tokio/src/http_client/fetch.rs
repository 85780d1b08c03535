//! Requests whose responses are read in full: those of a sign-in to authorization servers, and that for a server's card.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use mcp_application::Error;
use mcp_auth::{AddressRefused, FetchFailure, Reach};
use mcp_proto::client::HttpConfig;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::failure::{causes, in_words};
use super::{HttpClientError, HttpOptions, client_for, head, is_direct, without_interference};

/// Sends one request after the other.
pub(crate) struct Fetcher {
    /// For authorization servers that are reached without the proxies of the environment.
    direct: reqwest::Client,
    other: reqwest::Client,
    resolver: Arc<CheckedResolver>,
}

impl Fetcher {
    pub(crate) fn new(mut options: HttpOptions) -> Result<Self, HttpClientError> {
        let resolver = Arc::new(CheckedResolver::default());
        let build = |client| {
            without_interference(client)
                // Addresses are checked for each request, so no connection is used again.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::clone(&resolver))
                .build()
                .map_err(|error| HttpClientError(in_words(&error)))
        };
        let own = options.client.take().map(build).transpose()?;
        let (direct, other) = match own {
            Some(own) => (own.clone(), own),
            None => (build(options.default_client(true)?)?, build(options.default_client(false)?)?),
        };
        Ok(Self { direct, other, resolver })
    }

    /// Sends a request, follows no redirect, and reads the body of the response up to `limit` bytes (OA-N-01, OA-N-03).
    /// The future of an earlier call must have been dropped, or have ended.
    ///
    /// # Errors
    ///
    /// There is no response, it is too large, or the host has an address that must not be reached.
    pub(crate) async fn fetch(
        &self,
        request: Request<Bytes>,
        reach: Reach,
        limit: usize,
        time: Duration,
    ) -> Result<Response<Vec<u8>>, FetchFailure> {
        timeout(time, self.exchange(request, reach, limit)).await.unwrap_or(Err(FetchFailure::TimedOut))
    }

    async fn exchange(
        &self,
        request: Request<Bytes>,
        reach: Reach,
        limit: usize,
    ) -> Result<Response<Vec<u8>>, FetchFailure> {
        // An address is not resolved, and an HTTP proxy would request any.
        let server = reach.server_of(request.uri())?;
        let client = if is_direct(&server) { &self.direct } else { &self.other };
        let request = reqwest::Request::try_from(request).map_err(|_| FetchFailure::Unreachable)?;
        self.resolver.expect(request.url().host_str().unwrap_or_default(), reach);
        read_in_full(client, request, limit).await
    }
}

/// Sends a request to the server for which these options are, with the HTTP client of the connection to it: its names
/// are resolved as there, and any address may be reached, because the application has chosen the server.
///
/// # Errors
///
/// The outer error if the HTTP client cannot be set up; the inner one if there is no response, or it is too large.
pub(crate) async fn fetch_from_server(
    options: HttpOptions,
    server: &HttpConfig,
    request: Request<Bytes>,
    limit: usize,
    time: Duration,
) -> Result<Result<Response<Vec<u8>>, FetchFailure>, Error> {
    let client = client_for(options, server).map_err(|error| Error::SetUp(error.into()))?.client;
    let Ok(request) = reqwest::Request::try_from(request) else { return Ok(Err(FetchFailure::Unreachable)) };
    Ok(timeout(time, read_in_full(&client, request, limit)).await.unwrap_or(Err(FetchFailure::TimedOut)))
}

async fn read_in_full(
    client: &reqwest::Client,
    request: reqwest::Request,
    limit: usize,
) -> Result<Response<Vec<u8>>, FetchFailure> {
    let mut response = client.execute(request).await.map_err(|error| failure(&error))?;
    let head = head(&mut response);
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| failure(&error))? {
        if part.len() > limit.saturating_sub(body.len()) {
            return Err(FetchFailure::TooLarge);
        }
        body.extend_from_slice(&part);
    }
    Ok(Response::from_parts(head, body))
}

fn failure(error: &reqwest::Error) -> FetchFailure {
    if causes(error).any(<dyn std::error::Error>::is::<AddressRefused>) {
        FetchFailure::AddressRefused
    } else if error.is_timeout() {
        FetchFailure::TimedOut
    } else {
        FetchFailure::Unreachable
    }
}

/// Resolves names, and leaves out addresses that the current request must not reach (OA-N-02).
#[derive(Debug, Default)]
struct CheckedResolver(Mutex<Option<Target>>);

/// The host of the current request. Other names are those of HTTP proxies, which the user has chosen.
#[derive(Debug)]
struct Target {
    host: String,
    reach: Reach,
}

impl CheckedResolver {
    /// Sets the host of the current request.
    fn expect(&self, host: &str, reach: Reach) {
        let target = Target { host: host.to_owned(), reach };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    fn reach(&self, name: &str) -> Option<Reach> {
        let target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        target.as_ref().filter(|target| target.host.eq_ignore_ascii_case(name)).map(|target| target.reach)
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach(name.as_str());
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?;
            let is_allowed = |address: &SocketAddr| reach.is_none_or(|reach| reach.allows(address.ip()));
            let allowed: Vec<_> = found.filter(is_allowed).collect();
            if allowed.is_empty() {
                return Err(AddressRefused.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use ::tests::urls::PROXIED_URLS;

    use super::*;

    const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// A server that writes this text to each connection, and keeps it open; and its port.
    fn answering(text: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).unwrap();
                stream.write_all(text.as_bytes()).unwrap();
                // Until the client closes the connection.
                let _ = stream.read(&mut head);
            }
        });
        port
    }

    async fn fetched(fetcher: &Fetcher, url: &str, reach: Reach) -> Result<(u16, Vec<u8>), FetchFailure> {
        let request = Request::post(url).body(Bytes::from_static(b"a=b")).unwrap();
        let response = fetcher.fetch(request, reach, 10, Duration::from_millis(500)).await?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    fn direct() -> Fetcher {
        let mut options = HttpOptions::new();
        options.no_proxy();
        Fetcher::new(options).unwrap()
    }

    #[tokio::test]
    async fn au7_oa_n_03_a_response_is_read_in_full_or_not_at_all() {
        let fetcher = direct();
        for (text, expected) in [
            ("HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nabc", Ok((400, b"abc".to_vec()))),
            ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", Ok((302, Vec::new()))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", Ok((200, b"0123456789".to_vec()))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a", Err(FetchFailure::TooLarge)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n01234", Err(FetchFailure::TimedOut)),
            ("HTTP/1.1 200 OK\r\nContent-Le", Err(FetchFailure::TimedOut)),
            ("nonsense\r\n\r\n", Err(FetchFailure::Unreachable)),
        ] {
            let url = format!("http://127.0.0.1:{}/token", answering(text));
            assert_eq!(fetched(&fetcher, &url, Reach::Private).await, expected, "{text}");
        }
    }

    #[tokio::test]
    async fn au17_oa_n_02_an_address_that_must_not_be_reached_is_not() {
        let (fetcher, port) = (direct(), answering(EMPTY));
        let refused = Err(FetchFailure::AddressRefused);
        for (host, reach, expected) in [
            ("localhost", Reach::Private, Ok((200, Vec::new()))),
            ("localhost", Reach::Public, refused.clone()),
            ("LOCALHOST", Reach::Public, refused.clone()),
            ("127.0.0.1", Reach::Public, refused.clone()),
            ("0x7f.1", Reach::Public, refused.clone()),
            ("127.1", Reach::Public, refused.clone()),
            ("a.localhost", Reach::Public, refused.clone()),
            ("127.0.0.1.", Reach::Public, refused.clone()),
            ("[::ffff:127.0.0.1]", Reach::Public, refused.clone()),
            ("169.254.169.254", Reach::Private, refused),
        ] {
            assert_eq!(fetched(&fetcher, &format!("http://{host}:{port}/"), reach).await, expected, "{host}");
        }
    }

    #[tokio::test]
    async fn oa_n_02_with_a_proxy_addresses_in_any_spelling_are_checked_before_it_is_asked() {
        let proxy = reqwest::Proxy::all(format!("http://127.0.0.1:{}", answering(EMPTY))).unwrap();
        let client = reqwest::Client::builder().proxy(proxy);
        let fetcher = Fetcher::new(HttpOptions::new().client(client)).unwrap();
        for (url, reach, is_refused) in PROXIED_URLS {
            let outcome = fetched(&fetcher, url, reach).await;
            assert_eq!(
                outcome.is_err_and(|error| error == FetchFailure::AddressRefused),
                is_refused,
                "{url} {reach:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_http_proxy_may_have_any_address() {
        let proxy = reqwest::Proxy::all(format!("http://localhost:{}", answering(EMPTY))).unwrap();
        let client = reqwest::Client::builder().proxy(proxy);
        let fetcher = Fetcher::new(HttpOptions::new().client(client)).unwrap();
        let outcome = fetched(&fetcher, "http://as.example/token", Reach::Public).await;
        assert_eq!(outcome, Ok((200, Vec::new())));
    }
}
