/* A seat between its worker and its log: a node leads and loses its place, entries are committed, replaced, or never proposed, and whatever happens the seat ends with what the log says, and no answer told
 * anything else.
 *
 * The log is the test's: one array of entries, a place up to which it is committed, and this node's view of who leads. A twin applies what is committed. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>

#include "base/rng.h"
#include "cluster/seat.h"
#include "cluster/seatapply.h"
#include "cluster/seatentry.h"
#include "dump/dumpfile.h"
#include "store/table.h"

enum { GROUP = 2, KEYS = 8, LOG_MAX = 4096, HOLDS_MAX = 512 };

struct entry_of_log {
    uint64_t term;
    enum raftnode_entry_type type;
    struct buf data;
};

struct asked {
    struct hold hold;
    bool wrote;
    char key[16], value[24]; /* of a write: unique; of a read: what it showed */
};

struct scene {
    struct rig *rig;
    struct worker *w;
    struct seats *seats;
    struct rng rng;
    struct entry_of_log log[LOG_MAX]; /* from index 1 */
    uint64_t last, commit, handed, term;
    bool leads, stalled; /* stalled: Raft refuses proposals for now */
    bool stopped;        /* truncated: nothing is handed until it is rewound */
    bool wants_refill, rewind;
    uint64_t rewind_to;
    bool fall; /* this node loses its place in the middle of the next command */
    uint64_t rounds_asked, snapshot; /* snapshot: the twin's index when it was taken */
    struct buf image;
    uint64_t image_entries;
    struct store *twin;
    struct seatapply twin_apply;
    struct asked asked[HOLDS_MAX];
    uint32_t n_asked;
    uint64_t unique, done, lost, uncertain, refills, reigns, bounced, reads;
};

static struct scene *sc;

/* ---- the Raft of this node */

static void wake(void *ctx) {}

static void append(uint64_t term, enum raftnode_entry_type type, struct slice data)
{
    assert_true(sc->last + 1 < LOG_MAX);
    struct entry_of_log *e = &sc->log[++sc->last];
    *e = (struct entry_of_log){.term = term, .type = type};
    buf_add_slice(&e->data, data);
}

static int propose(void *ctx, uint32_t group, uint64_t term, struct slice data, uint64_t *index)
{
    if (!sc->leads || term != sc->term) return -EPERM;
    if (sc->stalled) return -EAGAIN;
    append(term, RAFTNODE_COMMAND, data);
    *index = sc->last;
    return 0;
}

static void ask_round(void *ctx, uint32_t group, uint64_t round) { sc->rounds_asked = round; }
static void refill(void *ctx, uint32_t group) { sc->wants_refill = true; }
static void told(void *ctx) {}

static void work(void)
{
    for (int i = 0; i < 8; i++) {
        engine_receive(sc->w);
        task_pump(sc->w);
    }
}

static void turn(void)
{
    seats_turn(sc->seats, 1000);
    seats_tell(sc->seats);
    work();
}

static void hand(void)
{
    while (!sc->stopped && sc->handed < sc->commit) {
        const struct entry_of_log *e = &sc->log[++sc->handed];
        seats_committed(sc->seats, GROUP, &(struct raftnode_entry){.index = sc->handed, .term = e->term, .type = e->type, .data = buf_slice(&e->data)}, 1);
    }
    work();
}

/* ---- the twin: what is committed */

static uint64_t twin_term(uint64_t index) { return index ? sc->log[index].term : 0; }

static void commit(uint64_t to)
{
    while (sc->commit < to) {
        const struct entry_of_log *e = &sc->log[++sc->commit];
        struct buf gathered = {0};
        uint64_t index = sc->commit - 1, term = twin_term(index);
        seatapply_add(&gathered, &(struct raftnode_entry){.index = sc->commit, .term = e->term, .type = e->type, .data = buf_slice(&e->data)});
        seatapply_entries(&sc->twin_apply, buf_slice(&gathered), &index, &term);
        buf_fini(&gathered);
    }
}

