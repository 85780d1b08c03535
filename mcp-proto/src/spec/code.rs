//! The error codes that JSON-RPC and the revisions define (JR-10, RULES 1.3).

/// The input is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The input is JSON, but no JSON-RPC message, or one that is not allowed here.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// Something unexpected happened.
pub const INTERNAL_ERROR: i64 = -32603;
/// The headers of an HTTP request do not say what its body says.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs something that its client has not said it can do.
pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
/// The revision of the request is not served.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
