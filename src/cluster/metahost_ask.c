/* Proposals on their way, and questions.
 *
 * Every node has a replica of groups 0 and 1. So an answer needs no message: a proposal goes to whoever leads, again and again, until the proposer meets it in its own log. Its sequence lets it be applied once,
 * however often it got there. What a node has open at a time is within the window whose answers the states remember (cluster/metaseen.h); what is beyond waits.
 *
 * Between nodes, as REQUEST frames to group 0, which nobody answers; the first argument says what it is:
 *
 *     PROPOSE group entry    to the group's leader
 *     LEAD group node        to the group's leader: hand it over
 *     GONE node              to a node that is */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cluster/metahost_own.h"
#include "cluster/metaview.h"

struct metahost_proposal {
    struct metahost_proposal *next;
    uint64_t sequence, deadline, retry_at;
    uint64_t own_term; /* it was submitted here, in this reign: that is once and for all */
    enum metahost_ask_about about;
    uint64_t id;
    metahost_ask_done *done;
    void *ctx;
    struct buf entry;
};

/* A question whose answer is not there yet. */
struct question {
    enum metahost_question kind;
    metahost_answer *answer;
    void *ctx;
};

/* One that waits for a leadership. */
struct metahost_waiter {
    struct metahost_waiter *next;
    struct question q;
    uint32_t group;
    uint64_t to, deadline, retry_at;
};

/* ---- proposals */

static uint32_t group_of(enum metacode_kind kind) { return kind < METACODE_FOUND_MAP ? META_NODES_GROUP : META_MAP_GROUP; }

static void free_proposal(struct metahost_proposal *p)
{
    buf_fini(&p->entry);
    mem_free(p);
}

/* Takes it out of the list, then tells: whoever is told may propose again. */
static void finish(struct metahost *h, struct metahost_proposal **at, const struct meta_result *r)
{
    struct metahost_proposal *p = *at;
    *at = p->next;
    if (p->done) p->done(h, p->ctx, r);
    free_proposal(p);
}

static void send_request(struct metahost *h, uint64_t peer, const struct slice *argv, uint32_t argc)
{
    struct wirecall_request q = {.id = ++h->report_version, .resp = 3, .argc = argc};
    h->scratch.len = 0;
    wirecall_add_request(&h->scratch, META_NODES_GROUP, &q, argv);
    h->calls.send(h->calls.ctx, peer, buf_slice(&h->scratch));
}

static void submit_here(struct metahost *h, const struct metahost_group *g, struct metahost_proposal *p)
{
    uint64_t index;
    if (p->own_term == g->term) return;
    if (h->calls.propose(h->calls.ctx, g->id, g->term, buf_slice(&p->entry), &index) == 0) p->own_term = g->term;
}

static void try_now(struct metahost *h, uint32_t group, struct metahost_proposal *p)
{
    const struct metahost_group *g = metahost_peers_group(h, group);
    uint64_t leader = metahost_leader(h, group);
    p->retry_at = h->now + METAHOST_RETRY_MS;
    if (g->here && g->state == RAFTNODE_LEADER) {
        submit_here(h, g, p);
    } else if (leader && leader != h->me) {
        char number[NUM_I64_MAX_CHARS];
        const struct slice argv[] = {SLICE("PROPOSE"), slice_of(number, num_format_u64(number, group)), buf_slice(&p->entry)};
        p->own_term = 0;
        send_request(h, leader, argv, 3);
    }
}

static bool in_window(const struct metahost *h, uint32_t group, const struct metahost_proposal *p) { return p->sequence - h->proposals[group]->sequence < METASEEN_WINDOW; }

static void pump(struct metahost *h, uint32_t group)
{
    for (struct metahost_proposal *p = h->proposals[group]; p && in_window(h, group, p); p = p->next)
        if (h->now >= p->retry_at) try_now(h, group, p);
}

void metahost_ask_propose(struct metahost *h, struct metacode_entry *e, enum metahost_ask_about about, uint64_t id, uint32_t timeout_ms, metahost_ask_done *done, void *ctx)
{
    uint32_t group = group_of(e->kind);
    struct metahost_proposal *p = mem_zalloc(sizeof *p), **at = &h->proposals[group];
    e->proposer = h->me;
    e->sequence = p->sequence = ++h->sequence[group];
    p->deadline = h->now + timeout_ms;
    p->about = about;
    p->id = id;
    p->done = done;
    p->ctx = ctx;
    metacode_encode(e, &p->entry);
    while (*at) at = &(*at)->next;
    *at = p;
    pump(h, group);
}

