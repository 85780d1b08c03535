//! Results that the server allows to be cached (RULES 8.8).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use crate::Instant;
use crate::conversation::call::Call;
use crate::conversation::keys::RequestKey;
use crate::json::Json;
use crate::spec::{Change, List, Method};

/// Bytes that an entry takes in addition to its text.
const ENTRY: usize = 512;
/// The most bytes of parameters that are compared. Requests with more are not cached.
const LONGEST: usize = 4096;

/// Results of requests, until they expire or the server reports a change.
#[derive(Debug)]
pub(super) struct Cache {
    /// The most bytes of all entries. With zero, nothing is cached.
    limit: usize,
    entries: BTreeMap<Key, Entry>,
    /// The keys by the time at which they expire. The number makes each unique.
    by_expiry: BTreeMap<(Instant, u64), Key>,
    last: u64,
    weight: usize,
    /// Requests that were sent, and whose results may be cached.
    sent: BTreeMap<RequestKey, Key>,
}

/// A method with the parameters that determine its result (MD-K-02).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    method: Method,
    /// The URI of a resource, or nothing.
    uri: String,
    /// All parameters without `_meta`, as text.
    params: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    result: Json,
    /// Only the principal whose request it answered may use it.
    is_private: bool,
    expires: (Instant, u64),
}

impl Cache {
    /// A cache of this many bytes; `None` if that is 0.
    pub(super) fn new(limit: usize) -> Option<Self> {
        let (entries, by_expiry, sent) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        (limit > 0).then_some(Self { limit, entries, by_expiry, last: 0, weight: 0, sent })
    }

    /// The result of such a request, if it is fresh (MD-K-03).
    pub(super) fn find(&self, key: &CacheKey, now: Instant) -> Option<Json> {
        let entry = self.entries.get(&key.0)?;
        (now < entry.expires.0).then(|| entry.result.clone())
    }

    /// A request was made, whose result may be cached.
    pub(super) fn expect(&mut self, request: RequestKey, key: CacheKey) {
        self.sent.insert(request, key.0);
    }

    /// The key of a request whose result may be cached.
    pub(super) fn key(call: &Call) -> Option<CacheKey> {
        // What another client requests is passed through.
        if call.is_unchanged() {
            return None;
        }
        Key::of(&call.method, call.params.as_ref()).map(CacheKey)
    }

    /// A request has ended without a result that may be cached.
    pub(super) fn forget(&mut self, request: RequestKey) {
        self.sent.remove(&request);
    }

    /// Stores the complete result of a request, for the time that the server allows.
    pub(super) fn store(&mut self, request: RequestKey, result: &Json, now: Instant) {
        let Some(key) = self.sent.remove(&request) else { return };
        self.remove(&key);
        let [kind, ttl, scope] = result.first_members(["resultType", "ttlMs", "cacheScope"]);
        // The kinds of results of extensions are not cached (MD-K-01).
        if kind.is_some_and(|kind| kind.as_bytes() != b"\"complete\"") {
            return;
        }
        // An absent or a negative time is none (MD-K-03).
        let ttl = ttl.and_then(|ttl| ttl.to_text().parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
        let weight = key.weight() + result.len();
        if ttl.is_zero() || weight > self.limit {
            return;
        }
        while self.by_expiry.first_key_value().is_some_and(|((expires, _), _)| *expires <= now)
            || self.weight + weight > self.limit
        {
            let Some((_, oldest)) = self.by_expiry.pop_first() else { break };
            self.remove(&oldest);
        }
        self.last += 1;
        let expires = (now + ttl, self.last);
        // Anything but `public` is for this principal only.
        let is_private = scope.is_none_or(|scope| scope.as_bytes() != b"\"public\"");
        self.weight += weight;
        self.by_expiry.insert(expires, key.clone());
        // A copy, because a slice would keep the whole frame in memory (M3).
        let result = result.clone().detached_from(usize::MAX);
        self.entries.insert(key, Entry { result, is_private, expires });
    }

    /// The server has reported a change: the results that it concerns are not fresh any more, including those of
    /// requests that are not answered yet (MD-K-03).
    pub(super) fn on_notification(&mut self, method: &Method, params: Option<&Json>) {
        match method.facts().change {
            Some(Change::List(list)) => {
                for method in list.requests() {
                    self.remove_all(method);
                }
                // The files of skills are resources, and no notification is for their list alone (SK-05).
                if list == List::Resources {
                    self.remove_all(&Method::SKILLS_LIST);
                }
            }
            Some(Change::Resource) => {
                let uri = params.and_then(|params| params.first_member("uri"));
                match uri.as_ref().and_then(Json::as_string) {
                    Some(uri) if uri.len() <= LONGEST => self.on_changed_resource(&uri),
                    Some(_) | None => self.remove_all(&Method::RESOURCES_READ),
                }
            }
            Some(Change::Task) | None => {}
        }
    }

    /// The resource has changed, and so have those that contain it or that it contains (MD-L-15).
    fn on_changed_resource(&mut self, uri: &str) {
        let is_outer = |outer: &str| {
            let inner = uri.strip_prefix(outer);
            inner.is_some_and(|inner| outer.ends_with('/') || inner.starts_with('/'))
        };
        self.remove_each(&Method::RESOURCES_READ, |read| read.starts_with(uri) || is_outer(read));
    }

    /// Removes everything: changes may have been missed (MD-L-11).
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.clear_entries();
    }

