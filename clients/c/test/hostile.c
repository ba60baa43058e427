/* A server that says anything: good replies, cut anywhere, and replies with changed bytes, made from a seed.
 *
 *   hostile SEED ROUNDS
 *
 * Built with sanitizers, which end it if a byte outside the client's memory is touched. What the client hands out it
 * must have checked: as many items as were asked for, and prices and outcomes that can be read.
 */
#include "check.h"

#define TIMEOUT_MS 10000
#define REPLY_BYTES_MAX (2 * TIDEGATE_BUFFER_BYTES_MIN)

/* A reply that is being put together. */
typedef struct script {
    unsigned char bytes[REPLY_BYTES_MAX];
    size_t length;
} script;

static uint64_t state;

/* xorshift64*, of Marsaglia and Vigna. */
static uint64_t chance(uint64_t below) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * UINT64_C(2685821657736338717) >> 16) % below;
}

static void add_varint(script *said, uint64_t value) {
    said->length = (size_t)(tidegate_write_varint(said->bytes + said->length, value) - said->bytes);
}

static void add_nested(script *said, unsigned char tag, const script *content) {
    said->bytes[said->length++] = tag;
    add_varint(said, content->length);
    memcpy(said->bytes + said->length, content->bytes, content->length);
    said->length += content->length;
}

static void add_field(script *said, unsigned char tag, uint64_t value) {
    said->bytes[said->length++] = tag;
    add_varint(said, value);
}

/* A frame with this correlation and body. */
static void frame(script *said, uint64_t correlation, unsigned char tag, const script *body) {
    static script content;
    content.length = 0;
    add_field(&content, 0x08, correlation);
    add_nested(&content, tag, body);
    add_varint(said, content.length);
    memcpy(said->bytes + said->length, content.bytes, content.length);
    said->length += content.length;
}

static void room(script *said, uint64_t correlation, unsigned char request, const script *packet) {
    static script body, content;
    body.length = content.length = 0;
    add_nested(&body, request, packet);
    add_field(&content, 0x08, 5);
    add_nested(&content, 0x12, &body);
    frame(said, correlation, 0x7a, &content);
}

static void welcome(script *said, uint64_t correlation) {
    static script body;
    body.length = 0;
    add_field(&body, 0x08, 4 << 20);
    add_field(&body, 0x18, 100);
    frame(said, correlation, 0x12, &body);
}

static void bids(script *said, uint64_t correlation, size_t count) {
    static script packet, bid, token;
    size_t index;
    packet.length = 0;
    for (index = 0; index < count; index++) {
        bid.length = 0;
        if (index % 3 == 2) {
            add_field(&bid, 0x18, 1 + index % 7);
        } else {
            add_field(&bid, 0x08, 1000 + index);
            memset(token.bytes, (int)index, TIDEGATE_TOKEN_BYTES);
            token.length = TIDEGATE_TOKEN_BYTES;
            add_nested(&bid, 0x12, &token);
        }
        add_nested(&packet, 0x0a, &bid);
    }
    room(said, correlation, 0x0a, &packet);
}

/* A packet of one bid, whose token has another length than tokens have. */
static void bid_with_token_of(script *said, uint64_t correlation, size_t token_bytes) {
    static script packet, bid, token;
    packet.length = bid.length = 0;
    memset(token.bytes, 0xff, token_bytes);
    token.length = token_bytes;
    add_nested(&bid, 0x12, &token);
    add_nested(&packet, 0x0a, &bid);
    room(said, correlation, 0x0a, &packet);
}

static void outcomes(script *said, uint64_t correlation, size_t count, int is_list) {
    static script packet, list;
    size_t index;
    packet.length = list.length = 0;
    for (index = 0; index < count; index++) {
        if (is_list) {
            add_varint(&list, 1 + index % 7);
        } else {
            add_field(&packet, 0x08, 1 + index % 7);
        }
    }
    if (is_list) {
        add_nested(&packet, 0x0a, &list);
    }
    room(said, correlation, 0x12, &packet);
}

