//! Requests whose responses are read in full: those of a sign-in to authorization servers, and that for a server's card.

use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use mcp_auth::{AddressRefused, FetchFailure, Reach};
use mcp_proto::client::HttpConfig;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Agent, Error};

use super::address_cache::AddressCache;
use super::options::HttpOptions;

/// Sends a request, follows no redirect, and reads the body of the response up to `limit` bytes.
///
/// # Errors
///
/// There is no response, it is too large, or the host has an address that must not be reached.
pub(crate) fn fetch(
    options: &HttpOptions,
    request: Request<Bytes>,
    reach: Reach,
    limit: usize,
    timeout: Duration,
) -> Result<Response<Vec<u8>>, FetchFailure> {
    let mut options = options.clone().over_network();
    // An HTTP proxy would request any address.
    let server = reach.server_of(request.uri())?;
    // Each host may have another proxy.
    options.read_env(&server).map_err(|_| FetchFailure::Unreachable)?;
    let resolver = CheckedResolver { reach, system: DefaultResolver::default() };
    let agent = options.agent_with(resolver, None, options.needs_tls(request.uri()));
    exchange(&agent, request, limit, timeout)
}

/// Sends a request to the server for which these options are, as [`fetch`] does to any.
///
/// # Errors
///
/// The outer error if the environment sets an HTTP proxy that cannot be used; the inner one if there is no response, or
/// it is too large.
pub(crate) fn fetch_from_server(
    mut options: HttpOptions,
    server: &HttpConfig,
    request: Request<Bytes>,
    limit: usize,
    timeout: Duration,
) -> Result<Result<Response<Vec<u8>>, FetchFailure>, mcp_application::Error> {
    options.read_env(server).map_err(|error| mcp_application::Error::SetUp(error.into()))?;
    let agent = options.agent(&AddressCache::default(), options.needs_tls(request.uri()));
    Ok(exchange(&agent, request, limit, timeout))
}

fn exchange(
    agent: &Agent,
    request: Request<Bytes>,
    limit: usize,
    timeout: Duration,
) -> Result<Response<Vec<u8>>, FetchFailure> {
    let (parts, body) = request.into_parts();
    let response = if body.is_empty() {
        run(agent, Request::from_parts(parts, ()), timeout)
    } else {
        run(agent, Request::from_parts(parts, body.to_vec()), timeout)
    };
    let (head, body) = response.map_err(|error| failure(&error))?.into_parts();
    let mut read = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    body.into_reader().take(most).read_to_end(&mut read).map_err(|error| failure(&Error::from(error)))?;
    if read.len() > limit {
        return Err(FetchFailure::TooLarge);
    }
    Ok(Response::from_parts(head, read))
}

fn run(
    agent: &Agent,
    request: Request<impl ureq::AsSendBody>,
    timeout: Duration,
) -> Result<Response<ureq::Body>, Error> {
    let request = agent.configure_request(request).timeout_global(Some(timeout)).build();
    agent.run(request)
}

fn failure(error: &Error) -> FetchFailure {
    let cause = if let Error::Io(error) = error { error.get_ref() } else { None };
    if cause.is_some_and(<dyn std::error::Error + Send + Sync>::is::<AddressRefused>) {
        return FetchFailure::AddressRefused;
    }
    // A timeout while the body is read is wrapped in another error.
    let wrapped = cause.and_then(|cause| cause.downcast_ref());
    if matches!(error, Error::Timeout(_)) || matches!(wrapped, Some(Error::Timeout(_))) {
        FetchFailure::TimedOut
    } else {
        FetchFailure::Unreachable
    }
}

/// Resolves names, and leaves out addresses that the request must not reach (OA-N-02).
#[derive(Debug)]
struct CheckedResolver {
    reach: Reach,
    system: DefaultResolver,
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let addresses = self.system.resolve(uri, config, timeout)?;
        // With an HTTP proxy, these are the addresses of the proxy, which the user has chosen.
        if config.proxy().is_some() {
            return Ok(addresses);
        }
        let mut allowed = self.system.empty();
        for address in addresses.iter().filter(|address| self.reach.allows(address.ip())) {
            allowed.push(*address);
        }
        if allowed.is_empty() { Err(Error::Io(io::Error::other(AddressRefused))) } else { Ok(allowed) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use ::tests::urls::PROXIED_URLS;

    use super::*;

    /// What `fetch` makes of a server that writes this text, and keeps the connection open.
    fn fetched(text: &'static str, reach: Reach) -> Result<(u16, Vec<u8>), FetchFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            // Until the client closes the connection.
            let _ = stream.read(&mut head);
        });
        let request = Request::post(url).body(Bytes::from_static(b"a=b")).unwrap();
        let mut options = HttpOptions::new();
        options.no_proxy();
        let response = fetch(&options, request, reach, 10, Duration::from_millis(500))?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    #[test]
    fn au7_au18_a_response_is_read_in_full_or_not_at_all() {
        for (text, expected) in [
            ("HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nabc", Ok((400, b"abc".to_vec()))),
            ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", Ok((302, Vec::new()))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", Ok((200, b"0123456789".to_vec()))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a", Err(FetchFailure::TooLarge)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n01234", Err(FetchFailure::TimedOut)),
            ("HTTP/1.1 200 OK\r\nContent-Le", Err(FetchFailure::TimedOut)),
            ("nonsense\r\n\r\n", Err(FetchFailure::Unreachable)),
        ] {
            assert_eq!(fetched(text, Reach::Private), expected, "{text}");
        }
    }

    #[test]
    fn oa_n_02_with_a_proxy_addresses_in_any_spelling_are_checked_before_it_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        for (url, reach, is_refused) in PROXIED_URLS {
            let mut options = HttpOptions::new();
            options.proxy(&format!("http://{proxy}")).unwrap();
            let request = Request::get(url).body(Bytes::new()).unwrap();
            let outcome = fetch(&options, request, reach, 10, Duration::from_secs(10));
            assert_eq!(
                outcome.is_err_and(|error| error == FetchFailure::AddressRefused),
                is_refused,
                "{url} {reach:?}"
            );
        }
    }

    #[test]
    fn au17_oa_n_02_an_address_that_must_not_be_reached_is_not() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(fetched(text, Reach::Public), Err(FetchFailure::AddressRefused));
    }
}
