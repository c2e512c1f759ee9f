#include "cluster/txnargs.h"

#include "base/mem.h"
#include "base/num.h"
#include "store/store.h"

enum { KEYS_ON_STACK = 64 };

bool txnargs_take(struct txnargs *a, struct slice *out)
{
    if (a->at == a->argc) return false;
    *out = a->argv[a->at++];
    return true;
}

bool txnargs_take_number(struct txnargs *a, uint32_t max, uint32_t *out)
{
    struct slice text;
    uint64_t v;
    if (!txnargs_take(a, &text) || !num_parse_u64(text, &v) || v > max) return false;
    *out = (uint32_t)v;
    return true;
}

bool txnargs_take_count(struct txnargs *a, uint32_t each, uint32_t *out) { return txnargs_take_number(a, UINT32_MAX, out) && *out <= (a->argc - a->at) / each; }

bool txnargs_take_db(struct txnargs *a, uint16_t *db)
{
    uint32_t v;
    if (!txnargs_take_number(a, STORE_DBS - 1, &v)) return false;
    *db = (uint16_t)v;
    return true;
}

/* ---- of txn.run */

bool txnargs_take_check(struct txnargs *a, struct txnargs_check *out) { return txnargs_take_db(a, &out->db) && txnargs_take(a, &out->key) && txnargs_take(a, &out->digest); }

static bool may_be_part(const struct command *c, uint32_t argc)
{
    return c && c->class == CLASS_KEYED && !(c->flags & (CMD_NO_MULTI | CMD_AT_ONCE)) && !c->inner_at && !c->each_inner && command_arity_ok(c, argc);
}

bool txnargs_take_part(struct txnargs *a, const struct command_table *t, struct txnargs_part *out)
{
    if (!txnargs_take_db(a, &out->db) || !txnargs_take_count(a, 1, &out->argc) || out->argc == 0) return false;
    out->argv = a->argv + a->at;
    a->at += out->argc;
    const struct command *c = command_find(t, out->argv[0]);
    out->cmd = may_be_part(c, out->argc) ? c : NULL;
    return true;
}

/* ---- keys */

bool txnargs_all_of_command(const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db, txnargs_key_fn *one, void *ctx)
{
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack;
    int n = command_keys(c, argv, argc, at, KEYS_ON_STACK);
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(c, argv, argc, at, n);
    }
    bool all = true;
    for (int i = 0; all && i < n; i++) all = one(ctx, c, db, argv[at[i]]);
    if (at != on_stack) mem_free(at);
    return all;
}

bool txnargs_all_of_run(struct txnargs a, const struct command_table *t, txnargs_key_fn *one, void *ctx)
{
    struct txnargs_check check;
    struct txnargs_part part;
    uint32_t n;
    if (!txnargs_take_count(&a, 3, &n)) return true;
    for (uint32_t i = 0; i < n; i++) {
        if (!txnargs_take_check(&a, &check)) return true;
        if (!one(ctx, NULL, check.db, check.key)) return false;
    }
    if (!txnargs_take_count(&a, 3, &n)) return true;
    for (uint32_t i = 0; i < n; i++) {
        if (!txnargs_take_part(&a, t, &part) || !part.cmd) return true;
        if (!txnargs_all_of_command(part.cmd, part.argv, part.argc, part.db, one, ctx)) return false;
    }
    return true;
}
