/* Against the real server, which is started again when it is killed (tests/clients/run.py):
 *
 *   server HOST PORT TOKEN PID_FILE CAMPAIGN     the accounts campaign:CAMPAIGN and spend:CAMPAIGN have money
 */
#include "check.h"

#include <signal.h>

#define TIMEOUT_MS 30000
#define PATIENCE_MS 60000
#define PACKETS 32

static const char *host, *port, *token, *pid_file, *campaign;
static client made;

/* Connects as soon as the server serves. */
static void connect_soon(void) {
    const struct timespec pause = {0, 20 * 1000 * 1000};
    int64_t deadline_ms = tidegate_now_ms() + PATIENCE_MS;
    while (tidegate_connect(&made.pacer, host, port, token, TIMEOUT_MS, &made.reply) != TIDEGATE_OK) {
        CHECK(tidegate_now_ms() < deadline_ms);
        nanosleep(&pause, NULL);
    }
}

static void receive(void) {
    tidegate_status status = tidegate_receive(&made.pacer, &made.reply);
    if (status != TIDEGATE_OK) {
        fprintf(stderr, "%s\n", tidegate_explain(status));
        exit(1);
    }
}

static int is_error(const char *code) {
    return made.reply.kind == TIDEGATE_ERROR && strcmp(made.reply.code, code) == 0;
}

static uint32_t put(unsigned price_micros) {
    char plan[1024];
    int length = snprintf(plan, sizeof plan,
                          "{\"account\": \"campaign:%s\", \"spend\": \"spend:%s\", \"budget_micros\": 1000000000,"
                          " \"price_micros\": %u, \"strategy\": {\"name\": \"as_fast_as_possible\"},"
                          " \"flights\": [{\"starts_ms\": 0, \"ends_ms\": 4102444800000}]}",
                          campaign, campaign, price_micros);
    CHECK(length > 0 && (size_t)length < sizeof plan);
    CHECK(tidegate_send_put_campaign(&made.pacer, campaign, plan, (size_t)length, 1) == TIDEGATE_OK);
    receive();
    CHECK(made.reply.asked == TIDEGATE_CAMPAIGN_PUT && made.reply.tag == 1);
    return made.reply.campaign;
}

/* Packets of 256 in flight together, until there are so many bids. */
static void offers(uint32_t number, tidegate_bid *bids, size_t wanted) {
    static tidegate_bid_request requests[TIDEGATE_ITEMS_MAX];
    int64_t deadline_ms = tidegate_now_ms() + PATIENCE_MS;
    size_t offered = 0, index, packet;
    memset(requests, 0, sizeof requests);
    while (offered < wanted) {
        int is_answered[PACKETS] = {0};
        CHECK(tidegate_now_ms() < deadline_ms);
        for (packet = 0; packet < PACKETS; packet++) {
            tidegate_status status;
            for (index = 0; index < TIDEGATE_ITEMS_MAX; index++) {
                requests[index].id = packet * TIDEGATE_ITEMS_MAX + index + 1;
                requests[index].campaign = number;
            }
            status = tidegate_send_bids(&made.pacer, requests, TIDEGATE_ITEMS_MAX, packet);
            if (status == TIDEGATE_OUT_FULL) {
                CHECK(tidegate_flush(&made.pacer) == TIDEGATE_OK);
                status = tidegate_send_bids(&made.pacer, requests, TIDEGATE_ITEMS_MAX, packet);
            }
            CHECK(status == TIDEGATE_OK);
        }
        CHECK(made.pacer.in_flight == PACKETS);
        while (made.pacer.in_flight > 0) {
            tidegate_bid bid;
            receive();
            CHECK(made.reply.tag < PACKETS && !is_answered[made.reply.tag]++);
            CHECK(made.reply.kind == TIDEGATE_BIDS || is_error("busy"));
            while (tidegate_next_bid(&made.reply, &bid)) {
                CHECK(bid.is_bid ? bid.price_micros == 1000 : bid.no_bid != TIDEGATE_NO_BID_UNSPECIFIED);
                if (bid.is_bid && offered < wanted) {
                    bids[offered++] = bid;
                }
            }
        }
    }
}

static tidegate_win win_of(const tidegate_bid *bid, uint32_t price_micros) {
    tidegate_win win;
    win.token = bid->token;
    win.price_micros = price_micros;
    return win;
}

/* Receives outcomes of notices, which must be these. */
static void outcomes(const tidegate_outcome *expected, size_t count) {
    tidegate_outcome outcome;
    size_t index;
    receive();
    CHECK(made.reply.kind == TIDEGATE_OUTCOMES && made.reply.count == count);
    for (index = 0; tidegate_next_outcome(&made.reply, &outcome); index++) {
        if (outcome != expected[index]) {
            fprintf(stderr, "notice %u is %s, not %s\n", (unsigned)index, tidegate_outcome_name(outcome),
                    tidegate_outcome_name(expected[index]));
            exit(1);
        }
    }
}

static void who_may_not(void) {
    CHECK(tidegate_connect(&made.pacer, host, port, "no-such-token", TIMEOUT_MS, &made.reply) == TIDEGATE_NOT_LET_IN);
    CHECK(is_error("unauthenticated") && made.pacer.socket == -1);
    CHECK(tidegate_connect(&made.pacer, host, "1", token, TIMEOUT_MS, &made.reply) == TIDEGATE_IO);
    CHECK(made.pacer.system_error == ECONNREFUSED);
}

