/* A client of Tidegate's pacer over the binary port: C99 and POSIX sockets, this file and nothing else.
 *
 *   tidegate_prepare ─▶ tidegate_connect ─▶ tidegate_send_* ... ─▶ tidegate_receive ─▶ tidegate_next_bid
 *   the caller's memory     Hello, Welcome      into a buffer          one reply           out of the buffer
 *
 * Promise: after tidegate_prepare nothing is allocated, and no byte outside the given memory is read or written,
 * whatever the server sends. A reply is checked to its end before it is handed out, and answers what was asked: as
 * many bids as requests, as many outcomes as notices. (tidegate_connect asks getaddrinfo, which allocates.)
 *
 * What may be sent again after TIDEGATE_TIMED_OUT or a lost connection: wins and losses (each counts once), plans and
 * ends of campaigns. Never bid requests: their auction is over, and what they reserved returns by itself.
 *
 * One thread at a time may use a tidegate_pacer. Numbers and texts are those of docs/formats/pacer.md; prices are in
 * millionths of the campaign's currency, for one impression. The port is plain TCP: over networks that others can read,
 * put a tunnel (TLS) before it.
 *
 * Include this file first, or define _POSIX_C_SOURCE as 200809L or later yourself.
 */
#ifndef TIDEGATE_PACER_H
#define TIDEGATE_PACER_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Most requests, wins or losses of one packet. */
#define TIDEGATE_ITEMS_MAX 256
#define TIDEGATE_TOKEN_BYTES 32
/* Least size of each of the two buffers: the longest packet fits, and its reply. */
#define TIDEGATE_BUFFER_BYTES_MIN 16384
/* Most packets in flight that a client can keep apart. */
#define TIDEGATE_PENDING_MAX 65536

/* How a call ended; tidegate_explain says what to do. */
typedef enum tidegate_status {
    TIDEGATE_OK,
    /* These leave the connection as it was, but for tidegate_connect, which then has none. */
    TIDEGATE_TIMED_OUT,
    TIDEGATE_COUNT_INVALID,
    TIDEGATE_OUT_FULL,
    TIDEGATE_TOO_MANY_IN_FLIGHT,
    TIDEGATE_REQUEST_TOO_LARGE,
    TIDEGATE_BUFFER_TOO_SMALL,
    TIDEGATE_NEEDS_MORE,
    /* These end it. */
    TIDEGATE_NO_ADDRESS,
    TIDEGATE_NOT_LET_IN,
    TIDEGATE_CLOSED,
    TIDEGATE_IO,
    TIDEGATE_FRAME_TOO_LARGE,
    TIDEGATE_MALFORMED,
    TIDEGATE_MISMATCH
} tidegate_status;

/* What is asked, and what is answered. */
typedef enum tidegate_kind {
    TIDEGATE_NOTHING,
    TIDEGATE_HELLO,
    TIDEGATE_BIDS,
    /* Of wins and of losses. */
    TIDEGATE_OUTCOMES,
    TIDEGATE_CAMPAIGN_PUT,
    TIDEGATE_CAMPAIGN_ENDED,
    /* Answer only: the request was not served as a whole; `code` says why. */
    TIDEGATE_ERROR
} tidegate_kind;

/* Why there is no bid; 0 with a bid, and for reasons of a version to come. */
typedef enum tidegate_no_bid {
    TIDEGATE_NO_BID_UNSPECIFIED,
    TIDEGATE_CAMPAIGN_UNKNOWN,
    TIDEGATE_NOT_IN_FLIGHT,
    TIDEGATE_NOT_TARGETED,
    TIDEGATE_THROTTLED,
    TIDEGATE_FREQUENCY_CAPPED,
    TIDEGATE_NO_LEASE,
    TIDEGATE_PRICE_ABOVE_CAP
} tidegate_no_bid;

/* What became of a win or a loss; 0 for outcomes of a version to come. */
typedef enum tidegate_outcome {
    TIDEGATE_OUTCOME_UNSPECIFIED,
    TIDEGATE_TAKEN,
    TIDEGATE_DUPLICATE,
    TIDEGATE_LATE,
    TIDEGATE_TOKEN_INVALID,
    TIDEGATE_PRICE_ABOVE_BID,
    TIDEGATE_LOST,
    TIDEGATE_WON
} tidegate_outcome;

/* What comes with a bid, and goes back with its win or loss. */
typedef struct tidegate_token {
    unsigned char bytes[TIDEGATE_TOKEN_BYTES];
} tidegate_token;

/* Whether one campaign takes part in one auction. */
typedef struct tidegate_bid_request {
    uint64_t id;           /* of the auction */
    uint64_t user;         /* a hash; 0: unknown */
    uint64_t key;          /* a hash of what the campaign is aimed at; 0: none */
    uint32_t campaign;     /* its number */
    uint32_t price_micros; /* what the client would bid; 0: what the campaign bids */
} tidegate_bid_request;

/* The answer to one request. */
typedef struct tidegate_bid {
    int is_bid;
    uint32_t price_micros;
    tidegate_token token;
    tidegate_no_bid no_bid;
} tidegate_bid;

/* A bid that has won. */
typedef struct tidegate_win {
    tidegate_token token;
    uint32_t price_micros; /* what the impression cost, at most what was bid */
} tidegate_win;

/* A request in flight. The caller gives the memory, and does not look inside. */
typedef struct tidegate_pending {
    uint64_t correlation;
    uint64_t tag;
    uint32_t next_free;
    uint32_t items;
    tidegate_kind asked;
} tidegate_pending;

/* Bytes that are being read. */
typedef struct tidegate_span {
    const unsigned char *at;
    const unsigned char *end;
} tidegate_span;