bool metahost_ask_open(const struct metahost *h, uint32_t group, enum metahost_ask_about about, uint64_t id)
{
    for (const struct metahost_proposal *p = h->proposals[group]; p; p = p->next)
        if (p->about == about && p->id == id) return true;
    return false;
}

void metahost_ask_answered(struct metahost *h, uint32_t group, uint64_t sequence, const struct meta_result *r)
{
    struct metahost_proposal **at = &h->proposals[group];
    while (*at && (*at)->sequence != sequence) at = &(*at)->next;
    if (*at) finish(h, at, r);
}

void metahost_ask_restored(struct metahost *h, uint32_t group)
{
    const struct metaseen *seen = group == META_NODES_GROUP ? &h->nodes->seen : &h->groups->seen;
    for (struct metahost_proposal **at = &h->proposals[group]; *at;) {
        struct meta_result r = {0};
        if (metaseen_new(seen, h->me, (*at)->sequence, &r))
            at = &(*at)->next;
        else
            finish(h, at, r.code == META_OLD ? NULL : &r);
    }
}

void metahost_ask_hurry(struct metahost *h, uint32_t group)
{
    for (struct metahost_proposal *p = h->proposals[group]; p; p = p->next) p->retry_at = h->now;
}

/* ---- leadership */

/* This node leads the group. */
static void hand_over(struct metahost *h, struct metahost_group *g, uint64_t to, const char *why)
{
    struct raftnode_info info;
    if (h->calls.look(h->calls.ctx, g->id, &info) < 0 || info.transferring || to == h->me) return;
    if (to && meta_members_role(&info.members, to) != RAFTNODE_VOTER) return;
    slog(h->log, SLOG_NOTICE, "leadership is handed over", "group=%u to=%" PRIu64 " why=%s", g->id, to, why);
    h->calls.transfer(h->calls.ctx, g->id, to);
}

void metahost_ask_lead(struct metahost *h, uint32_t group, uint64_t to, const char *why)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    uint64_t leader = metahost_leader(h, group);
    if (h->now < g->hand_until) return;
    g->hand_until = h->now + METAHOST_REST_MS;
    if (g->here && g->state == RAFTNODE_LEADER) {
        hand_over(h, g, to, why);
    } else if (leader && leader != h->me) {
        char number[2][NUM_I64_MAX_CHARS];
        const struct slice argv[] = {SLICE("LEAD"), slice_of(number[0], num_format_u64(number[0], group)), slice_of(number[1], num_format_u64(number[1], to)), slice_str(why)};
        send_request(h, leader, argv, 4);
    }
}

void metahost_ask_say_gone(struct metahost *h, uint64_t peer)
{
    char number[NUM_I64_MAX_CHARS];
    const struct slice argv[] = {SLICE("GONE"), slice_of(number, num_format_u64(number, peer))};
    send_request(h, peer, argv, 2);
}

/* ---- requests of others */

/* A leader proposes nothing that it does not understand: others could not follow. */
static int propose_for(struct metahost *h, uint64_t from, uint32_t group, struct slice entry)
{
    struct metahost_group *g = metahost_peers_group(h, group);
    struct metacode_entry e;
    uint64_t index;
    enum meta_code code = metacode_decode(&e, entry);
    bool fits = code == META_DONE && e.proposer == from && group_of(e.kind) == group;
    metacode_fini(&e);
    if (code == META_FOREIGN) return 0;
    if (!fits) return -EBADMSG;
    if (g->here && g->state == RAFTNODE_LEADER) (void)h->calls.propose(h->calls.ctx, group, g->term, entry, &index);
    return 0;
}

static int request(struct metahost *h, uint64_t from, const struct slice *argv, uint32_t argc)
{
    uint64_t a = 0, b = 0;
    if (argc < 2 || !num_parse_u64(argv[1], &a)) return -EBADMSG;
    if (argc == 3 && slice_is(argv[0], "PROPOSE") && a < META_FIRST_DATA_GROUP) return propose_for(h, from, (uint32_t)a, argv[2]);
    if (argc == 2 && slice_is(argv[0], "GONE")) {
        if (a == h->me) metahost_fail(h, "another node says that this one was declared gone: to be part of the cluster again it joins with an empty data directory");
        return 0;
    }
    if (argc != 4 || !slice_is(argv[0], "LEAD") || !num_parse_u64(argv[2], &b) || a > UINT32_MAX) return -EBADMSG;
    struct metahost_group *g = metahost_peers_group_known(h, (uint32_t)a);
    char why[128];
    snprintf(why, sizeof why, "%.*s", (int)(argv[3].n < sizeof why ? argv[3].n : sizeof why - 1), argv[3].p);
    if (g && g->here && g->state == RAFTNODE_LEADER) hand_over(h, g, b, why);
    return 0;
}

