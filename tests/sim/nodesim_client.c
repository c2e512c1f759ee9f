/* Clients, and the guests that run their commands.
 *
 * A client sends a command to some node. Whoever leads the key's group runs it, as a guest of server/relay.h: a task, and a hold that says when the answer may go. Others send it away, with the leader that they know of. What bounced, or
 * is lost for certain, goes again; a write whose fate is not known stays open in the history for ever.
 *
 * Keys are of three kinds, so that what is asked of one has a value in the history: words (set, with and without expiry, exchanged, made if missing), sums, and texts that grow. */
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "nodesim_own.h"
#include "shard/task.h"

enum { WAIT_MS = 300, FORWARD_MS = 4000, GIVE_UP_MS = 6000, EXPIRES_MS = 3000, CONFIGS = 16000000 };

enum kind { WORD, SUM, TEXT, KINDS };

static bool is_in_line(uint32_t key) { return key >= NODESIM_LINE; }
static bool is_paired(uint32_t key) { return key >= NODESIM_PLAIN_KEYS && !is_in_line(key); }
static uint32_t pair_of(uint32_t key) { return (key - NODESIM_PLAIN_KEYS) / 2; }
bool nodesim_is_sum(uint32_t pair) { return pair == NODESIM_PAIRS || pair % 3 != 0; }

static enum kind kind_of(uint32_t key)
{
    if (is_paired(key)) return nodesim_is_sum(pair_of(key)) ? SUM : WORD;
    if (is_in_line(key)) return nodesim_range_is_sum(key - NODESIM_LINE) ? SUM : WORD;
    return (enum kind)(key % KINDS);
}

void nodesim_key_name(char out[NODESIM_KEY_BYTES], uint32_t key)
{
    if (is_in_line(key)) nodesim_range_key(out, key - NODESIM_LINE);
    else snprintf(out, NODESIM_KEY_BYTES, "k%u", key);
}

/* The pair behind all others is one of two keys of the line. */
uint32_t nodesim_pair_key(uint32_t pair, uint32_t side) { return pair == NODESIM_PAIRS ? NODESIM_LINE + nodesim_range_sum(side) : NODESIM_PLAIN_KEYS + 2 * pair + side; }

/* ---- guests, on the node */

static void answer(struct nodesim *s, uint32_t client, uint32_t attempt, enum nodesim_status status, uint32_t leader, struct slice reply)
{
    if (s->n_answers == s->cap_answers) {
        s->cap_answers = s->cap_answers * 2 + 256;
        s->answers = mem_resize(s->answers, s->cap_answers * sizeof *s->answers);
    }
    struct nodesim_answer *a = &s->answers[s->n_answers];
    *a = (struct nodesim_answer){.client = client, .attempt = attempt, .status = status, .leader = leader};
    buf_add_slice(&a->reply, reply);
    world_after(s->w, 0, 50 + rng_below(world_rng(s->w), 500), NODESIM_ANSWER, s->n_answers++);
}

void nodesim_client_tell(struct nodesim *s, uint32_t client, uint32_t attempt, enum nodesim_status status, struct slice reply) { answer(s, client, attempt, status, 0, reply); }

static void add_guest(struct nodesim_node *n, const struct nodesim_guest *g)
{
    if (n->n_guests == n->cap_guests) {
        n->cap_guests = n->cap_guests * 2 + 16;
        n->guests = mem_resize(n->guests, n->cap_guests * sizeof *n->guests);
    }
    n->guests[n->n_guests++] = *g;
}

/* What a mutant does not wait for is no part of the hold. */
static enum seat_outcome outcome(struct nodesim_node *n, struct nodesim_guest *g)
{
    struct hold h = g->hold;
    if (n->sim->mutant == NODESIM_NAIVE_READ && !h.wrote) h.round = h.unproven = 0;
    enum seat_outcome o = seat_outcome(&h);
    if (o == SEAT_DONE && h.unproven) return nodesim_proof(n, &g->hold);
    return n->sim->mutant == NODESIM_EARLY_ANSWER && h.wrote && o == SEAT_WAIT ? SEAT_DONE : o;
}

static void reply(struct nodesim_node *n, const struct nodesim_guest *g, enum nodesim_status status, uint32_t leader)
{
    if (g->is_leg) nodesim_leg_reply(n, g, status, leader, buf_slice(&g->reply));
    else answer(n->sim, g->client, g->attempt, status, leader, buf_slice(&g->reply));
}

