/* Keys are carried between four groups by a driver that is lost at random, while clients write, read, lock parts of the key space and make transactions, leaders change, and orders come twice or late. A twin knows every key's value and every lock: each key is served by one group at most, what is
 * read is what was written last, and in the end every key and every lock is where the map says, once. */
#include "carryworld.h"

enum { SENT_MAX = 24, ARGS_MAX = 512, SEEDS = 100, OPERATIONS = 5, PIECES_MAX = 5 };

struct sent { /* an order, to be repeated */
    uint32_t group, argc;
    struct buf bytes;
    size_t at[ARGS_MAX];
};

struct bounds {
    struct buf low, gone, high; /* as replies have them */
};

static struct {
    struct sent sent[SENT_MAX];
    uint32_t n_sent;
    uint64_t next_id, next_op, term;
    /* the operation under way */
    struct holding_plan plan;
    char ends[2][PIECES_MAX][8];
    struct holding_piece pieces[2][PIECES_MAX];
    uint64_t range; /* that moves; 0: the mode changes */
    struct bounds bounds[SEATRIG_END];
    struct given {
        struct buf entries, larges, locks; /* the part of a take, as arguments one after the other, each behind its length */
    } given[SEATRIG_END][SEATRIG_END]; /* by source and target */
    uint32_t along, piece; /* bytes that go along with a slice, and of a piece of what is larger */
    struct {
        uint32_t operations, slices, busy, late, refused, lost_drivers, ended_without_order, larges, pieces, expired;
    } saw;
} d;

/* ---- what must hold at each moment */

static void check_served(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        char text[8];
        struct slice key = name_key(text, i);
        uint32_t n = 0;
        if (slice_cmp(key, d.plan.start) < 0 || (d.plan.end.n && slice_cmp(key, d.plan.end) >= 0)) continue;
        for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) n += holding_find(holding_of(g), d.plan.op) && holding_serves(holding_of(g), map(), key);
        assert_true(n <= 1);
    }
}

/* ---- orders, which may come again */

static void keep_sent(uint32_t group, const struct slice *argv, uint32_t argc)
{
    struct sent *s = &d.sent[d.n_sent++ % SENT_MAX];
    s->bytes.len = 0;
    s->group = group;
    s->argc = argc;
    for (uint32_t i = 0; i < argc; i++) {
        s->at[i] = s->bytes.len;
        buf_add_slice(&s->bytes, argv[i]);
    }
}

/* The reply is in k.r.out, and everything is committed. */
static void order(uint32_t group, const struct slice *argv, uint32_t argc)
{
    assert_true(argc <= ARGS_MAX);
    keep_sent(group, argv, argc);
    assert_true(seatrig_ask(&k.r, group, 0, argv, argc));
    check_served();
}

static void send_again(void)
{
    if (d.n_sent == 0) return;
    const struct sent *s = &d.sent[below(d.n_sent < SENT_MAX ? d.n_sent : SENT_MAX)];
    struct slice argv[ARGS_MAX];
    for (uint32_t i = 0; i < s->argc; i++) argv[i] = slice_of(s->bytes.p + s->at[i], (i + 1 < s->argc ? s->at[i + 1] : s->bytes.len) - s->at[i]);
    assert_true(seatrig_ask(&k.r, s->group, 0, argv, s->argc));
    d.saw.late++;
    d.saw.refused += k.r.out.p[0] == '-';
    check_served();
}

static bool is_busy(void) { return says("-CARRYBUSY"); }

struct numbers {
    char text[4][24];
};
static struct slice number(struct numbers *n, int i, uint64_t v) { return slice_of(n->text[i], (size_t)snprintf(n->text[i], sizeof n->text[i], "%llu", (unsigned long long)v)); }

/* ---- */

static void chaos(void)
{
    for (uint32_t n = below(4); n > 0; n--) {
        switch (below(14)) {
        case 0: lock_some(); break;
        case 1: unlock_some(); break;
        case 2: txn_step(); break;
        case 3: send_again(); break;
        case 4: pass(below(100)); break;
        case 5: count_keys(); break;
        case 6: seatrig_lead_anew(&k.r, SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)); break;
        case 7:
        case 8: read_key(below(DBS), below(KEYS)); break;
        default: write_key();
        }
    }
}

/* ---- plans */

/* Cuts the line at n - 1 keys; pieces are in random groups. */
static void make_pieces(int side, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at += 1 + below(KEYS / n - 1);
        struct slice end = i + 1 < n ? name_key(d.ends[side][i], at) : SLICE("");
        d.pieces[side][i] = (struct holding_piece){.end = end, .group = SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)};
    }
}

