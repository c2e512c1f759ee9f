/* An administrator, the weather, and the end: everything must come together, and what was said must be so. */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/carrycmd.h"
#include "cluster/txncmd.h"
#include "command/families.h"
#include "nodesim_own.h"
#include "server/families.h"
#include "server/spancmd.h"

enum { CALM_MS = 2500, FAULTS_MS = 14000, PEACE_MS = 7000, QUIET_MS = 5000, ASK_MS = 4000, REST_TRIES = 100 };

const char *nodesim_mutant_name(enum nodesim_mutant m)
{
    static const char *names[NODESIM_MUTANTS] = {"sound", "early-answer", "unconfirmed-read", "no-refill", "twice", "old-reign", "read-intent", "no-reservation", "unheld-read",
                                                 "no-fence", "early-drop", "old-driver", "old-map", "half-lock", "half-deletion", "no-record", "on-their-way", "old-list", "blind-voucher"};
    return names[m];
}

/* ---- the administrator: asks some node for changes of the cluster, as a person would */

struct question {
    struct nodesim *sim;
    uint32_t asked; /* the node */
    enum metahost_question kind;
    uint32_t node; /* JOIN: the machine; LEAVE: the node */
};

static struct nodesim_node *some_node(struct nodesim *s)
{
    uint32_t node = 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_NODES);
    for (uint32_t i = 0; i < NODESIM_NODES; i++, node = node % NODESIM_NODES + 1) {
        struct nodesim_node *n = world_node(s->w, node);
        if (n && n->member && nodesim_raft_runs(n)) return n;
    }
    return NULL;
}

/* Takes a line of what a new node is told. */
static void take_line(struct nodesim_machine *m, const char *line, uint32_t *number)
{
    uint32_t peer;
    char address[32];
    sscanf(line, "node %u", number);
    if (sscanf(line, "peer %u %31s", &peer, address) == 2 && peer && peer <= NODESIM_NODES) snprintf(m->peers[peer], sizeof m->peers[peer], "%s", address);
}

/* The new node knows who it is, and where some others are. Its number is its machine's: they join one after the other. */
static void joined(struct nodesim *s, uint32_t machine, struct slice text)
{
    struct nodesim_machine *m = &s->machines[machine];
    uint32_t number = 0;
    if (m->member) return;
    for (const char *at = text.p, *end = text.p + text.n; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char line[128];
        if (!stop) stop = end;
        snprintf(line, sizeof line, "%.*s", (int)(stop - at), at);
        take_line(m, line, &number);
        at = stop + 1;
    }
    if (number != machine) world_fail(s->w, "machine %u cannot join by this: %.*s", machine, (int)text.n, text.p);
    m->member = true;
    s->result->joins++;
    world_trace(s->w, machine, "has joined");
    struct nodesim_node *n = world_node(s->w, machine);
    if (n) nodesim_become(n);
}

static void answered(void *ctx, int rc, struct slice text)
{
    struct question *q = ctx;
    world_trace(q->sim->w, q->asked, "answers question %d with %d: %.*s", (int)q->kind, rc, (int)text.n, text.n ? text.p : "");
    if (q->kind == METAHOST_JOIN && rc == 0) joined(q->sim, q->node, text);
    if (q->kind == METAHOST_SPLIT_GROUP && rc != 0 && rc != -ETIMEDOUT) nodesim_topology_no_group(q->sim);
    q->sim->result->moves += q->kind == METAHOST_MOVE && rc == 0;
    mem_free(q);
}

void nodesim_story_ask(struct nodesim *s, enum metahost_question kind, uint32_t node, const struct slice *argv, uint32_t argc)
{
    struct nodesim_node *n = some_node(s);
    if (!n) return;
    struct question *q = mem_alloc(sizeof *q);
    *q = (struct question){s, n->id, kind, node};
    nodesim_begin_turn(n);
    metahost_ask(n->meta, kind, argv, argc, ASK_MS, answered, q);
    nodesim_end_turn(n);
}

static void ask_numbers(struct nodesim *s, enum metahost_question kind, uint64_t a, uint64_t b, uint64_t c, uint32_t argc)
{
    char text[3][24];
    const uint64_t numbers[3] = {a, b, c};
    struct slice argv[3];
    for (uint32_t i = 0; i < argc; i++) {
        snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)numbers[i]);
        argv[i] = slice_str(text[i]);
    }
    nodesim_story_ask(s, kind, (uint32_t)a, argv, argc);
}