static void error(script *said, uint64_t correlation, size_t detail_bytes) {
    static script body, text;
    body.length = 0;
    memset(text.bytes, 27, detail_bytes);
    text.length = detail_bytes;
    add_nested(&body, 0x12, &text);
    text.length = detail_bytes < 100 ? detail_bytes : 100;
    add_nested(&body, 0x0a, &text);
    add_field(&body, 0x18, 50);
    frame(said, correlation, 0x52, &body);
}

static void campaign_put(script *said, uint64_t correlation) {
    static script put;
    put.length = 0;
    add_field(&put, 0x08, 7);
    add_field(&put, 0x10, 3);
    add_field(&put, 0x18, 1);
    room(said, correlation, 0x1a, &put);
}

/* Writes all of it, however little the socket takes, and ends the stream: the client cannot wait for more. */
static void say(int server, const script *said) {
    CHECK(send(server, said->bytes, said->length, MSG_NOSIGNAL) == (ssize_t)said->length);
    CHECK(shutdown(server, SHUT_WR) == 0);
}

/* A client that was let in, and the server's side of its connection. */
static int let_in(client *made) {
    static script hello;
    int pair[2], bytes = 1 << 20;
    /* The Hello is the first request: sequence 1, slot 0. */
    hello.length = 0;
    welcome(&hello, 1 << 16);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    CHECK(send(pair[1], hello.bytes, hello.length, MSG_NOSIGNAL) == (ssize_t)hello.length);
    CHECK(tidegate_connect_over(&made->pacer, pair[0], "token", TIMEOUT_MS, &made->reply) == TIDEGATE_OK);
    return pair[1];
}

#define REQUESTS 10
static const uint64_t TAGS[] = {1000, 2000, 3000, 4000, 5000};

/* Five requests in flight; their correlations. */
static void ask(client *made, uint64_t *correlations) {
    tidegate_pacer *pacer = &made->pacer;
    tidegate_bid_request requests[TIDEGATE_ITEMS_MAX];
    tidegate_win wins[REQUESTS];
    tidegate_token tokens[REQUESTS];
    size_t index;
    memset(requests, 0xff, sizeof requests);
    memset(wins, 0xff, sizeof wins);
    memset(tokens, 0xff, sizeof tokens);
    CHECK(tidegate_send_bids(pacer, requests, REQUESTS, TAGS[0]) == TIDEGATE_OK);
    CHECK(tidegate_send_wins(pacer, wins, REQUESTS, TAGS[1]) == TIDEGATE_OK);
    CHECK(tidegate_send_losses(pacer, tokens, REQUESTS, TAGS[2]) == TIDEGATE_OK);
    CHECK(tidegate_send_put_campaign(pacer, "shoes", "{}", 2, TAGS[3]) == TIDEGATE_OK);
    CHECK(tidegate_flush(pacer) == TIDEGATE_OK);
    CHECK(tidegate_send_bids(pacer, requests, TIDEGATE_ITEMS_MAX, TAGS[4]) == TIDEGATE_OK);
    CHECK(pacer->in_flight == 5);
    for (index = 0; index < 5; index++) {
        const tidegate_pending *request = made->pending;
        while (request->asked == TIDEGATE_NOTHING || request->tag != TAGS[index]) {
            CHECK(++request < made->pending + pacer->pending_count);
        }
        correlations[index] = request->correlation;
    }
}

/* All five answered well, in another order. */
static void answer(script *said, const uint64_t *correlations) {
    said->length = 0;
    bids(said, correlations[4], TIDEGATE_ITEMS_MAX);
    campaign_put(said, correlations[3]);
    outcomes(said, correlations[2], REQUESTS, 0);
    outcomes(said, correlations[1], REQUESTS, 1);
    bids(said, correlations[0], REQUESTS);
}

