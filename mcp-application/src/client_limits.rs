//! The limits and times of clients and proxies that are the same in all drivers.

use std::time::Duration;

/// The longest timeout that is passed to a library: 30 years, which is longer than anything runs, and short enough to
/// be added to any moment of any clock.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// How long connecting to a server over HTTP may take by default: 10 s.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the first message of the client of a proxy waits for a stored token: 5 s. A message that is sent without it
/// meets a challenge, and waits for the sign-in then.
pub const STORED_TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The most changes that are queued for one subscription: 256. More are dropped and counted.
pub const MAX_CHANGES: usize = 256;

/// The most bytes of changes that are queued for one subscription: 4 MiB.
pub const MAX_CHANGE_BYTES: usize = 4 * 1024 * 1024;

/// How long a server in a child process may take to end once its stdin is closed, and again once it was asked to end:
/// 2 s.
///
/// Rules: ST-17, ST-18.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a peer on a byte stream may continue to write after it has closed its input: 2 s.
pub const CLOSED_INPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server on a byte stream may take to read the last lines: 1 s.
pub const STREAM_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the client of a proxy may take to read the last lines: 5 s.
pub const PROXY_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The same after the proxy was stopped: 1 s.
pub const URGENT_PROXY_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
