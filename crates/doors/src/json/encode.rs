//! Bodies and answers in JSON.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

/// An answer with `body` as JSON.
pub fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    response(status, encode(body))
}

/// `body` as JSON. It must be plain: a map whose keys are no strings panics.
pub fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    serde_json::to_writer(&mut bytes, body).expect("the door's bodies are plain JSON");
    bytes
}

/// An answer whose body is JSON already.
pub fn response(status: StatusCode, json: Vec<u8>) -> Response<Body> {
    whole_response(status, json).map(Body::new)
}

/// The same, for a hot path.
pub fn whole_response(status: StatusCode, json: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
