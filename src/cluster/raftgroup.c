#include "cluster/raftgroup.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/termboard.h"
#include "cluster/wireraft.h"

enum {
    HAND_BYTES = 256 * 1024, /* of entries in one call of committed() */
    HAND_ENTRIES = 256,
    INFLIGHT_ENTRIES_MIN = 4,
};

_Static_assert((int)RAFTNODE_COMMAND == (int)RAFT_COMMAND && (int)RAFTNODE_BARRIER == (int)RAFT_BARRIER && (int)RAFTNODE_CHANGE == (int)RAFT_CHANGE,
               "types of entries are the engine's, in the log too");

/* ---- beginning */

struct start {
    struct raft_entry *entries;
    uint32_t n;
    struct buf changes; /* data of the entries that change members */
};

/* The engine wants to see the term of every entry, and the bytes of those that change members. */
static int load_entries(struct raftgroup *g, const struct raftlog_state *st, struct start *s)
{
    s->entries = mem_zalloc((st->last - st->first + 2) * sizeof *s->entries);
    for (uint64_t i = st->first; i <= st->last; i++) {
        struct raftlog_entry e;
        int rc = raftlog_read(g->node->log, g->id, i, &e);
        if (rc < 0) return rc;
        struct raft_entry *to = &s->entries[s->n++];
        to->term = e.term;
        to->type = (enum raft_entry_type)e.type;
        to->batch = s->entries;
        if (e.type != RAFT_CHANGE) continue;
        struct raftnode_members m = {.index = i};
        if (raftmember_decode(e.data, &m) < 0) return -EBADMSG;
        to->buf = (struct raft_buffer){(void *)(uintptr_t)s->changes.len, e.data.n}; /* an offset until all of them are there */
        buf_add_slice(&s->changes, e.data);
        if (i > st->configuration_index) raftmember_add(&g->members, &m);
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->entries[i].type == RAFT_CHANGE) s->entries[i].buf.base = s->changes.p + (uintptr_t)s->entries[i].buf.base;
    return 0;
}

static void engine_init(struct raftgroup *g)
{
    struct raftnode *n = g->node;
    const struct raftnode_options *o = &n->options;
    memset(&g->raft, 0, sizeof g->raft);
    CHECK(raft_init(&g->raft, NULL, NULL, o->id, n->address) == 0);
    g->raft.tracer = NULL; /* its own would format a line for everything it does */
    raft_seed(&g->raft, (unsigned)(rng_u64(&n->rng) >> 32));
    raft_set_pre_vote(&g->raft, true);
    raft_set_election_timeout(&g->raft, o->election_ms);
    raft_set_heartbeat_timeout(&g->raft, o->heartbeat_ms);
    raft_set_install_snapshot_timeout(&g->raft, o->install_ms);
    raft_set_max_catch_up_round_duration(&g->raft, 10 * o->install_ms);
    raft_set_max_inflight_entries(&g->raft, o->inflight_entries);
}

static void put_hard_state(struct raftgroup *g, uint64_t term, uint64_t vote)
{
    raftlog_put_hard_state(g->node->log, g->id, term, vote);
    g->hard_batch = raftlog_open_batch(g->node->log);
    raftnode_wait(g);
}

static void engine_start(struct raftgroup *g)
{
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    engine_init(g);
    raftmember_clear(&g->members);
    struct raft_snapshot_metadata mark = {.index = st.mark_index, .term = st.mark_term, .configuration_index = st.configuration_index};
    struct raftnode_members m = {.index = st.configuration_index};
    int rc = 0;
    if (st.mark_index) {
        rc = raftmember_decode(st.configuration, &m);
        if (rc == 0) raftmember_add(&g->members, &m);
    }
    struct start s = {0};
    if (rc == 0) rc = load_entries(g, &st, &s);
    if (rc == 0) {
        if (st.mark_index) raftmember_configuration(&m, &mark.configuration);
        if (raftmember_sole_voter(g)) put_hard_state(g, ++st.term, st.vote = g->node->options.id); /* R5 */
        struct raft_event e = {.type = RAFT_START};
        e.start.term = st.term;
        e.start.voted_for = st.vote;
        e.start.metadata = st.mark_index ? &mark : NULL;
        e.start.start_index = st.first;
        e.start.entries = s.entries;
        e.start.n_entries = s.n;
        rc = raftgroup_step(g, &e);
    }
    if (rc != 0) raftgroup_break(g, "its log cannot be read");
    mem_free(s.entries);
    buf_fini(&s.changes);
}

