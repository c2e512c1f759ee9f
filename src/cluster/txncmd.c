#include "cluster/txncmd.h"

#include <stdio.h>

#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/intentcode.h"
#include "cluster/intentevent.h"
#include "cluster/meta.h"
#include "cluster/seatentry.h"
#include "cluster/txnargs.h"
#include "dump/dumpfile.h"
#include "log/opcode.h"
#include "route/spacelock.h"
#include "shard/engine.h"
#include "shard/seating.h"
#include "shard/task.h"
#include "store/fits.h"

void txncmd_add_op(struct buf *ops, struct slice op)
{
    le_add_u32(ops, (uint32_t)op.n);
    buf_add_slice(ops, op);
}

/* ---- what a command stands before */

struct call {
    struct exec *x;
    struct intents *intents;
    struct store *store;
    struct slice id;
    struct txnargs args; /* behind the name and the transaction's, if it has one */
};

/* False: it is answered. */
static bool begin(struct exec *x, bool has_id, struct call *c)
{
    const struct engine *e = engine_worker_of(x)->engine;
    *c = (struct call){.x = x, .store = x->stores[x->shard], .args = {x->argv, x->argc, 1}};
    c->intents = e->seating->intents(e->seating->ctx, &e->shards[x->shard]);
    if (!has_id) return true;
    txnargs_take(&c->args, &c->id);
    if (intentcode_is_id(c->id)) return true;
    reply_error(&x->out, "ERR that is no name of a transaction");
    return false;
}

static void answer_senseless(struct exec *x) { reply_errorf(&x->out, "ERR the arguments of %s make no sense", x->cmd->name); }
static void answer_gone(struct exec *x) { reply_error(&x->out, "TXNGONE its reservations are gone"); }

/* By the map that this node has, and by what the group serves while keys are carried. */
static bool is_here(const struct call *c, struct slice key)
{
    const struct engine *e = engine_worker_of(c->x)->engine;
    if (route_key(c->x->route, key, keyhash(key, c->store->seed)) != c->x->shard) return false;
    return e->seating->serves(e->seating->ctx, &e->shards[c->x->shard], key);
}

static void answer_moved(struct exec *x) { reply_error(&x->out, "TXNMOVED a key is not in this group, as far as it knows"); }

/* ---- records */

static void apply(struct call *c, const struct op *op, struct place *at)
{
    store_apply(c->store, op, at);
    c->x->ops++;
}

static void put_record(struct call *c, struct slice space, struct slice value)
{
    struct buf key = {0};
    intentcode_key(&key, space, c->id);
    apply(c, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = value}, NULL);
    buf_fini(&key);
}

static void del_record(struct call *c, struct slice space)
{
    struct buf key = {0};
    intentcode_key(&key, space, c->id);
    apply(c, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key)}, NULL);
    buf_fini(&key);
}

/* A copy: what is applied may not lie in the store. */
static void copy_record(const struct call *c, struct slice space, struct buf *out)
{
    struct buf key = {0};
    struct place at;
    intentcode_key(&key, space, c->id);
    store_peek(c->store, STORE_SYSTEM_DB, keyhash(buf_slice(&key), c->store->seed), buf_slice(&key), &at);
    CHECK(at.e);
    buf_add_slice(out, entry_value(at.e));
    buf_fini(&key);
}

/* ---- ops */

/* Who has the counter of their tokens writes locks on key spaces: no other ops of the system's pass intentcode_are_ops. */
static bool may_write(const struct call *c, const struct op *op)
{
    return intents_has(c->intents, c->id, op->db, op->db == STORE_SYSTEM_DB ? spacelock_counter : op->key, INTENTS_WRITES);
}

/* The transaction may write all that they write. */
static bool are_allowed(const struct call *c, struct slice ops)
{
    struct opcode_scratch scratch = {0};
    struct op op;
    bool bad, fine = intentcode_are_ops(ops);
    while (fine && seatentry_next_op(&ops, &scratch, &op, &bad)) fine = may_write(c, &op);
    opcode_scratch_fini(&scratch);
    return fine;
}

/* Nobody could write the keys since the ops were made from them, so they fit. One that does not, because its coordinator was wrong, is passed over; on every replica alike, for they get what was applied here. */
static void apply_ops(struct call *c, struct slice ops)
{
    struct opcode_scratch scratch = {0};
    struct op op;
    struct place at;
    bool bad;
    while (seatentry_next_op(&ops, &scratch, &op, &bad))
        if (fits_op(c->store, &op, keyhash(op.key, c->store->seed), &at)) apply(c, &op, &at);
    opcode_scratch_fini(&scratch);
}

