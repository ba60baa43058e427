//! The metrics of one worker's MQTT port and broker.

use tidegate_broker::{BrokerFacts, Holdings, Thing};
use tidegate_telemetry::metrics;

metrics! {
    /// What one worker's port counts. For one thread.
    pub struct MqttMetrics(worker) {
        /// Reasons: `throttle`, `limit`, `files`, `polite`, `proxy`, `gave_way`.
        turned_away: CounterFamily(reason)
            "tidegate_mqtt_turned_away_total" "Connections turned away at the door, by reason.";
        handed_off: Counter
            "tidegate_mqtt_handed_off_total" "Connections moved to the worker that has their session.";
        sockets_open: Gauge "tidegate_mqtt_sockets_open" "Sockets of MQTT clients open now.";
        sockets_lingering: Gauge
            "tidegate_mqtt_sockets_lingering" "Sockets of MQTT clients that we have closed, and they not yet.";
        writes: Counter "tidegate_mqtt_writes_total" "Writes to sockets of MQTT clients.";
        reads: Counter "tidegate_mqtt_reads_total" "Reads from sockets of MQTT clients.";
    }
}

metrics! {
    /// What one worker's broker counts. For one thread.
    pub struct BrokerMetrics(worker) {
        connects: Counter "tidegate_mqtt_connects_total" "CONNECTs accepted.";
        connects_refused: Counter "tidegate_mqtt_connects_refused_total" "CONNECTs refused.";
        connects_of_others: Counter "tidegate_mqtt_connects_of_others_total"
            "CONNECTs refused because the session of their client id is another's, or the id is not for them.";
        sessions_refused: Counter "tidegate_mqtt_sessions_refused_total"
            "CONNECTs refused because their principal, or all, have too many sessions that outlive a connection.";
        filters_refused: Counter "tidegate_mqtt_filters_refused_total"
            "Subscriptions refused because their principal, or all, have too many.";
        shapes_refused: Counter "tidegate_mqtt_shapes_refused_total"
            "Subscriptions refused because their principal, or all, have too many uncommon shapes of filters.";
        retained_refused: Counter "tidegate_mqtt_retained_refused_total"
            "Retained messages refused because their principal, or all, have too many.";
        delayed_refused: Counter "tidegate_mqtt_delayed_refused_total"
            "Delayed messages refused because their principal, or all, have too many.";
        queued_refused: Counter "tidegate_mqtt_queued_refused_total"
            "Publications not kept for a client that is away, because its principal, or all, have too many waiting.";
        unread_refused: Counter "tidegate_mqtt_unread_refused_total"
            "Connections closed because their principal, or all, have sent too many bytes of packets without the rest.";
        sessions_expired: Counter "tidegate_mqtt_sessions_expired_total" "Sessions that ended by their expiry.";
        messages_received: Counter "tidegate_mqtt_packets_received_total" "Packets received from clients.";
        messages_sent: Counter "tidegate_mqtt_packets_sent_total" "Packets sent to clients.";
        publish_received: Counter "tidegate_mqtt_publish_received_total" "Publications received.";
        publish_sent: Counter "tidegate_mqtt_publish_sent_total" "Publications sent to subscribers.";
        publish_bytes_received: Counter
            "tidegate_mqtt_publish_received_bytes_total" "Payload of publications received.";
        publish_bytes_sent: Counter "tidegate_mqtt_publish_sent_bytes_total" "Payload of publications sent.";
        bytes_received: Counter "tidegate_mqtt_received_bytes_total" "Bytes of packets received.";
        bytes_sent: Counter "tidegate_mqtt_sent_bytes_total" "Bytes of packets for clients.";
        dropped_outbox: Counter
            "tidegate_mqtt_dropped_outbox_total" "Publications of QoS 0 dropped because a client reads too slowly.";
        dropped_inbox: Counter "tidegate_mqtt_dropped_inbox_total" "Publications that a full inbox did not take.";
        dropped_stalled: Counter "tidegate_mqtt_dropped_stalled_total"
            "Of tidegate_mqtt_dropped_inbox_total, those not refused because the client takes nothing.";
        evicted_inbox: Counter
            "tidegate_mqtt_evicted_inbox_total" "Publications that left a full inbox to make room for others.";
        dropped_expired: Counter
            "tidegate_mqtt_dropped_expired_total" "Publications whose time was over before they were delivered.";
        dropped_aged: Counter
            "tidegate_mqtt_dropped_aged_total" "Publications that waited for longer than mqtt.inbox_age_max_s.";
        dropped_too_large: Counter
            "tidegate_mqtt_dropped_too_large_total" "Publications larger than their subscriber takes.";
        dropped_unauthorized: Counter
            "tidegate_mqtt_dropped_unauthorized_total" "Publications that their sender had no right to.";
        withheld: Counter
            "tidegate_mqtt_withheld_total"
            "Publications kept back from a subscriber that may not read their topic, or does not subscribe any more.";
        subscriptions_denied: Counter "tidegate_mqtt_subscriptions_denied_total"
            "Subscriptions of connected clients that a reload denied: they stand, and nothing of them is delivered.";
        subscriptions_given_back: Counter "tidegate_mqtt_subscriptions_given_back_total"
            "Denied subscriptions of connected clients that a later reload allowed again.";
        subscriptions_removed: Counter "tidegate_mqtt_subscriptions_removed_total"
            "Subscriptions of share groups and to streams that were removed because their client has no right to them \
             any more.";
        dropped_invalid: Counter
            "tidegate_mqtt_dropped_invalid_total" "Publications on a topic that is none, as under $delayed.";
        dropped_offline: Counter
            "tidegate_mqtt_dropped_offline_total"
            "Publications of QoS 0 for sessions whose client was not connected: nothing of them is kept.";
        dropped_ended: Counter
            "tidegate_mqtt_dropped_session_ended_total" "Publications that waited for a session when it ended.";
        dropped_delayed: Counter
            "tidegate_mqtt_dropped_delayed_total"
            "Publications of QoS 0 under $delayed for which there was no room in memory.";
        dropped_disk_full: Counter
            "tidegate_mqtt_dropped_disk_full_total"
            "Publications that found no room on the disk and are not sent again: QoS 0 that is retained, and wills \
             that their owner cannot pay for until there is room.";
        refused_disk_full: Counter
            "tidegate_mqtt_refused_disk_full_total"
            "Records of publications that found no room on the disk: the sender was told, or it is sent again later.";
        refused_inbox: Counter
            "tidegate_mqtt_refused_inbox_total"
            "Records of publications that a full inbox refused (mqtt.inbox_policy): the sender was told.";
        refused_too_large: Counter
            "tidegate_mqtt_refused_too_large_total"
            "Records of publications that are too large to be kept: the sender was told.";
        unsent_bytes: Counter
            "tidegate_mqtt_unsent_bytes_total"
            "Bytes of packets for clients that were never sent, because their connections ended.";
        keep_alive_timeouts: Counter "tidegate_mqtt_keep_alive_timeouts_total" "Connections closed for silence.";
        expired_closed: Counter
            "tidegate_mqtt_expired_closed_total" "Connections closed because the token shown on them has expired.";
        revoked_closed: Counter "tidegate_mqtt_revoked_closed_total"
            "Connections closed because the client's certificate was revoked, or its authority is trusted no longer.";
        take_overs: Counter "tidegate_mqtt_take_overs_total" "Connections taken over by another of the same client id.";
        shares_passed_on: Counter "tidegate_mqtt_shares_passed_on_total"
            "Publications that waited for a member of a share group and were given to another.";
        shares_stalled: Counter "tidegate_mqtt_shares_stalled_total"
            "Members of share groups that took nothing for mqtt.share_stalled_s and counted as away.";
        slow_closed: Counter
            "tidegate_mqtt_slow_closed_total" "Connections closed because they did not take what was theirs.";
        protocol_errors: Counter
            "tidegate_mqtt_protocol_errors_total" "Connections closed because they broke the protocol.";
        clients_connected: Gauge "tidegate_mqtt_clients" "Clients connected now.";
        sessions: Gauge "tidegate_mqtt_sessions" "Sessions, with and without a connection.";
        sessions_durable: Gauge "tidegate_mqtt_sessions_durable" "Sessions that outlive their connection.";
        subscriptions: Gauge "tidegate_mqtt_subscriptions" "Subscriptions of the sessions that live here.";
        feeds: Gauge "tidegate_mqtt_change_streams" "Streams of changes that connected clients follow now.";
        receivers: Gauge "tidegate_mqtt_queue_receivers" "Subscriptions of connected clients that receive from queues.";
        wills_waiting: Gauge "tidegate_mqtt_wills_waiting"
            "Wills that were sent and found no room on the disk: they are sent again.";
        waiting_bytes: Gauge "tidegate_mqtt_waiting_bytes"
            "Bytes that wait in memory for connected clients (mqtt.waiting_bytes_max).";
        store_messages: Gauge "tidegate_mqtt_store_messages" "Messages that wait in inboxes.";
        store_bytes: Gauge "tidegate_mqtt_store_bytes" "Bytes that wait in inboxes and retained messages.";
    }
}

