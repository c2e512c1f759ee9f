#include "cluster/seat.h"

#include <errno.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/holding.h"
#include "cluster/intents.h"
#include "cluster/meta.h"
#include "cluster/seat_own.h"
#include "cluster/seatentry.h"
#include "shard/engine.h"

enum {
    INFLIGHT_ENTRIES = 256, /* proposed and not committed, of a group: well below what Raft takes, so that it seldom says no */
    INFLIGHT_BYTES = 4 * 1024 * 1024,
    UNCERTAIN_MS = 5000,
};

static struct seat *find(const struct seats *s, uint32_t group) { return group < META_GROUPS_MAX ? s->by_group[group] : NULL; }

struct seat *seats_find(struct seats *s, uint32_t group)
{
    pthread_mutex_lock(&s->lock);
    struct seat *seat = find(s, group);
    pthread_mutex_unlock(&s->lock);
    return seat;
}

void seats_hurry(struct seats *s)
{
    if (atomic_load_explicit(&s->dirty, memory_order_relaxed)) s->o.raft.wake(s->o.raft.ctx);
}

/* ---- mail to a seat: by its home worker into the shard's mailbox, so in the order in which it was sent */

struct seat_mail {
    struct mail mail;
    struct seat *seat;
    void (*act)(struct seat *seat, struct seat_mail *m); /* under the token */
    uint64_t index, term, reign;
    void (*done)(void *ctx, uint32_t group, uint64_t index);
    void *ctx;
    struct buf bytes;
};

static bool deliver(struct worker *w, struct shard *shard, struct mail *mail)
{
    struct seat_mail *m = (struct seat_mail *)mail;
    m->act(m->seat, m);
    buf_fini(&m->bytes);
    mem_free(m);
    return true;
}

static void pass_on(struct worker *w, struct mail *mail)
{
    struct seat_mail *m = (struct seat_mail *)mail;
    mail->to_shard = deliver;
    engine_post(w, m->seat->shard, mail);
}

static struct seat_mail *new_mail(struct seat *seat, void (*act)(struct seat *seat, struct seat_mail *m))
{
    struct seat_mail *m = mem_zalloc(sizeof *m);
    m->mail.to_worker = pass_on;
    m->seat = seat;
    m->act = act;
    return m;
}

static void post(struct seat_mail *m) { engine_send(m->seat->all->o.engine, m->seat->shard->home, &m->mail); }
static void put(struct seat_mail *m) { engine_put(m->seat->all->o.engine, m->seat->shard->home, &m->mail); } /* R: seats_tell wakes its reader */

/* Of a thread that is not R: before the mail by which the group leaves its seat. False: it has left, and the mail is gone. */
static bool post_if_sits(struct seat *seat, struct seat_mail *m)
{
    pthread_mutex_lock(&seat->all->lock);
    bool sits = find(seat->all, seat->group) == seat;
    if (sits) post(m);
    pthread_mutex_unlock(&seat->all->lock);
    if (sits) return true;
    buf_fini(&m->bytes);
    mem_free(m);
    return false;
}

/* ---- W: entries of others, and filling */

static void note_store_index(struct seat *seat, uint64_t index, uint64_t term)
{
    if (index <= seat->store_index) return;
    seat->store_index = index;
    seat->store_term = term;
}

static void apply(struct seat *seat, struct seat_mail *m)
{
    uint64_t index, term;
    pthread_mutex_lock(&seat->lock);
    index = seat->store_index;
    term = seat->store_term;
    pthread_mutex_unlock(&seat->lock);
    seatapply_entries(&seat->apply, buf_slice(&m->bytes), &index, &term);
    pthread_mutex_lock(&seat->lock);
    note_store_index(seat, index, term);
    pthread_mutex_unlock(&seat->lock);
}