struct raftgroup *raftgroup_new(struct raftnode *n, uint32_t id, uint64_t applied)
{
    struct raftgroup *g = mem_zalloc(sizeof *g);
    g->node = n;
    g->id = id;
    g->handed = applied;
    g->own_first = 1;
    g->floor = raftfloor_of(n->log, id);
    engine_start(g);
    raftnode_soil(g);
    return g;
}

void raftgroup_free(struct raftgroup *g)
{
    raft_close(&g->raft, NULL);
    buf_fini(&g->held);
    buf_fini(&g->queue);
    buf_fini(&g->snap.descriptor);
    raftmember_clear(&g->members);
    raftread_fini(g);
    mem_free(g);
}

void raftgroup_restart(struct raftgroup *g)
{
    raft_close(&g->raft, NULL);
    g->unstored = false;
    g->members.committed = 0;
    engine_start(g);
    raftnode_soil(g);
}

void raftgroup_break(struct raftgroup *g, const char *why)
{
    if (!g->broken) g->broken = why;
    raftnode_soil(g);
}

/* ---- what a step asks for: the log */

static void note_replaced(struct raftgroup *g, uint64_t index)
{
    if (g->own_first > g->own_last || g->own_last < index) return;
    uint64_t first = g->own_first > index ? g->own_first : index;
    if (!g->replaced || first < g->replaced) g->replaced = first;
    g->own_last = index - 1;
    raftnode_soil(g);
}

static void take_entries(struct raftgroup *g, const struct raft_update *u)
{
    struct raftlog *log = g->node->log;
    struct raftlog_state st;
    CHECK(raftlog_state(log, g->id, &st));
    uint64_t index = u->entries.index;
    if (index <= st.last) {
        CHECK(index > g->handed);
        raftlog_put_truncate(log, g->id, index);
        raftmember_truncate(&g->members, index);
        note_replaced(g, index);
    }
    for (uint32_t i = 0; i < u->entries.n; i++, index++) {
        const struct raft_entry *e = &u->entries.batch[i];
        struct slice data = slice_of(e->buf.base, e->buf.len);
        raftlog_put_entry(log, g->id, index, e->term, (uint8_t)e->type, data);
        if (e->type != RAFT_CHANGE) continue;
        struct raftnode_members m = {.index = index};
        CHECK(raftmember_decode(data, &m) == 0);
        raftmember_add(&g->members, &m);
    }
    if (u->entries.batch == &g->raft.barrier) raft_free(g->raft.barrier.buf.base);
    g->unstored = true;
    g->took_entries = true;
    raftnode_wait(g);
}

/* ---- what a step asks for: roles */

static enum raftnode_state state_of(const struct raftgroup *g)
{
    switch (g->raft.state) {
    case RAFT_LEADER: return g->raft.current_term == g->told_term && g->told_state == RAFTNODE_LEADER ? RAFTNODE_LEADER : RAFTNODE_CANDIDATE;
    case RAFT_CANDIDATE: return RAFTNODE_CANDIDATE;
    default: return RAFTNODE_FOLLOWER;
    }
}

static uint64_t leader_of(const struct raftgroup *g)
{
    return g->raft.state == RAFT_FOLLOWER ? g->raft.follower_state.current_leader.id : state_of(g) == RAFTNODE_LEADER ? g->node->options.id : 0;
}