    /// Removes the entries, because there is a new connection. Waiting requests are sent on it, so their results may
    /// still be cached.
    pub(super) fn clear_entries(&mut self) {
        self.entries.clear();
        self.by_expiry.clear();
        self.weight = 0;
    }

    /// Another principal makes requests from now on, or the same with another token (MD-K-02).
    pub(super) fn clear_private(&mut self) {
        self.sent.clear();
        let private = self.entries.iter().filter(|(_, entry)| entry.is_private);
        for key in private.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// The bytes of all entries.
    pub(super) const fn weight(&self) -> usize {
        self.weight
    }

    /// Removes the results of a method.
    fn remove_all(&mut self, method: &Method) {
        self.remove_each(method, |_| true);
    }

    /// Removes the results of a method whose URIs satisfy `is_concerned`.
    fn remove_each(&mut self, method: &Method, is_concerned: impl Fn(&str) -> bool) {
        self.sent.retain(|_, key| key.method != *method || !is_concerned(&key.uri));
        let after = self.entries.range((Bound::Included(Key::first(method.clone(), "")), Bound::Unbounded));
        let of_method = after.map(|(key, _)| key).take_while(|key| key.method == *method);
        let concerned = of_method.filter(|key| is_concerned(&key.uri)).cloned();
        for key in concerned.collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.weight -= key.weight() + entry.result.len();
            self.by_expiry.remove(&entry.expires);
        }
    }
}

/// The key of a request whose result may be cached.
#[derive(Debug)]
pub(super) struct CacheKey(Key);

impl Key {
    /// The key of a request; `None` if its result must not be cached.
    fn of(method: &Method, params: Option<&Json>) -> Option<Self> {
        // A client requests the entry of one skill because it needs the current one (SK-07).
        if !method.facts().is_cacheable || *method == Method::SKILLS_GET {
            return None;
        }
        let Some(params) = params else { return Some(Self::first(method.clone(), "")) };
        // The result of a retry with input is never cached (MD-I-14).
        let [input, state, uri] = params.first_members(["inputResponses", "requestState", "uri"]);
        if input.is_some() || state.is_some() {
            return None;
        }
        let params = params.without_members(&["_meta"]);
        if params.len() > LONGEST {
            return None;
        }
        let uri = uri.as_ref().and_then(Json::as_string).unwrap_or_default().into_owned();
        // No parameters and empty ones are the same.
        let params = if params == Json::empty_object() { Vec::new() } else { params.as_bytes().to_vec() };
        Some(Self { method: method.clone(), uri, params })
    }

    /// The first key of a method and a URI.
    fn first(method: Method, uri: &str) -> Self {
        Self { method, uri: uri.to_owned(), params: Vec::new() }
    }

