//! Requests to one repository of a registry, with authentication and repetition.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use ureq::{Agent, Body, SendBody};

use super::Access;
use super::auth::{self, Challenge};
use super::credentials::{self, Credentials};
use super::roots;
use crate::error::{Error, Result, excerpt};
use crate::reference::{DEFAULT_HOST, Reference};

/// Attempts at a request that fails for a reason that may pass.
pub(super) const ATTEMPTS: u32 = 5;
/// Time to connect, and between two pieces of an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest answer of a server of tokens, and of an error.
const SMALL: u64 = 64 << 10;
/// The programs that Hull is for servers.
const AGENT: &str = concat!("hull/", env!("CARGO_PKG_VERSION"));

/// A repository of a registry.
pub(super) struct Client {
    agent: Agent,
    /// `https://host`.
    base: String,
    /// The repository's path.
    pub path: String,
    /// The registry's name in messages.
    pub host: String,
    credentials: Option<Credentials>,
    /// The header that the registry accepted last.
    authorization: Mutex<Option<String>>,
}

/// A request that can be repeated.
pub(super) struct Call<'a> {
    pub method: Method,
    /// An address, or a path after `/v2/PATH/`.
    pub to: &'a str,
    pub headers: &'a [(header::HeaderName, String)],
}

/// Reasons of a failed request.
pub(super) enum Failure {
    /// The registry refuses; repeating does not help.
    Refused(StatusCode, Error),
    /// It may succeed later, perhaps after the time that the registry names.
    Passing(Error, Option<Duration>),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(_, error) | Failure::Passing(error, _) => error,
        }
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    code: Option<String>,
    message: Option<String>,
}

impl Client {
    /// A client for the repository of an image. A registry on this machine without certificates in the options or the
    /// configuration is asked whether it speaks TLS, as docker does; else nothing is sent yet.
    pub fn new(name: &Reference, access: &Access) -> Result<Self> {
        let host = name.host();
        if access.insecure && !is_loopback(host) {
            let why = "--insecure is for registries on this machine only";
            return Err(Error::new(host, why, "leave it out, and trust its authority with --tls-ca FILE"));
        }
        let server = if host == DEFAULT_HOST { "registry-1.docker.io" } else { host };
        let files: Vec<_> = access.authorities.iter().cloned().chain(credentials::certificates(host)).collect();
        let (mut plain, mut agent) = (access.insecure, agent(access.insecure, &files)?);
        if !plain && files.is_empty() && is_loopback(host) {
            let asked = agent.get(format!("https://{server}/v2/")).call();
            plain = asked.is_err_and(|error| is_no_tls(&error));
            if plain {
                agent = self::agent(true, &files)?;
            }
        }
        Ok(Self {
            agent,
            base: format!("{}://{server}", if plain { "http" } else { "https" }),
            path: name.path().to_owned(),
            host: host.to_owned(),
            credentials: credentials::find(host, name.path())?,
            authorization: Mutex::new(None),
        })
    }

    /// Sends a request without a body, with repetition; fails unless the status is a success or one of `others`.
    pub fn call(&self, call: &Call<'_>, others: &[StatusCode]) -> Result<Response<Body>> {
        let mut attempt = 0;
        loop {
            match self.once(call, &mut || Ok(SendBody::none())) {
                Err(Failure::Passing(..)) if attempt + 1 < ATTEMPTS => {}
                Err(Failure::Refused(status, error)) if others.contains(&status) => {
                    // The caller needs the status only.
                    let mut response = Response::new(Body::builder().data(""));
                    *response.status_mut() = status;
                    drop(error);
                    return Ok(response);
                }
                result => return result.map_err(Error::from),
            }
            attempt += 1;
            pause(attempt, None);
        }
    }

