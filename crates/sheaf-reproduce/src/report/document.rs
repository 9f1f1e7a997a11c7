//! A document of headings, paragraphs, tables and drawings, as Markdown and as one HTML file.

use std::fmt::Write;

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A heading of a level from 1.
    Heading(usize, String),
    /// A paragraph. Text between backquotes is code.
    Text(String),
    /// A table: titles, then rows of as many cells.
    Table(Vec<String>, Vec<Vec<String>>),
    /// An SVG drawing with its caption; HTML only.
    Drawing(String, String),
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222}\
    table{border-collapse:collapse;margin:1em 0;font-size:14px}th,td{border-bottom:1px solid #ddd;padding:.3em .7em;\
    text-align:left;vertical-align:top}th{border-bottom:2px solid #888}code{background:#f3f3f3;padding:0 .2em}\
    td.short{white-space:nowrap}.wide{overflow-x:auto}figure{margin:1em 0}figcaption{color:#555;font-size:13px}svg{width:60em;max-width:100%;height:auto}\
    td i{color:#767676}";

/// As Markdown.
pub fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(level, text) => writeln!(out, "{} {}\n", "#".repeat(*level), plain(text)),
            Block::Text(text) => writeln!(out, "{}\n", plain(text)),
            Block::Table(titles, rows) => {
                let line = |cells: &[String]| {
                    let cells: Vec<String> = cells.iter().map(|c| plain(c).replace('|', "\\|")).collect();
                    format!("| {} |", cells.join(" | "))
                };
                let rule = vec!["---".to_string(); titles.len()];
                let lines = [line(titles), line(&rule)].into_iter().chain(rows.iter().map(|r| line(r)));
                writeln!(out, "{}\n", lines.collect::<Vec<_>>().join("\n"))
            }
            Block::Drawing(..) => Ok(()),
        };
    }
    out.trim_end().to_string() + "\n"
}

/// As one HTML file that needs nothing else.
pub fn html(title: &str, blocks: &[Block]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head>\
         <body>\n",
        escaped(title)
    );
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Heading(level, text) => writeln!(out, "<h{level}>{}</h{level}>", inline(text)),
            Block::Text(text) => writeln!(out, "<p>{}</p>", inline(text)),
            Block::Table(titles, rows) => {
                let line = |cells: &[String], tag: &dyn Fn(&str) -> (&'static str, &'static str)| {
                    let cell = |text: &String| {
                        let (open, close) = tag(text);
                        format!("{open}{}{close}", inline(text))
                    };
                    format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
                };
                let rows: String = rows.iter().map(|row| line(row, &cell_tag)).collect();
                let titles = line(titles, &|_| ("<th>", "</th>"));
                writeln!(out, "<div class=\"wide\"><table>\n{titles}{rows}</table></div>")
            }
            Block::Drawing(svg, caption) => {
                writeln!(out, "<figure>{svg}<figcaption>{}</figcaption></figure>", inline(caption))
            }
        };
    }
    out + "</body></html>\n"
}

/// Most characters of a cell that stays on one line: values with the paper's, times, names.
const SHORT: usize = 39;

fn cell_tag(text: &str) -> (&'static str, &'static str) {
    let open = if text.chars().count() <= SHORT { "<td class=\"short\">" } else { "<td>" };
    (open, "</td>")
}

/// Text on one line, without characters that a terminal would obey. It may come from records that others wrote.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { ' ' } else { c }).filter(|c| !c.is_control()).collect()
}

/// Text for Markdown; outside code it cannot open a tag.
fn plain(text: &str) -> String {
    let parts = shown(text);
    let parts = parts.split('`').enumerate();
    let parts = parts.map(|(i, part)| if i % 2 == 0 { part.replace('<', "&lt;") } else { part.to_string() });
    parts.collect::<Vec<_>>().join("`")
}

fn escaped(text: &str) -> String {
    shown(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escaped text with `code`, **bold** and *emphasis*; what stands in code is left as it is.
fn inline(text: &str) -> String {
    let paired = |text: &str, mark: &str, tag: &str| {
        let parts: Vec<&str> = text.split(mark).collect();
        let part = |(i, part): (usize, &&str)| match i % 2 == 1 && i + 1 < parts.len() {
            true => format!("<{tag}>{part}</{tag}>"),
            // A mark without its partner stays a character.
            false if i % 2 == 1 => format!("{mark}{part}"),
            false => part.to_string(),
        };
        parts.iter().enumerate().map(part).collect::<String>()
    };
    let escaped = escaped(text);
    let part = |(i, part): (usize, &str)| match i % 2 {
        1 => format!("<code>{part}</code>"),
        _ => paired(&paired(part, "**", "b"), "*", "i"),
    };
    escaped.split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_every_block_and_text_cannot_become_markup() {
        let blocks = [
            Block::Heading(2, "A <b>\u{1b}[31m".into()),
            Block::Table(vec!["x|y".into(), "z".into()], vec![vec!["`c<d`".into(), "**1**".into()]]),
            Block::Drawing("<svg></svg>".into(), "curve".into()),
        ];
        let md = markdown(&blocks);
        assert_eq!(md, "## A &lt;b>[31m\n\n| x\\|y | z |\n| --- | --- |\n| `c<d` | **1** |\n");
        let page = html("t", &blocks);
        assert!(page.contains("<h2>A &lt;b&gt;[31m</h2>") && page.contains("<code>c&lt;d</code>"));
        assert!(page.contains("<b>1</b>") && page.contains("<svg></svg>"));
    }

    #[test]
    fn emphasis_is_markup_in_html_and_values_stay_on_one_line() {
        assert_eq!(inline("a *b / c* **d** 2 * 3 `e*f*`"), "a <i>b / c</i> <b>d</b> 2 * 3 <code>e*f*</code>");
        let long = "x".repeat(40);
        let page =
            html("t", &[Block::Table(vec!["a".into()], vec![vec!["0.0 [1] / 4.5 ± 1.1".into(), long]])]);
        assert!(page.contains("<td class=\"short\">0.0 [1] / 4.5 ± 1.1</td><td>xxx"), "{page}");
    }
}
