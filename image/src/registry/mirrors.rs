//! Where a registry's images are: its mirrors and its place, as configured for podman and docker.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::client::is_loopback;
use crate::error::{Error, Result, excerpt};
use crate::reference::{DEFAULT_HOST, Reference};
use crate::store::read_bounded;

/// Largest file.
const LIMIT: u64 = 1 << 20;
/// Most places of one name.
const PLACES: usize = 16;
/// Settings of docker's server.
const DOCKER: &str = "/etc/docker/daemon.json";
const REMEDY: &str = "correct it: see containers-registries.conf(5)";

/// A file as podman's `registries.conf`; other keys are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    registry: Vec<Registry>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Registry {
    prefix: Option<String>,
    location: Option<String>,
    blocked: bool,
    insecure: bool,
    mirror: Vec<Mirror>,
    mirror_by_digest_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<String>,
}

/// A place where an image may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The image's name there.
    pub name: Reference,
    /// Plain HTTP is allowed, if it is on this machine.
    pub is_insecure: bool,
}

impl Place {
    /// Whether plain HTTP is allowed: only on this machine.
    pub fn allows_plain(&self) -> bool {
        self.is_insecure && is_loopback(self.name.host())
    }
}

/// The part of docker's settings that is about mirrors.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Daemon {
    registry_mirrors: Vec<String>,
}

/// The places of an image, the one to try first at the beginning; the last is the registry's.
pub(super) fn places(name: &Reference) -> Result<Vec<Place>> {
    let mut registries = Vec::new();
    for file in files() {
        let text = String::from_utf8_lossy(&read_bounded(&file, LIMIT)?).into_owned();
        registries.extend(parse(&text).map_err(|error| error.within(file.display()))?);
    }
    let daemon = Path::new(DOCKER);
    if name.host() == DEFAULT_HOST && daemon.is_file() {
        let bytes = read_bounded(daemon, LIMIT)?;
        let settings: Daemon = serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(DOCKER, format!("no valid JSON: {error}"), "correct it"))?;
        registries.push(Registry {
            location: Some(DEFAULT_HOST.to_owned()),
            mirror: settings.registry_mirrors.into_iter().map(of_docker).collect(),
            ..Registry::default()
        });
    }
    chosen(name, &registries)
}

/// A mirror of docker's settings, an address.
fn of_docker(address: String) -> Mirror {
    let location = address.split_once("://").map_or(&*address, |(_, rest)| rest).trim_end_matches('/').to_owned();
    Mirror { location, insecure: address.starts_with("http://"), pull_from_mirror: None }
}

/// The files, later ones win.
fn files() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = variable("CONTAINERS_REGISTRIES_CONF") {
        return vec![file];
    }
    let system = PathBuf::from("/etc/containers");
    let user = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let user = user.map(|folder| folder.join("containers")).filter(|folder| folder.join("registries.conf").is_file());
    let main = user.as_ref().unwrap_or(&system).join("registries.conf");
    let mut files: Vec<PathBuf> = Some(main).into_iter().filter(|file| file.is_file()).collect();
    for folder in [Some(system), user].into_iter().flatten() {
        let entries = std::fs::read_dir(folder.join("registries.conf.d")).into_iter().flatten().flatten();
        let mut more: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        more.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
        more.sort();
        files.extend(more);
    }
    files
}

fn parse(text: &str) -> Result<Vec<Registry>> {
    let file: File =
        toml::from_str(text).map_err(|error| Error::new("registries", excerpt(error.message()), REMEDY))?;
    Ok(file.registry)
}

