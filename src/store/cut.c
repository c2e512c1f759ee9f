#include "store/cut.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/chill.h"

struct cut {
    struct store *store;
    cut_emit *emit; /* NULL: abandoned */
    void *ctx;
    uint64_t done, total;
    uint32_t n, at; /* walks[at] is under way, those before it have ended */
    struct cut_walk walks[STORE_ALL_DBS];
};

struct cut *cut_begin(struct store *s, cut_emit *emit, void *ctx)
{
    struct cut *c = mem_zalloc(sizeof *c);
    c->store = s;
    c->emit = emit;
    c->ctx = ctx;
    for (uint16_t i = 0; i < STORE_ALL_DBS; i++) {
        struct db *db = s->dbs[i];
        if (!db || !db->keys.entries) continue;
        CHECK(!db->walk);
        struct cut_walk *w = &c->walks[c->n++];
        *w = (struct cut_walk){.cut = c, .db = db, .id = i};
        db->walk = w;
        c->total += db->keys.entries;
    }
    return c;
}

static void emit(const struct cut_walk *w, const struct entry *e)
{
    w->cut->done++;
    if (w->cut->emit) w->cut->emit(w->cut->ctx, w->id, e);
}

void cut_save(struct db *db, const struct entry *e)
{
    if (!(e->flags & ENTRY_AFTER_CUT)) emit(db->walk, e);
}

static void pass(void *ctx, struct entry *e)
{
    if (e->flags & ENTRY_AFTER_CUT) e->flags &= (uint8_t)~ENTRY_AFTER_CUT;
    else emit(ctx, e);
}

void cut_take_db(struct db *db)
{
    struct cut_walk *w = db->walk;
    struct db *taken = mem_zalloc(sizeof *taken);
    *taken = *db;
    w->db = taken;
    w->owns_db = true;
    db->walk = NULL;
}

static void end_walk(struct cut_walk *w)
{
    w->db->walk = NULL;
    if (w->owns_db) {
        chill_bury(w->cut->store, w->db);
        mem_free(w->db);
    }
}

bool cut_step(struct cut *c, size_t want)
{
    if (c->at == c->n) return false;
    struct cut_walk *w = &c->walks[c->at];
    table_scan(&w->db->keys, &w->cursor, want, pass, w);
    if (w->cursor == 0) {
        end_walk(w);
        c->at++;
    }
    return c->at < c->n;
}

void cut_abandon(struct cut *c) { c->emit = NULL; }

void cut_free(struct cut *c)
{
    for (; c->at < c->n; c->at++) end_walk(&c->walks[c->at]);
    mem_free(c);
}

uint64_t cut_done(const struct cut *c) { return c->done; }
uint64_t cut_total(const struct cut *c) { return c->total; }