static void each_entry(struct store *s, void (*each)(uint16_t db, const struct entry *e))
{
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        if (!s->dbs[db]) continue;
        for (int k = 0; k < KEYS; k++) {
            char key[16];
            struct place at;
            snprintf(key, sizeof key, "k%d", k);
            store_peek(s, db, keyhash(slice_str(key), s->seed), slice_str(key), &at);
            if (at.e) each(db, at.e);
        }
    }
}

static void copy_entry(uint16_t db, const struct entry *e) { dumpfile_add_entry(&sc->image, db, e); }

static void take_snapshot(void)
{
    sc->image.len = 0;
    sc->snapshot = sc->commit;
    each_entry(sc->twin, copy_entry);
}

/* ---- clients */

static void ask(bool write)
{
    struct asked *a = &sc->asked[sc->n_asked];
    struct task t = {0};
    struct buf out = {0};
    snprintf(a->key, sizeof a->key, "k%d", (int)rng_below(&sc->rng, KEYS));
    if (write) snprintf(a->value, sizeof a->value, "v%llu", (unsigned long long)++sc->unique);
    const struct slice argv[] = {slice_str(write ? "set" : "get"), slice_str(a->key), slice_str(a->value)};
    t.out = &out;
    t.resp = 2;
    task_add(&t, sc->rig->engine, command_find(sc->rig->table, argv[0]), argv, write ? 3 : 2);
    t.end = 1;
    assert_true(task_start(sc->w, &t));
    assert_int_equal(t.n_holds, 1);
    a->hold = t.holds[0];
    a->wrote = write;
    if (a->hold.bounced) {
        sc->bounced++;
    } else {
        if (!write) snprintf(a->value, sizeof a->value, "%.*s", out.len > 6 ? (int)out.len - 6 : 0, out.len > 6 ? out.p + 4 : "");
        sc->n_asked++;
    }
    task_fini(&t);
    buf_fini(&out);
}

/* Is the write in the log at or before this index? */
static uint64_t place_of(const char *value, uint64_t upto)
{
    for (uint64_t i = 1; i <= upto; i++)
        if (sc->log[i].data.len && memmem(sc->log[i].data.p, sc->log[i].data.len, value, strlen(value)) && strlen(value)) {
            const char *at = memmem(sc->log[i].data.p, sc->log[i].data.len, value, strlen(value));
            const char *end = at + strlen(value);
            if (end == sc->log[i].data.p + sc->log[i].data.len || *end < '0' || *end > '9') return i;
            for (at = end; (at = memmem(at, (size_t)(sc->log[i].data.p + sc->log[i].data.len - at), value, strlen(value)));) {
                end = at + strlen(value);
                if (end == sc->log[i].data.p + sc->log[i].data.len || *end < '0' || *end > '9') return i;
                at = end;
            }
        }
    return 0;
}

static void settle_answers(void)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < sc->n_asked; i++) {
        struct asked *a = &sc->asked[i];
        switch (seat_outcome(&a->hold)) {
        case SEAT_WAIT: sc->asked[left++] = *a; break;
        case SEAT_DONE:
            if (a->wrote) assert_true(place_of(a->value, sc->commit) > 0);
            else if (a->value[0]) assert_true(place_of(a->value, sc->commit) > 0); /* it showed what is committed */
            if (a->wrote) sc->done++;
            else sc->reads++;
            break;
        case SEAT_LOST:
            if (a->wrote) assert_int_equal(place_of(a->value, sc->commit), 0); /* and never will be: looked at again in the end */
            sc->lost++;
            break;
        case SEAT_UNCERTAIN: sc->uncertain++; break;
        }
    }
    sc->n_asked = left;
}

/* ---- what happens */

static void become_leader(void)
{
    if (sc->leads || sc->stopped) return;
    sc->term++;
    append(sc->term, RAFTNODE_BARRIER, SLICE(""));
    commit(sc->last);
    hand();
    sc->leads = true;
    seats_role(sc->seats, GROUP, RAFTNODE_LEADER, sc->term, 1);
    sc->reigns++;
    work();
}

