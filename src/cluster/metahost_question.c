/* Questions: what an operator or a new node asks of the cluster.
 *
 * A new node is told, in lines (the seed in hex; the peers are the nodes of the cluster but the new one):
 *
 *     node 4
 *     cluster 00112233445566778899aabbccddeeff
 *     seed 123456789abcdef0
 *     peer 1 10.0.0.1:7001
 *     peer 2 10.0.0.2:7001 */
#include <inttypes.h>

#include "base/mem.h"
#include "base/num.h"
#include "cluster/metahost_own.h"
#include "cluster/metaview.h"

/* A question whose answer is not there yet. */
struct question {
    enum metahost_question kind;
    metahost_answer *answer;
    void *ctx;
};

/* One that takes two entries, of which the first is done: tick proposes the second. */
struct metahost_planned {
    struct metahost_planned *next;
    struct question *q;
    uint64_t op, deadline;
};

/* One that waits for a leadership. */
struct metahost_waiter {
    struct metahost_waiter *next;
    struct question q;
    uint32_t group;
    uint64_t to, deadline, retry_at;
};

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

static bool is_of_spaces(const struct question *q) { return q->kind == METAHOST_SPACE || q->kind == METAHOST_SPLIT || q->kind == METAHOST_MERGE || q->kind == METAHOST_MOVE_RANGE; }

/* What a question says itself is so or is not, and asked again it is answered alike. Only what this node planned for it may be right the next time. */
static int error_of(const struct question *q, enum meta_code code)
{
    static const int errors[META_CODES] = {
        [META_STALE] = -ESTALE, [META_UNKNOWN] = -ENOENT, [META_DUPLICATE] = -EEXIST, [META_BUSY] = -EBUSY, [META_EARLY] = -EAGAIN, [META_INVALID] = -EINVAL,
        [META_LIMIT] = -ENOSPC, [META_OLD] = -ETIMEDOUT, [META_MALFORMED] = -EINVAL, [META_FOREIGN] = -EINVAL,
    };
    bool planned = is_of_spaces(q) || q->kind == METAHOST_SPLIT_GROUP;
    return code == META_STALE && !planned ? -EINVAL : errors[code];
}

static void tell_newcomer(struct buf *out, const struct metanodes *nodes, const struct metagroups *groups, uint64_t node)
{
    buf_printf(out, "node %" PRIu64 "\ncluster ", node);
    for (int i = 0; i < META_CLUSTER_ID; i++) buf_printf(out, "%02x", nodes->cluster[i]);
    buf_printf(out, "\nseed %016" PRIx64 "\n", groups->map ? groups->map->route.seed : 0);
    for (uint32_t i = 0; i < nodes->n; i++) {
        const struct metanodes_node *n = &nodes->nodes[i];
        if (n->id != node && n->state != METACODE_GONE) buf_printf(out, "peer %" PRIu64 " %.*s\n", n->id, (int)n->is.peer.n, n->is.peer.p);
    }
}

static void answer_done(struct metahost *h, const struct question *q, uint64_t id)
{
    struct buf text = {0};
    if (q->kind == METAHOST_JOIN) tell_newcomer(&text, h->nodes, h->groups, id);
    if (q->kind == METAHOST_LEAVE) buf_add_str(&text, "draining");
    if (q->kind == METAHOST_RETURN) buf_add_str(&text, "up");
    if (q->kind == METAHOST_REMOVE) buf_add_str(&text, "gone");
    if (q->kind == METAHOST_SET) buf_add_str(&text, "set");
    if (q->kind == METAHOST_SPLIT_GROUP) {
        const struct metaops_op *op = metagroups_op(h->groups, id);
        if (op) buf_printf(&text, "%u", op->plan.other);
    }
    if (q->kind == METAHOST_MOVE) buf_printf(&text, "%" PRIu64, id);
    q->answer(q->ctx, 0, buf_slice(&text));
    buf_fini(&text);
}

static void question_done(struct metahost *h, void *ctx, const struct meta_result *r)
{
    struct question *q = ctx;
    uint32_t group = q->kind == METAHOST_MOVE || q->kind == METAHOST_SPLIT_GROUP || is_of_spaces(q) ? META_MAP_GROUP : META_NODES_GROUP;
    if (!r)
        answer(q, -ETIMEDOUT, "it was not decided in time%s; it may yet happen", metahost_leader(h, group) ? "" : ": nobody is known to lead the cluster");
    else if (r->code == META_DONE || (r->code == META_SAME && q->kind != METAHOST_MOVE && q->kind != METAHOST_SPLIT_GROUP))
        answer_done(h, q, r->id);
    else
        answer(q, error_of(q, r->code), "%s", r->why);
    mem_free(q);
}

/* ---- questions */

static void ask_state(struct metahost *h, const struct question *q, struct metacode_entry *e, uint32_t timeout_ms)
{
    metahost_ask_propose(h, e, METAHOST_ASK_QUESTION, 0, timeout_ms, question_done, mem_dup(q, sizeof *q));
}

