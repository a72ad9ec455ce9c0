//! Templates of `--format`: the part of Go's that people use. Fields, `json`, `index`, `len`, `join`, `println`, `upper`,
//! `lower`, `eq`, `ne` and `not`, also behind `|`; `if`, `range`, `else` and `end`.

use crate::failure::{Failure, Result};
use serde_json::Value;

/// Most blocks in blocks.
const DEPTH: usize = 16;
/// Most bytes of a result.
const LONGEST: usize = 64 << 20;

/// A template.
pub struct Template<'a> {
    text: &'a str,
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Text(&'a str),
    Value(Pipe<'a>),
    Block { is_range: bool, pipe: Pipe<'a>, then: Vec<Part<'a>>, otherwise: Vec<Part<'a>> },
}

/// Calls: the result of each is the last argument of the next.
type Pipe<'a> = Vec<Vec<Word<'a>>>;

enum Word<'a> {
    Field(Vec<&'a str>),
    Literal(Value),
    Function(&'a str),
}

/// How a list of parts ends.
#[derive(PartialEq)]
enum End {
    Text,
    Block,
    Else,
}

/// The rest of a template that is parsed.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn parts(&mut self, depth: usize) -> Result<(Vec<Part<'a>>, End)> {
        if depth > DEPTH {
            return Err(wrong(self.text, &format!("more than {DEPTH} blocks in blocks")));
        }
        let mut parts = Vec::new();
        while let Some((before, after)) = self.rest.split_once("{{") {
            let (action, after) = after.split_once("}}").ok_or_else(|| wrong(self.text, "`{{` without `}}`"))?;
            // A dash beside the braces takes the white space there.
            let (action, is_left) = action.strip_prefix("- ").map_or((action, false), |action| (action, true));
            let (action, is_right) = action.strip_suffix(" -").map_or((action, false), |action| (action, true));
            parts.push(Part::Text(if is_left { before.trim_end() } else { before }));
            self.rest = if is_right { after.trim_start() } else { after };
            let action = action.trim();
            let (name, words) = action.split_once(' ').unwrap_or((action, ""));
            match name {
                "end" => return Ok((parts, End::Block)),
                "else" if words.is_empty() => return Ok((parts, End::Else)),
                "if" | "range" => {
                    let pipe = self.pipe(words)?;
                    let (then, mut end) = self.parts(depth + 1)?;
                    let mut otherwise = Vec::new();
                    if end == End::Else {
                        (otherwise, end) = self.parts(depth + 1)?;
                    }
                    if end != End::Block {
                        return Err(wrong(self.text, &format!("`{name}` without `end`")));
                    }
                    parts.push(Part::Block { is_range: name == "range", pipe, then, otherwise });
                }
                _ => parts.push(Part::Value(self.pipe(action)?)),
            }
        }
        parts.push(Part::Text(self.rest));
        self.rest = "";
        Ok((parts, End::Text))
    }

    fn pipe(&self, action: &'a str) -> Result<Pipe<'a>> {
        let mut pipe = vec![Vec::new()];
        let mut rest = action.trim();
        while !rest.is_empty() {
            let call = pipe.last_mut().ok_or_else(|| wrong(self.text, "no value"))?;
            let length = match rest.chars().next() {
                Some('|') => {
                    pipe.push(Vec::new());
                    1
                }
                Some(quote @ ('"' | '`')) => {
                    let inner = rest[1..].split(quote).next().unwrap_or_default();
                    if rest.len() < inner.len() + 2 {
                        return Err(wrong(self.text, "a quotation does not end"));
                    }
                    let value =
                        if quote == '"' { inner.replace("\\n", "\n").replace("\\t", "\t") } else { inner.into() };
                    call.push(Word::Literal(value.into()));
                    inner.len() + 2
                }
                _ => {
                    let word = rest.split([' ', '|']).next().unwrap_or_default();
                    call.push(self.word(word)?);
                    word.len()
                }
            };
            rest = rest[length..].trim_start();
        }
        if pipe.iter().any(Vec::is_empty) {
            return Err(wrong(self.text, "no value"));
        }
        Ok(pipe)
    }

    fn word(&self, word: &'a str) -> Result<Word<'a>> {
        if let Some(path) = word.strip_prefix('.') {
            return Ok(Word::Field(if path.is_empty() { Vec::new() } else { path.split('.').collect() }));
        }
        if let Ok(number) = word.parse::<i64>() {
            return Ok(Word::Literal(number.into()));
        }
        match word {
            "true" | "false" => Ok(Word::Literal((word == "true").into())),
            "json" | "index" | "len" | "join" | "print" | "println" | "upper" | "lower" | "eq" | "ne" | "not" => {
                Ok(Word::Function(word))
            }
            _ => Err(wrong(self.text, &format!("{word} is not known"))),
        }
    }
}

impl<'a> Template<'a> {
    /// Parses a template.
    pub fn parse(text: &'a str) -> Result<Self> {
        let (parts, end) = Parser { text, rest: text }.parts(0)?;
        match end {
            End::Text => Ok(Self { text, parts }),
            End::Block | End::Else => Err(wrong(text, "`end` or `else` without `if` or `range`")),
        }
    }

    /// The names of the fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let pipes = self.parts.iter().filter_map(|part| match part {
            Part::Value(pipe) => Some(pipe),
            Part::Text(_) | Part::Block { .. } => None,
        });
        pipes.filter_map(|pipe| {
            pipe.iter().flatten().find_map(|word| match word {
                Word::Field(path) => Some(path.last().copied().unwrap_or_default()),
                Word::Literal(_) | Word::Function(_) => None,
            })
        })
    }

    /// The template with the fields of an object.
    pub fn fill(&self, object: &Value) -> Result<String> {
        let mut line = String::new();
        self.add(&self.parts, object, &mut line)?;
        Ok(line)
    }

    fn add(&self, parts: &[Part<'_>], dot: &Value, line: &mut String) -> Result<()> {
        for part in parts {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Value(pipe) => line.push_str(&plain(&self.value(pipe, dot)?, false)),
                Part::Block { is_range, pipe, then, otherwise } => {
                    let value = self.value(pipe, dot)?;
                    if !is_true(&value) {
                        self.add(otherwise, dot, line)?;
                        continue;
                    }
                    match &value {
                        _ if !is_range => self.add(then, dot, line)?,
                        Value::Array(items) => items.iter().try_for_each(|item| self.add(then, item, line))?,
                        Value::Object(items) => items.values().try_for_each(|item| self.add(then, item, line))?,
                        _ => return Err(wrong(self.text, "`range` of something that is no list")),
                    }
                }
            }
            if line.len() > LONGEST {
                return Err(wrong(self.text, "the result is too long"));
            }
        }
        Ok(())
    }

    fn value(&self, pipe: &Pipe<'_>, dot: &Value) -> Result<Value> {
        let mut last: Option<Value> = None;
        for call in pipe {
            let mut function = None;
            let mut arguments = Vec::new();
            for (at, word) in call.iter().enumerate() {
                match word {
                    Word::Function(name) if at == 0 => function = Some(*name),
                    Word::Function(name) => return Err(wrong(self.text, &format!("{name} stands first"))),
                    Word::Literal(value) => arguments.push(value.clone()),
                    Word::Field(path) => arguments.push(self.field(path, dot)?.clone()),
                }
            }
            arguments.extend(last.take());
            last = Some(match (function, arguments.as_slice()) {
                (None, [value]) => value.clone(),
                (None, _) => return Err(wrong(self.text, "a value is no function")),
                (Some(name), arguments) => self.call(name, arguments)?,
            });
        }
        last.ok_or_else(|| wrong(self.text, "no value"))
    }

    fn field<'v>(&self, path: &[&str], dot: &'v Value) -> Result<&'v Value> {
        let step = |value: &'v Value, name: &&str| {
            value.get(*name).ok_or_else(|| wrong(self.text, &format!("no field {name}")))
        };
        path.iter().try_fold(dot, step)
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        let text = |value: &Value| plain(value, false);
        Ok(match (name, arguments) {
            ("json", [value]) => value.to_string().into(),
            ("index", [value, keys @ ..]) => {
                // Maps of images have texts: one that is not there is empty, as in Go.
                let empty = Value::from("");
                let item = keys.iter().try_fold(value, |value, key| match (value, key) {
                    (Value::Array(items), Value::Number(at)) => items.get(usize::try_from(at.as_u64()?).ok()?),
                    (Value::Object(fields), Value::String(name)) => Some(fields.get(name).unwrap_or(&empty)),
                    (Value::Null, Value::String(_)) => Some(&empty),
                    _ => None,
                });
                item.ok_or_else(|| wrong(self.text, "`index` of an item that is not there"))?.clone()
            }
            ("len", [Value::Array(items)]) => items.len().into(),
            ("len", [Value::Object(items)]) => items.len().into(),
            ("len", [Value::String(text)]) => text.len().into(),
            ("len", [Value::Null]) => 0.into(),
            ("join", [Value::Array(items), separator]) => {
                items.iter().map(text).collect::<Vec<_>>().join(&text(separator)).into()
            }
            ("join", [Value::Null, _]) => "".into(),
            ("print", values) => values.iter().map(text).collect::<String>().into(),
            ("println", values) => (values.iter().map(text).collect::<Vec<_>>().join(" ") + "\n").into(),
            ("upper", [value]) => text(value).to_uppercase().into(),
            ("lower", [value]) => text(value).to_lowercase().into(),
            ("eq", [one, others @ ..]) if !others.is_empty() => others.contains(one).into(),
            ("ne", [one, other]) => (one != other).into(),
            ("not", [value]) => (!is_true(value)).into(),
            _ => return Err(wrong(self.text, &format!("`{name}` has wrong arguments"))),
        })
    }
}