static void begin_to_serve(struct seat *seat, struct seat_mail *m)
{
    seat_serve_tell_time(seat);
    seatapply_drop_pieces(&seat->apply);
    intents_begin(seat->intents, seat->shard->store);
    pthread_mutex_lock(&seat->lock);
    if (seat->leads && seat->reign == m->reign && !seat->spoilt) {
        seat->served = m->reign;
        atomic_store(&seat->serves, true);
    }
    pthread_mutex_unlock(&seat->lock);
}

static void empty(struct seat *seat, struct seat_mail *m)
{
    seat->pending.len = 0;
    seatapply_empty(&seat->apply);
}

static void fill(struct seat *seat, struct seat_mail *m) { seatapply_fill(&seat->apply, buf_slice(&m->bytes)); }

static void tell_reached(struct seat *seat, struct seat_mail *m) { m->done(m->ctx, seat->group, 0); }

static void end_filling(struct seat *seat, struct seat_mail *m)
{
    seatapply_filled(&seat->apply);
    pthread_mutex_lock(&seat->lock);
    seat->filling = seat->spoilt = false;
    seat->expected = m->index + 1;
    seat->store_index = m->index;
    seat->store_term = m->term;
    seatfate_passed(&seat->fate, m->index);
    seatfate_not_in_store(&seat->fate);
    seat->shown = 0; /* everything in it is committed */
    seatshown_reset(&seat->shows);
    seat_serve_soil(seat);
    pthread_mutex_unlock(&seat->lock);
    seats_hurry(seat->all);
    if (m->done) m->done(m->ctx, seat->group, m->index);
}

bool seat_fill_begin(struct seat *seat)
{
    pthread_mutex_lock(&seat->lock);
    seat->filling = true;
    pthread_mutex_unlock(&seat->lock);
    return post_if_sits(seat, new_mail(seat, empty));
}

bool seat_fill(struct seat *seat, struct slice raw)
{
    struct seat_mail *m = new_mail(seat, fill);
    buf_add_slice(&m->bytes, raw);
    return post_if_sits(seat, m);
}

bool seat_fill_reached(struct seat *seat, void (*done)(void *ctx, uint32_t group, uint64_t index), void *ctx)
{
    struct seat_mail *m = new_mail(seat, tell_reached);
    m->done = done;
    m->ctx = ctx;
    return post_if_sits(seat, m);
}

bool seat_filled(struct seat *seat, uint64_t index, uint64_t term, void (*done)(void *ctx, uint32_t group, uint64_t index), void *ctx)
{
    struct seat_mail *m = new_mail(seat, end_filling);
    m->index = index;
    m->term = term;
    m->done = done;
    m->ctx = ctx;
    return post_if_sits(seat, m);
}

/* ---- R: reigns */

static void drop_batches(struct seat *seat)
{
    seat_serve_close_batch(seat);
    while (seat->first) {
        struct batch *b = seat->first;
        seat->first = b->next;
        buf_fini(&b->ops);
        mem_free(b);
    }
    seat->last = &seat->first;
}

/* Locked. What was not proposed wholly is lost for certain, and the store has it. */
static void lose_unproposed(struct seat *seat)
{
    seat_serve_close_batch(seat);
    if (!seat->first) return;
    seatfate_lose(&seat->fate, seat->first->sequence, seat->taken);
    seat->spoilt = true;
    drop_batches(seat);
}

static void end_reign(struct seat *seat)
{
    atomic_store(&seat->serves, false);
    pthread_mutex_lock(&seat->lock);
    if (seat->leads) {
        seat->leads = false;
        seat->ended_ms = atomic_load(&seat->all->now);
        lose_unproposed(seat);
    }
    pthread_mutex_unlock(&seat->lock);
    seat->all->told = true;
    seat_serve_soil(seat); /* spoilt or not is looked at in the next turn: the worker may yet find out */
}

