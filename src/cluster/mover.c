#include "cluster/mover.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/carrycmd.h"
#include "cluster/moverbound.h"
#include "cluster/movergiven.h"
#include "cluster/txnask.h"
#include "resp/answer.h"

enum {
    CALL_MS = 2000,
    BUSY_MS = 10,   /* after -CARRYBUSY */
    AGAIN_MS = 100, /* after anything else that went wrong */
};

/* A group that has a part in an operation. */
struct party {
    uint32_t group;
    bool is_source, is_target;
    bool settled;           /* it has answered what this stage asked */
    bool frozen;            /* the slice; what it gave out is in `given` */
    struct moverbound low, high; /* as it told at the beginning */
    struct buf given;       /* its answer to carry.freeze */
};

enum stage { STAGE_BEGIN, STAGE_TELL_WALKING, STAGE_MEASURE, STAGE_PROVE, STAGE_FREEZE, STAGE_DROP, STAGE_PIECE, STAGE_PUT, STAGE_TAKE, STAGE_TELL_BOUNDARY, STAGE_TELL_CARRIED, STAGE_END, STAGE_TELL_DONE, STAGE_OVER };

/* An operation. */
struct drive {
    struct drive *next;
    struct mover *mover;
    uint64_t op, term;
    enum metaops_step step; /* as group 1 had it when this driver found it */
    struct buf plan_bytes;
    struct holding_plan plan; /* in plan_bytes and plan_storage */
    void *plan_storage;
    struct party *parties;
    uint32_t n_parties;
    enum stage stage;
    bool is_listed;  /* group 1 has it */
    bool is_started; /* one of those that go side by side */
    bool awaits;     /* an answer, or to hear that it was told */
    bool is_stale;   /* the answer is for another term's driver */
    uint64_t wakes_ms;
    struct moverbound slice;   /* where the slice ends */
    struct moverbound arrived; /* all below it has */
    struct movergiven_larges larges; /* of the slice */
    uint64_t slice_keys, slice_bytes, slice_larges, slice_since_ms;
    uint64_t under_way_version; /* of the map in which it was last seen not to be carried */
    uint64_t version;           /* of one in which it is */
};

struct mover {
    struct mover_host host;
    uint64_t term;
    struct space_map *map;
    struct drive *first; /* by number of operation */
    struct txnask ask;
    struct mover_counts counts;
};

/* ---- operations */

static void free_parties(struct drive *d)
{
    for (uint32_t i = 0; i < d->n_parties; i++) {
        buf_fini(&d->parties[i].low.key);
        buf_fini(&d->parties[i].high.key);
        buf_fini(&d->parties[i].given);
    }
    mem_free(d->parties);
    d->parties = NULL;
    d->n_parties = 0;
}

static void free_drive(struct drive *d)
{
    free_parties(d);
    buf_fini(&d->plan_bytes);
    mem_free(d->plan_storage);
    buf_fini(&d->slice.key);
    buf_fini(&d->arrived.key);
    movergiven_fini(&d->larges);
    mem_free(d);
}

static bool side_names(const struct holding_side *s, const struct space_map *map, uint32_t group)
{
    for (uint32_t i = 0; s->hashed && i < map->n_hash; i++)
        if (map->hash[i].shard == group) return true;
    for (uint32_t i = 0; !s->hashed && i < s->n; i++)
        if (s->pieces[i].group == group) return true;
    return false;
}

static void make_parties(struct drive *d, const uint32_t *groups, uint32_t n)
{
    free_parties(d);
    d->parties = mem_zalloc((n + 1) * sizeof *d->parties);
    d->n_parties = n;
    for (uint32_t i = 0; i < n; i++) {
        struct party *p = &d->parties[i];
        p->group = groups[i];
        p->is_source = side_names(&d->plan.old_side, d->mover->map, p->group);
        p->is_target = side_names(&d->plan.new_side, d->mover->map, p->group);
    }
}