static void fall(void)
{
    sc->leads = false;
    seats_role(sc->seats, GROUP, RAFTNODE_FOLLOWER, sc->term + 1, 0);
}

/* Between a command's ops and the moment they are taken: every command counts as slow here. */
static void in_a_command(void *ctx, const struct task *t, const struct exec *x, uint64_t ticks)
{
    if (!sc->fall) return;
    sc->fall = false;
    fall();
}

static void lose_leadership(bool in_command)
{
    if (!sc->leads) return;
    sc->fall = in_command;
    if (in_command) ask(rng_below(&sc->rng, 4) != 0);
    if (sc->leads) fall();
    sc->fall = false;
    sc->term++;
    /* Another node leads: it keeps some of what is not committed, and replaces the rest. */
    uint64_t keep = sc->commit + rng_below(&sc->rng, sc->last - sc->commit + 1);
    bool cut = keep < sc->last;
    while (sc->last > keep) buf_fini(&sc->log[sc->last--].data);
    if (cut) {
        sc->stopped = true;
        seats_truncated(sc->seats, GROUP, keep + 1);
    }
    struct buf ops = {0}, entry = {0};
    char key[16], value[24];
    size_t at = 0;
    snprintf(key, sizeof key, "k%d", (int)rng_below(&sc->rng, KEYS));
    snprintf(value, sizeof value, "other%llu", (unsigned long long)++sc->unique);
    seatentry_add_op(&ops, &(struct op){.kind = OP_SET, .key = slice_str(key), .value = slice_str(value)});
    assert_true(seatentry_next(buf_slice(&ops), 1, &at, &entry));
    append(sc->term, RAFTNODE_COMMAND, buf_slice(&entry));
    buf_fini(&ops);
    buf_fini(&entry);
    turn();
}

static void filled(void *ctx, uint32_t group, uint64_t index)
{
    sc->rewind = true;
    sc->rewind_to = index;
}

/* Comes some time after the seat was filled; entries may be handed in between. */
static void do_rewind(void)
{
    if (!sc->rewind) return;
    sc->rewind = sc->stopped = false;
    sc->handed = sc->rewind_to;
}

static void do_refill(void)
{
    if (!sc->wants_refill) return;
    sc->wants_refill = false;
    sc->refills++;
    struct seat *seat = seats_find(sc->seats, GROUP);
    assert_true(seat_fill_begin(seat));
    if (sc->image.len) assert_true(seat_fill(seat, buf_slice(&sc->image)));
    assert_true(seat_filled(seat, sc->snapshot, twin_term(sc->snapshot), filled, NULL));
    work();
}

static void confirm(void)
{
    if (sc->rounds_asked) seats_confirmed(sc->seats, GROUP, sc->rounds_asked, sc->leads ? 0 : -EPERM);
}

static void step(void)
{
    switch (rng_below(&sc->rng, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: ask(true); break;
    case 4:
    case 5: ask(false); break;
    case 6:
    case 7: turn(); break;
    case 8: confirm(); break;
    case 9:
    case 10:
        if (sc->last > sc->commit) commit(sc->commit + 1 + rng_below(&sc->rng, sc->last - sc->commit));
        break;
    case 11: hand(); break;
    case 12: become_leader(); break;
    case 13:
        if (rng_below(&sc->rng, 3) == 0) lose_leadership(rng_below(&sc->rng, 2));
        break;
    case 14:
        if (rng_below(&sc->rng, 2)) do_refill();
        else do_rewind();
        break;
    default:
        sc->stalled = rng_below(&sc->rng, 4) == 0;
        if (rng_below(&sc->rng, 4) == 0 && sc->handed == sc->commit) take_snapshot(); /* of what this node has heard of */
    }
    settle_answers();
}

static void come_to_rest(void)
{
    sc->stalled = false;
    for (int i = 0; i < 6; i++) {
        turn();
        do_refill();
        do_rewind();
        commit(sc->last);
        hand();
        become_leader();
        turn();
        confirm();
        turn();
    }
    settle_answers();
}

static void open_scene(struct scene *scene, uint64_t seed)
{
    sc = scene;
    rng_init(&sc->rng, seed);
    sc->rig = rig_new(1, 3);
    sc->w = sc->rig->workers[0];
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = GROUP, .first = 0, .last = UINT64_MAX};
    sc->seats = seats_new(&(struct seats_options){.engine = sc->rig->engine, .raft = {NULL, wake, propose, ask_round}, .now = 1000, .refill = refill, .told = told});
    engine_set_map(sc->rig->engine, NULL, spaces_new(&sc->rig->engine->route, SPACE_BUCKET, &all, 1, 1));
    assert_int_equal(seats_add(sc->seats, GROUP), 0);
    sc->rig->engine->hooks.slow = in_a_command;
    atomic_store(&sc->rig->engine->slow_ticks, 0);
    work();
    sc->twin = store_new(sc->rig->engine->route.seed, &sc->rig->engine->limits, 7);
    seatapply_init(&sc->twin_apply, sc->twin);
}

