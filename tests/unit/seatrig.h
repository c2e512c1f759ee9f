/* Raft groups without Raft, for tests of what runs in seats: the groups SEATRIG_FIRST to SEATRIG_END - 1 have their seats in one engine. What is proposed is committed when the test says so; a reign ends and begins anew as if another node had led in between.
 *
 *     seatrig_new(&r);                            all are led; each has an interval of the hash (seatrig_new_by: what the map says)
 *     struct hold h = seatrig_run(&r, g, db, argv, argc);   one request, to group g if it is a group's own, else to that of its keys; its reply is in r.out
 *     seatrig_settle(&r);                         everything is committed and confirmed
 *     seatrig_ask(&r, g, db, argv, argc);         both at once
 *     seatrig_lead_anew(&r, g);
 *     seatrig_free(&r);                           fails if a follower has another state than the leader */
#pragma once
#include "rig.h"

#include <errno.h>

#include "cluster/intents.h"
#include "cluster/seat.h"
#include "cluster/seatapply.h"

enum { SEATRIG_FIRST = 2, SEATRIG_END = 6 };

struct seatrig_entry {
    struct buf data; /* empty: a barrier */
    uint64_t index, term;
};

struct seatrig_log {
    struct seatrig_entry *entries; /* proposed and not handed on */
    uint32_t n, cap;
    uint64_t last, last_term, term, round; /* last_term: of the last one that was handed on */
    bool leads;
    struct store *twin; /* what a follower has */
    struct seatapply twin_apply;
};

struct seatrig {
    struct rig *rig;
    struct worker *w;
    struct seats *seats;
    struct seatrig_log logs[SEATRIG_END];
    struct buf out; /* the last reply */
    uint32_t refills;
    uint64_t now;   /* of the raft thread's clock */
};

/* ---- Raft */

static void seatrig_wake(void *ctx) {}
static void seatrig_told(void *ctx) {}
static void seatrig_refill(void *ctx, uint32_t group) { ((struct seatrig *)ctx)->refills++; }
static void seatrig_read(void *ctx, uint32_t group, uint64_t round) { ((struct seatrig *)ctx)->logs[group].round = round; }

static inline uint64_t seatrig_append(struct seatrig_log *l, struct slice data)
{
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 16;
        l->entries = mem_resize(l->entries, l->cap * sizeof *l->entries);
    }
    struct seatrig_entry *e = &l->entries[l->n++];
    *e = (struct seatrig_entry){.index = ++l->last, .term = l->term};
    buf_add_slice(&e->data, data);
    return e->index;
}

static int seatrig_propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    struct seatrig_log *l = &((struct seatrig *)ctx)->logs[group];
    if (!l->leads || term != l->term) return -EPERM;
    *index = seatrig_append(l, data);
    return 0;
}

static inline void seatrig_work(struct seatrig *r)
{
    for (int i = 0; i < 8; i++) {
        engine_receive(r->w);
        task_pump(r->w);
    }
}

static inline void seatrig_hand(struct seatrig *r, uint32_t group)
{
    struct seatrig_log *l = &r->logs[group];
    for (uint32_t i = 0; i < l->n; i++) {
        struct seatrig_entry *own = &l->entries[i];
        uint64_t index = own->index - 1, term = l->last_term;
        struct raftnode_entry e = {.index = own->index, .term = own->term, .type = own->data.len ? RAFTNODE_COMMAND : RAFTNODE_BARRIER, .data = buf_slice(&own->data)};
        struct buf gathered = {0};
        seatapply_add(&gathered, &e);
        seatapply_entries(&l->twin_apply, buf_slice(&gathered), &index, &term);
        buf_fini(&gathered);
        seats_committed(r->seats, group, &e, 1);
        l->last_term = own->term;
        buf_fini(&own->data);
    }
    l->n = 0;
}

static inline void seatrig_settle(struct seatrig *r)
{
    for (int i = 0; i < 3; i++) {
        seats_turn(r->seats, r->now);
        seats_tell(r->seats);
        for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
            seatrig_hand(r, g);
            if (r->logs[g].round) seats_confirmed(r->seats, g, r->logs[g].round, r->logs[g].leads ? 0 : -EPERM);
        }
        seatrig_work(r);
    }
}

/* Time passes, as far as locks of transactions are concerned. */
static inline void seatrig_pass(struct seatrig *r, uint64_t ms)
{
    r->now += ms;
    seatrig_settle(r);
}

static inline void seatrig_lead(struct seatrig *r, uint32_t group)
{
    struct seatrig_log *l = &r->logs[group];
    l->term++;
    seatrig_append(l, SLICE(""));
    seatrig_hand(r, group);
    l->leads = true;
    seats_role(r->seats, group, RAFTNODE_LEADER, l->term, 1);
    seatrig_work(r);
}

static inline void seatrig_lead_anew(struct seatrig *r, uint32_t group)
{
    seatrig_settle(r);
    r->logs[group].leads = false;
    seats_role(r->seats, group, RAFTNODE_FOLLOWER, r->logs[group].term + 1, 2);
    seatrig_lead(r, group);
}

/* ---- life */

/* Each group has an interval of the hash. */
static inline struct space_map *seatrig_quarters(const struct route *route)
{
    enum { GROUPS = SEATRIG_END - SEATRIG_FIRST };
    struct hash_desc intervals[GROUPS];
    for (uint64_t i = 0; i < GROUPS; i++)
        intervals[i] = (struct hash_desc){.id = i + 1, .generation = 1, .shard = SEATRIG_FIRST + (uint32_t)i, .first = i << 62, .last = ((i + 1) << 62) - 1};
    return spaces_new(route, SPACE_BUCKET, intervals, GROUPS, 1);
}

