/* Clients, an administrator, and the story of a run: some seconds of faults, then peace, in which everything must come together. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "raftsim.h"

enum { CALM_MS = 1500, FAULTS_MS = 20000, PEACE_MS = 9000, QUIET_MS = 4000 };

const char *raftsim_mutant_name(enum raftsim_mutant m)
{
    static const char *names[RAFTSIM_MUTANTS] = {"sound", "forgetful-disk", "early-sync", "early-ack", "naive-read", "amnesia"};
    return names[m];
}

/* One of the nodes that take themselves for the leader: there may be an old and a new one. */
static struct raftsim_proc *some_leader(struct raftsim *s, uint32_t group)
{
    uint32_t node = 1 + (uint32_t)rng_below(world_rng(s->w), RAFTSIM_NODES);
    for (uint32_t i = 0; i < RAFTSIM_NODES; i++, node = node % RAFTSIM_NODES + 1) {
        struct raftsim_proc *p = world_node(s->w, node);
        if (p && p->r[group].leads) return p;
    }
    return NULL;
}

/* ---- clients */

static void write_some(struct raftsim_proc *p, uint32_t group)
{
    struct raftsim *s = p->sim;
    struct rng *rng = world_rng(s->w);
    struct raftsim_replica *r = &p->r[group];
    for (uint64_t n = 1 + rng_below(rng, 4); n && r->leads && r->n_writes < RAFTSIM_PENDING; n--) {
        struct buf command = {0};
        uint64_t id = s->next_id++, index;
        uint32_t reg = (uint32_t)rng_below(rng, RAFTCHECK_REGISTERS);
        uint32_t filler = s->large && rng_below(rng, 50) == 0 ? 300 * 1024 : (uint32_t)rng_below(rng, rng_below(rng, 10) ? 100 : 8000);
        raftcheck_command(&command, id, reg, filler);
        int rc = raftnode_submit(p->raft, group, r->term, buf_slice(&command), &index);
        if (rc == 0) {
            if (index <= r->state.applied) world_fail(s->w, "group %u: entry %llu was promised twice", group, (unsigned long long)index);
            if (s->mutant != RAFTSIM_NAIVE_READ) raftcheck_apply(&r->state, index, RAFTNODE_COMMAND, buf_slice(&command)); /* the leader runs ahead */
            r->writes[r->n_writes++] = (struct raftsim_write){index, id};
            if (s->mutant == RAFTSIM_EARLY_ACK) raftcheck_acked(s->check, group, index, id);
        }
        buf_fini(&command);
    }
}

static void read_some(struct raftsim_proc *p, uint32_t group)
{
    struct raftsim_replica *r = &p->r[group];
    uint64_t floor = raftcheck_floor(p->sim->check, group);
    if (r->n_reads == RAFTSIM_PENDING) return;
    uint64_t ticket = p->sim->next_ticket++;
    bool naive = p->sim->mutant == RAFTSIM_NAIVE_READ;
    r->reads[r->n_reads++] = (struct raftsim_read){ticket, floor, r->state, naive};
    if (naive) raftsim_answer(p, group);
    else raftnode_read(p->raft, group, ticket);
}

void raftload_client(struct raftsim *s)
{
    struct rng *rng = world_rng(s->w);
    if (!s->load) return;
    world_after(s->w, 0, 1 + rng_below(rng, 2 * s->client_us), RAFTSIM_CLIENT, 0);
    uint32_t group = (uint32_t)rng_below(rng, RAFTCHECK_GROUPS);
    struct raftsim_proc *p = some_leader(s, group);
    if (!p) return;
    raftsim_wake(p);
    if (rng_below(rng, 2)) write_some(p, group);
    else read_some(p, group);
    raftsim_turn(p);
}

/* ---- the administrator */

static void change_members(struct raftsim_proc *p, uint32_t group)
{
    struct rng *rng = world_rng(p->sim->w);
    struct raftnode_info info;
    CHECK(raftnode_look(p->raft, group, &info) == 0);
    uint64_t node = 1 + rng_below(rng, RAFTSIM_NODES);
    uint32_t voters = 0;
    enum raftnode_role now = RAFTNODE_GONE;
    for (uint32_t i = 0; i < info.members.n; i++) {
        voters += info.members.m[i].role == RAFTNODE_VOTER;
        if (info.members.m[i].node == node) now = info.members.m[i].role;
    }
    enum raftnode_role role = (enum raftnode_role)rng_below(rng, 4);
    if (now == RAFTNODE_GONE && world_now(p->sim->w) < p->sim->banned[group][node]) return;
    if (role == now || (now == RAFTNODE_VOTER && voters <= (rng_below(rng, 4) ? 2 : 1))) role = RAFTNODE_VOTER;
    int rc = raftnode_change(p->raft, group, node, role);
    world_trace(p->sim->w, p->node, "group %u: change of %llu from role %d to %d: %d", group, (unsigned long long)node, (int)now, (int)role, rc);
}

