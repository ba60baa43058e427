//! What streams of every room have in common: a place of the caller, and rights that still hold.
//!
//! ```text
//!   asked for ─▶ StreamPlaces::take ─▶ parts, and before each: StreamCaller::renew ─▶ the last one, or a last word
//!                  └─ none: busy                                 └─ other rights, or none: forbidden, token_invalid
//! ```
//!
//! Promise: a stream ends with its rights. Whoever may no longer do what they could when it began gets nothing more
//! that is read after that.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use tidegate_telemetry::{SharedCounter, SharedGauge};

use super::door::Door;
use super::parts::Cut;
use super::places::{NoPlace, Place, Places, PlacesLimits};
use crate::auth::Identity;
use crate::json::{Problem, codes};
use crate::turns::CallerName;

/// The places of one kind of streams of one edge thread.
pub struct StreamPlaces {
    places: Arc<Places>,
    open: SharedGauge,
    cut: SharedCounter,
    refused: SharedCounter,
}

/// A place among the streams of one edge thread, until it is dropped.
pub struct StreamPlace {
    place: Place,
    open: SharedGauge,
}

impl Door {
    /// Places for `all_max` streams of one kind, of which viewers leave `for_services` to services; `open` shows how
    /// many are taken.
    pub fn stream_places(&self, all_max: usize, for_services: usize, open: SharedGauge) -> StreamPlaces {
        let of_caller_max = self.limits.streams_of_caller_max;
        let (cut, refused) = (self.metrics.streams_cut.clone(), self.metrics.streams_refused.clone());
        StreamPlaces { places: Places::new(PlacesLimits { all_max, of_caller_max, for_services }), open, cut, refused }
    }
}

impl StreamPlaces {
    /// A place for one more stream of `caller`. If all are taken, whoever has the most loses one.
    pub fn take(&self, caller: &Identity) -> Result<StreamPlace, Problem> {
        match self.places.take(CallerName::of_identity(caller)) {
            Ok((place, was_another_cut)) => {
                self.cut.add(was_another_cut.into());
                self.open.add(1);
                Ok(StreamPlace { place, open: self.open.clone() })
            }
            Err(no_place) => {
                let detail = match no_place {
                    NoPlace::OfCaller => "this caller has as many streams open as it may; read or close one of them",
                    NoPlace::OfAll => "all places of streams are taken; read pages, or ask again later",
                };
                self.refused.increment();
                Err(Problem::new(codes::BUSY, detail).retry_after_s(1))
            }
        }
    }
}

impl StreamPlace {
    /// Tells when the stream is to end, because a caller with fewer needs the place.
    pub fn cut(&self) -> Cut {
        self.place.cut()
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.open.add(-1);
    }
}

/// Whoever reads a stream, and how they show who they are.
pub struct StreamCaller {
    identity: Identity,
    /// Shows the caller's token again.
    headers: HeaderMap,
}

impl StreamCaller {
    /// The caller that `headers` show.
    pub fn new(identity: Identity, headers: &HeaderMap) -> StreamCaller {
        let values = headers.get_all(header::AUTHORIZATION).iter();
        StreamCaller { identity, headers: values.map(|value| (header::AUTHORIZATION, value.clone())).collect() }
    }

    /// Who they were when the last part was read.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The token is still good, and gives the same rights as when the stream began. Each part counts as a request.
    pub fn renew(&mut self, door: &Door) -> Result<(), Problem> {
        let now = door.caller_of_stream(&self.headers)?;
        if now.rights() != self.identity.rights() {
            return Err(Problem::forbidden("the rights of this token have changed; ask again from the last row on"));
        }
        // A reload may have given its caller other bounds.
        self.identity = now;
        Ok(())
    }
}