/// Whether a value is not empty.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// A value as Go prints it. The empty objects in maps of images (`Volumes`, `ExposedPorts`) are structures.
fn plain(value: &Value, is_inner: bool) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| plain(item, true)).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) if is_inner && fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}:{}", plain(value, true));
            format!("map[{}]", fields.iter().map(field).collect::<Vec<_>>().join(" "))
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

    fn filled(text: &str) -> std::result::Result<String, String> {
        let object = json!({
            "Id": "x", "Size": 5, "None": null, "Dotted": { "a.b": 1 },
            "Config": { "Cmd": ["a", "b"], "Labels": { "k": "v" }, "Ports": { "80/tcp": {} }, "Empty": [] }
        });
        Template::parse(text).and_then(|template| template.fill(&object)).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_filled_in() {
        for (text, result) in [
            ("{{.Id}}-{{ .Size }}", "x-5"),
            ("{{.Config.Cmd}} {{json .Config.Cmd}}", r#"[a b] ["a","b"]"#),
            ("{{index .Config.Labels `none`}}{{index .None `x`}}", ""),
            ("{{index .Config.Cmd 1}} {{index .Config.Labels \"k\"}} {{index .Dotted `a.b`}}", "b v 1"),
            ("{{.Config.Labels}} {{.Config.Ports}}", "map[k:v] map[80/tcp:{}]"),
            ("{{len .Config.Cmd}}{{len .Id}}{{len .None}}", "210"),
            ("{{join .Config.Cmd \", \"}} {{.Id | upper}} {{.Config.Cmd | json | lower}}", "a, b X [\"a\",\"b\"]"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn blocks_are_repeated_and_chosen() {
        for (text, result) in [
            ("{{range .Config.Cmd}}<{{.}}>{{end}}", "<a><b>"),
            ("{{range .Config.Cmd}}{{println .}}{{end}}", "a\nb\n"),
            ("{{range .Config.Empty}}x{{else}}none{{end}}{{range .None}}x{{end}}", "none"),
            ("{{range .Config.Labels}}{{.}}{{end}}", "v"),
            ("{{if .Id}}yes{{end}}{{if .Config.Empty}}no{{else}}empty{{end}}", "yesempty"),
            ("{{if eq .Id \"x\"}}{{if ne .Size 5}}a{{else}}b{{end}}{{end}}{{if not .None}}c{{end}}", "bc"),
            ("a {{- .Id -}} b", "axb"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn templates_that_are_wrong() {
        for text in [
            "{{.Id",
            "{{range .Id}}x{{end}}",
            "{{range .Config.Cmd}}",
            "{{end}}",
            "{{else}}",
            "{{Id}}",
            "{{.No}}",
            "{{}}",
            "{{index .Config.Cmd 7}}",
            "{{.Id |}}",
            "{{.Id .Id}}",
            "{{len .Size}}",
            "{{json .Id \"x}}",
            "{{$x}}",
        ] {
            assert!(filled(text).is_err(), "{text}");
        }
        assert!(filled(&"{{if .Id}}".repeat(100_000)).unwrap_err().contains("blocks in blocks"));
    }
}
