/* Commands over all keys (DBSIZE, KEYS, SCAN), while keys go from group to group: clients that ask for them, and nodes that do them by server/wideall.h.
 *
 * They are about a database in which nobody writes once it is filled: some keys of the line, which go along when it splits and moves and changes its mode, and some that go by their hashes. So whoever is answered is told of all of them: DBSIZE how many
 * there are, KEYS each once, and a scan from its first call to its last, each to any node, each at least once. */
#include <stdio.h>

#include "base/mem.h"
#include "nodesim_own.h"
#include "resp/answer.h"
#include "server/wideall.h"

enum { DB = 1, LINE_KEYS = NODESIM_LINE_KEYS / 2, KEYS = LINE_KEYS + 4, LIST_MS = 1200, WAIT_MS = 2000, REST_MS = 300 };

enum phase { FILLING, COUNTING, LISTING, SCANNING };

struct lister {
    enum phase phase;
    uint32_t attempt;
    bool asked, goes_on; /* goes_on: in the middle of a scan */
    bool met[KEYS];
    char cursor[NODESIM_WORD_BYTES];
};

struct nodesim_lists {
    struct lister listers[NODESIM_LISTERS];
    uint32_t filled; /* keys that are there, for certain */
};

struct nodesim_list { /* a command under way, on a node */
    struct nodesim_list *next;
    struct nodesim_node *node;
    struct nodesim_request request;
    struct slice argv[NODESIM_WORDS];
    struct wideall *all;
};

static void key_name(char out[NODESIM_WORD_BYTES], uint32_t i)
{
    if (i < LINE_KEYS) snprintf(out, NODESIM_WORD_BYTES, NODESIM_SPACE "/%c+", 'a' + 2 * (int)i);
    else snprintf(out, NODESIM_WORD_BYTES, "steady%u", i);
}

/* ---- on the node: the host of server/wideall.h */

static int64_t now_ms(void *ctx) { return (int64_t)(world_now(((struct nodesim_list *)ctx)->node->sim->w) / WORLD_MS); }

static void free_list(struct nodesim_list *l)
{
    struct nodesim_list **at = &l->node->lists;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    if (l->all) wideall_free(l->all);
    mem_free(l);
}

static void tell(struct nodesim_list *l, struct buf *answer)
{
    nodesim_client_tell(l->node->sim, l->request.client, l->request.attempt, NODESIM_DONE, buf_slice(answer));
    free_list(l);
}

static void note_waiting(struct nodesim_list *l)
{
    struct nodesim *s = l->node->sim;
    int64_t wakes = wideall_wakes_ms(l->all), now = now_ms(l);
    if (wakes == INT64_MAX) return;
    s->result->waited++;
    world_after(s->w, l->node->id, (uint64_t)(wakes > now ? wakes - now : 0) * WORLD_MS + 1, NODESIM_LIST_WAKE, 0);
}

void nodesim_list_wake(struct nodesim_node *n)
{
    for (struct nodesim_list *l = n->lists, *next; l; l = next) {
        struct buf out = {0};
        next = l->next;
        if (wideall_wake(l->all, &out)) tell(l, &out);
        buf_fini(&out);
    }
}

static void answered(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n)
{
    struct nodesim_list *l = ctx;
    struct buf out = {0};
    struct txn_answer *all = mem_dup(answers, n * sizeof *answers);
    for (uint32_t i = 0; i < n; i++)
        if (all[i].fate != TXN_ANSWERED) all[i].reply = SLICE("-CLUSTERDOWN nobody leads it\r\n");
    if (wideall_answered(l->all, all, n, &out)) tell(l, &out);
    else note_waiting(l);
    mem_free(all);
    buf_fini(&out);
}

static void send(void *ctx, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    const struct nodesim_call call = {.done = answered, .ctx = ctx, .db = DB};
    nodesim_leg_send(((struct nodesim_list *)ctx)->node, &call, requests, n, timeout_ms);
}

