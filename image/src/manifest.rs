//! Manifests, indexes and configurations: parsed from untrusted bytes.

use oci_spec::image::{Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, Os};
use serde_json::json;

use crate::digest::Digest;
use crate::error::{Error, Result, excerpt};
use crate::limits;

/// A manifest as docker wrote it before the specification.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// An index as docker wrote it before the specification.
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// A manifest of the specification.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// An index of the specification.
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A reference to a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type.
    pub media_type: String,
}

impl Blob {
    fn from(descriptor: &Descriptor) -> Result<Self> {
        Ok(Self {
            digest: descriptor.digest().to_string().parse()?,
            size: descriptor.size(),
            media_type: descriptor.media_type().to_string(),
        })
    }

    fn to_json(&self) -> serde_json::Value {
        json!({ "mediaType": self.media_type, "digest": self.digest.to_string(), "size": self.size })
    }
}

/// A manifest: a configuration and layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The manifest's own media type.
    pub media_type: String,
    /// The configuration.
    pub config: Blob,
    /// The layers, the lowest first.
    pub layers: Vec<Blob>,
}

impl Manifest {
    /// Parses a manifest of an image.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let parsed: ImageManifest =
            serde_json::from_slice(bytes).map_err(|error| Error::invalid("manifest", json_reason(&error)))?;
        if parsed.schema_version() != 2 {
            return Err(Error::invalid("manifest", format!("schema version {}, not 2", parsed.schema_version())));
        }
        if parsed.layers().len() > limits::LAYERS {
            let why = format!("{} layers, more than {}", parsed.layers().len(), limits::LAYERS);
            return Err(Error::invalid("manifest", why));
        }
        let media_type = parsed.media_type().as_ref().map_or(OCI_MANIFEST.to_owned(), MediaType::to_string);
        let config = Blob::from(parsed.config())?;
        if config.size > limits::CONFIG {
            return Err(Error::invalid("configuration", format!("larger than {} bytes", limits::CONFIG)));
        }
        let layers: Vec<Blob> = parsed.layers().iter().map(Blob::from).collect::<Result<_>>()?;
        for layer in &layers {
            // Encrypted layers, attestations and other artefacts are no file systems.
            let is_layer = layer.media_type.ends_with(".tar")
                || ["tar.gzip", "tar+gzip", "tar+zstd", "tar.zstd"].iter().any(|end| layer.media_type.ends_with(end));
            if !is_layer {
                return Err(Error::invalid(excerpt(&layer.media_type), "not a layer of a file system"));
            }
        }
        Ok(Self { media_type, config, layers })
    }

    /// The manifest of configuration and layers that came without one. The same parts give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let layers: Vec<_> = self.layers.iter().map(Blob::to_json).collect();
        json!({ "schemaVersion": 2, "mediaType": self.media_type, "config": self.config.to_json(), "layers": layers })
            .to_string()
            .into_bytes()
    }
}

/// Parses a configuration: itself, and the digests of its unpacked layers.
pub(crate) fn parse_config(bytes: &[u8]) -> Result<(ImageConfiguration, Vec<Digest>)> {
    let fail = |why: String| Error::invalid("configuration", why);
    let config: ImageConfiguration = serde_json::from_slice(bytes).map_err(|error| fail(json_reason(&error)))?;
    let ids = config.rootfs().diff_ids();
    if ids.len() > limits::LAYERS {
        return Err(fail(format!("{} layers, more than {}", ids.len(), limits::LAYERS)));
    }
    let ids = ids.iter().map(|id| id.parse()).collect::<Result<_>>()?;
    Ok((config, ids))
}

/// An operating system, a processor, and its variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

impl Default for Platform {
    fn default() -> Self {
        Self { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
    }
}

impl std::str::FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let is_word =
            |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_word) {
            return Err(Error::new(
                excerpt(text),
                "not a platform",
                "write OS/ARCH[/VARIANT], for instance linux/amd64",
            ));
        }
        let architecture = match parts[1] {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Ok(Self {
            os: parts[0].to_owned(),
            architecture: architecture.to_owned(),
            variant: parts.get(2).map(|&part| part.to_owned()),
        })
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

impl Platform {
    /// The operating system.
    pub(crate) fn os(&self) -> &str {
        &self.os
    }

    /// The processor.
    pub(crate) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The processor's variant.
    pub(crate) fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    fn of(os: &Os, architecture: &Arch, variant: Option<&String>) -> Self {
        Self { os: os.to_string(), architecture: architecture.to_string(), variant: variant.cloned() }
    }

    fn accepts(&self, other: &Self) -> bool {
        self.os == other.os
            && self.architecture == other.architecture
            && (self.variant.is_none() || self.variant == other.variant)
    }

    /// Fails unless a configuration is for this platform.
    pub(crate) fn check(&self, config: &ImageConfiguration) -> Result<()> {
        let other = Self::of(config.os(), config.architecture(), config.variant().as_ref());
        if self.accepts(&other)
            || (self.variant.is_some() && other.variant.is_none() && self.architecture == other.architecture)
        {
            return Ok(());
        }
        let why = format!("the image is for {}, not for {}", excerpt(&other.to_string()), self);
        Err(Error::new("platform", why, format!("choose it with --platform {}", excerpt(&other.to_string()))))
    }
}

/// An entry of an index.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The manifest or index.
    pub blob: Blob,
    /// Its platform, if it names one.
    platform: Option<Platform>,
    /// Its annotations.
    pub annotations: std::collections::HashMap<String, String>,
}

