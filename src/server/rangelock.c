/* RANGE.LOCK, RANGE.EXTEND, RANGE.UNLOCK, RANGE.LOCKS: locks on parts of a key space, between those who ask for them (no other command looks at them).
 *
 * A lock is known by its space, bounds and owner. It keeps out overlapping locks of other owners, unless both are shared; never one of the same owner. It ends when it is unlocked or its time is over. Every grant has a
 * token above those of all overlapping grants before it (shard/locks.h): whoever writes elsewhere in the lock's name sends it along, and the other side refuses a lower one than it has seen. */
#include "base/mem.h"
#include "base/num.h"
#include "server/families.h"
#include "server/rangequery.h"
#include "shard/locks.h"

enum { BOUNDS = 4 /* arguments up to the end */ };

static const int64_t ttl_max_ms = (int64_t)1000 * 60 * 60 * 24 * 365 * 100;

/* What a command means, and where that is. */
struct lock_call {
    struct engine *e;
    struct slice space;
    struct spacelock wanted; /* token and mode are the caller's */
    bool *in;                /* [shards] of it, whose tokens are held */
};

/* ---- arguments */

static bool bounds(const struct slice *argv, uint32_t argc, struct rangequery *q, struct buf *why)
{
    if (!rangequery_parse(argv, argc < BOUNDS ? argc : BOUNDS, RANGEQUERY_BOUNDS, q, why)) return false;
    if (!q->end.n || slice_cmp(q->start, q->end) < 0) return true;
    if (why) buf_add_str(why, "ERR the end of what is locked must lie behind its start");
    return false;
}

static bool lock_extent(const struct slice *argv, uint32_t argc, struct slice *space, struct slice *start, struct slice *end)
{
    struct rangequery q;
    if (!bounds(argv, argc, &q, NULL)) return false;
    *space = q.space;
    *start = q.start;
    *end = q.end;
    return true;
}

static bool read_bounds(struct exec *x, struct rangequery *q)
{
    struct buf why = {0};
    bool ok = bounds(x->argv, x->argc, q, &why);
    buf_add_byte(&why, '\0');
    if (!ok) reply_error(&x->out, why.p);
    buf_fini(&why);
    return ok;
}

/* space start end owner. Answers the error and gives false if something is wrong; else call_end must follow. */
static bool call_begin(struct exec *x, struct lock_call *c)
{
    struct rangequery q;
    if (!read_bounds(x, &q)) return false;
    struct slice owner = x->argv[BOUNDS];
    if (owner.n == 0 || owner.n > SPACELOCK_OWNER_MAX) {
        reply_errorf(&x->out, "ERR the owner of a lock is named by 1 to %d bytes", SPACELOCK_OWNER_MAX);
        return false;
    }
    *c = (struct lock_call){.e = engine_worker_of(x)->engine, .space = q.space, .wanted = {.start = q.start, .end = q.end, .owner = owner}};
    c->in = mem_alloc(x->route->shards * sizeof *c->in);
    locks_shards(route_map(x->route), x->route, q.space, q.start, q.end, c->in);
    return true;
}

static void call_end(struct lock_call *c) { mem_free(c->in); }

static bool read_ttl(struct exec *x, struct slice arg, int64_t *expiry_ms)
{
    int64_t ttl;
    if (!exec_arg_i64(x, arg, &ttl)) return false;
    *expiry_ms = x->now_ms + ttl;
    if (ttl >= 1 && ttl <= ttl_max_ms) return true;
    reply_errorf(&x->out, "ERR invalid expire time in '%s' command", x->cmd->name);
    return false;
}

static bool read_mode(struct exec *x, uint32_t at, bool *exclusive)
{
    *exclusive = true;
    if (x->argc == at) return true;
    bool shared = slice_is(x->argv[at], "shared");
    *exclusive = !shared;
    if (x->argc == at + 1 && (shared || slice_is(x->argv[at], "exclusive"))) return true;
    exec_syntax(x);
    return false;
}

/* ---- finding */

static bool same_lock(const struct spacelock *a, const struct spacelock *b)
{
    return slice_eq(a->start, b->start) && slice_eq(a->end, b->end) && slice_eq(a->owner, b->owner);
}

/* The first lock, in any of the call's shards, that the test holds of. It lives in the store. */
static bool find_lock(const struct lock_call *c, bool (*test)(const struct spacelock *a, const struct spacelock *b), struct spacelock *found, int64_t *expiry_ms)
{
    for (uint32_t i = 0; i < c->e->route.shards; i++) {
        struct locks_walk w;
        if (!c->in[i]) continue;
        locks_begin(&w, c->e->stores[i], c->space, 0);
        while (locks_next(&w, found, expiry_ms))
            if (test(found, &c->wanted)) return true;
    }
    return false;
}

/* ---- showing */

static void add_bound(struct reply *r, const char *name, struct slice bound, const char *open)
{
    reply_bulk_str(r, name);
    reply_bulk(r, bound.n ? bound : slice_str(open));
}

static void add_lock(struct exec *x, const struct spacelock *l, int64_t expiry_ms)
{
    struct reply *r = &x->out;
    reply_map(r, 6);
    reply_bulk_str(r, "owner");
    reply_bulk(r, l->owner);
    reply_bulk_str(r, "token");
    reply_int(r, (int64_t)l->token);
    reply_bulk_str(r, "mode");
    reply_bulk_str(r, l->exclusive ? "exclusive" : "shared");
    add_bound(r, "start", l->start, "-");
    add_bound(r, "end", l->end, "+");
    reply_bulk_str(r, "ttl-ms");
    reply_int(r, expiry_ms > x->now_ms ? expiry_ms - x->now_ms : 0);
}