/* A reply. It is good until the next call of tidegate_receive, tidegate_fill or tidegate_connect. */
typedef struct tidegate_reply {
    tidegate_kind kind;  /* what is answered */
    tidegate_kind asked; /* what was asked; TIDEGATE_NOTHING: the server speaks of the connection, and closes it */
    uint64_t tag;        /* what the caller gave with the request */
    size_t count;        /* bids or outcomes, as many as were asked for */

    char code[64];           /* of TIDEGATE_ERROR: a stable name such as busy or forbidden */
    char detail[256];        /* for people; cut if it is longer */
    uint32_t retry_after_ms; /* when asking again makes sense, but never for bids; 0: not at all */

    uint32_t campaign; /* of TIDEGATE_CAMPAIGN_PUT: by which bid requests name it */
    uint64_t version;  /* the plan that is in force */
    int is_new;        /* the campaign was made just now */

    /* What tidegate_next_* read on. */
    tidegate_span rest;
    tidegate_span list;
    size_t left;
} tidegate_reply;

/* A connection. Read `socket`, `in_flight` and `system_error`; leave the rest alone. */
typedef struct tidegate_pacer {
    int socket;       /* -1 when there is no connection; to be polled by those who have a loop of their own */
    int timeout_ms;   /* for each call that waits */
    int system_error; /* errno, after TIDEGATE_IO */
    size_t in_flight; /* requests whose reply has not been received */
    size_t in_flight_max;
    size_t frame_bytes_max;
    uint64_t sequence;

    unsigned char *out; /* [sent, filled) waits to be written */
    size_t out_bytes, out_sent, out_filled;
    unsigned char *in; /* [taken, filled) was received and not handed out */
    size_t in_bytes, in_taken, in_filled;
    tidegate_pending *pending;
    size_t pending_count;
    uint32_t first_free;
} tidegate_pacer;

/* ------------------------------------------------------------------------------------------------- what went wrong */

/* What it means, and what to do. */
static inline const char *tidegate_explain(tidegate_status status) {
    switch (status) {
    case TIDEGATE_OK: return "done";
    case TIDEGATE_TIMED_OUT: return "nothing came in time; receive again, or close: the outcome is unknown";
    case TIDEGATE_COUNT_INVALID: return "a packet has 1 to 256 items; send it in parts";
    case TIDEGATE_OUT_FULL: return "the buffer for requests is full; flush, then send again";
    case TIDEGATE_TOO_MANY_IN_FLIGHT: return "no more requests can be in flight; receive a reply first";
    case TIDEGATE_REQUEST_TOO_LARGE: return "the server does not read requests of this length; make it shorter";
    case TIDEGATE_BUFFER_TOO_SMALL: return "give tidegate_prepare more memory: 16 KiB a buffer, 1 to 65536 pending";
    case TIDEGATE_NEEDS_MORE: return "no whole reply has come; fill, then look again";
    case TIDEGATE_NO_ADDRESS: return "the host has no address; look at its name and port";
    case TIDEGATE_NOT_LET_IN: return "the server does not take the token; the reply says why";
    case TIDEGATE_CLOSED: return "there is no connection; connect, and send wins and losses again, but no bid requests";
    case TIDEGATE_IO: return "the connection failed, errno is in system_error; connect, as after TIDEGATE_CLOSED";
    case TIDEGATE_FRAME_TOO_LARGE: return "a reply does not fit the buffer; is this the binary port of Tidegate?";
    case TIDEGATE_MALFORMED: return "what came is no reply; is this the binary port of Tidegate?";
    case TIDEGATE_MISMATCH: return "a reply answers what was not asked; connect, as after TIDEGATE_CLOSED";
    }
    return "unknown status";
}

static inline const char *tidegate_no_bid_name(tidegate_no_bid reason) {
    static const char *const names[] = {"unspecified",  "campaign_unknown", "not_in_flight", "not_targeted",
                                        "throttled",    "frequency_capped", "no_lease",      "price_above_cap"};
    return names[(unsigned)reason <= TIDEGATE_PRICE_ABOVE_CAP ? (unsigned)reason : 0];
}

static inline const char *tidegate_outcome_name(tidegate_outcome outcome) {
    static const char *const names[] = {"unspecified",   "taken",           "duplicate", "late",
                                        "token_invalid", "price_above_bid", "lost",      "won"};
    return names[(unsigned)outcome <= TIDEGATE_WON ? (unsigned)outcome : 0];
}

/* ------------------------------------------------------------------------------------------------ reading protobuf */

/* 0 if there is no varint of 64 bits. */
static inline int tidegate_read_varint(tidegate_span *span, uint64_t *value) {
    uint64_t read = 0;
    unsigned shift;
    for (shift = 0; shift < 64; shift += 7) {
        unsigned char byte;
        if (span->at == span->end) {
            return 0;
        }
        byte = *span->at++;
        /* The tenth byte has room for one bit. */
        if (shift == 63 && byte > 1) {
            return 0;
        }
        read |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = read;
            return 1;
        }
    }
    return 0;
}

typedef struct tidegate_field {
    uint32_t number;
    unsigned type;     /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;    /* of a varint */
    tidegate_span content; /* of bytes */
} tidegate_field;

