#include "server/wideall.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/wideall_own.h"

struct all;

struct kind {
    const char *name, *of_group; /* the client's command, and what it is in a group */
    /* Puts the replies of all groups together. False: one of them makes no sense. */
    bool (*merge)(struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out);
    bool writes;
    bool once; /* to do it again would undo it */
};

struct all { /* all groups are asked at once */
    struct wideall base;
    const struct kind *kind;
    struct rng *rng;
    uint64_t version;  /* of the map that says which groups there are */
    uint64_t newest;   /* that some group's leader had */
    bool asks_first;   /* whether every group is led */
};

const struct space_map *wideall_map(const struct wideall *w) { return route_map(&w->host.engine->route); }
bool wideall_is_late(const struct wideall *w) { return w->host.now_ms(w->host.ctx) >= w->until_ms; }

void wideall_send(const struct wideall *w, const struct txn_request *requests, uint32_t n)
{
    int64_t left_ms = w->until_ms - w->host.now_ms(w->host.ctx);
    w->host.send(w->host.ctx, requests, n, left_ms > 0 ? (uint32_t)left_ms : 0);
}

static bool has_map(const struct wideall *w, uint64_t version) { return route_version(&w->host.engine->route) >= version; }

bool wideall_go_on_by(struct wideall *w, uint64_t version, struct reply *out)
{
    if (has_map(w, version) || wideall_is_late(w)) return w->go_on(w, out);
    w->waits_for = version;
    return false;
}

bool wideall_wake(struct wideall *w, struct buf *out)
{
    struct reply reply = {.out = out, .resp = w->resp};
    if (!w->waits_for || (!has_map(w, w->waits_for) && !wideall_is_late(w))) return false;
    w->waits_for = 0;
    return w->go_on(w, &reply);
}

int64_t wideall_wakes_ms(const struct wideall *w) { return w->waits_for ? w->until_ms : INT64_MAX; }

void wideall_hurry(struct wideall *w)
{
    int64_t now_ms = w->host.now_ms(w->host.ctx);
    if (w->until_ms > now_ms) w->until_ms = now_ms;
}

/* ---- the answers of groups, put together */

static bool take_version(struct all *w, struct slice *reply, int64_t elements)
{
    uint64_t version;
    if (!wide_take_version(reply, elements, &version)) return false;
    if (version > w->newest) w->newest = version;
    return true;
}

static bool merge_sizes(struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    int64_t sum = 0, k;
    for (uint32_t i = 0; i < n; i++) {
        struct slice reply = answers[i].reply;
        if (!take_version(w, &reply, 1) || !wide_take_number(&reply, ':', &k)) return false;
        sum += k;
    }
    reply_int(out, sum);
    return true;
}

static bool merge_keys(struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    size_t mark = reply_open(out);
    int64_t sum = 0, k;
    for (uint32_t i = 0; i < n; i++) {
        struct slice reply = answers[i].reply;
        if (!take_version(w, &reply, 1) || !wide_take_number(&reply, '*', &k)) return false;
        buf_add_slice(out->out, reply);
        sum += k;
    }
    reply_close_array(out, mark, (size_t)sum);
    return true;
}

/* Each group's key replaces the one before with the probability (keys there) / (keys so far): each key of the cluster is equally likely in the end. */
static bool merge_random(struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    struct slice chosen = {0};
    int64_t sum = 0, k;
    for (uint32_t i = 0; i < n; i++) {
        struct slice reply = answers[i].reply;
        if (!take_version(w, &reply, 2) || !wide_take_number(&reply, ':', &k)) return false;
        sum += k;
        if (k > 0 && rng_below(w->rng, (uint64_t)sum) < (uint64_t)k) chosen = reply;
    }
    if (chosen.n) buf_add_slice(out->out, chosen);
    else reply_null(out);
    return true;
}

static bool merge_done(struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    for (uint32_t i = 0; i < n; i++) {
        struct slice reply = answers[i].reply;
        if (!take_version(w, &reply, 0)) return false;
    }
    reply_ok(out);
    return true;
}

static const struct kind kinds[] = {
    {.name = "dbsize", .of_group = "group.dbsize", .merge = merge_sizes},
    {.name = "keys", .of_group = "group.keys", .merge = merge_keys},
    {.name = "randomkey", .of_group = "group.randomkey", .merge = merge_random},
    {.name = "flushdb", .of_group = "group.flushdb", .merge = merge_done, .writes = true},
    {.name = "flushall", .of_group = "group.flushall", .merge = merge_done, .writes = true},
    {.name = "swapdb", .of_group = "group.swapdb", .merge = merge_done, .writes = true, .once = true},
};

/* ---- asking */