int metahost_ask_frame(struct metahost *h, uint64_t from, const struct wire_frame *f)
{
    struct wirecall_request q;
    struct slice message, *argv = NULL;
    uint32_t room = 0;
    if (f->type != WIRE_REQUEST || wirecall_join(h->joiner, f, &message) != WIRE_OK) return -EBADMSG;
    int rc = wirecall_get_request(message, &q, &argv, &room);
    if (rc == 0) rc = request(h, from, argv, q.argc);
    mem_free(argv);
    return rc;
}

/* ---- answers */

__attribute__((format(printf, 3, 4))) static void answer(const struct question *q, int rc, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    q->answer(q->ctx, rc, buf_slice(&text));
    buf_fini(&text);
}

static int error_of(enum meta_code code)
{
    static const int errors[META_CODES] = {
        [META_STALE] = -ESTALE, [META_UNKNOWN] = -ENOENT, [META_DUPLICATE] = -EEXIST, [META_BUSY] = -EBUSY, [META_EARLY] = -EAGAIN, [META_INVALID] = -EINVAL,
        [META_LIMIT] = -ENOSPC, [META_OLD] = -ETIMEDOUT, [META_MALFORMED] = -EINVAL, [META_FOREIGN] = -EINVAL,
    };
    return errors[code];
}

static void answer_done(struct metahost *h, const struct question *q, uint64_t id)
{
    struct buf text = {0};
    if (q->kind == METAHOST_JOIN) metahost_joined_text(&text, h->nodes, h->groups, id);
    if (q->kind == METAHOST_LEAVE) buf_add_str(&text, "draining");
    if (q->kind == METAHOST_RETURN) buf_add_str(&text, "up");
    if (q->kind == METAHOST_REMOVE) buf_add_str(&text, "gone");
    if (q->kind == METAHOST_SET) buf_add_str(&text, "set");
    if (q->kind == METAHOST_MOVE) buf_printf(&text, "%" PRIu64, id);
    q->answer(q->ctx, 0, buf_slice(&text));
    buf_fini(&text);
}

static void question_done(struct metahost *h, void *ctx, const struct meta_result *r)
{
    struct question *q = ctx;
    uint32_t group = q->kind == METAHOST_MOVE ? META_MAP_GROUP : META_NODES_GROUP;
    if (!r)
        answer(q, -ETIMEDOUT, "it was not decided in time%s; it may yet happen", metahost_leader(h, group) ? "" : ": nobody is known to lead the cluster");
    else if (r->code == META_DONE || (r->code == META_SAME && q->kind != METAHOST_MOVE))
        answer_done(h, q, r->id);
    else
        answer(q, error_of(r->code), "%s", r->why);
    mem_free(q);
}

/* ---- questions */

static void ask_state(struct metahost *h, const struct question *q, struct metacode_entry *e, uint32_t timeout_ms)
{
    metahost_ask_propose(h, e, METAHOST_ASK_QUESTION, 0, timeout_ms, question_done, mem_dup(q, sizeof *q));
}

static bool any_other_is_up(const struct metahost *h, uint64_t but)
{
    for (uint32_t i = 0; i < h->nodes->n; i++)
        if (h->nodes->nodes[i].id != but && h->nodes->nodes[i].state == METACODE_UP) return true;
    return false;
}

static void ask_join(struct metahost *h, const struct question *q, const struct slice *argv, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_NODE_JOIN};
    e.join = (struct metacode_node){.peer = argv[1], .client = argv[2], .name = argv[3].n ? argv[3] : argv[1], .zone = argv[4]};
    if (!num_parse_u64(argv[0], &e.join.instance)) {
        answer(q, -EINVAL, "the instance of a node is a number");
        return;
    }
    const char *flaw = metacode_node_flaw(&e.join);
    if (flaw)
        answer(q, -EINVAL, "%s", flaw);
    else
        ask_state(h, q, &e, timeout_ms);
}