static struct holding_side side_of(int side, uint32_t n) { return (struct holding_side){.hashed = n == 0, .n = n, .pieces = n ? d.pieces[side] : NULL}; }

static void copy_pieces(int side, const struct space *s, uint32_t n)
{
    assert_true(n <= PIECES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct range_desc *desc = spaces_range(s, false, i);
        snprintf(d.ends[side][i], sizeof d.ends[side][i], "%.*s", (int)desc->end.n, desc->end.n ? desc->end.p : "");
        d.pieces[side][i] = (struct holding_piece){.end = slice_str(d.ends[side][i]), .group = desc->shard};
    }
}

static void follow(struct space_map *next)
{
    assert_non_null(next);
    topology_follow(k.r.rig->topology, k.r.w, next);
    while (topology_step(k.r.rig->topology, k.r.w)) {}
    seatrig_work(&k.r);
    assert_ptr_equal(map(), next);
}

/* The map with the move that the plan says, at its beginning. */
static struct space_map *moving_map(enum space_mode mode)
{
    enum spaces_error error;
    struct range_desc ranges[PIECES_MAX];
    const struct holding_side *to = &d.plan.new_side;
    if (d.range) return spaces_move(map(), space, d.range, to->pieces[0].group, &error, NULL);
    for (uint32_t i = 0; i < to->n; i++) ranges[i] = (struct range_desc){.id = d.next_id++, .shard = to->pieces[i].group, .start = i ? to->pieces[i - 1].end : SLICE(""), .end = to->pieces[i].end};
    return spaces_set_mode(map(), space, mode, ranges, to->n, false, &error, NULL);
}

static struct space_map *advanced_map(struct slice bound)
{
    enum spaces_error error;
    if (d.range) return bound.n ? spaces_move_advance(map(), space, d.range, bound, &error, NULL) : spaces_move_finish(map(), space, d.range, &error, NULL);
    return bound.n ? spaces_advance(map(), space, bound, &error, NULL) : spaces_finish(map(), space, &error, NULL);
}

static void plan_move(const struct space_info *info)
{
    const struct range_desc *desc = spaces_range(spaces_find(map(), space), false, below(info->n_ranges));
    static char start[8], end[8];
    snprintf(start, sizeof start, "%.*s", (int)desc->start.n, desc->start.n ? desc->start.p : "");
    snprintf(end, sizeof end, "%.*s", (int)desc->end.n, desc->end.n ? desc->end.p : "");
    d.range = desc->id;
    d.pieces[0][0] = (struct holding_piece){.end = slice_str(end), .group = desc->shard};
    do d.pieces[1][0] = (struct holding_piece){.end = slice_str(end), .group = SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)};
    while (d.pieces[1][0].group == desc->shard);
    d.plan = (struct holding_plan){.op = d.next_op++, .space = space, .start = slice_str(start), .end = slice_str(end), .old_side = side_of(0, 1), .new_side = side_of(1, 1)};
}

static enum space_mode plan_mode(const struct space_info *info)
{
    enum space_mode mode;
    do mode = (enum space_mode)below(SPACE_MODES);
    while (mode == info->mode);
    uint32_t n = mode == SPACE_HASH ? 0 : mode == SPACE_BUCKET ? 1 : 1 + below(PIECES_MAX);
    d.range = 0;
    copy_pieces(0, spaces_find(map(), space), info->n_ranges);
    make_pieces(1, n);
    d.plan = (struct holding_plan){.op = d.next_op++, .space = space, .old_side = side_of(0, info->n_ranges), .new_side = side_of(1, n)};
    return mode;
}

static bool has_part(const struct holding_side *s, uint32_t group)
{
    bool has = s->hashed;
    for (uint32_t i = 0; i < s->n; i++) has |= s->pieces[i].group == group;
    return has;
}

static bool is_source(uint32_t group) { return has_part(&d.plan.old_side, group); }
static bool is_target(uint32_t group) { return has_part(&d.plan.new_side, group); }

/* ---- the driver: it knows what groups have told it, and nothing else */

static int cmp_bounds(struct slice a, struct slice b)
{
    bool a_at_end = a.p[0] == '+', b_at_end = b.p[0] == '+';
    if (a_at_end || b_at_end) return a_at_end - b_at_end;
    return slice_cmp(slice_of(a.p + 1, a.n - 1), slice_of(b.p + 1, b.n - 1));
}