static void begin_reign_if_ready(struct seat *seat)
{
    pthread_mutex_lock(&seat->lock);
    bool ready = seat->role == RAFTNODE_LEADER && !seat->leads && !seat->spoilt && !seat->filling && seat->expected > seat->ready;
    if (ready) {
        seat->leads = true;
        seat->reign++;
        seat->term = seat->role_term;
    }
    uint64_t reign = seat->reign;
    pthread_mutex_unlock(&seat->lock);
    if (!ready) return;
    struct seat_mail *m = new_mail(seat, begin_to_serve);
    m->reign = reign;
    put(m);
}

void seats_role(struct seats *s, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct seat *seat = find(s, group);
    if (!seat) return;
    atomic_store(&seat->leader, leader);
    bool another = state != RAFTNODE_LEADER || term != seat->role_term;
    if (another) end_reign(seat);
    seat->role = state;
    seat->role_term = term;
    seat->ready = seat->handed;
    if (state == RAFTNODE_LEADER) begin_reign_if_ready(seat);
}

/* ---- R: entries */

/* Locked. Somebody waits for the place of a cut in the log. */
static void settle_mark(struct seat *seat, const struct seatfate_entry *own)
{
    if (!seat->mark_waits || !own->last_piece || own->sequence != seat->mark.sequence) return;
    seat->mark.index = own->index;
    seat->mark.term = own->term;
    seat->mark_waits = false;
}

/* Locked. True: it is to be applied. */
static bool take_entry(struct seat *seat, const struct raftnode_entry *e)
{
    struct seatfate_entry own;
    bool ours = seatfate_committed(&seat->fate, e->index, e->term, &own);
    if (e->index > seat->handed) seat->handed = e->index;
    if (seat->spoilt || seat->filling || e->index != seat->expected) return false; /* it comes again when the log was rewound */
    seat->expected++;
    if (!ours || !own.in_store) return true;
    note_store_index(seat, e->index, e->term);
    settle_mark(seat, &own);
    return false;
}

void seats_committed(struct seats *s, uint32_t group, const struct raftnode_entry *entries, uint32_t n)
{
    struct seat *seat = find(s, group);
    if (!seat) return;
    struct seat_mail *m = NULL;
    pthread_mutex_lock(&seat->lock);
    uint32_t open = seat->fate.n;
    for (uint32_t i = 0; i < n; i++) {
        if (!take_entry(seat, &entries[i])) continue;
        if (!m) m = new_mail(seat, apply);
        seatapply_add(&m->bytes, &entries[i]);
    }
    bool more = seat->first || seat->open;
    s->told |= seat->fate.n != open; /* what others made settles nothing here */
    pthread_mutex_unlock(&seat->lock);
    if (m) put(m);
    if (more) seat_serve_soil(seat);
    if (seat->role == RAFTNODE_LEADER) begin_reign_if_ready(seat);
}

void seats_truncated(struct seats *s, uint32_t group, uint64_t index)
{
    struct seat *seat = find(s, group);
    if (!seat) return;
    end_reign(seat);
    pthread_mutex_lock(&seat->lock);
    seat->spoilt = true;
    pthread_mutex_unlock(&seat->lock);
}

void seats_confirmed(struct seats *s, uint32_t group, uint64_t round, int rc)
{
    struct seat *seat = find(s, group);
    if (!seat) return;
    pthread_mutex_lock(&seat->lock);
    uint64_t *to = rc == 0 ? &seat->confirmed : &seat->denied;
    if (round > *to) *to = round;
    pthread_mutex_unlock(&seat->lock);
    s->told = true;
}

/* ---- R: the turn */

/* Locked. Proposes a batch's next piece. False: not now, or never. */
static bool propose(struct seat *seat, struct batch *b)
{
    struct buf entry = {0};
    size_t at = b->at;
    uint64_t index;
    if (!seatentry_next(buf_slice(&b->ops), clock_unix_ms(), &at, &entry)) return false;
    int rc = seat->all->o.raft.propose(seat->all->o.raft.ctx, seat->group, seat->term, buf_slice(&entry), &index);
    if (rc == 0) {
        b->at = at;
        seatfate_add(&seat->fate, &(struct seatfate_entry){.index = index, .term = seat->term, .sequence = b->sequence, .bytes = entry.len, .last_piece = at == b->ops.len});
    }
    buf_fini(&entry);
    return rc == 0;
}