/* ---- commands */

static void grant(struct exec *x, struct lock_call *c, int64_t expiry_ms)
{
    struct spacelock before;
    int64_t ended_ms;
    bool renewed = find_lock(c, same_lock, &before, &ended_ms);
    c->wanted.token = locks_new_token(c->e, c->in);
    if (renewed) locks_remove(c->e, c->in, c->space, before.token);
    locks_put(c->e, c->in, c->space, &c->wanted, expiry_ms);
    x->ops++;
    reply_array(&x->out, 2);
    reply_int(&x->out, (int64_t)c->wanted.token);
    reply_null(&x->out);
}

static void range_lock(struct exec *x)
{
    struct lock_call c;
    struct spacelock holder;
    int64_t expiry_ms, holder_expiry_ms;
    bool exclusive;
    if (!read_ttl(x, x->argv[5], &expiry_ms) || !read_mode(x, 6, &exclusive) || !call_begin(x, &c)) return;
    c.wanted.exclusive = exclusive;
    if (find_lock(&c, spacelock_excludes, &holder, &holder_expiry_ms)) {
        reply_array(&x->out, 2);
        reply_null(&x->out);
        add_lock(x, &holder, holder_expiry_ms);
    } else {
        grant(x, &c, expiry_ms);
    }
    call_end(&c);
}

static void range_extend(struct exec *x)
{
    struct lock_call c;
    struct spacelock held;
    int64_t expiry_ms, before_ms;
    if (!read_ttl(x, x->argv[5], &expiry_ms) || !call_begin(x, &c)) return;
    if (find_lock(&c, same_lock, &held, &before_ms)) {
        c.wanted.token = held.token;
        c.wanted.exclusive = held.exclusive;
        locks_put(c.e, c.in, c.space, &c.wanted, expiry_ms);
        x->ops++;
        reply_int(&x->out, (int64_t)c.wanted.token);
    } else {
        reply_null(&x->out);
    }
    call_end(&c);
}

static void range_unlock(struct exec *x)
{
    struct lock_call c;
    struct spacelock held;
    int64_t expiry_ms;
    if (!call_begin(x, &c)) return;
    bool found = find_lock(&c, same_lock, &held, &expiry_ms);
    if (found) {
        locks_remove(c.e, c.in, c.space, held.token);
        x->ops++;
    }
    reply_int(&x->out, found);
    call_end(&c);
}

/* Shown where it is met first. */
static bool seen_before(const struct engine *e, const bool *in, uint32_t shard, struct slice space, uint64_t token)
{
    for (uint32_t i = 0; i < shard; i++)
        if (in[i] && locks_has(e->stores[i], space, token)) return true;
    return false;
}

static void range_locks(struct exec *x)
{
    struct rangequery q;
    struct engine *e = engine_worker_of(x)->engine;
    if (x->argc > BOUNDS) {
        exec_wrong_arity(x);
        return;
    }
    if (!read_bounds(x, &q)) return;
    bool *in = mem_alloc(x->route->shards * sizeof *in);
    size_t mark = reply_open(&x->out), n = 0;
    locks_shards(route_map(x->route), x->route, q.space, q.start, q.end, in);
    for (uint32_t i = 0; i < x->route->shards; i++) {
        struct locks_walk w;
        struct spacelock l;
        int64_t expiry_ms;
        if (!in[i]) continue;
        locks_begin(&w, x->stores[i], q.space, 0);
        while (locks_next(&w, &l, &expiry_ms)) {
            if (!spacelock_overlaps(&l, q.start, q.end) || seen_before(e, in, i, q.space, l.token)) continue;
            add_lock(x, &l, expiry_ms);
            n++;
        }
    }
    reply_close_array(&x->out, mark, n);
    mem_free(in);
}

static const struct command rows[] = {
    {.name = "range.lock", .fn = range_lock, .arity = -6, .class = CLASS_SPACE, .extent = lock_extent, .flags = CMD_WRITE | CMD_DENYOOM | CMD_OF_LOCKS, .group = "range", .since = "7.2.0",
     .summary = "Locks a part of a key space against other owners, for a time; answers the fencing token and nil, or nil and who holds it.",
     .args = "space start | - end | + owner ttl-ms [SHARED | EXCLUSIVE]"},
    {.name = "range.extend", .fn = range_extend, .arity = 6, .class = CLASS_SPACE, .extent = lock_extent, .flags = CMD_WRITE | CMD_OF_LOCKS, .group = "range", .since = "7.2.0",
     .summary = "Gives a lock that its owner still holds another time to live, from now on; answers its token, or nil.", .args = "space start | - end | + owner ttl-ms"},
    {.name = "range.unlock", .fn = range_unlock, .arity = 5, .class = CLASS_SPACE, .extent = lock_extent, .flags = CMD_WRITE | CMD_OF_LOCKS, .group = "range", .since = "7.2.0",
     .summary = "Ends a lock; answers 1, or 0 if its owner does not hold it any more.", .args = "space start | - end | + owner"},
    {.name = "range.locks", .fn = range_locks, .arity = -2, .class = CLASS_SPACE, .extent = lock_extent, .flags = CMD_READONLY | CMD_OF_LOCKS, .group = "range", .since = "7.2.0",
     .summary = "The locks on a key space, or on a part of it.", .args = "space [start | - [end | +]]"},
};

const struct command_family rangelock_family = COMMAND_FAMILY(rows);