/* The next machine: an answer that was lost is asked for again. */
static void ask_join(struct nodesim *s)
{
    uint32_t machine = 1;
    while (machine <= NODESIM_NODES && s->machines[machine].member) machine++;
    if (machine > NODESIM_NODES) return;
    struct nodesim_machine *m = &s->machines[machine];
    char instance[24];
    snprintf(instance, sizeof instance, "%llu", (unsigned long long)m->instance);
    const struct slice argv[] = {slice_str(instance), slice_str(m->address), slice_str(m->clients), slice_str(m->name), SLICE("")};
    m->joining = true;
    nodesim_story_ask(s, METAHOST_JOIN, machine, argv, 5);
}

/* One may go if enough stay; who was told to go may be told to again. */
static void ask_leave(struct nodesim *s)
{
    uint32_t members = 0, node = 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_NODES);
    for (uint32_t i = 1; i <= NODESIM_NODES; i++) {
        const struct nodesim_machine *m = &s->machines[i];
        if (m->leaving) node = i;
        members += m->member && !m->leaving;
    }
    if (!s->machines[node].member || s->machines[node].gone || (!s->machines[node].leaving && members <= 3)) return;
    s->machines[node].leaving = true;
    ask_numbers(s, METAHOST_LEAVE, node, 0, 0, 1);
}

static void ask_move(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    uint32_t group = META_FIRST_DATA_GROUP + (uint32_t)rng_below(rng, NODESIM_DATA);
    ask_numbers(s, METAHOST_MOVE, group, 1 + rng_below(rng, NODESIM_NODES), 1 + rng_below(rng, NODESIM_NODES), 3);
}

/* Nodes that are silent for some seconds are given up: when they come back they find themselves gone. */
static void ask_impatience(struct nodesim *s)
{
    const struct slice argv[] = {SLICE("dead-after-ms"), SLICE("3500")};
    s->impatient = true;
    nodesim_story_ask(s, METAHOST_SET, 0, argv, 2);
}

/* Some clients reach one node only, the others all but that one; mostly while its raft thread stands still, so that it does not hear that others lead by now. Then nothing but a missing confirmation keeps it from showing
 * what is not so any more. */
static void split_clients(struct nodesim *s)
{
    struct nodesim_node *n = some_node(s);
    if (!n) return;
    world_trace(s->w, n->id, "some clients reach this node alone");
    s->split_node = n->id;
    s->split_until = world_now(s->w) + (1500 + rng_below(world_rng(s->w), 2000)) * WORLD_MS;
    if (rng_below(world_rng(s->w), 4)) nodesim_hold_raft(n, s->split_until - world_now(s->w));
}

/* A node whose request to join was heard, but whose answer was lost, is waited for: it asks until it has one. */
static void finish_joins(struct nodesim *s)
{
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        if (!s->machines[id].joining || s->machines[id].member) continue;
        ask_join(s);
        world_after(s->w, 0, 500 * WORLD_MS, NODESIM_ADMIN, 0);
        return;
    }
}

void nodesim_story_admin(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    if (!s->admin) {
        finish_joins(s);
        return;
    }
    world_after(s->w, 0, rng_below(rng, 1000 * WORLD_MS), NODESIM_ADMIN, 0);
    if (rng_below(rng, 8) == 0) split_clients(s);
    switch (rng_below(rng, 8)) {
    case 0: ask_join(s); break;
    case 1:
        if (rng_below(rng, 4) == 0) ask_leave(s);
        break;
    case 2:
    case 3:
    case 4: ask_move(s); break;
    default: ask_numbers(s, METAHOST_LEAD, rng_below(rng, NODESIM_GROUPS), 1 + rng_below(rng, NODESIM_NODES), 0, 2);
    }
}

/* ---- the weather */

