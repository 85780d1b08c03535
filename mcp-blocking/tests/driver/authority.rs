//! Certificates for the tests, and servers that use them, for the tests of both drivers.

use std::net::TcpStream;
use std::sync::Arc;

use mcp_testkit::loopback_server::{Duplex, LoopbackServer, mcp_server};
use mcp_testkit::messages::result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A certificate authority for tests.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM and as DER.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    der: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Identity { certificate: certificate.pem(), key: key.serialize_pem(), der: (certificate.der().clone(), der) }
    }
}

/// A self-signed certificate of a server, with or without the CA flag.
pub(crate) fn self_signed(is_authority: bool) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = if is_authority { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
    let certificate = params.self_signed(&key).unwrap();
    let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Identity { certificate: certificate.pem(), key: key.serialize_pem(), der: (certificate.der().clone(), der) }
}

/// A server with a certificate of `authority`. If `is_mutual`, it requires client certificates of the same authority.
pub(crate) fn server(authority: &Authority, is_mutual: bool) -> LoopbackServer {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = if is_mutual {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    serve(builder, authority.issue("localhost"))
}

/// A server with this certificate.
pub(crate) fn server_with(identity: Identity) -> LoopbackServer {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    serve(builder.with_no_client_auth(), identity)
}

fn serve(builder: ConfigBuilder<ServerConfig, WantsServerCert>, identity: Identity) -> LoopbackServer {
    let (certificate, key) = identity.der;
    let config = Arc::new(builder.with_single_cert(vec![certificate], key).unwrap());
    let wrap = move |stream: TcpStream| {
        let connection = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        Ok(Box::new(StreamOwned::new(connection, stream)) as Box<dyn Duplex>)
    };
    LoopbackServer::start_with(
        wrap,
        mcp_server(|asked, connection| connection.json(result(&asked.id, r#"{"tools":[]}"#))),
    )
}

pub(crate) fn url(server: &LoopbackServer) -> String {
    format!("https://localhost:{}/mcp", server.authority.rsplit(':').next().unwrap())
}
