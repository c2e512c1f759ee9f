/* RANGE.LOCK, RANGE.EXTEND, RANGE.UNLOCK, RANGE.LOCKS: locks on parts of a key space, between those who ask for them (no other command looks at them).
 *
 * A lock is known by its space, bounds and owner. It keeps out overlapping locks of other owners, unless both are shared; never one of the same owner. It ends when it is unlocked or its time is over. Every grant has a
 * token above those of all overlapping grants before it (shard/locks.h): whoever writes elsewhere in the lock's name sends it along, and the other side refuses a lower one than it has seen. */
#include "server/rangelock.h"

#include "base/mem.h"
#include "base/num.h"
#include "server/families.h"
#include "server/rangequery.h"
#include "server/spacereply.h"
#include "shard/locks.h"

enum { BOUNDS = 4 /* arguments up to the end */ };

static const int64_t ttl_max_ms = (int64_t)1000 * 60 * 60 * 24 * 365 * 100;

/* Where what a command means is. */
struct lock_call {
    struct engine *e;
    struct rangelock r;
    bool *in; /* [shards] of it, whose tokens are held */
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

static bool read_owner(struct exec *x, struct rangelock *r)
{
    r->wanted.owner = x->argv[BOUNDS];
    if (r->wanted.owner.n && r->wanted.owner.n <= SPACELOCK_OWNER_MAX) return true;
    reply_errorf(&x->out, "ERR the owner of a lock is named by 1 to %d bytes", SPACELOCK_OWNER_MAX);
    return false;
}

static bool read_ttl(struct exec *x, struct rangelock *r)
{
    if (!exec_arg_i64(x, x->argv[BOUNDS + 1], &r->ttl_ms)) return false;
    if (r->ttl_ms >= 1 && r->ttl_ms <= ttl_max_ms) return true;
    reply_errorf(&x->out, "ERR invalid expire time in '%s' command", x->cmd->name);
    return false;
}

static bool read_mode(struct exec *x, struct rangelock *r)
{
    uint32_t at = BOUNDS + 2;
    r->wanted.exclusive = true;
    if (x->argc == at) return true;
    bool shared = slice_is(x->argv[at], "shared");
    r->wanted.exclusive = !shared;
    if (x->argc == at + 1 && (shared || slice_is(x->argv[at], "exclusive"))) return true;
    exec_syntax(x);
    return false;
}

static void range_lock(struct exec *x);
static void range_extend(struct exec *x);
static void range_unlock(struct exec *x);

static enum rangelock_does does(const struct command *c)
{
    if (c->fn == range_lock) return RANGELOCK_LOCK;
    if (c->fn == range_extend) return RANGELOCK_EXTEND;
    return c->fn == range_unlock ? RANGELOCK_UNLOCK : RANGELOCK_SHOW;
}

bool rangelock_parse(struct exec *x, struct rangelock *r)
{
    struct rangequery q;
    *r = (struct rangelock){.does = does(x->cmd)};
    bool has_ttl = r->does == RANGELOCK_LOCK || r->does == RANGELOCK_EXTEND;
    if (r->does == RANGELOCK_SHOW && x->argc > BOUNDS) return exec_wrong_arity(x), false;
    if (has_ttl && !read_ttl(x, r)) return false;
    if (r->does == RANGELOCK_LOCK && !read_mode(x, r)) return false;
    if (!read_bounds(x, &q) || (r->does != RANGELOCK_SHOW && !read_owner(x, r))) return false;
    r->space = q.space;
    r->wanted.start = q.start;
    r->wanted.end = q.end;
    return true;
}

/* Answers the error and gives false if something is wrong; else call_end must follow. */
static bool call_begin(struct exec *x, struct lock_call *c)
{
    *c = (struct lock_call){.e = engine_worker_of(x)->engine};
    if (!rangelock_parse(x, &c->r)) return false;
    c->in = mem_alloc(x->route->shards * sizeof *c->in);
    locks_shards(route_map(x->route), x->route, c->r.space, c->r.wanted.start, c->r.wanted.end, c->in);
    return true;
}

static void call_end(struct lock_call *c) { mem_free(c->in); }

/* ---- finding */

bool rangelock_is_same(const struct spacelock *a, const struct spacelock *b)
{
    return slice_eq(a->start, b->start) && slice_eq(a->end, b->end) && slice_eq(a->owner, b->owner);
}

/* The first lock, in any of the call's shards, that the test holds of. It lives in the store. */
static bool find_lock(const struct lock_call *c, bool (*test)(const struct spacelock *a, const struct spacelock *b), struct spacelock *found, int64_t *expiry_ms)
{
    for (uint32_t i = 0; i < c->e->route.shards; i++) {
        struct locks_walk w;
        if (!c->in[i]) continue;
        locks_begin(&w, c->e->stores[i], c->r.space, 0);
        while (locks_next(&w, found, expiry_ms))
            if (test(found, &c->r.wanted)) return true;
    }
    return false;
}

/* ---- showing */

void rangelock_reply(struct reply *r, const struct spacelock *l, int64_t ttl_ms)
{
    reply_map(r, 6);
    reply_bulk_str(r, "owner");
    reply_bulk(r, l->owner);
    reply_bulk_str(r, "token");
    reply_int(r, (int64_t)l->token);
    reply_bulk_str(r, "mode");
    reply_bulk_str(r, l->exclusive ? "exclusive" : "shared");
    spacereply_bound(r, "start", l->start, "-");
    spacereply_bound(r, "end", l->end, "+");
    reply_bulk_str(r, "ttl-ms");
    reply_int(r, ttl_ms > 0 ? ttl_ms : 0);
}

/* ---- commands */

static void grant(struct exec *x, struct lock_call *c)
{
    struct spacelock before;
    int64_t ended_ms;
    bool renewed = find_lock(c, rangelock_is_same, &before, &ended_ms);
    c->r.wanted.token = locks_new_token(c->e, c->in);
    if (renewed) locks_remove(c->e, c->in, c->r.space, before.token);
    locks_put(c->e, c->in, c->r.space, &c->r.wanted, x->now_ms + c->r.ttl_ms);
    x->ops++;
    reply_array(&x->out, 2);
    reply_int(&x->out, (int64_t)c->r.wanted.token);
    reply_null(&x->out);
}

static void range_lock(struct exec *x)
{
    struct lock_call c;
    struct spacelock holder;
    int64_t holder_expiry_ms;
    if (!call_begin(x, &c)) return;
    if (find_lock(&c, spacelock_excludes, &holder, &holder_expiry_ms)) {
        reply_array(&x->out, 2);
        reply_null(&x->out);
        rangelock_reply(&x->out, &holder, holder_expiry_ms - x->now_ms);
    } else {
        grant(x, &c);
    }
    call_end(&c);
}

static void range_extend(struct exec *x)
{
    struct lock_call c;
    struct spacelock held;
    int64_t before_ms;
    if (!call_begin(x, &c)) return;
    if (find_lock(&c, rangelock_is_same, &held, &before_ms)) {
        c.r.wanted.token = held.token;
        c.r.wanted.exclusive = held.exclusive;
        locks_put(c.e, c.in, c.r.space, &c.r.wanted, x->now_ms + c.r.ttl_ms);
        x->ops++;
        reply_int(&x->out, (int64_t)c.r.wanted.token);
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
    bool found = find_lock(&c, rangelock_is_same, &held, &expiry_ms);
    if (found) {
        locks_remove(c.e, c.in, c.r.space, held.token);
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
    struct lock_call c;
    if (!call_begin(x, &c)) return;
    size_t mark = reply_open(&x->out), n = 0;
    for (uint32_t i = 0; i < x->route->shards; i++) {
        struct locks_walk w;
        struct spacelock l;
        int64_t expiry_ms;
        if (!c.in[i]) continue;
        locks_begin(&w, x->stores[i], c.r.space, 0);
        while (locks_next(&w, &l, &expiry_ms)) {
            if (!spacelock_overlaps(&l, c.r.wanted.start, c.r.wanted.end) || seen_before(c.e, c.in, i, c.r.space, l.token)) continue;
            rangelock_reply(&x->out, &l, expiry_ms - x->now_ms);
            n++;
        }
    }
    reply_close_array(&x->out, mark, n);
    call_end(&c);
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
