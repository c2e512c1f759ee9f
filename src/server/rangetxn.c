#include "server/rangetxn.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/intentevent.h"
#include "log/opcode.h"
#include "server/rangetxn_own.h"
#include "server/spancmd.h"
#include "server/wide_own.h"

static const struct space_map *map_of(const struct rangetxn *w) { return route_map(&w->engine->route); }

/* ---- pieces of the line */

struct cutting {
    struct rangetxn_piece *pieces;
    uint32_t n;
};

static bool add_piece(void *ctx, const struct space_piece *p)
{
    struct cutting *c = ctx;
    struct rangetxn_piece *last = c->n ? &c->pieces[c->n - 1] : NULL;
    if (last && !p->hashed && !last->hashed && last->group == p->shard) { /* neighbours in one group are one */
        last->end = p->end;
        return true;
    }
    c->pieces = mem_resize(c->pieces, (c->n + 1) * sizeof *c->pieces);
    c->pieces[c->n++] = (struct rangetxn_piece){p->start, p->end, p->hashed, p->shard};
    return true;
}

struct rangetxn_piece *rangetxn_pieces(const struct rangetxn *w, struct slice space, struct slice start, struct slice end, uint32_t *n)
{
    struct cutting c = {0};
    if (map_of(w)) spaces_overlap(map_of(w), space, start, end, add_piece, &c);
    *n = c.n;
    return c.pieces;
}

static void ask_one(const struct rangetxn *w, uint32_t group, const char *command, struct slice space, const struct rangetxn_piece *p, const struct slice *words, uint32_t n)
{
    char hashes[SPANCMD_HASHES_BYTES + 1];
    struct slice all[8] = {space, p->start, p->end, p->hashed ? spancmd_hashes(map_of(w), hashes) : SLICE("")};
    CHECK(n + 4 <= sizeof all / sizeof all[0]);
    for (uint32_t i = 0; i < n; i++) all[4 + i] = words[i];
    txn_ask(w->txn, group, command, all, n + 4);
}

/* Each group that hashes go to, once. */
static uint32_t ask_hashed(const struct rangetxn *w, const char *command, struct slice space, const struct rangetxn_piece *p, const struct slice *words, uint32_t n)
{
    const struct space_map *m = map_of(w);
    struct wide_groups groups = {0};
    uint32_t asked = 0;
    for (uint32_t i = 0; i < m->n_hash; i++) {
        wide_note_group(&groups, m->hash[i].shard);
        if (m->hash[i].moving) wide_note_group(&groups, m->hash[i].to_shard);
    }
    for (uint32_t group = 0; (group = wide_next_group(&groups, group)) < META_GROUPS_MAX; group++, asked++) ask_one(w, group, command, space, p, words, n);
    return asked;
}

uint32_t rangetxn_ask(const struct rangetxn *w, const char *command, struct slice space, const struct rangetxn_piece *p, const struct slice *words, uint32_t n)
{
    if (p->hashed) return ask_hashed(w, command, space, p, words, n);
    ask_one(w, p->group, command, space, p, words, n);
    return 1;
}

void rangetxn_ask_all(const struct rangetxn *w, const char *command, struct slice space, struct slice start, struct slice end, const struct slice *words, uint32_t n)
{
    if (txn_asked(w->txn)) return;
    uint32_t n_pieces;
    struct rangetxn_piece *pieces = rangetxn_pieces(w, space, start, end, &n_pieces);
    for (uint32_t i = 0; i < n_pieces; i++) rangetxn_ask(w, command, space, &pieces[i], words, n);
    mem_free(pieces);
}

void rangetxn_write(struct rangetxn *w, uint32_t ask, const struct op *op)
{
    struct buf bytes = {0};
    opcode_write(&bytes, op);
    txn_write_there(w->txn, ask, buf_slice(&bytes));
    buf_fini(&bytes);
}

void rangetxn_event(struct rangetxn *w, uint32_t ask, unsigned event_class, const char *event, struct slice key)
{
    if (w->host.events & event_class) txn_event_there(w->txn, ask, &(struct intentevent){event_class, slice_str(event), key, w->db});
}

/* ---- the host of cluster/txn.h */

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    const struct rangetxn *w = ctx;
    w->host.send(w->host.ctx, t, requests, n, timeout_ms);
}

static void asks(void *ctx, struct txn *t)
{
    struct rangetxn *w = ctx;
    w->kind->asks(w, t);
}

static bool run(void *ctx, struct txn *t)
{
    struct rangetxn *w = ctx;
    struct reply out = {.out = &w->answer, .resp = w->resp};
    w->answer.len = 0;
    return w->kind->run(w, t, &out);
}

static void settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct rangetxn *w = ctx;
    struct reply out = {.out = &w->answer, .resp = w->resp};
    if (o != TXN_DONE) w->answer.len = 0;
    switch (o) {
    case TXN_DONE: break;
    case TXN_STOPPED:
    case TXN_CHANGED: wide_reply_nonsense(&out); break; /* it watches no keys */
    case TXN_NOBODY: reply_error(&out, "CLUSTERDOWN nobody leads a shard of the range: nothing was done"); break;
    case TXN_BUSY: reply_error(&out, "TRYAGAIN others wrote in the range all the time: nothing was done"); break;
    case TXN_REFUSED: buf_add_slice(&w->answer, txn_error(t)); break;
    case TXN_UNCERTAIN: reply_error(&out, "UNCERTAIN the leader was lost while the command was under way: it may have happened, or may yet"); break;
    }
    w->host.settled(w->host.ctx, o, &w->answer);
}

static void over(void *ctx, struct txn *t)
{
    const struct rangetxn *w = ctx;
    w->host.over(w->host.ctx);
}

/* ---- */

static const struct rangetxn_kind *kind_of(const struct command *c)
{
    static const struct rangetxn_kind *const kinds[] = {&widepage_get, &widepage_bucket, &widepage_count, &widepage_del};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i]->name, c->name) == 0) return kinds[i];
    CHECK(c->flags & CMD_OF_LOCKS);
    return &widelock_kind;
}

struct rangetxn *rangetxn_new(const struct rangetxn_host *host, const struct engine *e, uint16_t db, struct slice name, struct exec *x)
{
    struct rangetxn *w = mem_zalloc(sizeof *w);
    const struct txn_host inner = {.ctx = w, .send = send, .run = run, .settled = settled, .over = over, .asks = asks};
    w->host = *host;
    w->engine = e;
    w->kind = kind_of(x->cmd);
    w->db = db;
    w->resp = x->out.resp;
    if (!w->kind->parse(w, x)) {
        rangetxn_free(w);
        return NULL;
    }
    w->txn = txn_new(&inner, name, NULL, 0);
    return w;
}

void rangetxn_free(struct rangetxn *w)
{
    if (w->txn) txn_free(w->txn);
    buf_fini(&w->at);
    buf_fini(&w->answer);
    mem_free(w);
}

struct txn *rangetxn_txn(struct rangetxn *w) { return w->txn; }