/* Reads all that a reply holds; what is handed out must be what was asked for. Returns the bids among it. */
static size_t read_reply(tidegate_reply *reply) {
    tidegate_bid bid;
    tidegate_outcome outcome;
    size_t items = 0, offered = 0;
    while (tidegate_next_bid(reply, &bid)) {
        items++;
        offered += (size_t)bid.is_bid;
        CHECK(!bid.is_bid || bid.no_bid == TIDEGATE_NO_BID_UNSPECIFIED);
        CHECK(*tidegate_no_bid_name(bid.no_bid) != 0);
    }
    while (tidegate_next_outcome(reply, &outcome)) {
        items++;
        CHECK(*tidegate_outcome_name(outcome) != 0);
    }
    CHECK(items == reply->count);
    CHECK(strlen(reply->code) < sizeof reply->code && strlen(reply->detail) < sizeof reply->detail);
    return offered;
}

/* Receives until the connection ends, and says how. */
static tidegate_status receive_all(client *made, size_t *replies) {
    *replies = 0;
    for (;;) {
        tidegate_status status = tidegate_receive(&made->pacer, &made->reply);
        if (status != TIDEGATE_OK) {
            CHECK(status >= TIDEGATE_CLOSED && made->pacer.socket == -1 && *tidegate_explain(status) != 0);
            CHECK(tidegate_receive(&made->pacer, &made->reply) == TIDEGATE_CLOSED);
            return status;
        }
        read_reply(&made->reply);
        ++*replies;
    }
}

/* What the client does with one answer to five requests; `said` may be changed before. */
static tidegate_status hear(const script *said, client *made, int server, size_t *replies) {
    tidegate_status status;
    say(server, said);
    status = receive_all(made, replies);
    close(server);
    return status;
}

static void good_replies(void) {
    static script said;
    client made;
    uint64_t correlations[5];
    const tidegate_kind kinds[] = {TIDEGATE_BIDS, TIDEGATE_CAMPAIGN_PUT, TIDEGATE_OUTCOMES, TIDEGATE_OUTCOMES,
                                   TIDEGATE_BIDS};
    int server, index;
    client_make(&made, 5);
    server = let_in(&made);
    ask(&made, correlations);
    CHECK(tidegate_send_end_campaign(&made.pacer, "shoes", 0) == TIDEGATE_TOO_MANY_IN_FLIGHT);
    answer(&said, correlations);
    say(server, &said);
    for (index = 0; index < 5; index++) {
        CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_OK);
        CHECK(made.reply.kind == kinds[index] && made.reply.tag == TAGS[4 - index]);
        CHECK(made.reply.kind != TIDEGATE_CAMPAIGN_PUT ||
              (made.reply.campaign == 7 && made.reply.version == 3 && made.reply.is_new));
        CHECK(read_reply(&made.reply) == (index == 0 ? 171 : index == 4 ? 7 : 0));
    }
    CHECK(made.pacer.in_flight == 0);
    CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_CLOSED);
    close(server);
    client_free(&made);
}

