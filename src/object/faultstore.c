#include "object/faultstore.h"

#include <pthread.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/driver.h"

struct faultstore {
    struct object_store base;
    struct object_store *inner;
    pthread_mutex_t lock; /* guards all below */
    struct faultstore_plan plan;
    uint64_t requests;
    enum faultstore_conditions conditions;
    void (*each)(void *arg, uint64_t number, const char *verb, const char *key);
    void *each_arg;
};

/* What becomes of one request. */
enum fate { FATE_GOOD, FATE_FAIL, FATE_LOSE, FATE_HALF };

static struct faultstore *of(const struct object_store *s) { return (struct faultstore *)s; }

static enum fate next_fate(struct faultstore *f, struct object_call *call, const char *verb, const char *key, int *code)
{
    pthread_mutex_lock(&f->lock);
    uint64_t number = ++f->requests;
    struct faultstore_plan plan = f->plan;
    void (*each)(void *, uint64_t, const char *, const char *) = f->each;
    void *arg = f->each_arg;
    pthread_mutex_unlock(&f->lock);
    if (each) each(arg, number, verb, key);
    *code = plan.code ? plan.code : ERR_OBJECT_CONNECTION;
    bool now = plan.at != 0 && number == plan.at, later = plan.at != 0 && plan.for_good && number > plan.at;
    if (!now && !later) return FATE_GOOD;
    driver_fail(call, *code, "%s %s: injected fault at request %llu", verb, key, (unsigned long long)number);
    if (later) return FATE_FAIL;
    return plan.kind == FAULTSTORE_LOSE ? FATE_LOSE : plan.kind == FAULTSTORE_HALF ? FATE_HALF : FATE_FAIL;
}

/* The inner call's failure goes before the injected one; of a success only the loss is told. */
static int lose(int inner, int code) { return inner < 0 ? inner : code; }

/* ---- reading */

static int faultstore_head(struct object_store *s, struct object_call *call, const char *key, struct object_meta *meta)
{
    int code;
    if (next_fate(of(s), call, "head", key, &code) != FATE_GOOD) return code;
    return object_head(of(s)->inner, call, key, meta);
}

static int faultstore_get(struct object_store *s, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta)
{
    int code;
    if (next_fate(of(s), call, "get", key, &code) != FATE_GOOD) return code;
    return object_get(of(s)->inner, call, key, max, out, meta);
}

static ssize_t faultstore_get_range(struct object_store *s, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta)
{
    int code;
    switch (next_fate(of(s), call, "get_range", key, &code)) {
    case FATE_GOOD: return object_get_range(of(s)->inner, call, key, p, n, at, meta);
    case FATE_HALF:
        if (n > 1) object_get_range(of(s)->inner, NULL, key, p, n / 2, at, meta);
        return code;
    default: return code;
    }
}

static int faultstore_get_fd(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta)
{
    int code;
    switch (next_fate(of(s), call, "get_fd", key, &code)) {
    case FATE_GOOD: return object_get_fd(of(s)->inner, call, key, fd, meta);
    case FATE_HALF:
    case FATE_LOSE: return lose(object_get_fd(of(s)->inner, NULL, key, fd, meta), code);
    default: return code;
    }
}

/* ---- writing */

static int faultstore_put(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *options, struct object_meta *meta)
{
    struct faultstore *f = of(s);
    struct object_put_options o = *options;
    int code;
    enum fate fate = next_fate(f, call, "put", key, &code);
    if (fate == FATE_FAIL || fate == FATE_HALF) return code;
    if (o.condition != OBJECT_ALWAYS && f->conditions == FAULTSTORE_CONDITIONS_REFUSED) return driver_fail(call, ERR_OBJECT_UNSUPPORTED, "put %s: conditions are refused", key);
    if (o.condition != OBJECT_ALWAYS && f->conditions == FAULTSTORE_CONDITIONS_IGNORED) o.condition = OBJECT_ALWAYS;
    if (fate == FATE_GOOD) return object_put(f->inner, call, key, bytes, &o, meta);
    int rc = object_put(f->inner, NULL, key, bytes, &o, meta);
    *meta = (struct object_meta){0};
    /* Without its answer nobody knows of a conditional put that it failed, either. */
    if (options->condition != OBJECT_ALWAYS && (rc == 0 || rc == ERR_OBJECT_PRECONDITION)) return ERR_OBJECT_UNCERTAIN;
    return lose(rc, code);
}

