/* A plan's bytes:
 *
 *   kind u8 | flags u8 (1 of the hash, 2 new group) | mode u8 | group u32 | other u32 | range, generation, range2, generation2, from, to, hash u64 each
 *   length of space u16, space | length of key u16, key | number of ranges u16, and for each: id u64 | group u32 | length of start u16, start | length of end u16, end */
#include "cluster/metaops.h"

#include <inttypes.h>

#include "base/mem.h"

enum { OF_HASH = 1, NEW_GROUP = 2 };

static const char *const kind_names[METAOPS_KINDS] = {
    [METAOPS_SPLIT] = "split", [METAOPS_MERGE] = "merge", [METAOPS_MOVE_RANGE] = "move-range", [METAOPS_MOVE_REPLICA] = "move-replica", [METAOPS_CHANGE_MODE] = "change-mode",
};

static const char *const step_names[METAOPS_STEPS] = {
    [METAOPS_PLANNED] = "planned", [METAOPS_FROZEN] = "frozen", [METAOPS_ABSORBED] = "absorbed", [METAOPS_WALKING] = "walking",
    [METAOPS_ADDED] = "added", [METAOPS_UNDOING] = "undoing", [METAOPS_DONE] = "done", [METAOPS_UNDONE] = "undone",
    [METAOPS_CARRIED] = "carried",
};

const char *metaops_kind_name(enum metaops_kind k)
{
    CHECK((unsigned)k < METAOPS_KINDS);
    return kind_names[k];
}

const char *metaops_step_name(enum metaops_step s)
{
    CHECK((unsigned)s < METAOPS_STEPS);
    return step_names[s];
}

/* ---- steps */

#define TO(step) (1u << METAOPS_##step)

static const uint16_t next_steps[METAOPS_KINDS][METAOPS_STEPS] = {
    [METAOPS_SPLIT] = {[METAOPS_PLANNED] = TO(WALKING) | TO(DONE) | TO(UNDONE), [METAOPS_WALKING] = TO(WALKING) | TO(CARRIED), [METAOPS_CARRIED] = TO(DONE)},
    [METAOPS_MERGE] = {[METAOPS_PLANNED] = TO(FROZEN) | TO(DONE) | TO(UNDONE), [METAOPS_FROZEN] = TO(ABSORBED) | TO(UNDOING), [METAOPS_ABSORBED] = TO(DONE), [METAOPS_UNDOING] = TO(UNDONE)},
    [METAOPS_MOVE_RANGE] = {[METAOPS_PLANNED] = TO(WALKING) | TO(UNDONE), [METAOPS_WALKING] = TO(WALKING) | TO(CARRIED), [METAOPS_CARRIED] = TO(DONE)},
    [METAOPS_MOVE_REPLICA] = {[METAOPS_PLANNED] = TO(ADDED) | TO(DONE) | TO(UNDOING) | TO(UNDONE), [METAOPS_ADDED] = TO(DONE) | TO(UNDOING), [METAOPS_UNDOING] = TO(UNDONE)},
    [METAOPS_CHANGE_MODE] = {[METAOPS_PLANNED] = TO(WALKING) | TO(DONE) | TO(UNDONE), [METAOPS_WALKING] = TO(WALKING) | TO(CARRIED), [METAOPS_CARRIED] = TO(DONE)},
};

bool metaops_step_allowed(const struct metaops_plan *p, enum metaops_step from, enum metaops_step to)
{
    if (!(next_steps[p->kind][from] >> to & 1)) return false;
    if (from != METAOPS_PLANNED) return true;
    /* Where one entry in one group's log is the whole operation, it is done or not; where it takes more, no step is left out. */
    if (p->kind == METAOPS_SPLIT) return (to == METAOPS_WALKING) == p->new_group;
    if (p->kind == METAOPS_MERGE) return to == METAOPS_UNDONE || (to == METAOPS_DONE) == (p->group == p->other);
    if (p->kind == METAOPS_MOVE_REPLICA) return (to == METAOPS_DONE || to == METAOPS_UNDONE) == (p->to == 0);
    return true;
}