/* LEAVE, RETURN and REMOVE. */
static void ask_node(struct metahost *h, const struct question *q, uint64_t id, uint32_t timeout_ms)
{
    const struct metanodes_node *n = metanodes_find(h->nodes, id);
    struct metacode_entry e = {.kind = METACODE_NODE_STATE};
    e.state.node = id;
    e.state.from = q->kind == METAHOST_LEAVE ? METACODE_UP : METACODE_DRAINING;
    e.state.to = q->kind == METAHOST_LEAVE ? METACODE_DRAINING : q->kind == METAHOST_RETURN ? METACODE_UP : METACODE_GONE;
    if (q->kind == METAHOST_REMOVE && n && n->state == METACODE_UP) {
        e.state.from = METACODE_UP;
        e.state.dead = true;
    }
    if (q->kind != METAHOST_RETURN && n && n->state != METACODE_GONE && !any_other_is_up(h, id))
        answer(q, -EINVAL, "no other node would be left");
    else if (q->kind == METAHOST_REMOVE && metahost_alive(h, id))
        answer(q, -EBUSY, "node %" PRIu64 " is heard of: it can leave", id);
    else
        ask_state(h, q, &e, timeout_ms);
}

static void ask_move(struct metahost *h, const struct question *q, const uint64_t *numbers, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    const struct metanodes_node *to = metanodes_find(h->nodes, numbers[2]);
    e.begin.driver = h->me;
    e.begin.plan = (struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = (uint32_t)numbers[0], .from = numbers[1], .to = numbers[2]};
    if (numbers[0] < META_FIRST_DATA_GROUP)
        answer(q, -EINVAL, "every node has a replica of groups 0 and 1");
    else if (numbers[0] > UINT32_MAX || !metagroups_find(h->groups, (uint32_t)numbers[0]))
        answer(q, -ENOENT, "there is no group %" PRIu64, numbers[0]);
    else if (!numbers[1] || !numbers[2] || numbers[1] == numbers[2])
        answer(q, -EINVAL, "a replica moves from one node to another");
    else if (!to || to->state != METACODE_UP)
        answer(q, -EINVAL, "node %" PRIu64 " is %s", numbers[2], to ? metacode_node_state_name(to->state) : "not known");
    else
        ask_state(h, q, &e, timeout_ms);
}

static void ask_setting(struct metahost *h, const struct question *q, const struct slice *argv, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_SETTING};
    unsigned i = 0;
    while (i < METACODE_SETTINGS && !slice_is(argv[0], metanodes_settings[i].name)) i++;
    e.setting.setting = i;
    if (i == METACODE_SETTINGS)
        answer(q, -EINVAL, "there is no setting of that name");
    else if (!num_parse_u64(argv[1], &e.setting.value))
        answer(q, -EINVAL, "%s is a number", metanodes_settings[i].name);
    else
        ask_state(h, q, &e, timeout_ms);
}

static void ask_leader(struct metahost *h, const struct question *q, uint64_t group, uint64_t to, uint32_t timeout_ms)
{
    const struct metagroups_group *g = group <= UINT32_MAX ? metagroups_find(h->groups, (uint32_t)group) : NULL;
    if (!g) {
        answer(q, -ENOENT, "there is no group %" PRIu64, group);
    } else if (meta_members_role(g->told.n ? &g->told : &g->wanted, to) != RAFTNODE_VOTER) {
        answer(q, -EINVAL, "node %" PRIu64 " does not vote in group %u", to, g->id);
    } else {
        struct metahost_waiter *w = mem_zalloc(sizeof *w);
        *w = (struct metahost_waiter){.next = h->waiters, .q = *q, .group = g->id, .to = to, .deadline = h->now + timeout_ms};
        h->waiters = w;
        h->dirty = true;
    }
}

static uint64_t leader_hint(void *ctx, uint32_t group) { return metahost_leader(ctx, group); }
static bool alive_hint(void *ctx, uint64_t node) { return metahost_alive(ctx, node); }

static void ask_text(struct metahost *h, const struct question *q)
{
    const struct metaview_hints hints = {.ctx = h, .myself = h->me, .leader = leader_hint, .linked = alive_hint};
    struct buf text = {0};
    if (q->kind == METAHOST_NODES) {
        metaview_cluster_nodes(&text, h->nodes, &hints, "0-16383");
    } else {
        metaview_nodes(&text, h->nodes, h->groups, &hints);
        buf_add_byte(&text, '\n');
        metaview_groups(&text, h->groups, &hints);
        if (h->groups->n_ops) buf_add_byte(&text, '\n');
        metaview_ops(&text, h->groups);
    }
    q->answer(q->ctx, 0, buf_slice(&text));
    buf_fini(&text);
}

