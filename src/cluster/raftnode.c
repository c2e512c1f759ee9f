#include "cluster/raftnode.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/raftgroup.h"
#include "cluster/termboard.h"
#include "cluster/wireraft.h"

enum { SCAN_MS = 10 }; /* timers are not looked at more often */

static void set_default(uint32_t *option, uint32_t value)
{
    if (*option == 0) *option = value;
}

struct raftnode *raftnode_new(const struct raftnode_options *options, struct raftlog *log, const struct raftnode_out *out)
{
    CHECK(options->id != 0);
    struct raftnode *n = mem_zalloc(sizeof *n);
    n->options = *options;
    struct raftnode_options *o = &n->options;
    set_default(&o->election_ms, 600);
    set_default(&o->heartbeat_ms, 60);
    set_default(&o->install_ms, 60 * 1000);
    set_default(&o->inflight_entries, 4096);
    if (o->inflight_bytes == 0) o->inflight_bytes = 8 << 20;
    if (o->reserve_bytes == 0) o->reserve_bytes = 1 << 20;
    n->out = *out;
    n->log = log;
    n->now = n->clock = options->now;
    n->scan_at = UINT64_MAX;
    n->dirty_end = &n->dirty;
    rng_init(&n->rng, options->seed ^ options->id * 0x9e3779b97f4a7c15ull);
    snprintf(n->address, sizeof n->address, "%llu", (unsigned long long)options->id);
    return n;
}

void raftnode_free(struct raftnode *n)
{
    for (struct raftgroup *g = n->dirty, *next; g; g = next) {
        next = g->next_dirty;
        if (g->dropped) raftgroup_free(g);
    }
    for (uint32_t i = 0; i < n->n_groups; i++) raftgroup_free(n->groups[i]);
    for (uint32_t i = 0; i < n->n_peers; i++) {
        buf_fini(&n->peers[i]->out);
        buf_fini(&n->peers[i]->probe);
        mem_free(n->peers[i]);
    }
    mem_free(n->groups);
    mem_free(n->gone);
    mem_free(n->peers);
    buf_fini(&n->scratch);
    mem_free(n);
}

/* ---- tables */

static uint32_t group_place(const struct raftnode *n, uint32_t group)
{
    uint32_t low = 0, high = n->n_groups;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (n->groups[mid]->id < group) low = mid + 1;
        else high = mid;
    }
    return low;
}

struct raftgroup *raftnode_group(const struct raftnode *n, uint32_t group)
{
    uint32_t i = group_place(n, group);
    return i < n->n_groups && n->groups[i]->id == group ? n->groups[i] : NULL;
}

struct raftnode_peer *raftnode_peer(struct raftnode *n, uint64_t id)
{
    uint32_t low = 0, high = n->n_peers;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (n->peers[mid]->id < id) low = mid + 1;
        else high = mid;
    }
    if (low < n->n_peers && n->peers[low]->id == id) return n->peers[low];
    if (n->n_peers == n->cap_peers) {
        n->cap_peers = n->cap_peers * 2 + 8;
        n->peers = mem_resize(n->peers, n->cap_peers * sizeof *n->peers);
    }
    memmove(n->peers + low + 1, n->peers + low, (n->n_peers++ - low) * sizeof *n->peers);
    n->peers[low] = mem_zalloc(sizeof **n->peers);
    n->peers[low]->id = id;
    snprintf(n->peers[low]->address, sizeof n->peers[low]->address, "%llu", (unsigned long long)id);
    return n->peers[low];
}

void raftnode_soil(struct raftgroup *g)
{
    if (g->dirty) return;
    g->dirty = true;
    g->next_dirty = NULL;
    *g->node->dirty_end = g;
    g->node->dirty_end = &g->next_dirty;
}

void raftnode_wait(struct raftgroup *g)
{
    if (g->waits) return;
    g->waits = true;
    g->next_waiting = g->node->waiting;
    g->node->waiting = g;
}

static void stop_waiting(struct raftgroup *g)
{
    struct raftgroup **at = &g->node->waiting;
    while (*at && *at != g) at = &(*at)->next_waiting;
    if (*at) *at = g->next_waiting;
    g->waits = false;
}

/* ---- groups */

