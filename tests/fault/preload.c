/* A disk that fails on demand, between a real server and the real disk. Loaded into the server with LD_PRELOAD; the test steers it while the server runs.
 *
 * FAULT_DIR      the data directory; calls for files elsewhere go through untouched
 * FAULT_CONTROL  a file with one struct fault per kind of call, mapped by both sides: calls are counted there, and those in [from, to] fail; behind these, by how many
 *                      seconds the clock of the world is ahead of the kernel's, as if somebody had set it
 * FAULT_LEDGER   if given, a folder: `ledger` in it says what was made durable and when, in the order of it happening, and inodes whose last name goes are kept in
 *                      it by number. After a kill that is enough to build the directory that a power loss would have left (power.py).
 *
 * Ledger lines: "W inode offset bytes": written. "S inode size": that many bytes of a file are durable, and what was written to it before. "D path inode:name/...": what is in a directory, durable. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE, SYNC, SYNC_DIR, CREATE, RENAME, UNLINK, TRUNCATE, KINDS };

struct fault {
    _Atomic uint64_t calls;
    _Atomic uint64_t from, to; /* these calls, counted from 1, fail; 0: none */
    _Atomic int32_t error;
    _Atomic uint32_t delay_ms; /* of every call of this kind, before it is made */
    char match[32];            /* only files whose path has this in it are counted, delayed and failed */
};

struct controls {
    struct fault kinds[KINDS];
    _Atomic int64_t clock_ahead_s;
};

static struct controls *control;
static const char *data_dir, *ledger_dir;
static int ledger_fd = -1;

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("FAULT_CONTROL");
    data_dir = getenv("FAULT_DIR");
    ledger_dir = getenv("FAULT_LEDGER");
    int (*real_open)(const char *, int, ...) = real("open");
    if (path) {
        int fd = real_open(path, O_RDWR | O_CLOEXEC);
        control = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (control == MAP_FAILED) abort();
    }
    if (ledger_dir) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s/ledger", ledger_dir);
        ledger_fd = real_open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (ledger_fd < 0) abort();
    }
}

static bool is_ours(const char *path) { return data_dir && strncmp(path, data_dir, strlen(data_dir)) == 0; }

static bool path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = data_dir ? readlink(link, path, PATH_MAX - 1) : -1;
    if (n < 0) return false;
    path[n] = '\0';
    return is_ours(path);
}

/* Counts the call. True: it has to fail, and errno says how. */
static bool fails(enum kind kind, const char *path)
{
    if (!control) return false;
    struct fault *f = &control->kinds[kind];
    if (f->match[0] && !strstr(path, f->match)) return false;
    uint32_t ms = f->delay_ms;
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
    if (ms) nanosleep(&pause, NULL);
    uint64_t call = atomic_fetch_add(&f->calls, 1) + 1;
    if (!f->from || call < f->from || call > f->to) return false;
    errno = f->error;
    return true;
}

/* ---- the ledger */

static void tell(const char *line, size_t n)
{
    ssize_t (*real_write)(int, const void *, size_t) = real("write");
    if (real_write(ledger_fd, line, n) != (ssize_t)n) abort();
}

static void tell_dir(const char *path)
{
    static char line[1 << 16];
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    DIR *dir = opendir(path);
    if (!dir) return;
    while (atomic_flag_test_and_set(&busy)) continue;
    size_t n = (size_t)snprintf(line, sizeof line, "D %s ", path);
    for (struct dirent *e; (e = readdir(dir)) && n < sizeof line - 300;)
        if (e->d_name[0] != '.') n += (size_t)snprintf(line + n, sizeof line - n, "%llu:%s/", (unsigned long long)e->d_ino, e->d_name);
    line[n++] = '\n';
    tell(line, n);
    atomic_flag_clear(&busy);
    closedir(dir);
}

/* The name is about to go: the inode stays under its number. */
static void keep_inode(const char *path)
{
    struct stat st;
    char kept[PATH_MAX];
    if (!ledger_dir || !is_ours(path) || stat(path, &st) || !S_ISREG(st.st_mode)) return;
    snprintf(kept, sizeof kept, "%s/%llu", ledger_dir, (unsigned long long)st.st_ino);
    if (link(path, kept) && errno != EEXIST) abort();
}

static void tell_write(int fd, size_t n, off_t at)
{
    struct stat st;
    char line[96];
    if (ledger_dir && fstat(fd, &st) == 0)
        tell(line, (size_t)snprintf(line, sizeof line, "W %llu %lld %zu\n", (unsigned long long)st.st_ino, (long long)at, n));
}

static int sync_with(const char *name, int fd)
{
    int (*real_sync)(int) = real(name);
    char path[PATH_MAX], line[96];
    struct stat st;
    if (!path_of(fd, path) || fstat(fd, &st)) return real_sync(fd);
    bool is_dir = S_ISDIR(st.st_mode);
    if (fails(is_dir ? SYNC_DIR : SYNC, path)) return -1;
    /* The size before the sync is what it covers at least; a directory is read before it too. With a ledger nothing is synced really: only the ledger tells what would be there. */
    if (!ledger_dir) return real_sync(fd);
    if (is_dir) tell_dir(path);
    else tell(line, (size_t)snprintf(line, sizeof line, "S %llu %lld\n", (unsigned long long)st.st_ino, (long long)st.st_size));
    return 0;
}

/* ---- the calls */

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    char path[PATH_MAX];
    ssize_t (*real_pwrite)(int, const void *, size_t, off_t) = real("pwrite");
    if (!path_of(fd, path)) return real_pwrite(fd, p, n, at);
    tell_write(fd, n, at);
    if (!fails(WRITE, path)) return real_pwrite(fd, p, n, at);
    int error = errno; /* a part of it is done, as real disks do */
    if (n > 1 && error == ENOSPC) real_pwrite(fd, p, n / 2, at);
    errno = error;
    return -1;
}

ssize_t write(int fd, const void *p, size_t n)
{
    char path[PATH_MAX];
    ssize_t (*real_write)(int, const void *, size_t) = real("write");
    if (path_of(fd, path) && fails(WRITE, path)) return -1;
    return real_write(fd, p, n);
}

int open(const char *path, int flags, ...)
{
    int (*real_open)(const char *, int, ...) = real("open");
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (flags & O_CREAT && is_ours(path) && fails(CREATE, path)) return -1;
    return real_open(path, flags, mode);
}

int rename(const char *from, const char *to)
{
    int (*real_rename)(const char *, const char *) = real("rename");
    if (is_ours(to) && fails(RENAME, to)) return -1;
    keep_inode(to);
    return real_rename(from, to);
}

int unlink(const char *path)
{
    int (*real_unlink)(const char *) = real("unlink");
    if (is_ours(path) && fails(UNLINK, path)) return -1;
    keep_inode(path);
    return real_unlink(path);
}

int remove(const char *path)
{
    int (*real_remove)(const char *) = real("remove");
    keep_inode(path);
    return real_remove(path);
}

int ftruncate(int fd, off_t size)
{
    int (*real_ftruncate)(int, off_t) = real("ftruncate");
    char path[PATH_MAX];
    if (path_of(fd, path) && fails(TRUNCATE, path)) return -1;
    return real_ftruncate(fd, size);
}

/* By the kernel itself: allocators ask for the time before there is anything else. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && id == CLOCK_REALTIME && control) t->tv_sec += atomic_load(&control->clock_ahead_s);
    return rc;
}
