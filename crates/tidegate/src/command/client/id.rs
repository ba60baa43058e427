//! Ids and names on the command line.

/// One that is not empty: the address of what has none is that of the whole list.
pub fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it is empty; expected an id or a name".to_owned()) } else { Ok(text.to_owned()) }
}