static void end_reign(struct raftgroup *g)
{
    g->reign = 0;
    if (g->queue_n) { /* never came to the log */
        uint64_t first = g->own_last + 1 - g->queue_n;
        note_replaced(g, first);
        g->node->queued_bytes -= g->queue.len;
        g->queue.len = 0;
        g->queue_n = 0;
    }
    g->inflight_bytes = 0;
    raftread_reign_ended(g);
    raftmember_reign_ended(g);
}

static void begin_reign(struct raftgroup *g)
{
    g->reign = raft_current_term(&g->raft);
    g->inflight_bytes = 0;
    g->announced = 0;
    g->reads.n_acks = 0;
    uint64_t last = raft_last_index(&g->raft);
    if (raftlog_term(g->node->log, g->id, last) != g->reign) { /* R3 */
        CHECK(raftgroup_submit_one(g, RAFT_BARRIER, slice_of("", 0)) == 0);
        last++;
    }
    g->barrier = last;
}

static void note_state(struct raftgroup *g)
{
    uint64_t term = raft_current_term(&g->raft);
    bool leads = raft_state(&g->raft) == RAFT_LEADER;
    if (g->reign && (!leads || g->reign != term)) end_reign(g);
    if (leads && !g->reign) begin_reign(g);
    if (!g->told || state_of(g) != g->told_state || term != g->told_term || leader_of(g) != g->told_leader) raftnode_soil(g);
}

/* ---- the board */

/* After what a step brought, before anything of it leaves. Voters count where this node leads: its log is not cut then, so an index tells them apart. */
static void show(struct raftgroup *g)
{
    struct termboard *board = g->node->options.board;
    const struct raftnode_members *m = raftmember_latest(&g->members);
    uint64_t index = m ? m->index : 0, term = raft_current_term(&g->raft);
    if (!board || g->dropped || (term == g->shown_term && index == g->shown_members)) return;
    struct termboard_group what = {.term = g->shown_term = term};
    g->shown_members = index;
    for (uint32_t i = 0; m && i < m->n; i++)
        if (m->m[i].role == RAFTNODE_VOTER) what.voters[what.n_voters++] = m->m[i].node;
    termboard_put(board, g->id, &what);
}

/* ---- the step */

static void limit_inflight(struct raftgroup *g)
{
    const struct raftnode_options *o = &g->node->options;
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    uint64_t n = st.last + 1 - st.first, bytes = raftlog_group_bytes(g->node->log, g->id);
    uint64_t fit = n && bytes ? o->inflight_bytes * n / bytes : o->inflight_entries;
    if (fit > o->inflight_entries) fit = o->inflight_entries;
    if (fit < INFLIGHT_ENTRIES_MIN) fit = INFLIGHT_ENTRIES_MIN;
    raft_set_max_inflight_entries(&g->raft, (unsigned)fit); /* R9 */
}

int raftgroup_step(struct raftgroup *g, struct raft_event *event)
{
    if (g->broken) return RAFT_SHUTDOWN;
    struct raftnode *n = g->node;
    uint64_t capacity = raftlog_capacity(n->log) / 1024;
    event->time = n->now;
    event->capacity = capacity > UINT16_MAX ? UINT16_MAX : (uint16_t)capacity;
    struct raft_update u = {0};
    int rc = raft_step(&g->raft, event, &u);
    CHECK(rc != RAFT_NOMEM);
    if (rc == RAFT_SHUTDOWN) raftgroup_break(g, "a leader's log contradicts entries that are committed");
    if (rc != 0) return rc;
    if (u.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) put_hard_state(g, raft_current_term(&g->raft), raft_voted_for(&g->raft));
    if (u.flags & RAFT_UPDATE_ENTRIES) take_entries(g, &u);
    show(g);
    if (u.flags & RAFT_UPDATE_MESSAGES)
        for (uint32_t i = 0; i < u.messages.n; i++) raftsend_message(g, &u.messages.batch[i]);
    if (u.flags & RAFT_UPDATE_COMMIT_INDEX) {
        raftmember_commit(g);
        raftnode_soil(g);
    }
    note_state(g);
    raftmember_advance(g);
    if (raft_timeout(&g->raft) < n->scan_at) n->scan_at = raft_timeout(&g->raft);
    return 0;
}

