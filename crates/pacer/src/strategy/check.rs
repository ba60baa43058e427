//! Whether there is what a plan asks for: the strategy, its parameters, and their ranges.

use thiserror::Error;

use super::{Parameter, STRATEGIES, StrategyRow};
use crate::plan::StrategyChoice;

/// Why a strategy cannot be had as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// There is none of this name.
    #[error("unknown strategy {name:?}; {instead}")]
    UnknownStrategy {
        /// What was asked for.
        name: Box<str>,
        /// What may have been meant.
        instead: Box<str>,
    },
    /// It has no parameter of this name.
    #[error("strategy {strategy:?} has no parameter {name:?}; {instead}")]
    UnknownParameter {
        /// Whose parameter it should be.
        strategy: &'static str,
        /// What was asked for.
        name: Box<str>,
        /// What may have been meant.
        instead: Box<str>,
    },
    /// The parameter cannot be that.
    #[error(
        "strategy {strategy:?}: {} = {value} is out of range: expected {} to {}, in {}",
        parameter.name, parameter.min, parameter.max, parameter.unit
    )]
    OutOfRange {
        /// Whose parameter it is.
        strategy: &'static str,
        /// Which.
        parameter: &'static Parameter,
        /// What it should be.
        value: i64,
    },
}

/// The strategy of a name.
pub fn find(name: &str) -> Option<&'static StrategyRow> {
    STRATEGIES.iter().find(|row| row.name == name)
}

/// Whether there is such a strategy, and whether it can be told this.
///
/// # Errors
///
/// The first thing that is wrong, with what may have been meant.
pub fn check(choice: &StrategyChoice) -> Result<&'static StrategyRow, StrategyError> {
    let strategy = find(&choice.name).ok_or_else(|| StrategyError::UnknownStrategy {
        name: choice.name.clone(),
        instead: instead_of(&choice.name, STRATEGIES.iter().map(|row| row.name)),
    })?;
    for (name, &value) in &choice.parameters {
        let known = strategy.parameters.iter().find(|parameter| parameter.name == &**name);
        let parameter = known.ok_or_else(|| StrategyError::UnknownParameter {
            strategy: strategy.name,
            name: name.clone(),
            instead: instead_of(name, strategy.parameters.iter().map(|parameter| parameter.name)),
        })?;
        if !(parameter.min..=parameter.max).contains(&value) {
            return Err(StrategyError::OutOfRange { strategy: strategy.name, parameter, value });
        }
    }
    Ok(strategy)
}

/// What to write instead: the nearest known name, or all of them.
fn instead_of(name: &str, known: impl Iterator<Item = &'static str> + Clone) -> Box<str> {
    if let Some(nearest) = tidegate_config::nearest(name, known.clone()) {
        return format!("did you mean {nearest:?}?").into();
    }
    let known: Vec<_> = known.collect();
    if known.is_empty() { "it has none".into() } else { format!("known: {}", known.join(", ")).into() }
}
