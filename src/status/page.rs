//! The page: one document that loads nothing but the data.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256};

const DOCUMENT: &str = include_str!("page/status.html");
const STYLE: &str = include_str!("page/status.css");
const SCRIPT: &str = include_str!("page/status.js");

/// The marks in the document that style and script replace.
const STYLE_MARK: &str = "/*style*/";
const SCRIPT_MARK: &str = "/*script*/";

pub struct Page {
    pub html: Bytes,
    /// The Content-Security-Policy. It allows this style and this script by their
    /// hashes, and requests to the same origin.
    pub policy: String,
}

/// Returns the page, which is the same for every caller.
pub fn page() -> &'static Page {
    static PAGE: LazyLock<Page> = LazyLock::new(Page::new);
    &PAGE
}

impl Page {
    fn new() -> Self {
        let html = DOCUMENT
            .replacen(STYLE_MARK, STYLE, 1)
            .replacen(SCRIPT_MARK, SCRIPT, 1);
        let (style, script) = (hash(STYLE), hash(SCRIPT));
        Self {
            html: html.into(),
            policy: format!(
                "default-src 'none'; script-src '{script}'; style-src '{style}'; \
                 connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                 frame-ancestors 'none'"
            ),
        }
    }
}

fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_its_style_and_script_once() {
        for (mark, tag) in [(STYLE_MARK, "style"), (SCRIPT_MARK, "script")] {
            let element = format!("<{tag}>{mark}</{tag}>");
            assert_eq!(DOCUMENT.matches(&element).count(), 1, "{element}");
            let html = std::str::from_utf8(&page().html).unwrap();
            assert_eq!(html.matches(&format!("</{tag}>")).count(), 1, "{tag}");
        }
    }

    /// Callers choose names that the page shows. They must stay text.
    #[test]
    fn the_page_makes_no_markup_of_data() {
        let html = std::str::from_utf8(&page().html).unwrap();
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "Function(",
            "srcdoc",
            "setHTML",
            " style=",
            " onclick=",
            "src=",
        ] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        // Nothing is loaded from elsewhere: names of XML namespaces are not loaded.
        let urls = html.matches("http").count();
        assert_eq!(urls, html.matches("http://www.w3.org/2000/svg").count());
    }
}
