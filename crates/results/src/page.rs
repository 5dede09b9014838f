//! HTML pages in one file that needs nothing else, all with one style sheet.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// A page with the heading `title` above `body`. The style sheet knows the classes `number` (a cell), `note` (how to read something),
/// `found` and `contradicted` (verdicts).
pub fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "bentpipe: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    page.into_string()
}

/// A picture in a page: `svg` as [`Chart::svg`](crate::chart::Chart::svg) draws it.
pub fn figure(svg: &str) -> Markup {
    html! { figure { (PreEscaped(svg)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_holds_no_markup_of_the_caller() {
        let body = html! { p.note { "<script>" } (figure("<svg></svg>")) };
        let page = page("a < b", &body);
        for expected in
            ["<title>bentpipe: a &lt; b</title>", "<h1>a &lt; b</h1>", "&lt;script&gt;", "<svg></svg>", "td.number"]
        {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(!page.contains("http"), "everything is in the file");
    }
}
