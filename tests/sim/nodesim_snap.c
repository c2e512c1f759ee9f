/* What cluster/snaphost.h has two threads for, in events: one job at a time, each in steps between which anything can happen, a crash too. The rules are snapper.c's and courier.c's. */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"
#include "cluster/snapstate.h"
#include "dump/dumpfile.h"
#include "nodesim_own.h"
#include "store/table.h"

static const char *const folder = "/n/snapshots";

enum { MARK_TRIES = 200, CUT_TRIES = 200, RETRY_MS = 50, LINGER_MS = 300, REFUSE_MS = 100 };

static const struct file_ops *files_of(const struct nodesim_node *n) { return world_disk(n->sim->w, n->id); }
static bool is_data(uint32_t group) { return group >= META_FIRST_DATA_GROUP; }

/* ---- the queue */

static void plan_job(struct nodesim_node *n, uint64_t us)
{
    struct nodesim_snap *s = &n->snap;
    if (s->planned || !n->log) return;
    s->planned = true;
    world_after(n->sim->w, n->id, us + rng_below(nodesim_rng(n), rng_below(nodesim_rng(n), 8) ? 2 * WORLD_MS : 200 * WORLD_MS), NODESIM_JOB, 0);
}

void nodesim_snap_put(struct nodesim_node *n, const struct nodesim_job *job)
{
    struct nodesim_snap *s = &n->snap;
    bool busy = s->stage != NODESIM_IDLE && s->now.group == job->group;
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        busy |= s->jobs[i].group == job->group;
        if (s->jobs[i].kind != job->kind || s->jobs[i].group != job->group) continue;
        s->jobs[i] = *job;
        return;
    }
    if (job->kind == NODESIM_TAKE && busy) return;
    CHECK(s->n_jobs < sizeof s->jobs / sizeof s->jobs[0]);
    s->jobs[s->n_jobs++] = *job;
    plan_job(n, 1);
}

static void put_again(struct nodesim_node *n, struct nodesim_job job)
{
    job.tries++;
    job.at_ms = n->mono + RETRY_MS;
    nodesim_snap_put(n, &job);
}

static void take_back(struct nodesim_snap *s, uint32_t group, bool only_refills)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].group != group || (only_refills && s->jobs[i].kind != NODESIM_REFILL)) s->jobs[left++] = s->jobs[i];
    s->n_jobs = left;
}

/* The most urgent one that is due. */
static bool choose(struct nodesim_node *n, struct nodesim_job *out)
{
    struct nodesim_snap *s = &n->snap;
    uint32_t best = s->n_jobs;
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].at_ms <= n->mono && (best == s->n_jobs || s->jobs[i].kind < s->jobs[best].kind)) best = i;
    if (best == s->n_jobs) return false;
    *out = s->jobs[best];
    memmove(&s->jobs[best], &s->jobs[best + 1], (--s->n_jobs - best) * sizeof *s->jobs);
    return true;
}

static void end_job(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    groupsnap_close(s->reader);
    groupsnap_writer_free(s->writer);
    s->reader = NULL;
    s->writer = NULL;
    buf_fini(&s->raw);
    s->raw = (struct buf){0};
    s->stage = NODESIM_IDLE;
}

/* ---- files */

static void offer(struct nodesim_node *n, const struct groupdir_file *f, const struct groupsnap_totals *t)
{
    snapshelf_put(&n->snap.shelf, f, t);
    snapsend_put(n->snap.send, f, t);
}

static struct groupdir_file file_of(const struct groupsnap_header *h) { return (struct groupdir_file){.kind = GROUPDIR_SNAPSHOT, .group = h->group, .index = h->index, .term = h->term}; }

/* The snapshot at exactly this index, whole. */
static int open_file(struct nodesim_node *n, uint32_t group, uint64_t index)
{
    struct nodesim_snap *s = &n->snap;
    struct buf why = {0};
    int rc = groupsnap_find(&s->reader, files_of(n), folder, nodesim_cluster, group, index, &why);
    bool found = rc == 1 && groupsnap_header(s->reader)->index == index;
    if (!found) world_trace(n->sim->w, n->id, "group %u: no snapshot at %llu: %d %.*s", group, (unsigned long long)index, rc, (int)why.len, why.p ? why.p : "");
    buf_fini(&why);
    if (!found) return rc < 0 ? rc : -ENOENT;
    struct groupdir_file f = file_of(groupsnap_header(s->reader));
    struct groupsnap_totals t = groupsnap_totals(s->reader);
    offer(n, &f, &t);
    return 0;
}