/* False: nobody knows yet which groups there are. */
static bool ask(struct all *w)
{
    const struct wideall *b = &w->base;
    const struct space_map *m = wideall_map(b);
    struct wide_groups groups;
    uint32_t n = 0;
    if (!m) return false;
    wide_find_groups(m, &groups);
    for (uint32_t group = 0; (group = wide_next_group(&groups, group)) < META_GROUPS_MAX; group++) n++;
    struct txn_request *requests = mem_alloc(n * sizeof *requests);
    struct slice *argv = mem_dup(b->argv, b->argc * sizeof *argv);
    argv[0] = slice_str(w->asks_first ? "group.dbsize" : w->kind->of_group);
    w->version = m->version;
    w->newest = 0;
    for (uint32_t i = 0, group = 0; i < n; i++, group++) {
        group = wide_next_group(&groups, group);
        requests[i] = (struct txn_request){group, argv, w->asks_first ? 1 : b->argc};
    }
    wideall_send(b, requests, n);
    mem_free(argv);
    mem_free(requests);
    return true;
}

static bool is_moving(const struct space_map *m)
{
    for (uint32_t i = 0; m && i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        if (info.moving) return true;
        for (uint32_t k = 0; k < info.n_ranges; k++)
            if (spaces_range(m->spaces[i], false, k)->moving) return true;
    }
    return false;
}

/* ---- the answer */

/* Some group has not answered: what that means as a whole. */
static void reply_failed(const struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    uint32_t fates[3] = {0};
    for (uint32_t i = 0; i < n; i++) fates[answers[i].fate]++;
    bool wrote = w->kind->writes && !w->asks_first && fates[TXN_NOT_DONE] < n;
    if (wrote) reply_errorf(out, "UNCERTAIN leaders were lost while the command was under way: it was done in %u of %u shards, and in %u more it may have been", fates[TXN_ANSWERED], n, fates[TXN_MAY_BE_DONE]);
    else reply_errorf(out, "CLUSTERDOWN nobody leads %u of %u shards: nothing was done", fates[TXN_NOT_DONE], n);
}

/* True: some group has not answered, or with an error; that is the answer. */
static bool is_failed(const struct all *w, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (answers[i].fate == TXN_ANSWERED) continue;
        reply_failed(w, answers, n, out);
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct slice reply = answers[i].reply;
        if (reply.n && reply.p[0] != '-') continue;
        buf_add_slice(out->out, reply);
        return true;
    }
    return false;
}

/* Keys may have gone from a group that had not been asked to one that had. */
static bool is_overtaken(const struct all *w) { return !w->kind->once && (w->newest > w->version || w->version != route_version(&w->base.host.engine->route)); }

/* Asks all groups once more, if there is time. */
static bool go_on(struct wideall *base, struct reply *out)
{
    struct all *w = (struct all *)base;
    if (wideall_is_late(base)) reply_errorf(out, "TRYAGAIN keys are being carried between shards%s", w->kind->writes ? ": some of them may be as they were" : "");
    else if (ask(w)) return false;
    else wide_reply_no_map(out);
    return true;
}

static bool settle(struct wideall *base, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    struct all *w = (struct all *)base;
    if (is_failed(w, answers, n, out)) return true;
    if (w->asks_first) {
        w->asks_first = false;
        return go_on(base, out);
    }
    if (!w->kind->merge(w, answers, n, out)) {
        wide_reply_nonsense(out);
    } else if (is_overtaken(w)) {
        out->out->len = 0;
        return wideall_go_on_by(base, w->newest, out);
    }
    return true;
}

/* ---- */

static const struct kind *kind_of(const struct command *c)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, c->name) == 0) return &kinds[i];
    return NULL;
}

static bool is_scan(const struct command *c) { return strcmp(c->name, "scan") == 0; }

bool wideall_has(const struct command *c) { return is_scan(c) || kind_of(c); }

static void free_all(struct wideall *base) { mem_free(base); }

static struct wideall *new_all(const struct wideall *base, struct exec *x)
{
    const struct kind *kind = kind_of(x->cmd);
    if (kind->once && is_moving(wideall_map(base))) { /* what is on its way would come out in the other database */
        reply_error(&x->out, "TRYAGAIN keys are being carried between shards: nothing was done");
        return NULL;
    }
    struct all *w = mem_zalloc(sizeof *w);
    *w = (struct all){.base = *base, .kind = kind, .rng = x->rng, .asks_first = kind->writes};
    w->base.settle = settle;
    w->base.go_on = go_on;
    w->base.free = free_all;
    if (ask(w)) return &w->base;
    wide_reply_no_map(&x->out);
    mem_free(w);
    return NULL;
}

struct wideall *wideall_new(const struct wideall_host *host, struct exec *x, uint32_t timeout_ms)
{
    struct wideall base = {.host = *host, .argv = x->argv, .argc = x->argc, .resp = x->out.resp, .until_ms = host->now_ms(host->ctx) + timeout_ms};
    CHECK(wideall_has(x->cmd));
    return is_scan(x->cmd) ? widescan_new(&base, x) : new_all(&base, x);
}

bool wideall_answered(struct wideall *w, const struct txn_answer *answers, uint32_t n, struct buf *out)
{
    struct reply reply = {.out = out, .resp = w->resp};
    return w->settle(w, answers, n, &reply);
}

void wideall_free(struct wideall *w) { w->free(w); }