static void notices(const tidegate_bid *bids) {
    const tidegate_outcome of_wins[] = {TIDEGATE_PRICE_ABOVE_BID, TIDEGATE_TAKEN, TIDEGATE_DUPLICATE,
                                        TIDEGATE_TOKEN_INVALID};
    const tidegate_outcome of_losses[] = {TIDEGATE_WON, TIDEGATE_TAKEN, TIDEGATE_DUPLICATE};
    tidegate_win wins[4];
    tidegate_token lost[3];
    wins[0] = win_of(&bids[0], 1001);
    wins[1] = wins[2] = wins[3] = win_of(&bids[0], 700);
    wins[3].token.bytes[31] ^= 1;
    lost[0] = bids[0].token;
    lost[1] = lost[2] = bids[1].token;
    CHECK(tidegate_send_wins(&made.pacer, wins, 4, 0) == TIDEGATE_OK);
    outcomes(of_wins, 4);
    CHECK(tidegate_send_losses(&made.pacer, lost, 3, 0) == TIDEGATE_OK);
    outcomes(of_losses, 3);
}

/* The server says what it does not read, and closes. */
static void a_frame_too_long(void) {
    const unsigned char length[] = {0x81, 0x80, 0x80, 0x02};
    CHECK(send(made.pacer.socket, length, sizeof length, MSG_NOSIGNAL) == sizeof length);
    receive();
    CHECK(is_error("frame_too_large") && made.reply.asked == TIDEGATE_NOTHING);
    CHECK(tidegate_receive(&made.pacer, &made.reply) == TIDEGATE_CLOSED);
    connect_soon();
}

static void kill_server(void) {
    long pid = 0;
    FILE *file = fopen(pid_file, "r");
    CHECK(file != NULL && fscanf(file, "%ld", &pid) == 1 && pid > 1);
    fclose(file);
    CHECK(kill((pid_t)pid, SIGKILL) == 0);
}

/* A win that was taken before the kill, one that may have been, and one that was not sent. */
static void a_kill_between(const tidegate_bid *bids) {
    const tidegate_outcome taken[] = {TIDEGATE_TAKEN}, duplicate[] = {TIDEGATE_DUPLICATE};
    const tidegate_outcome again[] = {TIDEGATE_DUPLICATE, TIDEGATE_DUPLICATE, TIDEGATE_TAKEN};
    tidegate_win wins[3];
    tidegate_status status;
    int index;
    for (index = 0; index < 3; index++) {
        wins[index] = win_of(&bids[index], 500);
    }
    CHECK(tidegate_send_wins(&made.pacer, wins, 1, 0) == TIDEGATE_OK);
    outcomes(taken, 1);
    CHECK(tidegate_send_wins(&made.pacer, wins + 1, 1, 0) == TIDEGATE_OK);
    CHECK(tidegate_flush(&made.pacer) == TIDEGATE_OK);
    kill_server();
    do {
        status = tidegate_receive(&made.pacer, &made.reply);
    } while (status == TIDEGATE_OK);
    CHECK(status == TIDEGATE_CLOSED);
    CHECK(tidegate_send_wins(&made.pacer, wins + 2, 1, 0) == TIDEGATE_CLOSED);
    connect_soon();
    /* Whether it was taken before, nobody knows: told twice more, it has counted once. */
    CHECK(tidegate_send_wins(&made.pacer, wins + 1, 1, 0) == TIDEGATE_OK);
    receive();
    CHECK(made.reply.kind == TIDEGATE_OUTCOMES);
    CHECK(tidegate_send_wins(&made.pacer, wins + 1, 1, 0) == TIDEGATE_OK);
    outcomes(duplicate, 1);
    CHECK(tidegate_send_wins(&made.pacer, wins, 3, 0) == TIDEGATE_OK);
    outcomes(again, 3);
}

int main(int count, char **arguments) {
    static tidegate_bid bids[5];
    uint32_t number;
    if (count != 6) {
        fprintf(stderr, "usage: %s HOST PORT TOKEN PID_FILE CAMPAIGN\n", arguments[0]);
        return 2;
    }
    host = arguments[1];
    port = arguments[2];
    token = arguments[3];
    pid_file = arguments[4];
    campaign = arguments[5];
    client_make(&made, 64);
    who_may_not();
    connect_soon();
    put(0);
    CHECK(is_error("campaign_plan_invalid"));
    number = put(1000);
    CHECK(made.reply.kind == TIDEGATE_CAMPAIGN_PUT && made.reply.version == 1 && made.reply.is_new);
    CHECK(put(1000) == number && !made.reply.is_new);
    offers(number, bids, 5);
    notices(bids);
    a_frame_too_long();
    a_kill_between(bids + 2);
    offers(number, bids, 1);
    CHECK(tidegate_send_end_campaign(&made.pacer, campaign, 0) == TIDEGATE_OK);
    receive();
    CHECK(made.reply.kind == TIDEGATE_CAMPAIGN_ENDED);
    client_free(&made);
    return 0;
}