    /// Sends a request once, and again after the registry asked for authentication. `body` gives the body each time.
    pub fn once(
        &self,
        call: &Call<'_>,
        body: &mut dyn FnMut() -> Result<SendBody<'static>>,
    ) -> std::result::Result<Response<Body>, Failure> {
        let address = if call.to.starts_with("http://") || call.to.starts_with("https://") {
            call.to.to_owned()
        } else {
            format!("{}/v2/{}/{}", self.base, self.path, call.to)
        };
        let is_own = address.starts_with(&format!("{}/", self.base));
        let mut is_repeated = false;
        loop {
            let mut request = Request::builder().method(call.method.clone()).uri(&address);
            for (name, value) in call.headers {
                request = request.header(name, value);
            }
            let sent = self.authorization.lock().ok().and_then(|held| held.clone()).filter(|_| is_own);
            if let Some(authorization) = &sent {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let body = body().map_err(|error| Failure::Passing(error, None))?;
            let request =
                request.body(body).map_err(|error| self.refused(StatusCode::BAD_REQUEST, &error.to_string()))?;
            let response = self.agent.run(request).map_err(|error| self.failed(&error))?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && is_own && !is_repeated {
                is_repeated = true;
                let header = self.answer(&response)?;
                if let Ok(mut held) = self.authorization.lock() {
                    *held = Some(header);
                }
                continue;
            }
            if status.is_success() || status.is_redirection() {
                return Ok(response);
            }
            return Err(self.status(response));
        }
    }

    /// The header that answers a challenge.
    fn answer(&self, response: &Response<Body>) -> std::result::Result<String, Failure> {
        let headers = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenges: Vec<Challenge> = headers.iter().filter_map(|value| auth::parse(value.to_str().ok()?)).collect();
        for challenge in challenges {
            match (challenge, &self.credentials) {
                (Challenge::Basic, Some(Credentials::Password { user, password })) => {
                    return Ok(Credentials::basic(user, password));
                }
                (Challenge::Bearer { realm, service, scope }, _) => return self.token(&realm, service, scope),
                (Challenge::Basic, _) => {}
            }
        }
        Err(self.refused(StatusCode::UNAUTHORIZED, "it asks for a name and a password"))
    }

    /// Fetches a token.
    fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
    ) -> std::result::Result<String, Failure> {
        if !realm.starts_with("https://") && self.base.starts_with("https://") {
            return Err(self.refused(StatusCode::UNAUTHORIZED, "its server of tokens is not reached by https"));
        }
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(service.map(|service| ("service", service)));
        // A scope is a list separated by spaces.
        pairs.extend(scope.iter().flat_map(|scope| scope.split(' ')).map(|scope| ("scope", scope.to_owned())));
        let response = match &self.credentials {
            Some(Credentials::Identity(identity)) => {
                let mut pairs = pairs;
                pairs.extend([
                    ("grant_type", "refresh_token".to_owned()),
                    ("refresh_token", identity.clone()),
                    ("client_id", "hull".to_owned()),
                ]);
                self.agent.post(realm).send_form(pairs)
            }
            Some(Credentials::Password { user, password }) => {
                let header = Credentials::basic(user, password);
                self.agent.get(realm).query_pairs(pairs).header(header::AUTHORIZATION, header).call()
            }
            None => self.agent.get(realm).query_pairs(pairs).call(),
        };
        let mut response = response.map_err(|error| self.failed(&error))?;
        if !response.status().is_success() {
            return Err(self.status(response));
        }
        let bytes = read(&mut response, SMALL).map_err(|error| self.failed(&error))?;
        let token = serde_json::from_slice::<Token>(&bytes).ok().and_then(|token| token.token.or(token.access_token));
        let token = token.filter(|token| HeaderValue::from_str(token).is_ok());
        let token = token.ok_or_else(|| self.refused(StatusCode::UNAUTHORIZED, "its server of tokens sent none"))?;
        Ok(format!("Bearer {token}"))
    }