static void copy_plan(struct drive *d, const struct holding_plan *plan)
{
    holding_plan_encode(&d->plan_bytes, plan);
    CHECK(holding_plan_decode(buf_slice(&d->plan_bytes), &d->plan, &d->plan_storage) == 0);
}

/* The driver of this term begins: nothing is known but what group 1 says. */
static void reset(struct drive *d, uint64_t term, const struct mover_op *o)
{
    uint32_t n;
    d->term = term;
    d->step = o->step;
    d->wakes_ms = 0;
    moverbound_set(&d->slice, (struct holding_bound){0});
    moverbound_set(&d->arrived, (struct holding_bound){0});
    if (o->step == METAOPS_CARRIED) {
        d->stage = STAGE_END;
        d->version = d->mover->map->version;
        make_parties(d, o->groups, o->n_groups);
        return;
    }
    if (!d->plan_bytes.len) copy_plan(d, &o->plan);
    uint32_t *groups = holding_plan_groups(&d->plan, d->mover->map, &n);
    d->stage = STAGE_BEGIN;
    make_parties(d, groups, n);
    mem_free(groups);
}

/* ---- what each stage asks of a group, and what is made of the answer */

enum verdict { VERDICT_FINE, VERDICT_BUSY, VERDICT_AGAIN, VERDICT_LACKS, VERDICT_OLD };

static bool concerns_all(const struct drive *d, const struct party *p) { return true; }
static bool concerns_target(const struct drive *d, const struct party *p) { return p->is_target; }
static bool concerns_unfrozen(const struct drive *d, const struct party *p) { return p->is_source && !p->frozen; }
static bool concerns_giver(const struct drive *d, const struct party *p) { return p->group == movergiven_now(&d->larges)->source; }
static bool concerns_getter(const struct drive *d, const struct party *p) { return p->group == movergiven_now(&d->larges)->target; }

static uint32_t count_sources(const struct drive *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_parties; i++) n += d->parties[i].is_source;
    return n;
}

static void say_begin(struct drive *d, const struct party *p)
{
    txnask_number(&d->mover->ask, d->term);
    txnask_number(&d->mover->ask, d->under_way_version);
    txnask_word(&d->mover->ask, buf_slice(&d->plan_bytes));
}

static void say_measure(struct drive *d, const struct party *p)
{
    uint32_t sources = count_sources(d);
    txnask_number(&d->mover->ask, CARRYCMD_KEYS / sources ? CARRYCMD_KEYS / sources : 1);
    txnask_number(&d->mover->ask, CARRYCMD_BYTES / sources);
}

static void say_freeze(struct drive *d, const struct party *p)
{
    txnask_number(&d->mover->ask, d->term);
    moverbound_say(&d->mover->ask, &d->slice);
    txnask_number(&d->mover->ask, CARRYCMD_SLICE_BYTES / count_sources(d));
}

static void say_piece(struct drive *d, const struct party *p)
{
    txnask_word(&d->mover->ask, buf_slice(&movergiven_now(&d->larges)->bytes));
    txnask_word(&d->mover->ask, buf_slice(&d->larges.from));
    txnask_number(&d->mover->ask, CARRYCMD_PIECE_BYTES);
}

static void say_put(struct drive *d, const struct party *p)
{
    txnask_number(&d->mover->ask, d->term);
    txnask_word(&d->mover->ask, buf_slice(&d->larges.from));
    txnask_word(&d->mover->ask, buf_slice(&d->larges.piece));
}

static void say_drop(struct drive *d, const struct party *p)
{
    txnask_number(&d->mover->ask, d->term);
    moverbound_say(&d->mover->ask, &d->arrived);
}

static void say_end(struct drive *d, const struct party *p)
{
    txnask_number(&d->mover->ask, d->term);
    txnask_number(&d->mover->ask, d->version);
}