    /// Each text exists twice.
    fn weight(&self) -> usize {
        ENTRY + 2 * (self.uri.len() + self.params.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache, and the number of the last request.
    struct Made {
        cache: Cache,
        requests: u64,
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    fn call(method: &'static str, params: &str) -> Call {
        let call = Call::new(method);
        if params.is_empty() { call } else { call.params(Json::parse(params.to_owned()).unwrap()) }
    }

    fn result(text: &str, ttl: i64, scope: &str) -> Json {
        Json::parse(format!(r#"{{"text":"{text}","ttlMs":{ttl},"cacheScope":"{scope}"}}"#)).unwrap()
    }

    impl Made {
        fn new(limit: usize) -> Self {
            Self { cache: Cache::new(limit).expect("a limit"), requests: 0 }
        }

        /// Makes a request that is answered with `result`.
        fn store(&mut self, method: &'static str, params: &str, result: &Json, now: Instant) {
            if let Some(request) = self.expect(method, params) {
                self.cache.store(request, result, now);
            }
        }

        fn expect(&mut self, method: &'static str, params: &str) -> Option<RequestKey> {
            let key = Cache::key(&call(method, params))?;
            self.requests += 1;
            let request = RequestKey::for_tests(self.requests);
            self.cache.expect(request, key);
            Some(request)
        }

        fn has(&self, method: &'static str, params: &str, now: Instant) -> bool {
            Cache::key(&call(method, params)).is_some_and(|key| self.cache.find(&key, now).is_some())
        }

        fn notify(&mut self, method: &'static str, params: &str) {
            let params = (!params.is_empty()).then(|| Json::parse(params.to_owned()).unwrap());
            self.cache.on_notification(&Method::from(method), params.as_ref());
        }
    }

    #[test]
    fn md_k_03_a_result_is_fresh_until_its_time_is_over() {
        let mut made = Made::new(10_000);
        made.store("tools/list", "", &result("a", 100, "public"), at(50));
        assert!(made.has("tools/list", "", at(149)) && !made.has("tools/list", "", at(150)));
        for other in [r#"{"ttlMs":-1}"#, r#"{"ttlMs":0}"#, "{}", r#"{"ttlMs":"9"}"#] {
            made.store("tools/list", "", &Json::parse(other).unwrap(), at(60));
            assert!(!made.has("tools/list", "", at(60)), "{other} replaces it");
        }
    }

    #[test]
    fn md_k_02_a_result_belongs_to_its_method_and_parameters() {
        let mut made = Made::new(10_000);
        made.store("tools/list", r#"{"_meta":{"progressToken":1}}"#, &result("a", 9, "private"), at(0));
        for params in ["", "{}", r#"{"_meta":{"progressToken":2}}"#] {
            assert!(made.has("tools/list", params, at(0)), "{params}");
        }
        assert!(!made.has("tools/list", r#"{"cursor":""}"#, at(0)) && !made.has("prompts/list", "", at(0)));
        for (method, params) in
            [("tools/call", "{}"), ("x/list", "{}"), ("resources/read", r#"{"uri":"a","requestState":"s"}"#)]
        {
            made.store(method, params, &result("a", 9, "private"), at(0));
            assert!(!made.has(method, params, at(0)), "MD-K-01, MD-I-14: {method} {params}");
        }
        let task = result("a", 9, "public").with_member("resultType", &Json::from("task"));
        made.store("prompts/list", "", &task, at(0));
        assert!(!made.has("prompts/list", "", at(0)), "JR-15: a kind of an extension");
        let long = format!(r#"{{"uri":"{}"}}"#, "a".repeat(LONGEST));
        made.store("resources/read", &long, &result("a", 9, "private"), at(0));
        assert!(!made.has("resources/read", &long, at(0)));
    }

    #[test]
    fn md_k_02_private_results_are_of_one_principal() {
        let mut made = Made::new(10_000);
        made.store("tools/list", "", &result("a", 9, "public"), at(0));
        made.store("prompts/list", "", &result("a", 9, "private"), at(0));
        made.store("resources/list", "", &Json::parse(r#"{"ttlMs":9}"#).unwrap(), at(0));
        let early = made.expect("resources/templates/list", "").unwrap();
        made.cache.clear_private();
        made.cache.store(early, &result("a", 9, "private"), at(0));
        let has = |method| made.has(method, "", at(0));
        assert!(has("tools/list") && !has("prompts/list") && !has("resources/list"));
        assert!(!has("resources/templates/list"), "it was requested by the other principal");
    }

    #[test]
    fn md_k_03_a_change_ends_what_it_concerns_and_what_is_on_its_way() {
        let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
        let resources = ["b:/", "b:/d", "b:/d/", "b:/d/e", "b:/d/e/", "b:/d/e/f", "b:/d/ex", "b:/da", "c:/d/e"];
        let uri = |uri: &str| format!(r#"{{"uri":"{uri}"}}"#);
        for (notification, params, ended) in [
            ("notifications/tools/list_changed", String::new(), &["tools/list"][..]),
            ("notifications/prompts/list_changed", String::new(), &["prompts/list"]),
            ("notifications/resources/list_changed", String::new(), &["resources/list", "resources/templates/list"]),
            (
                "notifications/resources/updated",
                uri("b:/d/e"),
                &["b:/", "b:/d", "b:/d/", "b:/d/e", "b:/d/e/", "b:/d/e/f", "b:/d/ex"],
            ),
            ("notifications/resources/updated", "{}".to_owned(), &resources),
            ("notifications/message", String::new(), &[]),
        ] {
            let mut made = Made::new(100_000);
            let all = lists.iter().map(|list| (*list, *list, String::new()));
            let all: Vec<_> = all.chain(resources.map(|name| ("resources/read", name, uri(name)))).collect();
            for (method, _, params) in &all {
                made.store(method, params, &result("a", 9, "public"), at(0));
            }
            made.notify(notification, &params);
            for (method, name, params) in &all {
                assert_eq!(made.has(method, params, at(0)), !ended.contains(name), "{notification} {name}");
            }
            // A result that was requested before the change is not stored after it.
            let mut made = Made::new(100_000);
            let sent: Vec<_> = all.iter().map(|(method, _, params)| made.expect(method, params).unwrap()).collect();
            made.notify(notification, &params);
            for request in sent {
                made.cache.store(request, &result("a", 9, "public"), at(0));
            }
            for (method, name, params) in &all {
                assert_eq!(made.has(method, params, at(0)), !ended.contains(name), "{notification} {name}, sent");
            }
        }
    }

    #[test]
    fn the_entries_that_expire_first_make_room_and_the_weight_is_that_of_the_entries() {
        let mut made = Made::new(4 * (ENTRY + 100));
        for number in 0..100_u64 {
            let params = format!(r#"{{"cursor":"{number}"}}"#);
            // Those with odd numbers are fresh for a longer time.
            made.store(
                "tools/list",
                &params,
                &result("a", if number % 2 == 0 { 1000 } else { 2000 }, "public"),
                at(number),
            );
            assert!(made.cache.weight <= made.cache.limit && made.cache.entries.len() <= 4);
            assert_eq!(made.cache.entries.len(), made.cache.by_expiry.len());
            let weights = made.cache.entries.iter().map(|(key, entry)| key.weight() + entry.result.len());
            assert_eq!(made.cache.weight, weights.sum::<usize>());
        }
        assert!(
            made.has("tools/list", r#"{"cursor":"99"}"#, at(100))
                && made.has("tools/list", r#"{"cursor":"97"}"#, at(100))
        );
        assert!(!made.has("tools/list", r#"{"cursor":"0"}"#, at(100)));
        made.store("tools/list", "", &result(&"a".repeat(10_000), 1000, "public"), at(100));
        assert!(!made.has("tools/list", "", at(100)), "it has no room alone");
        made.cache.clear();
        assert_eq!((made.cache.weight, made.cache.entries.len()), (0, 0));
        assert!(Cache::new(0).is_none());
    }

    #[test]
    fn nothing_is_kept_of_a_result_that_was_removed() {
        type End = (&'static str, fn(&mut Made));

        let (public, private) = (result("x", 1000, "public"), result("x", 1000, "private"));
        let ends: [End; 5] = [
            ("the list has changed", |made| made.cache.on_notification(&Method::TOOLS_LIST_CHANGED, None)),
            ("another principal", |made| made.cache.clear_private()),
            ("a newer result that is not cached", |made| {
                let result = result("y", 0, "private");
                made.store("tools/list", "", &result, at(1));
            }),
            ("a newer result", |made| {
                let result = result("y", 1000, "private");
                made.store("tools/list", "", &result, at(1));
                made.cache.clear_private();
            }),
            ("expired", |made| {
                let result = result("y", 1000, "private");
                made.store("prompts/list", "", &result, at(2000));
                made.cache.clear_private();
            }),
        ];
        for (end, act) in ends {
            let mut made = Made::new(10_000);
            if end != "expired" {
                made.store("resources/list", "", &public, at(0));
            }
            made.store("tools/list", "", &private, at(0));
            act(&mut made);
            let Cache { entries, by_expiry, sent, weight, .. } = &made.cache;
            let kept = usize::from(end != "expired");
            assert_eq!((entries.len(), by_expiry.len(), sent.len()), (kept, kept, 0), "{end}");
            let weights = entries.iter().map(|(key, entry)| key.weight() + entry.result.len());
            assert_eq!(*weight, weights.sum::<usize>(), "{end}");
        }
    }
}