/* Each seed has its own: some kinds of faults, more or less often. */
static struct world_faults weather(struct rng *rng)
{
    struct world_faults f = {.leader_crash = 2000 + (uint32_t)rng_below(rng, 3000), .isolate = 1500 + (uint32_t)rng_below(rng, 3000)};
    uint32_t *kinds[] = {&f.crash, &f.power, &f.cut, &f.slow_disk, &f.full_disk, &f.jump, &f.pause};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (rng_below(rng, 2)) *kinds[i] = 800 + (uint32_t)rng_below(rng, 5000);
    static const uint32_t losses[] = {0, 0, 5, 30}, delays[] = {1, 4, 20, 60}, drifts[] = {0, 100, 20000};
    f.loss_permille = losses[rng_below(rng, 4)];
    f.delay_ms = delays[rng_below(rng, 4)];
    f.drift_ppm = drifts[rng_below(rng, 3)];
    return f;
}

/* ---- the end */

static struct nodesim_node *leader_of(struct nodesim *s, uint32_t group, struct raftnode_info *info)
{
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        struct nodesim_node *n = world_node(s->w, id);
        if (n && n->member && n->leads[group] && raftnode_look(n->raft, group, info) == 0 && info->ready) return n;
    }
    return NULL;
}

bool nodesim_story_has_group(struct nodesim *s, uint32_t group)
{
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        const struct nodesim_node *n = world_node(s->w, id);
        if (n && n->member && metagroups_find(metahost_groups(n->meta), group)) return true;
    }
    return false;
}

static void trace_group(struct nodesim *s, uint32_t group)
{
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        struct nodesim_node *n = world_node(s->w, id);
        struct raftnode_info i;
        struct seat_info seat = {0};
        if (!n || !n->member || raftnode_look(n->raft, group, &i) != 0) continue;
        seats_look(n->seats, group, &seat);
        world_trace(s->w, id, "group %u: state %d ready %d installing %d changing %d term %llu leader %llu log %llu..%llu stored %llu commit %llu handed %llu snapshot %llu; seat: serves %d filling %d spoilt %d applied %llu",
                    group, (int)i.state, i.ready, i.installing, i.changing, (unsigned long long)i.term, (unsigned long long)i.leader, (unsigned long long)i.first, (unsigned long long)i.last,
                    (unsigned long long)i.stored, (unsigned long long)i.commit, (unsigned long long)i.handed, (unsigned long long)i.snapshot, seat.serves, seat.filling, seat.spoilt,
                    (unsigned long long)seat.applied);
        for (uint32_t m = 0; m < i.members.n; m++)
            world_trace(s->w, id, "  member %llu role %d match %llu", (unsigned long long)i.members.m[m].node, (int)i.members.m[m].role, (unsigned long long)i.match[m]);
    }
}

static uint64_t digest_of(struct nodesim_node *n, uint32_t group)
{
    struct seat_info seat;
    if (group == META_NODES_GROUP) return metanodes_digest(metahost_nodes(n->meta));
    if (group == META_MAP_GROUP) return metagroups_digest(metahost_groups(n->meta));
    return seats_look(n->seats, group, &seat) && !seat.filling && !seat.spoilt ? store_digest(n->engine->stores[seat.shard]) : 0;
}

/* Every replica is where its leader is, and no operation is under way. A key may expire, and the cluster balance itself, at any time: so there is no end that could be known before. */
static bool is_at_rest(struct nodesim *s)
{
    struct raftnode_info info, other;
    for (uint32_t g = 0; g < NODESIM_GROUPS; g++) {
        if (!nodesim_story_has_group(s, g)) continue;
        if (!leader_of(s, g, &info)) return false;
        for (uint32_t i = 0; i < info.members.n; i++) {
            struct nodesim_node *n = world_node(s->w, (uint32_t)info.members.m[i].node);
            if (!n || !n->member) continue;
            if (metahost_groups(n->meta)->n_ops || (raftnode_look(n->raft, g, &other) == 0 && other.handed != info.last)) return false;
        }
    }
    return true;
}

