#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/intentevent.h"
#include "cluster/txn_own.h"
#include "resp/answer.h"

void txnwants_request(struct txn *t, uint32_t group, const char *command)
{
    txnask_add(&t->ask, t->groups[group].number, command);
    txnask_word(&t->ask, slice_of(t->id, t->id_n));
}

/* ---- asks */

static void *grown(void *array, uint32_t *cap, uint32_t n, size_t each)
{
    if (n <= *cap) return array;
    *cap = n < 8 ? 8 : n * 2;
    return mem_resize(array, *cap * each);
}

static uint32_t place_of(const struct txn *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].number == number) return i;
    return TXN_NO_GROUP;
}

static uint32_t add_group(struct txn *t, uint32_t number)
{
    uint32_t place = place_of(t, number);
    if (place != TXN_NO_GROUP) return place;
    t->groups = grown(t->groups, &t->cap_groups, t->n_groups + 1, sizeof *t->groups);
    t->groups[t->n_groups] = (struct group){.number = number, .fetched = true};
    return t->n_groups++;
}

void txn_ask(struct txn *t, uint32_t group, const char *command, const struct slice *words, uint32_t n)
{
    t->asks = grown(t->asks, &t->cap_asks, t->n_asks + 1, sizeof *t->asks);
    t->asks[t->n_asks++] = (struct ask){.command = command, .group = add_group(t, group), .first_word = t->n_words, .n_words = n};
    t->words = grown(t->words, &t->cap_words, t->n_words + n, sizeof *t->words);
    for (uint32_t i = 0; i < n; i++) {
        t->words[t->n_words++] = (struct word){t->bytes.len, words[i].n};
        buf_add_slice(&t->bytes, words[i]);
    }
}

uint32_t txn_asked(const struct txn *t) { return t->n_asks; }

struct slice txn_told(const struct txn *t, uint32_t ask)
{
    CHECK(ask < t->n_asks && t->asks[ask].told);
    return slice_of(t->entries.p + t->asks[ask].at, t->asks[ask].n);
}

uint32_t txn_group(const struct txn *t, uint32_t ask)
{
    CHECK(ask < t->n_asks);
    return t->groups[t->asks[ask].group].number;
}

void txn_write_there(struct txn *t, uint32_t ask, struct slice op)
{
    CHECK(ask < t->n_asks && t->asks[ask].told);
    txncmd_add_op(&t->groups[t->asks[ask].group].ops, op);
}

void txn_event_there(struct txn *t, uint32_t ask, const struct intentevent *e)
{
    CHECK(ask < t->n_asks && t->asks[ask].told);
    intentevent_add(&t->groups[t->asks[ask].group].events, e);
}

bool txn_entry(const struct txn *t, uint32_t key, struct slice *raw)
{
    const struct key *k = &t->keys[key];
    *raw = slice_of(t->entries.p + k->entry_at, k->entry_n);
    return k->there;
}

void txn_write(struct txn *t, uint32_t key, struct slice op)
{
    CHECK(key < t->n_keys && (t->keys[key].k.use == 'w' || t->keys[key].k.use == 'k'));
    txncmd_add_op(&t->groups[t->keys[key].group].ops, op);
}

void txn_event(struct txn *t, uint32_t key, const struct intentevent *e)
{
    CHECK(key < t->n_keys);
    intentevent_add(&t->groups[t->keys[key].group].events, e);
}

/* ---- what an attempt wants */

static void forget_groups(struct txn *t)
{
    for (uint32_t i = 0; i < t->n_groups; i++) {
        buf_fini(&t->groups[i].ops);
        buf_fini(&t->groups[i].events);
    }
    t->n_groups = t->n_asks = t->n_words = 0;
    t->bytes.len = 0;
}

void txnwants_fini(struct txn *t)
{
    forget_groups(t);
    mem_free(t->groups);
    mem_free(t->asks);
    mem_free(t->words);
    mem_free(t->sent);
    buf_fini(&t->bytes);
    buf_fini(&t->entries);
}

void txnwants_more(struct txn *t)
{
    if (t->host.asks) t->host.asks(t->host.ctx, t);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct group *)a)->number, y = ((const struct group *)b)->number;
    return x < y ? -1 : x > y;
}

bool txnwants_begin(struct txn *t)
{
    forget_groups(t);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        uint32_t number = t->host.group_of(t->host.ctx, t->keys[i].k.key);
        if (number == TXN_NO_GROUP) return false;
        t->keys[i].group = number;
        uint32_t place = add_group(t, number);
        t->groups[place].fetched = false;
    }
    if (t->n_groups) qsort(t->groups, t->n_groups, sizeof *t->groups, by_number);
    for (uint32_t i = 0; i < t->n_keys; i++) t->keys[i].group = place_of(t, t->keys[i].group);
    txnwants_more(t);
    return t->n_groups > 0;
}