/* ---- events */

/* Takes those that are behind the ops, or none; false: it is something else. */
static bool take_events(struct txnargs *a, struct slice *events)
{
    *events = SLICE("");
    return (txnargs_is_at_end(a) || txnargs_take(a, events)) && txnargs_is_at_end(a) && intentevent_are(*events);
}

/* As the commands would have, had they run here. */
static void tell(struct call *c, struct slice events)
{
    struct intentevent e;
    char name[INTENTEVENT_NAME_MAX + 1];
    while (intentevent_next(&events, &e)) {
        snprintf(name, sizeof name, "%.*s", (int)e.name.n, e.name.p);
        exec_notify_in(c->x, e.event_class, name, e.key, e.db);
    }
}

/* ---- txn.digest */

enum { MARK_BYTES = 8 };

/* The mark alone would do; the digest of the value also tells what no op did: that it has expired. */
static struct slice digest_of(struct call *c, uint16_t db, struct slice key, char out[TXNCMD_DIGEST_BYTES])
{
    const struct engine *e = engine_worker_of(c->x)->engine;
    uint64_t hash = keyhash(key, c->store->seed);
    struct place at;
    store_peek(c->store, db, hash, key, &at); /* first: this may be what finds it expired, and removes it */
    le_set_u64(out, e->seating->mark(e->seating->ctx, &e->shards[c->x->shard], hash));
    if (!at.e) return slice_of(out, MARK_BYTES);
    for (uint64_t i = 0; i < (TXNCMD_DIGEST_BYTES - MARK_BYTES) / 8; i++) {
        uint64_t head[2] = {i, (uint64_t)entry_expiry_ms(at.e)};
        le_set_u64(out + MARK_BYTES + i * 8, store_value_digest(at.e, keyhash(slice_of(head, sizeof head), 0)));
    }
    return slice_of(out, TXNCMD_DIGEST_BYTES);
}

static void cmd_digest(struct exec *x)
{
    struct call c;
    char digest[TXNCMD_DIGEST_BYTES];
    begin(x, false, &c);
    reply_bulk(&x->out, digest_of(&c, x->db, x->argv[1], digest));
}

/* ---- txn.run */

static bool is_key_here(void *ctx, const struct command *cmd, uint16_t db, struct slice key)
{
    const struct call *c = ctx;
    return is_here(c, key);
}

/* Looks at everything before anything runs. False: it is answered. */
static bool may_run(struct call *c, struct txnargs a, const struct command_table *t)
{
    struct exec *x = c->x;
    struct txnargs_check check;
    struct txnargs_part part;
    uint32_t n;
    if (!txnargs_take_count(&a, 3, &n)) return answer_senseless(x), false;
    for (uint32_t i = 0; i < n; i++) {
        if (!txnargs_take_check(&a, &check)) return answer_senseless(x), false;
        if (!is_key_here(c, NULL, check.db, check.key)) return answer_moved(x), false;
    }
    if (!txnargs_take_count(&a, 3, &n)) return answer_senseless(x), false;
    for (uint32_t i = 0; i < n; i++) {
        if (!txnargs_take_part(&a, t, &part)) return answer_senseless(x), false;
        if (!part.cmd) return reply_error(&x->out, "ERR a command that cannot be part of a transaction"), false;
        if (!txnargs_all_of_command(part.cmd, part.argv, part.argc, part.db, is_key_here, c)) return answer_moved(x), false;
    }
    if (!txnargs_is_at_end(&a)) return answer_senseless(x), false;
    return true;
}

/* Takes the checks; true: the keys are what they were. */
static bool are_unchanged(struct call *c)
{
    struct txnargs_check check;
    char digest[TXNCMD_DIGEST_BYTES];
    uint32_t n = 0;
    bool same = true;
    txnargs_take_count(&c->args, 3, &n);
    for (uint32_t i = 0; i < n; i++) {
        txnargs_take_check(&c->args, &check);
        same &= slice_eq(digest_of(c, check.db, check.key, digest), check.digest);
    }
    return same;
}

