/* Clients that lock parts of the line (RANGE.LOCK), which may lie in several groups. They ask under a new name for each lock, and again until they know; hold it for a while, perhaps extend it, and unlock it.
 *
 * A lock is certainly held from the answer that grants it until its owner asks for its end. No other that excludes it is granted within that time; and of two that overlap, the one that was asked for when the other was granted has the
 * higher token. Most locks live longer than any clock here jumps, the others are there for their tokens and to end by themselves.
 *
 * A copy of a request that comes late may lock what nobody wants any more: whoever meets such a lock unlocks it. */
#include <stdio.h>

#include "base/mem.h"
#include "nodesim_own.h"
#include "resp/answer.h"

enum { LONG_MS = 3600 * 1000, SHORT_MS = 300, WAIT_MS = 500, PATIENCE_MS = 3500, REST_MS = 250, TRIES = 40 };

enum phase { IDLE, LOCKING, HOLDING, EXTENDING, UNLOCKING };

/* A lock that was granted. */
struct grant {
    uint32_t locker, cycle, first, end; /* keys of the line, [first, end) */
    bool shared;
    int64_t token;
    uint64_t called, held, released; /* held until released, for certain */
};

struct locker {
    enum phase phase;
    uint32_t cycle, attempt, tries, hint;
    struct grant wish;
    bool lives_long;
    uint32_t grant; /* HOLDING and later */
};

struct nodesim_locks {
    struct locker lockers[NODESIM_LOCKERS];
    struct grant *grants;
    uint32_t n, cap;
};

/* ---- asking */

static void say(struct nodesim_request *r, const char *word) { snprintf(r->words[r->argc++], NODESIM_WORD_BYTES, "%s", word); }

static void say_bounds(struct nodesim_request *r, const struct grant *g)
{
    char key[NODESIM_KEY_BYTES];
    say(r, NODESIM_SPACE);
    nodesim_range_key(key, g->first);
    say(r, g->first ? key : "-");
    nodesim_range_key(key, g->end);
    say(r, g->end < NODESIM_LINE_KEYS ? key : "+");
}

static void plan(struct nodesim *s, uint32_t number, uint64_t us) { world_after(s->w, 0, us, NODESIM_LOCK, (uint64_t)s->locks->lockers[number].attempt << 32 | number); }

static void rest(struct nodesim *s, uint32_t number, enum phase phase)
{
    struct locker *l = &s->locks->lockers[number];
    l->phase = phase;
    l->attempt++;
    plan(s, number, 1 + rng_below(world_rng(s->w), REST_MS * WORLD_MS));
}

static void post(struct nodesim *s, uint32_t number)
{
    static const char *const names[] = {[LOCKING] = "range.lock", [EXTENDING] = "range.extend", [UNLOCKING] = "range.unlock"};
    struct locker *l = &s->locks->lockers[number];
    struct rng *rng = world_rng(s->w);
    uint32_t node = l->hint && l->hint <= NODESIM_NODES && rng_below(rng, 10) ? l->hint : 1 + (uint32_t)rng_below(rng, NODESIM_NODES);
    struct nodesim_request r = {.client = NODESIM_FIRST_LOCKER + number, .attempt = ++l->attempt};
    char word[NODESIM_WORD_BYTES];
    say(&r, names[l->phase]);
    say_bounds(&r, &l->wish);
    snprintf(word, sizeof word, "%u.%u", number, l->cycle);
    say(&r, word);
    snprintf(word, sizeof word, "%d", l->lives_long ? LONG_MS : SHORT_MS);
    if (l->phase != UNLOCKING) say(&r, word);
    if (l->phase == LOCKING && l->wish.shared) say(&r, "shared");
    l->tries++;
    l->hint = 0;
    world_trace(s->w, node, "is asked for %s %u.%u of %s to %s", names[l->phase], number, l->cycle, r.words[2], r.words[3]);
    bool waits = nodesim_client_post(s, node, &r) && rng_below(rng, 4); /* most until a command over groups must have ended; the others send copies that get into each other's way */
    plan(s, number, (waits ? PATIENCE_MS : WAIT_MS) * WORLD_MS); /* if nothing is heard until then, again */
}