/* Cuts a field off: 1, or 0 at the end, or -1 if it is malformed. */
static inline int tidegate_next_field(tidegate_span *message, tidegate_field *field) {
    uint64_t tag, length;
    memset(field, 0, sizeof *field);
    if (message->at == message->end) {
        return 0;
    }
    if (!tidegate_read_varint(message, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return -1;
    }
    field->number = (uint32_t)(tag >> 3);
    field->type = (unsigned)(tag & 7);
    switch (field->type) {
    case 0: return tidegate_read_varint(message, &field->value) ? 1 : -1;
    case 1: length = 8; break;
    case 5: length = 4; break;
    case 2:
        if (!tidegate_read_varint(message, &length)) {
            return -1;
        }
        break;
    default: return -1;
    }
    if (length > (uint64_t)(message->end - message->at)) {
        return -1;
    }
    field->content.at = message->at;
    message->at += (size_t)length;
    field->content.end = message->at;
    return 1;
}

/* Reads a field of 32 bits; 0 if it is something else. */
static inline int tidegate_number(const tidegate_field *field, uint32_t *value) {
    if (field->type != 0 || field->value > UINT32_MAX) {
        return 0;
    }
    *value = (uint32_t)field->value;
    return 1;
}

/* Copies a text and ends it with a zero; what does not fit is cut, and control characters become '?'. */
static inline void tidegate_copy_text(char *out, size_t out_bytes, tidegate_span text) {
    size_t index, length = (size_t)(text.end - text.at);
    if (length > out_bytes - 1) {
        length = out_bytes - 1;
    }
    for (index = 0; index < length; index++) {
        unsigned char byte = text.at[index];
        out[index] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
    }
    out[length] = 0;
}

/* -------------------------------------------------------------------------------------------------- reading replies */

static inline int tidegate_read_bid(tidegate_span message, tidegate_bid *bid) {
    tidegate_field field;
    uint32_t reason = 0;
    int got;
    memset(bid, 0, sizeof *bid);
    while ((got = tidegate_next_field(&message, &field)) == 1) {
        if (field.number == 1 && !tidegate_number(&field, &bid->price_micros)) {
            return 0;
        } else if (field.number == 2) {
            size_t length = (size_t)(field.content.end - field.content.at);
            if (field.type != 2 || (length != 0 && length != TIDEGATE_TOKEN_BYTES)) {
                return 0;
            }
            bid->is_bid = length != 0;
            memcpy(bid->token.bytes, field.content.at, length);
        } else if (field.number == 3) {
            if (field.type != 0) {
                return 0;
            }
            reason = field.value <= TIDEGATE_PRICE_ABOVE_CAP ? (uint32_t)field.value : 0;
        }
    }
    bid->no_bid = bid->is_bid ? TIDEGATE_NO_BID_UNSPECIFIED : (tidegate_no_bid)reason;
    return got == 0;
}

/* The next bid of a packet: 1, or 0 at the end, or -1 if it is malformed. */
static inline int tidegate_read_next_bid(tidegate_reply *reply, tidegate_bid *bid) {
    tidegate_field field;
    int got;
    while ((got = tidegate_next_field(&reply->rest, &field)) == 1) {
        if (field.number == 1) {
            return field.type == 2 && tidegate_read_bid(field.content, bid) ? 1 : -1;
        }
    }
    return got;
}

/* The next outcome, in a list or in a field of its own: 1, or 0 at the end, or -1 if it is malformed. */
static inline int tidegate_read_next_outcome(tidegate_reply *reply, tidegate_outcome *outcome) {
    tidegate_field field;
    uint64_t number;
    int got;
    for (;;) {
        if (reply->list.at != reply->list.end) {
            if (!tidegate_read_varint(&reply->list, &number)) {
                return -1;
            }
            break;
        }
        if ((got = tidegate_next_field(&reply->rest, &field)) != 1) {
            return got;
        }
        if (field.number != 1) {
            continue;
        }
        if (field.type == 2) {
            reply->list = field.content;
        } else if (field.type == 0) {
            number = field.value;
            break;
        } else {
            return -1;
        }
    }
    *outcome = number <= TIDEGATE_WON ? (tidegate_outcome)number : TIDEGATE_OUTCOME_UNSPECIFIED;
    return 1;
}

/* Takes the next bid of a reply of kind TIDEGATE_BIDS, in the order asked; 0 behind the last one. */
static inline int tidegate_next_bid(tidegate_reply *reply, tidegate_bid *bid) {
    if (reply->kind != TIDEGATE_BIDS || reply->left == 0) {
        return 0;
    }
    reply->left--;
    return tidegate_read_next_bid(reply, bid) == 1;
}

/* Takes the next outcome of a reply of kind TIDEGATE_OUTCOMES, in the order told; 0 behind the last one. */
static inline int tidegate_next_outcome(tidegate_reply *reply, tidegate_outcome *outcome) {
    if (reply->kind != TIDEGATE_OUTCOMES || reply->left == 0) {
        return 0;
    }
    reply->left--;
    return tidegate_read_next_outcome(reply, outcome) == 1;
}

/* Counts the items of a packet to its end; -1 if one is malformed or there are more than 256. */
static inline int tidegate_count_items(const tidegate_reply *reply) {
    tidegate_reply copy = *reply;
    tidegate_bid bid;
    tidegate_outcome outcome;
    int got, count = 0;
    for (;;) {
        got = reply->kind == TIDEGATE_BIDS ? tidegate_read_next_bid(&copy, &bid)
                                           : tidegate_read_next_outcome(&copy, &outcome);
        if (got != 1) {
            return got == 0 ? count : -1;
        }
        if (++count > TIDEGATE_ITEMS_MAX) {
            return -1;
        }
    }
}

static inline int tidegate_read_put(tidegate_span message, tidegate_reply *reply) {
    tidegate_field field;
    int got;
    while ((got = tidegate_next_field(&message, &field)) == 1) {
        if (field.number == 1 && !tidegate_number(&field, &reply->campaign)) {
            return 0;
        } else if ((field.number == 2 || field.number == 3) && field.type != 0) {
            return 0;
        } else if (field.number == 2) {
            reply->version = field.value;
        } else if (field.number == 3) {
            reply->is_new = field.value != 0;
        }
    }
    return got == 0;
}

/* Finds the only field of `message` with a number of 1 to `last`. */
static inline int tidegate_only_case(tidegate_span message, uint32_t last, tidegate_field *found) {
    tidegate_field field;
    int got;
    memset(found, 0, sizeof *found);
    while ((got = tidegate_next_field(&message, &field)) == 1) {
        if (field.number <= last) {
            if (found->number != 0 || field.type != 2) {
                return 0;
            }
            *found = field;
        }
    }
    return got == 0 && found->number != 0;
}

/* Reads what the pacer says: the body of a room of its family. */
static inline int tidegate_read_room(tidegate_span room, tidegate_reply *reply) {
    tidegate_field field, found;
    tidegate_span body = {0, 0};
    uint64_t family = 0;
    int got, items;
    while ((got = tidegate_next_field(&room, &field)) == 1) {
        if (field.number == 1) {
            if (field.type != 0) {
                return 0;
            }
            family = field.value;
        } else if (field.number == 2) {
            if (field.type != 2) {
                return 0;
            }
            body = field.content;
        }
    }
    if (got != 0 || family != 5 || !tidegate_only_case(body, 4, &found)) {
        return 0;
    }
    switch (found.number) {
    case 1: reply->kind = TIDEGATE_BIDS; break;
    case 2: reply->kind = TIDEGATE_OUTCOMES; break;
    case 3: reply->kind = TIDEGATE_CAMPAIGN_PUT; return tidegate_read_put(found.content, reply);
    default: reply->kind = TIDEGATE_CAMPAIGN_ENDED; return 1;
    }
    reply->rest = found.content;
    items = tidegate_count_items(reply);
    if (items < 1) {
        return 0;
    }
    reply->count = reply->left = (size_t)items;
    return 1;
}

static inline int tidegate_read_error(tidegate_span message, tidegate_reply *reply) {
    tidegate_field field;
    int got;
    reply->kind = TIDEGATE_ERROR;
    while ((got = tidegate_next_field(&message, &field)) == 1) {
        if ((field.number == 1 || field.number == 2) && field.type != 2) {
            return 0;
        } else if (field.number == 1) {
            tidegate_copy_text(reply->code, sizeof reply->code, field.content);
        } else if (field.number == 2) {
            tidegate_copy_text(reply->detail, sizeof reply->detail, field.content);
        } else if (field.number == 3 && !tidegate_number(&field, &reply->retry_after_ms)) {
            return 0;
        }
    }
    return got == 0;
}

static inline int tidegate_read_welcome(tidegate_span message, tidegate_reply *reply, tidegate_pacer *pacer) {
    tidegate_field field;
    uint32_t frame_bytes_max = 0, in_flight_max = 0;
    int got;
    reply->kind = TIDEGATE_HELLO;
    while ((got = tidegate_next_field(&message, &field)) == 1) {
        if ((field.number == 1 && !tidegate_number(&field, &frame_bytes_max)) ||
            (field.number == 3 && !tidegate_number(&field, &in_flight_max))) {
            return 0;
        }
    }
    pacer->frame_bytes_max = frame_bytes_max;
    pacer->in_flight_max = in_flight_max < pacer->pending_count ? in_flight_max : pacer->pending_count;
    return got == 0;
}

/* Whether a field of a ReplyFrame is a body. */
static inline int tidegate_is_body(uint32_t number) {
    return (number >= 2 && number <= 15) || (number >= 200 && number <= 205);
}

/* Reads a whole frame, and finds the request that it answers. */
static inline tidegate_status tidegate_read_frame(tidegate_pacer *pacer, tidegate_span frame, tidegate_reply *reply) {
    tidegate_field field, body;
    tidegate_pending *request;
    uint64_t correlation = 0;
    int got, is_read;
    memset(&body, 0, sizeof body);
    memset(reply, 0, sizeof *reply);
    while ((got = tidegate_next_field(&frame, &field)) == 1) {
        if (field.number == 1) {
            if (field.type != 0) {
                return TIDEGATE_MALFORMED;
            }
            correlation = field.value;
        } else if (tidegate_is_body(field.number)) {
            if (body.number != 0 || field.type != 2) {
                return TIDEGATE_MALFORMED;
            }
            body = field;
        }
    }
    if (got != 0 || body.number == 0) {
        return TIDEGATE_MALFORMED;
    }
    switch (body.number) {
    case 2: is_read = tidegate_read_welcome(body.content, reply, pacer); break;
    case 10: is_read = tidegate_read_error(body.content, reply); break;
    case 15: is_read = tidegate_read_room(body.content, reply); break;
    default: return TIDEGATE_MISMATCH;
    }
    if (!is_read) {
        return TIDEGATE_MALFORMED;
    }
    if (correlation == 0) {
        return reply->kind == TIDEGATE_ERROR ? TIDEGATE_OK : TIDEGATE_MISMATCH;
    }
    if ((correlation & 0xffff) >= pacer->pending_count) {
        return TIDEGATE_MISMATCH;
    }
    request = &pacer->pending[correlation & 0xffff];
    if (request->asked == TIDEGATE_NOTHING || request->correlation != correlation) {
        return TIDEGATE_MISMATCH;
    }
    reply->asked = request->asked;
    reply->tag = request->tag;
    if (reply->kind != TIDEGATE_ERROR && (reply->kind != reply->asked || reply->count != request->items)) {
        return TIDEGATE_MISMATCH;
    }
    request->asked = TIDEGATE_NOTHING;
    request->next_free = pacer->first_free;
    pacer->first_free = (uint32_t)(correlation & 0xffff);
    pacer->in_flight--;
    return TIDEGATE_OK;
}

/* ----------------------------------------------------------------------------------------------------- connections */

/* Closes the connection; requests in flight are forgotten. It can be connected again. */
static inline void tidegate_close(tidegate_pacer *pacer) {
    if (pacer->socket >= 0) {
        close(pacer->socket);
    }
    pacer->socket = -1;
}

/* Ends the connection with this status. */
static inline tidegate_status tidegate_end(tidegate_pacer *pacer, tidegate_status status) {
    pacer->system_error = status == TIDEGATE_IO ? errno : 0;
    tidegate_close(pacer);
    return status;
}

/* Gives a pacer its memory, which it uses until it is no more needed: two buffers of TIDEGATE_BUFFER_BYTES_MIN or more,
 * and one tidegate_pending for each request that is to be in flight at once. A plan is as long as fits `out`. */
static inline tidegate_status tidegate_prepare(tidegate_pacer *pacer, void *out, size_t out_bytes, void *in,
                                               size_t in_bytes, tidegate_pending *pending, size_t pending_count) {
    memset(pacer, 0, sizeof *pacer);
    pacer->socket = -1;
    if (out_bytes < TIDEGATE_BUFFER_BYTES_MIN || in_bytes < TIDEGATE_BUFFER_BYTES_MIN || pending_count == 0 ||
        pending_count > TIDEGATE_PENDING_MAX) {
        return TIDEGATE_BUFFER_TOO_SMALL;
    }
    pacer->out = (unsigned char *)out;
    pacer->out_bytes = out_bytes;
    pacer->in = (unsigned char *)in;
    pacer->in_bytes = in_bytes;
    pacer->pending = pending;
    pacer->pending_count = pending_count;
    return TIDEGATE_OK;
}

static inline int64_t tidegate_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until the socket can be read or written, or fails; 0 when the time is over, -1 if poll fails. */
static inline int tidegate_wait(int descriptor, short events, int64_t deadline_ms) {
    struct pollfd polled;
    polled.fd = descriptor;
    polled.events = events;
    for (;;) {
        int64_t left = deadline_ms - tidegate_now_ms();
        int ready;
        polled.revents = 0;
        ready = poll(&polled, 1, left > 0 ? (int)left : 0);
        if (ready >= 0 || errno != EINTR) {
            return ready;
        }
    }
}

/* Writes all that was sent and waits in the buffer. After TIDEGATE_TIMED_OUT it can be called again. */
static inline tidegate_status tidegate_flush(tidegate_pacer *pacer) {
    int64_t deadline_ms = 0;
    if (pacer->socket < 0) {
        return TIDEGATE_CLOSED;
    }
    while (pacer->out_sent < pacer->out_filled) {
        const unsigned char *unsent = pacer->out + pacer->out_sent;
        ssize_t count = send(pacer->socket, unsent, pacer->out_filled - pacer->out_sent, MSG_NOSIGNAL);
        if (count >= 0) {
            pacer->out_sent += (size_t)count;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int ready;
            if (deadline_ms == 0) {
                deadline_ms = tidegate_now_ms() + pacer->timeout_ms;
            }
            ready = tidegate_wait(pacer->socket, POLLOUT, deadline_ms);
            if (ready == 0) {
                return TIDEGATE_TIMED_OUT;
            }
            if (ready < 0) {
                return tidegate_end(pacer, TIDEGATE_IO);
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return tidegate_end(pacer, TIDEGATE_CLOSED);
        } else if (errno != EINTR) {
            return tidegate_end(pacer, TIDEGATE_IO);
        }
    }
    pacer->out_sent = pacer->out_filled = 0;
    return TIDEGATE_OK;
}

/* Looks for a whole reply in what has come, without waiting; TIDEGATE_NEEDS_MORE if there is none. */
static inline tidegate_status tidegate_next_reply(tidegate_pacer *pacer, tidegate_reply *reply) {
    tidegate_span unread, frame;
    tidegate_status status;
    uint64_t length;
    size_t there;
    if (pacer->socket < 0) {
        return TIDEGATE_CLOSED;
    }
    there = pacer->in_filled - pacer->in_taken;
    unread.at = pacer->in + pacer->in_taken;
    unread.end = unread.at + (there < 5 ? there : 5);
    frame = unread;
    if (!tidegate_read_varint(&frame, &length)) {
        return there < 5 ? TIDEGATE_NEEDS_MORE : tidegate_end(pacer, TIDEGATE_MALFORMED);
    }
    /* The longest length takes five bytes, and a frame must be whole in the buffer. */
    if (length > pacer->in_bytes - 5) {
        return tidegate_end(pacer, TIDEGATE_FRAME_TOO_LARGE);
    }
    if (length > there - (size_t)(frame.at - unread.at)) {
        return TIDEGATE_NEEDS_MORE;
    }
    frame.end = frame.at + (size_t)length;
    pacer->in_taken = (size_t)(frame.end - pacer->in);
    status = tidegate_read_frame(pacer, frame, reply);
    return status == TIDEGATE_OK ? status : tidegate_end(pacer, status);
}

/* Receives some bytes, and waits for them until then; with a time that is over it does not wait. */
static inline tidegate_status tidegate_fill(tidegate_pacer *pacer, int64_t deadline_ms) {
    if (pacer->socket < 0) {
        return TIDEGATE_CLOSED;
    }
    if (pacer->in_taken > 0) {
        memmove(pacer->in, pacer->in + pacer->in_taken, pacer->in_filled - pacer->in_taken);
        pacer->in_filled -= pacer->in_taken;
        pacer->in_taken = 0;
    }
    if (pacer->in_filled == pacer->in_bytes) {
        /* Only if replies wait there that nobody took: tidegate_next_reply refuses what does not fit. */
        return TIDEGATE_OK;
    }
    for (;;) {
        int ready;
        ssize_t count = recv(pacer->socket, pacer->in + pacer->in_filled, pacer->in_bytes - pacer->in_filled, 0);
        if (count > 0) {
            pacer->in_filled += (size_t)count;
            return TIDEGATE_OK;
        }
        if (count == 0 || errno == ECONNRESET) {
            return tidegate_end(pacer, TIDEGATE_CLOSED);
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return tidegate_end(pacer, TIDEGATE_IO);
        }
        ready = tidegate_wait(pacer->socket, POLLIN, deadline_ms);
        if (ready == 0) {
            return TIDEGATE_TIMED_OUT;
        }
        if (ready < 0) {
            return tidegate_end(pacer, TIDEGATE_IO);
        }
    }
}

/* Writes what waits, and gives the next reply. Replies may come in another order than their requests: see its tag. */
static inline tidegate_status tidegate_receive(tidegate_pacer *pacer, tidegate_reply *reply) {
    int64_t deadline_ms = tidegate_now_ms() + pacer->timeout_ms;
    tidegate_status status = tidegate_flush(pacer);
    while (status == TIDEGATE_OK) {
        status = tidegate_next_reply(pacer, reply);
        if (status != TIDEGATE_NEEDS_MORE) {
            return status;
        }
        status = tidegate_fill(pacer, deadline_ms);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------- writing requests */

/* Finds room for so many bytes, behind what waits. */
static inline tidegate_status tidegate_make_room(tidegate_pacer *pacer, size_t bytes) {
    if (bytes > pacer->out_bytes) {
        return TIDEGATE_BUFFER_TOO_SMALL;
    }
    if (bytes > pacer->out_bytes - pacer->out_filled && pacer->out_sent > 0) {
        memmove(pacer->out, pacer->out + pacer->out_sent, pacer->out_filled - pacer->out_sent);
        pacer->out_filled -= pacer->out_sent;
        pacer->out_sent = 0;
    }
    return bytes > pacer->out_bytes - pacer->out_filled ? TIDEGATE_OUT_FULL : TIDEGATE_OK;
}

/* Checks what can be known before a request of at most so many bytes is written, and says its correlation. */
static inline tidegate_status tidegate_begin(tidegate_pacer *pacer, size_t bytes, uint64_t *correlation) {
    if (pacer->socket < 0) {
        return TIDEGATE_CLOSED;
    }
    if (pacer->in_flight >= pacer->in_flight_max) {
        return TIDEGATE_TOO_MANY_IN_FLIGHT;
    }
    *correlation = (pacer->sequence + 1) << 16 | pacer->first_free;
    return tidegate_make_room(pacer, bytes);
}

/* The request stands between out_filled and `end`, the first `prefix` bytes of it being its length: it is on its way,
 * unless the server would not read it. */
static inline tidegate_status tidegate_commit(tidegate_pacer *pacer, const unsigned char *end, size_t prefix,
                                              tidegate_kind asked, size_t items, uint64_t tag) {
    tidegate_pending *request = &pacer->pending[pacer->first_free];
    size_t bytes = (size_t)(end - (pacer->out + pacer->out_filled));
    if (bytes - prefix > pacer->frame_bytes_max) {
        return TIDEGATE_REQUEST_TOO_LARGE;
    }
    pacer->sequence++;
    request->correlation = pacer->sequence << 16 | pacer->first_free;
    request->tag = tag;
    request->items = (uint32_t)items;
    request->asked = asked;
    pacer->first_free = request->next_free;
    pacer->in_flight++;
    pacer->out_filled += bytes;
    return TIDEGATE_OK;
}

static inline unsigned char *tidegate_write_varint(unsigned char *at, uint64_t value) {
    while (value >= 0x80) {
        *at++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

static inline size_t tidegate_varint_bytes(uint64_t value) {
    size_t bytes = 1;
    while (value >= 0x80) {
        value >>= 7;
        bytes++;
    }
    return bytes;
}

/* Zero is not written. */
static inline unsigned char *tidegate_write_number(unsigned char *at, unsigned char tag, uint32_t value) {
    if (value != 0) {
        *at++ = tag;
        at = tidegate_write_varint(at, value);
    }
    return at;
}

/* Zero is not written. */
static inline unsigned char *tidegate_write_fixed64(unsigned char *at, unsigned char tag, uint64_t value) {
    if (value != 0) {
        int shift;
        *at++ = tag;
        for (shift = 0; shift < 64; shift += 8) {
            *at++ = (unsigned char)(value >> shift);
        }
    }
    return at;
}

static inline unsigned char *tidegate_write_bytes(unsigned char *at, unsigned char tag, const void *bytes,
                                                  size_t length) {
    *at++ = tag;
    at = tidegate_write_varint(at, length);
    if (length > 0) {
        memcpy(at, bytes, length);
    }
    return at + length;
}

/* Longest item with its tag and length, and longest head of a packet. All packets are shorter than 2^14 bytes, so each
 * of their lengths takes two bytes, which are filled in at the end. */
#define TIDEGATE_ITEM_BYTES_MAX 48
#define TIDEGATE_HEAD_BYTES_MAX 32

typedef struct tidegate_packet {
    unsigned char *at;      /* where the next item goes */
    unsigned char *gaps[4]; /* of the lengths: frame, room, body, packet */
} tidegate_packet;

/* Opens a packet of `count` items, which is case `request` of a PacerRequest. */
static inline tidegate_status tidegate_open_packet(tidegate_pacer *pacer, size_t count, unsigned char request,
                                                   tidegate_packet *packet) {
    tidegate_status status;
    uint64_t correlation;
    unsigned char *at;
    if (count == 0 || count > TIDEGATE_ITEMS_MAX) {
        return TIDEGATE_COUNT_INVALID;
    }
    status = tidegate_begin(pacer, TIDEGATE_HEAD_BYTES_MAX + count * TIDEGATE_ITEM_BYTES_MAX, &correlation);
    if (status != TIDEGATE_OK) {
        return status;
    }
    at = pacer->out + pacer->out_filled;
    packet->gaps[0] = at;
    at += 2;
    *at++ = 0x08;
    at = tidegate_write_varint(at, correlation);
    *at++ = 0x7a; /* room */
    packet->gaps[1] = at;
    at += 2;
    *at++ = 0x08; /* family */
    *at++ = 5;
    *at++ = 0x12; /* body */
    packet->gaps[2] = at;
    at += 2;
    *at++ = (unsigned char)(request << 3 | 2);
    packet->gaps[3] = at;
    packet->at = at + 2;
    return TIDEGATE_OK;
}

static inline tidegate_status tidegate_close_packet(tidegate_pacer *pacer, tidegate_packet *packet, tidegate_kind asked,
                                                    size_t count, uint64_t tag) {
    int index;
    for (index = 0; index < 4; index++) {
        size_t length = (size_t)(packet->at - packet->gaps[index]) - 2;
        packet->gaps[index][0] = (unsigned char)(length | 0x80);
        packet->gaps[index][1] = (unsigned char)(length >> 7);
    }
    return tidegate_commit(pacer, packet->at, 2, asked, count, tag);
}

/* Sends requests for 1 to 256 bids. Nothing may be written before tidegate_flush or tidegate_receive. `tag` is any
 * number; it comes back with the reply, whose kind is TIDEGATE_BIDS. */
static inline tidegate_status tidegate_send_bids(tidegate_pacer *pacer, const tidegate_bid_request *requests,
                                                 size_t count, uint64_t tag) {
    tidegate_packet packet;
    tidegate_status status = tidegate_open_packet(pacer, count, 1, &packet);
    size_t index;
    if (status != TIDEGATE_OK) {
        return status;
    }
    for (index = 0; index < count; index++) {
        const tidegate_bid_request *request = &requests[index];
        unsigned char *item = packet.at, *at = item + 2;
        at = tidegate_write_fixed64(at, 0x09, request->id);
        at = tidegate_write_number(at, 0x10, request->campaign);
        at = tidegate_write_fixed64(at, 0x19, request->user);
        at = tidegate_write_fixed64(at, 0x21, request->key);
        at = tidegate_write_number(at, 0x28, request->price_micros);
        item[0] = 0x0a;
        item[1] = (unsigned char)(at - item - 2);
        packet.at = at;
    }
    return tidegate_close_packet(pacer, &packet, TIDEGATE_BIDS, count, tag);
}

/* Tells of 1 to 256 wins; the kind of the reply is TIDEGATE_OUTCOMES. */
static inline tidegate_status tidegate_send_wins(tidegate_pacer *pacer, const tidegate_win *wins, size_t count,
                                                 uint64_t tag) {
    tidegate_packet packet;
    tidegate_status status = tidegate_open_packet(pacer, count, 2, &packet);
    size_t index;
    if (status != TIDEGATE_OK) {
        return status;
    }
    for (index = 0; index < count; index++) {
        unsigned char *item = packet.at, *at = item + 2;
        at = tidegate_write_bytes(at, 0x0a, wins[index].token.bytes, TIDEGATE_TOKEN_BYTES);
        at = tidegate_write_number(at, 0x10, wins[index].price_micros);
        item[0] = 0x0a;
        item[1] = (unsigned char)(at - item - 2);
        packet.at = at;
    }
    return tidegate_close_packet(pacer, &packet, TIDEGATE_OUTCOMES, count, tag);
}

/* Tells of 1 to 256 bids that did not win, so that what they reserved is free; the reply is as that of wins. */
static inline tidegate_status tidegate_send_losses(tidegate_pacer *pacer, const tidegate_token *tokens, size_t count,
                                                   uint64_t tag) {
    tidegate_packet packet;
    tidegate_status status = tidegate_open_packet(pacer, count, 3, &packet);
    size_t index;
    if (status != TIDEGATE_OK) {
        return status;
    }
    for (index = 0; index < count; index++) {
        packet.at = tidegate_write_bytes(packet.at, 0x0a, tokens[index].bytes, TIDEGATE_TOKEN_BYTES);
    }
    return tidegate_close_packet(pacer, &packet, TIDEGATE_OUTCOMES, count, tag);
}

/* Sends a change of a campaign, which is case `request` of a PacerRequest. */
static inline tidegate_status tidegate_send_change(tidegate_pacer *pacer, unsigned char request, const char *id,
                                                   const void *plan, size_t plan_bytes, tidegate_kind asked,
                                                   uint64_t tag) {
    size_t id_bytes = strlen(id), change, body, room, frame, prefix;
    uint64_t correlation;
    tidegate_status status;
    unsigned char *at;
    /* No sum below overflows. */
    if (id_bytes > pacer->out_bytes || plan_bytes > pacer->out_bytes) {
        return TIDEGATE_BUFFER_TOO_SMALL;
    }
    status = tidegate_begin(pacer, 0, &correlation);
    if (status != TIDEGATE_OK) {
        return status;
    }
    change = 1 + tidegate_varint_bytes(id_bytes) + id_bytes;
    if (plan_bytes > 0) {
        change += 1 + tidegate_varint_bytes(plan_bytes) + plan_bytes;
    }
    body = 1 + tidegate_varint_bytes(change) + change;
    room = 2 + 1 + tidegate_varint_bytes(body) + body;
    frame = 1 + tidegate_varint_bytes(correlation) + 1 + tidegate_varint_bytes(room) + room;
    prefix = tidegate_varint_bytes(frame);
    status = tidegate_make_room(pacer, prefix + frame);
    if (status != TIDEGATE_OK) {
        return status;
    }
    at = tidegate_write_varint(pacer->out + pacer->out_filled, frame);
    *at++ = 0x08;
    at = tidegate_write_varint(at, correlation);
    *at++ = 0x7a; /* room */
    at = tidegate_write_varint(at, room);
    *at++ = 0x08; /* family */
    *at++ = 5;
    *at++ = 0x12; /* body */
    at = tidegate_write_varint(at, body);
    *at++ = (unsigned char)(request << 3 | 2);
    at = tidegate_write_varint(at, change);
    at = tidegate_write_bytes(at, 0x0a, id, id_bytes);
    if (plan_bytes > 0) {
        at = tidegate_write_bytes(at, 0x12, plan, plan_bytes);
    }
    return tidegate_commit(pacer, at, prefix, asked, 0, tag);
}

/* Gives a campaign a plan: JSON, as the body of PUT /v1/campaigns/{id}. The kind of the reply is
 * TIDEGATE_CAMPAIGN_PUT. */
static inline tidegate_status tidegate_send_put_campaign(tidegate_pacer *pacer, const char *id, const void *plan,
                                                         size_t plan_bytes, uint64_t tag) {
    return tidegate_send_change(pacer, 4, id, plan, plan_bytes, TIDEGATE_CAMPAIGN_PUT, tag);
}

/* Ends a campaign: nothing more is bid on it, and its bids may still win. The kind of the reply is
 * TIDEGATE_CAMPAIGN_ENDED. */
static inline tidegate_status tidegate_send_end_campaign(tidegate_pacer *pacer, const char *id, uint64_t tag) {
    return tidegate_send_change(pacer, 5, id, NULL, 0, TIDEGATE_CAMPAIGN_ENDED, tag);
}

/* --------------------------------------------------------------------------------------------------------- let in */

static inline tidegate_status tidegate_send_hello(tidegate_pacer *pacer, const char *token) {
    size_t token_bytes = strlen(token), hello, frame, prefix;
    uint64_t correlation;
    tidegate_status status;
    unsigned char *at;
    if (token_bytes > pacer->out_bytes) {
        return TIDEGATE_BUFFER_TOO_SMALL;
    }
    status = tidegate_begin(pacer, 0, &correlation);
    if (status != TIDEGATE_OK) {
        return status;
    }
    hello = 1 + tidegate_varint_bytes(token_bytes) + token_bytes;
    frame = 1 + tidegate_varint_bytes(correlation) + 1 + tidegate_varint_bytes(hello) + hello;
    prefix = tidegate_varint_bytes(frame);
    status = tidegate_make_room(pacer, prefix + frame);
    if (status != TIDEGATE_OK) {
        return status;
    }
    at = tidegate_write_varint(pacer->out + pacer->out_filled, frame);
    *at++ = 0x08;
    at = tidegate_write_varint(at, correlation);
    *at++ = 0x12; /* hello */
    at = tidegate_write_varint(at, hello);
    at = tidegate_write_bytes(at, 0x0a, token, token_bytes);
    return tidegate_commit(pacer, at, prefix, TIDEGATE_HELLO, 0, 0);
}

/* Shows the token over a connected stream socket, which is the pacer's from now on, and waits for the welcome. After
 * TIDEGATE_NOT_LET_IN the reply says why. `timeout_ms` is for each call that waits, 0 to never wait. */
static inline tidegate_status tidegate_connect_over(tidegate_pacer *pacer, int connected, const char *token,
                                                    int timeout_ms, tidegate_reply *reply) {
    tidegate_status status;
    size_t index;
    int flags = fcntl(connected, F_GETFL);
    tidegate_close(pacer);
    memset(reply, 0, sizeof *reply);
    pacer->socket = connected;
    pacer->timeout_ms = timeout_ms > 0 ? timeout_ms : 0;
    pacer->in_flight = 0;
    /* What holds before the server has told its bounds. */
    pacer->in_flight_max = 1;
    pacer->frame_bytes_max = 8192;
    pacer->out_sent = pacer->out_filled = pacer->in_taken = pacer->in_filled = 0;
    pacer->first_free = 0;
    for (index = 0; index < pacer->pending_count; index++) {
        pacer->pending[index].asked = TIDEGATE_NOTHING;
        pacer->pending[index].next_free = (uint32_t)index + 1;
    }
    if (flags < 0 || fcntl(connected, F_SETFL, flags | O_NONBLOCK) < 0) {
        return tidegate_end(pacer, TIDEGATE_IO);
    }
    status = tidegate_send_hello(pacer, token);
    if (status == TIDEGATE_OK) {
        status = tidegate_receive(pacer, reply);
    }
    if (status == TIDEGATE_OK && reply->kind == TIDEGATE_HELLO) {
        return TIDEGATE_OK;
    }
    return tidegate_end(pacer, status == TIDEGATE_OK ? TIDEGATE_NOT_LET_IN : status);
}

/* Connects to one address; a socket, or -1 with errno. */
static inline int tidegate_open_socket(const struct addrinfo *address, int timeout_ms) {
    int error = 0, on = 1;
    socklen_t error_bytes = sizeof error;
    int opened = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (opened < 0) {
        return -1;
    }
    /* Packets are gathered before the socket: gathering again below it would only add 40 ms. */
    setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(opened, F_SETFL, O_NONBLOCK) < 0) {
        error = errno;
    } else if (connect(opened, address->ai_addr, address->ai_addrlen) < 0) {
        error = errno;
        if (error == EINPROGRESS || error == EINTR) {
            int ready = tidegate_wait(opened, POLLOUT, tidegate_now_ms() + timeout_ms);
            if (ready == 0) {
                error = ETIMEDOUT;
            } else if (ready < 0 || getsockopt(opened, SOL_SOCKET, SO_ERROR, &error, &error_bytes) < 0) {
                error = errno;
            }
        }
    }
    if (error == 0) {
        return opened;
    }
    close(opened);
    errno = error;
    return -1;
}

/* Connects to a host and port, tries each of its addresses for so long, and shows the token; otherwise as
 * tidegate_connect_over. */
static inline tidegate_status tidegate_connect(tidegate_pacer *pacer, const char *host, const char *port,
                                               const char *token, int timeout_ms, tidegate_reply *reply) {
    struct addrinfo hints, *addresses = NULL, *address;
    int opened = -1;
    tidegate_close(pacer);
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, port, &hints, &addresses) != 0) {
        return tidegate_end(pacer, TIDEGATE_NO_ADDRESS);
    }
    for (address = addresses; address != NULL && opened < 0; address = address->ai_next) {
        opened = tidegate_open_socket(address, timeout_ms);
        pacer->system_error = errno;
    }
    freeaddrinfo(addresses);
    if (opened < 0) {
        errno = pacer->system_error;
        return tidegate_end(pacer, TIDEGATE_IO);
    }
    return tidegate_connect_over(pacer, opened, token, timeout_ms, reply);
}

#endif
