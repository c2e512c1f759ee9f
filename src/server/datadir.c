/* The file SHERD, version 1. Text; lines of "key=value" in this order, each exactly once:
 *
 *     format=1                       version of the directory's layout; a newer one is refused
 *     shards=4                       1..65535
 *     layout=1                       number of the folder that holds the shards' files, 1..999999; 0: a node of a cluster's, which has none
 *     seed=0123456789abcdef          16 hexadecimal digits
 *     created=1763204851             unix seconds
 *     check=0123456789abcdef         XXH3-64 (seed 0) of all bytes before this line
 *
 * It is valid exactly if printing what was read gives the same bytes. */
#include "server/datadir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/wholefile.h"

enum { IDENTITY_MAX_BYTES = 4096, SHARDS_MAX = 65535 };

static int refuse(struct buf *error, const char *path, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct buf *error, const char *path, const char *fmt, ...)
{
    va_list ap;
    buf_printf(error, "data directory %s ", path);
    va_start(ap, fmt);
    buf_vprintf(error, fmt, ap);
    va_end(ap);
    return -1;
}

static void path_in(const struct datadir *d, const char *name, char out[PATH_MAX])
{
    CHECK(snprintf(out, PATH_MAX, "%s/%s", d->path, name) < PATH_MAX);
}

uint64_t datadir_random_seed(void)
{
    uint64_t seed;
    CHECK(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    return seed;
}

/* ---- the directory and its lock */

/* A folder that was just made is there after a power loss only if its name is durable. */
static int sync_parent(const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash && slash > path ? (size_t)(slash - path) : 1;
    memcpy(parent, slash ? path : ".", n);
    parent[n] = '\0';
    return file_disk.sync_dir(file_disk.ctx, parent);
}

static int make_folders(const char *path, struct buf *error)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n > PATH_MAX - 64) return refuse(error, path, "has no usable path");
    for (size_t i = 1; i <= n; i++) {
        if (i < n && path[i] != '/') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        int rc = mkdir(part, 0700) == 0 ? sync_parent(part) : errno == EEXIST ? 0 : -errno;
        if (rc) return refuse(error, path, "cannot be created: %s: %s", part, strerror(-rc));
    }
    struct stat st;
    if (stat(path, &st) != 0) return refuse(error, path, "cannot be opened: %s", strerror(errno));
    if (!S_ISDIR(st.st_mode)) return refuse(error, path, "is not a directory");
    return 0;
}

static int say_in_use(struct datadir *d, struct buf *error)
{
    char pid[32] = "";
    ssize_t n = pread(d->lock_fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? n : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
    if (*pid) return refuse(error, d->path, "is in use by pid %s", pid);
    return refuse(error, d->path, "is in use by another process");
}

static int take_lock(struct datadir *d, struct buf *error)
{
    char path[PATH_MAX], pid[32];
    path_in(d, "LOCK", path);
    d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock_fd < 0) return refuse(error, d->path, "cannot be locked: %s: %s", path, strerror(errno));
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return say_in_use(d, error);
        return refuse(error, d->path, "cannot be locked: %s: %s", path, strerror(errno));
    }
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(d->lock_fd, 0) != 0 || pwrite(d->lock_fd, pid, (size_t)n, 0) != n)
        return refuse(error, d->path, "cannot be written: %s: %s", path, strerror(errno));
    return 0;
}

/* ---- the identity */

static void print_identity(const struct datadir *d, struct buf *out)
{
    buf_printf(out, "format=%d\nshards=%" PRIu32 "\nlayout=%" PRIu32 "\nseed=%016" PRIx64 "\ncreated=%" PRId64 "\n", DATADIR_FORMAT, d->shards, d->layout,
               d->seed, d->created_s);
    buf_printf(out, "check=%016" PRIx64 "\n", keyhash(buf_slice(out), 0));
}

static int write_identity(const struct datadir *d, struct buf *error)
{
    char path[PATH_MAX];
    struct buf text = {0};
    path_in(d, "SHERD", path);
    print_identity(d, &text);
    int rc = wholefile_replace(path, buf_slice(&text), 0600);
    buf_fini(&text);
    return rc ? refuse(error, d->path, "cannot be written: %s: %s", path, strerror(-rc)) : 0;
}

static int parse_identity(struct datadir *d, struct buf *text, struct buf *error)
{
    long format;
    buf_add_byte(text, '\0');
    text->len--;
    if (sscanf(text->p, "format=%9ld", &format) != 1) return refuse(error, d->path, "has a damaged SHERD file: no format version");
    if (format > DATADIR_FORMAT)
        return refuse(error, d->path, "has format version %ld; this version of Sherd reads up to %d", format, DATADIR_FORMAT);
    int fields = sscanf(text->p, "format=%*d\nshards=%9" SCNu32 "\nlayout=%6" SCNu32 "\nseed=%16" SCNx64 "\ncreated=%18" SCNd64 "\n",
                        &d->shards, &d->layout, &d->seed, &d->created_s);
    struct buf again = {0};
    print_identity(d, &again);
    bool valid = fields == 4 && slice_eq(buf_slice(&again), buf_slice(text)) && d->shards >= 1 && d->shards <= SHARDS_MAX;
    buf_fini(&again);
    return valid ? 0 : refuse(error, d->path, "has a damaged SHERD file");
}

static int read_identity(struct datadir *d, const char *path, struct buf *error)
{
    struct buf text = {0};
    int rc = wholefile_read(path, IDENTITY_MAX_BYTES, &text);
    if (rc == -EFBIG)
        rc = refuse(error, d->path, "has a damaged SHERD file");
    else if (rc)
        rc = refuse(error, d->path, "cannot be read: %s: %s", path, strerror(-rc));
    else
        rc = parse_identity(d, &text, error);
    buf_fini(&text);
    return rc;
}