/* Its log is behind that of its former life: it cannot win, and must not. */
static bool is_below_floor(struct raftgroup *g)
{
    uint64_t last = raft_last_index(&g->raft);
    return raftfloor_is_above(&g->floor, last ? raftlog_term(g->node->log, g->id, last) : 0, last);
}

void raftgroup_timeout(struct raftgroup *g)
{
    struct raft *r = &g->raft;
    if (r->state == RAFT_FOLLOWER && is_below_floor(g)) return; /* looked at again with the next tick */
    limit_inflight(g);
    if (r->state == RAFT_FOLLOWER && raftmember_sole_voter(g) && r->last_stored >= raft_last_index(r) && !r->snapshot.installing) { /* R5 */
        r->current_term++;
        r->voted_for = g->node->options.id;
        put_hard_state(g, r->current_term, r->voted_for);
    }
    struct raft_event e = {.type = RAFT_TIMEOUT};
    raftgroup_step(g, &e);
}

bool raftgroup_waits(const struct raftgroup *g)
{
    bool marking = g->snap.batch > raftlog_durable(g->node->log);
    return g->hard_batch || g->unstored || marking || g->snap.step == RAFTSNAP_GIVING_UP;
}

void raftgroup_persisted(struct raftgroup *g)
{
    struct raftlog *log = g->node->log;
    if (g->hard_batch && raftlog_durable(log) >= g->hard_batch) raftsend_held(g);
    raftsnap_persisted(g);
    if (!g->unstored || raftsnap_installing(&g->snap)) return;
    uint64_t index = raftlog_durable_index(log, g->id), last = raft_last_index(&g->raft);
    CHECK(index <= last);
    g->unstored = index < last;
    if (index <= g->raft.last_stored) return;
    struct raft_event e = {.type = RAFT_PERSISTED_ENTRIES};
    e.persisted_entries.index = index; /* R2 */
    raftgroup_step(g, &e);
}

/* ---- receiving */

static bool entries_sane(const struct raft_append_entries *a)
{
    if ((a->prev_log_index == 0) != (a->prev_log_term == 0)) return false;
    uint64_t term = a->prev_log_term;
    for (uint32_t i = 0; i < a->n_entries; i++) {
        const struct raft_entry *e = &a->entries[i];
        if (e->term == 0 || e->term < term || e->term > a->term) return false;
        term = e->term;
        struct raftnode_members m;
        if (e->type == RAFT_CHANGE && raftmember_decode(slice_of(e->buf.base, e->buf.len), &m) < 0) return false;
        if (e->type != RAFT_COMMAND && e->type != RAFT_BARRIER && e->type != RAFT_CHANGE) return false;
    }
    return a->prev_log_index < UINT64_MAX - a->n_entries && a->prev_log_term <= a->term;
}

static bool install_sane(const struct raft_install_snapshot *s)
{
    struct raftnode_members m;
    return s->last_index && s->last_term && s->last_term <= s->term && s->conf_index && s->conf_index <= s->last_index && raftmember_from(&s->conf, &m) == 0 &&
           s->data.len <= RAFTNODE_DESCRIPTOR_MAX;
}

/* What the engine takes for granted of a message. */
bool raftgroup_sane(const struct raft_message *m)
{
    if (m->type == RAFT_APPEND_ENTRIES) return entries_sane(&m->append_entries);
    if (m->type == RAFT_INSTALL_SNAPSHOT) return install_sane(&m->install_snapshot);
    return true;
}

