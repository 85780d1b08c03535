//! Web pages that a host shows for tools: MCP Apps (the extension `io.modelcontextprotocol/ui`).

use mcp_proto::Json;
use mcp_proto::spec::UI_EXTENSION;

use super::define::{object, string_enum};
use super::initialize::ClientCapabilities;
use super::object::Value as _;
use super::resources::{ReadResourceResult, Resource, ResourceContents, TextResourceContents};
use super::tools::Tool;
use super::value::{JsonObject, Meta};
use crate::Payload as _;

/// The media type of a page.
pub const APP_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// The entry of `_meta` with all that the extension states.
const UI: &str = "ui";

/// The URI of the page of a tool as drafts of the extension had it, which some servers still write.
const DRAFT_URI: &str = "ui/resourceUri";

object! {
    /// What a tool has to do with a page: `_meta.ui` of the tool.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{Tool, ToolUi, ToolVisibility};
    ///
    /// let weather = Tool::without_arguments("weather").ui(&ToolUi::app("ui://weather/view"));
    /// let refresh = Tool::without_arguments("refresh").ui(&ToolUi::app("ui://weather/view").visibility([ToolVisibility::App]));
    /// assert_eq!(weather.read_ui().unwrap().resource_uri.as_deref(), Some("ui://weather/view"));
    /// assert!(weather.is_for_model() && weather.is_for_app());
    /// assert!(!refresh.is_for_model() && refresh.is_for_app());
    /// ```
    ToolUi {
        optional {
            /// The URI of the page that shows its results; it begins with `ui://`.
            resource_uri: String = "resourceUri",
            /// Who may call it; by default both.
            visibility: Vec<ToolVisibility> = "visibility",
        }
    }
}

string_enum! {
    /// Who may call a tool.
    ToolVisibility {
        /// The language model.
        Model = "model",
        /// The pages of the same server.
        App = "app",
    }
}

object! {
    /// What a page needs of its host: `_meta.ui` of the resource.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{JsonObject, AppCsp, AppPermissions, AppUi};
    ///
    /// let ui = AppUi::new()
    ///     .csp(AppCsp::new().connect_domains(["https://api.example.com".to_owned()]))
    ///     .permissions(AppPermissions::new().geolocation(JsonObject::new()));
    /// assert!(ui.content_security_policy().contains("connect-src 'self' https://api.example.com;"));
    /// ```
    AppUi {
        optional {
            /// Which origins it may use; by default none.
            csp: AppCsp = "csp",
            /// Which capabilities of the browser it asks for. The host may deny them.
            permissions: AppPermissions = "permissions",
            /// The origin that it needs for itself, in the form that the host documents.
            domain: String = "domain",
            /// Whether the host should show a border and a background around it.
            prefers_border: bool = "prefersBorder",
        }
    }
}

object! {
    /// The origins that a page uses, such as `https://api.example.com` or `https://*.example.com`.
    AppCsp {
        optional {
            /// Those that it sends requests to.
            connect_domains: Vec<String> = "connectDomains",
            /// Those of images, scripts, style sheets, fonts and media.
            resource_domains: Vec<String> = "resourceDomains",
            /// Those of frames inside of it.
            frame_domains: Vec<String> = "frameDomains",
            /// Those that may be its base URI.
            base_uri_domains: Vec<String> = "baseUriDomains",
        }
    }
}

object! {
    /// The capabilities of the browser that a page asks for: each is an empty object, or absent.
    AppPermissions {
        optional {
            /// The camera.
            camera: JsonObject = "camera",
            /// The microphone.
            microphone: JsonObject = "microphone",
            /// The position.
            geolocation: JsonObject = "geolocation",
            /// Writing to the clipboard.
            clipboard_write: JsonObject = "clipboardWrite",
        }
    }
}

impl ToolUi {
    /// A tool whose results are shown by the page with this URI.
    #[must_use]
    pub fn app(uri: &str) -> Self {
        Self::new().resource_uri(uri)
    }
}

impl Tool {
    /// Links it to a page, or restricts who may call it.
    #[must_use]
    pub fn ui(mut self, ui: &ToolUi) -> Self {
        self.meta = Some(self.meta.take().unwrap_or_default().with(UI, ui.to_json()));
        self
    }