/* One wrong thing in a reply, and how the client must call it. */
static void wrong_replies(void) {
    static script said;
    size_t wrong;
    for (wrong = 0; wrong < 12; wrong++) {
        tidegate_status expected = TIDEGATE_MISMATCH;
        uint64_t correlations[5];
        size_t replies;
        client made;
        int server;
        client_make(&made, 8);
        server = let_in(&made);
        ask(&made, correlations);
        said.length = 0;
        switch (wrong) {
        case 0: bids(&said, correlations[0], REQUESTS - 1); break;
        case 1: bids(&said, correlations[0], REQUESTS + 1); break;
        case 2: bids(&said, correlations[1], REQUESTS); break;
        case 3: outcomes(&said, correlations[0], REQUESTS, 1); break;
        case 4: bids(&said, correlations[0] + (1 << 16), REQUESTS); break;
        case 5: bids(&said, correlations[0] | 0xffff, REQUESTS); break;
        case 6:
            outcomes(&said, correlations[1], TIDEGATE_ITEMS_MAX + 1, 1);
            expected = TIDEGATE_MALFORMED;
            break;
        case 7:
        case 8:
        case 9:
            bid_with_token_of(&said, correlations[0], wrong == 7 ? 31 : wrong == 8 ? 33 : 5000);
            expected = TIDEGATE_MALFORMED;
            break;
        case 10:
            add_varint(&said, TIDEGATE_BUFFER_BYTES_MIN - 4);
            expected = TIDEGATE_FRAME_TOO_LARGE;
            break;
        default:
            memset(said.bytes, 0xff, 5);
            said.length = 5;
            expected = TIDEGATE_MALFORMED;
            break;
        }
        CHECK(hear(&said, &made, server, &replies) == expected);
        CHECK(replies == 0);
        client_free(&made);
    }
}

/* Texts longer than there is room for are cut, and cannot write to a terminal what they like. */
static void long_errors(void) {
    static script said;
    client made;
    uint64_t correlations[5];
    int server;
    client_make(&made, 8);
    server = let_in(&made);
    ask(&made, correlations);
    said.length = 0;
    error(&said, correlations[0], 5000);
    error(&said, 0, 3);
    say(server, &said);
    CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_OK);
    CHECK(made.reply.kind == TIDEGATE_ERROR && made.reply.asked == TIDEGATE_BIDS && made.reply.tag == TAGS[0]);
    CHECK(strlen(made.reply.code) == sizeof made.reply.code - 1 && made.reply.code[0] == '?');
    CHECK(strlen(made.reply.detail) == sizeof made.reply.detail - 1 && made.reply.retry_after_ms == 50);
    CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_OK);
    CHECK(made.reply.kind == TIDEGATE_ERROR && made.reply.asked == TIDEGATE_NOTHING);
    CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_CLOSED);
    close(server);
    client_free(&made);
}

/* What is too much to send is not sent, and the connection goes on. */
static void own_bounds(void) {
    static unsigned char plan[TIDEGATE_BUFFER_BYTES_MIN];
    tidegate_bid_request requests[TIDEGATE_ITEMS_MAX + 1];
    tidegate_pacer *pacer;
    client made;
    int server, packets = 0;
    client_make(&made, 64);
    CHECK(tidegate_prepare(&made.pacer, made.out, TIDEGATE_BUFFER_BYTES_MIN - 1, made.in, TIDEGATE_BUFFER_BYTES_MIN,
                           made.pending, 64) == TIDEGATE_BUFFER_TOO_SMALL);
    CHECK(tidegate_prepare(&made.pacer, made.out, TIDEGATE_BUFFER_BYTES_MIN, made.in, TIDEGATE_BUFFER_BYTES_MIN,
                           made.pending, 64) == TIDEGATE_OK);
    server = let_in(&made);
    pacer = &made.pacer;
    memset(requests, 0xff, sizeof requests);
    memset(plan, ' ', sizeof plan);
    CHECK(tidegate_send_bids(pacer, requests, 0, 0) == TIDEGATE_COUNT_INVALID);
    CHECK(tidegate_send_bids(pacer, requests, TIDEGATE_ITEMS_MAX + 1, 0) == TIDEGATE_COUNT_INVALID);
    CHECK(tidegate_send_put_campaign(pacer, "shoes", plan, sizeof plan, 0) == TIDEGATE_BUFFER_TOO_SMALL);
    CHECK(tidegate_send_put_campaign(pacer, "shoes", plan, sizeof plan - 100, 0) == TIDEGATE_OK);
    CHECK(tidegate_flush(pacer) == TIDEGATE_OK);
    while (packets < 63 && tidegate_send_bids(pacer, requests, 30, 0) == TIDEGATE_OK) {
        packets++;
    }
    /* As many as fit when each is expected to be as long as can be. */
    CHECK(packets >= 11 && packets < 63);
    CHECK(tidegate_send_bids(pacer, requests, 30, 0) == TIDEGATE_OUT_FULL);
    CHECK(tidegate_flush(pacer) == TIDEGATE_OK);
    CHECK(tidegate_send_bids(pacer, requests, 30, 0) == TIDEGATE_OK);
    CHECK(pacer->in_flight == (size_t)packets + 2);
    pacer->timeout_ms = 0;
    CHECK(tidegate_receive(pacer, &made.reply) == TIDEGATE_TIMED_OUT);
    CHECK(pacer->socket >= 0);
    pacer->frame_bytes_max = 100;
    CHECK(tidegate_send_bids(pacer, requests, 30, 0) == TIDEGATE_REQUEST_TOO_LARGE);
    CHECK(pacer->in_flight == (size_t)packets + 2 && pacer->out_filled == 0);
    close(server);
    CHECK(tidegate_receive(pacer, &made.reply) == TIDEGATE_CLOSED);
    CHECK(tidegate_send_bids(pacer, requests, 1, 0) == TIDEGATE_CLOSED);
    client_free(&made);
}

