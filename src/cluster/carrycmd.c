#include "cluster/carrycmd.h"

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/carrygive.h"
#include "cluster/carrylocks.h"
#include "cluster/carrypieces.h"
#include "cluster/carryslice.h"
#include "cluster/intents.h"
#include "cluster/txnargs.h"
#include "dump/dumpfile.h"
#include "log/opcode.h"
#include "route/spacelock.h"
#include "shard/engine.h"
#include "shard/seating.h"
#include "shard/topology.h"
#include "store/chill.h"
#include "store/image.h"

/* ---- what a command stands before */

struct call {
    struct exec *x;
    const struct engine *engine;
    struct holding *holding;
    struct store *store;
    const struct space_map *map;
    uint32_t group;
    struct txnargs args; /* behind the operation's number */
    uint64_t number, term;
    bool has_op;
    struct holding_op op; /* a copy: what the seat has changes with the record */
    struct buf op_bytes;
    void *op_pieces;
};

static void answer_senseless(struct exec *x) { reply_errorf(&x->out, "ERR the arguments of %s make no sense", x->cmd->name); }
static void answer_old(struct exec *x) { reply_error(&x->out, "CARRYOLD a later order was heard"); }
static void answer_unordered(struct exec *x) { reply_error(&x->out, "CARRYBUSY the key space is not in order yet"); }

static bool take_u64(struct txnargs *a, uint64_t *out)
{
    struct slice text;
    return txnargs_take(a, &text) && num_parse_u64(text, out);
}

static void copy_op(struct call *c)
{
    const struct holding_op *o = holding_find(c->holding, c->number);
    c->has_op = o != NULL;
    if (!o) return;
    holding_op_encode(&c->op_bytes, o);
    int rc = holding_op_decode(buf_slice(&c->op_bytes), &c->op, &c->op_pieces);
    CHECK(rc == 0);
}

/* False, of this and of those that follow: it is answered. end_call must follow in any case. */
static bool begin_call(struct exec *x, struct call *c)
{
    const struct engine *e = engine_worker_of(x)->engine;
    const struct seating *s = e->seating;
    const struct shard *shard = &e->shards[x->shard];
    *c = (struct call){.x = x, .engine = e, .store = x->stores[x->shard], .map = route_map(x->route), .args = {x->argv, x->argc, 1}};
    c->holding = s->holding(s->ctx, shard);
    c->group = s->group(s->ctx, shard);
    if (c->map->version >= holding_map_version(c->holding)) return true;
    reply_error(&x->out, "CARRYBUSY the map of this node is too old");
    return false;
}

static bool takes_number(struct call *c)
{
    bool fine = take_u64(&c->args, &c->number);
    if (fine) copy_op(c);
    else answer_senseless(c->x);
    return fine;
}

static bool takes_op(struct call *c)
{
    if (!takes_number(c)) return false;
    if (!c->has_op) reply_error(&c->x->out, "CARRYNONE this group has no such operation");
    return c->has_op;
}

static bool takes_term(struct call *c)
{
    if (!take_u64(&c->args, &c->term)) return answer_senseless(c->x), false;
    if (c->has_op && c->term < c->op.term) return answer_old(c->x), false;
    return true;
}

static bool takes_bound(struct call *c, struct holding_bound *out)
{
    struct slice text;
    *out = (struct holding_bound){0};
    bool fine = txnargs_take(&c->args, &text) && text.n > 0;
    if (fine && text.p[0] == '(') out->key = slice_of(text.p + 1, text.n - 1);
    else if (fine) out->at_end = text.p[0] == '+';
    fine = fine && (text.n > 1 ? text.p[0] == '(' : text.p[0] == '+' || text.p[0] == '-');
    if (!fine) answer_senseless(c->x);
    return fine;
}

static bool takes_order(struct call *c, struct holding_bound *bound) { return takes_op(c) && takes_term(c) && takes_bound(c, bound); }

static void end_call(struct call *c)
{
    buf_fini(&c->op_bytes);
    mem_free(c->op_pieces);
}

static struct intents *intents_of(const struct call *c) { return c->engine->seating->intents(c->engine->seating->ctx, &c->engine->shards[c->x->shard]); }

/* ---- what the group is in it */