static void run_parts(struct call *c, const struct command_table *t)
{
    struct exec *x = c->x, before = *x;
    struct txnargs_part part;
    uint32_t n = 0;
    txnargs_take_count(&c->args, 3, &n);
    reply_array(&x->out, n);
    for (uint32_t i = 0; i < n; i++) {
        txnargs_take_part(&c->args, t, &part);
        struct task one = {.db = part.db, .resp = x->out.resp, .session = x->session}; /* of its own: it may be in another database */
        task_run_command(engine_worker_of(x), &one, part.cmd, part.argv, part.argc);
    }
    x->cmd = before.cmd;
    x->sub = NULL;
    x->argv = before.argv;
    x->argc = before.argc;
    x->db = before.db;
}

static void cmd_run(struct exec *x)
{
    const struct command_table *t = engine_worker_of(x)->engine->commands;
    struct call c;
    begin(x, false, &c);
    if (!may_run(&c, c.args, t)) return;
    if (are_unchanged(&c)) run_parts(&c, t);
    else reply_null_array(&x->out);
}

/* ---- txn.fetch */

struct want {
    uint16_t db;
    enum intents_use use;
    bool key_only;
    struct slice key;
};

static bool take_want(struct txnargs *a, struct want *out)
{
    struct slice use;
    if (!txnargs_take_db(a, &out->db) || !txnargs_take(a, &use) || !txnargs_take(a, &out->key) || use.n != 1 || !strchr("rewk", use.p[0])) return false;
    out->use = strchr("re", use.p[0]) ? INTENTS_READS : INTENTS_WRITES;
    out->key_only = strchr("ek", use.p[0]) != NULL;
    return true;
}

static bool are_checks(struct txnargs a)
{
    struct txnargs_check check;
    uint32_t n;
    if (!txnargs_take_count(&a, 3, &n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!txnargs_take_check(&a, &check)) return false;
    return txnargs_is_at_end(&a);
}

/* checks: what is behind them. */
static bool are_wants(struct txnargs a, uint32_t n, struct txnargs *checks)
{
    struct want want;
    for (uint32_t i = 0; i < n; i++)
        if (!take_want(&a, &want)) return false;
    *checks = a;
    return txnargs_is_at_end(&a) || are_checks(a);
}

static bool can_have_all(struct intents *intents, struct slice id, struct txnargs a, uint32_t n)
{
    struct want want;
    for (uint32_t i = 0; i < n; i++) {
        take_want(&a, &want);
        if (!intents_can(intents, id, want.db, want.key, want.use)) return false;
    }
    return true;
}

/* Of each type the image of a small value. */
static void add_stand_in(struct buf *raw, uint16_t db, const struct entry *e)
{
    static const struct slice images[TYPE_COUNT] = {
        [TYPE_STRING] = {"\0\0", 2}, [TYPE_LIST] = {"\1\1\0", 3}, [TYPE_SET] = {"\2\1\0", 3}, [TYPE_HASH] = {"\4\1\0\0", 4}, [TYPE_ZSET] = {"\5\1\0\0\0\0\0\0\0\0\0", 11},
    };
    dumpfile_add_image(raw, db, entry_key(e), entry_expiry_ms(e), images[entry_type(e)]);
}

static void reply_entry(struct exec *x, const struct want *want, const struct entry *e)
{
    struct buf raw = {0};
    if (want->key_only) add_stand_in(&raw, want->db, e);
    else dumpfile_add_entry(&raw, want->db, e);
    reply_bulk(&x->out, buf_slice(&raw));
    buf_fini(&raw);
}

/* A key past its expiry goes before it is reserved: later it must not, and would be hidden where the transaction's ops take it for gone. One that the transaction has is told as it was the first time, expired meanwhile or not. */
static void find_wanted(struct call *c, const struct want *want, struct place *at)
{
    uint64_t hash = keyhash(want->key, c->store->seed);
    const struct op any = {.kind = OP_DEL, .db = want->db, .key = want->key};
    if (intents_has(c->intents, c->id, want->db, want->key, INTENTS_READS)) fits_op(c->store, &any, hash, at);
    else store_peek(c->store, want->db, hash, want->key, at);
}

static void reserve_and_reply(struct call *c, uint32_t n)
{
    struct exec *x = c->x;
    struct want want;
    struct place at;
    uint64_t token = intents_token(c->intents, c->id);
    while (!token) token = rng_u64(x->rng);
    char text[TXNCMD_TOKEN_BYTES + 1];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)token);
    reply_array(&x->out, n + 1);
    reply_bulk(&x->out, slice_of(text, TXNCMD_TOKEN_BYTES));
    for (uint32_t i = 0; i < n; i++) {
        take_want(&c->args, &want);
        find_wanted(c, &want, &at);
        intents_reserve(c->intents, c->id, token, want.db, want.key, want.use);
        if (at.e) reply_entry(x, &want, at.e);
        else reply_null(&x->out);
    }
}