static void say_larges(struct drive *d, uint32_t source, uint32_t target)
{
    const struct movergiven_larges *l = &d->larges;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) n += movergiven_is_of(&l->all[i], source, target);
    txnask_number(&d->mover->ask, n);
    for (uint32_t i = 0; i < l->n; i++)
        if (movergiven_is_of(&l->all[i], source, target)) txnask_word(&d->mover->ask, buf_slice(&l->all[i].bytes));
}

static void say_part(struct drive *d, uint32_t source, const struct movergiven_part *p)
{
    struct slice entries = p->entries;
    struct answer a;
    txnask_number(&d->mover->ask, p->n);
    for (uint32_t i = 0; i < p->n && answer_next(&entries, &a); i++) txnask_word(&d->mover->ask, a.text);
    say_larges(d, source, p->group);
    txnask_word(&d->mover->ask, p->locks);
}

/* The part of a source for a target; false: it has none. */
static bool find_part(const struct party *source, const struct party *target, struct movergiven_part *p) { return source->is_source && movergiven_find(buf_slice(&source->given), target->group, p); }

static void say_take(struct drive *d, const struct party *target)
{
    uint32_t n = 0;
    struct movergiven_part part;
    txnask_number(&d->mover->ask, d->term);
    moverbound_say(&d->mover->ask, &d->slice);
    for (uint32_t i = 0; i < d->n_parties; i++) n += find_part(&d->parties[i], target, &part);
    txnask_number(&d->mover->ask, n);
    for (uint32_t i = 0; i < d->n_parties; i++)
        if (find_part(&d->parties[i], target, &part)) say_part(d, d->parties[i].group, &part);
}

static enum verdict on_begun(struct drive *d, struct party *p, struct slice reply)
{
    struct holding_bound low, gone, high;
    uint32_t n;
    if (!answer_array(&reply, &n) || n != 3 || !moverbound_take(&reply, &low) || !moverbound_take(&reply, &gone) || !moverbound_take(&reply, &high)) return VERDICT_AGAIN;
    moverbound_set(&p->low, low);
    moverbound_set(&p->high, high);
    return VERDICT_FINE;
}

/* Sources measure from the same bound on. The slice ends where the first of them says. */
static enum verdict on_measured(struct drive *d, struct party *p, struct slice reply)
{
    struct holding_bound end;
    if (!moverbound_take(&reply, &end) || holding_bound_cmp(end, moverbound_of(&d->arrived)) <= 0) return VERDICT_AGAIN;
    if (moverbound_cmp(&d->slice, &d->arrived) == 0 || holding_bound_cmp(end, moverbound_of(&d->slice)) < 0) moverbound_set(&d->slice, end);
    return VERDICT_FINE;
}

static enum verdict on_proven(struct drive *d, struct party *p, struct slice reply)
{
    struct holding_bound end;
    return moverbound_take(&reply, &end) ? VERDICT_FINE : VERDICT_AGAIN;
}

static enum verdict on_frozen(struct drive *d, struct party *p, struct slice reply)
{
    if (!movergiven_is_good(reply)) return VERDICT_AGAIN;
    p->frozen = true;
    p->given.len = 0;
    buf_add_slice(&p->given, reply);
    return VERDICT_FINE;
}

static enum verdict on_piece(struct drive *d, struct party *p, struct slice reply) { return movergiven_take_piece(&d->larges, reply) ? VERDICT_FINE : VERDICT_AGAIN; }
static enum verdict on_ok(struct drive *d, struct party *p, struct slice reply) { return slice_eq(reply, SLICE("+OK\r\n")) ? VERDICT_FINE : VERDICT_AGAIN; }

/* ---- what follows a stage that all groups have answered */

static void begin_slice(struct drive *d)
{
    for (uint32_t i = 0; i < d->n_parties; i++) d->parties[i].frozen = false;
    d->slice_since_ms = d->mover->host.now_ms(d->mover->host.ctx);
}

/* What is frozen cannot be used until its targets take it: it is not, unless they have just answered. */
static enum stage before_freeze(const struct drive *d)
{
    for (uint32_t i = 0; i < d->n_parties; i++)
        if (d->parties[i].frozen) return STAGE_FREEZE;
    return STAGE_PROVE;
}

