//! The functions that JavaScript calls. It writes the head of a request as JSON to the buffer, and after it the body, calls
//! `fetch`, and reads the response from the buffer; `worker.mjs` is the other side.

#![expect(unsafe_code, reason = "a name that the linker keeps is declared as unsafe")]

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use mcp_proto::{Instant, UsageError};
use serde::{Deserialize, Serialize};

use crate::Worker;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static WORKER: RefCell<Result<Worker, UsageError>> = RefCell::new(Worker::new());
}

#[derive(Deserialize)]
struct JsRequestHead {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    /// Random bytes.
    nonce: [u8; 32],
    /// Milliseconds since the start.
    now: u64,
}

#[derive(Serialize)]
struct JsResponse {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Makes the buffer this long, and returns its address.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn resize(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// The address of the buffer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn address() -> *const u8 {
    BUFFER.with_borrow(Vec::as_ptr)
}

/// Replaces the request in the buffer, whose head has this length, with its response, and returns the length of that; zero
/// if there is none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fetch(head_length: usize) -> usize {
    BUFFER.with_borrow_mut(|buffer| {
        *buffer = answer(buffer, head_length).unwrap_or_default();
        buffer.len()
    })
}

fn answer(request: &[u8], head_length: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let (head, body) = request.split_at_checked(head_length).ok_or("the buffer is shorter than the head")?;
    let JsRequestHead { method, url, headers, nonce, now } = serde_json::from_slice(head)?;
    let mut request = Request::builder().method(&*method).uri(url).body(Bytes::copy_from_slice(body))?;
    for (name, value) in headers {
        request.headers_mut().append(name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?);
    }
    let now = Instant::after_start(Duration::from_millis(now));
    let response =
        WORKER.with_borrow_mut(|worker| worker.as_mut().map_err(|error| error.clone())?.fetch(request, nonce, now))?;
    Ok(serde_json::to_vec(&to_js(&response))?)
}

fn to_js(response: &Response<Bytes>) -> JsResponse {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
    JsResponse { status: response.status().as_u16(), headers: headers.collect(), body: text(response.body()) }
}
