//! What the driver knows of a request besides its head.

use std::fmt;
use std::fmt::Write;

/// Who sends a request, as far as whoever checked it says. Sessions belong to the principal that opened them (SE-02).
#[derive(Clone, PartialEq, Eq)]
pub struct Principal(Box<str>);

impl Principal {
    /// A principal of this name, such as an issuer and a subject.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Shows that there is one.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Principal")
    }
}

/// What the driver knows of a request besides its head.
#[derive(Clone)]
pub struct Arrival {
    /// Who sends it, if that was checked.
    pub principal: Option<Principal>,
    /// Random bytes from a secure source, new for each request. The ids of a session and of its events are made of
    /// them (SH-S-41).
    pub nonce: [u8; 32],
}

impl Arrival {
    pub(super) fn session_id(&self) -> Box<str> {
        let mut id = String::with_capacity(32);
        for byte in self.nonce.iter().take(16) {
            // Writing to a string does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        id.into()
    }

    /// Eight of the random bytes.
    pub(super) fn tag(&self, from: usize) -> u64 {
        self.nonce.iter().skip(from).take(8).fold(0, |tag, byte| (tag << 8) | u64::from(*byte))
    }
}

/// Shows nothing that could be guessed from.
impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("principal", &self.principal).finish_non_exhaustive()
    }
}