static void stretch(struct drive *d, const struct moverbound *b)
{
    if (moverbound_cmp(b, &d->slice) > 0) moverbound_set(&d->slice, moverbound_of(b));
    if (moverbound_cmp(b, &d->arrived) < 0) moverbound_set(&d->arrived, moverbound_of(b));
}

/* Every group has told how far it is, and no other driver goes on behind our back. Each is at the end of the slice under way, or still at its beginning; if all are at the same bound there is none. */
static enum stage find_slice(struct drive *d)
{
    moverbound_set(&d->slice, (struct holding_bound){0});
    moverbound_set(&d->arrived, (struct holding_bound){.at_end = true});
    for (uint32_t i = 0; i < d->n_parties; i++) {
        if (d->parties[i].is_source) stretch(d, &d->parties[i].high);
        if (d->parties[i].is_target) stretch(d, &d->parties[i].low);
    }
    if (moverbound_cmp(&d->arrived, &d->slice) < 0) {
        begin_slice(d);
        return STAGE_FREEZE;
    }
    d->slice_since_ms = 0;
    return moverbound_is_beginning(&d->arrived) ? STAGE_MEASURE : d->arrived.at_end ? STAGE_TELL_CARRIED : STAGE_TELL_BOUNDARY;
}

static enum stage after_begin(struct drive *d) { return d->step == METAOPS_PLANNED ? STAGE_TELL_WALKING : find_slice(d); }

static enum stage after_measure(struct drive *d)
{
    begin_slice(d);
    return STAGE_FREEZE;
}

static enum stage after_proof(struct drive *d) { return STAGE_FREEZE; }

struct counting {
    struct drive *drive;
    uint32_t source;
};

static void count_part(void *ctx, const struct movergiven_part *p)
{
    const struct counting *c = ctx;
    c->drive->slice_keys += p->n + p->n_large;
    c->drive->slice_bytes += p->entries.n;
    movergiven_add(&c->drive->larges, c->source, p);
}

/* Large values go before the rest, piece by piece. */
static enum stage next_piece(const struct drive *d) { return movergiven_now(&d->larges) ? STAGE_PIECE : STAGE_TAKE; }

static enum stage after_freeze(struct drive *d)
{
    d->slice_keys = d->slice_bytes = 0;
    movergiven_clear(&d->larges);
    for (uint32_t i = 0; i < d->n_parties; i++)
        if (d->parties[i].is_source) movergiven_each(buf_slice(&d->parties[i].given), count_part, &(struct counting){d, d->parties[i].group});
    d->slice_larges = d->larges.n;
    return next_piece(d);
}

static enum stage after_put(struct drive *d)
{
    d->slice_bytes += d->larges.piece.len;
    movergiven_go_on(&d->larges);
    return next_piece(d);
}

static enum stage after_piece(struct drive *d) { return movergiven_has_piece(&d->larges) ? STAGE_PUT : after_put(d); }
static enum stage after_drop(struct drive *d) { return before_freeze(d); }

static enum stage after_take(struct drive *d)
{
    struct mover_counts *k = &d->mover->counts;
    k->slices++;
    k->keys += d->slice_keys;
    k->bytes += d->slice_bytes;
    k->large += d->slice_larges;
    moverbound_set(&d->arrived, moverbound_of(&d->slice));
    return d->arrived.at_end ? STAGE_TELL_CARRIED : STAGE_TELL_BOUNDARY;
}

static enum stage after_end(struct drive *d) { return STAGE_TELL_DONE; }

