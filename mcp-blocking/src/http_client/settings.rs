//! Headers and options that change while proxies use them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::UsageError;
use mcp_proto::client::HttpConfig;

use super::HttpOptions;

/// How a server over HTTP is reached, for any number of proxies ([`Proxy::http_with`](crate::Proxy::http_with)), which use a
/// change of the headers and options while they run. Clones are the same settings.
///
/// # Example: another key, for the sessions that are open
///
/// ```
/// use mcp_blocking::{HttpOptions, HttpSettings, Proxy};
/// use mcp_blocking::proto::client::HttpConfig;
/// use mcp_blocking::intermediary::relay::Config;
///
/// let with_key = |key: &str| {
///     let mut http = HttpConfig::new("https://example.com/mcp")?;
///     http.header("X-Api-Key", key)?;
///     Ok::<_, mcp_blocking::proto::UsageError>(http)
/// };
/// let settings = HttpSettings::new(with_key("first")?, HttpOptions::new());
/// let proxy = Proxy::http_with(&settings, Config::default())?;
/// settings.set(&with_key("second")?, HttpOptions::new())?;
/// let (http, _) = settings.current();
/// assert_eq!(http.server(), "https://example.com/mcp");
/// # Ok::<(), mcp_blocking::proto::UsageError>(())
/// ```
#[derive(Clone)]
pub struct HttpSettings(Arc<Shared>);

struct Shared {
    current: Mutex<(HttpConfig, HttpOptions)>,
    /// How often they were changed.
    changes: AtomicUsize,
}

impl HttpSettings {
    /// Settings for the server of `http`.
    #[must_use]
    pub fn new(http: HttpConfig, options: HttpOptions) -> Self {
        Self(Arc::new(Shared { current: Mutex::new((http, options)), changes: AtomicUsize::new(0) }))
    }

    /// Sends every request from now on with the headers of `http`, over new connections with these options. A proxy that runs
    /// uses them before its next request; nothing else of `http` is used. Responses that are being received stay on their
    /// connections.
    ///
    /// # Errors
    ///
    /// [`UsageError::AuthorizationHeader`] if only one of `http` and the current headers has an `Authorization` header. Then
    /// nothing has changed.
    pub fn set(&self, http: &HttpConfig, options: HttpOptions) -> Result<(), UsageError> {
        let mut current = self.lock();
        current.0.set_headers(http)?;
        current.1 = options;
        self.0.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The current configuration and options.
    #[must_use]
    pub fn current(&self) -> (HttpConfig, HttpOptions) {
        self.lock().clone()
    }

    /// How often they were changed, to compare it with an earlier number.
    pub(crate) fn changes(&self) -> usize {
        self.0.changes.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, (HttpConfig, HttpOptions)> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

mcp_application::opaque_debug!(HttpSettings);