metrics! {
    /// What is there once for all workers. For the thread of the first one.
    pub struct NodeMqttMetrics() {
        retained: Gauge "tidegate_mqtt_retained" "Retained messages, those of $SYS among them.";
        principals: Gauge "tidegate_mqtt_principals" "Principals that are connected or have left something behind.";
        held: GaugeFamily(thing) "tidegate_mqtt_held"
            "How many all principals together hold of a thing: sessions that outlive their connection, filters, \
             retained and delayed messages, messages queued in the journal, uncommon shapes of filters.";
        held_max: GaugeFamily(thing) "tidegate_mqtt_held_max" "How many they may hold (kept.all); 0 for no bound.";
        held_bytes: GaugeFamily(thing) "tidegate_mqtt_held_bytes"
            "Bytes of memory that what all principals together hold of a thing takes, about; unread parts of packets \
             are among them.";
        held_bytes_max: GaugeFamily(thing) "tidegate_mqtt_held_max_bytes"
            "Bytes of it that they may hold (kept.all); 0 for no bound.";
    }
}

impl NodeMqttMetrics {
    /// Brings the registry up to date with what is held, and what a broker counted, who has all retained messages.
    pub fn observe(&self, facts: &BrokerFacts, holdings: &Holdings) {
        self.retained.set(facts.retained as i64);
        self.principals.set(holdings.principals() as i64);
        for thing in Thing::ALL {
            let ((count, bytes), bound, name) = (holdings.held(thing), holdings.bound(thing), thing.name());
            // A part of a packet is not counted, and a shape has no bytes.
            if thing != Thing::Unread {
                self.held.set(name, count as i64);
                self.held_max.set(name, bound.count as i64);
            }
            if thing != Thing::Shape {
                self.held_bytes.set(name, bytes as i64);
                self.held_bytes_max.set(name, bound.bytes as i64);
            }
        }
    }
}