static bool are_wants_here(const struct call *c, struct txnargs a, uint32_t n)
{
    struct want want;
    bool here = true;
    for (uint32_t i = 0; here && i < n; i++) here = take_want(&a, &want) && is_here(c, want.key);
    return here;
}

static bool are_as_watched(const struct call *c, struct txnargs checks)
{
    struct call at_checks = *c;
    at_checks.args = checks;
    return txnargs_is_at_end(&checks) || are_unchanged(&at_checks);
}

static void cmd_fetch(struct exec *x)
{
    struct call c;
    struct txnargs checks;
    uint32_t n;
    if (!begin(x, true, &c)) return;
    enum intents_state state = intents_state(c.intents, c.id);
    if (!txnargs_take_count(&c.args, 3, &n) || n == 0 || !are_wants(c.args, n, &checks)) answer_senseless(x);
    else if (!are_wants_here(&c, c.args, n)) answer_moved(x);
    else if (state != INTENTS_NONE && state != INTENTS_RESERVED) answer_gone(x);
    else if (!can_have_all(c.intents, c.id, c.args, n)) reply_error(&x->out, "TXNBUSY a key is taken by another transaction");
    else if (!are_as_watched(&c, checks)) reply_error(&x->out, "TXNCHANGED a watched key is another now");
    else reserve_and_reply(&c, n);
}

/* ---- those that stand on reservations */

/* The token is that of the reservations. */
static bool is_held(const struct call *c, struct slice text)
{
    char now[TXNCMD_TOKEN_BYTES + 1];
    uint64_t token = intents_token(c->intents, c->id);
    snprintf(now, sizeof now, "%016llx", (unsigned long long)token);
    return token && slice_eq(text, slice_of(now, TXNCMD_TOKEN_BYTES));
}

static void cmd_done(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    bool held = is_held(&c, x->argv[2]);
    if (held) intents_remove(c.intents, c.id);
    if (held) reply_ok(&x->out);
    else answer_gone(x);
}

static void write_intent(struct call *c, uint32_t decider, struct slice ops, struct slice events)
{
    struct buf keys = {0}, record = {0};
    struct intents_key k;
    struct intentspan s;
    uint32_t n = 0;
    for (const void *at = NULL; intents_next_key(c->intents, c->id, &at, &k); n++) intentcode_add_key(&keys, &k);
    for (const void *at = NULL; intents_next_span(c->intents, c->id, &at, &s); n++) intentcode_add_span(&keys, &s);
    intentcode_begin(&record, decider, n);
    buf_add_slice(&record, buf_slice(&keys));
    if (events.n) intentcode_add_events(&record, events);
    intentcode_end(&record, ops);
    put_record(c, INTENTCODE_INTENTS, buf_slice(&record));
    buf_fini(&keys);
    buf_fini(&record);
    intents_prepared(c->intents, c->id, decider);
}

static void cmd_prepare(struct exec *x)
{
    struct call c;
    struct slice token, ops, events;
    uint32_t decider;
    if (!begin(x, true, &c)) return;
    if (!txnargs_take(&c.args, &token) || !txnargs_take_number(&c.args, META_GROUPS_MAX - 1, &decider) || !txnargs_take(&c.args, &ops) || !take_events(&c.args, &events)) {
        answer_senseless(x);
    } else if (intents_state(c.intents, c.id) == INTENTS_INTENT) {
        reply_ok(&x->out);
    } else if (!is_held(&c, token)) {
        answer_gone(x);
    } else if (!are_allowed(&c, ops)) {
        answer_senseless(x);
    } else {
        write_intent(&c, decider, ops, events);
        reply_ok(&x->out);
    }
}

static void write_decision(struct call *c, const uint32_t *groups, uint32_t n)
{
    struct buf record = {0};
    intentcode_add_decision(&record, groups, n);
    put_record(c, INTENTCODE_DECISIONS, buf_slice(&record));
    buf_fini(&record);
    intents_decided(c->intents, c->id, groups, n);
}

static bool take_groups(struct txnargs *a, uint32_t *groups, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!txnargs_take_number(a, META_GROUPS_MAX - 1, &groups[i])) return false;
    return true;
}