static uint64_t term_of(const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_APPEND_ENTRIES: return m->append_entries.term;
    case RAFT_APPEND_ENTRIES_RESULT: return m->append_entries_result.term;
    case RAFT_REQUEST_VOTE: return m->request_vote.term;
    case RAFT_REQUEST_VOTE_RESULT: return m->request_vote_result.term;
    case RAFT_INSTALL_SNAPSHOT: return m->install_snapshot.term;
    default: return m->timeout_now.term;
    }
}

static void step_message(struct raftgroup *g, struct raft_message *m)
{
    struct raft_event e = {.type = RAFT_RECEIVE};
    e.receive.message = m;
    g->stale_event = term_of(m) < raft_current_term(&g->raft);
    raftgroup_step(g, &e);
    g->stale_event = false;
}

/* Up to the next change of members behind the first entry (R4). */
static uint32_t piece(const struct raft_entry *entries, uint32_t n)
{
    uint32_t i = 1;
    while (i < n && entries[i].type != RAFT_CHANGE) i++;
    return i;
}

/* R14 */
static void commit_before(struct raftgroup *g, struct raft_message *m)
{
    struct raft_append_entries *a = &m->append_entries;
    if (a->prev_log_index == 0 || raftlog_term(g->node->log, g->id, a->prev_log_index) != a->prev_log_term) return;
    a->entries = NULL;
    a->n_entries = 0;
    step_message(g, m);
}

/* A message with entries, in pieces. The engine gets blocks of its own to free (R10). */
static void receive_append(struct raftgroup *g, struct raft_message *m)
{
    struct raft_append_entries *a = &m->append_entries;
    struct raft_entry *all = a->entries;
    void *data = all[0].batch;
    uint32_t total = a->n_entries, done = 0;
    while (done < total) {
        uint32_t n = piece(all + done, total - done);
        if (all[done].type == RAFT_CHANGE) commit_before(g, m);
        void *block = raft_malloc(1);
        CHECK(block);
        a->entries = all + done;
        a->n_entries = n;
        for (uint32_t i = 0; i < n; i++) a->entries[i].batch = block;
        g->took_entries = false;
        step_message(g, m);
        if (g->took_entries) raft_free(block);
        done += n;
        a->prev_log_index += n;
        a->prev_log_term = all[done - 1].term;
        if (g->broken || raftlog_term(g->node->log, g->id, a->prev_log_index) != a->prev_log_term) break;
    }
    a->entries = all;
    raft_free(data);
}

/* R11 */
static void skip_snapshot(const struct raftgroup *g, struct raft_append_entries *a)
{
    const struct raft_trail *t = &g->raft.trail;
    if (g->raft.snapshot.installing || a->prev_log_index >= t->offset || a->prev_log_index >= t->snapshot.index) return;
    uint64_t known = t->snapshot.index - a->prev_log_index;
    uint32_t skip = known < a->n_entries ? (uint32_t)known : a->n_entries;
    a->n_entries -= skip;
    if (skip && a->n_entries) memmove(a->entries, a->entries + skip, a->n_entries * sizeof *a->entries);
    else if (skip) raft_free(a->entries[0].batch);
    a->prev_log_index = t->snapshot.index;
    a->prev_log_term = t->snapshot.term;
}

/* A log takes what it has room for; what is left of a message without entries is a sign of life of the leader. If it is only that the next segment is not ready, it
 * takes one: an entry may be larger than the room that is ever there ahead of need. */
static void fit_room(const struct raftgroup *g, struct raft_append_entries *a)
{
    uint64_t room = raftlog_capacity(g->node->log), bytes = g->node->options.reserve_bytes / 2;
    uint32_t n = 0;
    while (n < a->n_entries && (bytes += a->entries[n].buf.len + 64) <= room) n++;
    if (n == 0 && a->n_entries && raftlog_chore_error(g->node->log) == 0) n = 1;
    if (n == 0 && a->n_entries) raft_free(a->entries[0].batch);
    a->n_entries = n;
}