static void close_scene(void)
{
    seats_free(sc->seats);
    seatapply_fini(&sc->twin_apply);
    store_free(sc->twin);
    buf_fini(&sc->image);
    for (uint64_t i = 1; i <= sc->last; i++) buf_fini(&sc->log[i].data);
    rig_free(sc->rig);
}

static void walk(uint64_t seed, uint64_t sums[6])
{
    struct scene scene = {0};
    open_scene(&scene, seed);
    for (int i = 0; i < 600 && sc->last < LOG_MAX - 300 && sc->n_asked < HOLDS_MAX - 2; i++) step();
    come_to_rest();
    assert_int_equal(sc->n_asked, 0);
    uint64_t reads = sc->reads; /* a seat that was made anew in between is read from without a write before */
    ask(false);
    turn();
    confirm();
    settle_answers();
    assert_int_equal(sc->reads, reads + 1);
    struct seat_info info;
    assert_true(seats_look(sc->seats, GROUP, &info));
    assert_true(info.serves);
    assert_int_equal(store_digest(sc->rig->engine->stores[info.shard]), store_digest(sc->twin));
    const uint64_t counts[6] = {sc->done, sc->lost, sc->refills, sc->reigns, sc->bounced, sc->reads};
    for (int i = 0; i < 6; i++) sums[i] += counts[i];
    assert_int_equal(sc->uncertain, 0); /* the log tells of everything here */
    close_scene();
}

static void a_seat_ends_with_what_its_log_says_and_answers_tell_nothing_else(void **state)
{
    uint64_t sums[6] = {0};
    for (uint64_t seed = 1; seed <= 200; seed++) walk(seed, sums);
    for (int i = 0; i < 6; i++) assert_true(sums[i] > 100); /* done, lost, refills, reigns, bounced, reads */
}

/* A leader is lost between two pieces of an entry; who comes next never sees the other one. */
static void a_cut_of_a_leader_is_where_its_own_entries_are_not_before_half_an_entry_of_another(void **state)
{
    struct scene scene = {0};
    struct buf ops = {0}, entry = {0}, value = {0};
    size_t at = 0;
    struct seat_mark mark;
    open_scene(&scene, 1);
    memset(buf_room(&value, SEATENTRY_PIECE), 'x', SEATENTRY_PIECE);
    value.len = SEATENTRY_PIECE;
    seatentry_add_op(&ops, &(struct op){.kind = OP_SET, .key = SLICE("k0"), .value = buf_slice(&value)});
    assert_true(seatentry_next(buf_slice(&ops), 1, &at, &entry));
    assert_true(at < ops.len);
    append(++sc->term, RAFTNODE_COMMAND, buf_slice(&entry));
    commit(1);
    hand();
    seat_mark(sc->seats, GROUP, &mark);
    assert_int_equal(mark.index, 0); /* the other half may come */
    become_leader();
    ask(true);
    turn();
    commit(sc->last);
    hand();
    seat_mark(sc->seats, GROUP, &mark);
    assert_int_equal(mark.sequence, 0);
    assert_int_equal(mark.index, sc->last);
    assert_int_equal(mark.term, sc->term);
    settle_answers();
    assert_int_equal(sc->done, 1);
    buf_fini(&ops);
    buf_fini(&entry);
    buf_fini(&value);
    close_scene();
}