static void decide(struct call *c, struct slice token, const uint32_t *groups, uint32_t n, struct slice ops, struct slice events)
{
    struct exec *x = c->x;
    if (intents_state(c->intents, c->id) == INTENTS_DECISION) {
        reply_ok(&x->out);
    } else if (!is_held(c, token)) {
        answer_gone(x);
    } else if (!are_allowed(c, ops)) {
        answer_senseless(x);
    } else {
        apply_ops(c, ops);
        write_decision(c, groups, n);
        tell(c, events);
        reply_ok(&x->out);
    }
}

static void cmd_decide(struct exec *x)
{
    struct call c;
    struct slice token, ops, events;
    uint32_t n, *groups = NULL;
    if (!begin(x, true, &c)) return;
    bool fine = txnargs_take(&c.args, &token) && txnargs_take_count(&c.args, 1, &n) && n <= META_GROUPS_MAX;
    if (fine) groups = mem_alloc(n * sizeof *groups + 1);
    fine = fine && take_groups(&c.args, groups, n) && txnargs_take(&c.args, &ops) && take_events(&c.args, &events);
    if (fine) decide(&c, token, groups, n, ops, events);
    else answer_senseless(x);
    mem_free(groups);
}

/* ---- those that stand on records */

static void apply_intent(struct call *c)
{
    struct buf record = {0};
    struct intentcode r;
    copy_record(c, INTENTCODE_INTENTS, &record);
    bool is_one = intentcode_read(buf_slice(&record), &r);
    CHECK(is_one);
    apply_ops(c, r.ops);
    tell(c, r.events);
    buf_fini(&record);
}

static void cmd_commit(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    if (intents_state(c.intents, c.id) == INTENTS_INTENT) {
        apply_intent(&c);
        del_record(&c, INTENTCODE_INTENTS);
        intents_remove(c.intents, c.id);
    }
    reply_ok(&x->out);
}

static void cmd_drop(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    enum intents_state state = intents_state(c.intents, c.id);
    if (state == INTENTS_INTENT) del_record(&c, INTENTCODE_INTENTS);
    if (state == INTENTS_INTENT || state == INTENTS_RESERVED) intents_remove(c.intents, c.id);
    reply_ok(&x->out);
}

static void cmd_ask(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    enum intents_state state = intents_state(c.intents, c.id);
    if (state == INTENTS_RESERVED) intents_remove(c.intents, c.id);
    reply_simple(&x->out, state == INTENTS_DECISION ? "committed" : "none");
}

static void cmd_settled(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    if (intents_state(c.intents, c.id) == INTENTS_DECISION) write_decision(&c, NULL, 0);
    reply_ok(&x->out);
}

static void cmd_forget(struct exec *x)
{
    struct call c;
    if (!begin(x, true, &c)) return;
    if (intents_state(c.intents, c.id) == INTENTS_DECISION) {
        del_record(&c, INTENTCODE_DECISIONS);
        intents_remove(c.intents, c.id);
    }
    reply_ok(&x->out);
}

/* ---- txn.list */

static void reply_groups(struct exec *x, const struct intents_info *i)
{
    reply_array(&x->out, i->n_groups);
    for (uint32_t k = 0; k < i->n_groups; k++) reply_int(&x->out, i->groups[k]);
}

static void reply_list(struct call *c, enum intents_state state, uint32_t age)
{
    struct exec *x = c->x;
    struct intents_info i;
    size_t n = 0, mark = reply_open(&x->out);
    for (const void *at = NULL; n < TXNCMD_LIST_MAX && intents_next(c->intents, state, &at, &i);) {
        if (i.age_ms < age) break;
        reply_array(&x->out, 3);
        reply_bulk(&x->out, i.id);
        if (state == INTENTS_INTENT) reply_int(&x->out, i.decider);
        else reply_groups(x, &i);
        reply_int(&x->out, (int64_t)i.age_ms);
        n++;
    }
    reply_close_array(&x->out, mark, n);
}

static void cmd_list(struct exec *x)
{
    struct call c;
    uint32_t age;
    begin(x, false, &c);
    if (!txnargs_take_number(&c.args, UINT32_MAX, &age)) {
        answer_senseless(x);
        return;
    }
    reply_array(&x->out, 2);
    reply_list(&c, INTENTS_INTENT, age);
    reply_list(&c, INTENTS_DECISION, age);
}

/* ---- may a request run, as far as locks are concerned? */

/* MOVE and COPY also write keys of another database. */
static bool crosses_databases(const struct command *c) { return strcmp(c->name, "move") == 0 || strcmp(c->name, "copy") == 0; }