static void check_group(struct nodesim *s, uint32_t group)
{
    struct raftnode_info info, other;
    struct nodesim_node *leader = leader_of(s, group, &info);
    if (!leader || (group >= META_FIRST_DATA_GROUP && !seats_serves(leader->seats, group))) {
        world_fail(s->w, "group %u has no leader that serves it in the end", group);
        return;
    }
    uint64_t digest = digest_of(leader, group);
    for (uint32_t i = 0; i < info.members.n; i++) {
        uint32_t id = (uint32_t)info.members.m[i].node;
        struct nodesim_node *n = world_node(s->w, id);
        if (info.members.m[i].role < RAFTNODE_STANDBY || !n || !n->member) continue;
        if (raftnode_look(n->raft, group, &other) != 0 || other.handed != info.handed)
            world_fail(s->w, "group %u: node %u is at %llu in the end, its leader at %llu", group, id, (unsigned long long)other.handed, (unsigned long long)info.handed);
        else if (digest_of(n, group) != digest)
            world_fail(s->w, "group %u: node %u has another state than its leader %u in the end", group, id, leader->id);
    }
    world_note(s->w, digest);
    if (group >= META_FIRST_DATA_GROUP && !world_failure(s->w)) {
        nodesim_txn_check(s, leader, group);
        nodesim_mover_check(s, leader, group);
    }
}

/* The cluster has come to rest: no operation is under way, groups have the members that are wanted and as many as there should be, and every node knows who leads them. */
static void check_cluster(struct nodesim *s, const struct nodesim_node *n)
{
    const struct metagroups *groups = metahost_groups(n->meta);
    const struct metanodes *nodes = metahost_nodes(n->meta);
    uint32_t up = 0;
    for (uint32_t i = 0; i < nodes->n; i++) up += nodes->nodes[i].state == METACODE_UP;
    for (uint32_t i = 0; i < groups->n_ops; i++) {
        const struct metaops_op *op = groups->ops[i];
        world_fail(s->w, "node %u: operation %llu of group %u is not at its end: from %llu to %llu, step %d", n->id, (unsigned long long)op->id, op->plan.group,
                   (unsigned long long)op->plan.from, (unsigned long long)op->plan.to, (int)op->step);
    }
    for (uint32_t g = 0; g < NODESIM_GROUPS; g++) {
        struct raftnode_info info;
        const struct nodesim_node *leader = leader_of(s, g, &info);
        const struct metagroups_group *known = metagroups_find(groups, g);
        if (!nodesim_story_has_group(s, g)) continue;
        if (metahost_leader(n->meta, g) != leader->id) world_fail(s->w, "node %u takes %llu for the leader of group %u, but %u is", n->id, (unsigned long long)metahost_leader(n->meta, g), g, leader->id);
        if (!meta_members_equal(&known->told, &info.members)) world_fail(s->w, "node %u does not know the members of group %u", n->id, g);
        if (g >= META_FIRST_DATA_GROUP && (!meta_members_equal(&known->told, &known->wanted) || info.members.n != (up < 3 ? up : 3)))
            world_fail(s->w, "group %u has %u members, %u are wanted, and %u nodes are there", g, info.members.n, known->wanted.n, up);
    }
}

static void check_end(struct nodesim *s)
{
    for (uint32_t g = 0; g < NODESIM_GROUPS && !world_failure(s->w); g++) {
        if (nodesim_story_has_group(s, g)) check_group(s, g);
        if (world_failure(s->w)) trace_group(s, g);
    }
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        struct nodesim_node *n = world_node(s->w, id);
        if (s->machines[id].member && !s->machines[id].gone && (!n || !n->member)) world_fail(s->w, "node %u is not there in the end", id);
        if (!n || !n->member) continue;
        if (world_failure(s->w)) continue;
        check_cluster(s, n);
        for (uint32_t g = 0; g < NODESIM_GROUPS && world_failure(s->w); g++) trace_group(s, g);
        for (uint32_t i = 0; i < n->engine->route.shards; i++) store_check(n->engine->stores[i]);
    }
    nodesim_client_judge(s);
}

static bool has_changed_ranges(const struct nodesim_result *r) { return r->splits + r->merges + r->range_moves > 0; }

