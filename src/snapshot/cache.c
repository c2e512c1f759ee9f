#include "snapshot/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"

enum { NAME_BYTES = 65, DIGEST_BYTES = 32 };

struct cache {
    char *dir;
    uint64_t bytes_max;
};

/* ---- the folder */

static int make_folders(const char *dir)
{
    char path[PATH_MAX];
    if (strlen(dir) >= sizeof path) return -ENAMETOOLONG;
    strcpy(path, dir);
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != 0) continue;
        char c = *p;
        *p = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return -errno;
        if (c == 0) return 0;
        *p = c;
    }
}

int cache_open(struct cache **c, const char *dir, uint64_t bytes_max)
{
    char locks[PATH_MAX];
    if ((size_t)snprintf(locks, sizeof locks, "%s/locks", dir) >= sizeof locks - 80) return -ENAMETOOLONG;
    int rc = make_folders(locks);
    if (rc < 0) return rc;
    *c = mem_alloc(sizeof **c);
    **c = (struct cache){.dir = mem_strdup(dir), .bytes_max = bytes_max};
    return 0;
}

void cache_close(struct cache *c)
{
    if (!c) return;
    mem_free(c->dir);
    mem_free(c);
}

/* ---- names */

static void to_hex(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* Two files that are not the same have different names: by content, or by all that is known of them. */
static void name_of(const struct cache_want *w, char name[NAME_BYTES])
{
    uint8_t digest[DIGEST_BYTES];
    const uint8_t *bytes = w->sha256;
    if (!bytes) {
        struct buf identity = {0};
        buf_printf(&identity, "%s\n%s\n%llu\n", w->url, w->checkpoint_id ? w->checkpoint_id : "", (unsigned long long)w->bytes);
        CHECK(EVP_Digest(identity.p, identity.len, digest, NULL, EVP_sha256(), NULL) == 1);
        buf_fini(&identity);
        bytes = digest;
    }
    to_hex(name, bytes, DIGEST_BYTES);
}

struct paths {
    char db[PATH_MAX], part[PATH_MAX], lock[PATH_MAX];
};

static void paths_of(const struct cache *c, const char *name, struct paths *p)
{
    snprintf(p->db, sizeof p->db, "%s/%s.db", c->dir, name);
    snprintf(p->part, sizeof p->part, "%s/%s.part", c->dir, name);
    snprintf(p->lock, sizeof p->lock, "%s/locks/%.3s", c->dir, name);
}

/* ---- files that are there */

static int map_fd(int fd, struct cache_file *file)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return -errno;
    if (!S_ISREG(st.st_mode)) return -EINVAL;
    void *map = NULL;
    if (st.st_size > 0) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) return -errno;
    }
    *file = (struct cache_file){.map = map, .bytes = (size_t)st.st_size, .fd = fd, .reused = true};
    return 0;
}

int cache_map(const char *path, struct cache_file *file)
{
    *file = (struct cache_file){.fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = map_fd(fd, file);
    close(fd); /* the mapping needs no descriptor */
    file->fd = -1;
    return rc;
}

void cache_release(struct cache_file *file)
{
    if (file->map) munmap((void *)file->map, file->bytes);
    if (file->map && file->fd >= 0) close(file->fd);
    *file = (struct cache_file){.fd = -1};
}

/* 1 and the file if it is there, whole and now ours to use; 0 if not. An evictor may have been faster between our open and our lock: then the file has no name any more. */
static int use_cached(const char *path, uint64_t bytes, struct cache_file *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? 0 : -errno;
    struct stat st;
    bool good = flock(fd, LOCK_SH) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0 && st.st_size > 0 && (bytes == 0 || (uint64_t)st.st_size == bytes);
    if (good) {
        futimens(fd, NULL); /* its last use; a folder that is read-only to us merely evicts less cleverly */
        int rc = map_fd(fd, file);
        if (rc == 0) return 1;
        close(fd);
        return rc;
    }
    close(fd);
    return 0;
}

/* ---- downloading */

static bool has_digest(const void *map, size_t bytes, const uint8_t *wanted)
{
    uint8_t digest[DIGEST_BYTES];
    return EVP_Digest(map, bytes, digest, NULL, EVP_sha256(), NULL) == 1 && memcmp(digest, wanted, DIGEST_BYTES) == 0;
}

static int check_content(int fd, const struct cache_want *w, struct object_call *call)
{
    struct cache_file f = {0};
    int rc = map_fd(fd, &f);
    if (rc < 0) return rc;
    const char *fault = NULL;
    if (f.bytes == 0 || (w->bytes && f.bytes != w->bytes))
        fault = "the file has another size than the manifest says";
    else if (w->sha256 && !has_digest(f.map, f.bytes, w->sha256))
        fault = "the file's SHA-256 is not the one in the manifest";
    if (f.map) munmap((void *)f.map, f.bytes);
    if (!fault) return 0;
    snprintf(call->detail, sizeof call->detail, "%s", fault);
    return ERR_SNAPSHOT_SHARD;
}

static int sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int rc = fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    return rc;
}