bool nodesim_list_begin(struct nodesim_node *n, const struct nodesim_request *r)
{
    const struct command *cmd = command_find(n->sim->commands, slice_str(r->words[0]));
    if (!wideall_has(cmd)) return false;
    struct nodesim_list *l = mem_zalloc(sizeof *l);
    struct buf out = {0};
    *l = (struct nodesim_list){.next = n->lists, .node = n, .request = *r};
    for (uint32_t i = 0; i < r->argc; i++) l->argv[i] = slice_str(l->request.words[i]);
    n->lists = l;
    struct exec x = {.cmd = cmd, .argv = l->argv, .argc = r->argc, .out = {.out = &out, .resp = 2}};
    l->all = wideall_new(&(struct wideall_host){l, n->engine, now_ms, send}, &x, LIST_MS);
    if (!l->all) tell(l, &out);
    buf_fini(&out);
    return true;
}

void nodesim_list_close(struct nodesim_node *n)
{
    while (n->lists) free_list(n->lists);
}

/* ---- clients */

static void plan(struct nodesim *s, uint32_t number, uint64_t us) { world_after(s->w, 0, us, NODESIM_LIST, (uint64_t)s->lists->listers[number].attempt << 32 | number); }

static void rest(struct nodesim *s, uint32_t number)
{
    struct lister *l = &s->lists->listers[number];
    l->asked = false;
    l->attempt++;
    plan(s, number, 1 + rng_below(world_rng(s->w), l->phase == FILLING || l->goes_on ? WORLD_MS : REST_MS * WORLD_MS));
}

static void say(struct nodesim_request *r, const char *word) { snprintf(r->words[r->argc++], NODESIM_WORD_BYTES, "%s", word); }

static void say_all(const struct nodesim *s, const struct lister *l, struct nodesim_request *r, struct rng *rng)
{
    char word[NODESIM_WORD_BYTES];
    switch (l->phase) {
    case FILLING:
        say(r, "set");
        key_name(word, s->lists->filled);
        say(r, word);
        say(r, "steady");
        r->forward = true;
        break;
    case COUNTING: say(r, "dbsize"); break;
    case LISTING:
        say(r, "keys");
        say(r, "*");
        break;
    case SCANNING:
        say(r, "scan");
        say(r, l->goes_on ? l->cursor : "0");
        say(r, "count");
        snprintf(word, sizeof word, "%u", 1 + (unsigned)rng_below(rng, 6));
        say(r, word);
    }
}

/* Often one that does not hear where keys go. */
static uint32_t choose_node(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    uint32_t blind = nodesim_topology_blind(s);
    return blind && rng_below(rng, 2) ? blind : 1 + (uint32_t)rng_below(rng, NODESIM_NODES);
}

static void ask(struct nodesim *s, uint32_t number)
{
    struct lister *l = &s->lists->listers[number];
    struct rng *rng = world_rng(s->w);
    if (!l->goes_on && s->lists->filled == KEYS) l->phase = (enum phase)(COUNTING + rng_below(rng, 3));
    if (l->phase == SCANNING && !l->goes_on) memset(l->met, 0, sizeof l->met);
    struct nodesim_request r = {.client = NODESIM_FIRST_LISTER + number, .attempt = l->attempt, .db = DB};
    say_all(s, l, &r, rng);
    l->asked = true;
    bool sent = nodesim_client_post(s, choose_node(s), &r);
    plan(s, number, sent ? WAIT_MS * WORLD_MS : WORLD_MS);
}

/* Time is up, or a rest over. All but the first wait until that one has filled the database. */
void nodesim_list_event(struct nodesim *s, uint64_t arg)
{
    uint32_t number = (uint32_t)arg;
    struct lister *l = &s->lists->listers[number];
    if (!s->load || l->attempt != (uint32_t)(arg >> 32)) return;
    if (l->asked || (number && s->lists->filled < KEYS)) rest(s, number);
    else ask(s, number);
}