static void delete_file(struct nodesim_node *n, const struct nodesim_job *j)
{
    struct groupdir_file f = {.kind = GROUPDIR_SNAPSHOT, .group = j->group, .index = j->index, .term = j->term};
    struct snapshelf_item item;
    char path[GROUPDIR_PATH_MAX];
    if (!snapshelf_find(&n->snap.shelf, j->group, j->index, &item) || !snapshelf_take_out(&n->snap.shelf, j->group, j->index, item.totals.checksum)) return;
    CHECK(groupdir_path(path, folder, &f) == 0);
    files_of(n)->unlink(files_of(n)->ctx, path);
}

/* ---- filling */

struct fill {
    struct nodesim_node *node;
    uint64_t serial;
};

/* On the worker. */
static void filled(void *ctx, uint32_t group, uint64_t index)
{
    struct fill *f = ctx;
    struct nodesim_node *n = f->node;
    if (n->log && n->snap.stage == NODESIM_FILLING && n->snap.serial == f->serial) {
        n->snap.stage = NODESIM_FILLED;
        plan_job(n, 1);
    }
    mem_free(f);
}

static void say_filled(struct nodesim_node *n, uint64_t index, uint64_t term)
{
    struct fill *f = mem_alloc(sizeof *f);
    *f = (struct fill){n, n->snap.serial};
    n->snap.stage = NODESIM_FILLING;
    if (!seat_filled(n->snap.seat, index, term, filled, f)) filled(f, n->snap.now.group, index);
    nodesim_plan_work(n);
}

static void fill_seat(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct slice raw;
    struct buf why = {0};
    int rc = 0;
    while (s->reader && (rc = groupsnap_next(s->reader, &raw, &why)) == 1) seat_fill(s->seat, raw);
    CHECK(rc == 0);
    say_filled(n, s->now.index, s->reader ? groupsnap_header(s->reader)->term : 0);
    groupsnap_close(s->reader);
    s->reader = NULL;
}

static void fill_state(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct buf state = {0}, why = {0};
    struct slice raw;
    uint64_t pieces = 0;
    while (s->reader && groupsnap_next(s->reader, &raw, &why) == 1) CHECK(snapstate_take(raw, &pieces, &state));
    if (!metahost_restore(n->meta, s->now.group, buf_slice(&state), s->now.index)) world_fail(n->sim->w, "group %u: node %u cannot use its snapshot", s->now.group, n->id);
    buf_fini(&state);
    s->stage = NODESIM_FILLED;
    plan_job(n, 1);
}

/* A spoilt seat that mutants leave as it is: one goes on from where it is, the other gets the log once more. */
static bool skips_refill(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct seat_info seat;
    enum nodesim_mutant m = n->sim->mutant;
    if (s->now.kind != NODESIM_REFILL || !is_data(s->now.group) || (m != NODESIM_NO_REFILL && m != NODESIM_TWICE)) return false;
    if (m == NODESIM_NO_REFILL && seats_look(n->seats, s->now.group, &seat)) s->now.index = seat.applied;
    say_filled(n, s->now.index, raftlog_term(n->log, s->now.group, s->now.index));
    return true;
}

static void begin_fill(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    const struct nodesim_job *j = &s->now;
    int rc = j->index ? open_file(n, j->group, j->index) : 0;
    if (rc < 0) {
        if (j->kind == NODESIM_INSTALL) raftnode_installed(n->raft, j->group, j->index, rc);
        else world_fail(n->sim->w, "group %u: node %u cannot go on from its snapshot at %llu: %d", j->group, n->id, (unsigned long long)j->index, rc);
        end_job(n);
        return;
    }
    if (!is_data(j->group)) {
        fill_state(n);
        return;
    }
    s->seat = seats_find(n->seats, j->group);
    if (!s->seat) {
        end_job(n);
    } else if (!skips_refill(n)) {
        seat_fill_begin(s->seat);
        s->stage = NODESIM_BEGUN;
        plan_job(n, 1);
    }
}