/// The places of a name by the registry with the longest prefix; of equal ones the last counts.
fn chosen(name: &Reference, registries: &[Registry]) -> Result<Vec<Place>> {
    let whole = format!("{}/{}", name.host(), name.path());
    let mut best: Option<(usize, &Registry, &str)> = None;
    for registry in registries {
        let Some(prefix) = registry.prefix.as_deref().or(registry.location.as_deref()) else { continue };
        let Some(length) = prefix_length(prefix, name, &whole) else { continue };
        if best.is_none_or(|(other, ..)| length >= other) {
            best = Some((length, registry, prefix));
        }
    }
    let place = |name, is_insecure| Place { name, is_insecure };
    let Some((length, registry, prefix)) = best else { return Ok(vec![place(name.clone(), false)]) };
    if registry.blocked {
        return Err(Error::new(name.familiar(), format!("registries.conf blocks {}", excerpt(prefix)), REMEDY));
    }
    let by_digest = name.digest().is_some();
    let serves = |mirror: &&Mirror| match mirror.pull_from_mirror.as_deref() {
        Some("digest-only") => by_digest,
        Some("tag-only") => !by_digest,
        _ => by_digest || !registry.mirror_by_digest_only,
    };
    let rest = whole.get(length..).unwrap_or_default();
    // A place of a wildcard is that of the name itself unless another one is given.
    let own = registry.location.as_deref().filter(|location| !location.starts_with("*."));
    let mirrors = registry.mirror.iter().filter(serves).take(PLACES);
    let mirrors = mirrors.map(|mirror| Ok(place(at(&mirror.location, rest, name)?, mirror.insecure)));
    let mut places = mirrors.collect::<Result<Vec<_>>>()?;
    let own = own.map_or_else(|| Ok(name.clone()), |location| at(location, rest, name))?;
    places.push(place(own, registry.insecure));
    Ok(places)
}

/// Length of the part of a name that a prefix covers: whole parts of it, or hosts of a domain (`*.example.org`).
fn prefix_length(prefix: &str, name: &Reference, whole: &str) -> Option<usize> {
    if let Some(domain) = prefix.strip_prefix('*') {
        let host = name.host();
        return (domain.starts_with('.') && host.ends_with(domain) && host.len() > domain.len()).then_some(host.len());
    }
    let rest = whole.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(prefix.len())
}

/// The name at a place: the place in front of the rest of the path.
fn at(location: &str, rest: &str, name: &Reference) -> Result<Reference> {
    name.moved(&format!("{location}{rest}"))
        .ok_or_else(|| Error::new(excerpt(location), "not the place of a registry", REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        unqualified-search-registries = ["docker.io"]
        [aliases]
        "x" = "docker.io/x"
        [[registry]]
        location = "docker.io"
        [[registry.mirror]]
        location = "mirror.example:5000/hub"
        insecure = true
        [[registry.mirror]]
        location = "exact.example"
        pull-from-mirror = "digest-only"
        [[registry]]
        prefix = "docker.io/library/other"
        location = "own.example/else"
        [[registry]]
        prefix = "*.blocked.example"
        blocked = true
    "#;

    fn places(name: &str) -> std::result::Result<Vec<String>, String> {
        let registries = parse(TEXT).unwrap();
        let found = chosen(&Reference::parse(name).unwrap(), &registries);
        found.map(|all| all.iter().map(|place| place.name.to_string()).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn mirrors_come_first() {
        let list = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let debian = ["mirror.example:5000/hub/library/debian:12", "docker.io/library/debian:12"];
        assert_eq!(places("debian:12"), list(&debian));
        assert_eq!(places("other"), list(&["own.example/else:latest"]));
        assert_eq!(places("others").unwrap().len(), 2);
        assert_eq!(places("ghcr.io/a"), list(&["ghcr.io/a:latest"]));
        let digest = format!("debian@sha256:{}", "0".repeat(64));
        assert_eq!(places(&digest).unwrap().len(), 3);
        assert!(places("a.blocked.example/x").unwrap_err().contains("registries.conf blocks"));
        assert_eq!(places("blocked.example/x").unwrap().len(), 1);
    }

    #[test]
    fn files_that_are_wrong() {
        assert!(parse("[[registry]]\nlocation = 5").is_err());
        assert!(parse("[registries.search]\nregistries = ['docker.io']").unwrap().is_empty());
        let registries = parse("[[registry]]\nlocation='docker.io'\n[[registry.mirror]]\nlocation='a b'").unwrap();
        assert!(chosen(&Reference::parse("x").unwrap(), &registries).is_err());
        assert_eq!(of_docker("https://m.example/".into()).location, "m.example");
    }
}
