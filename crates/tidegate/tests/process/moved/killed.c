/* Preloaded into a server: kills it before its call number TIDEGATE_TEST_KILLED_AT, from 1, that changes a disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int calls;

static void changes(void) {
    const char *at = getenv("TIDEGATE_TEST_KILLED_AT");
    if (at && __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == atoi(at)) kill(getpid(), SIGKILL);
}

#define REAL(type, name) \
    static type real; \
    if (!real) real = (type)dlsym(RTLD_NEXT, name)

typedef int (*mkdir_at)(int, const char *, mode_t);
typedef int (*unlink_at)(int, const char *, int);
typedef int (*rename_at)(int, const char *, int, const char *);
typedef int (*sync_one)(int);
typedef ssize_t (*write_one)(int, const void *, size_t);

typedef int (*open_at)(int, const char *, int, ...);
#define OPEN_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(open_at, #name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (flags & O_CREAT) changes(); \
        return real(folder, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(mkdir_at, "mkdirat");
    changes();
    return real(folder, path, mode);
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(unlink_at, "unlinkat");
    changes();
    return real(folder, path, flags);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    REAL(rename_at, "renameat");
    changes();
    return real(from_folder, from, to_folder, to);
}

int fsync(int file) {
    REAL(sync_one, "fsync");
    changes();
    return real(file);
}

int fdatasync(int file) {
    REAL(sync_one, "fdatasync");
    changes();
    return real(file);
}

typedef ssize_t (*write_at)(int, const void *, size_t, off_t);
#define WRITE_AT(name) \
    ssize_t name(int file, const void *bytes, size_t count, off_t at) { \
        REAL(write_at, #name); \
        changes(); \
        return real(file, bytes, count, at); \
    }
WRITE_AT(pwrite)
WRITE_AT(pwrite64)

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(write_one, "write");
    struct stat found;
    /* Not the log. */
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode)) changes();
    return real(file, bytes, count);
}