/* ---- answers */

static void meet(struct nodesim *s, struct lister *l, struct slice key, bool once)
{
    char name[NODESIM_WORD_BYTES];
    uint32_t i = 0;
    for (; i < KEYS; i++) {
        key_name(name, i);
        if (slice_eq(key, slice_str(name))) break;
    }
    if (i == KEYS) world_fail(s->w, "a list has key %.*s, which nobody has written", (int)key.n, key.p);
    else if (once && l->met[i]) world_fail(s->w, "key %s is listed twice", name);
    else l->met[i] = true;
}

static bool take_keys(struct nodesim *s, struct lister *l, struct slice *in, bool once)
{
    struct answer key;
    uint32_t n;
    if (!answer_array(in, &n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!answer_next(in, &key) || key.type != '$') return false;
        meet(s, l, key.text, once);
    }
    return true;
}

static void check_met(struct nodesim *s, const struct lister *l)
{
    char name[NODESIM_WORD_BYTES];
    for (uint32_t i = 0; i < KEYS; i++) {
        key_name(name, i);
        if (!l->met[i]) world_fail(s->w, "key %s is there, and not %s", name, l->phase == LISTING ? "listed" : "met by a scan");
    }
}

static bool take_count(struct nodesim *s, struct slice in)
{
    struct answer number;
    if (!answer_next(&in, &number) || number.type != ':') return false;
    if (number.n != KEYS) world_fail(s->w, "%lld keys are counted, and there are %d", (long long)number.n, KEYS);
    s->result->counted++;
    return true;
}

static bool take_list(struct nodesim *s, struct lister *l, struct slice in)
{
    memset(l->met, 0, sizeof l->met);
    if (!take_keys(s, l, &in, true)) return false;
    check_met(s, l);
    s->result->listed++;
    return true;
}

static bool take_page(struct nodesim *s, struct lister *l, struct slice in)
{
    struct answer cursor;
    uint32_t two;
    if (!answer_array(&in, &two) || two != 2 || !answer_next(&in, &cursor) || cursor.type != '$' || !take_keys(s, l, &in, false)) return false;
    snprintf(l->cursor, sizeof l->cursor, "%.*s", (int)cursor.text.n, cursor.text.p);
    l->goes_on = !slice_is(cursor.text, "0");
    if (l->goes_on) return true;
    check_met(s, l);
    s->result->scanned++;
    return true;
}

static bool take(struct nodesim *s, struct lister *l, struct slice reply)
{
    switch (l->phase) {
    case FILLING:
        s->lists->filled += slice_is(reply, "+OK\r\n");
        return slice_is(reply, "+OK\r\n");
    case COUNTING: return take_count(s, reply);
    case LISTING: return take_list(s, l, reply);
    case SCANNING: return take_page(s, l, reply);
    }
    return false;
}

void nodesim_list_answer(struct nodesim *s, const struct nodesim_answer *a)
{
    uint32_t number = a->client - NODESIM_FIRST_LISTER;
    struct lister *l = &s->lists->listers[number];
    struct slice reply = buf_slice(&a->reply);
    if (!l->asked || a->attempt != l->attempt) return;
    bool again = a->status != NODESIM_DONE || answer_is_error(reply, "CLUSTERDOWN") || answer_is_error(reply, "TRYAGAIN");
    if (!again && !take(s, l, reply)) world_fail(s->w, "a lister is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    rest(s, number);
}

/* ---- */

void nodesim_list_new(struct nodesim *s) { s->lists = mem_zalloc(sizeof *s->lists); }
void nodesim_list_free(struct nodesim *s) { mem_free(s->lists); }

void nodesim_list_start(struct nodesim *s)
{
    for (uint32_t i = 0; i < NODESIM_LISTERS; i++) plan(s, i, 600 * WORLD_MS);
}