/* A refill that comes too late, when the seat was filled otherwise, must not empty it. */
static void begin_refill(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct raftnode_info info;
    struct seat_info seat;
    uint32_t group = s->now.group;
    bool there = raftnode_look(n->raft, group, &info) == 0;
    bool spoilt = s->now.is_filled || (seats_look(n->seats, group, &seat) && (seat.spoilt || seat.filling));
    if (there && spoilt && !info.installing) {
        n->sim->result->refills++;
        s->now.index = info.snapshot;
        begin_fill(n);
        return;
    }
    end_job(n);
    if (there && spoilt) put_again(n, s->now);
}

static void begin_install(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    if (s->now.rc == 0) {
        begin_fill(n);
        return;
    }
    raftnode_installed(n->raft, s->now.group, s->now.index, s->now.rc);
    end_job(n);
}

static bool is_over(int rc) { return rc == 0 || rc == -ENOENT; }

/* The state is there: its log goes on from it. */
static void end_fill(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct nodesim_job j = s->now;
    struct nodesim_job refill = {.kind = NODESIM_REFILL, .group = j.group, .is_filled = true};
    int rc = 0;
    switch (j.kind) {
    case NODESIM_RECOVER:
        rc = raftnode_group_resume(n->raft, j.group, j.index);
        if (rc < 0) world_fail(n->sim->w, "group %u: the log of node %u does not go on from %llu: %d", j.group, n->id, (unsigned long long)j.index, rc);
        n->sim->result->recoveries++;
        break;
    case NODESIM_REFILL: rc = raftnode_rewind(n->raft, j.group, j.index); break;
    default:
        take_back(s, j.group, true); /* it has something newer than what was spoilt */
        rc = raftnode_installed(n->raft, j.group, j.index, 0);
        n->sim->result->installs += rc == 0;
    }
    world_trace(n->sim->w, n->id, "group %u: %s at %llu: %d", j.group, j.kind == NODESIM_RECOVER ? "is back" : j.kind == NODESIM_REFILL ? "is made anew" : "has its leader's snapshot",
                (unsigned long long)j.index, rc);
    end_job(n);
    if (!is_over(rc)) put_again(n, refill); /* the log has a newer snapshot by now, or is offered one, or did not want this one */
}

/* ---- taking */

struct copier {
    struct nodesim_snap *snap;
    uint16_t db;
};

static void copy_one(void *ctx, struct entry *e)
{
    struct copier *c = ctx;
    dumpfile_add_entry(&c->snap->raw, c->db, e);
    c->snap->entries++;
}

static void copy_store(struct nodesim_snap *s, struct store *store)
{
    for (uint16_t db = 0; db < STORE_ALL_DBS; db++) {
        uint64_t cursor = 0;
        if (!store->dbs[db]) continue;
        do table_scan(&store->dbs[db]->keys, &cursor, 64, copy_one, &(struct copier){s, db});
        while (cursor);
    }
}

static bool cut_seat(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct seat_info seat;
    if (!seats_look(n->seats, s->now.group, &seat) || seat.spoilt || seat.filling) return false;
    seat_mark(n->seats, s->now.group, &s->mark);
    copy_store(s, n->engine->stores[seat.shard]);
    return true;
}

static bool cut_state(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct buf state = {0};
    s->mark = (struct seat_mark){0};
    metahost_state(n->meta, s->now.group, &state, &s->mark.index, &s->mark.term);
    s->entries = snapstate_add(&s->raw, buf_slice(&state));
    buf_fini(&state);
    return true;
}

static void begin_take(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct raftnode_info info;
    s->entries = 0;
    if (raftnode_look(n->raft, s->now.group, &info) != 0 || info.installing || info.handed <= info.snapshot || !(is_data(s->now.group) ? cut_seat(n) : cut_state(n))) {
        end_job(n);
        return;
    }
    s->header = (struct groupsnap_header){.group = s->now.group, .cut_ms = nodesim_unix_ms(n)};
    memcpy(s->header.cluster, nodesim_cluster, sizeof s->header.cluster);
    s->stage = NODESIM_CUT;
    plan_job(n, 1);
}

