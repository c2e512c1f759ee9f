#include "route/router.h"

#include <string.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/num.h"
#include "cel/cel.h"
#include "cel/utf8.h"

struct column {
    struct slice name, type;
    enum cel_kind kind;
};

struct router {
    uint32_t shards;
    struct cel_program *program; /* NULL: hash */
    struct buf text;             /* names, types, tokens: what slices below point into */
    struct column *columns;
    uint32_t n_columns;
    bool key_only;
    enum router_token_kind tokens;
    int64_t *ints;
    struct slice *texts;
    uint32_t n_tokens;
    uint32_t *places; /* open addressing over tokens by hash: index + 1; 0: free */
    uint32_t n_places;
};

/* --- tokens --- */

static uint64_t hash_int(int64_t i) { return keyhash(slice_of(&i, sizeof i), 0); }

static uint64_t token_hash(const struct router *r, uint32_t i) { return r->tokens == ROUTER_TOKENS_INT ? hash_int(r->ints[i]) : keyhash(r->texts[i], 0); }

static bool is_token(const struct router *r, uint32_t i, const struct router_token *t)
{
    if (r->tokens == ROUTER_TOKENS_INT) return !t->is_text && r->ints[i] == t->i;
    return t->is_text && slice_eq(r->texts[i], t->text);
}

/* The token's index, or the number of tokens. *place is where it stands or would stand. */
static uint32_t find_token(const struct router *r, const struct router_token *t, uint64_t hash, uint32_t *place)
{
    for (*place = (uint32_t)(hash % r->n_places); r->places[*place]; *place = (*place + 1) % r->n_places)
        if (is_token(r, r->places[*place] - 1, t)) return r->places[*place] - 1;
    return r->n_tokens;
}

/* False: a token is there twice. */
static bool index_tokens(struct router *r)
{
    r->n_places = 2 * r->n_tokens + 1;
    r->places = mem_zalloc(r->n_places * sizeof *r->places);
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        uint32_t place;
        struct router_token t = {.is_text = r->tokens == ROUTER_TOKENS_TEXT};
        if (t.is_text) t.text = r->texts[i];
        else t.i = r->ints[i];
        if (find_token(r, &t, token_hash(r, i), &place) != r->n_tokens) return false;
        r->places[place] = i + 1;
    }
    return true;
}

/* --- making --- */

struct router *router_new_hash(uint32_t shards)
{
    CHECK(shards >= 1);
    struct router *r = mem_zalloc(sizeof *r);
    r->shards = shards;
    return r;
}

static bool column_kind(struct slice type, enum cel_kind *kind)
{
    static const struct {
        const char *name;
        enum cel_kind kind;
    } kinds[] = {{"int", CEL_INT}, {"uint", CEL_UINT}, {"double", CEL_DOUBLE}, {"bool", CEL_BOOL}, {"string", CEL_STRING}, {"bytes", CEL_BYTES}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!slice_eq(type, slice_str(kinds[i].name))) continue;
        *kind = kinds[i].kind;
        return true;
    }
    return false;
}

/* Copies everything that the router points to into one block, which is sized first so that it never moves. */
static struct slice keep(struct router *r, struct slice s)
{
    size_t at = r->text.len;
    buf_add_slice(&r->text, s);
    return slice_of(r->text.p + at, s.n);
}

static void keep_all(struct router *r, const struct router_cel *c)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < c->n_columns; i++) bytes += c->columns[i].name.n + c->columns[i].type.n;
    for (uint32_t i = 0; i < c->n_tokens && c->tokens == ROUTER_TOKENS_TEXT; i++) bytes += c->texts[i].n;
    buf_room(&r->text, bytes);
    r->n_columns = c->n_columns;
    r->columns = mem_zalloc(c->n_columns * sizeof *r->columns);
    for (uint32_t i = 0; i < c->n_columns; i++) r->columns[i] = (struct column){.name = keep(r, c->columns[i].name), .type = keep(r, c->columns[i].type)};
    r->tokens = c->tokens;
    r->n_tokens = c->tokens == ROUTER_TOKENS_NONE ? 0 : c->n_tokens;
    if (c->tokens == ROUTER_TOKENS_INT) {
        r->ints = mem_alloc((c->n_tokens + 1) * sizeof *r->ints);
        if (c->n_tokens) memcpy(r->ints, c->ints, c->n_tokens * sizeof *r->ints);
    } else if (c->tokens == ROUTER_TOKENS_TEXT) {
        r->texts = mem_alloc((c->n_tokens + 1) * sizeof *r->texts);
        for (uint32_t i = 0; i < c->n_tokens; i++) r->texts[i] = keep(r, c->texts[i]);
    }
    r->key_only = c->n_columns == 1 && slice_eq(c->columns[0].name, SLICE("key"));
}