static void ask_checked(struct metahost *h, const struct question *q, const struct slice *argv, const uint64_t *numbers, uint32_t timeout_ms)
{
    switch (q->kind) {
    case METAHOST_JOIN: ask_join(h, q, argv, timeout_ms); break;
    case METAHOST_LEAVE:
    case METAHOST_RETURN:
    case METAHOST_REMOVE: ask_node(h, q, numbers[0], timeout_ms); break;
    case METAHOST_MOVE: ask_move(h, q, numbers, timeout_ms); break;
    case METAHOST_LEAD: ask_leader(h, q, numbers[0], numbers[1], timeout_ms); break;
    case METAHOST_SET: ask_setting(h, q, argv, timeout_ms); break;
    case METAHOST_STATUS:
    case METAHOST_NODES: ask_text(h, q); break;
    case METAHOST_QUESTIONS: break;
    }
}

void metahost_ask(struct metahost *h, enum metahost_question kind, const struct slice *argv, uint32_t argc, uint32_t timeout_ms, metahost_answer *fn, void *ctx)
{
    static const struct {
        uint32_t argc, numbers; /* of which so many are numbers, the first */
    } forms[METAHOST_QUESTIONS] = {
        [METAHOST_JOIN] = {5, 0}, [METAHOST_LEAVE] = {1, 1}, [METAHOST_RETURN] = {1, 1}, [METAHOST_REMOVE] = {1, 1}, [METAHOST_MOVE] = {3, 3}, [METAHOST_LEAD] = {2, 2}, [METAHOST_SET] = {2, 0},
    };
    CHECK((unsigned)kind < METAHOST_QUESTIONS);
    const struct question q = {kind, fn, ctx};
    uint64_t numbers[3] = {0};
    bool good = argc == forms[kind].argc;
    for (uint32_t i = 0; good && i < forms[kind].numbers; i++) good = num_parse_u64(argv[i], &numbers[i]);
    if (h->failed)
        answer(&q, -ESHUTDOWN, "this node is no part of the cluster any more");
    else if (!good)
        answer(&q, -EINVAL, "that takes %u arguments%s", forms[kind].argc, forms[kind].numbers ? ", which are numbers" : "");
    else if (!metahost_founded(h) && kind != METAHOST_STATUS && kind != METAHOST_NODES)
        answer(&q, -EAGAIN, "this node does not know the cluster yet");
    else
        ask_checked(h, &q, argv, numbers, timeout_ms);
}

/* ---- time */

/* True: it was answered, and is out of the list. */
static bool tick_waiter(struct metahost *h, struct metahost_waiter **at)
{
    struct metahost_waiter *w = *at;
    bool leads = metahost_leader(h, w->group) == w->to;
    if (!leads && h->now < w->deadline) {
        if (h->now >= w->retry_at) {
            w->retry_at = h->now + METAHOST_REST_MS;
            metahost_ask_lead(h, w->group, w->to, "it was asked for");
        }
        return false;
    }
    *at = w->next;
    if (leads)
        answer(&w->q, 0, "node %" PRIu64 " leads group %u", w->to, w->group);
    else
        answer(&w->q, -ETIMEDOUT, "node %" PRIu64 " did not become the leader of group %u in time", w->to, w->group);
    mem_free(w);
    return true;
}

void metahost_ask_tick(struct metahost *h)
{
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++) {
        for (struct metahost_proposal **at = &h->proposals[group]; *at;) {
            if (h->now >= (*at)->deadline)
                finish(h, at, NULL);
            else
                at = &(*at)->next;
        }
        pump(h, group);
    }
    for (struct metahost_waiter **at = &h->waiters; *at;)
        if (!tick_waiter(h, at)) at = &(*at)->next;
}

uint64_t metahost_ask_next(const struct metahost *h)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++)
        for (const struct metahost_proposal *p = h->proposals[group]; p; p = p->next) {
            if (p->deadline < next) next = p->deadline;
            if (in_window(h, group, p) && p->retry_at < next) next = p->retry_at;
        }
    for (const struct metahost_waiter *w = h->waiters; w; w = w->next)
        if (w->deadline < next) next = w->deadline;
    return next;
}

void metahost_ask_fini(struct metahost *h)
{
    for (uint32_t group = 0; group < META_FIRST_DATA_GROUP; group++)
        while (h->proposals[group]) finish(h, &h->proposals[group], NULL);
    while (h->waiters) {
        struct metahost_waiter *w = h->waiters;
        h->waiters = w->next;
        answer(&w->q, -ESHUTDOWN, "this node ends");
        mem_free(w);
    }
}
