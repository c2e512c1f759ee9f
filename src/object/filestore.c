/* file://: key a/b/c below folder F is the file F/a/b/c.
 *
 * Whole and durable. The bytes go to a file without a name (O_TMPFILE; a kill leaves nothing), are synced, and get their name in one step: link(2) where the name is free,
 * else link to ".sherd-tmp" beside it and rename(2) over it. Then the folder is synced, and so is the parent of every folder made on the way. File systems without O_TMPFILE get
 * ".sherd-tmp-RANDOM" in F and a rename. Names that begin with ".sherd-tmp" are no keys and are not listed.
 *
 * Exact between processes. Whoever changes a name holds an exclusive flock(2) on the folder it stands in, from looking at the condition to the rename; so do unconditional puts and
 * deletes, since a put that slipped in between would be lost. The lock goes with its process. Needs a file system whose flock works on folders: any local one.
 *
 * Etags. "mtime-size-inode" in hex, mtime in nanoseconds and, under the lock, always later than that of the file it replaces: two puts of one key never share an etag.
 *
 * Unlike in S3, a name is a file or a folder: keys "a" and "a/b" cannot both be there. Folders that deletes leave empty are removed; a put that meets this makes them again. */
#include "object/filestore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/driver.h"
#include "object/objurl.h"

#define TEMP_NAME ".sherd-tmp"

enum { CHUNK_BYTES = 1 << 20, PUBLISH_TRIES = 100 };

struct filestore {
    struct object_store base;
    char *root;
    _Atomic bool named_temps;
};

static struct filestore *of(struct object_store *s) { return (struct filestore *)s; }

/* ---- keys and paths */

static bool is_temp_name(const char *name) { return strncmp(name, TEMP_NAME, strlen(TEMP_NAME)) == 0; }

static int check_path(struct object_call *call, const char *key)
{
    bool plain = objurl_is_plain_path(slice_str(key));
    for (const char *p = key; plain && p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) plain = !is_temp_name(p);
    if (plain) return 0;
    return driver_fail(call, ERR_OBJECT_KEY, "%s: in a folder a key is made of names between single slashes, not \".\", \"..\" or " TEMP_NAME "…", key);
}

static char *path_of(const struct filestore *f, const char *key)
{
    struct buf b = {0};
    buf_printf(&b, "%s/%s", f->root, key);
    return b.p; /* buf_printf ends its text with a NUL */
}

static int fail_errno(struct object_call *call, const char *key, const char *what, int code)
{
    if (code == -ENOENT) return driver_fail(call, ERR_OBJECT_NOT_FOUND, "%s", key);
    if (code == -EACCES || code == -EPERM) return driver_fail(call, ERR_OBJECT_DENIED, "%s: %s: %s", key, what, err_text(code));
    return driver_fail(call, code, "%s: %s: %s", key, what, err_text(code));
}

static void fill_meta(struct object_meta *meta, const struct stat *st)
{
    unsigned long long mtime_ns = (unsigned long long)st->st_mtim.tv_sec * 1000000000ull + (unsigned long long)st->st_mtim.tv_nsec;
    meta->size = (uint64_t)st->st_size;
    meta->modified_ms = (int64_t)(mtime_ns / 1000000);
    snprintf(meta->etag, sizeof meta->etag, "\"%llx-%llx-%llx\"", mtime_ns, (unsigned long long)st->st_size, (unsigned long long)st->st_ino);
}

/* ---- reading */

/* Opens an object for reading; gives a descriptor. */
static int open_object(struct filestore *f, struct object_call *call, const char *key, struct object_meta *meta)
{
    int rc = check_path(call, key);
    if (rc) return rc;
    char *path = path_of(f, key);
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int code = fd < 0 || fstat(fd, &st) != 0 ? -errno : 0;
    mem_free(path);
    if (code == 0 && !S_ISREG(st.st_mode)) code = -ENOENT;
    if (code == -ENOTDIR) code = -ENOENT;
    if (code) {
        if (fd >= 0) close(fd);
        return fail_errno(call, key, "open", code);
    }
    fill_meta(meta, &st);
    return fd;
}

