//! The whole index against a plain map.