static void add_group(struct raftnode *n, uint32_t group, uint64_t applied)
{
    uint32_t at = group_place(n, group);
    if (n->n_groups == n->cap_groups) {
        n->cap_groups = n->cap_groups * 2 + 8;
        n->groups = mem_resize(n->groups, n->cap_groups * sizeof *n->groups);
    }
    struct raftgroup *g = raftgroup_new(n, group, applied);
    memmove(n->groups + at + 1, n->groups + at, (n->n_groups++ - at) * sizeof *n->groups);
    n->groups[at] = g;
}

/* Why a group cannot begin here; 0: it can. Its end in the log must not stand in the batch in which it begins again, and what is deleted when that end is durable must be of its former life. */
static int bars_group(const struct raftnode *n, uint32_t group)
{
    struct raftlog_state st;
    if (group >= RAFTNODE_GROUPS_MAX) return -EINVAL;
    if (raftnode_group(n, group) || raftlog_state(n->log, group, &st)) return -EEXIST;
    return n->drop_batch ? -EAGAIN : 0;
}

int raftnode_group_create(struct raftnode *n, uint32_t group, const struct raftnode_member *members, uint32_t count)
{
    struct raftnode_members m = {.index = 1};
    int rc = bars_group(n, group);
    if (rc < 0) return rc;
    if (raftfloor_of(n->log, group).term) return -ESTALE;
    if (count == 0 || count > RAFTNODE_MEMBERS_MAX) return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].node == 0 || members[i].role == RAFTNODE_GONE || raftmember_role(&m, members[i].node) != RAFTNODE_GONE) return -EINVAL;
        m.m[m.n++] = members[i];
    }
    if (raftmember_voters(&m) == 0) return -EINVAL;
    struct buf bytes = {0};
    raftmember_encode(&bytes, &m);
    raftlog_put_hard_state(n->log, group, 1, 0);
    raftlog_put_entry(n->log, group, 1, 1, RAFT_CHANGE, buf_slice(&bytes));
    buf_fini(&bytes);
    uint64_t batch = raftlog_open_batch(n->log);
    add_group(n, group, 0);
    struct raftgroup *g = raftnode_group(n, group);
    g->hard_batch = batch; /* it says nothing before it is durable */
    raftnode_wait(g);
    return 0;
}

int raftnode_group_join(struct raftnode *n, uint32_t group)
{
    int rc = bars_group(n, group);
    if (rc < 0) return rc;
    struct raftfloor floor = raftfloor_of(n->log, group);
    raftlog_put_hard_state(n->log, group, floor.term, floor.vote);
    add_group(n, group, 0);
    return 0;
}

uint32_t raftnode_found(const struct raftlog *log, uint32_t *out, uint32_t max)
{
    uint32_t n = raftlog_groups(log, NULL, 0), found = 0;
    uint32_t *ids = mem_alloc((n + 1) * sizeof *ids);
    raftlog_groups(log, ids, n);
    while (found < n && ids[found] < RAFTNODE_GROUPS_MAX) found++; /* they ascend */
    for (uint32_t i = 0; i < found && i < max; i++) out[i] = ids[i];
    mem_free(ids);
    return found;
}

int raftnode_group_resume(struct raftnode *n, uint32_t group, uint64_t applied)
{
    struct raftlog_state st;
    if (raftnode_group(n, group)) return -EEXIST;
    if (!raftlog_state(n->log, group, &st)) return -ENOENT;
    if (applied + 1 < st.first || applied > st.last) return -EINVAL;
    add_group(n, group, applied);
    return 0;
}

static void note_gone(struct raftnode *n, uint32_t group)
{
    if (n->n_gone == n->cap_gone) {
        n->cap_gone = n->cap_gone ? n->cap_gone * 2 : 16;
        n->gone = mem_resize(n->gone, n->cap_gone * sizeof *n->gone);
    }
    n->gone[n->n_gone++] = group;
    n->drop_batch = raftlog_open_batch(n->log);
}

int raftnode_group_drop(struct raftnode *n, uint32_t group)
{
    struct raftgroup *g = raftnode_group(n, group);
    if (!g) return -ENOENT;
    uint32_t at = group_place(n, group);
    memmove(n->groups + at, n->groups + at + 1, (--n->n_groups - at) * sizeof *n->groups);
    raftfloor_keep(n->log, group);
    raftlog_put_gone(n->log, group);
    note_gone(n, group);
    n->queued_bytes -= g->queue.len;
    g->dropped = true;
    if (n->options.board) termboard_put(n->options.board, group, &(struct termboard_group){0});
    stop_waiting(g);
    raftnode_soil(g);
    return 0;
}

