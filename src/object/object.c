#include "object/object.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/driver.h"
#include "object/filestore.h"
#include "object/objurl.h"
#include "object/s3store.h"

int object_open(struct object_store **store, const char *url, const struct object_options *options, char error[OBJECT_DETAIL_BYTES])
{
    static const struct object_options usual = {0};
    if (!options) options = &usual;
    *store = NULL;
    error[0] = '\0';
    struct objurl u;
    const char *why = objurl_parse(&u, slice_str(url));
    if (why) {
        snprintf(error, OBJECT_DETAIL_BYTES, "%s", why);
        return ERR_OBJECT_URL;
    }
    if (u.scheme == OBJURL_FILE) {
        *store = filestore_new(u.path, url, FILESTORE_UNNAMED_TEMPS);
        return 0;
    }
    return s3store_open(store, &u, url, options, error);
}

void object_close(struct object_store *s)
{
    if (s) s->driver->close(s);
}

const char *object_url(const struct object_store *s) { return s->url; }

const char *object_key_of(const struct object_store *s, const char *url)
{
    size_t n = strlen(s->url);
    if (strncmp(url, s->url, n) != 0 || url[n] != '/' || url[n + 1] == '\0') return NULL;
    return url + n + 1;
}

/* Every call passes here first: the caller's company or one that stands in for it. */
static struct object_call *begin(struct object_call *call, struct object_call *stand_in)
{
    if (!call) {
        *stand_in = (struct object_call){0};
        call = stand_in;
    }
    call->detail[0] = '\0';
    return call;
}

static int check_key(struct object_call *call, const char *key)
{
    size_t n = strlen(key);
    if (n > 0 && n <= OBJECT_KEY_MAX) return 0;
    return driver_fail(call, ERR_OBJECT_KEY, "a key has 1 to %d bytes, not %zu", OBJECT_KEY_MAX, n);
}

/* ---- reading */

int object_head(struct object_store *s, struct object_call *call, const char *key, struct object_meta *meta)
{
    struct object_call stand_in;
    call = begin(call, &stand_in);
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    return rc ? rc : s->driver->head(s, call, key, meta);
}

int object_get(struct object_store *s, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta)
{
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    call = begin(call, &stand_in);
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    if (rc) return rc;
    size_t before = out->len;
    rc = s->driver->get(s, call, key, max, out, meta);
    if (rc) out->len = before;
    return rc;
}

ssize_t object_get_range(struct object_store *s, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta)
{
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    CHECK(n > 0);
    call = begin(call, &stand_in);
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    /* No object is so large, and at + n must not wrap below. */
    if (rc == 0 && at > INT64_MAX - n) rc = driver_fail(call, ERR_OBJECT_RANGE, "offset %llu", (unsigned long long)at);
    return rc ? rc : s->driver->get_range(s, call, key, p, n, at, meta);
}

int object_get_fd(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta)
{
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    call = begin(call, &stand_in);
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    return rc ? rc : s->driver->get_fd(s, call, key, fd, meta);
}

/* ---- writing */

int object_put(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *options, struct object_meta *meta)
{
    static const struct object_put_options usual = {0};
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    call = begin(call, &stand_in);
    if (!options) options = &usual;
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    CHECK(options->condition != OBJECT_IF_MATCH || (options->etag && options->etag[0]));
    int rc = check_key(call, key);
    return rc ? rc : s->driver->put(s, call, key, bytes, options, meta);
}

int object_put_stream(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta)
{
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    call = begin(call, &stand_in);
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    return rc ? rc : s->driver->put_stream(s, call, key, source, content_type, meta);
}

struct fd_source {
    int fd;
    bool seekable;
    uint64_t at;
};

static ssize_t read_fd(void *arg, void *p, size_t n)
{
    struct fd_source *f = arg;
    ssize_t got;
    do {
        got = f->seekable ? pread(f->fd, p, n, (off_t)f->at) : read(f->fd, p, n);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    f->at += (uint64_t)got;
    return got;
}

int object_put_fd(struct object_store *s, struct object_call *call, const char *key, int fd, const char *content_type, struct object_meta *meta)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return -errno;
    bool regular = S_ISREG(st.st_mode);
    struct fd_source f = {.fd = fd, .seekable = regular};
    struct object_source source = {.read = read_fd, .arg = &f, .size_hint = regular ? (uint64_t)st.st_size : 0};
    return object_put_stream(s, call, key, &source, content_type, meta);
}