void nodesim_client_look(struct nodesim_node *n)
{
    static const enum nodesim_status statuses[] = {[SEAT_DONE] = NODESIM_DONE, [SEAT_UNCERTAIN] = NODESIM_UNCERTAIN, [SEAT_LOST] = NODESIM_LOST};
    uint32_t left = 0;
    for (uint32_t i = 0; i < n->n_guests; i++) {
        struct nodesim_guest *g = &n->guests[i];
        enum seat_outcome o = outcome(n, g);
        if (o == SEAT_WAIT) {
            n->guests[left++] = *g;
            continue;
        }
        reply(n, g, statuses[o], 0);
        buf_fini(&g->reply);
    }
    n->n_guests = left;
}

/* The node does it itself (server/wide.h); only those on ranges are sent in the hope of that. */
static bool runs_wide(const struct nodesim_guest *g, const struct command *cmd, uint32_t group) { return group == SEATING_MIXED && cmd->class == CLASS_SPACE && !g->is_leg; }

/* What became of one of the commands that ran, or did not. */
static void settle_one(struct nodesim_node *n, struct nodesim_guest *g, const struct nodesim_run *r, uint32_t group)
{
    if (!g->hold.bounced) {
        nodesim_proof_by(n, &g->hold, r->from, r->term);
        if (g->hold.unproven) nodesim_proof(n, &g->hold); /* at once, though it may have to wait for other things, too */
        add_guest(n, g);
        return;
    }
    uint64_t leader = group < NODESIM_GROUPS ? metahost_leader(n->meta, group) : 0;
    g->reply.len = 0;
    if (runs_wide(g, command_find_any(n->sim->commands, r->argv[0]), group)) nodesim_wide_begin(n, g, r);
    else reply(n, g, group == SEATING_MIXED ? NODESIM_ASTRIDE : NODESIM_BOUNCED, (uint32_t)leader);
    buf_fini(&g->reply);
}

bool nodesim_client_run(struct nodesim_node *n, const struct nodesim_guest *guest, const struct nodesim_run *r)
{
    struct buf replies = {0};
    struct task t = {.out = &replies, .resp = 2, .db = r->db, .stale = r->stale, .tickets = r->ticket, .proves = n->sim->mutant == NODESIM_BLIND_VOUCHER || rng_below(nodesim_rng(n), 2)};
    size_t at = 0;
    for (uint32_t i = 0; i < r->times; i++) task_add_to(&t, n->engine, r->group, command_find_any(n->sim->commands, r->argv[0]), r->argv, r->argc);
    uint32_t group = t.requests[0].group;
    t.end = r->times;
    CHECK(task_start(n->worker, &t) && t.n_holds > 0); /* nobody else has the token */
    bool lives = n->log != NULL;
    for (uint32_t i = 0; lives && i < t.n_holds; i++) {
        struct nodesim_guest g = *guest;
        g.attempt += i;
        g.hold = t.holds[i];
        if (g.hold.bounced && i + 1 < t.n_holds) world_fail(n->sim->w, "a command was run behind one of its pipeline that bounced");
        buf_add_slice(&g.reply, slice_of(replies.p + at, g.hold.reply_end - at));
        at = g.hold.reply_end;
        settle_one(n, &g, r, group);
    }
    task_fini(&t);
    buf_fini(&replies);
    if (lives) nodesim_client_look(n);
    else nodesim_free_rest(n);
    return lives;
}

bool nodesim_client_request(struct nodesim_node *n, uint32_t number)
{
    const struct nodesim_request r = n->sim->requests[number];
    if (r.forward) {
        nodesim_forward_begin(n, &r);
        return true;
    }
    if (nodesim_list_begin(n, &r)) return true;
    struct slice argv[NODESIM_WORDS];
    for (uint32_t i = 0; i < r.argc; i++) argv[i] = slice_str(r.words[i]);
    const struct nodesim_guest g = {.client = r.client, .attempt = r.attempt};
    const struct nodesim_run run = {.group = SEATING_NO_GROUP, .argv = argv, .argc = r.argc, .times = r.times ? r.times : 1, .stale = r.stale};
    return nodesim_client_run(n, &g, &run);
}

/* ---- what a client asks for */

