//! The user's running pods: their registry, their names, commands to them, `hull ps` and `hull port`.

mod control;
mod list;
mod port;
mod registry;

pub use control::command;
pub use list::{PsArgs, ps};
pub use port::{PortArgs, port};
pub use registry::{Place, Refused, Registry};

use serde::{Deserialize, Serialize};

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 64;
/// Digits of a pod's id.
const ID_DIGITS: usize = 64;
/// Version of the format of entries.
const VERSION: u32 = 1;
/// Maximum number of bytes of a command that an entry keeps.
const MAX_COMMAND: usize = 4096;

/// What the registry says of a pod: the content of its file `entry`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    version: u32,
    /// Its id, [`ID_DIGITS`] hexadecimal digits.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Process id of its monitor.
    pub pid: u32,
    /// When it started, in seconds since 1970.
    pub started: i64,
    /// Its image, as it was named.
    pub image: Option<String>,
    /// The words of its first program.
    pub command: Vec<String>,
    /// Its published ports, as docker writes them.
    pub ports: Vec<String>,
}

impl Entry {
    /// An entry of this process, which starts now. A long command is cut.
    pub fn new(
        id: String,
        name: Option<String>,
        image: Option<String>,
        command: &[Vec<u8>],
        ports: Vec<String>,
    ) -> Self {
        let mut room = MAX_COMMAND;
        let mut words = Vec::new();
        for word in command {
            let text = String::from_utf8_lossy(word);
            let kept: String = text.chars().take(room).collect();
            let is_cut = kept.len() < text.len();
            room = room.saturating_sub(kept.len() + 1);
            words.push(if is_cut { kept + "…" } else { kept });
            if is_cut || room == 0 {
                break;
            }
        }
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let started = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { version: VERSION, id, name, pid: std::process::id(), started, image, command: words, ports }
    }

    /// Reads an entry; `None`: it is empty because the pod is starting, or another version wrote it.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|entry: &Self| entry.version == VERSION)
    }

    /// The entry's bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Strings and numbers have a form in JSON, and a vector has room.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Parses a pod's name: letters, digits, `_`, `.` and `-`, a letter or digit first, as in docker. Ids are no names.
pub fn name(text: &str) -> Result<String, String> {
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
    let is_other = |byte: &u8| is_first(byte) || matches!(byte, b'_' | b'.' | b'-');
    let bytes = text.as_bytes();
    if bytes.len() > MAX_NAME || !bytes.first().is_some_and(is_first) || !bytes.iter().all(is_other) {
        return Err(format!(
            "not a name of a pod; use up to {MAX_NAME} letters, digits, `_`, `.` and `-`, a letter or digit first"
        ));
    }
    if is_id(text) {
        return Err("it has the form of a pod's id; choose another name".into());
    }
    Ok(text.to_owned())
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pods() {
        for text in ["a", "web-1", "0.b_C", &"x".repeat(64)] {
            assert_eq!(name(text).unwrap(), text);
        }
        for text in ["", ".", "..", "-a", "_a", "a/b", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(name(text).unwrap_err().starts_with("not a name of a pod; "), "{text:?}");
        }
        assert!(name(&"a1".repeat(32)).unwrap_err().starts_with("it has the form of a pod's id; "));
    }

    #[test]
    fn entries() {
        let command = [b"sh".to_vec(), b"-c".to_vec(), b"\xff".repeat(5000), b"more".to_vec()];
        let entry = Entry::new("ab".into(), Some("web".into()), None, &command, vec!["80/tcp".into()]);
        assert_eq!(entry.pid, std::process::id());
        assert_eq!(entry.command.len(), 3);
        assert!(entry.command[2].ends_with('…') && entry.encode().len() < 4 * MAX_COMMAND);
        assert_eq!(Entry::parse(&entry.encode()), Some(entry.clone()));
        assert_eq!(Entry::parse(b""), None);
        assert_eq!(Entry::parse(b"{}"), None);
        assert_eq!(Entry::parse(&Entry { version: 2, ..entry }.encode()), None);
    }
}