static void note_sent(struct txn *t, uint32_t group, uint32_t ask)
{
    t->sent = grown(t->sent, &t->cap_sent, t->n_sent + 1, sizeof *t->sent);
    t->sent[t->n_sent++] = (struct sent){group, ask};
    t->groups[group].touched = true;
}

static void add_checks(struct txn *t, uint32_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_keys; i++) n += t->keys[i].group == group && t->keys[i].k.digest.n;
    if (!n) return;
    txnask_number(&t->ask, n);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        const struct txn_key *k = &t->keys[i].k;
        if (t->keys[i].group != group || !k->digest.n) continue;
        txnask_number(&t->ask, k->db);
        txnask_word(&t->ask, k->key);
        txnask_word(&t->ask, k->digest);
    }
}

static void add_fetch(struct txn *t, uint32_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_keys; i++) n += t->keys[i].group == group;
    note_sent(t, group, NO_ASK);
    txnwants_request(t, group, "txn.fetch");
    txnask_number(&t->ask, n);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        const struct key *k = &t->keys[i];
        if (k->group != group) continue;
        txnask_number(&t->ask, k->k.db);
        txnask_word(&t->ask, slice_of(&k->k.use, 1));
        txnask_word(&t->ask, k->k.key);
    }
    add_checks(t, group);
}

static void add_ask(struct txn *t, uint32_t ask)
{
    const struct ask *a = &t->asks[ask];
    note_sent(t, a->group, ask);
    txnwants_request(t, a->group, a->command);
    for (uint32_t i = 0; i < a->n_words; i++) {
        const struct word *w = &t->words[a->first_word + i];
        txnask_word(&t->ask, slice_of(t->bytes.p + w->at, w->n));
    }
}

/* A group of which something is not there yet. */
static bool is_wanted(const struct txn *t, uint32_t group)
{
    bool wanted = !t->groups[group].fetched;
    for (uint32_t i = 0; !wanted && i < t->n_asks; i++) wanted = t->asks[i].group == group && !t->asks[i].told;
    return wanted;
}

uint32_t txnwants_next(const struct txn *t)
{
    uint32_t next = TXN_NO_GROUP;
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (is_wanted(t, i) && (next == TXN_NO_GROUP || t->groups[i].number < t->groups[next].number)) next = i;
    return next;
}

void txnwants_add(struct txn *t, uint32_t group)
{
    if (!t->groups[group].fetched) add_fetch(t, group);
    for (uint32_t i = 0; i < t->n_asks; i++)
        if (t->asks[i].group == group && !t->asks[i].told) add_ask(t, i);
}

/* ---- answers */

static void note_token(struct group *g, struct slice token)
{
    g->torn |= g->has_token && memcmp(g->token, token.p, TXNCMD_TOKEN_BYTES) != 0;
    memcpy(g->token, token.p, TXNCMD_TOKEN_BYTES);
    g->has_token = true;
}

/* The entries of a group's keys; false: it is no such answer. */
static bool take_entries(struct txn *t, uint32_t group, struct slice in)
{
    struct answer a;
    uint32_t n, n_keys = 0;
    for (uint32_t i = 0; i < t->n_keys; i++) n_keys += t->keys[i].group == group;
    if (!answer_array(&in, &n) || n != n_keys + 1) return false;
    if (!answer_next(&in, &a) || a.type != '$' || a.text.n != TXNCMD_TOKEN_BYTES) return false;
    note_token(&t->groups[group], a.text);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        struct key *k = &t->keys[i];
        if (k->group != group) continue;
        if (!answer_next(&in, &a) || (a.type != '$' && a.type != '_')) return false;
        k->there = a.type == '$';
        k->entry_at = t->entries.len;
        k->entry_n = k->there ? a.text.n : 0;
        if (k->there) buf_add_slice(&t->entries, a.text);
    }
    return t->groups[group].fetched = true;
}

/* What a group tells; false: it is no such answer. */
static bool take_told(struct txn *t, uint32_t ask, struct slice in)
{
    struct ask *k = &t->asks[ask];
    struct group *g = &t->groups[k->group];
    struct slice value;
    struct answer a;
    uint32_t n;
    if (!answer_array(&in, &n) || n != 2 || !answer_next(&in, &a) || !answer_whole(&in, &value) || in.n) return false;
    if (a.type == '$' && a.text.n == TXNCMD_TOKEN_BYTES) note_token(g, a.text);
    else if (a.type != '_') return false;
    if (!g->has_token) g->touched = false;
    k->told = true;
    k->at = t->entries.len;
    k->n = value.n;
    buf_add_slice(&t->entries, value);
    return true;
}

bool txnwants_take(struct txn *t, uint32_t i, struct slice answer)
{
    const struct sent *s = &t->sent[i];
    return s->ask == NO_ASK ? take_entries(t, s->group, answer) : take_told(t, s->ask, answer);
}