static void take_bulk(size_t *at, struct buf *out)
{
    out->len = 0;
    buf_add_slice(out, seatrig_value(&k.r, at).text);
}

static uint32_t shuffled(uint32_t out[SEATRIG_END])
{
    uint32_t n = 0;
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++)
        if (is_source(g) || is_target(g)) out[n++] = g;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other = below(i), swap = out[i - 1];
        out[i - 1] = out[other];
        out[other] = swap;
    }
    return n;
}

/* A group may not have heard that an operation before this one has ended. */
static void end_others(uint32_t group)
{
    struct numbers n;
    while (holding_count(holding_of(group))) {
        uint64_t op = holding_at(holding_of(group), 0)->plan.op;
        assert_true(op != d.plan.op);
        const struct slice argv[] = {SLICE("carry.end"), number(&n, 0, op), number(&n, 1, d.term), number(&n, 2, map()->version)};
        order(group, argv, 4);
        is_ok();
    }
}

static void begin_everywhere(void)
{
    struct numbers n;
    struct buf plan = {0};
    uint32_t groups[SEATRIG_END], count = shuffled(groups);
    holding_plan_encode(&plan, &d.plan);
    for (uint32_t i = 0; i < count; i++) {
        const struct slice argv[] = {SLICE("carry.begin"), number(&n, 0, d.plan.op), number(&n, 1, d.term), number(&n, 2, map()->version), buf_slice(&plan)};
        size_t at = 0;
        order(groups[i], argv, 5);
        if (is_busy()) {
            end_others(groups[i]);
            order(groups[i], argv, 5);
        }
        assert_int_equal(seatrig_value(&k.r, &at).n, 3);
        struct bounds *b = &d.bounds[groups[i]];
        take_bulk(&at, &b->low);
        take_bulk(&at, &b->gone);
        take_bulk(&at, &b->high);
        chaos();
    }
    buf_fini(&plan);
}

/* The bound of the slice under way, or else of the next one. */
static void find_bound(struct buf *bound)
{
    struct numbers n;
    bool under_way = false;
    buf_add_str(bound, "-");
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        if (!is_source(g) || cmp_bounds(buf_slice(&d.bounds[g].high), buf_slice(bound)) <= 0) continue;
        bound->len = 0;
        buf_add_slice(bound, buf_slice(&d.bounds[g].high));
    }
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        under_way |= is_source(g) && cmp_bounds(buf_slice(&d.bounds[g].high), buf_slice(bound)) < 0;
        under_way |= is_target(g) && cmp_bounds(buf_slice(&d.bounds[g].low), buf_slice(bound)) < 0;
    }
    if (under_way || bound->p[0] == '+') return;
    bound->len = 0;
    buf_add_str(bound, "+");
    uint32_t keys = 1 + below(10), bytes = 50 + below(2000);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        const struct slice argv[] = {SLICE("carry.measure"), number(&n, 0, d.plan.op), number(&n, 1, keys), number(&n, 2, bytes)};
        size_t at = 0;
        if (!is_source(g)) continue;
        order(g, argv, 4);
        struct slice said = seatrig_value(&k.r, &at).text;
        if (cmp_bounds(said, buf_slice(bound)) < 0) take_bulk(&(size_t){0}, bound);
    }
}

static void add_arg(struct buf *out, struct slice arg)
{
    uint32_t n = (uint32_t)arg.n;
    buf_add(out, &n, sizeof n);
    buf_add_slice(out, arg);
}

static bool next_arg(struct slice *in, struct slice *arg)
{
    uint32_t n;
    if (in->n == 0) return false;
    memcpy(&n, in->p, sizeof n);
    *arg = slice_of(in->p + sizeof n, n);
    *in = slice_of(arg->p + n, in->n - sizeof n - n);
    return true;
}

static void keep_given(uint32_t source)
{
    size_t at = 0;
    for (uint32_t g = 0; g < SEATRIG_END; g++) d.given[source][g].entries.len = d.given[source][g].larges.len = d.given[source][g].locks.len = 0;
    for (long long n = seatrig_value(&k.r, &at).n; n > 0; n--) {
        assert_int_equal(seatrig_value(&k.r, &at).n, 4);
        struct given *to = &d.given[source][seatrig_value(&k.r, &at).n];
        for (long long i = seatrig_value(&k.r, &at).n; i > 0; i--) add_arg(&to->entries, seatrig_value(&k.r, &at).text);
        for (long long i = seatrig_value(&k.r, &at).n; i > 0; i--) add_arg(&to->larges, seatrig_value(&k.r, &at).text);
        add_arg(&to->locks, seatrig_value(&k.r, &at).text);
    }
}

