//! The certificate authorities that are trusted.

use std::env;
use std::sync::{Arc, OnceLock};

use rustls_native_certs::load_native_certs;
use rustls_pki_types::CertificateDer;
use ureq::tls::{Certificate, RootCerts};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

use crate::platform::HAS_ALL_AUTHORITIES;

/// The certificate authorities of a client. They are read when they are needed first.
#[derive(Clone, Default)]
pub(super) struct Roots {
    own: Vec<Certificate<'static>>,
    /// No others than its own are trusted.
    is_only: bool,
    all: Arc<OnceLock<Arc<Vec<Certificate<'static>>>>>,
}

impl Roots {
    /// Trusts only these authorities.
    pub(super) fn only(own: Vec<Certificate<'static>>) -> Self {
        Self { own, is_only: true, all: Arc::default() }
    }

    /// Trusts these authorities, too.
    pub(super) fn add(&mut self, certificates: Vec<Certificate<'static>>) {
        self.own.extend(certificates);
        self.all = Arc::default();
    }

    /// Whether the certificates have been needed.
    #[cfg(test)]
    pub(super) fn are_read(&self) -> bool {
        self.all.get().is_some()
    }

    pub(super) fn certificates(&self) -> RootCerts {
        let all = self.all.get_or_init(|| {
            let others = if self.is_only { &[] } else { of_system() };
            let others = others.iter().map(|certificate| Certificate::from_der(certificate));
            Arc::new(self.own.iter().cloned().chain(others).collect())
        });
        RootCerts::Specific(Arc::clone(all))
    }
}

/// The authorities of the operating system, which `SSL_CERT_FILE` and `SSL_CERT_DIR` replace; those of Mozilla's list if
/// there are none, and besides them if the system may not have all yet.
fn of_system() -> &'static [CertificateDer<'static>] {
    static SYSTEM: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| {
        let found = load_native_certs();
        for error in &found.errors {
            log::warn!("certificates of the operating system: {error}");
        }
        if found.certs.is_empty() {
            log::info!("the operating system has no certificates of authorities; Mozilla's list is used");
        }
        let mut system = found.certs;
        let is_replaced = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|name| env::var_os(name).is_some());
        if !HAS_ALL_AUTHORITIES && !is_replaced {
            system.extend_from_slice(TLS_SERVER_ROOT_CERTS);
        }
        system
    });
    if system.is_empty() { TLS_SERVER_ROOT_CERTS } else { system }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_of_the_system_are_those_that_it_may_have_later_too() {
        let system = of_system();
        assert!(!system.is_empty());
        let has_all = TLS_SERVER_ROOT_CERTS.iter().all(|authority| system.contains(authority));
        assert!(has_all || HAS_ALL_AUTHORITIES || env::var_os("SSL_CERT_FILE").is_some());
    }
}