static bool is_source(const struct call *c) { return carryslice_side_has(&c->op.plan, &c->op.plan.old_side, c->map, c->group, carryslice_first(), carryslice_last()); }
static bool is_target(const struct call *c) { return carryslice_side_has(&c->op.plan, &c->op.plan.new_side, c->map, c->group, carryslice_first(), carryslice_last()); }

static struct carryslice slice_from(const struct call *c, struct holding_bound from, struct holding_bound upto)
{
    return (struct carryslice){.store = c->store, .map = c->map, .group = c->group, .plan = &c->op.plan, .from = from, .upto = upto};
}

/* All keys of the plan are in the store's key index. */
static bool is_ordered(const struct call *c)
{
    struct slice space = c->op.plan.space;
    if (c->op.plan.of_hash) return c->engine->topology ? topology_line_is_ordered(c->engine->topology, c->x->shard) : c->store->in_line;
    if (c->engine->topology) return topology_is_ordered(c->engine->topology, c->x->shard, space);
    return c->store->is_ordered && c->store->is_ordered(c->store->is_ordered_ctx, space);
}

/* ---- records */

static void put_record(struct call *c, struct slice key, struct slice value)
{
    store_apply(c->store, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = key, .value = value}, NULL);
    c->x->ops++;
}

static void save(struct call *c)
{
    struct buf key = {0}, value = {0};
    c->op.term = c->term;
    holding_op_key(&key, c->op.plan.op);
    holding_op_encode(&value, &c->op);
    put_record(c, buf_slice(&key), buf_slice(&value));
    buf_fini(&key);
    buf_fini(&value);
}

/* There is nothing to do but to remember who drives. */
static void note_term(struct call *c)
{
    if (c->term > c->op.term) save(c);
}

static void remove_op(struct call *c)
{
    struct buf key = {0};
    holding_op_key(&key, c->op.plan.op);
    store_apply(c->store, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key)}, NULL);
    c->x->ops++;
    buf_fini(&key);
}

static void raise_map_version(struct call *c, uint64_t version)
{
    struct buf value = {0};
    if (holding_map_version(c->holding) >= version) return;
    le_add_u64(&value, version);
    put_record(c, holding_map_key(), buf_slice(&value));
    buf_fini(&value);
}

/* ---- carry.begin */

static void reply_bound(struct exec *x, struct holding_bound b)
{
    struct buf text = {0};
    buf_add_str(&text, b.at_end ? "+" : b.key.n ? "(" : "-");
    buf_add_slice(&text, b.key);
    reply_bulk(&x->out, buf_slice(&text));
    buf_fini(&text);
}

static void reply_bounds(const struct call *c)
{
    reply_array(&c->x->out, 3);
    reply_bound(c->x, c->op.low);
    reply_bound(c->x, c->op.gone);
    reply_bound(c->x, c->op.high);
}

static bool have_keys_in_common(const struct holding_plan *a, const struct holding_plan *b)
{
    if (a->of_hash || b->of_hash) return a->of_hash && b->of_hash && a->first <= b->last && b->first <= a->last;
    bool a_first = a->end.n && slice_cmp(a->end, b->start) <= 0, b_first = b->end.n && slice_cmp(b->end, a->start) <= 0;
    return slice_eq(a->space, b->space) && !a_first && !b_first;
}

/* What another operation has given out here, and not dropped, would be taken for this one's. */
static bool is_in_the_way_of_others(const struct call *c, const struct holding_plan *p)
{
    for (uint32_t i = 0; i < holding_count(c->holding); i++)
        if (have_keys_in_common(&holding_at(c->holding, i)->plan, p)) return true;
    return false;
}

static void begin_op(struct call *c, uint64_t version, struct slice plan)
{
    struct exec *x = c->x;
    if (holding_plan_decode(plan, &c->op.plan, &c->op_pieces) != 0 || c->op.plan.op != c->number) {
        answer_senseless(x);
    } else if (version < holding_map_version(c->holding)) {
        reply_error(&x->out, "CARRYLATE operations that were under way by that map may have ended");
    } else if (c->op.plan.of_hash && c->map->version < version) {
        reply_error(&x->out, "CARRYBUSY the map of this node is too old");
    } else if (is_in_the_way_of_others(c, &c->op.plan)) {
        reply_error(&x->out, "CARRYBUSY another operation on these keys has not ended here");
    } else {
        save(c);
        if (c->op.plan.of_hash) raise_map_version(c, version); /* an older map may not know yet that the hash does not place some space any more */
        reply_bounds(c);
    }
}