static void change_bytes(script *said) {
    size_t changes = 1 + chance(4);
    while (changes-- > 0 && said->length > 0) {
        size_t place = chance(said->length), rest = said->length - place, bytes = 1 + chance(8);
        switch (chance(5)) {
        case 0: said->bytes[place] = (unsigned char)chance(256); break;
        case 1: said->bytes[place] ^= (unsigned char)(1u << chance(8)); break;
        case 2: said->length = place; break;
        case 3: /* Some are gone. */
            bytes = bytes < rest ? bytes : rest;
            memmove(said->bytes + place, said->bytes + place + bytes, rest - bytes);
            said->length -= bytes;
            break;
        default: /* Some are there twice. */
            bytes = bytes < rest ? bytes : rest;
            memmove(said->bytes + place + bytes, said->bytes + place, rest);
            said->length += bytes;
            break;
        }
    }
}

static void changed_replies(unsigned long rounds) {
    static script said;
    unsigned long round, ends[TIDEGATE_MISMATCH + 1] = {0}, heard = 0;
    for (round = 0; round < rounds; round++) {
        uint64_t correlations[5];
        size_t replies;
        client made;
        int server;
        client_make(&made, 5 + chance(3));
        server = let_in(&made);
        ask(&made, correlations);
        if (chance(8) == 0) {
            said.length = 0;
            error(&said, correlations[chance(5)], chance(400));
            bids(&said, correlations[0], REQUESTS);
        } else {
            answer(&said, correlations);
        }
        change_bytes(&said);
        ends[hear(&said, &made, server, &replies)]++;
        heard += replies;
        client_free(&made);
    }
    printf("%lu rounds: %lu replies were good, %lu connections closed, %lu too large, %lu malformed, %lu mismatched\n",
           rounds, heard, ends[TIDEGATE_CLOSED], ends[TIDEGATE_FRAME_TOO_LARGE], ends[TIDEGATE_MALFORMED],
           ends[TIDEGATE_MISMATCH]);
    /* Each way to end was met, or the changes test less than they say. */
    CHECK(heard > 0 && ends[TIDEGATE_CLOSED] > 0 && ends[TIDEGATE_FRAME_TOO_LARGE] > 0);
    CHECK(ends[TIDEGATE_MALFORMED] > 0 && ends[TIDEGATE_MISMATCH] > 0);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: %s SEED ROUNDS\n", arguments[0]);
        return 2;
    }
    state = strtoull(arguments[1], NULL, 10) | 1;
    good_replies();
    wrong_replies();
    long_errors();
    own_bounds();
    changed_replies(strtoul(arguments[2], NULL, 10));
    return 0;
}