impl Choice {
    /// Whether this is an index in turn.
    pub fn is_index(&self) -> bool {
        is_index(&self.blob.media_type)
    }
}

/// Whether this is the media type of an index.
pub(crate) fn is_index(media_type: &str) -> bool {
    media_type == OCI_INDEX || media_type == DOCKER_INDEX
}

/// Parses an index.
pub(crate) fn parse_index(bytes: &[u8]) -> Result<Vec<Choice>> {
    let index: ImageIndex =
        serde_json::from_slice(bytes).map_err(|error| Error::invalid("index", json_reason(&error)))?;
    if index.manifests().len() > limits::IMAGES {
        return Err(Error::invalid("index", format!("more than {} entries", limits::IMAGES)));
    }
    // Entries with digests of other kinds can't be chosen.
    let choice = |descriptor: &Descriptor| {
        let platform = descriptor.platform().as_ref();
        Blob::from(descriptor).ok().map(|blob| Choice {
            blob,
            platform: platform.map(|it| Platform::of(it.os(), it.architecture(), it.variant().as_ref())),
            annotations: descriptor.annotations().clone().unwrap_or_default(),
        })
    };
    Ok(index.manifests().iter().filter_map(choice).collect())
}

/// The entry for a platform: the first that fits, or the only one if it names none.
pub(crate) fn choose(choices: &[Choice], platform: &Platform) -> Result<Choice> {
    let fits = |choice: &&Choice| choice.platform.as_ref().is_some_and(|other| platform.accepts(other));
    if let Some(choice) = choices.iter().find(fits) {
        return Ok(choice.clone());
    }
    if let [choice] = choices
        && choice.platform.is_none()
    {
        return Ok(choice.clone());
    }
    let mut others: Vec<String> =
        choices.iter().filter_map(|choice| Some(choice.platform.as_ref()?.to_string())).collect();
    others.sort();
    others.dedup();
    others.retain(|other| other != "unknown/unknown");
    let offered = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    let why = format!("the index has no image for {platform}, but for: {}", excerpt(&offered));
    Err(Error::new("platform", why, "choose one with --platform OS/ARCH"))
}

/// A message of the JSON parser on one line.
pub(crate) fn json_reason(error: &serde_json::Error) -> String {
    format!("no valid JSON of this kind: {}", excerpt(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &str) -> Vec<Choice> {
        parse_index(format!(r#"{{"schemaVersion":2,"manifests":[{entries}]}}"#).as_bytes()).unwrap()
    }

    fn entry(platform: &str) -> String {
        let digest = Digest::of(platform.as_bytes());
        format!(r#"{{"mediaType":"{OCI_MANIFEST}","digest":"{digest}","size":1{platform}}}"#)
    }

    #[test]
    fn a_platform_is_chosen() {
        let arm = entry(r#","platform":{"os":"linux","architecture":"arm64","variant":"v8"}"#);
        let amd = entry(r#","platform":{"os":"linux","architecture":"amd64"}"#);
        let choices = index(&format!("{arm},{amd}"));
        let chosen = |text: &str| choose(&choices, &text.parse().unwrap()).map(|choice| choice.blob.digest);
        assert_eq!(chosen("linux/amd64").unwrap(), choices[1].blob.digest);
        assert_eq!(chosen("linux/arm64").unwrap(), choices[0].blob.digest);
        assert_eq!(chosen("linux/arm64/v8").unwrap(), choices[0].blob.digest);
        let message = chosen("linux/riscv64").unwrap_err().to_string();
        assert!(message.contains("linux/amd64, linux/arm64/v8"), "{message}");
        assert!(choose(&index(&entry("")), &Platform::default()).is_ok());
        assert!(choose(&index(&format!("{},{}", entry(""), entry(""))), &Platform::default()).is_err());
        assert!("linux".parse::<Platform>().is_err() && "a/b/c/d".parse::<Platform>().is_err());
    }

    #[test]
    fn manifests_are_checked() {
        let blob = |media_type: &str| Blob { digest: Digest::of(b""), size: 1, media_type: media_type.to_owned() };
        let mut manifest = Manifest {
            media_type: OCI_MANIFEST.to_owned(),
            config: blob("application/vnd.oci.image.config.v1+json"),
            layers: vec![blob("application/vnd.oci.image.layer.v1.tar")],
        };
        assert_eq!(Manifest::parse(&manifest.to_bytes()).unwrap(), manifest);
        manifest.layers = vec![manifest.layers[0].clone(); limits::LAYERS + 1];
        assert!(Manifest::parse(&manifest.to_bytes()).unwrap_err().to_string().contains("layers"));
        manifest.layers = vec![blob("application/vnd.in-toto+json")];
        assert!(Manifest::parse(&manifest.to_bytes()).is_err());
        assert!(Manifest::parse(b"{}").is_err());
        assert!(Manifest::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