static bool answers(const struct raftnode *n, uint64_t id)
{
    for (uint32_t i = 0; i < n->n_peers; i++) {
        const struct raftnode_peer *p = n->peers[i];
        if (p->id == id) return p->answered && n->now - p->answered_at < n->options.election_ms;
    }
    return false;
}

int raftnode_look(const struct raftnode *n, uint32_t group, struct raftnode_info *out)
{
    struct raftgroup *g = raftnode_group(n, group);
    struct raftlog_state st;
    if (!g) return -ENOENT;
    CHECK(raftlog_state(n->log, group, &st));
    *out = (struct raftnode_info){
        .state = g->told_state,
        .ready = raftgroup_ready(g),
        .installing = raftsnap_installing(&g->snap),
        .transferring = raft_transferee(&g->raft) != 0,
        .changing = g->change.step != RAFTMEMBER_IDLE,
        .term = raft_current_term(&g->raft),
        .leader = g->told_leader,
        .first = st.first,
        .last = st.last,
        .stored = g->raft.last_stored,
        .commit = raft_commit_index(&g->raft),
        .handed = g->handed,
        .snapshot = st.mark_index,
        .log_bytes = raftlog_group_bytes(n->log, group),
    };
    const struct raftnode_members *m = raftmember_latest(&g->members);
    if (m) out->members = *m;
    for (uint32_t i = 0; i < out->members.n; i++) {
        raft_index match = 0;
        if (g->reign) raft_match_index(&g->raft, m->m[i].node, &match);
        out->match[i] = match;
        out->answers[i] = answers(n, m->m[i].node);
    }
    return 0;
}

/* ---- the turn */

uint64_t raftnode_next(const struct raftnode *n)
{
    if (n->dirty) return n->clock;
    uint64_t soonest = n->scanned + SCAN_MS;
    uint64_t due = n->scan_at > soonest ? n->scan_at : soonest;
    return due > n->now ? n->clock + (due - n->now) : n->clock;
}

void raftnode_tick(struct raftnode *n, uint64_t now)
{
    if (now > n->clock) n->now += now - n->clock;
    n->clock = now;
    if (n->now < n->scan_at || n->now < n->scanned + SCAN_MS) return;
    n->scanned = n->now;
    n->scan_at = UINT64_MAX;
    for (uint32_t i = 0; i < n->n_groups; i++) {
        struct raftgroup *g = n->groups[i];
        if (g->broken) continue;
        if (raft_timeout(&g->raft) <= n->now) raftgroup_timeout(g);
        uint64_t due = raft_timeout(&g->raft);
        uint64_t remind = raftread_remind(g);
        if (remind < due) due = remind;
        if (due < n->scan_at) n->scan_at = due;
    }
}

static void note_answer(const struct raftnode *n, struct raftnode_peer *p, const struct raft_message *m)
{
    if (m->type != RAFT_APPEND_ENTRIES_RESULT && m->type != RAFT_REQUEST_VOTE_RESULT) return;
    p->answered = true;
    p->answered_at = n->now;
}

static void note_capacity(struct raftnode_peer *p, const struct raft_message *m)
{
    if (m->type == RAFT_APPEND_ENTRIES_RESULT) p->capacity_kib = m->append_entries_result.capacity;
    else if (m->type == RAFT_REQUEST_VOTE_RESULT) p->capacity_kib = m->request_vote_result.capacity;
    else return;
    p->capacity_known = true;
}

static void note_stranger(struct raftnode *n, uint32_t group, uint64_t from)
{
    struct raftlog_state asleep;
    if (raftlog_state(n->log, group, &asleep) || n->n_strangers == sizeof n->strangers / sizeof n->strangers[0]) return;
    for (uint32_t i = 0; i < n->n_strangers; i++)
        if (n->strangers[i].group == group && n->strangers[i].from == from) return;
    n->strangers[n->n_strangers++] = (struct raftnode_stranger){group, from};
}