bool metaops_step_ends(enum metaops_step s) { return s == METAOPS_DONE || s == METAOPS_UNDONE; }

/* ---- plans */

/* Which fields a kind uses. */
enum { USES_RANGE = 1, USES_RANGE2 = 2, USES_NODES = 4, USES_CUT = 8, USES_SPACE = 16, USES_MODE = 32, USES_OTHER = 64, USES_GROUP = 128 };

static const uint8_t uses[METAOPS_KINDS] = {
    [METAOPS_SPLIT] = USES_GROUP | USES_RANGE | USES_CUT | USES_SPACE,
    [METAOPS_MERGE] = USES_GROUP | USES_OTHER | USES_RANGE | USES_RANGE2 | USES_SPACE,
    [METAOPS_MOVE_RANGE] = USES_GROUP | USES_OTHER | USES_RANGE | USES_SPACE,
    [METAOPS_MOVE_REPLICA] = USES_GROUP | USES_NODES,
    [METAOPS_CHANGE_MODE] = USES_SPACE | USES_MODE,
};

static bool numbers_fit(const struct metaops_plan *p, unsigned u)
{
    bool generation = u & (USES_RANGE | USES_MODE);
    return ((u & USES_RANGE) ? p->range && p->generation : !p->range && (generation || !p->generation)) && ((u & USES_RANGE2) ? p->range2 && p->generation2 : !p->range2 && !p->generation2) &&
           (u & USES_GROUP || !p->group) && (u & USES_OTHER || !p->other);
}

static bool ranges_fit(const struct metaops_plan *p)
{
    size_t bound = 0;
    if (p->kind != METAOPS_CHANGE_MODE) return p->n_ranges == 0 && p->mode == 0;
    for (uint32_t i = 0; i < p->n_ranges; i++) {
        const struct metaops_range *r = &p->ranges[i];
        if (r->id || r->group < META_FIRST_DATA_GROUP) return false;
        if (r->start.n > bound) bound = r->start.n;
        if (r->end.n > bound) bound = r->end.n;
    }
    return p->n_ranges <= META_PLAN_RANGES_MAX && bound <= META_KEY_MAX && p->mode < SPACE_MODES;
}

const char *metaops_plan_flaw(const struct metaops_plan *p)
{
    if ((unsigned)p->kind >= METAOPS_KINDS) return "there is no such operation";
    unsigned u = uses[p->kind];
    if (!numbers_fit(p, u)) return "a number is missing, or is one too many";
    if (p->of_hash && (p->space.n || p->key.n || (p->kind != METAOPS_SPLIT && p->kind != METAOPS_MERGE))) return "only splits and merges are of the hash, and the hash has no space";
    if (p->new_group && p->kind != METAOPS_SPLIT) return "only a split makes a group";
    if (p->space.n > SPACES_NAME_MAX || (p->space.n && !(u & USES_SPACE))) return "the name of the space is too long, or one too many";
    if (p->key.n > META_KEY_MAX || (p->key.n && !(u & USES_CUT))) return "the key is too long, or one too many";
    if (p->hash && !(p->of_hash && (u & USES_CUT))) return "a place in the hash is one too many";
    if (((u & USES_NODES) ? p->from == p->to : p->from || p->to)) return "a replica moves from one node to another";
    if ((u & USES_GROUP) && !(u & USES_NODES) && p->group < META_FIRST_DATA_GROUP) return "groups 0 and 1 hold no keys";
    if ((u & USES_OTHER) && p->other < META_FIRST_DATA_GROUP) return "groups 0 and 1 hold no keys";
    if (p->kind == METAOPS_MOVE_RANGE && p->group == p->other) return "the range is there already";
    if (p->kind == METAOPS_MERGE && p->range == p->range2) return "a range is not merged with itself";
    return ranges_fit(p) ? NULL : "the new ranges are too many or too long, have ids, or are in groups 0 and 1";
}