/* ---- a replica is dropped while another thread fills its seat */

struct filler {
    struct buf image;
    struct seat *seat;
    atomic_bool begins;
};

static void *fill_once(void *ctx)
{
    struct filler *f = ctx;
    atomic_store(&f->begins, true);
    seat_fill(f->seat, buf_slice(&f->image));
    return NULL;
}

static void drop_while_filled(struct filler *f)
{
    pthread_t thread;
    struct seat_info info;
    assert_true(seats_look(sc->seats, GROUP, &info));
    atomic_store(&f->begins, false);
    f->seat = seats_find(sc->seats, GROUP);
    seat_fill_begin(f->seat);
    assert_int_equal(pthread_create(&thread, NULL, fill_once, f), 0);
    while (!atomic_load(&f->begins)) continue;
    seats_remove(sc->seats, GROUP);
    work();
    pthread_join(thread, NULL);
    work();
    assert_int_equal(store_keys(sc->rig->engine->stores[info.shard], 0), 0);
    assert_int_equal(seats_add(sc->seats, GROUP), 0);
    work();
}

static void nothing_comes_into_a_seat_that_its_group_has_left(void **state)
{
    struct scene scene = {0};
    struct filler f = {0};
    static char value[4 << 20]; /* long, so that there is time between the look for the seat and the mail */
    struct place at;
    open_scene(&scene, 1);
    store_apply(sc->twin, &(struct op){.kind = OP_SET, .key = SLICE("k0"), .value = slice_of(value, sizeof value)}, NULL);
    store_peek(sc->twin, 0, keyhash(SLICE("k0"), sc->twin->seed), SLICE("k0"), &at);
    dumpfile_add_entry(&f.image, 0, at.e);
    for (int i = 0; i < 100; i++) drop_while_filled(&f);
    buf_fini(&f.image);
    close_scene();
}

static void add_entry(struct buf *image, const char *key)
{
    struct slice k = slice_str(key);
    struct place at;
    store_apply(sc->twin, &(struct op){.kind = OP_SET, .key = k, .value = k}, NULL);
    store_peek(sc->twin, 0, keyhash(k, sc->twin->seed), k, &at);
    dumpfile_add_entry(image, 0, at.e);
}

static void what_fills_a_seat_does_not_follow_its_group_to_another_one(void **state)
{
    struct scene scene = {0};
    struct buf old = {0}, new = {0};
    struct seat_info info;
    open_scene(&scene, 1);
    add_entry(&old, "k0");
    add_entry(&new, "k1");
    struct seat *left = seats_find(sc->seats, GROUP);
    assert_true(seat_fill_begin(left));
    seats_remove(sc->seats, GROUP);
    assert_int_equal(seats_add(sc->seats, GROUP), 0);
    struct seat *seat = seats_find(sc->seats, GROUP);
    assert_true(seat_fill_begin(seat));
    assert_true(seat_fill(seat, buf_slice(&new)));
    assert_false(seat_fill_begin(left));
    assert_false(seat_fill(left, buf_slice(&old)));
    assert_false(seat_fill_reached(left, filled, NULL));
    assert_false(seat_filled(left, 7, 1, filled, NULL));
    assert_true(seat_filled(seat, 3, 1, NULL, NULL));
    work();
    assert_true(seats_look(sc->seats, GROUP, &info));
    assert_int_equal(info.applied, 3);
    assert_int_equal(store_keys(sc->rig->engine->stores[info.shard], 0), 1);
    buf_fini(&old);
    buf_fini(&new);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fills_a_seat_does_not_follow_its_group_to_another_one),
        cmocka_unit_test(a_cut_of_a_leader_is_where_its_own_entries_are_not_before_half_an_entry_of_another),
        cmocka_unit_test(nothing_comes_into_a_seat_that_its_group_has_left),
        cmocka_unit_test(a_seat_ends_with_what_its_log_says_and_answers_tell_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
