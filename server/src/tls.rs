//! TLS for addresses that others can reach.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Reads a certificate with those that lead to a known authority, and its key (PEM).
///
/// # Errors
///
/// A file can't be read, or the two do not fit together.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| {
            format!(
                "--tls-cert {}: {error}; it needs a certificate in PEM",
                certificate.display()
            )
        })?;
    if chain.is_empty() {
        return Err(format!(
            "--tls-cert {}: the file has no certificate; it needs one in PEM",
            certificate.display()
        ));
    }
    let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        format!(
            "--tls-key {}: {error}; it needs the certificate's key in PEM",
            key.display()
        )
    })?;
    // ureq has the same provider.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, key_of));
    let mut config = config.map_err(|error| {
        format!(
            "--tls-cert {} and --tls-key {}: {error}",
            certificate.display(),
            key.display()
        )
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