static void freeze(uint32_t group, struct slice bound)
{
    struct numbers n;
    const struct slice argv[] = {SLICE("carry.freeze"), number(&n, 0, d.plan.op), number(&n, 1, d.term), bound, number(&n, 2, d.along)};
    for (int tries = 0; order(group, argv, 5), is_busy(); tries++) {
        assert_true(tries < 20);
        d.saw.busy++;
        if (k.txn.state != TXN_NONE) txn_end();
        pass(200);
    }
    keep_given(group);
}

/* ---- large values, piece by piece */

enum carried { CARRIED, EXPIRED, DRIVER_LOST };

static enum carried carry_large(uint32_t source, uint32_t target, struct slice large)
{
    struct numbers n;
    struct buf from = {0}, piece = {0};
    enum carried how = CARRIED;
    do {
        const struct slice ask[] = {SLICE("carry.piece"), number(&n, 0, d.plan.op), large, buf_slice(&from), number(&n, 1, d.piece)};
        size_t at = 0;
        order(source, ask, 5);
        if (seatrig_value(&k.r, &at).n < 0) {
            how = EXPIRED;
            break;
        }
        struct buf next = {0};
        take_bulk(&at, &next);
        take_bulk(&at, &piece);
        const struct slice put[] = {SLICE("carry.put"), number(&n, 0, d.plan.op), number(&n, 1, d.term), buf_slice(&from), buf_slice(&piece)};
        order(target, put, 5);
        is_ok();
        buf_fini(&from);
        from = next;
        d.saw.pieces++;
        chaos();
        if (one_in(60)) how = DRIVER_LOST;
    } while (how == CARRIED && from.len);
    buf_fini(&from);
    buf_fini(&piece);
    return how;
}

/* Those that have expired on the way are not spoken of any more. */
static bool carry_larges(uint32_t source, uint32_t target)
{
    struct buf left = {0};
    struct slice in = buf_slice(&d.given[source][target].larges), large;
    enum carried how = CARRIED;
    while (how != DRIVER_LOST && next_arg(&in, &large)) {
        how = carry_large(source, target, large);
        if (how == CARRIED) add_arg(&left, large);
        d.saw.larges += how == CARRIED;
        d.saw.expired += how == EXPIRED;
    }
    buf_fini(&d.given[source][target].larges);
    d.given[source][target].larges = left;
    return how != DRIVER_LOST;
}

/* ---- taking */

static uint32_t add_args(struct slice *argv, uint32_t argc, struct slice in, char count[12])
{
    uint32_t at = argc++, n = 0;
    for (; next_arg(&in, &argv[argc]); n++) {
        argc++;
        assert_true(argc < ARGS_MAX);
    }
    snprintf(count, 12, "%u", n);
    argv[at] = slice_str(count);
    return argc;
}

static void take(uint32_t group, struct slice bound)
{
    struct numbers n;
    uint32_t argc = 5, parts = 0;
    struct slice argv[ARGS_MAX] = {SLICE("carry.take"), number(&n, 0, d.plan.op), number(&n, 1, d.term), bound};
    char counts[SEATRIG_END][2][12];
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        const struct given *from = &d.given[g][group];
        struct slice locks = buf_slice(&from->locks);
        if (g == group || !is_source(g)) continue;
        argc = add_args(argv, argc, buf_slice(&from->entries), counts[g][0]);
        argc = add_args(argv, argc, buf_slice(&from->larges), counts[g][1]);
        assert_true(next_arg(&locks, &argv[argc++]));
        parts++;
    }
    argv[4] = number(&n, 2, parts);
    order(group, argv, argc);
    is_ok();
}

static void drop(uint32_t group, struct slice bound)
{
    struct numbers n;
    const struct slice argv[] = {SLICE("carry.drop"), number(&n, 0, d.plan.op), number(&n, 1, d.term), bound};
    order(group, argv, 4);
    is_ok();
}