/* What is asked of groups. */
static const struct asking {
    const char *command;
    bool (*concerns)(const struct drive *d, const struct party *p);
    void (*say)(struct drive *d, const struct party *p); /* the words behind the operation's number */
    enum verdict (*on)(struct drive *d, struct party *p, struct slice reply);
    enum stage (*after)(struct drive *d);
} askings[STAGE_OVER] = {
    [STAGE_BEGIN] = {"carry.begin", concerns_all, say_begin, on_begun, after_begin},
    [STAGE_MEASURE] = {"carry.measure", concerns_all, say_measure, on_measured, after_measure},
    [STAGE_PROVE] = {"carry.measure", concerns_target, say_measure, on_proven, after_proof},
    [STAGE_FREEZE] = {"carry.freeze", concerns_unfrozen, say_freeze, on_frozen, after_freeze},
    [STAGE_DROP] = {"carry.drop", concerns_unfrozen, say_drop, on_ok, after_drop},
    [STAGE_PIECE] = {"carry.piece", concerns_giver, say_piece, on_piece, after_piece},
    [STAGE_PUT] = {"carry.put", concerns_getter, say_put, on_ok, after_put},
    [STAGE_TAKE] = {"carry.take", concerns_target, say_take, on_ok, after_take},
    [STAGE_END] = {"carry.end", concerns_all, say_end, on_ok, after_end},
};

/* What group 1 is told. */
static const struct telling {
    enum metaops_step from, to;
} tellings[STAGE_OVER] = {
    [STAGE_TELL_WALKING] = {METAOPS_PLANNED, METAOPS_WALKING},
    [STAGE_TELL_BOUNDARY] = {METAOPS_WALKING, METAOPS_WALKING},
    [STAGE_TELL_CARRIED] = {METAOPS_WALKING, METAOPS_CARRIED},
    [STAGE_TELL_DONE] = {METAOPS_CARRIED, METAOPS_DONE},
};

/* ---- going on */

static void enter(struct drive *d, enum stage stage)
{
    d->stage = stage;
    d->wakes_ms = 0;
    for (uint32_t i = 0; i < d->n_parties; i++) d->parties[i].settled = false;
    if (stage == STAGE_MEASURE) moverbound_set(&d->slice, moverbound_of(&d->arrived));
    if (stage == STAGE_OVER) d->wakes_ms = UINT64_MAX;
}

static void rest(struct drive *d, uint32_t ms) { d->wakes_ms = d->mover->host.now_ms(d->mover->host.ctx) + ms; }

/* What went wrong is tried again: a freeze not before its targets have answered once more, and a slice is measured anew, for others write meanwhile. */
static void rest_before(struct drive *d, uint32_t ms)
{
    if (d->stage == STAGE_MEASURE) enter(d, STAGE_MEASURE);
    if (d->stage == STAGE_FREEZE) enter(d, before_freeze(d));
    rest(d, ms);
}

static bool is_asked(const struct drive *d, const struct party *p) { return askings[d->stage].concerns(d, p) && !p->settled; }

/* Those that have not answered yet. False: there are none. */
static bool ask_groups(struct drive *d)
{
    struct mover *m = d->mover;
    const struct asking *a = &askings[d->stage];
    txnask_clear(&m->ask);
    for (uint32_t i = 0; i < d->n_parties; i++) {
        if (!is_asked(d, &d->parties[i])) continue;
        txnask_add(&m->ask, d->parties[i].group, a->command);
        txnask_number(&m->ask, d->op);
        a->say(d, &d->parties[i]);
    }
    if (!m->ask.n) return false;
    d->awaits = true;
    m->host.send(m->host.ctx, m, d->op, txnask_requests(&m->ask), m->ask.n, CALL_MS);
    return true;
}

/* A boundary that the map cannot have is rounded down: it is behind the one before it all the same, or the same. */
static struct slice boundary_of(const struct drive *d)
{
    struct slice key = buf_slice(&d->arrived.key);
    return key.n > META_KEY_MAX ? slice_of(key.p, META_KEY_MAX) : key;
}

static void go(struct drive *d)
{
    struct mover *m = d->mover;
    d->wakes_ms = UINT64_MAX;
    while (d->stage != STAGE_OVER && askings[d->stage].command) {
        if (ask_groups(d)) return;
        enter(d, askings[d->stage].after(d));
    }
    if (d->stage == STAGE_OVER) return;
    const struct telling *t = &tellings[d->stage];
    d->awaits = true;
    d->wakes_ms = UINT64_MAX;
    m->host.tell(m->host.ctx, m, d->op, t->from, t->to, d->stage == STAGE_TELL_BOUNDARY ? boundary_of(d) : slice_of(NULL, 0));
}