static void begin(struct nodesim *s, uint32_t number)
{
    struct locker *l = &s->locks->lockers[number];
    struct rng *rng = world_rng(s->w);
    l->phase = LOCKING;
    l->cycle++;
    l->tries = 0;
    l->lives_long = rng_below(rng, 4) != 0;
    uint32_t first = (uint32_t)rng_below(rng, NODESIM_LINE_KEYS);
    l->wish = (struct grant){.locker = number, .cycle = l->cycle, .first = first, .end = first + 1 + (uint32_t)rng_below(rng, 5), .shared = rng_below(rng, 4) == 0, .called = world_now(s->w)};
    if (l->wish.end > NODESIM_LINE_KEYS) l->wish.end = NODESIM_LINE_KEYS;
    post(s, number);
}

/* What the lock is held for is done. */
static void go_on(struct nodesim *s, uint32_t number)
{
    struct locker *l = &s->locks->lockers[number];
    l->phase = rng_below(world_rng(s->w), 3) ? UNLOCKING : EXTENDING;
    l->tries = 0;
    if (l->phase == UNLOCKING && l->lives_long) s->locks->grants[l->grant].released = world_now(s->w);
    post(s, number);
}

/* Others will find what is left of it. */
static void give_up(struct nodesim *s, uint32_t number)
{
    struct locker *l = &s->locks->lockers[number];
    if (l->phase != LOCKING && l->lives_long) s->locks->grants[l->grant].released = world_now(s->w);
    rest(s, number, IDLE);
}

void nodesim_lock_event(struct nodesim *s, uint64_t arg)
{
    uint32_t number = (uint32_t)arg;
    struct locker *l = &s->locks->lockers[number];
    if (!s->load || l->attempt != (uint32_t)(arg >> 32)) return;
    if (l->phase == IDLE) begin(s, number);
    else if (l->phase == HOLDING) go_on(s, number);
    else if (l->tries < TRIES) post(s, number);
    else give_up(s, number);
}

/* ---- grants */

static bool overlap(const struct grant *a, const struct grant *b) { return a->first < b->end && b->first < a->end; }

static void check_grant(struct nodesim *s, const struct grant *g, const struct grant *before)
{
    if (!overlap(g, before) || (g->locker == before->locker && g->cycle == before->cycle)) return;
    if (before->held <= g->called ? g->token <= before->token : g->token == before->token)
        world_fail(s->w, "lock %u.%u has token %lld, and %u.%u had %lld before", g->locker, g->cycle, (long long)g->token, before->locker, before->cycle, (long long)before->token);
    if (!(g->shared && before->shared) && g->called >= before->held && g->held <= before->released)
        world_fail(s->w, "lock %u.%u was granted while %u.%u was held", g->locker, g->cycle, before->locker, before->cycle);
}

static void granted(struct nodesim *s, uint32_t number, int64_t token)
{
    struct nodesim_locks *all = s->locks;
    struct locker *l = &all->lockers[number];
    struct grant g = l->wish;
    g.token = token;
    g.held = world_now(s->w);
    g.released = l->lives_long ? UINT64_MAX : g.held;
    for (uint32_t i = 0; i < all->n; i++) check_grant(s, &g, &all->grants[i]);
    if (all->n == all->cap) {
        all->cap = all->cap * 2 + 64;
        all->grants = mem_resize(all->grants, all->cap * sizeof *all->grants);
    }
    l->grant = all->n;
    all->grants[all->n++] = g;
    s->result->locks++;
    rest(s, number, HOLDING);
}

