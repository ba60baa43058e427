//! Publications on their way to a client, by number.
//!
//! ```text
//!   number    ... 41      42        43     44 ...
//!   flight        Done    Received  Sent   (next)
//!                 ▲ front                  ▲ next
//! ```
//!
//! Promise: packet id = number % 65535 + 1, so a number that was journaled keeps its packet id over a crash, and ids
//! need not be stored. The span from the front to the next number stays below 65535, so an id names one flight.
//! `[MQTT-2.2.1-3]`: a packet id chosen by the client is not 0 and not in use.
//! `[MQTT-4.3.3-1]`: QoS 2: a new message gets a packet id that is not in use.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::limits::PACKET_IDS;

/// How far one publication has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// PUBLISH of QoS 1 was sent: PUBACK is awaited.
    Sent1,
    /// PUBLISH of QoS 2 was sent: PUBREC is awaited.
    Sent2,
    /// PUBREC came; that waits to be durable, PUBREL is not sent yet.
    Received,
    /// PUBREL was sent: PUBCOMP is awaited.
    Released,
    /// Over.
    Done,
}

impl Flight {
    /// Whether a publication goes from here to there.
    fn goes_to(self, to: Flight) -> bool {
        matches!(
            (self, to),
            (Flight::Sent1 | Flight::Sent2 | Flight::Released, Flight::Done)
                | (Flight::Sent2, Flight::Received | Flight::Released)
                | (Flight::Received, Flight::Released)
        )
    }
}

/// The flights from the oldest that is not over.
#[derive(Debug)]
pub(crate) struct Window {
    front: u64,
    flights: VecDeque<Flight>,
    in_flight: u32,
}

impl Window {
    pub fn new(next: u64) -> Window {
        Window { front: next, flights: VecDeque::new(), in_flight: 0 }
    }

    /// The packet id of the publication with this number.
    pub fn packet_id(number: u64) -> u16 {
        (number % PACKET_IDS) as u16 + 1
    }

    /// The number that the next publication gets.
    pub fn next(&self) -> u64 {
        self.front + self.flights.len() as u64
    }

    /// The oldest number that is not over.
    pub fn front(&self) -> u64 {
        self.front
    }

    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether one more may be sent to a client that takes `window_max` at a time.
    /// `[MQTT-3.3.4-9]`: the server has at most the client's Receive Maximum of QoS 1 and 2 publications in flight.
    pub fn is_open(&self, window_max: u16) -> bool {
        self.in_flight < u32::from(window_max) && (self.flights.len() as u64) < PACKET_IDS - 1
    }

    /// Starts the next publication; returns its number.
    pub fn start(&mut self, flight: Flight) -> u64 {
        assert!(self.flights.len() as u64 <= PACKET_IDS - 2, "a packet id names one publication");
        assert!(flight != Flight::Received, "a publication begins with what is sent");
        let number = self.next();
        self.flights.push_back(flight);
        if flight == Flight::Done {
            self.shorten();
        } else {
            self.in_flight += 1;
        }
        assert!(self.in_flight as usize <= self.flights.len(), "what is under way is in the window");
        assert!(self.next() == number + 1, "numbers are given one after the other");
        number
    }

    /// Leaves out the numbers before `number`: they will never be sent.
    pub fn skip_to(&mut self, number: u64) {
        assert!(number >= self.next(), "numbers that were given are not left out");
        assert!(self.flights.is_empty() || number - self.front < PACKET_IDS, "a packet id names one publication");
        if self.flights.is_empty() {
            self.front = number.max(self.front);
        }
        while self.next() < number {
            self.flights.push_back(Flight::Done);
        }
        assert!(self.next() == number, "the next publication has the number that is wanted");
    }

    /// The number of a packet id, and its flight, if it is in flight.
    pub fn find(&self, packet_id: u16) -> Option<(u64, Flight)> {
        let residue = u64::from(packet_id).checked_sub(1)?;
        let offset = (residue + PACKET_IDS - self.front % PACKET_IDS) % PACKET_IDS;
        match self.flights.get(offset as usize) {
            None | Some(Flight::Done) => None,
            Some(flight) => Some((self.front + offset, *flight)),
        }
    }

    /// The flight with this number, if there is one.
    pub fn get(&self, number: u64) -> Option<Flight> {
        let flight = *self.flights.get(number.checked_sub(self.front)? as usize)?;
        (flight != Flight::Done).then_some(flight)
    }

    /// Advances a flight.
    pub fn advance(&mut self, number: u64, to: Flight) {
        assert!(number >= self.front && number < self.next(), "what comes further is in the window");
        let flight = &mut self.flights[(number - self.front) as usize];
        assert!(flight.goes_to(to), "what is over stays over, and nothing goes back");
        *flight = to;
        if to == Flight::Done {
            assert!(self.in_flight > 0, "what ends was under way");
            self.in_flight -= 1;
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        while self.flights.front() == Some(&Flight::Done) {
            self.flights.pop_front();
            self.front += 1;
        }
        // A burst leaves no memory behind.
        if self.flights.is_empty() && self.flights.capacity() > 64 {
            self.flights = VecDeque::new();
        }
        assert!(!self.flights.is_empty() || self.in_flight == 0, "an empty window has nothing under way");
    }

    /// Publications that are not over.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Panics if counts and flights disagree. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let in_flight = self.flights.iter().filter(|flight| **flight != Flight::Done).count();
        assert_eq!(in_flight, self.in_flight as usize, "publications under way");
        assert!(self.flights.front() != Some(&Flight::Done), "the window begins with what is not over");
        assert!((self.flights.len() as u64) < PACKET_IDS, "a packet id names one publication");
    }
}