    /// What it has to do with a page, if it states that. The URI is also read from the entry that drafts of the extension had.
    #[must_use]
    pub fn read_ui(&self) -> Option<ToolUi> {
        let meta = self.meta.as_ref()?;
        let ui: Option<ToolUi> = meta.entry(UI);
        match meta.entry::<String>(DRAFT_URI) {
            Some(uri) if ui.as_ref().is_none_or(|ui| ui.resource_uri.is_none()) => {
                Some(ui.unwrap_or_default().resource_uri(uri))
            }
            Some(_) | None => ui,
        }
    }

    /// Whether a language model may see and call it. A host leaves the others out of the list for its model.
    #[must_use]
    pub fn is_for_model(&self) -> bool {
        self.is_for(&ToolVisibility::Model)
    }

    /// Whether pages of the same server may call it. A host refuses all other calls of a page.
    #[must_use]
    pub fn is_for_app(&self) -> bool {
        self.is_for(&ToolVisibility::App)
    }

    /// A restriction that cannot be read permits nobody, and is read also where the rest of the entry cannot be.
    fn is_for(&self, caller: &ToolVisibility) -> bool {
        let ui = self.meta.as_ref().and_then(|meta| meta.get(UI));
        let restriction = ui.and_then(|ui| ui.first_member("visibility"));
        restriction
            .is_none_or(|callers| Vec::<ToolVisibility>::read(&callers).is_ok_and(|callers| callers.contains(caller)))
    }
}

impl Resource {
    /// A page for the list of resources.
    #[must_use]
    pub fn app(uri: &str, name: &str) -> Self {
        Self::new(uri, name).mime_type(APP_MIME_TYPE)
    }
}

impl TextResourceContents {
    /// A page, with what it needs of its host.
    #[must_use]
    pub fn app(uri: &str, html: impl Into<String>, ui: &AppUi) -> Self {
        Self::new(uri, html).mime_type(APP_MIME_TYPE).meta(Meta::new().with(UI, ui.to_json()))
    }
}

/// A page as a host receives it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedApp {
    /// The HTML. It is the server's: a host shows it in a sandboxed frame of another origin than its own.
    pub html: String,
    /// What it needs.
    pub ui: AppUi,
}

impl ReadResourceResult {
    /// The page that was read; `None` if there are no contents of the media type [`APP_MIME_TYPE`] that are UTF-8.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::{AppUi, ReadResourceResult, TextResourceContents};
    ///
    /// let contents = TextResourceContents::app("ui://a", "<p>Hello", &AppUi::new().prefers_border(true));
    /// let page = ReadResourceResult::new([contents.into()]).into_app().unwrap();
    /// assert_eq!((page.html.as_str(), page.ui.prefers_border), ("<p>Hello", Some(true)));
    /// let contents = TextResourceContents::new("ui://a", "<p>Hello").mime_type("text/html");
    /// assert!(ReadResourceResult::new([contents.into()]).into_app().is_none());
    /// ```
    #[must_use]
    pub fn into_app(self) -> Option<ReceivedApp> {
        self.contents.into_iter().find_map(|contents| {
            let (mime_type, html, meta) = match contents {
                ResourceContents::Text(text) => (text.mime_type, Some(text.text), text.meta),
                ResourceContents::Blob(blob) => {
                    let html = blob.to_bytes().ok().and_then(|bytes| String::from_utf8(bytes).ok());
                    (blob.mime_type, html, blob.meta)
                }
                ResourceContents::Other(_) => return None,
            };
            let ui = meta.and_then(|meta| meta.entry(UI)).unwrap_or_default();
            is_app(mime_type.as_deref()?).then_some(ReceivedApp { html: html?, ui })
        })
    }
}

/// Whether this is [`APP_MIME_TYPE`], however it is written.
fn is_app(mime_type: &str) -> bool {
    let mut parts = mime_type.split(';').map(str::trim);
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"))
        && parts.any(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("profile") && value.trim_matches('"').eq_ignore_ascii_case("mcp-app")
            })
        })
}

