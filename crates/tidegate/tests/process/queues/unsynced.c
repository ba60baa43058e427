/* Preloaded into a server: while the file named by TIDEGATE_TEST_UNSYNCED is there, no log of queues can be synced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int file) {
    const char *switched = getenv("TIDEGATE_TEST_UNSYNCED");
    char link[64], path[4096];
    if (!switched || access(switched, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t bytes = readlink(link, path, sizeof path - 1);
    if (bytes < 0) return 0;
    path[bytes] = 0;
    return strstr(path, "/queues-") != NULL;
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (fails(file)) {
        errno = EIO;
        return -1;
    }
    return real(file);
}