int raftnode_receive(struct raftnode *n, uint64_t from, const struct wire_frame *frame)
{
    struct raft_message m;
    if (from == 0 || from == n->options.id) return -EBADMSG;
    if (frame->type == WIRE_PROBE || frame->type == WIRE_PROBE_ACK) return raftread_receive(n, from, frame);
    if (!wireraft_is(frame->type) || wireraft_get(frame, from, &m) < 0) return -EBADMSG;
    if (!raftgroup_sane(&m)) {
        wireraft_discard(&m);
        return -EBADMSG;
    }
    struct raftnode_peer *p = raftnode_peer(n, from);
    m.server_address = p->address;
    note_answer(n, p, &m);
    note_capacity(p, &m);
    struct raftgroup *g = raftnode_group(n, frame->group);
    if (g) {
        raftgroup_receive(g, &m);
    } else {
        note_stranger(n, frame->group, from);
        wireraft_discard(&m);
    }
    return 0;
}

void raftnode_persisted(struct raftnode *n)
{
    struct raftgroup *g = n->waiting, *next;
    n->waiting = NULL;
    for (; g; g = next) {
        next = g->next_waiting;
        g->waits = false;
        raftgroup_persisted(g);
        if (raftgroup_waits(g)) raftnode_wait(g);
    }
}

/* The last words of a replica that was dropped. */
static void end_group(struct raftgroup *g)
{
    raftread_reign_ended(g);
    raftmember_reign_ended(g);
    raftread_tell(g);
    g->broken = "dropped";
    raftmember_tell(g);
}

static void tell_strangers(struct raftnode *n)
{
    for (uint32_t i = 0; i < n->n_strangers && n->out.stranger; i++) n->out.stranger(n->out.ctx, n->strangers[i].group, n->strangers[i].from);
    n->n_strangers = 0;
}

static void tell_gone(struct raftnode *n)
{
    if (n->drop_batch == 0 || raftlog_durable(n->log) < n->drop_batch) return;
    for (uint32_t i = 0; i < n->n_gone && n->out.gone; i++) n->out.gone(n->out.ctx, n->gone[i]);
    n->n_gone = 0;
    n->drop_batch = 0;
}

/* The engine tells what is committed with entries and heartbeats: one of those is due now. */
static void announce(struct raftgroup *g)
{
    struct raftnode *n = g->node;
    uint64_t commit = raft_commit_index(&g->raft);
    if (g->id >= n->options.prompt_groups || !g->reign || g->broken || commit <= g->announced) return;
    g->announced = commit;
    raft_set_heartbeat_timeout(&g->raft, 0);
    raftgroup_timeout(g);
    raft_set_heartbeat_timeout(&g->raft, n->options.heartbeat_ms);
}

void raftnode_flush(struct raftnode *n)
{
    tell_strangers(n);
    tell_gone(n);
    for (struct raftgroup *g = n->dirty; g; g = g->next_dirty) { /* grows while upcalls submit */
        if (g->dropped) end_group(g);
        else raftgroup_tell(g);
    }
    struct raftgroup *g = n->dirty, *next;
    n->dirty = NULL;
    n->dirty_end = &n->dirty;
    for (; g; g = next) {
        next = g->next_dirty;
        g->dirty = false;
        if (g->dropped) {
            raftgroup_free(g);
            continue;
        }
        raftgroup_submit_queue(g);
        announce(g);
        raftread_ask(g);
    }
    raftread_send(n);
    for (uint32_t i = 0; i < n->n_peers; i++) {
        struct raftnode_peer *p = n->peers[i];
        if (p->out.len) n->out.send(n->out.ctx, p->id, buf_slice(&p->out));
        p->out.len = 0;
    }
}

/* ---- leaders */

/* A majority of the logs, ours among them, has room for this and for what keeps Raft going. */
static bool has_room(const struct raftgroup *g, uint64_t bytes)
{
    struct raftnode *n = g->node;
    if (raftlog_capacity(n->log) < n->queued_bytes + bytes + n->options.reserve_bytes) return false;
    const struct raftnode_members *m = raftmember_latest(&g->members);
    uint32_t full = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->m[i].role != RAFTNODE_VOTER || m->m[i].node == n->options.id) continue;
        const struct raftnode_peer *p = raftnode_peer(n, m->m[i].node);
        full += p->capacity_known && p->capacity_kib < n->options.reserve_bytes / 1024;
    }
    return raftmember_voters(m) - full > raftmember_voters(m) / 2;
}

