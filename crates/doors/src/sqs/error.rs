//! Errors as the SDKs of AWS read them.
//!
//! ```text
//!   {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "…"}       the shape's name, for newer SDKs
//!   x-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender      the code, as it was before JSON
//! ```

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;
use tidegate_queue::machine::Refusal;

use crate::http::Late;
use crate::json::{Problem, ProblemCode};
use crate::queue_calls::{RECEIVERS_FULL, RECEIVERS_RETRY_AFTER_S, RECEIVERS_TOO_MANY};

/// What went wrong, by both of its names, and the status of answers that say so.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The name of its shape.
    pub name: &'static str,
    /// What the protocol before JSON called it, which many programs compare.
    pub query: &'static str,
    status: StatusCode,
}

/// All errors.
pub mod codes {
    use super::{ErrorCode, StatusCode};

    macro_rules! codes {
        ($($constant:ident = $name:literal, $query:literal, $status:ident;)*) => {
            $(
                #[doc = $name]
                pub const $constant: &ErrorCode =
                    &ErrorCode { name: $name, query: $query, status: StatusCode::$status };
            )*
        };
    }

    codes! {
        QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", BAD_REQUEST;
        QUEUE_NAME_EXISTS = "QueueNameExists", "QueueAlreadyExists", BAD_REQUEST;
        OVER_LIMIT = "OverLimit", "OverLimit", FORBIDDEN;
        RECEIPT_HANDLE_IS_INVALID = "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", BAD_REQUEST;
        MESSAGE_NOT_INFLIGHT = "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", BAD_REQUEST;
        EMPTY_BATCH = "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", BAD_REQUEST;
        TOO_MANY_ENTRIES = "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
            BAD_REQUEST;
        IDS_NOT_DISTINCT = "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", BAD_REQUEST;
        INVALID_ENTRY_ID = "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", BAD_REQUEST;
        BATCH_TOO_LONG = "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", BAD_REQUEST;
        UNSUPPORTED_OPERATION = "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", BAD_REQUEST;
        INVALID_ATTRIBUTE_NAME = "InvalidAttributeName", "InvalidAttributeName", BAD_REQUEST;
        INVALID_ATTRIBUTE_VALUE = "InvalidAttributeValue", "InvalidAttributeValue", BAD_REQUEST;
        INVALID_PARAMETER_VALUE = "InvalidParameterValue", "InvalidParameterValue", BAD_REQUEST;
        MISSING_PARAMETER = "MissingParameter", "MissingParameter", BAD_REQUEST;
        SERIALIZATION = "SerializationException", "SerializationException", BAD_REQUEST;
        UNKNOWN_OPERATION = "UnknownOperationException", "InvalidAction", BAD_REQUEST;
        MISSING_TOKEN = "MissingAuthenticationToken", "MissingAuthenticationToken", FORBIDDEN;
        INCOMPLETE_SIGNATURE = "IncompleteSignature", "IncompleteSignature", BAD_REQUEST;
        INVALID_CLIENT_TOKEN_ID = "InvalidClientTokenId", "InvalidClientTokenId", FORBIDDEN;
        SIGNATURE_DOES_NOT_MATCH = "SignatureDoesNotMatch", "SignatureDoesNotMatch", FORBIDDEN;
        ACCESS_DENIED = "AccessDenied", "AccessDenied", FORBIDDEN;
        REQUEST_THROTTLED = "RequestThrottled", "RequestThrottled", TOO_MANY_REQUESTS;
        SERVICE_UNAVAILABLE = "ServiceUnavailable", "ServiceUnavailable", SERVICE_UNAVAILABLE;
        INTERNAL_FAILURE = "InternalFailure", "InternalFailure", INTERNAL_SERVER_ERROR;
    }
}

/// An answer that is not the one asked for.
#[derive(Debug)]
pub struct AwsError {
    /// What went wrong.
    pub code: &'static ErrorCode,
    /// A sentence for the person who meets it.
    pub message: Cow<'static, str>,
    /// What the door found wrong, if it was the door.
    door: Option<(ProblemCode, Option<HeaderValue>)>,
}

impl AwsError {
    /// An error with a sentence for the person who meets it.
    pub fn new(code: &'static ErrorCode, message: impl Into<Cow<'static, str>>) -> AwsError {
        AwsError { code, message: message.into(), door: None }
    }

    /// A parameter that cannot be so.
    pub fn parameter(name: &str, what: impl std::fmt::Display) -> AwsError {
        AwsError::new(codes::INVALID_PARAMETER_VALUE, format!("{name}: {what}"))
    }