static bool can_route(enum cel_kind k) { return k == CEL_INT || k == CEL_UINT || k == CEL_STRING || k == CEL_BYTES || k == CEL_DYN; }

static bool compile(struct router *r, struct slice expr, struct buf *error)
{
    struct cel_variable *variables = mem_alloc(r->n_columns * sizeof *variables);
    struct cel_error why;
    for (uint32_t i = 0; i < r->n_columns; i++) variables[i] = (struct cel_variable){r->columns[i].name, r->columns[i].type};
    r->program = cel_compile(&(struct cel_env){.variables = variables, .count = r->n_columns}, expr, &why);
    mem_free(variables);
    if (!r->program) {
        cel_error_print(&why, expr, error);
        return false;
    }
    if (can_route(cel_program_kind(r->program))) return true;
    buf_printf(error, "the routing expression gives %s; it must give int, uint, string or bytes", cel_program_type(r->program));
    return false;
}

static bool prepare(struct router *r, const struct router_cel *c, struct buf *error)
{
    if (c->n_columns == 0) {
        buf_add_str(error, "a routing expression needs at least one column");
        return false;
    }
    keep_all(r, c);
    for (uint32_t i = 0; i < r->n_columns; i++) {
        struct column *col = &r->columns[i];
        if (column_kind(col->type, &col->kind)) continue;
        buf_printf(error, "column %.*s has the type %.*s; int, uint, double, bool, string and bytes are possible", (int)col->name.n, col->name.p, (int)col->type.n, col->type.p);
        return false;
    }
    if (r->tokens != ROUTER_TOKENS_NONE && r->shards != (r->n_tokens ? r->n_tokens : 1)) {
        buf_printf(error, "%u routing values need as many shards, not %u", r->n_tokens, r->shards);
        return false;
    }
    if (!index_tokens(r)) {
        buf_add_str(error, "a routing value is there twice");
        return false;
    }
    return compile(r, c->expr, error);
}

struct router *router_new_cel(const struct router_cel *c, uint32_t shards, struct buf *error)
{
    struct router *r = router_new_hash(shards);
    if (prepare(r, c, error)) return r;
    router_free(r);
    return NULL;
}

void router_free(struct router *r)
{
    if (!r) return;
    cel_program_free(r->program);
    mem_free(r->columns);
    mem_free(r->ints);
    mem_free(r->texts);
    mem_free(r->places);
    buf_fini(&r->text);
    mem_free(r);
}

/* --- questions --- */

uint32_t router_shards(const struct router *r) { return r->shards; }
bool router_is_cel(const struct router *r) { return r->program != NULL; }
bool router_needs_context(const struct router *r) { return r->program && !r->key_only; }
uint32_t router_columns(const struct router *r) { return r->n_columns; }
struct slice router_column_name(const struct router *r, uint32_t i) { return r->columns[i].name; }
struct slice router_column_type(const struct router *r, uint32_t i) { return r->columns[i].type; }

int router_find_column(const struct router *r, struct slice name)
{
    for (uint32_t i = 0; i < r->n_columns; i++)
        if (slice_eq(r->columns[i].name, name)) return (int)i;
    return -1;
}

/* --- columns --- */

void router_scratch_init(struct router_scratch *s, const struct router *r)
{
    *s = (struct router_scratch){.values = mem_zalloc((r->n_columns + 1) * sizeof *s->values)};
    scratch_init(&s->cel);
}

void router_scratch_fini(struct router_scratch *s)
{
    scratch_fini(&s->cel);
    mem_free(s->values);
    buf_fini(&s->why);
}

static bool read_value(enum cel_kind kind, struct slice text, struct cel_value *v)
{
    v->kind = kind;
    switch (kind) {
    case CEL_INT: return num_parse_i64(text, &v->integer);
    case CEL_UINT: return num_parse_u64(text, &v->natural);
    case CEL_DOUBLE: return num_parse_f64(text, &v->real);
    case CEL_BOOL:
        v->boolean = slice_eq(text, SLICE("true"));
        return v->boolean || slice_eq(text, SLICE("false"));
    default:
        v->text = text;
        return kind == CEL_BYTES || utf8_valid(text);
    }
}

bool router_set_column(const struct router *r, struct router_scratch *s, uint32_t i, struct slice text)
{
    const struct column *c = &r->columns[i];
    if (read_value(c->kind, text, &s->values[i])) return true;
    s->why.len = 0;
    buf_printf(&s->why, "column %.*s: '%.*s' is no %.*s", (int)c->name.n, c->name.p, (int)(text.n < 100 ? text.n : 100), text.p, (int)c->type.n, c->type.p);
    return false;
}

