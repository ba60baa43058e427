//! Publications on their way to a client, by number.
//!
//! ```text
//!   number    ... 41      42        43     44 ...
//!   flight        Done    Received  Sent   (next)
//!                 ▲ front                  ▲ next
//! ```
//!
//! Promise: packet id = number % 65535 + 1, so a number that was journaled keeps its packet id over a crash, and nobody writes ids down.
//! The span from the front to the next number stays below 65535, so an id names one flight. `[MQTT-2.2.1-3]` `[MQTT-4.3.3-1]`

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

/// The flights from the oldest that is not over.
#[derive(Debug)]
pub(crate) struct Window {
    front: u64,
    flights: VecDeque<Flight>,
    under_way: u32,
}

impl Window {
    pub fn new(next: u64) -> Window {
        Window { front: next, flights: VecDeque::new(), under_way: 0 }
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

    /// Whether one more may be sent to a client that takes `window_max` at a time. `[MQTT-3.3.4-9]`
    pub fn is_open(&self, window_max: u16) -> bool {
        self.under_way < u32::from(window_max) && (self.flights.len() as u64) < PACKET_IDS - 1
    }

    /// Starts the next publication; returns its number.
    pub fn start(&mut self, flight: Flight) -> u64 {
        let number = self.next();
        self.flights.push_back(flight);
        if flight == Flight::Done {
            self.shorten();
        } else {
            self.under_way += 1;
        }
        number
    }

    /// Leaves out the numbers before `number`: they will never be sent.
    pub fn skip_to(&mut self, number: u64) {
        debug_assert!(number - self.front < PACKET_IDS || self.flights.is_empty());
        if self.flights.is_empty() {
            self.front = number.max(self.front);
        }
        while self.next() < number {
            self.flights.push_back(Flight::Done);
        }
    }

    /// The number that a packet id stands for, and its flight, if it is under way.
    pub fn find(&self, packet_id: u16) -> Option<(u64, Flight)> {
        let residue = u64::from(packet_id).checked_sub(1)?;
        let offset = (residue + PACKET_IDS - self.front % PACKET_IDS) % PACKET_IDS;
        match self.flights.get(offset as usize) {
            None | Some(Flight::Done) => None,
            Some(flight) => Some((self.front + offset, *flight)),
        }
    }

    /// The flight with this number, if it is under way.
    pub fn get(&self, number: u64) -> Option<Flight> {
        let flight = *self.flights.get(number.checked_sub(self.front)? as usize)?;
        (flight != Flight::Done).then_some(flight)
    }

    /// A flight under way comes further.
    pub fn advance(&mut self, number: u64, to: Flight) {
        let flight = &mut self.flights[(number - self.front) as usize];
        debug_assert!(*flight != Flight::Done, "what is over stays over");
        *flight = to;
        if to == Flight::Done {
            self.under_way -= 1;
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
    }
}
