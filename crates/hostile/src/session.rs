//! Several clients of two workers' brokers: legal and illegal packets, in pieces of any size, and crashes.
//!
//! ```text
//!   bytes ─▶ commands ─┬─ packets: whole, changed, or random bytes ─pieces─▶ Node: two brokers, a fake disk ─┐
//!                      └─ drop, stall, read slowly, wait, crash, answers held back                           │
//!                                                            checks ◀─ bytes for clients ◀───────────────────┘
//! ```
//!
//! Promise, for any input: nothing panics, and the node becomes idle. Clients get only valid MQTT of their version, and
//! no larger packets than they accept. No memory grows with random input. Two clients that keep to the rules, the
//! witnesses, stay connected and are served.

mod client;
mod node;
mod packet;

use node::{Node, WITNESSES};

/// Commands of one input; what follows is not looked at.
const COMMANDS_MAX: usize = 300;
/// Restarts of one input; each replays the logs.
const CRASHES_MAX: usize = 4;
/// Connections that the input drives.
const SCRIPTED_CLIENTS: usize = 4;

/// The rest of the input, from which values are made as they are needed. After its end, all bytes are zero.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let count = count.min(self.0.len());
        self.0.split_off(..count).unwrap_or_default()
    }

    fn choice<T: Copy>(&mut self, table: &[T]) -> T {
        table[usize::from(self.byte()) % table.len()]
    }
}

/// Plays the input as a script.
pub fn check(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut node = Node::new(script.byte());
    let (mut is_rushed, mut crashes) = (false, 0);
    for _ in 0..COMMANDS_MAX {
        if script.0.is_empty() {
            break;
        }
        let (verb, client) = (script.byte(), WITNESSES + usize::from(script.byte()) % SCRIPTED_CLIENTS);
        match verb % 20 {
            0 => is_rushed = !is_rushed,
            1 => node.drop_connection(client),
            2 => node.clients[client].is_stalled ^= true,
            3 => node.clients[client].sip = 16 + usize::from(script.byte()) * 4,
            4 => node.clients[client].piece = 1 + usize::from(script.byte()),
            5 => node.clients[client].answers ^= true,
            6 => node.wait(u64::from(script.byte()) * u64::from(script.byte())),
            7 if crashes < CRASHES_MAX => {
                crashes += 1;
                node.crash(script.byte() % 2 == 0);
            }
            8 => node.hold_answers(),
            // The next packet is not what it was meant to be.
            9 => node.clients[client].spoil = Some((script.byte(), script.byte())),
            10 => {
                let length = usize::from(script.byte());
                node.send(client, script.bytes(length));
            }
            verb => {
                let packet = packet::packet(verb, &mut node.clients[client], &mut script);
                node.send(client, &packet);
            }
        }
        if !is_rushed {
            node.settle();
        }
        node.look();
    }
    node.end();
}