/* The store ran ahead of the log: what it had at the cut is worth a snapshot when that is committed. */
static void write_cut(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct seat_info seat;
    struct snapshelf_item item;
    int rc = is_data(s->now.group) ? seat_mark_index(n->seats, s->now.group, &s->mark) : 0;
    if (rc == -EAGAIN && s->now.tries++ < CUT_TRIES) {
        plan_job(n, 2 * WORLD_MS);
        return;
    }
    if (rc == 0 && is_data(s->now.group) && (!seats_look(n->seats, s->now.group, &seat) || seat.spoilt || seat.filling)) rc = -ECANCELED;
    if (rc == 0 && (s->mark.index == 0 || snapshelf_find(&s->shelf, s->now.group, s->mark.index, &item))) rc = -EALREADY;
    if (rc == 0) {
        s->header.index = s->mark.index;
        s->header.term = s->mark.term;
        metahost_members_of(n->meta, s->now.group, &s->header.members);
        rc = groupsnap_create(&s->writer, files_of(n), folder, &s->header, COMPRESS_FAST);
    }
    if (rc == 0 && s->entries) rc = groupsnap_write(s->writer, buf_slice(&s->raw), s->entries);
    if (rc < 0) {
        end_job(n);
        return;
    }
    s->stage = NODESIM_WRITING;
    plan_job(n, 1);
}

static void end_take(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    struct rng *rng = nodesim_rng(n);
    struct groupsnap_totals totals;
    struct groupdir_file f = file_of(&s->header);
    int rc = groupsnap_finish(s->writer, &totals);
    if (rc == 0) {
        world_trace(n->sim->w, n->id, "group %u: has a snapshot at %llu, %llu keys", f.group, (unsigned long long)f.index, (unsigned long long)totals.entries);
        offer(n, &f, &totals);
        uint32_t trailing = rng_below(rng, 2) ? (uint32_t)rng_below(rng, 20) : 0;
        nodesim_snap_put(n, &(struct nodesim_job){.kind = NODESIM_MARK, .group = f.group, .index = f.index, .term = f.term, .trailing = trailing});
        n->sim->result->snapshots++;
    }
    end_job(n);
}

/* A snapshot that the log does not know is of no use to it, and nobody asks for it. */
static void mark(struct nodesim_node *n)
{
    struct nodesim_job j = n->snap.now;
    int rc = raftnode_snapshotted(n->raft, j.group, j.index, j.trailing);
    end_job(n);
    if (rc == -EAGAIN && j.tries < MARK_TRIES) put_again(n, j);
    else if (rc < 0) delete_file(n, &j);
}

/* ---- the snapper's turn */

static void begin_job(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    if (!choose(n, &s->now)) return;
    s->serial++;
    s->unwanted = false;
    s->stage = NODESIM_BEGUN;
    switch (s->now.kind) {
    case NODESIM_RECOVER: begin_fill(n); break;
    case NODESIM_REFILL: begin_refill(n); break;
    case NODESIM_INSTALL: begin_install(n); break;
    case NODESIM_MARK: mark(n); break;
    case NODESIM_TAKE: begin_take(n); break;
    }
}

void nodesim_snap_job(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    s->planned = false;
    if (s->unwanted && s->stage != NODESIM_IDLE) end_job(n);
    switch (s->stage) {
    case NODESIM_IDLE: begin_job(n); break;
    case NODESIM_BEGUN: fill_seat(n); break;
    case NODESIM_FILLING: break;
    case NODESIM_FILLED: end_fill(n); break;
    case NODESIM_CUT: write_cut(n); break;
    case NODESIM_WRITING: end_take(n); break;
    }
    if (s->stage == NODESIM_IDLE && s->n_jobs) plan_job(n, 10 * WORLD_MS);
}

void nodesim_snap_drop(struct nodesim_node *n, uint32_t group)
{
    struct nodesim_snap *s = &n->snap;
    take_back(s, group, false);
    if (s->stage != NODESIM_IDLE && s->now.group == group) {
        s->unwanted = true;
        plan_job(n, 1);
    }
    snapfetch_cancel(s->fetch, group);
    snapsend_drop_before(s->send, group, UINT64_MAX);
    snapshelf_drop_before(&s->shelf, group, UINT64_MAX);
    s->delete_at[group] = 0;
    groupdir_drop_group(files_of(n), folder, group);
}

/* ---- the courier */

static void send_frame(void *ctx, uint64_t peer, struct slice frame) { nodesim_send(ctx, peer, frame); }

