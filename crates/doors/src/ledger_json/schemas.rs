//! Schemas of the parts of the ledger's bodies, for OpenAPI.

use tidegate_machines::ledger::{
    ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, MEMO_BYTES_MAX, TRANSFER_ID_BYTES_MAX, USER_DATA_BYTES_MAX,
};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

/// At most so many visible characters that are neither a space nor one of `$but`.
macro_rules! visible {
    ($but:literal, $most:literal) => {
        concat!(
            "[^",
            $but,
            "\\x00-\\x20\\x7f-\\xa0\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2",
            "\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f",
            "\\u2800\\u3000\\u3164\\ud800-\\uf8ff\\ufdd0-\\ufdef\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\uffff",
            "]{1,",
            $most,
            "}"
        )
    };
}

// JSON Schema counts characters where the ledger counts bytes. Each pattern describes ASCII up to the bound, and other
// scripts up to a quarter of it, which always fits; the ledger takes longer ones as long as their bytes fit.
// They leave out, as the ledger does, characters that nobody sees (and, to be short, all beyond U+FFFF).
const TRANSFER_ID: &str = concat!("^([!-~]([ -~]{0,62}[!-~])?|", visible!("", 16), ")$");
const ACCOUNT_ID: &str = concat!("^([!-.0-~]([ -.0-~]{0,126}[!-.0-~])?|", visible!("/", 32), ")$");
const ASSET: &str = concat!("^([!-~]([ -~]{0,30}[!-~])?|", visible!("", 8), ")$");
const USER_DATA: &str = "^([ -~]{0,64}|[\\s\\S]{0,16})$";
const MEMO: &str = "^([ -~]{0,256}|[\\s\\S]{0,64})$";

/// Schema of a transfer or hold id.
pub fn transfer_id_schema() -> ObjectBuilder {
    let text = text(TRANSFER_ID).min_length(Some(1)).max_length(Some(TRANSFER_ID_BYTES_MAX));
    let words = "Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither \".\" \
                 nor \"..\".";
    text.description(Some(words)).examples(["vote-1"])
}

/// Schema of an account id.
pub fn account_id_schema() -> ObjectBuilder {
    let text = text(ACCOUNT_ID).min_length(Some(1)).max_length(Some(ACCOUNT_ID_BYTES_MAX));
    text.description(Some("1 to 128 bytes of visible UTF-8 without '/' and '*', neither \".\" nor \"..\"."))
}

/// Schema of the account to debit.
pub fn debit_schema() -> ObjectBuilder {
    account_id_schema().examples(["wallet:dave"])
}

/// Schema of the account to credit.
pub fn credit_schema() -> ObjectBuilder {
    account_id_schema().examples(["candidate:3"])
}

/// Schema of a unit of measure.
pub fn asset_schema() -> ObjectBuilder {
    let text = text(ASSET).min_length(Some(1)).max_length(Some(ASSET_BYTES_MAX));
    text.description(Some("Unit of measure: 1 to 32 bytes of visible UTF-8.")).examples(["credit"])
}

/// Schema of a memo.
pub fn memo_schema() -> ObjectBuilder {
    let text = text(MEMO).max_length(Some(MEMO_BYTES_MAX));
    text.description(Some("Free text for the history: at most 256 bytes of UTF-8."))
}

/// Schema of user data.
pub fn user_data_schema() -> ObjectBuilder {
    let text = text(USER_DATA).max_length(Some(USER_DATA_BYTES_MAX));
    text.description(Some("A key of another system: at most 64 bytes of UTF-8.")).examples(["order-7"])
}

/// Schema of a code: 32 bits without a sign, for which OpenAPI has no format.
pub fn code_schema() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(0))
        .maximum(Some(u32::MAX))
        .description(Some("The reason, as the client's program numbers its reasons; 0, or absent, for none."))
        .examples([7])
}

/// Schema of an amount that may be out of bounds.
pub fn any_amount_schema() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(0))
        .maximum(Some(usize::MAX))
        .description(Some("Minor units."))
        .examples([1])
}

fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).pattern(Some(pattern))
}