int object_put_temp(struct object_store *s, struct object_call *call, const char *key, int fd, const char *content_type, struct object_meta *meta)
{
    struct object_call stand_in;
    struct object_meta meta_unwanted;
    call = begin(call, &stand_in);
    if (!meta) meta = &meta_unwanted;
    *meta = (struct object_meta){0};
    int rc = check_key(call, key);
    if (rc) return rc;
    if (s->driver->put_temp && (rc = s->driver->put_temp(s, call, key, fd, meta)) != -EXDEV) return rc;
    return object_put_fd(s, call, key, fd, content_type, meta);
}

const char *object_folder(const struct object_store *s) { return s->driver->folder ? s->driver->folder(s) : NULL; }

int object_delete(struct object_store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    struct object_call stand_in;
    size_t failed_unwanted;
    call = begin(call, &stand_in);
    if (!failed) failed = &failed_unwanted;
    *failed = 0;
    for (size_t i = 0; i < n; i++) {
        int rc = check_key(call, keys[i]);
        if (rc) {
            *failed = n;
            return rc;
        }
    }
    return n ? s->driver->del(s, call, keys, n, failed) : 0;
}

/* ---- listing */

int object_list(struct object_store *s, struct object_call *call, const struct object_list_options *options, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    struct object_call stand_in;
    call = begin(call, &stand_in);
    struct object_list_options o = options ? *options : (struct object_list_options){0};
    if (!o.prefix) o.prefix = "";
    if (!o.start_after) o.start_after = "";
    if (o.page == 0 || o.page > 1000) o.page = 1000;
    return s->driver->list(s, call, &o, each, arg);
}

/* ---- conditions */

/* Two puts that must not both succeed, then one on a wrong etag and one on the right one. A store that refuses conditions says so in the first; one that ignores them
 * lets the second through. Gives the bits, or a code if a request failed in a way that tells nothing. */
static int try_conditions(struct object_store *s, struct object_call *call, const char *key)
{
    struct object_meta meta;
    struct object_put_options absent = {.condition = OBJECT_IF_ABSENT};
    int found = OBJECT_CONDITIONS_NONE;
    int rc = s->driver->put(s, call, key, SLICE("1"), &absent, &meta);
    if (rc == 0) {
        rc = s->driver->put(s, call, key, SLICE("2"), &absent, &meta);
        if (rc == ERR_OBJECT_PRECONDITION) found |= OBJECT_CONDITIONS_IF_ABSENT;
    }
    if (rc != 0 && rc != ERR_OBJECT_PRECONDITION && rc != ERR_OBJECT_UNSUPPORTED) return rc;

    struct object_put_options always = {0};
    rc = s->driver->put(s, call, key, SLICE("3"), &always, &meta);
    if (rc == 0 && meta.etag[0] == '\0') rc = s->driver->head(s, call, key, &meta);
    if (rc != 0) return rc;
    struct object_put_options wrong = {.condition = OBJECT_IF_MATCH, .etag = "\"00000000000000000000000000000000\""};
    struct object_put_options right = {.condition = OBJECT_IF_MATCH, .etag = meta.etag};
    struct object_meta unwanted;
    rc = s->driver->put(s, call, key, SLICE("4"), &wrong, &unwanted);
    if (rc == ERR_OBJECT_PRECONDITION) {
        rc = s->driver->put(s, call, key, SLICE("5"), &right, &unwanted);
        if (rc == 0) found |= OBJECT_CONDITIONS_IF_MATCH;
    }
    if (rc != 0 && rc != ERR_OBJECT_PRECONDITION && rc != ERR_OBJECT_UNSUPPORTED) return rc;
    return found;
}

int object_probe_conditions(struct object_store *s, struct object_call *call)
{
    int known = atomic_load(&s->conditions);
    if (known != DRIVER_UNPROBED) return known;
    struct object_call stand_in;
    call = begin(call, &stand_in);
    char hex[33], key[64];
    driver_random_hex(hex);
    snprintf(key, sizeof key, "_sherd_probe/%s", hex);
    int found = try_conditions(s, call, key);
    struct object_call last = {0};
    size_t failed = 0;
    s->driver->del(s, &last, (const char *const[]){key}, 1, &failed);
    if (found >= 0) {
        call->detail[0] = '\0';
        atomic_store(&s->conditions, found);
    }
    return found;
}
