/* The splitter's verdicts in words, with the figures and limits that they come from. */
#include "route/spaces.h"
#include "shard/splitter_memory.h"

static void add_bytes(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    unsigned u = 0;
    for (; n >= 1024 && u < 4; u++) n /= 1024;
    buf_printf(out, u ? "%.1f %s" : "%.0f %s", n, units[u]);
}

static void add_seconds(struct buf *out, int64_t ms) { buf_printf(out, "%.0f s", ms > 0 ? (double)ms / 1000 : 0); }

static void say_size(const struct splitter_memory *m, struct buf *out)
{
    add_bytes(out, m->bytes);
    buf_printf(out, " of at most ");
    add_bytes(out, m->byte_limit);
}

static void say_load(const struct splitter_memory *m, const struct splitter_limits *l, struct buf *out)
{
    buf_printf(out, "%.0f accesses per second of at most %.0f", m->ops, l->split_ops);
    if (m->hot_by_backlog) buf_printf(out, ", and %.1f tasks wait for its shard of at most %.0f", m->backlog, l->split_backlog);
}

static void say_hot_since(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out)
{
    say_load(m, l, out);
    buf_add_str(out, " for ");
    add_seconds(out, m->hot_ms == SPLITTER_NEVER ? 0 : now_ms - m->hot_ms);
}

/* What it has, before what is in the way. */
static void say_need(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out)
{
    if (m->byte_limit && m->bytes > m->byte_limit) say_size(m, out);
    else say_hot_since(m, l, now_ms, out);
}

void splitter_say_split(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out)
{
    switch (m->split) {
    case SPLIT_OFF: buf_add_str(out, "not split: ranges-auto is off"); return;
    case SPLIT_ELSEWHERE: buf_add_str(out, "not split: another node leads its group"); return;
    case SPLIT_ALONE: buf_add_str(out, "not split: there is one shard only"); return;
    case SPLIT_MOVING: buf_add_str(out, "not split: it is moving"); return;
    case SPLIT_UNREADY: buf_add_str(out, "not split: its keys are not all in order yet"); return;
    case SPLIT_BY_BYTES:
        buf_add_str(out, "split at the middle of its bytes: ");
        say_size(m, out);
        return;
    case SPLIT_BY_OPS:
    case SPLIT_BY_BACKLOG:
        buf_add_str(out, "split at the middle of its load: ");
        say_hot_since(m, l, now_ms, out);
        return;
    default: break;
    }
    buf_add_str(out, splitter_is_refusal(m->split) ? "refused to split: " : "not split: ");
    if (m->split == SPLIT_NO_NEED) {
        say_size(m, out);
        buf_add_str(out, ", ");
        say_load(m, l, out);
        return;
    }
    say_need(m, l, now_ms, out);
    switch (m->split) {
    case SPLIT_NOT_YET: buf_printf(out, ", which has to go on for %.0f s", (double)l->sustain_ms / 1000); break;
    case SPLIT_SETTLING:
        buf_add_str(out, "; but it has changed lately and settles for another ");
        add_seconds(out, m->split_wait_ms - now_ms);
        break;
    case SPLIT_EVEN: buf_printf(out, "; but no shard has clearly less to do: %.0f accesses per second here, %.0f in the least loaded one", m->shard_ops, m->least_ops); break;
    case SPLIT_BUDGET: buf_printf(out, "; but %u changes are under way, which is the most at a time", l->max_changes); break;
    case SPLIT_ONE_KEY: buf_add_str(out, "; but it has a single key to cut at"); break;
    case SPLIT_HOT_KEY:
        buf_printf(out, "; but one key makes up %.0f%% of it, and no cut parts that: ", m->hottest * 100);
        spaces_text_key(out, buf_slice(&m->hot_key));
        break;
    case SPLIT_TRAVELS: buf_add_str(out, "; but the load travels along the keys: where its middle was then, it is no longer, so a cut would not part it"); break;
    default: break;
    }
}

static void say_pair(const struct splitter_memory *m, const struct splitter_limits *l, struct buf *out)
{
    buf_add_str(out, "with the range before it ");
    add_bytes(out, m->pair_bytes);
    buf_add_str(out, " of at most ");
    add_bytes(out, splitter_merge_bytes(l));
    buf_printf(out, " and %.0f accesses per second of at most %.0f", m->pair_ops, splitter_merge_ops(l));
}

void splitter_say_merge(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out)
{
    switch (m->merge) {
    case MERGE_FIRST: buf_add_str(out, "not merged: no range is before it"); return;
    case MERGE_OFF: buf_add_str(out, "not merged: ranges-auto is off"); return;
    case MERGE_ELSEWHERE: buf_add_str(out, "not merged: another node leads its group"); return;
    case MERGE_BUSY: buf_add_str(out, "not merged: it, or the range before it, is changing"); return;
    case MERGE_LARGE: buf_add_str(out, "not merged, too large: "); break;
    case MERGE_WARM: buf_add_str(out, "not merged, too much in use: "); break;
    case MERGE_NOW: buf_add_str(out, "merged: "); break;
    case MERGE_MOVES_FIRST: buf_add_str(out, "to be merged when both are in one shard: "); break;
    default: buf_add_str(out, "not merged yet: ");
    }
    say_pair(m, l, out);
    if (m->merge == MERGE_NOT_YET || m->merge == MERGE_HAND) {
        buf_add_str(out, m->merge == MERGE_HAND ? "; but one was changed by hand, and stays so for another " : "; which has to stay so for another ");
        add_seconds(out, m->merge_wait_ms - now_ms);
        if (m->flaps) buf_printf(out, ", %u times as long as usual, for it has split and merged before", 1u << m->flaps);
    }
    if (m->merge == MERGE_BUDGET) buf_printf(out, "; but %u changes are under way, which is the most at a time", l->max_changes);
}

void splitter_say_move(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out)
{
    switch (m->move) {
    case MOVE_NO_NEED: buf_add_str(out, "not moved: nothing calls for it"); break;
    case MOVE_OFF: buf_add_str(out, "not moved: ranges-auto is off"); break;
    case MOVE_ELSEWHERE: buf_add_str(out, "not moved: another node leads its group"); break;
    case MOVE_UNDER_WAY: buf_printf(out, "moving to shard %u", m->target); break;
    case MOVE_WAITS: buf_add_str(out, "not moved yet: it was cut off, but is to be split again first"); break;
    case MOVE_STAYS: buf_printf(out, "not moved: it was cut off, but no other shard would be less loaded with it than shard %u", m->shard); break;
    case MOVE_BUDGET: buf_printf(out, "not moved yet: %u changes are under way, which is the most at a time", l->max_changes); break;
    case MOVE_CUT_OFF_BYTES: buf_printf(out, "moved to shard %u: it was cut off, and that shard has the least bytes", m->target); break;
    case MOVE_CUT_OFF_OPS: buf_printf(out, "moved to shard %u: it was cut off, and that shard has the least to do", m->target); break;
    case MOVE_SPREAD:
        buf_printf(out, "moved to shard %u: shard %u has far more to do than the others, %.0f accesses per second against %.0f there", m->target, m->shard, m->shard_ops, m->least_ops);
        break;
    case MOVE_JOINS: buf_printf(out, "moved to shard %u: to be merged with its neighbour there", m->target); break;
    }
}