void raftload_admin(struct raftsim *s)
{
    struct rng *rng = world_rng(s->w);
    if (!s->admin) return;
    world_after(s->w, 0, rng_below(rng, 1500 * WORLD_MS), RAFTSIM_ADMIN, 0);
    uint32_t group = (uint32_t)rng_below(rng, RAFTCHECK_GROUPS);
    struct raftsim_proc *p = some_leader(s, group);
    if (!p) return;
    raftsim_wake(p);
    if (rng_below(rng, 3) == 0) {
        uint64_t to = rng_below(rng, RAFTSIM_NODES + 1);
        int rc = raftnode_transfer(p->raft, group, to);
        s->result->transfers += rc == 0;
        world_trace(s->w, p->node, "group %u: hands leadership to %llu: %d", group, (unsigned long long)to, rc);
    } else {
        change_members(p, group);
    }
    raftsim_turn(p);
}

void raftload_removed(struct raftsim *s, uint32_t group, uint32_t node)
{
    s->banned[group][node] = world_now(s->w) + 2000 * WORLD_MS;
    if (rng_below(world_rng(s->w), 2)) world_after(s->w, 0, rng_below(world_rng(s->w), 1000 * WORLD_MS), RAFTSIM_DROP, (uint64_t)group << 32 | node);
}

void raftload_drop(struct raftsim *s, uint32_t group, uint32_t node)
{
    struct raftsim_proc *p = world_node(s->w, node);
    if (!p || !p->r[group].there) return;
    raftsim_wake(p);
    CHECK(raftnode_group_drop(p->raft, group) == 0);
    world_trace(s->w, node, "group %u: drops its replica", group);
    s->durable[node].dropped[group] = true;
    s->result->drops++;
    memset(&p->r[group], 0, sizeof p->r[group]);
    raftsim_turn(p);
}

/* ---- the story */

/* Each seed has its own weather: some kinds of faults, more or less often. */
static struct world_faults weather(struct rng *rng)
{
    struct world_faults f = {.leader_crash = 2000 + (uint32_t)rng_below(rng, 4000)};
    uint32_t *kinds[] = {&f.crash, &f.power, &f.cut, &f.isolate, &f.slow_disk, &f.full_disk, &f.jump};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (rng_below(rng, 2)) *kinds[i] = 500 + (uint32_t)rng_below(rng, 5000);
    static const uint32_t losses[] = {0, 0, 5, 30}, delays[] = {1, 4, 20, 60}, drifts[] = {0, 100, 20000};
    f.loss_permille = losses[rng_below(rng, 4)];
    f.delay_ms = delays[rng_below(rng, 4)];
    f.drift_ppm = drifts[rng_below(rng, 3)];
    return f;
}

static const struct raftnode_info *leader_info(struct raftsim *s, uint32_t group, struct raftnode_info *info)
{
    for (uint32_t node = 1; node <= RAFTSIM_NODES; node++) {
        struct raftsim_proc *p = world_node(s->w, node);
        if (p && p->r[group].leads && raftnode_look(p->raft, group, info) == 0 && info->ready) return info;
    }
    return NULL;
}

/* For who wants to know why a run ended badly. */
static void trace_group(struct raftsim *s, uint32_t group)
{
    for (uint32_t node = 1; node <= RAFTSIM_NODES; node++) {
        struct raftsim_proc *p = world_node(s->w, node);
        struct raftnode_info i;
        if (!p || raftnode_look(p->raft, group, &i) != 0) continue;
        world_trace(s->w, node, "group %u: state %d ready %d installing %d changing %d term %llu leader %llu log %llu..%llu stored %llu commit %llu handed %llu snapshot %llu, room %llu, chores %d", group,
                    (int)i.state, i.ready, i.installing, i.changing, (unsigned long long)i.term, (unsigned long long)i.leader, (unsigned long long)i.first, (unsigned long long)i.last,
                    (unsigned long long)i.stored, (unsigned long long)i.commit, (unsigned long long)i.handed, (unsigned long long)i.snapshot, (unsigned long long)raftlog_capacity(p->log),
                    raftlog_chore_error(p->log));
        for (uint32_t m = 0; m < i.members.n; m++)
            world_trace(s->w, node, "  member %llu role %d match %llu", (unsigned long long)i.members.m[m].node, (int)i.members.m[m].role, (unsigned long long)i.match[m]);
    }
}