static void say(struct nodesim_client *c, const char *a, const char *b, const char *d, const char *e, const char *f)
{
    const char *words[] = {a, b, d, e, f};
    c->request.argc = 0;
    for (uint32_t i = 0; i < sizeof words / sizeof words[0] && words[i]; i++) snprintf(c->request.words[c->request.argc++], NODESIM_WORD_BYTES, "%s", words[i]);
}

static struct wgl_part *add_part(struct nodesim_client *c, enum wgl_kind kind)
{
    struct wgl_part *p = &c->parts[c->n_parts++];
    *p = (struct wgl_part){.kind = kind, .key = slice_str(c->request.words[1])};
    return p;
}

static void ask_get(struct nodesim_client *c, const char *key)
{
    say(c, "get", key, NULL, NULL, NULL);
    add_part(c, WGL_GET);
}

static void ask_del(struct nodesim_client *c, const char *key)
{
    say(c, "del", key, NULL, NULL, NULL);
    add_part(c, WGL_DEL);
}

static void ask_word(struct nodesim *s, struct nodesim_client *c, const char *key, const char *value)
{
    char ms[16];
    snprintf(ms, sizeof ms, "%u", 1 + (unsigned)rng_below(world_rng(s->w), EXPIRES_MS));
    switch (is_paired(c->key) ? 0 : rng_below(world_rng(s->w), 6)) {
    case 0:
    case 1: say(c, "set", key, value, NULL, NULL); break;
    case 2:
    case 3:
        say(c, "set", key, value, "px", ms);
        s->result->expiring++;
        break;
    case 4: /* if there is none */
        say(c, "set", key, value, "nx", NULL);
        *add_part(c, WGL_CAS) = (struct wgl_part){.kind = WGL_CAS, .key = slice_str(c->request.words[1]), .arg = slice_str(c->request.words[2]), .nil_expect = true};
        return;
    default: /* and what was there before */
        say(c, "set", key, value, "get", NULL);
        add_part(c, WGL_GET);
    }
    add_part(c, WGL_SET)->arg = slice_str(c->request.words[2]);
}

static bool is_split(const struct nodesim *s) { return world_now(s->w) < s->split_until; }
static bool is_confined(const struct nodesim *s, const struct nodesim_client *c) { return is_split(s) && c->request.client % 2; }

static void choose_command(struct nodesim *s, struct nodesim_client *c)
{
    struct rng *rng = world_rng(s->w);
    char key[NODESIM_KEY_BYTES], value[24];
    nodesim_key_name(key, c->key);
    snprintf(value, sizeof value, "v%llu.", (unsigned long long)++s->unique);
    c->n_parts = 0;
    bool reads = c->last || c->next_page || is_confined(s, c);
    uint64_t dice = reads ? 0 : rng_below(rng, 20);
    c->write = dice >= 8;
    c->range = is_in_line(c->key) && !c->last && (dice < 4 || dice == 8 || dice == 10);
    if (c->next_page) {
        nodesim_range_go_on(c);
    } else if (c->range) {
        nodesim_range_ask(s, c, dice < 8);
    } else if (dice < 8) {
        ask_get(c, key);
    } else if (dice < 10) {
        ask_del(c, key);
    } else if (kind_of(c->key) == WORD) {
        ask_word(s, c, key, value);
    } else if (kind_of(c->key) == SUM) {
        say(c, "incr", key, NULL, NULL, NULL);
        add_part(c, WGL_INCR)->by = 1;
    } else {
        say(c, "append", key, value, NULL, NULL);
        add_part(c, WGL_APPEND)->arg = slice_str(c->request.words[2]);
    }
}

/* A key that expires does so when the clock of whoever leads then says it: no sooner than it was set, and perhaps never. */
static void note_expiry(struct nodesim *s, const struct nodesim_client *c, uint32_t number)
{
    if (c->request.argc < 4 || strcmp(c->request.words[3], "px") != 0) return;
    struct wgl_part p = {.kind = WGL_EXPIRE, .key = c->parts[0].key, .arg = c->parts[0].arg};
    wgl_call(s->history, number, (int64_t)world_now(s->w), &p, 1);
}

/* ---- asking */

static uint32_t number_of(const struct nodesim *s, const struct nodesim_client *c) { return (uint32_t)(c - s->clients); }

static void rest(struct nodesim *s, struct nodesim_client *c)
{
    c->busy = false;
    if (!c->last) world_after(s->w, 0, 1 + rng_below(world_rng(s->w), 2 * s->think_us), NODESIM_CLIENT, number_of(s, c));
}