    /// A parameter that must be there.
    pub fn missing(name: &str) -> AwsError {
        AwsError::new(codes::MISSING_PARAMETER, format!("the request must have the parameter {name}"))
    }

    /// Nobody has the key.
    pub fn key_unknown() -> AwsError {
        let detail = "no [[sqs_key]] of the configuration has this access key, or its service is not there";
        AwsError::new(codes::INVALID_CLIENT_TOKEN_ID, detail)
    }

    /// Whether another request of the same client would do, and not the same one later.
    pub fn is_of_sender(&self) -> bool {
        !self.code.status.is_server_error()
    }

    /// The error as an answer.
    pub fn into_response(self) -> Response<Body> {
        let kind = format!("com.amazonaws.sqs#{}", self.code.name);
        let body = json!({ "__type": kind, "message": self.message }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.status;
        let fault = if self.is_of_sender() { "Sender" } else { "Receiver" };
        let query = format!("{};{fault}", self.code.query);
        let headers = response.headers_mut();
        headers.insert("x-amzn-errortype", HeaderValue::from_static(self.code.name));
        headers.insert("x-amzn-query-error", HeaderValue::from_str(&query).expect("codes are ASCII"));
        if let Some((code, retry_after)) = self.door {
            headers.extend(retry_after.map(|seconds| (header::RETRY_AFTER, seconds)));
            // What is left of these bodies is not read, so the connection cannot carry another request.
            if matches!(code.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response.extensions_mut().insert(code);
        }
        // As a token that is no good: so that a flood of them costs its sender more than others.
        if [codes::INVALID_CLIENT_TOKEN_ID, codes::SIGNATURE_DOES_NOT_MATCH].contains(&self.code) {
            response.extensions_mut().insert(Late);
        }
        response
    }
}

impl From<Problem> for AwsError {
    fn from(problem: Problem) -> AwsError {
        let code = match problem.code().status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => codes::ACCESS_DENIED,
            StatusCode::TOO_MANY_REQUESTS => codes::REQUEST_THROTTLED,
            StatusCode::INTERNAL_SERVER_ERROR => codes::INTERNAL_FAILURE,
            status if status.is_server_error() => codes::SERVICE_UNAVAILABLE,
            _ => codes::INVALID_PARAMETER_VALUE,
        };
        let (kind, message) = (problem.code(), problem.detail().to_owned());
        let retry_after = problem.whole_response().headers_mut().remove(header::RETRY_AFTER);
        AwsError { code, message: message.into(), door: Some((kind, retry_after)) }
    }
}

impl From<&Refusal> for AwsError {
    fn from(refusal: &Refusal) -> AwsError {
        // These are told when to ask again.
        let crowded = match refusal {
            Refusal::TooManyReceivers => Some(RECEIVERS_FULL),
            Refusal::TooManyReceiversOfCaller => Some(RECEIVERS_TOO_MANY),
            _ => None,
        };
        if let Some(code) = crowded {
            return Problem::new(code, refusal.to_string()).retry_after_s(RECEIVERS_RETRY_AFTER_S).into();
        }
        let code = match refusal {
            Refusal::QueueNotFound(_) => codes::QUEUE_DOES_NOT_EXIST,
            Refusal::QueueNameInvalid
            | Refusal::OnTwoShards
            | Refusal::MessageInvalid { .. }
            | Refusal::ArgumentInvalid(_)
            | Refusal::ScheduleInvalid(_)
            | Refusal::ScheduleNotFound => codes::INVALID_PARAMETER_VALUE,
            Refusal::SettingInvalid(_) | Refusal::WindowInvalid(_) => codes::INVALID_ATTRIBUTE_VALUE,
            Refusal::QueueNotEmpty
            | Refusal::QueueInUse(_)
            | Refusal::QueueOfRoute(_)
            | Refusal::GoesRound(_)
            | Refusal::QueueHasSchedules => codes::UNSUPPORTED_OPERATION,
            Refusal::TooManyQueues
            | Refusal::TooManyQueuesOfOwner
            | Refusal::TooManySchedules
            | Refusal::TooManySchedulesOfOwner
            | Refusal::Full(..) => codes::OVER_LIMIT,
            Refusal::TooManyReceivers => codes::SERVICE_UNAVAILABLE,
            Refusal::TooManyReceiversOfCaller => codes::REQUEST_THROTTLED,
            Refusal::BatchTooLarge => codes::BATCH_TOO_LONG,
            Refusal::MessageNotFound | Refusal::MessageLeased => codes::RECEIPT_HANDLE_IS_INVALID,
        };
        AwsError::new(code, refusal.to_string())
    }
}