static void go_on_with_op(struct call *c, struct slice plan)
{
    struct buf known = {0};
    holding_plan_encode(&known, &c->op.plan);
    if (slice_eq(plan, buf_slice(&known))) {
        note_term(c);
        reply_bounds(c);
    } else {
        reply_error(&c->x->out, "ERR this group knows the operation with another plan");
    }
    buf_fini(&known);
}

static void cmd_begin(struct exec *x)
{
    struct call c;
    struct slice plan;
    uint64_t version;
    if (begin_call(x, &c) && takes_number(&c) && takes_term(&c)) {
        if (!take_u64(&c.args, &version) || !txnargs_take(&c.args, &plan)) answer_senseless(x);
        else if (c.has_op) go_on_with_op(&c, plan);
        else begin_op(&c, version, plan);
    }
    end_call(&c);
}

/* ---- carry.measure */

static void measure(struct call *c, uint64_t keys, uint64_t bytes)
{
    struct carryslice rest = slice_from(c, c->op.high, carryslice_last());
    struct holding_bound end = {0};
    if (!is_source(c)) reply_bound(c->x, carryslice_last());
    else if (!is_ordered(c)) answer_unordered(c->x);
    else reply_bound(c->x, carryslice_measure(&rest, keys, bytes, &end.key) ? end : carryslice_last());
}

static void cmd_measure(struct exec *x)
{
    struct call c;
    uint64_t keys, bytes;
    if (begin_call(x, &c) && takes_op(&c)) {
        if (take_u64(&c.args, &keys) && take_u64(&c.args, &bytes)) measure(&c, keys, bytes);
        else answer_senseless(x);
    }
    end_call(&c);
}

/* ---- what was given out, and has arrived, goes */

static void drop_given_out(struct call *c, bool ordered)
{
    struct carryslice s = slice_from(c, c->op.gone, c->op.high);
    c->x->ops += carryslice_drop(&s, ordered) + carrylocks_arrived(&s);
    c->op.gone = c->op.high;
}

/* ---- carry.freeze */

static bool is_leaving(void *ctx, struct slice key) { return carryslice_has(ctx, key); }
static bool are_some_leaving(void *ctx, const struct intentspan *span) { return carryslice_has_some(ctx, span); }

/* Nobody has anything against it that keys of the slice are given out now. */
static bool may_freeze(const struct call *c, const struct carryslice *s)
{
    const struct intents_leaving leaving = {(void *)s, is_leaving, are_some_leaving};
    if (is_target(c) && holding_bound_cmp(c->op.low, c->op.high) < 0) return reply_error(&c->x->out, "ERR what was given out before has not been taken here"), false;
    if (holding_is_paused(c->holding, (uint64_t)c->store->now_ms)) return reply_error(&c->x->out, "CARRYBUSY a command over all keys waits"), false;
    if (intents_make_way(intents_of(c), &leaving)) return true;
    return reply_error(&c->x->out, "CARRYBUSY a transaction has keys of the slice"), false;
}

static void freeze(struct call *c, struct holding_bound bound, uint64_t bytes)
{
    struct carryslice s = slice_from(c, c->op.high, bound);
    struct buf locks = {0};
    if (!may_freeze(c, &s)) return;
    drop_given_out(c, true);
    c->op.high = bound;
    save(c);
    c->x->ops += carrylocks_give(&locks, &s, c->holding, &c->op);
    carryslice_tell_interested(&s);
    carrygive_reply(&c->x->out, &s, bytes, buf_slice(&locks));
    buf_fini(&locks);
}

static void freeze_again(struct call *c, uint64_t bytes)
{
    struct carryslice s = slice_from(c, c->op.gone, c->op.high);
    struct buf locks = {0};
    note_term(c);
    carrylocks_give_again(&locks, &s);
    carrygive_reply(&c->x->out, &s, bytes, buf_slice(&locks));
    buf_fini(&locks);
}

static void cmd_freeze(struct exec *x)
{
    struct call c;
    struct holding_bound bound;
    uint64_t bytes;
    if (begin_call(x, &c) && takes_order(&c, &bound)) {
        int order = holding_bound_cmp(bound, c.op.high);
        struct carryslice given = slice_from(&c, order > 0 ? c.op.high : c.op.gone, bound);
        if (!take_u64(&c.args, &bytes)) answer_senseless(x);
        else if (!is_source(&c)) reply_error(&x->out, "ERR this group has none of the keys to give");
        else if (order < 0) answer_old(x);
        else if (!is_ordered(&c)) answer_unordered(x);
        else if (!carryslice_warm(&given)) reply_error(&x->out, "CARRYBUSY a value on disk cannot be read now");
        else if (order > 0) freeze(&c, bound, bytes);
        else freeze_again(&c, bytes);
    }
    end_call(&c);
}