impl BrokerMetrics {
    /// Brings the registry up to date with what the broker counted.
    pub fn observe(&self, facts: &BrokerFacts) {
        // Taken apart, so that no fact is forgotten.
        let BrokerFacts {
            connects,
            connects_refused,
            connects_of_others,
            sessions_refused,
            filters_refused,
            shapes_refused,
            retained_refused,
            delayed_refused,
            queued_refused,
            unread_refused,
            sessions_expired,
            messages_received,
            messages_sent,
            publish_received,
            publish_sent,
            publish_bytes_received,
            publish_bytes_sent,
            bytes_received,
            bytes_sent,
            dropped_outbox,
            dropped_inbox,
            dropped_stalled,
            evicted_inbox,
            dropped_expired,
            dropped_aged,
            dropped_too_large,
            dropped_unauthorized,
            withheld,
            subscriptions_denied,
            subscriptions_given_back,
            subscriptions_removed,
            dropped_invalid,
            dropped_offline,
            dropped_ended,
            dropped_delayed,
            dropped_disk_full,
            refused_disk_full,
            refused_inbox,
            refused_too_large,
            unsent_bytes,
            keep_alive_timeouts,
            expired_closed,
            revoked_closed,
            take_overs,
            shares_passed_on,
            shares_stalled,
            slow_closed,
            protocol_errors,
            clients_connected,
            sessions,
            sessions_durable,
            subscriptions,
            feeds,
            receivers,
            wills_waiting,
            retained: _,
            waiting_bytes,
            store_messages,
            store_bytes,
        } = *facts;
        self.connects.follow(connects);
        self.connects_refused.follow(connects_refused);
        self.connects_of_others.follow(connects_of_others);
        self.sessions_refused.follow(sessions_refused);
        self.filters_refused.follow(filters_refused);
        self.shapes_refused.follow(shapes_refused);
        self.retained_refused.follow(retained_refused);
        self.delayed_refused.follow(delayed_refused);
        self.queued_refused.follow(queued_refused);
        self.unread_refused.follow(unread_refused);
        self.sessions_expired.follow(sessions_expired);
        self.messages_received.follow(messages_received);
        self.messages_sent.follow(messages_sent);
        self.publish_received.follow(publish_received);
        self.publish_sent.follow(publish_sent);
        self.publish_bytes_received.follow(publish_bytes_received);
        self.publish_bytes_sent.follow(publish_bytes_sent);
        self.bytes_received.follow(bytes_received);
        self.bytes_sent.follow(bytes_sent);
        self.dropped_outbox.follow(dropped_outbox);
        self.dropped_inbox.follow(dropped_inbox);
        self.dropped_stalled.follow(dropped_stalled);
        self.evicted_inbox.follow(evicted_inbox);
        self.dropped_expired.follow(dropped_expired);
        self.dropped_aged.follow(dropped_aged);
        self.dropped_too_large.follow(dropped_too_large);
        self.dropped_unauthorized.follow(dropped_unauthorized);
        self.withheld.follow(withheld);
        self.subscriptions_denied.follow(subscriptions_denied);
        self.subscriptions_given_back.follow(subscriptions_given_back);
        self.subscriptions_removed.follow(subscriptions_removed);
        self.dropped_invalid.follow(dropped_invalid);
        self.dropped_offline.follow(dropped_offline);
        self.dropped_ended.follow(dropped_ended);
        self.dropped_delayed.follow(dropped_delayed);
        self.dropped_disk_full.follow(dropped_disk_full);
        self.refused_disk_full.follow(refused_disk_full);
        self.refused_inbox.follow(refused_inbox);
        self.refused_too_large.follow(refused_too_large);
        self.unsent_bytes.follow(unsent_bytes);
        self.keep_alive_timeouts.follow(keep_alive_timeouts);
        self.expired_closed.follow(expired_closed);
        self.revoked_closed.follow(revoked_closed);
        self.take_overs.follow(take_overs);
        self.shares_passed_on.follow(shares_passed_on);
        self.shares_stalled.follow(shares_stalled);
        self.slow_closed.follow(slow_closed);
        self.protocol_errors.follow(protocol_errors);
        self.clients_connected.set(clients_connected as i64);
        self.sessions.set(sessions as i64);
        self.sessions_durable.set(sessions_durable as i64);
        self.subscriptions.set(subscriptions as i64);
        self.feeds.set(feeds as i64);
        self.receivers.set(receivers as i64);
        self.wills_waiting.set(wills_waiting as i64);
        self.waiting_bytes.set(waiting_bytes as i64);
        self.store_messages.set(store_messages as i64);
        self.store_bytes.set(store_bytes as i64);
    }
}