static void fetched(void *ctx, uint32_t group, uint64_t index, uint64_t term, int rc)
{
    struct nodesim_node *n = ctx;
    world_trace(n->sim->w, n->id, "group %u: the snapshot at %llu is fetched: %d", group, (unsigned long long)index, rc);
    nodesim_snap_put(n, &(struct nodesim_job){.kind = NODESIM_INSTALL, .group = group, .index = index, .term = term, .rc = rc, .at_ms = n->mono + (rc ? REFUSE_MS : 0)});
}

void nodesim_snap_describe(struct nodesim_node *n, uint32_t group, uint64_t index, struct buf *out)
{
    struct snapshelf_item item;
    if (snapshelf_find(&n->snap.shelf, group, index, &item)) snapsend_add_offer(out, &item.file, &item.totals);
}

void nodesim_snap_install(struct nodesim_node *n, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    int rc = snapfetch_start(n->snap.fetch, from, group, index, term, descriptor, n->mono);
    if (rc < 0) fetched(n, group, index, term, rc);
}

void nodesim_snap_marked(struct nodesim_node *n, uint32_t group, uint64_t index)
{
    n->snap.marked[group] = index;
    n->snap.delete_at[group] = n->mono + LINGER_MS;
}

/* Who says DONE may be one who gives or one who gets. */
void nodesim_snap_frame(struct nodesim_node *n, uint64_t from, const struct wire_frame *f)
{
    if (f->type != WIRE_SNAP_CHUNK) snapsend_receive(n->snap.send, from, f, n->mono);
    if (f->type != WIRE_SNAP_WANT) snapfetch_receive(n->snap.fetch, from, f, n->mono);
}

static void delete_old(struct nodesim_node *n, uint32_t group)
{
    struct nodesim_snap *s = &n->snap;
    s->delete_at[group] = 0;
    snapshelf_drop_before(&s->shelf, group, s->marked[group]);
    snapsend_drop_before(s->send, group, s->marked[group]);
    groupdir_drop_before(files_of(n), folder, group, s->marked[group]);
}

void nodesim_snap_courier(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    s->courier_at = UINT64_MAX;
    for (uint32_t g = 0; g < NODESIM_GROUPS; g++)
        if (s->delete_at[g] && s->delete_at[g] <= n->mono) delete_old(n, g);
    snapsend_step(s->send, n->mono);
    snapfetch_step(s->fetch, n->mono);
    snapsend_check(s->send);
    snapfetch_check(s->fetch);
}

void nodesim_snap_plan(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    uint64_t next = snapsend_next(s->send), fetch = snapfetch_next(s->fetch);
    if (fetch < next) next = fetch;
    for (uint32_t g = 0; g < NODESIM_GROUPS; g++)
        if (s->delete_at[g] && s->delete_at[g] < next) next = s->delete_at[g];
    if (next >= s->courier_at) return;
    s->courier_at = next;
    world_after(n->sim->w, n->id, 50 + rng_below(nodesim_rng(n), 500) + (next > n->mono ? next - n->mono : 0) * WORLD_MS, NODESIM_COURIER, 0);
}

/* ---- life */

void nodesim_snap_open(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    const struct file_ops *files = files_of(n);
    files->mkdir(files->ctx, folder);
    CHECK(files->sync_dir(files->ctx, "/n") == 0);
    uint32_t groups[NODESIM_GROUPS], count = raftnode_found(n->log, groups, NODESIM_GROUPS);
    CHECK(groupdir_sweep(files, folder, groups, count) == 0);
    snapshelf_init(&s->shelf);
    s->courier_at = UINT64_MAX;
    s->send = snapsend_new(&(struct snapsend_options){.files = files, .dir = folder, .now = n->mono, .chunk_bytes = 200, .send = send_frame, .ctx = n});
    struct snapfetch_options o = {.files = files, .dir = folder, .now = n->mono, .window_bytes = 1000, .retry_ms = 200, .give_up_ms = 1500, .send = send_frame, .done = fetched, .ctx = n};
    memcpy(o.cluster, nodesim_cluster, sizeof o.cluster);
    s->fetch = snapfetch_new(&o);
}

void nodesim_snap_close(struct nodesim_node *n)
{
    struct nodesim_snap *s = &n->snap;
    end_job(n);
    snapsend_free(s->send);
    snapfetch_free(s->fetch);
    snapshelf_fini(&s->shelf);
}