/* ---- carry.piece */

/* It was given out, and has not been dropped. */
static bool is_given_out(const struct call *c, struct slice key)
{
    struct carryslice s = slice_from(c, c->op.gone, c->op.high);
    return is_source(c) && carryslice_has(&s, key);
}

static void reply_piece(struct call *c, const struct entry *e, uint16_t db, struct slice from, uint64_t bytes)
{
    struct buf piece = {0}, next = {0};
    if (carrypieces_read(e, db, from, bytes, &piece, &next)) {
        reply_array(&c->x->out, 2);
        reply_bulk(&c->x->out, buf_slice(&next));
        reply_bulk(&c->x->out, buf_slice(&piece));
    } else {
        answer_senseless(c->x);
    }
    buf_fini(&piece);
    buf_fini(&next);
}

static void give_piece(struct call *c, const struct carrypieces_large *l, struct slice from, uint64_t bytes)
{
    struct place at;
    store_peek(c->store, l->db, keyhash(l->key, c->store->seed), l->key, &at);
    if (!is_given_out(c, l->key)) answer_old(c->x);
    else if (!at.e) reply_null(&c->x->out);
    else if (chill_is_cold(at.e) && chill_fetch(&at) != 0) reply_error(&c->x->out, "CARRYBUSY a value on disk cannot be read now");
    else reply_piece(c, at.e, l->db, from, bytes);
}

static void cmd_piece(struct exec *x)
{
    struct call c;
    struct carrypieces_large l;
    struct slice large, from;
    uint64_t bytes;
    if (begin_call(x, &c) && takes_op(&c)) {
        if (txnargs_take(&c.args, &large) && carrypieces_take_large(large, &l) && txnargs_take(&c.args, &from) && take_u64(&c.args, &bytes)) give_piece(&c, &l, from, bytes);
        else answer_senseless(x);
    }
    end_call(&c);
}

/* ---- carry.put */

/* The new side has it in this group. */
static bool comes_here(const struct carryslice *s, struct slice key) { return carryslice_has(s, key) && holding_side_group(s->plan, &s->plan->new_side, s->map, key) == s->group; }

static void put(struct call *c, const struct op *piece, struct slice from)
{
    struct carryslice s = slice_from(c, c->op.low, is_source(c) ? c->op.high : carryslice_last());
    uint64_t ops = 0;
    if (holding_is_below(piece->key, c->op.low)) { /* a late copy: its slice is taken */
        reply_ok(&c->x->out);
    } else if (!comes_here(&s, piece->key)) {
        reply_error(&c->x->out, "ERR this group does not get that key now");
    } else if (!carrypieces_put(&s, piece, from, &ops)) {
        reply_error(&c->x->out, "CARRYLACKS pieces before this one are not here");
    } else {
        reply_ok(&c->x->out);
    }
    c->x->ops += ops;
    note_term(c);
}

static void cmd_put(struct exec *x)
{
    struct call c;
    struct slice from, bytes;
    struct opcode_scratch scratch = {0};
    struct op piece;
    if (begin_call(x, &c) && takes_op(&c) && takes_term(&c)) {
        if (txnargs_take(&c.args, &from) && txnargs_take(&c.args, &bytes) && opcode_read(bytes, &scratch, &piece) && carrypieces_is_piece(&piece)) put(&c, &piece, from);
        else answer_senseless(x);
    }
    opcode_scratch_fini(&scratch);
    end_call(&c);
}

/* ---- carry.take */

static bool take_entry(struct txnargs *a, struct dumpfile_entry *e)
{
    struct slice bytes;
    return txnargs_take(a, &bytes) && bytes.n && dumpfile_take_entry(bytes, e) == bytes.n;
}

/* It can be taken, and belongs here. */
static bool is_welcome(const struct carryslice *s, const struct dumpfile_entry *e)
{
    return e->db < STORE_DBS && e->expiry_ms >= 0 && comes_here(s, e->key) && image_valid(e->image);
}