/* Locked. */
static void propose_some(struct seat *seat)
{
    seat_serve_close_batch(seat);
    while (seat->first && seat->fate.n < INFLIGHT_ENTRIES && seat->fate.open_bytes < INFLIGHT_BYTES) {
        struct batch *b = seat->first;
        if (!propose(seat, b)) break;
        if (b->at < b->ops.len) continue;
        seat->first = b->next;
        if (!seat->first) seat->last = &seat->first;
        buf_fini(&b->ops);
        mem_free(b);
    }
    if (!seat->first) return;
    atomic_store(&seat->dirty, true); /* tried again in the next turn, which a commit or the clock brings */
    seat->all->again = true;
}

/* A command that began in the reign before has changed the store after this one began. */
static void end_spoilt_reign(struct seat *seat)
{
    pthread_mutex_lock(&seat->lock);
    bool over = seat->spoilt && seat->leads;
    pthread_mutex_unlock(&seat->lock);
    if (over) end_reign(seat);
}

static void turn(struct seat *seat)
{
    struct seats *s = seat->all;
    uint64_t round = 0;
    atomic_store(&seat->dirty, false);
    end_spoilt_reign(seat);
    if (seat->role == RAFTNODE_LEADER) begin_reign_if_ready(seat);
    pthread_mutex_lock(&seat->lock);
    if (seat->leads) propose_some(seat);
    if (seat->wants_round && seat->leads) round = ++seat->rounds;
    seat->wants_round = false;
    bool refill = seat->spoilt && !seat->filling && !seat->leads;
    if (refill) {
        seat->filling = true;
        seat->refills++;
    }
    pthread_mutex_unlock(&seat->lock);
    if (round) s->o.raft.read(s->o.raft.ctx, seat->group, round);
    if (refill) s->o.refill(s->o.ctx, seat->group);
}

void seats_turn(struct seats *s, uint64_t now)
{
    atomic_store(&s->now, now);
    if (!atomic_exchange(&s->dirty, false) && !s->again) return; /* before the seats are looked at */
    s->again = false;
    for (uint32_t i = 1; i < s->o.engine->route.shards; i++) {
        struct seat *seat = atomic_load(&s->by_shard[i]);
        if (!seat) continue;
        if (atomic_load(&seat->dirty)) turn(seat);
    }
}

bool seats_tell(struct seats *s)
{
    if (s->told) s->o.told(s->o.ctx);
    s->told = false;
    engine_wake(s->o.engine);
    return atomic_load_explicit(&s->dirty, memory_order_relaxed);
}

/* ---- any thread */

static bool is_given_up(const struct seat *seat)
{
    uint64_t after = seat->all->o.uncertain_after_ms;
    return !seat->leads && atomic_load(&seat->all->now) > seat->ended_ms + after;
}

static enum seat_outcome outcome_of_write(const struct seat *seat, const struct hold *h)
{
    switch (seatfate_of(&seat->fate, h->sequence)) {
    case SEATFATE_DONE: return SEAT_DONE;
    case SEATFATE_LOST: return SEAT_LOST;
    case SEATFATE_UNKNOWN: return SEAT_UNCERTAIN;
    default: return is_given_up(seat) ? SEAT_UNCERTAIN : SEAT_WAIT;
    }
}

static enum seat_outcome outcome_of_read(const struct seat *seat, const struct hold *h)
{
    if (h->reign != seat->reign) return SEAT_LOST;
    enum seatfate_kind shown = h->sequence ? seatfate_of(&seat->fate, h->sequence) : SEATFATE_DONE;
    if (shown == SEATFATE_DONE && h->round <= seat->confirmed) return SEAT_DONE;
    if (!seat->leads || (h->round && h->round <= seat->denied) || shown == SEATFATE_LOST || shown == SEATFATE_UNKNOWN) return SEAT_LOST;
    return SEAT_WAIT;
}