static void question_planned(struct metahost *h, void *ctx, const struct meta_result *r)
{
    struct metahost_planned *p = ctx;
    if (r && r->code == META_DONE) {
        p->op = r->id;
        p->next = h->planned;
        h->planned = p;
        h->dirty = true;
    } else {
        question_done(h, p->q, r);
        mem_free(p);
    }
}

/* The second entry: if it is no news, the operation went on without it. */
static void question_went_on(struct metahost *h, void *ctx, const struct meta_result *r)
{
    const struct meta_result same = {.code = META_SAME};
    question_done(h, ctx, r && r->code == META_STALE ? &same : r);
}

static void ask_space(struct metahost *h, const struct question *q, const struct slice *argv, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    struct metaops_range range;
    struct buf why = {0};
    bool is_so;
    e.begin.driver = h->me;
    if (!metahost_spaces_plan(h, q->kind, argv, &e.begin.plan, &range, &is_so, &why)) {
        answer(q, -EINVAL, "%.*s", (int)why.len, why.p);
    } else if (is_so) {
        answer(q, 0, "%s", "");
    } else {
        struct metahost_planned *p = mem_zalloc(sizeof *p);
        *p = (struct metahost_planned){.q = mem_dup(q, sizeof *q), .deadline = h->now + timeout_ms};
        metahost_ask_propose(h, &e, METAHOST_ASK_QUESTION, 0, timeout_ms, question_planned, p);
    }
    buf_fini(&why); /* also of a refusal that is left to group 1 */
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
    if (q->kind == METAHOST_REMOVE && !metanodes_gone(h->nodes, id) && metahost_alive(h, id))
        answer(q, -EBUSY, "node %" PRIu64 " is heard of: it can leave", id);
    else
        ask_state(h, q, &e, timeout_ms);
}

static void ask_move(struct metahost *h, const struct question *q, const uint64_t *numbers, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    const struct metagroups_group *g = numbers[0] <= UINT32_MAX ? metagroups_find(h->groups, (uint32_t)numbers[0]) : NULL;
    const struct metanodes_node *to = metanodes_find(h->nodes, numbers[2]);
    e.begin.driver = h->me;
    e.begin.plan = (struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = (uint32_t)numbers[0], .from = numbers[1], .to = numbers[2]};
    if (numbers[0] < META_FIRST_DATA_GROUP)
        answer(q, -EINVAL, "every node has a replica of groups 0 and 1");
    else if (!g)
        answer(q, -ENOENT, "there is no group %" PRIu64, numbers[0]);
    else if (!numbers[1] || !numbers[2] || numbers[1] == numbers[2])
        answer(q, -EINVAL, "a replica moves from one node to another");
    else if (!to || to->state != METACODE_UP)
        answer(q, -EINVAL, "node %" PRIu64 " is %s", numbers[2], to ? metacode_node_state_name(to->state) : "not known");
    else if (!meta_members_has(&g->wanted, numbers[2]) && !metahost_hash_room(h, numbers[2]))
        answer(q, -ENOSPC, METAHOST_HASH_NO_ROOM, numbers[2]);
    else
        ask_state(h, q, &e, timeout_ms);
}

static void ask_split(struct metahost *h, const struct question *q, uint64_t group, struct slice hash, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    struct buf why = {0};
    e.begin.driver = h->me;
    const char *flaw = metahost_hash_plan(h, group, hash, &e.begin.plan, &why);
    if (why.len)
        answer(q, -ENOSPC, "%.*s", (int)why.len, why.p);
    else if (flaw)
        answer(q, -EINVAL, "%s", flaw);
    else
        ask_state(h, q, &e, timeout_ms);
    buf_fini(&why);
}

static void refuse_setting(const struct question *q)
{
    struct buf names = {0};
    for (unsigned i = 0; i < METACODE_SETTINGS; i++) buf_printf(&names, "%s%s", i ? ", " : "", metanodes_settings[i].name);
    answer(q, -EINVAL, "there is no setting of that name, but %.*s", (int)names.len, names.p);
    buf_fini(&names);
}