/* What a take brings, as it is looked through before anything is changed. */
struct bringing {
    bool changes_locks; /* taking them does */
    bool lacks;         /* a large value is not all here */
    struct buf larges;  /* as carrypieces_end wants them */
};

static bool are_larges(const struct carryslice *s, struct txnargs *a, struct bringing *b)
{
    struct carrypieces_large l;
    struct slice bytes;
    uint32_t n;
    if (!txnargs_take_count(a, 1, &n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!txnargs_take(a, &bytes) || !carrypieces_take_large(bytes, &l) || !comes_here(s, l.key)) return false;
        b->lacks |= !carrypieces_is_whole(s, &l);
        le_add_u32(&b->larges, (uint32_t)bytes.n);
        buf_add_slice(&b->larges, bytes);
    }
    return true;
}

static bool are_parts(const struct carryslice *s, struct txnargs a, struct bringing *b)
{
    struct dumpfile_entry e;
    struct slice locks;
    uint32_t parts, n;
    if (!txnargs_take_count(&a, 3, &parts)) return false;
    for (uint32_t i = 0; i < parts; i++) {
        if (!txnargs_take_count(&a, 1, &n)) return false;
        for (uint32_t k = 0; k < n; k++)
            if (!take_entry(&a, &e) || !is_welcome(s, &e)) return false;
        if (!are_larges(s, &a, b)) return false;
        if (!txnargs_take(&a, &locks) || !carrylocks_are_good(s, locks)) return false;
        b->changes_locks |= carrylocks_change_any(s, locks);
    }
    return txnargs_is_at_end(&a);
}

static void put_entry(struct call *c, const struct dumpfile_entry *e)
{
    struct op op = {.kind = OP_RESTORE, .db = e->db, .key = e->key, .value = e->image, .expiry_ms = e->expiry_ms};
    if (image_plain_string(e->image, &op.value)) op.kind = OP_SET;
    store_apply(c->store, &op, NULL);
    c->x->ops++;
}

static void put_parts(struct call *c, const struct carryslice *s)
{
    struct dumpfile_entry e;
    struct slice large, locks;
    uint32_t parts, n;
    txnargs_take_count(&c->args, 3, &parts);
    for (uint32_t i = 0; i < parts; i++) {
        txnargs_take_count(&c->args, 1, &n);
        for (uint32_t k = 0; k < n; k++) {
            take_entry(&c->args, &e);
            put_entry(c, &e);
        }
        txnargs_take_count(&c->args, 1, &n);
        while (n--) txnargs_take(&c->args, &large);
        txnargs_take(&c->args, &locks);
        c->x->ops += carrylocks_take(s, locks);
    }
}

/* False: it is answered. */
static bool may_take(struct call *c, const struct carryslice *s, struct bringing *b)
{
    struct reply *out = &c->x->out;
    if (is_source(c) && holding_bound_cmp(c->op.high, s->upto) < 0) return reply_error(out, "ERR this group has not given out its own keys of the slice"), false;
    if (!are_parts(s, c->args, b)) return answer_senseless(c->x), false;
    if (b->lacks) return reply_error(out, "CARRYLACKS a large value is not all here"), false;
    if (!b->changes_locks || intents_make_way_at(intents_of(c), STORE_SYSTEM_DB, spacelock_counter)) return true;
    return reply_error(out, "CARRYBUSY a transaction changes locks"), false;
}

static void take(struct call *c, struct holding_bound bound)
{
    struct carryslice s = slice_from(c, c->op.low, bound);
    struct bringing b = {0};
    if (!is_target(c)) {
        reply_error(&c->x->out, "ERR this group gets none of the keys");
    } else if (holding_bound_cmp(bound, c->op.low) <= 0) {
        note_term(c);
        reply_ok(&c->x->out);
    } else if (may_take(c, &s, &b)) {
        c->x->ops += carrypieces_end(&s, buf_slice(&b.larges));
        put_parts(c, &s);
        c->op.low = bound;
        if (!is_source(c)) c->op.gone = c->op.high = bound;
        save(c);
        reply_ok(&c->x->out);
    }
    buf_fini(&b.larges);
}

static void cmd_take(struct exec *x)
{
    struct call c;
    struct holding_bound bound;
    if (begin_call(x, &c) && takes_order(&c, &bound)) take(&c, bound);
    end_call(&c);
}