impl ClientCapabilities {
    /// These capabilities, and that the client shows pages.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_model::ClientCapabilities;
    ///
    /// assert!(!ClientCapabilities::new().shows_apps());
    /// assert!(ClientCapabilities::new().with_apps().shows_apps());
    /// ```
    #[must_use]
    pub fn with_apps(mut self) -> Self {
        self.extensions = Some(self.extensions.take().unwrap_or_default().with(UI_EXTENSION, Self::apps_settings()));
        self
    }

    /// The settings of the extension `io.modelcontextprotocol/ui` of a client that shows pages.
    #[must_use]
    pub fn apps_settings() -> JsonObject {
        JsonObject::new().with("mimeTypes", Json::array([&Json::from(APP_MIME_TYPE)]))
    }

    /// Whether the client shows pages. A server gives every tool a result that is of use without its page, too.
    #[must_use]
    pub fn shows_apps(&self) -> bool {
        let settings = self.extensions.as_ref().and_then(|extensions| extensions.as_json().first_member(UI_EXTENSION));
        let types = settings.and_then(|settings| Vec::<String>::read(&settings.first_member("mimeTypes")?).ok());
        types.is_some_and(|types| types.iter().any(|mime_type| is_app(mime_type)))
    }
}

impl AppUi {
    /// The `Content-Security-Policy` with which a host serves the page: nothing but what it has declared, besides its own
    /// origin, scripts and styles inside of it, and images and media in `data:` URLs. It sends no forms, and has no plug-ins. A
    /// declared origin that is none, with which a page could add directives of its own, is left out.
    ///
    /// Who may embed the page is not in it: a host adds `frame-ancestors` with its own origin.
    #[must_use]
    pub fn content_security_policy(&self) -> String {
        let declared = |origins_of: fn(&AppCsp) -> &Option<Vec<String>>| {
            let origins = self.csp.as_ref().and_then(|csp| origins_of(csp).as_deref()).unwrap_or_default();
            let origins = origins.iter().filter(|origin| is_origin(origin));
            origins.fold(String::new(), |all, origin| all + " " + origin)
        };
        let resources = declared(|csp| &csp.resource_domains);
        let or = |declared: String, otherwise: &str| if declared.is_empty() { otherwise.to_owned() } else { declared };
        let connections = declared(|csp| &csp.connect_domains);
        let connections = if connections.is_empty() { " 'none'".to_owned() } else { format!(" 'self'{connections}") };
        let frames = or(declared(|csp| &csp.frame_domains), " 'none'");
        let bases = or(declared(|csp| &csp.base_uri_domains), " 'self'");
        format!(
            "default-src 'none'; script-src 'self' 'unsafe-inline'{resources}; style-src 'self' 'unsafe-inline'{resources}; \
             img-src 'self' data:{resources}; font-src 'self'{resources}; media-src 'self' data:{resources}; \
             connect-src{connections}; frame-src{frames}; object-src 'none'; base-uri{bases}; form-action 'none';"
        )
    }
}