bool metaops_names_group(const struct metaops_plan *p, uint32_t group)
{
    if (p->kind != METAOPS_CHANGE_MODE && p->group == group) return true;
    if (p->other && p->other == group) return true;
    for (uint32_t i = 0; i < p->n_ranges; i++)
        if (p->ranges[i].group == group) return true;
    return false;
}

static bool same_space(const struct metaops_plan *a, const struct metaops_plan *b) { return (uses[a->kind] & uses[b->kind] & USES_SPACE) && !a->of_hash && !b->of_hash && slice_eq(a->space, b->space); }

static bool walks(const struct metaops_plan *p) { return p->kind == METAOPS_CHANGE_MODE || p->kind == METAOPS_MOVE_RANGE || (p->kind == METAOPS_SPLIT && p->new_group); }

/* A group goes by it. */
static bool is_of_groups(const struct metaops_plan *p) { return p->kind == METAOPS_MERGE && p->group != p->other; }

static bool same_range(const struct metaops_plan *a, const struct metaops_plan *b)
{
    return a->of_hash == b->of_hash && (a->range == b->range || a->range == b->range2 || (a->range2 && (a->range2 == b->range || a->range2 == b->range2)));
}

/* a walks. */
static bool stands_in_way(const struct metaops_plan *a, const struct metaops_plan *b)
{
    if (b->kind == METAOPS_MOVE_REPLICA) return false;
    if (is_of_groups(b)) return a->kind == METAOPS_CHANGE_MODE || metaops_names_group(b, a->group) || metaops_names_group(b, a->other) || same_space(a, b);
    if (a->kind == METAOPS_CHANGE_MODE || b->kind == METAOPS_CHANGE_MODE) return same_space(a, b) || (walks(a) && a->of_hash) || (walks(b) && b->of_hash);
    return (a->of_hash || same_space(a, b)) && same_range(a, b);
}

bool metaops_conflict(const struct metaops_plan *a, const struct metaops_plan *b)
{
    if (walks(a)) return stands_in_way(a, b);
    if (walks(b)) return stands_in_way(b, a);
    return a->group == b->group || (a->other && (a->other == b->group || a->other == b->other)) || (b->other && b->other == a->group);
}

/* ---- life */

static struct slice keep(char **at, struct slice s)
{
    struct slice kept = slice_of(*at, s.n);
    if (s.n) memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

struct metaops_op *metaops_new(const struct metaops_plan *plan)
{
    size_t bytes = plan->space.n + plan->key.n, table = plan->n_ranges * sizeof *plan->ranges;
    for (uint32_t i = 0; i < plan->n_ranges; i++) bytes += plan->ranges[i].start.n + plan->ranges[i].end.n;
    struct metaops_op *op = mem_zalloc(sizeof *op + table + bytes);
    struct metaops_range *ranges = (struct metaops_range *)(op + 1);
    char *at = (char *)ranges + table;
    op->plan = *plan;
    op->plan.space = keep(&at, plan->space);
    op->plan.key = keep(&at, plan->key);
    op->plan.ranges = ranges;
    for (uint32_t i = 0; i < plan->n_ranges; i++) {
        ranges[i] = plan->ranges[i];
        ranges[i].start = keep(&at, plan->ranges[i].start);
        ranges[i].end = keep(&at, plan->ranges[i].end);
    }
    return op;
}

void metaops_free(struct metaops_op *op) { mem_free(op); }

/* ---- bytes */

static void add_counted(struct buf *out, struct slice s)
{
    CHECK(s.n <= UINT16_MAX);
    wirefield_add_u16(out, (uint16_t)s.n);
    buf_add_slice(out, s);
}

static struct slice get_counted(struct wirefield *in) { return wirefield_bytes(in, wirefield_u16(in)); }

void metaops_plan_encode(const struct metaops_plan *p, struct buf *out)
{
    const uint64_t numbers[] = {p->range, p->generation, p->range2, p->generation2, p->from, p->to, p->hash};
    wirefield_add_u8(out, (uint8_t)p->kind);
    wirefield_add_u8(out, (uint8_t)((p->of_hash ? OF_HASH : 0) | (p->new_group ? NEW_GROUP : 0)));
    wirefield_add_u8(out, (uint8_t)p->mode);
    le_add_u32(out, p->group);
    le_add_u32(out, p->other);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) le_add_u64(out, numbers[i]);
    add_counted(out, p->space);
    add_counted(out, p->key);
    wirefield_add_u16(out, (uint16_t)p->n_ranges);
    for (uint32_t i = 0; i < p->n_ranges; i++) {
        le_add_u64(out, p->ranges[i].id);
        le_add_u32(out, p->ranges[i].group);
        add_counted(out, p->ranges[i].start);
        add_counted(out, p->ranges[i].end);
    }
}