/* Every member has every entry, and the same state. */
static void check_converged(struct raftsim *s, uint32_t group)
{
    struct raftnode_info info;
    uint64_t last = raftcheck_last(s->check, group);
    if (!leader_info(s, group, &info)) {
        world_fail(s->w, "group %u has no leader at the end", group);
        return;
    }
    struct raftcheck_state first = {0};
    for (uint32_t i = 0; i < info.members.n; i++) {
        if (info.members.m[i].role == RAFTNODE_SPARE) continue;
        uint32_t node = (uint32_t)info.members.m[i].node;
        struct raftsim_proc *p = world_node(s->w, node);
        const struct raftsim_replica *r = &p->r[group];
        if (r->handed != last || r->state.applied != last)
            world_fail(s->w, "group %u: node %u is at %llu in the end, the log goes to %llu", group, node, (unsigned long long)r->handed, (unsigned long long)last);
        if (!first.applied) first = r->state;
        if (memcmp(&first, &r->state, sizeof first) != 0) world_fail(s->w, "group %u: node %u has another state in the end", group, node);
    }
}

static void tell_story(struct raftsim *s)
{
    struct world *w = s->w;
    struct rng *rng = world_rng(w);
    struct world_faults faults = weather(rng);
    s->client_us = 2000 + (uint32_t)rng_below(rng, 20000);
    s->large = rng_below(rng, 10) == 0;
    for (uint32_t i = 1; i <= RAFTSIM_NODES; i++) world_start(w, i);
    s->load = s->admin = true;
    world_after(w, 0, 1, RAFTSIM_CLIENT, 0);
    if (rng_below(rng, 4)) world_after(w, 0, CALM_MS * WORLD_MS, RAFTSIM_ADMIN, 0);
    world_run(w, CALM_MS * WORLD_MS);
    world_set_faults(w, &faults);
    world_run(w, FAULTS_MS * WORLD_MS);
    s->admin = false;
    world_heal(w);
    uint64_t acks[RAFTCHECK_GROUPS];
    for (uint32_t g = 0; g < RAFTCHECK_GROUPS; g++) acks[g] = raftcheck_acks(s->check, g);
    world_run(w, PEACE_MS * WORLD_MS);
    s->load = false;
    world_run(w, QUIET_MS * WORLD_MS);
    for (uint32_t g = 0; g < RAFTCHECK_GROUPS && !world_failure(w); g++) {
        if (raftcheck_acks(s->check, g) == acks[g]) world_fail(w, "group %u took no write after all faults had ended", g);
        check_converged(s, g);
        if (world_failure(w)) trace_group(s, g);
    }
    raftcheck_end(s->check);
}

void raftsim_run(uint64_t seed, enum raftsim_mutant mutant, bool trace, struct raftsim_result *out)
{
    struct raftsim *s = mem_zalloc(sizeof *s);
    struct world_program program = raftsim_program;
    *out = (struct raftsim_result){0};
    program.ctx = s;
    s->result = out;
    s->mutant = mutant;
    s->next_id = s->next_ticket = 1;
    s->w = world_new(RAFTSIM_NODES, seed, &program, trace);
    s->check = raftcheck_new(s->w);
    tell_story(s);
    out->failed = world_failure(s->w) != NULL;
    if (out->failed) snprintf(out->why, sizeof out->why, "%s", world_failure(s->w));
    out->world = *world_counts(s->w);
    out->hash = world_hash(s->w);
    out->reads = raftcheck_reads(s->check);
    for (uint32_t g = 0; g < RAFTCHECK_GROUPS; g++) out->acks += raftcheck_acks(s->check, g);
    out->counts = out->world.leader_crashes && out->world.completed && out->acks && out->reads && out->vouched;
    world_free(s->w);
    raftcheck_free(s->check);
    mem_free(s);
}