static void ask_setting(struct metahost *h, const struct question *q, const struct slice *argv, uint32_t timeout_ms)
{
    struct metacode_entry e = {.kind = METACODE_SETTING};
    unsigned i = 0;
    while (i < METACODE_SETTINGS && !slice_is(argv[0], metanodes_settings[i].name)) i++;
    e.setting.setting = i;
    if (i == METACODE_SETTINGS)
        refuse_setting(q);
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

static uint64_t leader_hint(void *ctx, uint32_t group) { return metahost_live_leader(ctx, group); }
static bool alive_hint(void *ctx, uint64_t node) { return metahost_alive(ctx, node); }
static bool reached_hint(void *ctx, uint64_t node) { return metahost_reaches(ctx, node); }

static void ask_text(struct metahost *h, const struct question *q)
{
    const struct metaview_hints hints = {.ctx = h, .myself = h->me, .leader = leader_hint, .alive = alive_hint, .reached = reached_hint};
    struct buf text = {0};
    if (q->kind == METAHOST_NODES) {
        metaview_cluster_nodes(&text, h->nodes, &hints, "0-16383");
    } else {
        metaview_nodes(&text, h->nodes, h->groups, &hints);
        buf_add_byte(&text, '\n');
        metaview_groups(&text, h->groups, &hints);
        if (h->groups->n_ops) buf_add_byte(&text, '\n');
        metaview_ops(&text, h->groups, &hints);
    }
    q->answer(q->ctx, 0, buf_slice(&text));
    buf_fini(&text);
}

static void ask_checked(struct metahost *h, const struct question *q, const struct slice *argv, uint32_t argc, const uint64_t *numbers, uint32_t timeout_ms)
{
    switch (q->kind) {
    case METAHOST_JOIN: ask_join(h, q, argv, timeout_ms); break;
    case METAHOST_LEAVE:
    case METAHOST_RETURN:
    case METAHOST_REMOVE: ask_node(h, q, numbers[0], timeout_ms); break;
    case METAHOST_MOVE: ask_move(h, q, numbers, timeout_ms); break;
    case METAHOST_LEAD: ask_leader(h, q, numbers[0], numbers[1], timeout_ms); break;
    case METAHOST_SET: ask_setting(h, q, argv, timeout_ms); break;
    case METAHOST_SPACE:
    case METAHOST_SPLIT:
    case METAHOST_MERGE:
    case METAHOST_MOVE_RANGE: ask_space(h, q, argv, timeout_ms); break;
    case METAHOST_SPLIT_GROUP: ask_split(h, q, numbers[0], argc > 1 ? argv[1] : SLICE(""), timeout_ms); break;
    case METAHOST_STATUS:
    case METAHOST_NODES: ask_text(h, q); break;
    case METAHOST_QUESTIONS: break;
    }
}

void metahost_ask(struct metahost *h, enum metahost_question kind, const struct slice *argv, uint32_t argc, uint32_t timeout_ms, metahost_answer *fn, void *ctx)
{
    static const struct {
        uint32_t argc, numbers; /* of which so many are numbers, the first */
        uint32_t optional;      /* so many need not be there, the last */
        const char *words;
    } forms[METAHOST_QUESTIONS] = {
        [METAHOST_JOIN] = {5, 0, 0, "an instance, two addresses, a name and a zone"},
        [METAHOST_LEAVE] = {1, 1, 0, "the number of a node"},
        [METAHOST_RETURN] = {1, 1, 0, "the number of a node"},
        [METAHOST_REMOVE] = {1, 1, 0, "the number of a node"},
        [METAHOST_MOVE] = {3, 3, 0, "the numbers of a group and of two nodes"},
        [METAHOST_LEAD] = {2, 2, 0, "the numbers of a group and of a node"},
        [METAHOST_SET] = {2, 0, 0, "a setting and a number"},
        [METAHOST_SPACE] = {2, 0, 0, "a key space and a mode"},
        [METAHOST_SPLIT] = {2, 0, 0, "a key space and a key"},
        [METAHOST_MERGE] = {2, 0, 0, "a key space and a key"},
        [METAHOST_MOVE_RANGE] = {3, 0, 0, "a key space, a key and a group"},
        [METAHOST_SPLIT_GROUP] = {2, 1, 1, "the number of a group, and a hash or none"},
        [METAHOST_STATUS] = {0, 0, 0, "nothing"},
        [METAHOST_NODES] = {0, 0, 0, "nothing"},
    };
    CHECK((unsigned)kind < METAHOST_QUESTIONS);
    const struct question q = {.kind = kind, .answer = fn, .ctx = ctx};
    uint64_t numbers[3] = {0};
    bool good = argc <= forms[kind].argc && argc + forms[kind].optional >= forms[kind].argc;
    for (uint32_t i = 0; good && i < forms[kind].numbers; i++) good = num_parse_u64(argv[i], &numbers[i]);
    if (h->failed)
        answer(&q, -ESHUTDOWN, "this node is no part of the cluster any more");
    else if (!good)
        answer(&q, -EINVAL, "what it takes is %s", forms[kind].words);
    else if (!metahost_founded(h) && kind != METAHOST_STATUS && kind != METAHOST_NODES)
        answer(&q, -EAGAIN, "this node does not know the cluster yet");
    else
        ask_checked(h, &q, argv, argc, numbers, timeout_ms);
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

void metahost_question_tick(struct metahost *h)
{
    while (h->planned) {
        struct metahost_planned *p = h->planned;
        h->planned = p->next;
        metahost_spaces_finish(h, p->op, h->now < p->deadline ? (uint32_t)(p->deadline - h->now) : 1, question_went_on, p->q);
        mem_free(p);
    }
    for (struct metahost_waiter **at = &h->waiters; *at;)
        if (!tick_waiter(h, at)) at = &(*at)->next;
}

void metahost_question_fini(struct metahost *h)
{
    while (h->planned) {
        struct metahost_planned *p = h->planned;
        h->planned = p->next;
        question_done(h, p->q, NULL);
        mem_free(p);
    }
    while (h->waiters) {
        struct metahost_waiter *w = h->waiters;
        h->waiters = w->next;
        answer(&w->q, -ESHUTDOWN, "this node ends");
        mem_free(w);
    }
}