/* What this replica, as its former life left it, has nothing to say to. */
static bool is_barred(struct raftgroup *g, const struct raft_message *m)
{
    if (m->type == RAFT_REQUEST_VOTE) return raftfloor_is_above(&g->floor, m->request_vote.last_log_term, m->request_vote.last_log_index);
    return m->type == RAFT_TIMEOUT_NOW && is_below_floor(g);
}

void raftgroup_receive(struct raftgroup *g, struct raft_message *m)
{
    struct raft *r = &g->raft;
    bool of_leader = m->type == RAFT_APPEND_ENTRIES || m->type == RAFT_INSTALL_SNAPSHOT;
    if (of_leader && r->state == RAFT_LEADER && term_of(m) == r->current_term) raftgroup_break(g, "another node leads in the same term");
    bool idle = (m->type == RAFT_REQUEST_VOTE_RESULT && r->state != RAFT_CANDIDATE) || (m->type == RAFT_TIMEOUT_NOW && raftmember_sole_voter(g)); /* R6 */
    if (g->broken || idle || is_barred(g, m)) {
        wireraft_discard(m);
        return;
    }
    if (m->type == RAFT_APPEND_ENTRIES) {
        skip_snapshot(g, &m->append_entries);
        fit_room(g, &m->append_entries);
    }
    if (m->type == RAFT_INSTALL_SNAPSHOT) {
        raftsnap_receive(g, m);
    } else if (m->type == RAFT_APPEND_ENTRIES && m->append_entries.n_entries) {
        receive_append(g, m);
    } else {
        step_message(g, m);
    }
    wireraft_release(m);
}

/* ---- submitting */

int raftgroup_submit_one(struct raftgroup *g, enum raft_entry_type type, struct slice data)
{
    CHECK(g->queue_n == 0);
    struct raft_entry entry = {.term = raft_current_term(&g->raft), .type = type, .buf = {(void *)(uintptr_t)data.p, data.n}, .batch = (void *)(uintptr_t)data.p};
    struct raft_event e = {.type = RAFT_SUBMIT};
    e.submit.entries = &entry;
    e.submit.n = 1;
    return raftgroup_step(g, &e);
}

void raftgroup_submit_queue(struct raftgroup *g)
{
    uint32_t n = g->queue_n;
    if (n == 0) return;
    struct raft_entry *entries = mem_alloc(n * sizeof *entries);
    struct buf queue = g->queue; /* what upcalls submit meanwhile goes to the next one */
    g->queue = (struct buf){0};
    g->queue_n = 0;
    g->node->queued_bytes -= queue.len;
    uint64_t first = g->own_last + 1 - n;
    CHECK(first == raft_last_index(&g->raft) + 1);
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = le_u32(queue.p + at);
        entries[i] = (struct raft_entry){.term = g->reign, .type = RAFT_COMMAND, .buf = {queue.p + at + 4, len}, .batch = queue.p};
        at += 4 + len;
    }
    limit_inflight(g);
    struct raft_event e = {.type = RAFT_SUBMIT};
    e.submit.entries = entries;
    e.submit.n = n;
    if (raftgroup_step(g, &e) != 0) note_replaced(g, first);
    mem_free(entries);
    buf_fini(&queue);
}

/* ---- telling */

static void tell_role(struct raftgroup *g, enum raftnode_state state)
{
    uint64_t term = raft_current_term(&g->raft);
    uint64_t leader = state == RAFTNODE_LEADER ? g->node->options.id : leader_of(g);
    if (g->told && g->told_state == state && g->told_term == term && g->told_leader == leader) return;
    g->told = true;
    g->told_state = state;
    g->told_term = term;
    g->told_leader = leader;
    g->node->out.role(g->node->out.ctx, g->id, state, term, leader);
}

