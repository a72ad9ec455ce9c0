//! Names and passwords for registries, from docker's and podman's files and docker's helper programs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::error::{Error, Result, excerpt, reason};
use crate::reference::DEFAULT_HOST;
use crate::store::read_bounded;

/// Largest file of credentials, and largest answer of a helper.
const LIMIT: u64 = 1 << 20;
/// The key of docker's own registry.
const DOCKER_KEY: &str = "https://index.docker.io/v1/";
/// The user name that stands for an identity token.
const TOKEN: &str = "<token>";

/// What a registry accepts from this user.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    /// A name and a password.
    Password { user: String, password: String },
    /// A token that is exchanged for others.
    Identity(String),
}

impl Credentials {
    /// The header of basic authentication.
    pub fn basic(user: &str, password: &str) -> String {
        format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
    }
}

/// A file of credentials.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// The answer of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// The user's credentials for a registry.
pub(super) fn find(host: &str, path: &str) -> Result<Option<Credentials>> {
    for file in files() {
        if !file.is_file() {
            continue;
        }
        let bytes = read_bounded(&file, LIMIT)?;
        let parsed: File = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(
                file.display(),
                format!("no valid JSON: {error}"),
                "correct it, or log in again with docker login",
            )
        })?;
        if let Some(found) = in_file(&parsed, host, path).map_err(|error| error.within(file.display()))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn files() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = variable("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let docker = variable("DOCKER_CONFIG").or_else(|| variable("HOME").map(|home| home.join(".docker")));
    let podman = variable("XDG_RUNTIME_DIR").map(|run| run.join("containers/auth.json"));
    docker.map(|folder| folder.join("config.json")).into_iter().chain(podman).collect()
}

fn in_file(file: &File, host: &str, path: &str) -> Result<Option<Credentials>> {
    let keys = keys(host, path);
    let helper = keys.iter().find_map(|key| file.cred_helpers.get(key)).or(file.creds_store.as_ref());
    if let Some(helper) = helper {
        let key = if host == DEFAULT_HOST { DOCKER_KEY } else { host };
        if let Some(found) = ask(helper, key)? {
            return Ok(Some(found));
        }
    }
    let Some(auth) = keys.iter().find_map(|key| file.auths.get(key)) else { return Ok(None) };
    if let Some(token) = auth.identitytoken.as_ref().filter(|token| !token.is_empty()) {
        return Ok(Some(Credentials::Identity(token.clone())));
    }
    let pair = match (&auth.auth, &auth.username, &auth.password) {
        (Some(packed), ..) if !packed.is_empty() => {
            let bytes = STANDARD.decode(packed.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = bytes.as_deref().and_then(|text| text.trim_end_matches('\0').split_once(':'));
            let (user, password) = pair.ok_or_else(|| {
                Error::new(host, "the stored credentials are damaged", "log in again with docker login")
            })?;
            Some((user.to_owned(), password.to_owned()))
        }
        (_, Some(user), Some(password)) => Some((user.clone(), password.clone())),
        _ => None,
    };
    Ok(pair.map(|(user, password)| Credentials::Password { user, password }))
}

/// Keys of a registry, the closest first: podman's files have keys with paths.
fn keys(host: &str, path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut name = format!("{host}/{path}");
    loop {
        keys.push(name.clone());
        match name.rfind('/') {
            Some(at) => name.truncate(at),
            None => break,
        }
    }
    keys.extend([format!("https://{host}"), format!("https://{host}/"), format!("http://{host}")]);
    keys.extend(["v1/", "v2/"].map(|version| format!("https://{host}/{version}")));
    if host == DEFAULT_HOST {
        keys.extend([DOCKER_KEY, "index.docker.io", "registry-1.docker.io"].map(str::to_owned));
    }
    keys
}

/// Asks a helper program.
fn ask(helper: &str, key: &str) -> Result<Option<Credentials>> {
    let program = format!("docker-credential-{helper}");
    let remedy = "install it, or remove it from the file";
    if helper.contains('/') {
        return Err(Error::new(excerpt(&program), "not the name of a helper", remedy));
    }
    let fail = |why: String| Error::new(&program, why, remedy);
    let child =
        Command::new(&program).arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|error| fail(reason(&error)))?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read fails in its own way.
        let _ = input.write_all(key.as_bytes());
    }
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(LIMIT).read_to_end(&mut answer).map_err(|error| fail(reason(&error)))?;
    }
    let status = child.wait().map_err(|error| fail(reason(&error)))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&answer);
        // The text of the helpers' library for a registry without credentials.
        if text.contains("credentials not found") {
            return Ok(None);
        }
        return Err(fail(format!("it failed: {}", excerpt(text.trim()))));
    }
    let answer: Answer = serde_json::from_slice(&answer).map_err(|_| fail("its answer is no valid JSON".to_owned()))?;
    Ok(match (answer.username.as_str(), answer.secret) {
        ("", secret) if secret.is_empty() => None,
        (TOKEN, secret) => Some(Credentials::Identity(secret)),
        (user, password) => Some(Credentials::Password { user: user.to_owned(), password }),
    })
}

/// A folder with certificates for a registry, as docker's.
pub(super) fn certificates(host: &str) -> Vec<PathBuf> {
    let folder = Path::new("/etc/docker/certs.d").join(host);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "crt"));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, host: &str) -> Option<(String, String)> {
        match in_file(&serde_json::from_str(json).unwrap(), host, "library/x").unwrap()? {
            Credentials::Password { user, password } => Some((user, password)),
            Credentials::Identity(token) => Some((TOKEN.to_owned(), token)),
        }
    }

    #[test]
    fn files_of_docker_and_podman() {
        let pair = Some(("user".to_owned(), "a:b".to_owned()));
        let auth = STANDARD.encode("user:a:b");
        for key in ["r.example:5000", "https://r.example:5000", "r.example:5000/library", "https://r.example:5000/v2/"]
        {
            assert_eq!(
                found(&format!(r#"{{"auths":{{"{key}":{{"auth":"{auth}"}}}}}}"#), "r.example:5000"),
                pair,
                "{key}"
            );
        }
        let json = format!(r#"{{"auths":{{"{DOCKER_KEY}":{{"username":"user","password":"a:b"}}}}}}"#);
        assert_eq!(found(&json, DEFAULT_HOST), pair);
        assert_eq!(found(&json, "r.example"), None);
        let json = r#"{"auths":{"r.example":{"identitytoken":"t"}}}"#;
        assert_eq!(found(json, "r.example"), Some((TOKEN.to_owned(), "t".to_owned())));
        assert!(in_file(&serde_json::from_str(r#"{"auths":{"h":{"auth":"?"}}}"#).unwrap(), "h", "x").is_err());
        assert!(in_file(&serde_json::from_str(r#"{"credsStore":"../x"}"#).unwrap(), "h", "x").is_err());
    }
}
