//! Authorities whose certificates are trusted.

use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{Error, Result};
use crate::store::read_bounded;

/// The host's authorities, as distributions keep them.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Largest file of certificates.
const LIMIT: u64 = 16 << 20;

/// Settings of TLS: the host's authorities and those of the files.
pub(super) fn settings(files: &[PathBuf]) -> Result<TlsConfig> {
    let variable = std::env::var_os("SSL_CERT_FILE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let bundle = variable.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()));
    let mut roots = Vec::new();
    for file in bundle.iter().chain(files) {
        roots.extend(certificates(file)?);
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build())
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>> {
    let bytes = read_bounded(file, LIMIT)?;
    let items = parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    let found: std::result::Result<Vec<_>, _> = items.collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error::new(file.display(), "no certificate is in it", "name a file in PEM format")),
        Err(error) => Err(Error::new(file.display(), error, "name a file of certificates in PEM format")),
    }
}