enum seat_outcome seat_outcome(const struct hold *h)
{
    struct seat *seat = h->seat;
    if (!seat) return SEAT_DONE;
    pthread_mutex_lock(&seat->lock);
    enum seat_outcome o = h->wrote ? outcome_of_write(seat, h) : outcome_of_read(seat, h);
    pthread_mutex_unlock(&seat->lock);
    return o;
}

void seat_ask(struct hold *h)
{
    struct seat *seat = h->seat;
    h->unproven = false;
    pthread_mutex_lock(&seat->lock);
    seat_serve_ask(seat, h);
    pthread_mutex_unlock(&seat->lock);
}

bool seats_serves(const struct seats *s, uint32_t group)
{
    uint16_t shard = group < META_GROUPS_MAX ? atomic_load_explicit(&s->table[group], memory_order_relaxed) : 0;
    const struct seat *seat = shard ? atomic_load_explicit(&s->by_shard[shard], memory_order_acquire) : NULL;
    return seat && seat->group == group && atomic_load_explicit(&seat->serves, memory_order_relaxed);
}

void seat_mark(struct seats *s, uint32_t group, struct seat_mark *m)
{
    struct seat *seat = seats_find(s, group);
    *m = (struct seat_mark){.sequence = UINT64_MAX}; /* of nothing: there is no such seat, or what is in it has no place in the log */
    if (!seat) return;
    pthread_mutex_lock(&seat->lock);
    seat_serve_close_batch(seat);
    bool open = seat->shown && seatfate_of(&seat->fate, seat->shown) == SEATFATE_OPEN;
    if (!seat->spoilt && !seat->filling) {
        *m = (struct seat_mark){.index = seat->store_index, .term = seat->store_term, .sequence = open ? seat->shown : 0, .refills = seat->refills};
        seatapply_whole_index(&seat->apply, &m->index, &m->term);
        seat->mark = *m;
        seat->mark_waits = open;
        seat_serve_soil(seat);
    }
    pthread_mutex_unlock(&seat->lock);
    seats_hurry(s);
}

int seat_mark_index(struct seats *s, uint32_t group, struct seat_mark *m)
{
    struct seat *seat = seats_find(s, group);
    if (m->sequence == 0) return 0;
    if (!seat || m->sequence == UINT64_MAX) return -ECANCELED;
    int rc = -EAGAIN;
    pthread_mutex_lock(&seat->lock);
    if (seat->spoilt || seat->refills != m->refills || seat->mark.sequence != m->sequence) {
        rc = -ECANCELED;
    } else if (!seat->mark_waits) {
        *m = seat->mark;
        m->sequence = 0;
        rc = 0;
    }
    pthread_mutex_unlock(&seat->lock);
    return rc;
}

bool seats_look(struct seats *s, uint32_t group, struct seat_info *out)
{
    struct seat *seat = seats_find(s, group);
    if (!seat) return false;
    pthread_mutex_lock(&seat->lock);
    *out = (struct seat_info){.group = group,
                              .shard = seat->shard->id,
                              .serves = atomic_load(&seat->serves),
                              .filling = seat->filling,
                              .spoilt = seat->spoilt,
                              .reign = seat->reign,
                              .term = seat->term,
                              .leader = atomic_load(&seat->leader),
                              .applied = seat->store_index,
                              .sequence = seat->shown,
                              .committed = seat->fate.done,
                              .refills = seat->refills};
    pthread_mutex_unlock(&seat->lock);
    return true;
}

/* ---- life */