    /// The failure of an answer's status.
    fn status(&self, mut response: Response<Body>) -> Failure {
        let status = response.status();
        let text = read(&mut response, SMALL).ok().and_then(|bytes| serde_json::from_slice::<Errors>(&bytes).ok());
        let reason = text.and_then(|errors| errors.errors.into_iter().next());
        let reason = reason.and_then(|reason| reason.message.filter(|text| !text.is_empty()).or(reason.code));
        let why = match reason {
            Some(reason) => format!("{} ({})", excerpt(&reason), status.as_u16()),
            None => format!("status {status}"),
        };
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            let seconds =
                response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            let error = Error::new(&self.host, why, "try again later");
            return Failure::Passing(error, seconds.map(Duration::from_secs));
        }
        self.refused(status, &why)
    }

    fn refused(&self, status: StatusCode, why: &str) -> Failure {
        let remedy = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                format!("log in with docker login {}, or check the name", self.host)
            }
            StatusCode::NOT_FOUND => "check the name and the tag".to_owned(),
            _ => "check the name, and the registry".to_owned(),
        };
        Failure::Refused(status, Error::new(format!("{}/{}", self.host, self.path), why, remedy))
    }

    /// The failure of a connection.
    pub fn failed(&self, error: &ureq::Error) -> Failure {
        let remedy = match error {
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => "trust its authority with --tls-ca FILE",
            ureq::Error::Io(error) if error.to_string().contains("certificate") => {
                "trust its authority with --tls-ca FILE"
            }
            ureq::Error::RequireHttpsOnly(_) => "the registry must use https",
            error if is_no_tls(error) => "the registry must use https",
            ureq::Error::HostNotFound => "check the host's name and the network",
            _ => "check the name, the network and the registry",
        };
        let error_text = match error {
            ureq::Error::Io(error) => crate::error::reason(error),
            error => error.to_string(),
        };
        let is_passing = matches!(
            error,
            ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::Protocol(_) | ureq::Error::ConnectionFailed
        ) && !remedy.contains("--tls-ca")
            && !error_text.contains("refused")
            && !is_no_tls(error);
        let failure = Error::new(&self.host, excerpt(&error_text), remedy);
        if is_passing { Failure::Passing(failure, None) } else { Failure::Refused(StatusCode::BAD_GATEWAY, failure) }
    }

    /// Makes an address of a `Location` absolute.
    pub fn absolute(&self, location: &str) -> String {
        if location.starts_with('/') { format!("{}{location}", self.base) } else { location.to_owned() }
    }
}

/// What sends requests: over plain HTTP, or over TLS with the authorities of the host and of the files.
fn agent(plain: bool, files: &[PathBuf]) -> Result<Agent> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .https_only(!plain)
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .user_agent(AGENT)
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .timeout_per_read(Some(PATIENCE));
    if !plain {
        config = config.tls_config(roots::settings(files)?);
    }
    Ok(config.build().new_agent())
}

/// Whether a server answered a TLS handshake with something else, as one that speaks plain HTTP does.
fn is_no_tls(error: &ureq::Error) -> bool {
    // The text is that of rustls; its error type is not part of ureq's interface.
    matches!(error, ureq::Error::Io(error) if error.to_string().contains("corrupt message"))
}

/// Reads an answer of at most `limit` bytes.
pub(super) fn read(response: &mut Response<Body>, limit: u64) -> std::result::Result<Vec<u8>, ureq::Error> {
    let mut bytes = Vec::new();
    response.body_mut().with_config().limit(u64::MAX).reader().take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ureq::Error::Io(std::io::Error::other(format!("an answer of more than {limit} bytes"))));
    }
    Ok(bytes)
}

/// Waits before an attempt.
pub(super) fn pause(attempt: u32, wanted: Option<Duration>) {
    let own = Duration::from_millis(100 << attempt.min(6));
    std::thread::sleep(wanted.unwrap_or(own).min(Duration::from_secs(30)));
}

/// Whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.org", "localhost.example.org:5000", "128.0.0.1", "[::2]:5000", "127.0.0.1.example.org"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