static int filestore_head(struct object_store *s, struct object_call *call, const char *key, struct object_meta *meta)
{
    int fd = open_object(of(s), call, key, meta);
    if (fd < 0) return fd;
    close(fd);
    return 0;
}

/* Reads n bytes, fewer only at the end of the file. */
static ssize_t read_at(int fd, char *p, size_t n, uint64_t at)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, p + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static int write_at(int fd, const char *p, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, p + done, n - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -errno;
        done += (size_t)put;
    }
    return 0;
}

static int filestore_get(struct object_store *s, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta)
{
    int fd = open_object(of(s), call, key, meta);
    if (fd < 0) return fd;
    int rc = 0;
    if (meta->size > max) rc = driver_fail(call, ERR_OBJECT_TOO_LARGE, "%s: %llu bytes", key, (unsigned long long)meta->size);
    for (uint64_t at = 0; rc == 0 && at < meta->size;) {
        size_t n = meta->size - at < CHUNK_BYTES ? (size_t)(meta->size - at) : CHUNK_BYTES;
        ssize_t got = read_at(fd, buf_room(out, n), n, at);
        if (got < 0) rc = fail_errno(call, key, "read", (int)got);
        else if ((size_t)got < n) rc = driver_fail(call, ERR_OBJECT_CHANGED, "%s: the file became shorter", key);
        else if (driver_cancelled(call)) rc = ERR_OBJECT_CANCELLED;
        else {
            out->len += n;
            at += n;
            driver_progress(call, at);
        }
    }
    close(fd);
    return rc;
}

static ssize_t filestore_get_range(struct object_store *s, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta)
{
    int fd = open_object(of(s), call, key, meta);
    if (fd < 0) return fd;
    ssize_t got;
    if (at >= meta->size) got = driver_fail(call, ERR_OBJECT_RANGE, "%s: offset %llu of %llu bytes", key, (unsigned long long)at, (unsigned long long)meta->size);
    else if ((got = read_at(fd, p, n, at)) < 0) got = fail_errno(call, key, "read", (int)got);
    else driver_progress(call, (uint64_t)got);
    close(fd);
    return got;
}

static int filestore_get_fd(struct object_store *s, struct object_call *call, const char *key, int to, struct object_meta *meta)
{
    int fd = open_object(of(s), call, key, meta);
    if (fd < 0) return fd;
    char *chunk = mem_alloc(CHUNK_BYTES);
    int rc = 0;
    uint64_t at = 0;
    while (rc == 0) {
        ssize_t got = read_at(fd, chunk, CHUNK_BYTES, at);
        if (got <= 0) {
            if (got < 0) rc = fail_errno(call, key, "read", (int)got);
            break;
        }
        rc = write_at(to, chunk, (size_t)got, at);
        if (rc) driver_fail(call, rc, "%s: local file: %s", key, err_text(rc));
        else if (driver_cancelled(call)) rc = ERR_OBJECT_CANCELLED;
        at += (uint64_t)got;
        if (rc == 0) driver_progress(call, at);
    }
    if (rc == 0 && at != meta->size) rc = driver_fail(call, ERR_OBJECT_CHANGED, "%s: the file's size changed", key);
    mem_free(chunk);
    close(fd);
    return rc;
}

/* ---- folders */

/* Makes the name of a new folder durable. */
static int sync_parent(const char *path)
{
    char *parent = mem_strdup(path);
    char *slash = strrchr(parent, '/');
    slash[slash == parent ? 1 : 0] = '\0';
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) != 0 ? -errno : 0;
    if (fd >= 0) close(fd);
    mem_free(parent);
    return rc;
}

