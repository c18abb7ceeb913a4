//! The page that a browser is opened with: it goes to a UI elsewhere, or to the viewer where the browser does not reach
//! that UI.
//!
//! Only the browser can know what it reaches: it may have a proxy, or another machine's network (`ssh -L`).

use super::{escaped, hash};

const SCRIPT: &str = include_str!("js/start.js");

/// Where the page leads.
#[derive(Clone, Copy, Debug)]
pub struct StartLinks<'a> {
    /// Address of the UI, without a profile.
    pub ui: &'a str,
    /// Address of the UI with the profile.
    pub open: &'a str,
    /// Address of the viewer.
    pub viewer: &'a str,
}

/// The page and its policy.
pub fn start_page(links: &StartLinks<'_>) -> (String, String) {
    let StartLinks { ui, open, viewer } = links;
    let text = |link: &str| escaped(link).replace('"', "&quot;");
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>sprof</title>\n</head>\n<body>\n<main>\n<h1>sprof</h1>\n<p role=\"status\">Opening {ui} ...</p>\n\
         <p><a id=\"ui\" data-test=\"{ui}\" href=\"{}\">The profile in {ui}</a></p>\n\
         <p><a id=\"viewer\" href=\"{}\">The built-in viewer</a>, which needs no internet</p>\n</main>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        text(open),
        text(viewer),
        ui = text(ui),
    );
    // A UI may redirect to another place.
    let policy = format!(
        "default-src 'none'; connect-src http: https:; script-src {}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT)
    );
    (page, policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_text() {
        let hostile = "https://ui.example/\"><script>alert(1)</script>&";
        let links = StartLinks {
            ui: hostile,
            open: hostile,
            viewer: "http://127.0.0.1:3000/token/view/",
        };
        let (page, policy) = start_page(&links);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(
            policy.contains("script-src 'sha256-") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(SCRIPT.is_ascii() && !SCRIPT.contains("</"));
    }
}