/* To the leader that is known, mostly; else to anybody, as those that go on from there. */
static uint32_t choose_node(struct nodesim *s, const struct nodesim_client *c)
{
    uint32_t node = c->request.forward ? 0 : c->leader_of[c->key];
    if (is_confined(s, c)) return s->split_node;
    if (!node || node > NODESIM_NODES || rng_below(world_rng(s->w), 10) == 0) node = 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_NODES);
    return is_split(s) && node == s->split_node ? node % NODESIM_NODES + 1 : node;
}

bool nodesim_client_post(struct nodesim *s, uint32_t node, const struct nodesim_request *r)
{
    const struct nodesim_node *n = world_node(s->w, node);
    if (!n || !n->member) return false;
    if (s->n_requests == s->cap_requests) {
        s->cap_requests = s->cap_requests * 2 + 256;
        s->requests = mem_resize(s->requests, s->cap_requests * sizeof *s->requests);
    }
    s->requests[s->n_requests] = *r;
    world_after(s->w, node, 50 + rng_below(world_rng(s->w), 500), NODESIM_REQUEST, s->n_requests++);
    return true;
}

static void post(struct nodesim *s, struct nodesim_client *c)
{
    c->request.attempt = ++c->attempt;
    if (!nodesim_client_post(s, choose_node(s, c), &c->request)) {
        c->leader_of[c->key] = 0;
        answer(s, c->request.client, c->attempt, NODESIM_BOUNCED, 0, SLICE(""));
        return;
    }
    uint64_t wait = (c->request.forward ? FORWARD_MS : WAIT_MS * (1 + c->request.client % NODESIM_CLIENTS)) * WORLD_MS; /* some are more patient than others */
    world_after(s->w, 0, wait, NODESIM_TIMEOUT, (uint64_t)c->request.client << 32 | c->attempt);
}

static void begin(struct nodesim *s, struct nodesim_client *c)
{
    c->busy = true;
    c->request.client = number_of(s, c);
    choose_command(s, c);
    c->request.forward = c->write && !c->range && rng_below(world_rng(s->w), 2);
    c->deadline = world_now(s->w) + GIVE_UP_MS * WORLD_MS;
    c->op = wgl_call(s->history, number_of(s, c), (int64_t)world_now(s->w), c->parts, c->n_parts);
    note_expiry(s, c, number_of(s, c));
    post(s, c);
}

void nodesim_client_begin(struct nodesim *s, uint32_t number)
{
    struct nodesim_client *c = &s->clients[number];
    if (c->busy) post(s, c); /* again, after a rest */
    else if (s->load) {
        if (!c->next_page) c->key = (uint32_t)rng_below(world_rng(s->w), NODESIM_KEYS);
        begin(s, c);
    }
}

void nodesim_client_read_all(struct nodesim *s)
{
    for (uint32_t key = 0; key < NODESIM_KEYS; key++) {
        struct nodesim_client *c = &s->clients[NODESIM_CLIENTS + key];
        c->last = true;
        c->key = key;
        begin(s, c);
    }
}

/* ---- answers */

