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
        let is_replaced = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|name| env::var_os(name).is_some());
        completed(found.certs, HAS_ALL_AUTHORITIES || is_replaced)
    });
    if system.is_empty() { TLS_SERVER_ROOT_CERTS } else { system }
}

/// What was found, with Mozilla's list besides it unless these are all.
fn completed(mut found: Vec<CertificateDer<'static>>, are_all: bool) -> Vec<CertificateDer<'static>> {
    if !are_all {
        found.extend_from_slice(TLS_SERVER_ROOT_CERTS);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mozillas_authorities_are_trusted_besides_a_store_that_may_lack_some() {
        let own = CertificateDer::from(vec![1, 2, 3]);
        assert_eq!(completed(vec![own.clone()], true), std::slice::from_ref(&own));
        let all = completed(vec![own.clone()], false);
        assert!(all.contains(&own) && TLS_SERVER_ROOT_CERTS.iter().all(|authority| all.contains(authority)));
    }
}
