/* Preloaded into a server under test: its wall clock is that of the host plus as many seconds as a file says. The file
   holds one number of 8 bytes and is mapped, so that a test can move the clock at any time. No other clock changes. */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("TIDEGATE_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        abort();
    }
    ahead_s = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    if (failed == 0 && clock == CLOCK_REALTIME && ahead_s) {
        time->tv_sec += *ahead_s;
    }
    return (int)failed;
}