int raftnode_submit(struct raftnode *n, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    struct raftgroup *g = raftnode_group(n, group);
    if (!g) return -ENOENT;
    if (!raftgroup_ready(g) || g->reign != term) return -EPERM;
    if (data.n > RAFTNODE_ENTRY_BYTES_MAX) return -EMSGSIZE;
    uint64_t at = raft_last_index(&g->raft) + 1 + g->queue_n;
    bool full = g->inflight_bytes && g->inflight_bytes + data.n > n->options.inflight_bytes;
    if (raft_transferee(&g->raft) || full || at - raft_commit_index(&g->raft) > n->options.inflight_entries) return -EAGAIN;
    if (!has_room(g, data.n)) return -ENOSPC;
    le_add_u32(&g->queue, (uint32_t)data.n);
    buf_add_slice(&g->queue, data);
    g->queue_n++;
    n->queued_bytes += 4 + data.n;
    g->inflight_bytes += data.n;
    if (g->own_first > g->own_last) g->own_first = at;
    g->own_last = at;
    *index = at;
    raftnode_soil(g);
    return 0;
}

void raftnode_read(struct raftnode *n, uint32_t group, uint64_t ticket)
{
    struct raftgroup *g = raftnode_group(n, group);
    if (g) raftread_add(g, ticket);
    else n->out.read_failed(n->out.ctx, ticket);
}

/* The voter that answers and has most of the log. 0, or -EAGAIN: none answers, -ENOENT: there is no other. */
static int find_heir(const struct raftgroup *g, uint64_t *to)
{
    const struct raftnode_members *m = raftmember_latest(&g->members);
    raft_index best = 0, match;
    int rc = -ENOENT;
    for (uint32_t i = 0; m && i < m->n; i++) {
        uint64_t id = m->m[i].node;
        if (m->m[i].role != RAFTNODE_VOTER || id == g->node->options.id) continue;
        if (rc == -ENOENT) rc = -EAGAIN;
        if (!answers(g->node, id) || raft_match_index(&g->raft, id, &match) != 0 || (rc == 0 && match <= best)) continue;
        *to = id;
        best = match;
        rc = 0;
    }
    return rc;
}

int raftnode_transfer(struct raftnode *n, uint32_t group, uint64_t to)
{
    struct raftgroup *g = raftnode_group(n, group);
    if (!g) return -ENOENT;
    if (!raftgroup_ready(g)) return -EPERM;
    if (to == n->options.id) return -EINVAL;
    if (g->change.step != RAFTMEMBER_IDLE || raft_transferee(&g->raft)) return -EAGAIN;
    int rc = to ? 0 : find_heir(g, &to);
    if (rc < 0) return rc;
    if (raftmember_role(raftmember_latest(&g->members), to) == RAFTNODE_VOTER && !answers(n, to)) return -EAGAIN;
    raftgroup_submit_queue(g);
    struct raft_event e = {.type = RAFT_TRANSFER};
    e.transfer.server_id = to;
    switch (raftgroup_step(g, &e)) {
    case 0: return 0;
    case RAFT_BADID:
    case RAFT_NOTFOUND: return -ENOENT;
    default: return -EPERM;
    }
}

int raftnode_change(struct raftnode *n, uint32_t group, uint64_t node, enum raftnode_role role)
{
    struct raftgroup *g = raftnode_group(n, group);
    return g ? raftmember_begin(g, node, role) : -ENOENT;
}

/* ---- snapshots */

int raftnode_snapshotted(struct raftnode *n, uint32_t group, uint64_t index, uint32_t trailing)
{
    struct raftgroup *g = raftnode_group(n, group);
    return g && !g->broken ? raftsnap_taken(g, index, trailing) : -ENOENT;
}

int raftnode_installed(struct raftnode *n, uint32_t group, uint64_t index, int rc)
{
    struct raftgroup *g = raftnode_group(n, group);
    return g && !g->broken ? raftsnap_fetched(g, index, rc) : -ENOENT;
}

int raftnode_rewind(struct raftnode *n, uint32_t group, uint64_t index)
{
    struct raftgroup *g = raftnode_group(n, group);
    struct raftlog_state st;
    if (!g) return -ENOENT;
    CHECK(raftlog_state(n->log, group, &st));
    if (raftsnap_installing(&g->snap) || index + 1 < st.first || index > g->handed) return -EINVAL;
    g->handed = index;
    g->rewinding = false;
    raftnode_soil(g);
    return 0;
}

void raftnode_check(const struct raftnode *n)
{
    for (uint32_t i = 0; i < n->n_groups; i++) {
        CHECK(i == 0 || n->groups[i - 1]->id < n->groups[i]->id);
        raftgroup_check(n->groups[i]);
    }
}