/* Makes the folder at path and those above it. Cuts path at its slashes while it works. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) *slash = '\0';
        int rc = mkdir(path, 0777) == 0 ? sync_parent(path) : -errno;
        if (slash) *slash = '/';
        if (rc == -EEXIST) rc = 0;
        if (rc || !slash) return rc;
    }
}

/* The folder that a key's file stands in, opened; *name is the file's name in it. */
static int open_folder(struct filestore *f, const char *key, bool make, const char **name)
{
    char *path = path_of(f, key);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    *name = strrchr(key, '/') ? strrchr(key, '/') + 1 : key;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -errno : fd;
    if (rc == -ENOENT && make) {
        rc = make_folders(path);
        if (rc == 0) {
            fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            rc = fd < 0 ? -errno : fd;
        }
    }
    mem_free(path);
    return rc;
}

static int lock_folder(int dir)
{
    while (flock(dir, LOCK_EX) != 0)
        if (errno != EINTR) return -errno;
    return 0;
}

/* ---- writing */

struct temp {
    int fd;
    char *path; /* NULL: it has no name */
    struct timespec mtime;
};

static int open_named_temp(struct filestore *f, struct temp *t)
{
    char hex[33];
    driver_random_hex(hex);
    struct buf b = {0};
    buf_printf(&b, "%s/" TEMP_NAME "-%s", f->root, hex);
    t->path = b.p;
    t->fd = open(t->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return t->fd < 0 ? -errno : 0;
}

static void drop_temp(struct temp *t)
{
    if (t->fd >= 0) close(t->fd);
    if (t->path) unlink(t->path); /* fails after a rename, as it should */
    mem_free(t->path);
    *t = (struct temp){.fd = -1};
}

static int try_open_temp(struct filestore *f, struct temp *t)
{
    *t = (struct temp){.fd = -1};
    if (!atomic_load(&f->named_temps)) {
        t->fd = open(f->root, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
        if (t->fd >= 0) return 0;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -errno;
        atomic_store(&f->named_temps, true);
    }
    return open_named_temp(f, t);
}

static int open_temp(struct filestore *f, struct temp *t)
{
    int rc = try_open_temp(f, t);
    if (rc != -ENOENT) return rc;
    drop_temp(t);
    char *root = mem_strdup(f->root);
    rc = make_folders(root);
    mem_free(root);
    return rc ? rc : try_open_temp(f, t);
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Gives the temporary file a modification time of full resolution (the kernel's own has that of its tick), and makes all of it durable. */
static int seal_temp(struct temp *t, struct timespec mtime)
{
    struct timespec times[2] = {mtime, mtime};
    t->mtime = mtime;
    if (futimens(t->fd, times) != 0) return -errno;
    return fsync(t->fd) == 0 ? 0 : -errno;
}

static struct timespec just_after(struct timespec t)
{
    if (++t.tv_nsec < 1000000000) return t;
    return (struct timespec){.tv_sec = t.tv_sec + 1};
}

static int link_temp(const struct temp *t, int dir, const char *name)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", t->fd);
    return linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

static int replace_by_temp(const struct temp *t, int dir, const char *name, bool exists)
{
    if (t->path) return renameat(AT_FDCWD, t->path, dir, name) == 0 ? 0 : -errno;
    if (!exists) return link_temp(t, dir, name);
    unlinkat(dir, TEMP_NAME, 0); /* left by one that was killed right here: nobody else holds the lock */
    int rc = link_temp(t, dir, TEMP_NAME);
    if (rc) return rc;
    rc = renameat(dir, TEMP_NAME, dir, name) == 0 ? 0 : -errno;
    if (rc) unlinkat(dir, TEMP_NAME, 0);
    return rc;
}

static bool condition_holds(const struct object_put_options *o, const struct stat *old)
{
    if (o->condition == OBJECT_ALWAYS) return true;
    if (o->condition == OBJECT_IF_ABSENT) return !old;
    if (!old) return false;
    struct object_meta meta;
    fill_meta(&meta, old);
    return strcmp(meta.etag, o->etag) == 0;
}

/* With the folder's lock held: looks at the condition, gives the file its name. -ENOENT: the folder was removed before we had the lock. */
static int name_temp(struct object_call *call, const char *key, struct temp *t, int dir, const char *name, const struct object_put_options *o)
{
    struct stat old;
    bool exists = fstatat(dir, name, &old, 0) == 0;
    if (exists && S_ISDIR(old.st_mode)) return driver_fail(call, ERR_OBJECT_KEY, "%s: there are keys below it, so it is a folder", key);
    if (!condition_holds(o, exists ? &old : NULL)) return driver_fail(call, ERR_OBJECT_PRECONDITION, "%s: %s", key, exists ? "another object is there" : "there is no object");
    int rc = exists && !is_later(&t->mtime, &old.st_mtim) ? seal_temp(t, just_after(old.st_mtim)) : 0;
    if (rc == 0) rc = replace_by_temp(t, dir, name, exists);
    if (rc) return rc == -ENOENT ? rc : fail_errno(call, key, "rename", rc);
    if (fsync(dir) == 0) return 0;
    rc = -errno;
    /* It has its name; whether it keeps it after a crash is not known. */
    return driver_fail(call, o->condition == OBJECT_ALWAYS ? rc : ERR_OBJECT_UNCERTAIN, "%s: sync of its folder: %s", key, err_text(rc));
}

static int publish(struct filestore *f, struct object_call *call, const char *key, struct temp *t, const struct object_put_options *o, struct object_meta *meta)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = seal_temp(t, now);
    if (rc) return fail_errno(call, key, "sync", rc);
    /* A folder that a delete finds empty and removes between our opening and our locking it is made again. */
    for (int tries = 0; tries < PUBLISH_TRIES; tries++) {
        const char *name;
        int dir = open_folder(f, key, true, &name);
        if (dir == -ENOENT) continue;
        if (dir == -ENOTDIR || dir == -EEXIST) return driver_fail(call, ERR_OBJECT_KEY, "%s: a part of it before a slash is an object itself", key);
        if (dir < 0) return fail_errno(call, key, "folder", dir);
        rc = lock_folder(dir);
        rc = rc ? fail_errno(call, key, "lock", rc) : name_temp(call, key, t, dir, name, o);
        struct stat st;
        if (rc == 0 && fstat(t->fd, &st) == 0) fill_meta(meta, &st);
        close(dir);
        if (rc != -ENOENT) return rc;
    }
    return driver_fail(call, -EBUSY, "%s: its folder is removed again and again", key);
}

static int filestore_put(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *o, struct object_meta *meta)
{
    int rc = check_path(call, key);
    if (rc) return rc;
    struct temp t;
    rc = open_temp(of(s), &t);
    if (rc == 0) rc = write_at(t.fd, bytes.p, bytes.n, 0);
    if (rc) fail_errno(call, key, "write", rc);
    else rc = publish(of(s), call, key, &t, o, meta);
    drop_temp(&t);
    if (rc == 0) driver_progress(call, bytes.n);
    return rc;
}

static int copy_source(struct object_call *call, const char *key, const struct object_source *source, int fd)
{
    char *chunk = mem_alloc(CHUNK_BYTES);
    int rc = 0;
    for (uint64_t at = 0; rc == 0;) {
        ssize_t got = source->read(source->arg, chunk, CHUNK_BYTES);
        if (got < 0) rc = driver_fail(call, (int)got, "%s: source: %s", key, err_text((int)got));
        if (got <= 0) break;
        rc = write_at(fd, chunk, (size_t)got, at);
        if (rc) fail_errno(call, key, "write", rc);
        else if (driver_cancelled(call)) rc = ERR_OBJECT_CANCELLED;
        at += (uint64_t)got;
        if (rc == 0) driver_progress(call, at);
    }
    mem_free(chunk);
    return rc;
}

static int filestore_put_stream(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta)
{
    int rc = check_path(call, key);
    if (rc) return rc;
    struct temp t;
    struct object_put_options always = {0};
    rc = open_temp(of(s), &t);
    if (rc) fail_errno(call, key, "write", rc);
    else rc = copy_source(call, key, source, t.fd);
    if (rc == 0) rc = publish(of(s), call, key, &t, &always, meta);
    drop_temp(&t);
    return rc;
}

/* The file gets a name instead of a copy. Only one that never had a name can get one. */
static int filestore_put_temp(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta)
{
    struct stat file, root;
    struct object_put_options always = {0};
    int rc = check_path(call, key), flags = fcntl(fd, F_GETFL);
    if (rc) return rc;
    if (flags < 0 || (flags & O_TMPFILE) != O_TMPFILE || fstat(fd, &file) != 0 || file.st_nlink != 0) return -EXDEV;
    if (stat(of(s)->root, &root) != 0 || root.st_dev != file.st_dev) return -EXDEV;
    rc = publish(of(s), call, key, &(struct temp){.fd = fd}, &always, meta);
    if (rc == 0) driver_progress(call, (uint64_t)file.st_size);
    return rc;
}

static const char *filestore_folder(const struct object_store *s) { return of((struct object_store *)(uintptr_t)s)->root; }

/* ---- deleting */

/* Removes the folders above key that are empty, up to the store's own. */
static void prune(struct filestore *f, const char *key)
{
    char *path = path_of(f, key);
    size_t root = strlen(f->root);
    for (char *slash = strrchr(path, '/'); slash && (size_t)(slash - path) > root; slash = strrchr(path, '/')) {
        *slash = '\0';
        if (rmdir(path) != 0) break;
    }
    mem_free(path);
}

static int delete_one(struct filestore *f, struct object_call *call, const char *key)
{
    int rc = check_path(call, key);
    if (rc) return rc;
    const char *name;
    int dir = open_folder(f, key, false, &name);
    if (dir == -ENOENT || dir == -ENOTDIR) return 0;
    if (dir < 0) return fail_errno(call, key, "folder", dir);
    rc = lock_folder(dir);
    if (rc == 0 && unlinkat(dir, name, 0) != 0) rc = -errno;
    if (rc == 0 && fsync(dir) != 0) rc = -errno;
    close(dir);
    if (rc == 0) prune(f, key);
    return rc == 0 || rc == -ENOENT || rc == -EISDIR ? 0 : fail_errno(call, key, "delete", rc);
}

static int filestore_del(struct object_store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        struct object_call one = {0};
        int rc = driver_cancelled(call) ? ERR_OBJECT_CANCELLED : delete_one(of(s), &one, keys[i]);
        if (rc == 0) continue;
        (*failed)++;
        if (first == 0) {
            first = rc;
            memcpy(call->detail, one.detail, sizeof one.detail);
        }
    }
    return first;
}

/* ---- listing: folders are walked in the order of the keys that they hold, so "a-b" comes before "a/b": a folder is compared with its slash. */

struct walk {
    struct filestore *f;
    struct object_call *call;
    const struct object_list_options *o;
    int (*each)(void *arg, const struct object_item *item);
    void *arg;
};

enum { STOP_AT_FIRST = 1 };

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

struct names {
    char **p;
    size_t n, cap;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->n; i++) mem_free(names->p[i]);
    mem_free(names->p);
}

static bool is_folder(int dir, const struct dirent *e)
{
    struct stat st;
    if (e->d_type == DT_DIR || e->d_type == DT_REG) return e->d_type == DT_DIR;
    return fstatat(dir, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* The names in a folder in the order of keys, folders with a slash at the end. */
static int read_names(const char *path, struct names *names)
{
    DIR *d = opendir(path);
    if (!d) return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_temp_name(e->d_name)) continue;
        if (names->n == names->cap) {
            names->cap = names->cap ? 2 * names->cap : 64;
            names->p = mem_resize(names->p, names->cap * sizeof *names->p);
        }
        struct buf b = {0};
        buf_printf(&b, "%s%s", e->d_name, is_folder(dirfd(d), e) ? "/" : "");
        names->p[names->n++] = b.p;
    }
    closedir(d);
    if (names->n) qsort(names->p, names->n, sizeof *names->p, by_bytes);
    return 0;
}

static int walk_folder(const struct walk *w, const char *folder);

static int stop_at_first(void *arg, const struct object_item *item) { return STOP_AT_FIRST; }

/* 1 if the list's next keys include one in this folder. */
static int folder_counts(const struct walk *w, const char *folder)
{
    struct object_list_options all = {.prefix = folder, .start_after = w->o->start_after};
    struct walk inner = {.f = w->f, .call = w->call, .o = &all, .each = stop_at_first};
    return walk_folder(&inner, folder);
}

static int visit_folder(const struct walk *w, const char *folder)
{
    size_t n = strlen(folder), prefix = strlen(w->o->prefix);
    if (strncmp(folder, w->o->prefix, n < prefix ? n : prefix) != 0) return 0;
    if (strncmp(folder, w->o->start_after, n) < 0) return 0;
    if (!w->o->by_folder || n <= prefix) return walk_folder(w, folder);
    int rc = folder_counts(w, folder);
    if (rc != STOP_AT_FIRST) return rc;
    struct object_item item = {.key = folder, .is_prefix = true};
    return w->each(w->arg, &item);
}

static int visit_file(const struct walk *w, const char *key)
{
    if (strncmp(key, w->o->prefix, strlen(w->o->prefix)) != 0 || strcmp(key, w->o->start_after) <= 0) return 0;
    char *path = path_of(w->f, key);
    struct stat st;
    bool there = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    mem_free(path);
    if (!there) return 0;
    struct object_item item = {.key = key};
    fill_meta(&item.meta, &st);
    return w->each(w->arg, &item);
}

/* folder: "" or "a/b/". */
static int walk_folder(const struct walk *w, const char *folder)
{
    struct names names = {0};
    char *path = path_of(w->f, folder);
    int rc = strlen(path) < PATH_MAX ? read_names(path, &names) : 0;
    mem_free(path);
    if (rc) fail_errno(w->call, folder, "list", rc);
    struct buf key = {0};
    for (size_t i = 0; rc == 0 && i < names.n; i++) {
        if (driver_cancelled(w->call)) {
            rc = ERR_OBJECT_CANCELLED;
            break;
        }
        key.len = 0;
        buf_printf(&key, "%s%s", folder, names.p[i]);
        rc = key.p[key.len - 1] == '/' ? visit_folder(w, key.p) : visit_file(w, key.p);
    }
    buf_fini(&key);
    names_fini(&names);
    return rc;
}

static int filestore_list(struct object_store *s, struct object_call *call, const struct object_list_options *o, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    struct walk w = {.f = of(s), .call = call, .o = o, .each = each, .arg = arg};
    return walk_folder(&w, "");
}

/* ---- */

static void filestore_close(struct object_store *s)
{
    struct filestore *f = of(s);
    mem_free(f->root);
    driver_fini(s);
    mem_free(f);
}

static const struct object_driver filestore_driver = {
    .close = filestore_close,
    .head = filestore_head,
    .get = filestore_get,
    .get_range = filestore_get_range,
    .get_fd = filestore_get_fd,
    .put = filestore_put,
    .put_stream = filestore_put_stream,
    .put_temp = filestore_put_temp,
    .folder = filestore_folder,
    .del = filestore_del,
    .list = filestore_list,
};

struct object_store *filestore_new(struct slice folder, const char *url, enum filestore_temps temps)
{
    struct filestore *f = mem_zalloc(sizeof *f);
    driver_init(&f->base, &filestore_driver, url, OBJECT_CONDITIONS_ALL);
    f->root = mem_alloc(folder.n + 1);
    memcpy(f->root, folder.p, folder.n);
    f->root[folder.n] = '\0';
    atomic_init(&f->named_temps, temps == FILESTORE_NAMED_TEMPS);
    return &f->base;
}
