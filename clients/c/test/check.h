/* What the tests of this folder share. */
#ifndef TIDEGATE_CHECK_H
#define TIDEGATE_CHECK_H

#include "../tidegate_pacer.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* A client whose memory ends exactly where it is said to end, so that a sanitizer sees the next byte. */
typedef struct client {
    tidegate_pacer pacer;
    tidegate_reply reply;
    unsigned char *out;
    unsigned char *in;
    tidegate_pending *pending;
} client;

static inline void client_make(client *made, size_t pending_count) {
    made->out = malloc(TIDEGATE_BUFFER_BYTES_MIN);
    made->in = malloc(TIDEGATE_BUFFER_BYTES_MIN);
    made->pending = malloc(pending_count * sizeof *made->pending);
    CHECK(made->out != NULL && made->in != NULL && made->pending != NULL);
    CHECK(tidegate_prepare(&made->pacer, made->out, TIDEGATE_BUFFER_BYTES_MIN, made->in, TIDEGATE_BUFFER_BYTES_MIN,
                           made->pending, pending_count) == TIDEGATE_OK);
}

static inline void client_free(client *made) {
    tidegate_close(&made->pacer);
    free(made->out);
    free(made->in);
    free(made->pending);
}

#endif