static void tell_story(struct nodesim *s)
{
    struct world *w = s->w;
    struct rng *rng = world_rng(w);
    struct world_faults faults = weather(rng);
    s->think_us = 5000 + (uint32_t)rng_below(rng, 60000);
    for (uint32_t i = 1; i <= NODESIM_NODES; i++) world_start(w, i);
    s->load = s->admin = s->changes = true;
    for (uint32_t i = 0; i < NODESIM_CLIENTS; i++) world_after(w, 0, 500 * WORLD_MS, NODESIM_CLIENT, i);
    nodesim_txn_start(s);
    nodesim_lock_start(s);
    nodesim_pipe_start(s);
    nodesim_list_start(s);
    nodesim_topology_start(s);
    if (rng_below(rng, 5) == 0) world_set_faults(w, &faults); /* it may happen while the cluster is founded */
    world_run(w, CALM_MS * WORLD_MS);
    if (rng_below(rng, 2)) ask_join(s);
    if (rng_below(rng, 4) == 0) ask_impatience(s);
    world_after(w, 0, 1, NODESIM_ADMIN, 0);
    world_set_faults(w, &faults);
    world_run(w, FAULTS_MS * WORLD_MS);
    s->admin = false;
    world_heal(w);
    uint64_t writes = s->result->writes;
    world_run(w, PEACE_MS / 2 * WORLD_MS);
    for (int i = 0; i < REST_TRIES && !world_failure(w) && !has_changed_ranges(s->result); i++) world_run(w, 50 * WORLD_MS); /* faults may have kept all changes from ending */
    s->changes = false;
    world_run(w, PEACE_MS / 2 * WORLD_MS);
    s->load = false;
    if (!world_failure(w) && s->result->writes == writes) world_fail(w, "no write was taken after all faults had ended");
    nodesim_client_read_all(s);
    world_run(w, QUIET_MS * WORLD_MS);
    for (int i = 0; i < REST_TRIES && !world_failure(w) && !is_at_rest(s); i++) world_run(w, 50 * WORLD_MS);
    if (!world_failure(w)) check_end(s);
}

/* ---- a run */

static void prepare_machines(struct nodesim *s)
{
    s->founders = 3 + (uint32_t)rng_below(world_rng(s->w), 2);
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        struct nodesim_machine *m = &s->machines[id];
        m->member = id <= s->founders;
        m->instance = 1000 + id;
        m->skew_ms = (int64_t)(world_now(s->w) / WORLD_MS) - (int64_t)world_clock(s->w, id);
        snprintf(m->address, sizeof m->address, "10.0.0.%u:7001", id);
        snprintf(m->clients, sizeof m->clients, "10.0.0.%u:6379", id);
        snprintf(m->name, sizeof m->name, "n%u", id);
    }
}

static void free_sim(struct nodesim *s)
{
    world_free(s->w);
    nodesim_leg_free(s);
    nodesim_mover_free(s);
    nodesim_txn_free(s);
    nodesim_lock_free(s);
    nodesim_pipe_free(s);
    nodesim_list_free(s);
    nodesim_topology_free(s);
    for (uint32_t i = 0; i < s->n_answers; i++) buf_fini(&s->answers[i].reply);
    mem_free(s->answers);
    mem_free(s->requests);
    mem_free(s->probes);
    wgl_free(s->history);
    command_table_free(s->commands);
    slog_close(&s->log);
    mem_free(s);
}

void nodesim_run(uint64_t seed, enum nodesim_mutant mutant, bool trace, struct nodesim_result *out)
{
    const struct command_family families[] = {strings_family, keys_family, txncmd_family, carrycmd_family, rangecmd_family, rangelock_family, spancmd_family, groups_family};
    struct nodesim *s = mem_zalloc(sizeof *s);
    struct world_program program = nodesim_program;
    *out = (struct nodesim_result){0};
    clock_calibrate();
    program.ctx = s;
    s->result = out;
    s->mutant = mutant;
    s->commands = command_table_new(families, sizeof families / sizeof families[0]);
    slog_open(&s->log, NULL, SLOG_TEXT, (enum slog_level)(SLOG_WARNING + 1)); /* its lines have the real time */
    s->history = wgl_new();
    nodesim_leg_new(s);
    nodesim_mover_new(s);
    nodesim_txn_new(s);
    nodesim_lock_new(s);
    nodesim_pipe_new(s);
    nodesim_list_new(s);
    nodesim_topology_new(s);
    s->w = world_new(NODESIM_NODES, seed, &program, trace);
    prepare_machines(s);
    tell_story(s);
    out->failed = world_failure(s->w) != NULL;
    if (out->failed) snprintf(out->why, sizeof out->why, "%s", world_failure(s->w));
    out->world = *world_counts(s->w);
    out->hash = world_hash(s->w);
    out->counts = out->world.crashes && out->reigns > NODESIM_DATA && out->refills + out->installs && out->writes && out->reads && out->wide_writes && out->wide_reads && has_changed_ranges(out);
    free_sim(s);
}