static int download(struct cache *c, const struct cache_want *w, const struct paths *p, struct object_call *call)
{
    int fd = open(p->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    int rc = object_get_fd(w->store, call, w->key, fd, NULL);
    if (rc >= 0) rc = check_content(fd, w, call);
    if (rc == 0 && fsync(fd) != 0) rc = -errno;
    close(fd);
    if (rc == 0 && rename(p->part, p->db) != 0) rc = -errno;
    if (rc < 0)
        unlink(p->part);
    else
        rc = sync_folder(c->dir);
    return rc;
}

static int lock_name(const struct paths *p)
{
    int fd = open(p->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    while (flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int cache_get(struct cache *c, const struct cache_want *w, struct object_call *call, struct cache_file *file)
{
    char name[NAME_BYTES];
    struct paths p;
    struct object_call own = {0};
    if (!call) call = &own;
    *file = (struct cache_file){.fd = -1};
    name_of(w, name);
    paths_of(c, name, &p);
    int rc = use_cached(p.db, w->bytes, file);
    if (rc != 0) return rc < 0 ? rc : 0;

    int lock = lock_name(&p);
    if (lock < 0) return lock;
    rc = use_cached(p.db, w->bytes, file); /* somebody else may have brought it while we waited */
    bool here = rc == 1;
    for (int i = 0; rc == 0 && i < 3; i++) { /* an evictor may take it at once, though hardly thrice */
        rc = download(c, w, &p, call);
        if (rc == 0) rc = use_cached(p.db, w->bytes, file);
    }
    close(lock);
    if (rc == 0) return -EAGAIN;
    if (rc < 0) return rc;
    file->reused = here;
    if (!here) cache_trim(c);
    return 0;
}

/* ---- eviction */

struct found {
    char name[NAME_BYTES + 8];
    uint64_t bytes;
    struct timespec used;
};

struct inventory {
    struct found *files;
    size_t n, room;
    uint64_t bytes;
};

static void note(struct inventory *v, const char *name, const struct stat *st)
{
    if (v->n == v->room) {
        v->room = v->room ? 2 * v->room : 64;
        v->files = mem_resize(v->files, v->room * sizeof *v->files);
    }
    struct found *f = &v->files[v->n++];
    CHECK(strlen(name) < sizeof f->name);
    strcpy(f->name, name);
    f->bytes = (uint64_t)st->st_blocks * 512;
    f->used = st->st_mtim;
    v->bytes += f->bytes;
}

static bool is_ours(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot && dot - name == NAME_BYTES - 1 && (strcmp(dot, ".db") == 0 || strcmp(dot, ".part") == 0);
}

static void take_stock(const struct cache *c, struct inventory *v)
{
    DIR *d = opendir(c->dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (is_ours(e->d_name) && fstatat(dirfd(d), e->d_name, &st, 0) == 0) note(v, e->d_name, &st);
    }
    closedir(d);
}

static int by_use(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* A finished file is locked by its users, a download by its name's lock: whoever gets the lock alone may remove it. */
static bool evict(const struct cache *c, const struct found *f)
{
    struct paths p;
    paths_of(c, f->name, &p);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", c->dir, f->name);
    bool is_part = strstr(f->name, ".part") != NULL;
    int fd = open(is_part ? p.lock : path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool gone = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(path) == 0;
    close(fd);
    return gone;
}

uint32_t cache_trim(struct cache *c)
{
    struct inventory v = {0};
    uint32_t removed = 0;
    take_stock(c, &v);
    if (v.bytes > c->bytes_max) qsort(v.files, v.n, sizeof *v.files, by_use);
    for (size_t i = 0; i < v.n && v.bytes > c->bytes_max; i++) {
        if (!evict(c, &v.files[i])) continue;
        v.bytes -= v.files[i].bytes;
        removed++;
    }
    mem_free(v.files);
    return removed;
}