/* The first two share it. */
static inline struct space_map *seatrig_halves(const struct route *route)
{
    const struct hash_desc halves[] = {{.id = 1, .generation = 1, .shard = SEATRIG_FIRST, .last = UINT64_MAX / 2}, {.id = 2, .generation = 1, .shard = SEATRIG_FIRST + 1, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    return spaces_new(route, SPACE_BUCKET, halves, 2, 1);
}

static inline void seatrig_new_by(struct seatrig *r, struct space_map *(*make_map)(const struct route *route))
{
    *r = (struct seatrig){.rig = rig_new(1, SEATRIG_END), .now = 1000};
    struct engine *e = r->rig->engine;
    r->w = r->rig->workers[0];
    r->w->now_ms = 1000000;
    r->seats = seats_new(&(struct seats_options){.engine = e, .raft = {r, seatrig_wake, seatrig_propose, seatrig_read}, .now = r->now, .refill = seatrig_refill, .told = seatrig_told, .ctx = r});
    topology_follow(r->rig->topology, r->w, make_map(&e->route));
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        r->logs[g].twin = store_new(e->route.seed, &e->limits, 7);
        seatapply_init(&r->logs[g].twin_apply, r->logs[g].twin);
        assert_int_equal(seats_add(r->seats, g), 0);
    }
    seatrig_work(r);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) seatrig_lead(r, g);
}

static inline void seatrig_new(struct seatrig *r) { seatrig_new_by(r, seatrig_quarters); }

static inline struct shard *seatrig_shard(const struct seatrig *r, uint32_t group)
{
    struct seat_info info;
    assert_true(seats_look(r->seats, group, &info));
    return &r->rig->engine->shards[info.shard];
}

static inline struct store *seatrig_store(const struct seatrig *r, uint32_t group) { return seatrig_shard(r, group)->store; }

static inline struct intents *seatrig_intents(const struct seatrig *r, uint32_t group)
{
    const struct seating *s = r->rig->engine->seating;
    return s->intents(s->ctx, seatrig_shard(r, group));
}

static inline void seatrig_check(struct seatrig *r)
{
    seatrig_settle(r);
    assert_int_equal(r->refills, 0);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        store_check(seatrig_store(r, g));
        intents_check(seatrig_intents(r, g));
        assert_int_equal(store_digest(seatrig_store(r, g)), store_digest(r->logs[g].twin));
    }
}

static inline void seatrig_free(struct seatrig *r)
{
    seatrig_check(r);
    seats_free(r->seats);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        seatapply_fini(&r->logs[g].twin_apply);
        store_free(r->logs[g].twin);
        mem_free(r->logs[g].entries);
    }
    buf_fini(&r->out);
    rig_free(r->rig);
}

/* ---- the map */

static inline const struct space_map *seatrig_map(const struct seatrig *r) { return route_map(&r->rig->engine->route); }

static inline void seatrig_follow(struct seatrig *r, struct space_map *next)
{
    assert_non_null(next);
    topology_follow(r->rig->topology, r->w, next);
    assert_ptr_equal(seatrig_map(r), next);
}

/* ---- asking */

static inline struct hold seatrig_run(struct seatrig *r, uint32_t group, uint16_t db, const struct slice *argv, uint32_t argc)
{
    struct task t = {.resp = 2, .db = db, .out = &r->out};
    const struct command *cmd = command_find_any(r->rig->table, argv[0]);
    assert_non_null(cmd);
    r->out.len = 0;
    task_add_to(&t, r->rig->engine, group, cmd, argv, argc);
    t.end = 1;
    assert_true(task_start(r->w, &t));
    assert_int_equal(t.n_holds, 1);
    struct hold h = t.holds[0];
    task_fini(&t);
    return h;
}

/* Runs it until it is committed. False: it bounced, and so says the reply. */
static inline bool seatrig_ask(struct seatrig *r, uint32_t group, uint16_t db, const struct slice *argv, uint32_t argc)
{
    struct hold h = seatrig_run(r, group, db, argv, argc);
    if (h.bounced) {
        r->out.len = 0;
        buf_add_str(&r->out, "bounced");
        return false;
    }
    seatrig_settle(r);
    assert_int_equal(seat_outcome(&h), SEAT_DONE);
    return true;
}

static inline void seatrig_replied(const struct seatrig *r, const char *reply)
{
    if (!slice_eq(buf_slice(&r->out), slice_str(reply))) fail_msg("got %.*s\n  expected %s", (int)r->out.len, r->out.p, reply);
}

/* The reply begins so. */
static inline void seatrig_says(const struct seatrig *r, const char *begin)
{
    size_t n = strlen(begin);
    if (r->out.len < n || memcmp(r->out.p, begin, n) != 0) fail_msg("got %.*s\n  expected %s...", (int)r->out.len, r->out.p, begin);
}

/* The next value of the reply: its type byte; its text, of a bulk or line; n, of an array, number or bulk (-1: nil). */
struct seatrig_value {
    char type;
    struct slice text;
    long long n;
};

static inline struct seatrig_value seatrig_value(const struct seatrig *r, size_t *at)
{
    assert_true(*at < r->out.len);
    const char *p = r->out.p + *at, *end = memchr(p, '\n', r->out.len - *at);
    assert_non_null(end);
    struct seatrig_value v = {.type = *p, .text = slice_of(p + 1, (size_t)(end - p) - 2)};
    if (strchr(":*$", v.type)) v.n = strtoll(p + 1, NULL, 10);
    *at += (size_t)(end - p) + 1;
    if (v.type != '$' || v.n < 0) return v;
    v.text = slice_of(r->out.p + *at, (size_t)v.n);
    *at += (size_t)v.n + 2;
    return v;
}
