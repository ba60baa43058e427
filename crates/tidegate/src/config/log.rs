//! `[log]`: what the server says on standard error.

use tidegate_config::{ConfigError, Document, Text, config, words};

use super::settled::Overrides;
use crate::logging::{LogFilter, LogFormat};

words! {
    /// The forms of the log.
    pub struct LogFormatWord(LogFormat) { "text" => LogFormat::Text, "json" => LogFormat::Json }
}

config! {
    /// `[log]`
    pub struct LogKeys in "log" {
        filter: Text = "info", .., live,
            "what is said: a level (\"off\", \"error\", \"warn\", \"info\", \"debug\" or \"trace\"), with levels of \
             single modules beside it, as in \"info,tidegate_runtime=debug\". \"tidegate::security\" are log-ins, \
             refusals, take-overs and changes of rights. --log goes before TIDEGATE_LOG, and that before this";
        format: LogFormatWord = "text", .., restart,
            "the form of a line: text, with colours on a terminal and without them elsewhere, or a JSON object";
    }
}

/// What the server says, and in which form.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// Which lines.
    pub filter: LogFilter,
    /// In which form.
    pub format: LogFormat,
}

/// The filter of the file, or that of the flag.
pub fn settle(document: &Document, overrides: &Overrides) -> Result<LogSettings, ConfigError> {
    let keys: LogKeys = document.section()?;
    let written = keys
        .filter
        .parse()
        .map_err(|expected| document.error_at("log.filter", format!("log.filter = {:?}: {expected}", keys.filter)))?;
    Ok(LogSettings { filter: overrides.log.clone().unwrap_or(written), format: keys.format })
}
