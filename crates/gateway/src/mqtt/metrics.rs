//! What one worker's MQTT port and broker count, under names for people.

use tidegate_broker::BrokerFacts;
use tidegate_telemetry::{Counter, CounterFamily, Gauge, Metric, Registry};

/// Facts of a broker that become a counter or a gauge each, in one list: name of the fact, name of the metric, what it means.
macro_rules! metrics {
    (counters { $($counter:ident $counter_name:literal $counter_help:literal,)* }
     gauges { $($gauge:ident $gauge_name:literal $gauge_help:literal,)* }) => {
        /// One worker's metrics, label `worker`. For one thread.
        pub struct MqttMetrics {
            /// Connections turned away at the door, by reason: `throttle`, `limit`, `overload`, `files`.
            pub turned_away: CounterFamily,
            /// Connections that were moved to the worker of their session.
            pub handed_off: Counter,
            /// Sockets open now.
            pub sockets_open: Gauge,
            /// Writes to sockets.
            pub writes: Counter,
            /// Reads from sockets.
            pub reads: Counter,
            $($counter: Counter,)*
            $($gauge: Gauge,)*
        }

        impl MqttMetrics {
            /// Registers the metrics of worker number `worker`.
            pub fn register(registry: &Registry, worker: u16) -> MqttMetrics {
                let worker = worker.to_string();
                let recorder = registry.recorder(&[("worker", &worker)]);
                MqttMetrics {
                    turned_away: recorder.counter_family(TURNED_AWAY, "reason"),
                    handed_off: recorder.counter(HANDED_OFF),
                    sockets_open: recorder.gauge(SOCKETS_OPEN),
                    writes: recorder.counter(WRITES),
                    reads: recorder.counter(READS),
                    $($counter: recorder.counter(Metric::plain($counter_name, $counter_help)),)*
                    $($gauge: recorder.gauge(Metric::plain($gauge_name, $gauge_help)),)*
                }
            }

            /// Brings the registry up to date with what the broker counted.
            pub fn observe(&self, facts: &BrokerFacts) {
                $(self.$counter.follow(facts.$counter);)*
                $(self.$gauge.set(facts.$gauge as i64);)*
            }
        }
    };
}

const TURNED_AWAY: Metric = Metric::plain("tidegate_mqtt_turned_away_total", "Connections turned away at the door.");
const HANDED_OFF: Metric =
    Metric::plain("tidegate_mqtt_handed_off_total", "Connections moved to the worker that has their session.");
const SOCKETS_OPEN: Metric = Metric::plain("tidegate_mqtt_sockets_open", "Sockets of MQTT clients open now.");
const WRITES: Metric = Metric::plain("tidegate_mqtt_writes_total", "Writes to sockets of MQTT clients.");
const READS: Metric = Metric::plain("tidegate_mqtt_reads_total", "Reads from sockets of MQTT clients.");

metrics! {
    counters {
        connects "tidegate_mqtt_connects_total" "CONNECTs accepted.",
        connects_refused "tidegate_mqtt_connects_refused_total" "CONNECTs refused.",
        sessions_expired "tidegate_mqtt_sessions_expired_total" "Sessions that ended by their expiry.",
        messages_received "tidegate_mqtt_packets_received_total" "Packets received from clients.",
        messages_sent "tidegate_mqtt_packets_sent_total" "Packets sent to clients.",
        publish_received "tidegate_mqtt_publish_received_total" "Publications received.",
        publish_sent "tidegate_mqtt_publish_sent_total" "Publications sent to subscribers.",
        publish_bytes_received "tidegate_mqtt_publish_received_bytes_total" "Payload of publications received.",
        publish_bytes_sent "tidegate_mqtt_publish_sent_bytes_total" "Payload of publications sent.",
        bytes_received "tidegate_mqtt_received_bytes_total" "Bytes of packets received.",
        bytes_sent "tidegate_mqtt_sent_bytes_total" "Bytes of packets for clients.",
        dropped_outbox "tidegate_mqtt_dropped_outbox_total" "Publications of QoS 0 dropped because a client reads too slowly.",
        dropped_inbox "tidegate_mqtt_dropped_inbox_total" "Publications dropped by a full inbox.",
        dropped_expired "tidegate_mqtt_dropped_expired_total" "Publications whose time was over before they were delivered.",
        dropped_too_large "tidegate_mqtt_dropped_too_large_total" "Publications larger than their subscriber takes.",
        dropped_unauthorized "tidegate_mqtt_dropped_unauthorized_total" "Publications that their sender had no right to.",
        keep_alive_timeouts "tidegate_mqtt_keep_alive_timeouts_total" "Connections closed for silence.",
        take_overs "tidegate_mqtt_take_overs_total" "Connections taken over by another of the same client id.",
        slow_closed "tidegate_mqtt_slow_closed_total" "Connections closed because they did not take what was theirs.",
        protocol_errors "tidegate_mqtt_protocol_errors_total" "Connections closed because they broke the protocol.",
    }
    gauges {
        clients_connected "tidegate_mqtt_clients" "Clients connected now.",
        sessions "tidegate_mqtt_sessions" "Sessions, with and without a connection.",
        sessions_durable "tidegate_mqtt_sessions_durable" "Sessions that outlive their connection.",
        subscriptions "tidegate_mqtt_subscriptions" "Subscriptions of the sessions that live here.",
        retained "tidegate_mqtt_retained" "Retained messages; each worker has all of them.",
        store_messages "tidegate_mqtt_store_messages" "Messages that wait in inboxes.",
        store_bytes "tidegate_mqtt_store_bytes" "Bytes that wait in inboxes and retained messages.",
    }
}