static enum verdict judge(struct drive *d, struct party *p, const struct txn_answer *a)
{
    if (a->fate != TXN_ANSWERED) return VERDICT_AGAIN;
    /* A record that was there and is gone: another driver has ended it. */
    if (answer_is_error(a->reply, "CARRYOLD") || answer_is_error(a->reply, "CARRYNONE")) return VERDICT_OLD;
    if (answer_is_error(a->reply, "CARRYBUSY")) return VERDICT_BUSY;
    if (answer_is_error(a->reply, "CARRYLACKS")) return VERDICT_LACKS;
    enum verdict v = askings[d->stage].on(d, p, a->reply);
    p->settled = v == VERDICT_FINE;
    return v;
}

/* The answers of one stage; the worst of them says how it goes on. */
static enum verdict judge_all(struct drive *d, const struct txn_answer *answers, uint32_t n)
{
    enum verdict worst = VERDICT_FINE;
    uint32_t at = 0;
    for (uint32_t i = 0; i < d->n_parties; i++) {
        if (!is_asked(d, &d->parties[i])) continue;
        CHECK(at < n);
        enum verdict v = judge(d, &d->parties[i], &answers[at++]);
        if (v > worst) worst = v;
    }
    CHECK(at == n);
    return worst;
}

static void go_on(struct drive *d, enum verdict v)
{
    switch (v) {
    case VERDICT_FINE: {
        enum stage before = d->stage;
        enter(d, askings[before].after(d));
        if (before == STAGE_DROP) rest(d, BUSY_MS);
        break;
    }
    case VERDICT_BUSY:
        d->mover->counts.busy += d->stage == STAGE_FREEZE;
        if (d->stage == STAGE_FREEZE && !moverbound_is_beginning(&d->arrived)) enter(d, STAGE_DROP);
        else rest_before(d, BUSY_MS);
        break;
    case VERDICT_AGAIN: rest_before(d, AGAIN_MS); break;
    case VERDICT_LACKS: /* its large values go again */
        begin_slice(d);
        enter(d, STAGE_FREEZE);
        rest(d, AGAIN_MS);
        break;
    case VERDICT_OLD: enter(d, STAGE_OVER); break;
    }
}

/* ---- all of them */

static struct drive *find(const struct mover *m, uint64_t op)
{
    struct drive *d = m->first;
    while (d && d->op != op) d = d->next;
    return d;
}

static void unlink_drive(struct mover *m, struct drive *d)
{
    struct drive **at = &m->first;
    while (*at != d) at = &(*at)->next;
    *at = d->next;
    free_drive(d);
}

/* What was waited for is there. False: it is of no use any more. */
static bool is_back(struct mover *m, struct drive *d)
{
    CHECK(d && d->awaits);
    bool is_of_use = !d->is_stale;
    d->awaits = d->is_stale = false;
    if (!is_of_use && !d->is_listed) unlink_drive(m, d);
    return is_of_use;
}

void mover_answered(struct mover *m, uint64_t op, const struct txn_answer *answers, uint32_t n)
{
    struct drive *d = find(m, op);
    if (is_back(m, d)) go_on(d, judge_all(d, answers, n));
    mover_turn(m);
}

static void note_slice_time(struct drive *d)
{
    uint64_t now = d->mover->host.now_ms(d->mover->host.ctx), *longest = &d->mover->counts.longest_slice_ms;
    if (d->slice_since_ms && now - d->slice_since_ms > *longest) *longest = now - d->slice_since_ms;
}

