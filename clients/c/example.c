/* Gives a campaign a plan, asks for bids until there is one, says that it has won, and ends the campaign:
 *
 *   example HOST PORT TOKEN
 */
#include "tidegate_pacer.h"

#include <stdio.h>
#include <stdlib.h>

#define PACKET 10

/* All memory that the client uses. */
static unsigned char out[TIDEGATE_BUFFER_BYTES_MIN], in[TIDEGATE_BUFFER_BYTES_MIN];
static tidegate_pending pending[64];

static tidegate_pacer pacer;
static tidegate_reply reply;

static void must(tidegate_status status, const char *what) {
    if (status != TIDEGATE_OK) {
        fprintf(stderr, "%s: %s %s\n", what, tidegate_explain(status), reply.code);
        exit(1);
    }
}

/* Waits for the one reply that is on its way. */
static void receive(const char *what) {
    must(tidegate_receive(&pacer, &reply), what);
    if (reply.kind == TIDEGATE_ERROR) {
        fprintf(stderr, "%s: %s: %s\n", what, reply.code, reply.detail);
        exit(1);
    }
}

static uint32_t put_campaign(const char *id) {
    static const char plan[] = "{\"account\": \"campaign:even\", \"spend\": \"spend:even\", \"budget_micros\": 1000000,"
                               " \"price_micros\": 2500, \"strategy\": {\"name\": \"as_fast_as_possible\"},"
                               " \"flights\": [{\"starts_ms\": 0, \"ends_ms\": 4102444800000}]}";
    must(tidegate_send_put_campaign(&pacer, id, plan, sizeof plan - 1, 0), "put");
    receive("put");
    return reply.campaign;
}

/* Sends packets until one has a bid: money is leased when it is asked for, so the first requests find none. */
static tidegate_bid first_bid(uint32_t campaign) {
    const struct timespec pause = {0, 10 * 1000 * 1000};
    tidegate_bid_request requests[PACKET];
    tidegate_bid bid;
    uint64_t auction = 0;
    int packets, index;
    memset(requests, 0, sizeof requests);
    for (packets = 0; packets < 1000; packets++) {
        for (index = 0; index < PACKET; index++) {
            requests[index].id = ++auction;
            requests[index].campaign = campaign;
        }
        must(tidegate_send_bids(&pacer, requests, PACKET, 0), "bids");
        receive("bids");
        while (tidegate_next_bid(&reply, &bid)) {
            if (bid.is_bid) {
                return bid;
            }
        }
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "no bid: %s\n", tidegate_no_bid_name(bid.no_bid));
    exit(1);
}

static const char *told_of_win(const tidegate_win *win) {
    tidegate_outcome outcome = TIDEGATE_OUTCOME_UNSPECIFIED;
    must(tidegate_send_wins(&pacer, win, 1, 0), "win");
    receive("win");
    tidegate_next_outcome(&reply, &outcome);
    return tidegate_outcome_name(outcome);
}

int main(int count, char **arguments) {
    tidegate_win win;
    tidegate_bid bid;
    if (count != 4) {
        fprintf(stderr, "usage: %s HOST PORT TOKEN\n", arguments[0]);
        return 2;
    }
    must(tidegate_prepare(&pacer, out, sizeof out, in, sizeof in, pending, 64), "memory");
    must(tidegate_connect(&pacer, arguments[1], arguments[2], arguments[3], 10000, &reply), "connect");
    bid = first_bid(put_campaign("example"));
    printf("bid %u micros\n", (unsigned)bid.price_micros);
    win.token = bid.token;
    win.price_micros = 2100;
    printf("win: %s\n", told_of_win(&win));
    /* As if the answer had been lost: it counts once. */
    printf("win: %s\n", told_of_win(&win));
    must(tidegate_send_end_campaign(&pacer, "example", 0), "end");
    receive("end");
    printf("ended\n");
    tidegate_close(&pacer);
    return 0;
}
/* prints: bid 2500 micros
 * prints: win: taken
 * prints: win: duplicate
 * prints: ended
 */