static bool is_allowed(void *intents, const struct command *c, uint16_t of_db, struct slice key)
{
    enum intents_use use = c && c->flags & CMD_WRITE ? INTENTS_WRITES : INTENTS_READS;
    bool all = c && crosses_databases(c), allowed = true;
    for (uint16_t db = all ? 0 : of_db; allowed && db < (all ? STORE_DBS : of_db + 1); db++) allowed = intents_allows(intents, db, key, use);
    return allowed;
}

bool txncmd_all_keys(const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db, txnargs_key_fn *one, void *ctx)
{
    struct txnargs a = {argv, argc, 1};
    if (c->fn == cmd_run) return txnargs_all_of_run(a, t, one, ctx);
    if (!c->inner_at) return txnargs_all_of_command(c, argv, argc, db, one, ctx);
    const struct command *inner = command_inner(t, c, argv, argc);
    return !inner || txnargs_all_of_command(inner, argv + c->inner_at, argc - (uint32_t)c->inner_at, db, one, ctx);
}

/* Who writes locks on key spaces has the counter of their tokens. */
static bool admits_extent(struct intents *n, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db, enum intents_use use)
{
    struct intentspan s = {.db = db};
    if (c->flags & CMD_OF_LOCKS) return intents_allows(n, STORE_SYSTEM_DB, spacelock_counter, use);
    return !c->extent(argv, argc, &s.space, &s.start, &s.end) || intents_allows_span(n, &s, use);
}

bool txncmd_admits(struct intents *n, const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db)
{
    enum intents_use use = c->flags & CMD_WRITE ? INTENTS_WRITES : INTENTS_READS;
    if (c->flags & CMD_ALL_KEYS) return intents_allows_all(n, use);
    if (c->class == CLASS_SPACE) return admits_extent(n, c, argv, argc, db, use);
    return txncmd_all_keys(t, c, argv, argc, db, is_allowed, n);
}

/* ---- */

#define OF_GROUP .class = CLASS_KEYED, .group = "cluster", .since = "0.1.0"
#define READ (CMD_OF_GROUP | CMD_READONLY)
#define WRITE (CMD_OF_GROUP | CMD_WRITE)

static const struct command rows[] = {
    {.name = "txn.digest", .fn = cmd_digest, .arity = 2, .flags = CMD_OF_NODES | CMD_READONLY, .first_key = 1, .last_key = 1, .key_step = 1, OF_GROUP, .summary = "The digest of a key, for WATCH.", .args = "key"},
    {.name = "txn.run", .fn = cmd_run, .arity = -3, .flags = WRITE | CMD_ONCE, OF_GROUP, .summary = "A transaction within the group.", .args = "nchecks [db key digest ...] ncommands [db argc arg ...]"},
    {.name = "txn.fetch", .fn = cmd_fetch, .arity = -6, .flags = READ, OF_GROUP, .summary = "Reserves keys, and gives their entries.", .args = "id nkeys db use key [db use key ...]"},
    {.name = "txn.done", .fn = cmd_done, .arity = 3, .flags = READ, OF_GROUP, .summary = "Gives reservations back that were held to this moment.", .args = "id token"},
    {.name = "txn.prepare", .fn = cmd_prepare, .arity = -5, .flags = WRITE, OF_GROUP, .summary = "Makes reservations an intent.", .args = "id token decider ops [events]"},
    {.name = "txn.decide", .fn = cmd_decide, .arity = -5, .flags = WRITE, OF_GROUP, .summary = "Decides a transaction.", .args = "id token ngroups [group ...] ops [events]"},
    {.name = "txn.commit", .fn = cmd_commit, .arity = 2, .flags = WRITE, OF_GROUP, .summary = "Applies an intent.", .args = "id"},
    {.name = "txn.drop", .fn = cmd_drop, .arity = 2, .flags = WRITE, OF_GROUP, .summary = "Drops reservations and intent.", .args = "id"},
    {.name = "txn.ask", .fn = cmd_ask, .arity = 2, .flags = READ, OF_GROUP, .summary = "The fate of a transaction.", .args = "id"},
    {.name = "txn.settled", .fn = cmd_settled, .arity = 2, .flags = WRITE, OF_GROUP, .summary = "All groups have heard of a decision.", .args = "id"},
    {.name = "txn.forget", .fn = cmd_forget, .arity = 2, .flags = WRITE, OF_GROUP, .summary = "Forgets a decision.", .args = "id"},
    {.name = "txn.list", .fn = cmd_list, .arity = 2, .flags = READ, OF_GROUP, .summary = "Intents and decisions.", .args = "age"},
};

const struct command_family txncmd_family = COMMAND_FAMILY(rows);
