//! Templates of `--format`: the part of Go's that people use, `{{.Field.Field}}`, `{{json .Field}}` and
//! `{{index .Field N}}`.

use crate::failure::{Failure, Result};
use serde_json::Value;

/// A template.
pub struct Template<'a> {
    text: &'a str,
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Text(&'a str),
    Field { path: Vec<&'a str>, index: Option<&'a str>, as_json: bool },
}

impl<'a> Template<'a> {
    /// Parses a template.
    pub fn parse(text: &'a str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (action, after) = after.split_once("}}").ok_or_else(|| wrong(text, "`{{` without `}}`"))?;
            parts.push(Part::Text(before));
            let words: Vec<&str> = action.split_whitespace().collect();
            let (field, index, as_json) = match words.as_slice() {
                [field] => (*field, None, false),
                ["json", field] => (*field, None, true),
                ["index", field, index] => (*field, Some(index.trim_matches('"')), false),
                _ => return Err(wrong(text, "only fields, `json` and `index` are known")),
            };
            let path = field.strip_prefix('.').ok_or_else(|| wrong(text, "a field begins with a dot"))?;
            let path = if path.is_empty() { Vec::new() } else { path.split('.').collect() };
            parts.push(Part::Field { path, index, as_json });
            rest = after;
        }
        parts.push(Part::Text(rest));
        Ok(Self { text, parts })
    }

    /// The names of the fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field { path, .. } => Some(path.last().copied().unwrap_or_default()),
            Part::Text(_) => None,
        })
    }

    /// The template with the fields of an object.
    pub fn fill(&self, object: &Value) -> Result<String> {
        let mut line = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Field { path, index, as_json } => {
                    let mut value = object;
                    for name in path {
                        value = value.get(name).ok_or_else(|| wrong(self.text, &format!("no field {name}")))?;
                    }
                    if let Some(index) = index {
                        let item =
                            index.parse::<usize>().ok().and_then(|at| value.get(at)).or_else(|| value.get(index));
                        value = item.ok_or_else(|| wrong(self.text, &format!("no item {index}")))?;
                    }
                    line.push_str(&if *as_json { value.to_string() } else { plain(value) });
                }
            }
        }
        Ok(line)
    }
}

/// A value as Go prints it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

fn wrong(text: &str, why: &str) -> Failure {
    Failure::request(format!("--format {text}"), why, "write json, table, or fields such as {{.ID}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_filled_in() {
        let object = json!({ "Id": "x", "Config": { "Cmd": ["a", "b"], "Labels": { "k": "v" } }, "Size": 5 });
        let filled = |text: &str| {
            Template::parse(text).and_then(|template| template.fill(&object)).map_err(|error| error.to_string())
        };
        assert_eq!(filled("{{.Id}}-{{ .Size }}").unwrap(), "x-5");
        assert_eq!(filled("{{.Config.Cmd}} {{json .Config.Cmd}}").unwrap(), r#"[a b] ["a","b"]"#);
        assert_eq!(filled("{{index .Config.Cmd 1}} {{index .Config.Labels \"k\"}}").unwrap(), "b v");
        assert_eq!(filled("{{.Config.Labels}}").unwrap(), "map[k:v]");
        for text in ["{{.Id", "{{range .Id}}", "{{Id}}", "{{.No}}", "{{index .Config.Cmd 7}}"] {
            assert!(filled(text).is_err(), "{text}");
        }
    }
}