static struct wgl_answer read_reply(struct nodesim *s, struct slice reply)
{
    struct wgl_answer a = {0};
    const char *end = reply.n ? memchr(reply.p, '\r', reply.n) : NULL;
    struct slice line = end ? slice_of(reply.p + 1, (size_t)(end - reply.p) - 1) : SLICE("");
    if (!end || !num_parse_i64(line, &a.number)) a.number = slice_is(line, "OK");
    if (end && reply.p[0] == '$') a.nil = a.number < 0;
    if (end && reply.p[0] == '$' && !a.nil) a.value = slice_of(end + 2, (size_t)a.number);
    if (!end || reply.p[0] == '-') world_fail(s->w, "a client is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    return a;
}

static void finish(struct nodesim *s, struct nodesim_client *c, struct slice reply)
{
    struct wgl_answer answers[NODESIM_LINE_KEYS] = {0};
    if (!c->range) answers[0] = read_reply(s, reply);
    if (c->parts[0].kind == WGL_CAS) answers[0].number = !answers[0].nil;
    for (size_t i = 0; i < reply.n; i++) world_note(s->w, (unsigned char)reply.p[i]);
    world_note(s->w, world_now(s->w));
    if (c->range) nodesim_range_return(s, c, reply);
    else wgl_return(s->history, c->op, (int64_t)world_now(s->w), answers);
    if (c->write) s->result->writes++;
    else s->result->reads++;
    rest(s, c);
}

/* Nothing happened, and asking again would not help. */
static void turn_away(struct nodesim *s, struct nodesim_client *c)
{
    c->attempt++;
    wgl_refused(s->history, c->op);
    rest(s, c);
}

/* Nothing happened: it goes again, unless it has taken too long. Those who read at the end do not give up. */
static void try_again(struct nodesim *s, struct nodesim_client *c)
{
    c->attempt++; /* what else comes of this one is not heard */
    if (c->last || (world_now(s->w) < c->deadline && !is_confined(s, c))) { /* who reaches one node alone looks for another key */
        world_after(s->w, 0, (2 + rng_below(world_rng(s->w), 50)) * WORLD_MS, NODESIM_CLIENT, number_of(s, c));
        return;
    }
    turn_away(s, c);
}

static void give_up(struct nodesim *s, struct nodesim_client *c)
{
    c->leader_of[c->key] = 0;
    if (!c->write) {
        try_again(s, c);
        return;
    }
    c->attempt++;
    s->result->uncertain++;
    rest(s, c); /* it may have happened, or may yet */
}

void nodesim_client_answer(struct nodesim *s, uint32_t number)
{
    struct nodesim_answer *a = &s->answers[number];
    struct slice reply = buf_slice(&a->reply);
    if (a->client >= NODESIM_FIRST_LISTER) nodesim_list_answer(s, a);
    else if (a->client >= NODESIM_FIRST_PIPE) nodesim_pipe_answer(s, a);
    else if (a->client >= NODESIM_FIRST_LOCKER) nodesim_lock_answer(s, a);
    if (a->client >= NODESIM_FIRST_LOCKER) return;
    struct nodesim_client *c = &s->clients[a->client];
    if (!c->busy || c->attempt != a->attempt) return;
    switch (a->status) {
    case NODESIM_DONE:
        if (c->range && nodesim_range_refuses(reply)) turn_away(s, c);
        else finish(s, c, reply);
        break;
    case NODESIM_ASTRIDE: turn_away(s, c); break;
    case NODESIM_BOUNCED:
    case NODESIM_LOST:
        s->result->bounced += a->status == NODESIM_BOUNCED;
        s->result->lost += a->status == NODESIM_LOST;
        c->leader_of[c->key] = a->leader;
        try_again(s, c);
        break;
    case NODESIM_UNCERTAIN: give_up(s, c); break;
    }
}

void nodesim_client_timeout(struct nodesim *s, uint32_t client, uint32_t attempt)
{
    struct nodesim_client *c = &s->clients[client];
    if (c->busy && c->attempt == attempt) give_up(s, c);
}

/* ---- the verdict: that there is none is no pass, but does not catch a mutant either */

static void tell_history(struct nodesim *s)
{
    struct buf line = {0};
    for (size_t op = 0; op < wgl_ops(s->history); op++) {
        line.len = 0;
        wgl_text(s->history, op, &line);
        world_trace(s->w, 0, "operation %zu, %.*s", op, (int)line.len, line.p);
    }
    buf_fini(&line);
}

void nodesim_client_judge(struct nodesim *s)
{
    struct buf why = {0};
    char name[NODESIM_KEY_BYTES];
    for (uint32_t key = 0; key < NODESIM_KEYS; key++) {
        nodesim_key_name(name, key);
        if (s->clients[NODESIM_CLIENTS + key].busy) world_fail(s->w, "key %s cannot be read in the end", name);
    }
    const struct wgl_limits limits = {.configs = s->mutant == NODESIM_SOUND ? CONFIGS : 0}; /* mutants need not be judged to the end: another seed may do */
    enum wgl_verdict v = wgl_check(s->history, &limits, NULL, &why);
    if (v == WGL_NOT) tell_history(s);
    if (v == WGL_NOT) world_fail(s->w, "what clients saw cannot be: %.*s", (int)why.len, why.p);
    if (v == WGL_GAVE_UP && s->mutant == NODESIM_SOUND) world_fail(s->w, "nobody can tell whether what clients saw can be: %.*s", (int)why.len, why.p);
    buf_fini(&why);
}
