//! Instructions of a Dockerfile that change an image's configuration.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result, excerpt};

/// The part `config` of a configuration that instructions make.
pub(super) fn config(changes: &[String]) -> Result<Value> {
    let mut config = Map::new();
    for change in changes {
        apply(&mut config, change.trim()).map_err(|why| {
            Error::new(format!("--change {}", excerpt(change)), why, "write it as in a Dockerfile: CMD [\"/bin/sh\"]")
        })?;
    }
    Ok(Value::Object(config))
}

fn apply(config: &mut Map<String, Value>, change: &str) -> std::result::Result<(), &'static str> {
    let (instruction, rest) = change.split_once(char::is_whitespace).unwrap_or((change, ""));
    let rest = rest.trim();
    if rest.is_empty() {
        return Err("nothing follows the instruction");
    }
    let mut set = |name: &str, value: Value| drop(config.insert(name.to_owned(), value));
    match instruction.to_ascii_uppercase().as_str() {
        "CMD" => set("Cmd", command(rest)),
        "ENTRYPOINT" => set("Entrypoint", command(rest)),
        "USER" => set("User", rest.into()),
        "WORKDIR" => set("WorkingDir", rest.into()),
        "STOPSIGNAL" => set("StopSignal", rest.into()),
        "ENV" => {
            for (name, value) in pairs(rest)? {
                let list = config.entry("Env").or_insert_with(|| json!([]));
                let prefix = format!("{name}=");
                if let Some(list) = list.as_array_mut() {
                    list.retain(|other| !other.as_str().is_some_and(|other| other.starts_with(&prefix)));
                    list.push(format!("{prefix}{value}").into());
                }
            }
        }
        "LABEL" => {
            for (name, value) in pairs(rest)? {
                config.entry("Labels").or_insert_with(|| json!({}))[name] = value.into();
            }
        }
        "EXPOSE" => {
            for port in words(rest)? {
                let (number, protocol) = port.split_once('/').unwrap_or((&port, "tcp"));
                if number.parse::<u16>().is_err() || !matches!(protocol, "tcp" | "udp" | "sctp") {
                    return Err("not a port such as 80 or 53/udp");
                }
                config.entry("ExposedPorts").or_insert_with(|| json!({}))[format!("{number}/{protocol}")] = json!({});
            }
        }
        "VOLUME" => {
            let paths = match serde_json::from_str::<Vec<String>>(rest) {
                Ok(paths) => paths,
                Err(_) => words(rest)?,
            };
            for path in paths {
                config.entry("Volumes").or_insert_with(|| json!({}))[path] = json!({});
            }
        }
        _ => return Err("not CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, STOPSIGNAL, USER, VOLUME or WORKDIR"),
    }
    Ok(())
}

/// A JSON list, or the words of a shell.
fn command(text: &str) -> Value {
    let words = serde_json::from_str::<Vec<String>>(text);
    words.unwrap_or_else(|_| ["/bin/sh", "-c", text].map(str::to_owned).into()).into()
}

/// `NAME=VALUE` pairs, or one `NAME VALUE`.
fn pairs(text: &str) -> std::result::Result<Vec<(String, String)>, &'static str> {
    let words = words(text)?;
    let first = words.first().ok_or("nothing follows the instruction")?;
    if !first.contains('=') {
        let (name, value) = text.split_once(char::is_whitespace).ok_or("a value is missing")?;
        return Ok(vec![(name.to_owned(), value.trim().to_owned())]);
    }
    let pair = |word: &String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    words.iter().map(|word| pair(word).filter(|(name, _)| !name.is_empty()).ok_or("not NAME=VALUE")).collect()
}

/// Words with quotes and backslashes.
fn words(text: &str) -> std::result::Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, Some(open)) if open == character => quote = None,
            (space, None) if space.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_change_the_configuration() {
        let changes = [
            "CMD [\"/bin/sh\", \"-l\"]",
            "ENTRYPOINT exec x",
            "env A=1 B=\"two words\"",
            "ENV A 3 4",
            "EXPOSE 80 53/udp",
            "LABEL a.b=\"c d\" e=f",
            "USER nobody",
            "VOLUME /data /x",
            "WORKDIR /srv",
            "STOPSIGNAL SIGQUIT",
        ];
        let config = config(&changes.map(str::to_owned)).unwrap();
        let expected = json!({
            "Cmd": ["/bin/sh", "-l"], "Entrypoint": ["/bin/sh", "-c", "exec x"], "Env": ["B=two words", "A=3 4"],
            "ExposedPorts": { "80/tcp": {}, "53/udp": {} }, "Labels": { "a.b": "c d", "e": "f" }, "User": "nobody",
            "Volumes": { "/data": {}, "/x": {} }, "WorkingDir": "/srv", "StopSignal": "SIGQUIT",
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn other_instructions_are_refused() {
        for change in ["", "CMD", "RUN x", "ENV A", "ENV A=1 B", "ENV A=\"1", "EXPOSE x", "EXPOSE 1/ip", "LABEL =x"] {
            assert!(config(&[change.to_owned()]).is_err(), "{change}");
        }
    }
}