static int faultstore_put_stream(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta)
{
    int code;
    switch (next_fate(of(s), call, "put_stream", key, &code)) {
    case FATE_GOOD: return object_put_stream(of(s)->inner, call, key, source, content_type, meta);
    case FATE_LOSE: {
        int rc = object_put_stream(of(s)->inner, NULL, key, source, content_type, meta);
        *meta = (struct object_meta){0};
        return lose(rc, code);
    }
    default: return code;
    }
}

static int faultstore_del(struct object_store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed)
{
    struct faultstore *f = of(s);
    int code;
    switch (next_fate(f, call, "delete", keys[0], &code)) {
    case FATE_GOOD: return object_delete(f->inner, call, keys, n, failed);
    case FATE_HALF: object_delete(f->inner, NULL, keys, n / 2, NULL); break;
    case FATE_LOSE: object_delete(f->inner, NULL, keys, n, NULL); break;
    case FATE_FAIL: break;
    }
    *failed = n;
    return code;
}

/* ---- listing: to give half of a list its length must be known, so it is counted first. */

static int count_item(void *arg, const struct object_item *item)
{
    ++*(uint64_t *)arg;
    return 0;
}

struct half {
    uint64_t left;
    int code;
    int (*each)(void *arg, const struct object_item *item);
    void *arg;
};

static int half_item(void *arg, const struct object_item *item)
{
    struct half *h = arg;
    if (h->left == 0) return h->code;
    h->left--;
    return h->each(h->arg, item);
}

static int faultstore_list(struct object_store *s, struct object_call *call, const struct object_list_options *options, int (*each)(void *arg, const struct object_item *item), void *arg)
{
    struct faultstore *f = of(s);
    int code;
    switch (next_fate(f, call, "list", options->prefix, &code)) {
    case FATE_GOOD: return object_list(f->inner, call, options, each, arg);
    case FATE_FAIL: return code;
    default: break;
    }
    uint64_t items = 0;
    int rc = object_list(f->inner, NULL, options, count_item, &items);
    struct half h = {.left = items / 2, .code = code, .each = each, .arg = arg};
    if (rc == 0) rc = object_list(f->inner, NULL, options, half_item, &h);
    return rc ? rc : code;
}

/* ---- */

static void faultstore_close(struct object_store *s)
{
    struct faultstore *f = of(s);
    object_close(f->inner);
    pthread_mutex_destroy(&f->lock);
    driver_fini(s);
    mem_free(f);
}

static const struct object_driver faultstore_driver = {
    .close = faultstore_close,
    .head = faultstore_head,
    .get = faultstore_get,
    .get_range = faultstore_get_range,
    .get_fd = faultstore_get_fd,
    .put = faultstore_put,
    .put_stream = faultstore_put_stream,
    .del = faultstore_del,
    .list = faultstore_list,
};

struct object_store *faultstore_wrap(struct object_store *inner)
{
    struct faultstore *f = mem_zalloc(sizeof *f);
    driver_init(&f->base, &faultstore_driver, inner->url, atomic_load(&inner->conditions));
    pthread_mutex_init(&f->lock, NULL);
    f->inner = inner;
    return &f->base;
}

static struct faultstore *checked(const struct object_store *s)
{
    CHECK(s->driver == &faultstore_driver);
    return of(s);
}

void faultstore_plan(struct object_store *s, struct faultstore_plan plan)
{
    struct faultstore *f = checked(s);
    pthread_mutex_lock(&f->lock);
    f->plan = plan;
    f->requests = 0;
    pthread_mutex_unlock(&f->lock);
}

uint64_t faultstore_requests(const struct object_store *s)
{
    struct faultstore *f = checked(s);
    pthread_mutex_lock(&f->lock);
    uint64_t n = f->requests;
    pthread_mutex_unlock(&f->lock);
    return n;
}

bool faultstore_fired(const struct object_store *s)
{
    struct faultstore *f = checked(s);
    pthread_mutex_lock(&f->lock);
    bool fired = f->plan.at != 0 && f->requests >= f->plan.at;
    pthread_mutex_unlock(&f->lock);
    return fired;
}

void faultstore_set_conditions(struct object_store *s, enum faultstore_conditions conditions)
{
    struct faultstore *f = checked(s);
    f->conditions = conditions;
    atomic_store(&f->base.conditions, DRIVER_UNPROBED);
}

void faultstore_on_request(struct object_store *s, void (*each)(void *arg, uint64_t number, const char *verb, const char *key), void *arg)
{
    struct faultstore *f = checked(s);
    pthread_mutex_lock(&f->lock);
    f->each = each;
    f->each_arg = arg;
    pthread_mutex_unlock(&f->lock);
}

struct object_store *faultstore_inner(const struct object_store *s) { return checked(s)->inner; }