static void on_told(struct drive *d, uint64_t version)
{
    switch (d->stage) {
    case STAGE_TELL_WALKING:
        d->step = METAOPS_WALKING;
        enter(d, find_slice(d));
        break;
    case STAGE_TELL_BOUNDARY:
        note_slice_time(d);
        enter(d, STAGE_MEASURE);
        break;
    case STAGE_TELL_CARRIED:
        note_slice_time(d);
        d->version = version;
        enter(d, STAGE_END);
        break;
    default:
        d->mover->counts.operations++;
        enter(d, STAGE_OVER);
    }
}

void mover_told(struct mover *m, uint64_t op, uint64_t version)
{
    struct drive *d = find(m, op);
    if (is_back(m, d)) {
        if (version) on_told(d, version);
        else rest(d, AGAIN_MS);
    }
    mover_turn(m);
}

static uint32_t count_started(const struct mover *m)
{
    uint32_t n = 0;
    for (const struct drive *d = m->first; d; d = d->next) n += d->is_listed && d->is_started && d->stage != STAGE_OVER;
    return n;
}

static bool can_go(const struct drive *d) { return d->is_listed && d->is_started && !d->awaits; }

void mover_turn(struct mover *m)
{
    uint64_t now = m->host.now_ms(m->host.ctx);
    uint32_t n = count_started(m);
    for (struct drive *d = m->first; d; d = d->next) {
        if (d->is_listed && !d->is_started && n < MOVER_AT_ONCE) {
            d->is_started = true;
            n++;
        }
        if (can_go(d) && d->wakes_ms <= now) go(d);
    }
}

uint64_t mover_wakes_ms(const struct mover *m)
{
    uint64_t at = UINT64_MAX;
    for (const struct drive *d = m->first; d; d = d->next)
        if (can_go(d) && d->wakes_ms < at) at = d->wakes_ms;
    return at;
}

static struct drive *add_drive(struct mover *m, uint64_t op)
{
    struct drive **at = &m->first, *d = mem_zalloc(sizeof *d);
    while (*at && (*at)->op < op) at = &(*at)->next;
    d->mover = m;
    d->op = op;
    d->next = *at;
    return *at = d;
}

/* Those that are not among these any more have ended. */
static void let_go(struct mover *m)
{
    for (struct drive *d = m->first, *next; d; d = next) {
        next = d->next;
        if (d->is_listed) continue;
        d->is_stale = d->awaits;
        if (!d->awaits) unlink_drive(m, d);
    }
}

/* Within one term a driver never changes its mind: what it has sent may still be under way, and nobody would refuse it. So what is let go because this node does not seem to lead goes on where it was if the term is the same after all. */
void mover_drive(struct mover *m, uint64_t term, struct space_map *map, const struct mover_op *ops, uint32_t n)
{
    for (struct drive *d = m->first; d; d = d->next) d->is_listed = false;
    if (term == 0) return;
    CHECK(term >= m->term);
    spaces_ref(map);
    spaces_unref(m->map);
    m->map = map;
    m->term = term;
    for (uint32_t i = 0; i < n; i++) {
        struct drive *d = find(m, ops[i].plan.op);
        if (!d) d = add_drive(m, ops[i].plan.op);
        d->is_listed = true;
        if (ops[i].step != METAOPS_CARRIED) d->under_way_version = map->version;
        /* Another driver may have told, late, that it is carried, and have ended it in groups that have not heard of this one. */
        if (d->term == term && (ops[i].step != METAOPS_CARRIED || d->stage >= STAGE_TELL_CARRIED)) continue;
        d->is_stale = d->awaits;
        reset(d, term, &ops[i]);
    }
    let_go(m);
    mover_turn(m);
}

struct mover *mover_new(const struct mover_host *host)
{
    struct mover *m = mem_zalloc(sizeof *m);
    m->host = *host;
    return m;
}

void mover_free(struct mover *m)
{
    while (m->first) unlink_drive(m, m->first);
    spaces_unref(m->map);
    txnask_fini(&m->ask);
    mem_free(m);
}

const struct mover_counts *mover_counts(const struct mover *m) { return &m->counts; }