void metaops_plan_decode(struct metaops_plan *p, void **storage, struct wirefield *in)
{
    *p = (struct metaops_plan){.kind = (enum metaops_kind)wirefield_choice(in, METAOPS_KINDS)};
    uint8_t flags = wirefield_choice(in, (OF_HASH | NEW_GROUP) + 1);
    p->of_hash = flags & OF_HASH;
    p->new_group = flags & NEW_GROUP;
    p->mode = (enum space_mode)wirefield_choice(in, SPACE_MODES);
    p->group = wirefield_u32(in);
    p->other = wirefield_u32(in);
    uint64_t *const numbers[] = {&p->range, &p->generation, &p->range2, &p->generation2, &p->from, &p->to, &p->hash};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = wirefield_u64(in);
    p->space = get_counted(in);
    p->key = get_counted(in);
    uint32_t n = wirefield_u16(in);
    wirefield_expect(in, n <= META_PLAN_RANGES_MAX);
    if (in->bad) return;
    struct metaops_range *ranges = mem_zalloc((n + 1) * sizeof *ranges);
    *storage = ranges;
    p->ranges = ranges;
    for (; p->n_ranges < n && !in->bad; p->n_ranges++) {
        struct metaops_range *r = &ranges[p->n_ranges];
        r->id = wirefield_u64(in);
        r->group = wirefield_u32(in);
        r->start = get_counted(in);
        r->end = get_counted(in);
    }
}

/* ---- text */

static void text_cut(struct buf *out, const struct metaops_plan *p)
{
    if (p->of_hash)
        buf_printf(out, " at hash %016" PRIx64, p->hash);
    else {
        buf_add_str(out, " at ");
        spaces_text_key(out, p->key);
    }
    if (p->new_group) buf_printf(out, " to group=%u", p->other);
}

void metaops_text(struct buf *out, const struct metaops_plan *p)
{
    buf_add_str(out, metaops_kind_name(p->kind));
    if ((uses[p->kind] & USES_SPACE) && !p->of_hash) {
        buf_add_str(out, " space=");
        spaces_text_key(out, p->space);
    }
    switch (p->kind) {
    case METAOPS_SPLIT:
        buf_printf(out, " group=%u range=%" PRIu64, p->group, p->range);
        text_cut(out, p);
        break;
    case METAOPS_MERGE: buf_printf(out, " range=%" PRIu64 " group=%u with range=%" PRIu64 " group=%u", p->range, p->group, p->range2, p->other); break;
    case METAOPS_MOVE_RANGE: buf_printf(out, " range=%" PRIu64 " group=%u to group=%u", p->range, p->group, p->other); break;
    case METAOPS_MOVE_REPLICA: buf_printf(out, " group=%u from=%" PRIu64 " to=%" PRIu64, p->group, p->from, p->to); break;
    case METAOPS_CHANGE_MODE: buf_printf(out, " to=%s ranges=%u", space_mode_name(p->mode), p->n_ranges); break;
    case METAOPS_KINDS: break;
    }
}