/* Entries from handed + 1 on up to the commit index, one call's worth; gives how many. Data lies in the node's scratch. */
static uint32_t load_handing(struct raftgroup *g, struct raftnode_entry *entries)
{
    struct buf *scratch = &g->node->scratch;
    scratch->len = 0;
    uint64_t commit = raft_commit_index(&g->raft);
    uint32_t n = 0;
    for (; n < HAND_ENTRIES && g->handed + n < commit && scratch->len < HAND_BYTES; n++) {
        struct raftlog_entry e;
        if (raftlog_read(g->node->log, g->id, g->handed + 1 + n, &e) < 0) {
            raftgroup_break(g, "its log cannot be read");
            return 0;
        }
        struct slice data = e.type == RAFT_COMMAND ? e.data : slice_of("", 0);
        entries[n] = (struct raftnode_entry){g->handed + 1 + n, e.term, (enum raftnode_entry_type)e.type, {(const char *)(uintptr_t)scratch->len, data.n}};
        buf_add_slice(scratch, data);
    }
    for (uint32_t i = 0; i < n; i++) entries[i].data.p = scratch->p + (uintptr_t)entries[i].data.p;
    return n;
}

static void count_handed(struct raftgroup *g, const struct raftnode_entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (g->reign && entries[i].term == g->reign && entries[i].type == RAFTNODE_COMMAND && entries[i].index > g->counted)
            g->inflight_bytes -= entries[i].data.n;
    g->handed += n;
    if (g->handed > g->counted) g->counted = g->handed;
    if (g->own_first <= g->handed) g->own_first = g->handed + 1;
}

static void hand_committed(struct raftgroup *g)
{
    struct raftnode_entry entries[HAND_ENTRIES];
    while (!g->rewinding && !g->broken && !raftsnap_installing(&g->snap) && g->handed < raft_commit_index(&g->raft)) {
        uint32_t n = load_handing(g, entries);
        if (n == 0) return;
        count_handed(g, entries, n);
        g->node->out.committed(g->node->out.ctx, g->id, entries, n);
    }
}

void raftgroup_tell(struct raftgroup *g)
{
    struct raftnode_out *out = &g->node->out;
    if (g->broken && !g->broken_told) {
        g->broken_told = true;
        out->broken(out->ctx, g->id, g->broken);
    }
    if (g->broken) {
        if (g->reign) end_reign(g);
        raftread_tell(g);
        raftmember_tell(g);
        return;
    }
    if (g->told_state == RAFTNODE_LEADER && g->reign != g->told_term) tell_role(g, g->raft.state == RAFT_FOLLOWER ? RAFTNODE_FOLLOWER : RAFTNODE_CANDIDATE);
    if (g->replaced) {
        uint64_t index = g->replaced;
        g->replaced = 0;
        g->rewinding = true;
        out->truncated(out->ctx, g->id, index);
    }
    raftsnap_tell(g);
    hand_committed(g);
    if (g->broken) return;
    bool ready = g->reign && g->handed >= g->barrier && !g->rewinding;
    tell_role(g, ready ? RAFTNODE_LEADER : state_of(g));
    raftmember_tell(g);
    raftread_tell(g);
}

void raftgroup_check(const struct raftgroup *g)
{
    struct raftlog_state st;
    CHECK(raftlog_state(g->node->log, g->id, &st));
    if (g->broken) return;
    CHECK(st.term == g->raft.current_term && st.vote == g->raft.voted_for);
    CHECK((g->reign != 0) == (g->raft.state == RAFT_LEADER) && (!g->reign || g->reign == g->raft.current_term));
    CHECK(g->queue_n == 0 || g->reign);
    if (raftsnap_installing(&g->snap)) return;
    CHECK(st.last == raft_last_index((struct raft *)&g->raft));
    CHECK(g->raft.last_stored <= st.last && (g->hard_batch || raftlog_durable_index(g->node->log, g->id) >= g->raft.last_stored));
    CHECK(st.mark_index == g->raft.trail.snapshot.index && st.first == g->raft.trail.offset + 1);
    const struct raftnode_members *m = raftmember_latest(&g->members);
    CHECK((m ? m->n : 0) == g->raft.configuration.n);
    for (uint32_t i = 0; m && i < m->n; i++) CHECK(m->m[i].node == g->raft.configuration.servers[i].id);
}
