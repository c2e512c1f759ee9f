#include "snapshot/storebook.h"

#include <pthread.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/objurl.h"
#include "snapshot/snappath.h"

struct other {
    struct other *next;
    struct object_store *store;
};

struct storebook {
    struct object_store *own;
    const struct object_options *options;
    pthread_mutex_t lock; /* guards the list */
    struct other *others;
};

struct storebook *storebook_new(struct object_store *own, const struct object_options *options)
{
    struct storebook *b = mem_zalloc(sizeof *b);
    b->own = own;
    b->options = options;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

void storebook_free(struct storebook *b)
{
    if (!b) return;
    for (struct other *o = b->others, *next; o; o = next) {
        next = o->next;
        object_close(o->store);
        mem_free(o);
    }
    pthread_mutex_destroy(&b->lock);
    mem_free(b);
}

/* The URL of the store to open for a folder elsewhere: its bucket, so that one store serves all shards there; of a local folder, the one above it. */
static int base_of(const char *url, struct buf *base, struct buf *why)
{
    struct objurl u;
    const char *fault = objurl_parse(&u, slice_str(url));
    if (!fault && u.path.n == 0) fault = "the URL of a shard names no folder";
    if (fault) {
        buf_printf(why, "%s: %s", url, fault);
        return ERR_OBJECT_URL;
    }
    if (u.scheme == OBJURL_S3)
        buf_printf(base, "s3://%.*s", (int)u.bucket.n, u.bucket.p);
    else
        buf_add(base, url, (size_t)(strrchr(url, '/') - url));
    buf_add_byte(base, 0);
    return 0;
}

static int open_other(struct storebook *b, const char *base, struct object_store **store, struct buf *why)
{
    char error[OBJECT_DETAIL_BYTES];
    int rc = object_open(store, base, b->options, error);
    if (rc < 0) {
        buf_printf(why, "%s: %s", base, error);
        return rc;
    }
    struct other *o = mem_alloc(sizeof *o);
    *o = (struct other){.next = b->others, .store = *store};
    b->others = o;
    return 0;
}

int storebook_find(struct storebook *b, const char *prefix, const char *url, struct object_store **store, const char **key, struct buf *why)
{
    *store = b->own;
    *key = snappath_key(b->own, prefix, url);
    if (*key) return 0;
    struct buf base = {0};
    int rc = base_of(url, &base, why);
    if (rc == 0) {
        pthread_mutex_lock(&b->lock);
        struct other *o = b->others;
        while (o && strcmp(object_url(o->store), base.p) != 0) o = o->next;
        if (o)
            *store = o->store;
        else
            rc = open_other(b, base.p, store, why);
        pthread_mutex_unlock(&b->lock);
    }
    if (rc == 0) *key = object_key_of(*store, url);
    if (rc == 0 && !*key) rc = ERR_OBJECT_URL;
    buf_fini(&base);
    return rc;
}
