//! The error codes that JSON-RPC and the revisions define, as `code` of an error object.
//!
//! Rules: RULES 1.3, JR-10.

/// The input is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The input is JSON, but not a JSON-RPC message, or one that is not allowed here.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid for the method.
pub const INVALID_PARAMS: i64 = -32602;
/// An internal error of the receiver.
pub const INTERNAL_ERROR: i64 = -32603;
/// The resource does not exist (until 2025-11-25; since 2026-07-28 it is [`INVALID_PARAMS`]).
/// [`ErrorObject::resource_not_found`](crate::ErrorObject::resource_not_found) selects the code of a revision.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The headers of an HTTP request do not match its body (since 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that its client has not declared (since 2026-07-28).
pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
/// The receiver does not support the revision of the request (since 2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// All codes of this module.
pub const ALL: &[i64] = &[
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
    RESOURCE_NOT_FOUND,
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
];
