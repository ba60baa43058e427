/* Preloaded into a server: while the file named by TIDEGATE_TEST_UNREADABLE is there, no regular file can be read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int fails(int file) {
    const char *switched = getenv("TIDEGATE_TEST_UNREADABLE");
    struct stat found;
    return switched && access(switched, F_OK) == 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode);
}

ssize_t pread64(int file, void *into, size_t bytes, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    if (fails(file)) {
        errno = EIO;
        return -1;
    }
    return real(file, into, bytes, at);
}

ssize_t pread(int file, void *into, size_t bytes, off_t at) { return pread64(file, into, bytes, at); }