/* The key as the value of the one column "key"; false: its type is another. */
static bool key_value(const struct router *r, const struct snapkey *k, struct cel_value *v)
{
    v->kind = r->columns[0].kind;
    bool is_text = k->kind == SNAPKEY_TEXT || k->kind == SNAPKEY_BYTES;
    switch (v->kind) {
    case CEL_INT: v->integer = k->i; return k->kind == SNAPKEY_INT;
    case CEL_UINT: v->natural = k->u; return k->kind == SNAPKEY_UINT || (k->kind == SNAPKEY_INT && k->i >= 0);
    case CEL_STRING: v->text = k->s; return is_text && (k->kind == SNAPKEY_TEXT || utf8_valid(k->s));
    case CEL_BYTES: v->text = k->s; return is_text;
    default: return false;
    }
}

/* --- routing --- */

static enum router_result fail(struct router_scratch *s, const char *why)
{
    s->why.len = 0;
    buf_add_str(&s->why, why);
    return ROUTER_ERROR;
}

static enum router_result evaluate(const struct router *r, struct router_scratch *s, struct cel_value *result)
{
    struct cel_error why;
    if (cel_eval(r->program, s->values, &s->cel, result, &why) == 0) return ROUTER_FOUND;
    s->why.len = 0;
    buf_printf(&s->why, "the routing expression at %u:%u: %s", why.line, why.column, why.message);
    return ROUTER_ERROR;
}

enum router_result router_token(const struct router *r, struct router_scratch *s, const struct snapkey *key, struct router_token *token)
{
    struct cel_value v;
    if (r->key_only && !key_value(r, key, &s->values[0])) return fail(s, "the key is not of the type of the routing expression's column key");
    enum router_result rc = evaluate(r, s, &v);
    if (rc != ROUTER_FOUND) return rc;
    *token = (struct router_token){0};
    switch (v.kind) {
    case CEL_INT: token->i = v.integer; return ROUTER_FOUND;
    case CEL_UINT:
        token->i = (int64_t)v.natural;
        return v.natural <= INT64_MAX ? ROUTER_FOUND : ROUTER_UNKNOWN;
    case CEL_STRING:
    case CEL_BYTES:
        token->is_text = true;
        token->text = v.text;
        return ROUTER_FOUND;
    default: return fail(s, "the routing expression gave neither int, uint, string nor bytes");
    }
}

static enum router_result resolve(const struct router *r, const struct router_token *t, uint32_t *shard)
{
    int64_t id = t->i;
    if (r->tokens != ROUTER_TOKENS_NONE) {
        uint32_t place;
        uint32_t i = find_token(r, t, t->is_text ? keyhash(t->text, 0) : hash_int(t->i), &place);
        *shard = i;
        return i < r->n_tokens ? ROUTER_FOUND : ROUTER_UNKNOWN;
    }
    if (t->is_text && !num_parse_i64(t->text, &id)) return ROUTER_UNKNOWN;
    if (id < 0 || id >= r->shards) return ROUTER_UNKNOWN;
    *shard = (uint32_t)id;
    return ROUTER_FOUND;
}

enum router_result router_shard(const struct router *r, struct router_scratch *s, const struct snapkey *key, uint32_t *shard)
{
    if (!r->program) {
        uint64_t hash;
        if (!snapkey_hash(key, &hash)) return fail(s, "an integer key above 2^63 - 1 has no place under hash routing");
        *shard = (uint32_t)(hash % r->shards);
        return ROUTER_FOUND;
    }
    struct router_token t;
    enum router_result rc = router_token(r, s, key, &t);
    return rc == ROUTER_FOUND ? resolve(r, &t, shard) : rc;
}

enum router_result router_many(const struct router *r, struct router_scratch *s, const struct snapkey *keys, size_t n, uint32_t *shards)
{
    for (size_t i = 0; i < n; i++) {
        enum router_result rc = router_shard(r, s, &keys[i], &shards[i]);
        if (rc == ROUTER_ERROR) return rc;
        if (rc == ROUTER_UNKNOWN) shards[i] = UINT32_MAX;
    }
    return ROUTER_FOUND;
}

void router_group(uint32_t n_shards, const uint32_t *shards, size_t n, uint32_t *order, uint32_t *starts)
{
    memset(starts, 0, (n_shards + 2) * sizeof *starts);
    for (size_t i = 0; i < n; i++) starts[(shards[i] < n_shards ? shards[i] : n_shards) + 1]++;
    for (uint32_t i = 0; i <= n_shards; i++) starts[i + 1] += starts[i];
    uint32_t *next = mem_alloc((n_shards + 1) * sizeof *next);
    memcpy(next, starts, (n_shards + 1) * sizeof *next);
    for (size_t i = 0; i < n; i++) order[next[shards[i] < n_shards ? shards[i] : n_shards]++] = (uint32_t)i;
    mem_free(next);
}