struct seats *seats_new(const struct seats_options *options)
{
    struct seats *s = mem_zalloc(sizeof *s);
    s->o = *options;
    if (!s->o.uncertain_after_ms) s->o.uncertain_after_ms = UNCERTAIN_MS;
    atomic_init(&s->now, options->now);
    pthread_mutex_init(&s->lock, NULL);
    s->table = mem_zalloc(META_GROUPS_MAX * sizeof *s->table);
    s->by_group = mem_zalloc(META_GROUPS_MAX * sizeof *s->by_group);
    s->by_shard = mem_zalloc(options->engine->route.shards * sizeof *s->by_shard);
    s->seating = seat_serve;
    s->seating.ctx = s;
    options->engine->seating = &s->seating;
    options->engine->route.seats = s->table;
    return s;
}

/* Under the token. */
static void sit(struct seat *seat, struct seat_mail *m)
{
    seat->shard->store->on_op = seat_serve_on_op;
    seat->shard->store->on_op_ctx = seat;
}

int seats_add(struct seats *s, uint32_t group)
{
    struct engine *e = s->o.engine;
    if (group >= META_GROUPS_MAX) return -EINVAL;
    if (find(s, group)) return -EEXIST;
    uint32_t i = 1;
    while (i < e->route.shards && atomic_load(&s->by_shard[i])) i++;
    if (i == e->route.shards) return -ENOSPC;
    struct seat *seat = mem_zalloc(sizeof *seat);
    seat->all = s;
    seat->group = group;
    seat->shard = &e->shards[i];
    seat->last = &seat->first;
    seat->expected = 1;
    pthread_mutex_init(&seat->lock, NULL);
    seatapply_init(&seat->apply, e->stores[i]);
    seat->intents = intents_new(e->random);
    seat->holding = holding_new(group);
    pthread_mutex_lock(&s->lock);
    s->by_group[group] = seat;
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->by_shard[i], seat);
    atomic_store(&s->table[group], (uint16_t)i);
    post(new_mail(seat, sit));
    return 0;
}

/* Under the token: nothing of it is used from now on but by those who hold answers. */
static void leave(struct seat *seat, struct seat_mail *m)
{
    struct store *store = seat->shard->store;
    seatapply_empty(&seat->apply);
    store->on_op = NULL;
    store->lazy_expire_paused = false;
    store->keeps = NULL;
    atomic_store(&seat->all->by_shard[seat->shard->id], NULL);
}

void seats_remove(struct seats *s, uint32_t group)
{
    struct seat *seat = find(s, group);
    if (!seat) return;
    end_reign(seat);
    atomic_store(&s->table[group], 0);
    pthread_mutex_lock(&seat->lock);
    seat->spoilt = seat->filling = true;
    seatfate_passed(&seat->fate, UINT64_MAX);
    pthread_mutex_unlock(&seat->lock);
    pthread_mutex_lock(&s->lock);
    s->by_group[group] = NULL;
    seat->next_gone = s->gone;
    s->gone = seat;
    pthread_mutex_unlock(&s->lock);
    post(new_mail(seat, leave));
}

static void free_seat(struct seat *seat)
{
    drop_batches(seat);
    seatfate_fini(&seat->fate);
    seatshown_fini(&seat->shows);
    seatmarks_fini(&seat->marks);
    seatapply_fini(&seat->apply);
    intents_free(seat->intents);
    holding_free(seat->holding);
    buf_fini(&seat->pending);
    pthread_mutex_destroy(&seat->lock);
    mem_free(seat);
}

void seats_free(struct seats *s)
{
    for (uint32_t g = 0; g < META_GROUPS_MAX; g++) {
        if (!s->by_group[g]) continue;
        s->by_group[g]->shard->store->on_op = NULL;
        free_seat(s->by_group[g]);
    }
    while (s->gone) {
        struct seat *seat = s->gone;
        s->gone = seat->next_gone;
        free_seat(seat);
    }
    s->o.engine->seating = NULL;
    s->o.engine->route.seats = NULL;
    pthread_mutex_destroy(&s->lock);
    mem_free(s->table);
    mem_free(s->by_group);
    mem_free(s->by_shard);
    mem_free(s);
}