/* Who has it? owner, token, mode, start, end, ttl-ms. If its owner has no use for it any more it is ended in its name. */
static void denied(struct nodesim *s, uint32_t number, struct slice in)
{
    struct answer name, value;
    uint32_t n, locker = 0, cycle = 0;
    char word[NODESIM_WORD_BYTES], start[NODESIM_WORD_BYTES] = "-", end[NODESIM_WORD_BYTES] = "+", owner[NODESIM_WORD_BYTES] = "";
    s->result->denied++;
    if (!answer_array(&in, &n)) world_fail(s->w, "a lock is denied, and it is not said by whom");
    while (answer_next(&in, &name) && answer_next(&in, &value)) {
        snprintf(word, sizeof word, "%.*s", (int)value.text.n, value.text.n ? value.text.p : "");
        if (slice_is(name.text, "owner")) memcpy(owner, word, sizeof owner);
        if (slice_is(name.text, "start")) memcpy(start, word, sizeof start);
        if (slice_is(name.text, "end")) memcpy(end, word, sizeof end);
    }
    if (sscanf(owner, "%u.%u", &locker, &cycle) != 2 || locker >= NODESIM_LOCKERS) world_fail(s->w, "a lock is said to be %s's", owner);
    else if (s->locks->lockers[locker].cycle != cycle || s->locks->lockers[locker].phase == IDLE) {
        struct nodesim_request r = {.client = NODESIM_FIRST_LOCKER + number}; /* nobody waits for its answer */
        const char *words[] = {"range.unlock", NODESIM_SPACE, start, end, owner};
        for (int i = 0; i < 5; i++) say(&r, words[i]);
        for (uint32_t node = 1; node <= NODESIM_NODES; node++) nodesim_client_post(s, node, &r);
    }
    rest(s, number, IDLE);
}

static void take_reply(struct nodesim *s, uint32_t number, struct slice in)
{
    world_trace(s->w, 0, "locker %u is answered %.*s", number, (int)in.n, in.n ? in.p : "");
    struct locker *l = &s->locks->lockers[number];
    struct slice whole = in;
    uint32_t n;
    struct answer a;
    if (l->phase == LOCKING && answer_array(&in, &n) && n == 2 && answer_next(&in, &a)) {
        if (a.type == ':') granted(s, number, a.n);
        else denied(s, number, in);
    } else if (l->phase == EXTENDING && answer_next(&in, &a) && (a.type == ':' || a.type == '_')) {
        const struct grant *g = &s->locks->grants[l->grant];
        if (l->lives_long && (a.type != ':' || a.n < g->token)) /* higher: a late copy of the request has renewed it */
            world_fail(s->w, "lock %u.%u was held, and cannot be extended", number, l->cycle);
        rest(s, number, HOLDING);
    } else if (l->phase == UNLOCKING && answer_next(&in, &a) && a.type == ':') {
        if (l->lives_long && l->tries == 1 && a.n != 1) world_fail(s->w, "lock %u.%u was held, and is gone", number, l->cycle);
        rest(s, number, IDLE);
    } else if (answer_is_error(whole, "TRYAGAIN")) {
        rest(s, number, l->phase);
    } else {
        world_fail(s->w, "a locker is answered %.*s", (int)whole.n, whole.n ? whole.p : "");
    }
}

void nodesim_lock_answer(struct nodesim *s, const struct nodesim_answer *a)
{
    uint32_t number = a->client - NODESIM_FIRST_LOCKER;
    struct locker *l = &s->locks->lockers[number];
    if (a->attempt != l->attempt || l->phase == IDLE || l->phase == HOLDING) return;
    if (a->status == NODESIM_DONE) {
        take_reply(s, number, buf_slice(&a->reply));
    } else if (a->status == NODESIM_ASTRIDE && l->phase == LOCKING) {
        rest(s, number, IDLE);
    } else { /* again, after a while */
        l->hint = a->leader;
        rest(s, number, l->phase);
    }
}

/* ---- */

void nodesim_lock_new(struct nodesim *s) { s->locks = mem_zalloc(sizeof *s->locks); }

void nodesim_lock_start(struct nodesim *s)
{
    for (uint32_t i = 0; i < NODESIM_LOCKERS; i++) plan(s, i, 900 * WORLD_MS);
}

void nodesim_lock_free(struct nodesim *s)
{
    mem_free(s->locks->grants);
    mem_free(s->locks);
}