/// Whether this is a source expression of a host: a scheme, a host that may begin with `*.`, and perhaps a port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (host, port) = rest.rsplit_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let labels = host.strip_prefix("*.").unwrap_or(host);
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    matches!(scheme, "https" | "http" | "wss" | "ws")
        && labels.split('.').all(is_label)
        && port.is_none_or(|port| port == "*" || (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(meta: &str) -> Tool {
        let text = format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"_meta":{meta}}}"#);
        Tool::from_json(&Json::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn a_tool_is_linked_to_a_page_in_the_form_of_the_extension_and_of_its_drafts() {
        for (meta, uri, model, page) in [
            ("{}", None, true, true),
            (r#"{"ui":{"resourceUri":"ui://a"}}"#, Some("ui://a"), true, true),
            (r#"{"ui/resourceUri":"ui://a"}"#, Some("ui://a"), true, true),
            (r#"{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://b"}"#, Some("ui://a"), true, true),
            (r#"{"ui":{"visibility":["app"]},"ui/resourceUri":"ui://b"}"#, Some("ui://b"), false, true),
            (r#"{"ui":{"resourceUri":"ui://a","visibility":["model"]}}"#, Some("ui://a"), true, false),
            (r#"{"ui":{"visibility":[]}}"#, None, false, false),
            (r#"{"ui":{"visibility":["model","other"]}}"#, None, true, false),
            // What cannot be read states nothing, and a restriction permits nobody.
            (r#"{"ui":7}"#, None, true, true),
            (r#"{"ui":{"visibility":"app"}}"#, None, false, false),
            (r#"{"ui":{"visibility":["app",7]}}"#, None, false, false),
            (r#"{"ui":{"resourceUri":7,"visibility":["app"]}}"#, None, false, true),
        ] {
            let tool = tool(meta);
            assert_eq!(tool.read_ui().and_then(|ui| ui.resource_uri).as_deref(), uri, "{meta}");
            assert_eq!((tool.is_for_model(), tool.is_for_app()), (model, page), "{meta}");
        }
        let linked = tool(r#"{"other":1}"#).ui(&ToolUi::app("ui://a"));
        assert_eq!(linked.meta.unwrap().get("other"), Some(&Json::from(1)));
    }

    #[test]
    fn a_media_type_is_compared_as_one() {
        for (mime_type, is) in [
            (APP_MIME_TYPE, true),
            ("text/html; profile=mcp-app", true),
            ("Text/HTML;charset=utf-8;Profile=\"mcp-app\"", true),
            ("text/html", false),
            ("text/html;profile=mcp-app-2", false),
            ("text/plain;profile=mcp-app", false),
            ("", false),
        ] {
            assert_eq!(is_app(mime_type), is, "{mime_type}");
        }
    }

    #[test]
    fn a_page_is_read_from_a_text_and_from_bytes() {
        for contents in [r#""text":"<p>""#, r#""blob":"PHA+""#] {
            let text = format!(
                r#"{{"contents":[{{"uri":"ui://a","mimeType":"text/plain","text":"x"}},{{"uri":"ui://a","mimeType":"{APP_MIME_TYPE}",{contents},"_meta":{{"ui":{{"domain":"d"}}}}}}]}}"#
            );
            let result = ReadResourceResult::from_json(&Json::parse(text).unwrap()).unwrap();
            let page = result.into_app().unwrap();
            assert_eq!((page.html.as_str(), page.ui.domain.as_deref()), ("<p>", Some("d")));
        }
    }

    #[test]
    fn a_policy_has_what_was_declared_and_a_page_cannot_add_directives() {
        let restrictive = AppUi::new().content_security_policy();
        assert_eq!(
            restrictive,
            "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
             font-src 'self'; media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'; \
             form-action 'none';"
        );
        let good = "https://*.example.com:8443";
        for bad in [
            "*",
            "https:",
            "https://",
            "https://a;script-src *",
            "https://a script-src",
            "'unsafe-eval'",
            "https://a\nb",
            "data:",
            "https://*",
            "https://a.*.com",
            "https://a/path",
            "javascript://a",
            "https://a:",
            "https://a:8x",
            "",
        ] {
            let domains = || [bad.to_owned(), good.to_owned()];
            let csp = AppCsp::new()
                .connect_domains(domains())
                .resource_domains(domains())
                .frame_domains(domains())
                .base_uri_domains(domains());
            let policy = AppUi::new().csp(csp).content_security_policy();
            assert_eq!(policy.matches(good).count(), 8, "{policy}");
            let without = policy.replace(&format!(" {good}"), "").replace("connect-src 'self'", "connect-src 'none'");
            let without = without.replace("frame-src;", "frame-src 'none';").replace("base-uri;", "base-uri 'self';");
            assert_eq!(without, restrictive, "{bad}");
        }
    }

    #[test]
    fn a_client_shows_apps_only_if_it_names_their_media_type() {
        for (capabilities, shows) in [
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#, true),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, false),
            (r#"{"extensions":{}}"#, false),
        ] {
            let capabilities = ClientCapabilities::from_json(&Json::parse(capabilities.to_owned()).unwrap()).unwrap();
            assert_eq!(capabilities.shows_apps(), shows);
        }
    }
}