/* ---- carry.drop and carry.end */

static void drop(struct call *c, struct holding_bound bound)
{
    bool due = is_source(c) && holding_bound_cmp(bound, c->op.high) == 0 && holding_bound_cmp(c->op.gone, c->op.high) < 0;
    if (due && !is_ordered(c)) {
        answer_unordered(c->x);
        return;
    }
    if (due) {
        drop_given_out(c, true);
        save(c);
    } else {
        note_term(c);
    }
    reply_ok(&c->x->out);
}

static void cmd_drop(struct exec *x)
{
    struct call c;
    struct holding_bound bound;
    if (begin_call(x, &c) && takes_order(&c, &bound)) drop(&c, bound);
    end_call(&c);
}

static bool is_behind_all(const struct call *c, struct holding_bound b) { return b.at_end || (c->op.plan.end.n && slice_cmp(b.key, c->op.plan.end) >= 0); }
static bool is_before_all(const struct call *c, struct holding_bound b) { return !b.at_end && slice_cmp(b.key, c->op.plan.start) <= 0; }

/* It has not begun to carry, or has carried everything. */
static bool can_end(const struct call *c)
{
    if (is_before_all(c, c->op.low) && is_before_all(c, c->op.high)) return true;
    return (!is_source(c) || is_behind_all(c, c->op.high)) && (!is_target(c) || is_behind_all(c, c->op.low));
}

/* By the map that the operation ended with, the key space may have no order any more. A line is not made for what is left over alone. */
static bool is_still_ordered(const struct call *c) { return (!c->op.plan.of_hash || c->store->in_line) && is_ordered(c); }

static void end_op(struct call *c, uint64_t version)
{
    if (c->has_op) {
        drop_given_out(c, is_still_ordered(c));
        if (c->op.plan.of_hash && c->engine->topology) topology_let_line_go(c->engine->topology, c->x->shard);
        remove_op(c);
    }
    raise_map_version(c, version);
    reply_ok(&c->x->out);
}

static void cmd_end(struct exec *x)
{
    struct call c;
    uint64_t version;
    if (begin_call(x, &c) && takes_number(&c) && takes_term(&c)) {
        if (!take_u64(&c.args, &version)) answer_senseless(x);
        else if (c.has_op && !can_end(&c)) reply_error(&x->out, "ERR the operation has not carried all of its keys");
        else end_op(&c, version);
    }
    end_call(&c);
}

/* ---- */

#define OF_GROUP .class = CLASS_KEYED, .group = "cluster", .since = "0.1.0"
#define READ (CMD_OF_GROUP | CMD_READONLY)
#define WRITE (CMD_OF_GROUP | CMD_WRITE)

static const struct command rows[] = {
    {.name = "carry.begin", .fn = cmd_begin, .arity = 5, .flags = WRITE, OF_GROUP, .summary = "This group has a part in an operation that carries keys.", .args = "op term version plan"},
    {.name = "carry.measure", .fn = cmd_measure, .arity = 4, .flags = READ, OF_GROUP, .summary = "Where the next slice would end.", .args = "op keys bytes"},
    {.name = "carry.freeze", .fn = cmd_freeze, .arity = 5, .flags = WRITE, OF_GROUP, .summary = "Gives out a slice of keys.", .args = "op term bound bytes"},
    {.name = "carry.piece", .fn = cmd_piece, .arity = 5, .flags = READ, OF_GROUP, .summary = "A piece of a large value that was given out.", .args = "op large from bytes"},
    {.name = "carry.put", .fn = cmd_put, .arity = 5, .flags = WRITE, OF_GROUP, .summary = "Puts a piece of a large value in its place.", .args = "op term from piece"},
    {.name = "carry.take", .fn = cmd_take, .arity = -5, .flags = WRITE, OF_GROUP, .summary = "Takes a slice of keys.", .args = "op term bound nparts [nentries [entry ...] nlarges [large ...] locks ...]"},
    {.name = "carry.drop", .fn = cmd_drop, .arity = 4, .flags = WRITE, OF_GROUP, .summary = "Drops what has arrived elsewhere.", .args = "op term bound"},
    {.name = "carry.end", .fn = cmd_end, .arity = 4, .flags = WRITE, OF_GROUP, .summary = "An operation that carries keys is over.", .args = "op term version"},
};

const struct command_family carrycmd_family = COMMAND_FAMILY(rows);
