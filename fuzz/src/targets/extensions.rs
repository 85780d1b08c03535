//! Extensions that an application adds to a router, and requests for their methods.

use std::collections::BTreeMap;

use mcp_application::router::{Extension, Routed, Router};
use mcp_proto::{Json, Method, ProtocolVersion};

/// What the extensions are compared with: their ids and settings, and the extension of each method.
#[derive(Default)]
struct Model {
    ids: Vec<String>,
    methods: BTreeMap<String, usize>,
    is_mistaken: bool,
}

impl Model {
    /// Notes an extension. One with a mistake leaves the others as they are, and the router cannot be served.
    fn add(&mut self, id: &str, methods: &[&str]) -> bool {
        let is_id = id.split_once('/').is_some_and(|(vendor, name)| !vendor.is_empty() && !name.is_empty());
        let is_own = |method: &str| !Method::ALL.iter().any(|known| known.as_str() == method);
        let mut own: Vec<_> = methods.to_vec();
        own.sort_unstable();
        let is_twice = own.windows(2).any(|pair| pair[0] == pair[1]);
        let is_taken = own.iter().any(|method| self.methods.contains_key(*method));
        if !is_id
            || is_twice
            || is_taken
            || !own.iter().all(|method| is_own(method))
            || self.ids.iter().any(|other| other == id)
        {
            self.is_mistaken = true;
            return false;
        }
        for method in own {
            self.methods.insert(method.to_owned(), self.ids.len());
        }
        self.ids.push(id.to_owned());
        true
    }
}

/// Each line of the input is an extension: its id and its methods, between spaces; or a request for a method, behind `?`. A
/// request reaches the function of the extension that has the method, whatever was added; mistakes are stated, and each
/// extension is declared once.
pub fn extensions(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mut router, mut model) = (Router::new(), Model::default());
    for line in text.lines() {
        if let Some(method) = line.strip_prefix('?') {
            if model.is_mistaken {
                continue;
            }
            for version in [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST] {
                let found = router.route(&Method::from(method), None, version);
                match (found, model.methods.get(method)) {
                    (Routed::Handled { handler, .. }, Some(expected)) => assert_eq!(handler, *expected, "{method}"),
                    (Routed::Unrouted, None) => {}
                    (found, expected) => panic!("{method}: {found:?}, expected {expected:?}"),
                }
            }
            continue;
        }
        let mut words = line.split(' ');
        let id = words.next().unwrap_or_default();
        let methods: Vec<_> = words.collect();
        let mut extension = Extension::<usize, ()>::new(id);
        extension.set("id", &Json::from(id));
        for method in &methods {
            extension.add_method(method, model.ids.len());
        }
        model.add(id, &methods);
        assert!(router.add_extension(extension).is_empty());
    }
    match router.capabilities(false) {
        Err(_) => assert!(model.is_mistaken),
        Ok(capabilities) => {
            assert!(!model.is_mistaken, "a mistake is not stated");
            let declared = capabilities.extensions.unwrap_or_default();
            let entries: Vec<_> = declared.as_json().entries().collect();
            assert_eq!(entries.len(), model.ids.len());
            for ((name, settings), id) in entries.iter().zip(&model.ids) {
                assert_eq!(name.as_deref(), Some(id.as_str()));
                assert_eq!(settings.first_member("id"), Some(Json::from(id.as_str())));
            }
        }
    }
}