/* False: the driver was lost on the way. */
static bool carry_slice_to(struct slice bound)
{
    uint32_t groups[SEATRIG_END], n = shuffled(groups);
    for (uint32_t i = 0; i < n; i++) {
        if (is_source(groups[i])) freeze(groups[i], bound);
        chaos();
        if (one_in(40)) return false;
    }
    n = shuffled(groups);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t to = SEATRIG_FIRST; is_source(groups[i]) && to < SEATRIG_END; to++)
            if (!carry_larges(groups[i], to)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (is_target(groups[i])) take(groups[i], bound);
        chaos();
        if (one_in(40)) return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_source(groups[i]) && one_in(4)) drop(groups[i], bound);
    d.saw.slices++;
    return true;
}

static void tell_map(struct slice bound)
{
    if (bound.p[0] == '+') follow(advanced_map(SLICE("")));
    else follow(advanced_map(slice_of(bound.p + 1, bound.n - 1)));
}

static void end_everywhere(void)
{
    struct numbers n;
    uint32_t groups[SEATRIG_END], count = shuffled(groups);
    for (uint32_t i = 0; i < count; i++) {
        const struct slice argv[] = {SLICE("carry.end"), number(&n, 0, d.plan.op), number(&n, 1, d.term), number(&n, 2, map()->version)};
        if (one_in(10)) continue; /* whoever begins the next one finds it */
        d.saw.ended_without_order += holding_gives_out(holding_of(groups[i])) && !topology_is_ordered(k.r.rig->topology, seatrig_shard(&k.r, groups[i])->id, space);
        order(groups[i], argv, 4);
        is_ok();
        chaos();
    }
}

static void run_operation(enum space_mode mode)
{
    bool told = false;
    for (bool lost = false, over = false; !over;) {
        struct buf bound = {0};
        if (lost) d.term++;
        d.saw.lost_drivers += lost;
        begin_everywhere();
        if (!told) follow(moving_map(mode));
        told = true;
        find_bound(&bound);
        lost = !carry_slice_to(buf_slice(&bound));
        over = !lost && bound.p[0] == '+';
        if (!lost && bound.p[0] != '-') tell_map(buf_slice(&bound));
        buf_fini(&bound);
    }
    end_everywhere();
    d.saw.operations++;
}

/* ---- the end */

static void check_all(void)
{
    d.plan.op = 0;
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) end_others(g);
    check_world();
}

static void walk(uint64_t seed)
{
    enum spaces_error error;
    struct space_info info;
    begin_world(seed);
    d.n_sent = 0;
    d.next_id = 100;
    d.next_op = d.term = 1;
    d.plan = (struct holding_plan){0};
    d.along = seed % 3 ? 100 : 100000;
    d.piece = 1 + (uint32_t)(seed % 4);
    follow(spaces_set_mode(map(), space, SPACE_HASH, NULL, 0, true, &error, NULL));
    for (int i = 0; i < 2 * KEYS; i++) write_key();
    for (int i = 0; i < OPERATIONS; i++) {
        enum space_mode mode = SPACE_HASH;
        spaces_info(map(), space, &info);
        if (info.n_ranges && one_in(2)) plan_move(&info);
        else mode = plan_mode(&info);
        run_operation(mode);
        if (one_in(2)) check_all();
    }
    check_all();
    seatrig_free(&k.r);
}

static void free_all(void)
{
    for (uint32_t i = 0; i < SENT_MAX; i++) buf_fini(&d.sent[i].bytes);
    for (uint32_t g = 0; g < SEATRIG_END; g++) {
        buf_fini(&d.bounds[g].low);
        buf_fini(&d.bounds[g].gone);
        buf_fini(&d.bounds[g].high);
        for (uint32_t to = 0; to < SEATRIG_END; to++) {
            buf_fini(&d.given[g][to].entries);
            buf_fini(&d.given[g][to].larges);
            buf_fini(&d.given[g][to].locks);
        }
    }
}

static void keys_are_served_once_and_arrive_whatever_is_lost_or_comes_late(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) walk(seed);
    free_all();
    assert_int_equal(d.saw.operations, SEEDS * OPERATIONS);
    assert_true(d.saw.slices > 1000 && d.saw.busy > 50 && d.saw.late > 500 && d.saw.refused > 100 && d.saw.lost_drivers > 100);
    assert_true(k.saw.reads > 5000 && k.saw.writes > 5000 && k.saw.turned_away > 300 && k.saw.sums > 100);
    assert_true(k.saw.grants > 800 && k.saw.seen_locks > 300 && k.saw.commits > 100 && d.saw.ended_without_order > 10);
    assert_true(d.saw.larges > 2000 && d.saw.pieces > 2 * d.saw.larges && d.saw.expired > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_served_once_and_arrive_whatever_is_lost_or_comes_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