/* What may stand in a directory that is to become ours: our lock, the rest of a start that was cut short, and what file systems put there. */
static bool is_ignorable(const char *name)
{
    return name[0] == '.' || strcmp(name, "LOCK") == 0 || strcmp(name, "SHERD.new") == 0 || strcmp(name, "lost+found") == 0;
}

static int refuse_foreign(const struct datadir *d, struct buf *error)
{
    DIR *dir = opendir(d->path);
    if (!dir) return refuse(error, d->path, "cannot be read: %s", strerror(errno));
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        if (!is_ignorable(e->d_name)) rc = refuse(error, d->path, "has no SHERD file but is not empty (%s): it is not a data directory", e->d_name);
    }
    closedir(dir);
    return rc;
}

static int make_identity(struct datadir *d, uint32_t shards, uint32_t layout, struct buf *error)
{
    if (refuse_foreign(d, error)) return -1;
    d->shards = shards;
    d->layout = layout;
    d->seed = datadir_random_seed();
    d->created_s = clock_unix_ms() / 1000;
    d->fresh = true;
    return write_identity(d, error);
}

/* layout: the first one's number, or 0: it is to be a node's. */
static int check_kind(const struct datadir *d, uint32_t layout, struct buf *error)
{
    if (d->layout && !layout) return refuse(error, d->path, "holds the data of a server that is no node of a cluster: a node needs one of its own");
    if (!d->layout && layout) return refuse(error, d->path, "is that of a node of a cluster: only a server with the option cluster can use it");
    return 0;
}

static int open_kind(struct datadir *d, const char *path, uint32_t shards, uint32_t layout, struct buf *error)
{
    char identity[PATH_MAX];
    *d = (struct datadir){.lock_fd = -1};
    CHECK(shards >= 1 && shards <= SHARDS_MAX);
    if (make_folders(path, error)) return -1;
    d->path = mem_strdup(path);
    path_in(d, "SHERD", identity);
    int rc = take_lock(d, error);
    if (rc == 0) rc = access(identity, F_OK) == 0 || errno != ENOENT ? read_identity(d, identity, error) : make_identity(d, shards, layout, error);
    if (rc == 0) rc = check_kind(d, layout, error);
    if (rc) datadir_close(d);
    return rc;
}

int datadir_open(struct datadir *d, const char *path, uint32_t shards, struct buf *error) { return open_kind(d, path, shards, 1, error); }
int datadir_open_node(struct datadir *d, const char *path, struct buf *error) { return open_kind(d, path, 1, 0, error); }

/* A lock that nobody holds is held for a moment by us; a server that starts in just that moment is refused, as it would be by another server. */
static bool is_locked(const struct datadir *d)
{
    char path[PATH_MAX];
    path_in(d, "LOCK", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

int datadir_peek(struct datadir *d, const char *path, bool *in_use, struct buf *error)
{
    char identity[PATH_MAX];
    *d = (struct datadir){.lock_fd = -1};
    if (strlen(path) > PATH_MAX - 64) return refuse(error, path, "has no usable path");
    d->path = mem_strdup(path);
    path_in(d, "SHERD", identity);
    *in_use = is_locked(d);
    int rc = read_identity(d, identity, error);
    if (rc == 0) rc = check_kind(d, 1, error);
    if (rc) datadir_close(d);
    return rc;
}

int datadir_set_layout(struct datadir *d, uint32_t layout, uint32_t shards, struct buf *error)
{
    CHECK(shards >= 1 && shards <= SHARDS_MAX);
    struct datadir before = *d;
    d->shards = shards;
    d->layout = layout;
    int rc = write_identity(d, error);
    if (rc) *d = before;
    return rc;
}

char *datadir_layout_path(const struct datadir *d, uint32_t layout)
{
    char name[32], path[PATH_MAX];
    snprintf(name, sizeof name, "layout-%" PRIu32, layout);
    path_in(d, name, path);
    return mem_strdup(path);
}

int datadir_make_layout(const struct datadir *d, uint32_t layout, struct buf *error)
{
    char *path = datadir_layout_path(d, layout);
    int rc = mkdir(path, 0700) == 0 || errno == EEXIST ? file_disk.sync_dir(file_disk.ctx, d->path) : -errno;
    if (rc) refuse(error, d->path, "cannot be written: %s: %s", path, strerror(-rc));
    mem_free(path);
    return rc ? -1 : 0;
}

void datadir_keep_layout_aside(const struct datadir *d, uint32_t layout)
{
    char *path = datadir_layout_path(d, layout);
    char aside[PATH_MAX + 16];
    snprintf(aside, sizeof aside, "%s.corrupt", path);
    if (rename(path, aside) == 0) file_disk.sync_dir(file_disk.ctx, d->path);
    mem_free(path);
}

static bool is_kept_aside(const char *name)
{
    size_t n = strlen(name), suffix = strlen(".corrupt");
    return n > suffix && strcmp(name + n - suffix, ".corrupt") == 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

void datadir_remove_other_layouts(const struct datadir *d)
{
    DIR *dir = opendir(d->path);
    if (!dir) return;
    char keep[32], path[PATH_MAX];
    snprintf(keep, sizeof keep, "layout-%" PRIu32, d->layout);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strncmp(e->d_name, "layout-", 7) != 0 || strcmp(e->d_name, keep) == 0 || is_kept_aside(e->d_name)) continue;
        path_in(d, e->d_name, path);
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    closedir(dir);
}

void datadir_close(struct datadir *d)
{
    if (d->lock_fd >= 0) close(d->lock_fd);
    mem_free(d->path);
    d->lock_fd = -1;
    d->path = NULL;
}
