//! Rows of a listing: a table as docker prints it, JSON, or a template.

use super::args::Listing;
use super::template::Template;
use crate::failure::Result;
use serde_json::Value;

/// Narrowest column of a table, with the space after it.
const NARROWEST: usize = 10;
/// Space between columns.
const SPACE: usize = 3;

/// Columns: heading of the table, name in JSON and templates.
pub type Columns<'a> = &'a [(&'a str, &'a str)];

/// Prints rows of JSON objects. The columns are those of a table.
pub fn render(listing: &Listing, columns: Columns<'_>, rows: &[Value]) -> Result<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    if listing.quiet {
        return Ok(rows.iter().map(|row| text(row, "ID") + "\n").collect());
    }
    let format = match listing.format.as_deref() {
        None | Some("table") => {
            let headings: Vec<String> = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
            let cells = rows.iter().map(|row| columns.iter().map(|(_, name)| text(row, name)).collect());
            return Ok(aligned(&std::iter::once(headings).chain(cells).collect::<Vec<Vec<String>>>()));
        }
        Some("json") => return Ok(rows.iter().map(|row| format!("{row}\n")).collect()),
        Some(format) => format,
    };
    let format = format.replace("\\t", "\t");
    if let Some(format) = format.strip_prefix("table ") {
        let template = Template::parse(format)?;
        let headings = template.fields().map(|name| {
            let known = columns.iter().find(|(_, column)| *column == name);
            known.map_or_else(|| name.to_uppercase(), |(heading, _)| (*heading).to_owned())
        });
        let mut lines: Vec<Vec<String>> = vec![headings.collect()];
        for row in rows {
            lines.push(template.fill(row)?.split('\t').map(str::to_owned).collect());
        }
        return Ok(aligned(&lines));
    }
    let template = Template::parse(&format)?;
    rows.iter().map(|row| template.fill(row).map(|line| line + "\n")).collect()
}

/// Lines whose columns begin at the same place.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let longest = lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
        (longest.unwrap_or(0) + SPACE).max(NARROWEST)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            text.push_str(cell);
            if at + 1 < line.len() {
                text.extend(std::iter::repeat_n(' ', widths[at] - cell.chars().count()));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: Columns<'_> = &[("REPOSITORY", "Repository"), ("TAG", "Tag"), ("SIZE", "Size")];

    fn rendered(format: Option<&str>, quiet: bool) -> String {
        let listing = Listing { format: format.map(str::to_owned), quiet, no_trunc: false };
        let rows = [json!({ "ID": "1234", "Repository": "debian", "Tag": "12", "Size": "117MB" })];
        render(&listing, COLUMNS, &rows).unwrap()
    }

    #[test]
    fn tables_look_like_dockers() {
        let table = "REPOSITORY   TAG       SIZE\ndebian       12        117MB\n";
        assert_eq!(rendered(None, false), table);
        assert_eq!(rendered(Some("table"), false), table);
        assert_eq!(rendered(Some("{{.Repository}}:{{.Tag}}"), false), "debian:12\n");
        assert_eq!(rendered(Some("table {{.Tag}}\\t{{.Size}}"), false), "TAG       SIZE\n12        117MB\n");
        assert_eq!(rendered(None, true), "1234\n");
        assert!(rendered(Some("json"), false).starts_with("{\"ID\":\"1234\","));
    }
}
