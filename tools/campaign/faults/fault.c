/* Lets one call of the C library fail, or kills the process there: the n-th that concerns one of the given folders.

   Preloaded into Python. fault_arm(n, what, folders) begins to count: what > 0 is the errno that call n fails with,
   what == -9 kills the process before call n, what == 0 only counts. fault_seen() is how many calls there were.
   Calls by descriptor count when the descriptor's file lies in one of the folders. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char folders[4][PATH_MAX];
static int folder_count, action, armed;
static long at, seen;
static char last[PATH_MAX + 64];

void fault_arm(long n, int what, const char *colon_separated) {
    folder_count = 0;
    char copy[4 * PATH_MAX];
    snprintf(copy, sizeof copy, "%s", colon_separated);
    for (char *word = strtok(copy, ":"); word && folder_count < 4; word = strtok(NULL, ":"))
        snprintf(folders[folder_count++], PATH_MAX, "%s", word);
    at = n, action = what, seen = 0, armed = 1;
}
void fault_disarm(void) { armed = 0; }
long fault_seen(void) { return seen; }
const char *fault_last(void) { return last; }

static int inside(const char *path) {
    for (int i = 0; i < folder_count; i++) {
        size_t n = strlen(folders[i]);
        if (!strncmp(path, folders[i], n) && (path[n] == 0 || path[n] == '/')) return 1;
    }
    return 0;
}

static int hits(const char *call, const char *path) {
    if (!armed || !inside(path)) return 0;
    if (seen++ != at) return 0;
    snprintf(last, sizeof last, "%s %s", call, path);
    if (action == -9) kill(getpid(), SIGKILL);
    if (action <= 0) return 0;
    errno = action;
    return 1;
}

static int hits_fd(const char *call, int fd) {
    if (!armed) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return hits(call, path);
}

static int hits_at(const char *call, int dir, const char *path) {
    if (!armed || !path) return 0;
    if (path[0] == '/' || dir == AT_FDCWD) return hits(call, path);
    return hits_fd(call, dir);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
        REAL(int, #name, const char *, int, mode_t); \
        return hits("open", path) ? -1 : real(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
        REAL(int, #name, int, const char *, int, mode_t); \
        return hits_at("open", dir, path) ? -1 : real(dir, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

#define BY_FD(type, name, word, params, ptypes, args) \
    type name params { \
        REAL(type, #name, ptypes); \
        return hits_fd(word, fd) ? (type)-1 : real args; \
    }
#define T(...) __VA_ARGS__
BY_FD(ssize_t, read, "read", (int fd, void *b, size_t n), T(int, void *, size_t), (fd, b, n))
BY_FD(ssize_t, pread, "read", (int fd, void *b, size_t n, off_t o), T(int, void *, size_t, off_t), (fd, b, n, o))
BY_FD(ssize_t, pread64, "read", (int fd, void *b, size_t n, off_t o), T(int, void *, size_t, off_t), (fd, b, n, o))
BY_FD(ssize_t, write, "write", (int fd, const void *b, size_t n), T(int, const void *, size_t), (fd, b, n))
BY_FD(ssize_t, pwrite, "write", (int fd, const void *b, size_t n, off_t o), T(int, const void *, size_t, off_t), (fd, b, n, o))
BY_FD(ssize_t, pwrite64, "write", (int fd, const void *b, size_t n, off_t o), T(int, const void *, size_t, off_t), (fd, b, n, o))
BY_FD(int, fsync, "fsync", (int fd), T(int), (fd))
BY_FD(int, fdatasync, "fsync", (int fd), T(int), (fd))
BY_FD(int, fchmod, "chmod", (int fd, mode_t m), T(int, mode_t), (fd, m))
BY_FD(int, fchown, "chown", (int fd, uid_t u, gid_t g), T(int, uid_t, gid_t), (fd, u, g))
BY_FD(int, futimens, "utime", (int fd, const struct timespec t[2]), T(int, const struct timespec *), (fd, t))
BY_FD(int, ftruncate, "truncate", (int fd, off_t n), T(int, off_t), (fd, n))
BY_FD(int, ftruncate64, "truncate", (int fd, off_t n), T(int, off_t), (fd, n))
BY_FD(int, fstat, "stat", (int fd, struct stat *s), T(int, struct stat *), (fd, s))
BY_FD(int, fstat64, "stat", (int fd, struct stat64 *s), T(int, struct stat64 *), (fd, s))
BY_FD(ssize_t, flistxattr, "xattr", (int fd, char *b, size_t n), T(int, char *, size_t), (fd, b, n))

#define BY_PATH(name, word, params, ptypes, args) \
    int name params { \
        REAL(int, #name, ptypes); \
        return hits(word, path) ? -1 : real args; \
    }
BY_PATH(rename, "rename", (const char *path, const char *to), T(const char *, const char *), (path, to))
BY_PATH(link, "link", (const char *path, const char *to), T(const char *, const char *), (path, to))
BY_PATH(unlink, "unlink", (const char *path), T(const char *), (path))
BY_PATH(mkdir, "mkdir", (const char *path, mode_t m), T(const char *, mode_t), (path, m))
BY_PATH(rmdir, "rmdir", (const char *path), T(const char *), (path))
BY_PATH(chmod, "chmod", (const char *path, mode_t m), T(const char *, mode_t), (path, m))
BY_PATH(chown, "chown", (const char *path, uid_t u, gid_t g), T(const char *, uid_t, gid_t), (path, u, g))
BY_PATH(lchown, "chown", (const char *path, uid_t u, gid_t g), T(const char *, uid_t, gid_t), (path, u, g))
BY_PATH(truncate, "truncate", (const char *path, off_t n), T(const char *, off_t), (path, n))
BY_PATH(stat, "stat", (const char *path, struct stat *s), T(const char *, struct stat *), (path, s))
BY_PATH(lstat, "stat", (const char *path, struct stat *s), T(const char *, struct stat *), (path, s))
BY_PATH(stat64, "stat", (const char *path, struct stat64 *s), T(const char *, struct stat64 *), (path, s))
BY_PATH(lstat64, "stat", (const char *path, struct stat64 *s), T(const char *, struct stat64 *), (path, s))
BY_PATH(setxattr, "xattr", (const char *path, const char *n, const void *v, size_t s, int f),
        T(const char *, const char *, const void *, size_t, int), (path, n, v, s, f))

#define BY_AT(name, word, params, ptypes, args) \
    int name params { \
        REAL(int, #name, ptypes); \
        return hits_at(word, dir, path) ? -1 : real args; \
    }
BY_AT(renameat, "rename", (int dir, const char *path, int d2, const char *to), T(int, const char *, int, const char *), (dir, path, d2, to))
BY_AT(linkat, "link", (int dir, const char *path, int d2, const char *to, int f), T(int, const char *, int, const char *, int), (dir, path, d2, to, f))
BY_AT(unlinkat, "unlink", (int dir, const char *path, int f), T(int, const char *, int), (dir, path, f))
BY_AT(mkdirat, "mkdir", (int dir, const char *path, mode_t m), T(int, const char *, mode_t), (dir, path, m))
BY_AT(fchmodat, "chmod", (int dir, const char *path, mode_t m, int f), T(int, const char *, mode_t, int), (dir, path, m, f))
BY_AT(fchownat, "chown", (int dir, const char *path, uid_t u, gid_t g, int f), T(int, const char *, uid_t, gid_t, int), (dir, path, u, g, f))
BY_AT(utimensat, "utime", (int dir, const char *path, const struct timespec t[2], int f), T(int, const char *, const struct timespec *, int), (dir, path, t, f))
BY_AT(fstatat, "stat", (int dir, const char *path, struct stat *s, int f), T(int, const char *, struct stat *, int), (dir, path, s, f))
BY_AT(fstatat64, "stat", (int dir, const char *path, struct stat64 *s, int f), T(int, const char *, struct stat64 *, int), (dir, path, s, f))

DIR *opendir(const char *path) {
    REAL(DIR *, "opendir", const char *);
    return hits("list", path) ? NULL : real(path);
}
void *mmap(void *a, size_t n, int p, int f, int fd, off_t o) {
    REAL(void *, "mmap", void *, size_t, int, int, int, off_t);
    return fd >= 0 && hits_fd("map", fd) ? MAP_FAILED : real(a, n, p, f, fd, o);
}
ssize_t copy_file_range(int fd, off64_t *a, int to, off64_t *b, size_t n, unsigned f) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    return hits_fd("copy", fd) ? -1 : real(fd, a, to, b, n, f);
}
