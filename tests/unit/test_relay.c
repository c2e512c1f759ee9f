/* Requests of clients find the node that leads their group, and their answers come back in order, whatever happens to leaders and links. */
#include "relayrig.h"

#include "base/le.h"
#include "server/relay_call.h"

/* ---- one thing at a time */

static void a_pipeline_for_groups_of_three_nodes_is_answered_in_order(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    for (uint32_t node = 0; node < RELAYRIG_NODES; node++) relayrig_ask(c, "SET %s v%u", relayrig_key(r, node, 0), node);
    for (uint32_t node = RELAYRIG_NODES; node-- > 0;) relayrig_ask(c, "GET %s", relayrig_key(r, node, 0));
    relayrig_go(c);
    assert_true(c->busy);
    relayrig_settle(r);
    relayrig_expect(c, "+OK\r\n+OK\r\n+OK\r\n$2\r\nv2\r\n$2\r\nv1\r\n$2\r\nv0\r\n");
    struct relay_info info;
    relay_look(r->nodes[0].server.relay, &info);
    assert_int_equal(info.waves, 1);
    assert_int_equal(info.here, 2);
    assert_int_equal(info.forwarded, 4);
    relayrig_free(r);
}

static void an_answer_waits_until_its_entry_is_committed(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    relayrig_ask(c, "SET %s v", relayrig_key(r, 0, 0));
    relayrig_go(c);
    for (int i = 0; i < 10; i++) relayrig_turn(&r->nodes[0], 0);
    assert_true(c->busy);
    assert_true(relayrig_commit(&r->nodes[0], relayrig_group(r, relayrig_key(r, 0, 0))));
    relayrig_turn(&r->nodes[0], 0);
    relayrig_expect(c, "+OK\r\n");
    relayrig_free(r);
}

static void what_cannot_be_relayed_is_refused_in_its_place(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *mine = relayrig_key(r, 0, 0), *other = relayrig_key(r, 1, 0);
    relayrig_ask(c, "SET %s 1", mine);
    relayrig_ask(c, "MSET %s 1 %s 2", mine, other);
    relayrig_ask(c, "BLPOP %s 0", other);
    relayrig_ask(c, "GET %s", mine);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, "+OK\r\n-CROSSSHARD keys of one command are in different shards: nothing was done\r\n-ERR blpop is not available in a cluster: it waits\r\n$1\r\n1\r\n");
    relayrig_free(r);
}

static void arguments_beyond_eight_mebibytes_are_refused(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    size_t n = 8 * 1024 * 1024;
    char *large = mem_zalloc(n);
    relayrig_ask(c, "SET %s x", key);
    struct slice *value = &c->conn.batch->task.args[2];
    *value = slice_of(large, n);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect_begins(c, "-ERR the arguments of one command exceed 8 MiB");
    /* Two that are too large together take two messages. */
    for (int i = 0; i < 2; i++) {
        relayrig_ask(c, "SET %s x", key);
        c->conn.batch->task.args[3 * i + 2] = slice_of(large, n - 1024);
    }
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, "+OK\r\n+OK\r\n");
    mem_free(large);
    relayrig_free(r);
}

static void long_answers_come_in_several_messages(void **state)
{
    enum { N = 40, SIZE = 100 * 1000 };
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 2, 0);
    relayrig_ask(c, "SETRANGE %s %d x", key, SIZE - 1);
    for (int i = 0; i < N; i++) relayrig_ask(c, "GET %s", key);
    relayrig_go(c);
    relayrig_settle(r);
    struct relay_info info;
    relay_look(r->nodes[0].server.relay, &info);
    assert_true(info.forwarded > N + 1);
    assert_int_equal(c->conn.out.len, strlen(":100000\r\n") + N * (SIZE + strlen("$100000\r\n\r\n")));
    relayrig_free(r);
}

static void when_nobody_leads_nothing_is_done_and_the_client_is_told(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *dead = relayrig_key(r, 1, 0), *mine = relayrig_key(r, 0, 0);
    uint32_t group = relayrig_group(r, dead);
    relayrig_depose(r, group, FATE_LOST, false);
    relayrig_learn(&r->nodes[0], group, 0);
    relay_set_timeout(r->nodes[0].server.relay, 30);
    relayrig_ask(c, "SET %s 1", dead);
    relayrig_ask(c, "SET %s 1", mine);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, "-CLUSTERDOWN nobody leads the shard of this key: nothing was done\r\n+OK\r\n");
    relayrig_free(r);
}

static void a_request_that_bounced_follows_the_leader(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    uint32_t group = relayrig_group(r, key);
    relayrig_depose(r, group, FATE_LOST, false);
    relayrig_elect(r, group, 2);
    relayrig_learn(&r->nodes[0], group, 2); /* an old hint: node 2 is the one that was deposed */
    relayrig_ask(c, "SET %s 1", key);
    relayrig_ask(c, "GET %s", key);
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, "+OK\r\n$1\r\n1\r\n");
    struct relay_info info;
    relay_look(r->nodes[0].server.relay, &info);
    assert_int_equal(info.bounced, 1);
    assert_int_equal(relayrig_hint(&r->nodes[0], group), 3);
    relayrig_free(r);
}

/* Node 0 has spoken with the others. */
static void greet(struct relayrig *r, struct relayrig_client *c)
{
    for (uint32_t node = 0; node < RELAYRIG_NODES; node++) relayrig_ask(c, "EXISTS %s", relayrig_key(r, node, 0));
    relayrig_go(c);
    relayrig_settle(r);
    relayrig_expect(c, ":0\r\n:0\r\n:0\r\n");
}

static void when_a_link_breaks_requests_are_asked_again(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0), *read = relayrig_key(r, 1, 1);
    greet(r, c);
    relayrig_ask(c, "GET %s", read);
    relayrig_ask(c, "SET %s 1", key);
    relayrig_ask(c, "GET %s", read);
    relayrig_go(c);
    relayrig_turn(&r->nodes[0], 0);
    assert_non_null(r->wires[0][1]);
    relayrig_cut(r, 0, 1);
    for (int i = 0; i < 10; i++) relayrig_turn(&r->nodes[0], 0);
    assert_true(c->busy); /* nothing goes there until a ping has come back */
    relayrig_mend(r, 0, 1);
    relayrig_settle(r);
    relayrig_expect(c, "$-1\r\n+OK\r\n$-1\r\n");
    assert_int_equal(r->repeated, 0); /* it never came there */
    relayrig_free(r);
}

static void a_leader_that_is_deposed_loses_reads_and_unproposed_writes_which_go_again(void **state)
{
    struct relayrig *r = relayrig_new();
    for (uint32_t asker = 0; asker < 2; asker++) { /* that leads itself, and that does not */
        struct relayrig_client *c = relayrig_client(r, asker);
        const char *key = relayrig_key(r, 0, asker);
        uint32_t group = relayrig_group(r, key);
        relayrig_ask(c, "APPEND %s a", key);
        relayrig_ask(c, "APPEND %s b", key);
        relayrig_ask(c, "GET %s", key);
        relayrig_go(c);
        for (int i = 0; i < 4; i++) {
            for (uint32_t node = 0; node < 2; node++) relayrig_turn(&r->nodes[node], 0), relayrig_turn(&r->nodes[node], 1);
            relayrig_deliver(r, 0, 1);
            relayrig_deliver(r, 1, 0);
        }
        relayrig_depose(r, group, FATE_LOST, false);
        relayrig_elect(r, group, 2);
        relayrig_settle(r);
        relayrig_expect(c, ":1\r\n:2\r\n$2\r\nab\r\n");
        relayrig_depose(r, group, FATE_LOST, false);
        relayrig_elect(r, group, 0);
    }
    relayrig_free(r);
}

static void a_write_whose_entry_has_no_fate_is_uncertain(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 0, 0);
    relayrig_ask(c, "SET %s 1", key);
    relayrig_ask(c, "STRLEN %s", key);
    relayrig_go(c);
    relayrig_turn(&r->nodes[0], 0);
    relayrig_depose(r, relayrig_group(r, key), FATE_UNCERTAIN, true);
    relayrig_elect(r, relayrig_group(r, key), 1);
    relayrig_settle(r);
    relayrig_expect(c, "-UNCERTAIN the leader of this key's shard was lost while the command was under way: it may have happened, or may yet\r\n:1\r\n");
    relayrig_free(r);
}

/* Takes the message that node 0 has sent to node 1 and answers it by hand. */
static void answer_by_hand(struct relayrig *r, const enum wirecall_status *statuses, uint32_t n)
{
    struct relayrig_letter *l = relayrig_take(r, 0, 1);
    struct buf body = {0}, frames = {0};
    for (uint32_t i = 0; i < n; i++) relay_code_add_answer(&body, statuses[i], statuses[i] == WIRECALL_DONE ? slice_str("+done\r\n") : slice_of(NULL, 0));
    wirecall_add_answer(&frames, l->group, &(struct wirecall_answer){.id = le_u64(l->bytes.p), .reply = buf_slice(&body)});
    relayrig_send(&r->nodes[1], 1, buf_slice(&frames));
    relayrig_drop(l);
    buf_fini(&body);
    buf_fini(&frames);
    relayrig_deliver(r, 1, 0);
}

static void what_one_behind_it_has_overtaken_does_not_go_again(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    greet(r, c);
    relayrig_ask(c, "SET %s 1", key);
    relayrig_ask(c, "GET %s", key);
    relayrig_ask(c, "GET %s", key);
    relayrig_go(c);
    relayrig_turn(&r->nodes[0], 0);
    /* The write was lost and the last read shows that; the read between them can still go again. */
    answer_by_hand(r, (enum wirecall_status[]){WIRECALL_MUSTRETRY, WIRECALL_MUSTRETRY, WIRECALL_DONE}, 3);
    relayrig_settle(r);
    relayrig_expect(c, "-TRYAGAIN the leader of this key's shard changed in the middle of a pipeline: nothing was done\r\n$-1\r\n+done\r\n");
    relayrig_free(r);
}

static void what_an_answer_says_nothing_of_is_asked_again(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    const char *key = relayrig_key(r, 1, 0);
    greet(r, c);
    relayrig_ask(c, "GET %s", key);
    relayrig_ask(c, "SET %s 1", key);
    relayrig_go(c);
    relayrig_turn(&r->nodes[0], 0);
    answer_by_hand(r, (enum wirecall_status[]){WIRECALL_DONE}, 1);
    relayrig_settle(r);
    relayrig_expect(c, "+done\r\n+OK\r\n");
    relayrig_free(r);
}

static void messages_that_make_no_sense_are_dropped(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relay *relay = r->nodes[0].server.relay;
    char bytes[64] = {0};
    assert_true(relay_request(relay, 2, 2, slice_of(bytes, 3)) < 0);
    assert_true(relay_answer(relay, 2, 2, slice_of(bytes, 3)) < 0);
    relay_request(relay, 2, 2, slice_of(bytes, sizeof bytes));
    relay_answer(relay, 2, 2, slice_of(bytes, sizeof bytes));
    struct buf frames = {0};
    struct slice args[] = {SLICE("12345678"), SLICE("GET")}, head;
    struct buf heads = {0};
    relay_code_add_head(&heads, (struct relay_head){.argc = 7, .group = 2}); /* more arguments than there are */
    head = buf_slice(&heads);
    args[0] = head;
    wirecall_add_request(&frames, 2, &(struct wirecall_request){.id = 1, .resp = 2, .argc = 2}, args);
    relayrig_send(&r->nodes[1], 1, buf_slice(&frames));
    buf_fini(&frames);
    buf_fini(&heads);
    relayrig_settle(r);
    assert_null(r->wires[0][1]);
    relayrig_free(r);
}

static void commands_of_a_message_are_checked_as_those_of_a_client(void **state)
{
    static const struct slice commands[][3] = {{SLICE("WATCH"), SLICE("k")}, {SLICE("GET")}, {SLICE("NONSENSE"), SLICE("k")}, {SLICE("FLUSHALL")}, {SLICE("BLPOP"), SLICE("k"), SLICE("0")}};
    struct relayrig *r = relayrig_new();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct buf heads = {0}, frames = {0};
        struct slice args[4];
        uint32_t argc = 0;
        while (argc < 3 && commands[i][argc].n) args[1 + argc] = commands[i][argc], argc++;
        relay_code_add_head(&heads, (struct relay_head){.argc = argc, .group = 2});
        args[0] = buf_slice(&heads);
        wirecall_add_request(&frames, 2, &(struct wirecall_request){.id = 1, .resp = 2, .argc = argc + 1}, args);
        relayrig_send(&r->nodes[1], 1, buf_slice(&frames));
        relayrig_deliver(r, 1, 0);
        for (int k = 0; k < 2; k++) relayrig_turn(&r->nodes[0], 0), relayrig_turn(&r->nodes[0], 1);
        struct relayrig_letter *l = relayrig_take(r, 0, 1);
        struct wirecall_answer a;
        enum wirecall_status status;
        struct slice reply;
        assert_int_equal(wirecall_get_answer(buf_slice(&l->bytes), &a), 0);
        assert_true(relay_code_answer(&a.reply, &status, &reply));
        assert_int_equal(status, WIRECALL_DONE);
        assert_memory_equal(reply.p, "-ERR ", 5);
        relayrig_drop(l);
        buf_fini(&heads);
        buf_fini(&frames);
    }
    relayrig_free(r);
}

static void a_client_that_closes_is_forgotten_at_once(void **state)
{
    struct relayrig *r = relayrig_new();
    struct relayrig_client *c = relayrig_client(r, 0);
    for (uint32_t node = 0; node < RELAYRIG_NODES; node++) relayrig_ask(c, "SET %s 1", relayrig_key(r, node, 0));
    relayrig_go(c);
    assert_true(c->busy);
    relayrig_close(c);
    assert_false(c->busy);
    relayrig_settle(r);
    assert_int_equal(c->conn.out.len, 0);
    relayrig_free(r);
}

/* ---- a walk: clients append tokens to keys and read them, while leaders change, links break, tokens are held and clients close. Some ask by calls instead of pipelines: a call promises as much.
 *
 * Each token is written once, so a value tells its history. What a client knows of its own tokens of a key is its twin: acknowledged ones must be in every value that it reads later, in the order in which it wrote them; those
 * that were refused, or are behind the read in its pipeline, must not. */

enum { TOKEN = 8, WALK_CLIENTS = 9, PIPELINE_MAX = 12, TOKENS_MAX = 64 * 1024 };

enum token_fate { TOKEN_UNDER_WAY, TOKEN_DONE, TOKEN_REFUSED, TOKEN_UNCERTAIN };

struct token {
    uint8_t fate, key, client;
};

struct walker {
    struct relayrig_client *c;
    struct {
        uint32_t key, token; /* token 0: a read */
    } asked[PIPELINE_MAX];
    uint32_t n;
    bool calls; /* it asks by calls */
};

struct walk {
    struct relayrig *rig;
    struct rng rng;
    struct token *tokens;
    uint32_t n_tokens;
    struct walker walkers[WALK_CLIENTS];
    uint64_t done, read, uncertain, refused, tried_again, closed, deposed, cuts, called;
};

static bool chance(struct walk *w, uint32_t in) { return rng_below(&w->rng, in) == 0; }

/* A value that this walker has read at its place `at`. */
static void check_value(struct walk *w, const struct walker *me, uint32_t at, struct slice value)
{
    uint32_t key = me->asked[at].key, last = 0;
    assert_int_equal(value.n % TOKEN, 0);
    uint8_t *seen = mem_zalloc(w->n_tokens + 1);
    for (size_t p = 0; p < value.n; p += TOKEN) {
        char text[TOKEN + 1] = {0};
        memcpy(text, value.p + p, TOKEN);
        uint32_t t = (uint32_t)strtoul(text + 1, NULL, 10);
        if (t < 1 || t > w->n_tokens || seen[t] || w->tokens[t].key != key) fail_msg("%s in key %u: %.*s", text, key, (int)value.n, value.p);
        seen[t] = 1;
        if (w->tokens[t].fate == TOKEN_REFUSED) fail_msg("token %u was refused, and is there", t);
        if (w->tokens[t].client != me->c->conn.id || w->tokens[t].fate == TOKEN_UNCERTAIN) continue;
        if (t < last) fail_msg("token %u is behind %u", t, last);
        last = t;
    }
    for (uint32_t t = 1; t <= w->n_tokens; t++)
        if (w->tokens[t].key == key && w->tokens[t].client == me->c->conn.id && w->tokens[t].fate == TOKEN_DONE && !seen[t]) fail_msg("token %u was acknowledged, and is not there", t);
    for (uint32_t i = at + 1; i < me->n; i++)
        if (me->asked[i].token && seen[me->asked[i].token] && me->asked[i].key == key) fail_msg("token %u is seen by a read before it", me->asked[i].token);
    mem_free(seen);
}

static struct slice take_line(struct slice *rest)
{
    const char *end = memchr(rest->p, '\n', rest->n);
    assert_non_null(end);
    struct slice line = slice_of(rest->p, (size_t)(end - rest->p) + 1);
    *rest = slice_of(end + 1, rest->n - line.n);
    return line;
}

static bool begins(struct slice line, const char *text) { return line.n >= strlen(text) && memcmp(line.p, text, strlen(text)) == 0; }

static void take_error(struct walk *w, const struct walker *me, uint32_t i, struct slice line)
{
    struct token *t = me->asked[i].token ? &w->tokens[me->asked[i].token] : NULL;
    bool uncertain = begins(line, "-UNCERTAIN");
    if (!uncertain && !begins(line, "-CLUSTERDOWN") && !begins(line, "-TRYAGAIN")) fail_msg("an error: %.*s", (int)line.n, line.p);
    assert_true(t || !uncertain);
    if (t) t->fate = uncertain ? TOKEN_UNCERTAIN : TOKEN_REFUSED;
    w->tried_again += begins(line, "-TRYAGAIN");
    if (uncertain) w->uncertain++;
    else w->refused++;
}

/* Every request has exactly one reply, in its place. */
static void check_replies(struct walk *w, struct walker *me)
{
    struct slice rest = buf_slice(&me->c->conn.out);
    for (uint32_t i = 0; i < me->n; i++) {
        struct slice line = take_line(&rest);
        if (line.p[0] == '-') {
            take_error(w, me, i, line);
        } else if (me->asked[i].token) {
            assert_int_equal(line.p[0], ':');
            w->tokens[me->asked[i].token].fate = TOKEN_DONE;
            w->done++;
        } else {
            assert_int_equal(line.p[0], '$');
            long n = strtol(line.p + 1, NULL, 10);
            check_value(w, me, i, slice_of(rest.p, n > 0 ? (size_t)n : 0));
            if (n >= 0) rest = slice_of(rest.p + n + 2, rest.n - (size_t)n - 2);
            w->read++;
        }
    }
    assert_int_equal(rest.n, 0);
    me->c->conn.out.len = 0;
    me->n = 0;
}

static void on_idle(struct relayrig_client *c)
{
    struct walk *w = c->role;
    struct walker *me = &w->walkers[c->conn.id];
    if (me->n) check_replies(w, me);
    c->conn.out.len = 0; /* of one that was closed while its task was on its way */
}

static enum call_fate fate_of(struct slice reply)
{
    return begins(reply, "-UNCERTAIN") ? CALL_UNCERTAIN : begins(reply, "-") ? CALL_NOBODY : CALL_ANSWERED;
}

static void call_over(void *ctx, struct call *call)
{
    struct walker *me = ctx;
    struct relayrig_client *c = me->c;
    for (uint32_t i = 0; i < call_size(call); i++) {
        struct slice reply;
        enum call_fate fate = call_fate(call, i, &reply);
        assert_int_equal(fate, fate_of(reply));
        buf_add_slice(&c->conn.out, reply);
    }
    call_free(call);
    c->busy = false;
    c->words_used = 0;
    on_idle(c);
}

/* The requests that were asked for go by a call. */
static void go_by_call(struct walk *w, struct walker *me)
{
    struct relayrig_client *c = me->c;
    const struct task *t = &c->conn.batch->task;
    struct call *call = call_new(c->conn.front, 0, 2, call_over, me);
    for (uint32_t i = 0; i < t->n_requests; i++) {
        const struct request *r = &t->requests[i];
        call_add(call, r->group, r->cmd, t->args + r->first_arg, r->argc);
    }
    front_batch_put(c->conn.front, c->conn.batch);
    c->conn.batch = NULL;
    c->busy = true;
    w->called++;
    call_send(call, 40);
}

static void start_pipeline(struct walk *w, struct walker *me)
{
    uint32_t few = chance(w, 2) ? 3 : RELAYRIG_KEYS; /* often the same keys, so that order matters */
    me->n = 1 + (uint32_t)rng_below(&w->rng, PIPELINE_MAX);
    for (uint32_t i = 0; i < me->n; i++) {
        uint32_t key = (uint32_t)rng_below(&w->rng, few), token = 0;
        if (chance(w, 2)) {
            token = ++w->n_tokens;
            assert_true(token < TOKENS_MAX);
            w->tokens[token] = (struct token){TOKEN_UNDER_WAY, (uint8_t)key, (uint8_t)me->c->conn.id};
            relayrig_ask(me->c, "APPEND %s t%07u", w->rig->keys[key], token);
        } else {
            relayrig_ask(me->c, "GET %s", w->rig->keys[key]);
        }
        me->asked[i].key = key;
        me->asked[i].token = token;
    }
    if (me->calls) go_by_call(w, me);
    else relayrig_go(me->c);
}

static void close_client(struct walk *w, struct walker *me)
{
    for (uint32_t i = 0; i < me->n; i++)
        if (me->asked[i].token) w->tokens[me->asked[i].token].fate = TOKEN_UNCERTAIN;
    me->n = 0;
    me->c->conn.out.len = 0;
    w->closed++;
    relayrig_close(me->c);
    me->c->conn.out.len = 0;
}

static void disturb(struct walk *w)
{
    struct relayrig *r = w->rig;
    uint32_t group = RELAYRIG_FIRST + (uint32_t)rng_below(&w->rng, RELAYRIG_GROUPS), a = (uint32_t)rng_below(&w->rng, RELAYRIG_NODES), b = (a + 1) % RELAYRIG_NODES;
    struct relayrig_node *n = &r->nodes[a];
    switch (rng_below(&w->rng, 12)) {
    case 0:
        if (!chance(w, 4) || !relayrig_leader(r, group)) break;
        relayrig_depose(r, group, chance(w, 2) ? FATE_LOST : FATE_UNCERTAIN, chance(w, 2));
        w->deposed++;
        break;
    case 1: case 2:
        if (!relayrig_leader(r, group)) relayrig_elect(r, group, a);
        break;
    case 3: relayrig_learn(n, group, rng_below(&w->rng, RELAYRIG_NODES + 1)); break; /* hints are only that */
    case 4:
        if (!chance(w, 10) || r->cut[a][b]) break;
        relayrig_cut(r, a, b);
        w->cuts++;
        break;
    case 5: case 6: relayrig_mend(r, a, b); break;
    case 7:
        if (n->held < 0 && engine_try(&n->server.engine->shards[1 + group - RELAYRIG_FIRST])) n->held = (int)(1 + group - RELAYRIG_FIRST);
        break;
    default: relayrig_let_go(n);
    }
}

static void walk_step(struct walk *w)
{
    struct relayrig *r = w->rig;
    uint32_t a = (uint32_t)rng_below(&w->rng, RELAYRIG_NODES), b = (uint32_t)rng_below(&w->rng, RELAYRIG_NODES);
    struct walker *me = &w->walkers[rng_below(&w->rng, WALK_CLIENTS)];
    switch (rng_below(&w->rng, 8)) {
    case 0: case 1: relayrig_turn(&r->nodes[a], (uint32_t)rng_below(&w->rng, RELAYRIG_FRONTS)); break;
    case 2: case 3: relayrig_deliver(r, a, b); break;
    case 4:
        for (uint32_t g = 0; g < RELAYRIG_GROUPS; g++)
            if (chance(w, 2)) relayrig_commit(&r->nodes[a], g + RELAYRIG_FIRST);
        break;
    case 5: disturb(w); break;
    default:
        if (!me->c->busy) start_pipeline(w, me);
        else if (me->n && !me->calls && chance(w, 200)) close_client(w, me);
    }
}

static void calm(struct relayrig *r)
{
    for (uint32_t a = 0; a < RELAYRIG_NODES; a++) {
        relayrig_let_go(&r->nodes[a]);
        relayrig_mend(r, a, (a + 1) % RELAYRIG_NODES);
    }
    for (uint32_t g = RELAYRIG_FIRST; g < RELAYRIG_FIRST + RELAYRIG_GROUPS; g++)
        if (!relayrig_leader(r, g)) relayrig_elect(r, g, 0);
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++)
        for (uint32_t g = RELAYRIG_FIRST; g < RELAYRIG_FIRST + RELAYRIG_GROUPS; g++) relayrig_learn(&r->nodes[i], g, relayrig_leader(r, g)->id);
    relayrig_settle(r);
}

/* What is in the cluster at the end is what was acknowledged, and some of what is uncertain. */
static void check_end(struct walk *w)
{
    for (uint32_t k = 0; k < RELAYRIG_KEYS; k++) {
        struct walker probe = {.c = w->walkers[0].c, .n = 1, .asked[0].key = k};
        check_value(w, &probe, 0, buf_slice(&w->rig->truth[k]));
    }
    for (uint32_t t = 1; t <= w->n_tokens; t++) assert_true(w->tokens[t].fate != TOKEN_UNDER_WAY);
}

static void walk(uint64_t seed, uint32_t steps)
{
    struct walk w = {.rig = relayrig_new()};
    rng_init(&w.rng, seed);
    w.tokens = mem_zalloc(TOKENS_MAX * sizeof *w.tokens);
    w.rig->on_idle = on_idle;
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) relay_set_timeout(w.rig->nodes[i].server.relay, 40);
    for (uint32_t i = 0; i < WALK_CLIENTS; i++) {
        w.walkers[i].c = relayrig_client_at(w.rig, i % RELAYRIG_NODES, i % RELAYRIG_FRONTS);
        w.walkers[i].c->role = &w;
        w.walkers[i].calls = i >= WALK_CLIENTS - RELAYRIG_NODES; /* one at each node */
    }
    for (uint32_t i = 0; i < steps; i++) {
        walk_step(&w);
        if (i % 5000 == 4999) { /* that the values do not grow for ever is not needed: there are few */
            calm(w.rig);
            for (uint32_t k = 0; k < WALK_CLIENTS; k++) assert_false(w.walkers[k].c->busy);
        }
    }
    calm(w.rig);
    check_end(&w);
    struct relay_info info, sum = {0};
    for (uint32_t i = 0; i < RELAYRIG_NODES; i++) {
        relay_look(w.rig->nodes[i].server.relay, &info);
        sum.forwarded += info.forwarded;
        sum.here += info.here;
        sum.bounced += info.bounced;
        sum.retried += info.retried;
    }
    /* A walk that has not met it all proves nothing. */
    assert_true(w.done > 100 && w.read > 100 && w.rig->repeated && w.refused && w.called > 10 && w.closed && w.deposed > 10 && w.cuts);
    assert_true(sum.forwarded > 100 && sum.here > 100 && sum.bounced > 10 && sum.retried > 10);
    mem_free(w.tokens);
    relayrig_free(w.rig);
}

static void pipelines_keep_their_order_whatever_happens_to_leaders_and_links(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++) walk(seed, 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_for_groups_of_three_nodes_is_answered_in_order),
        cmocka_unit_test(an_answer_waits_until_its_entry_is_committed),
        cmocka_unit_test(what_cannot_be_relayed_is_refused_in_its_place),
        cmocka_unit_test(arguments_beyond_eight_mebibytes_are_refused),
        cmocka_unit_test(long_answers_come_in_several_messages),
        cmocka_unit_test(when_nobody_leads_nothing_is_done_and_the_client_is_told),
        cmocka_unit_test(a_request_that_bounced_follows_the_leader),
        cmocka_unit_test(when_a_link_breaks_requests_are_asked_again),
        cmocka_unit_test(a_leader_that_is_deposed_loses_reads_and_unproposed_writes_which_go_again),
        cmocka_unit_test(a_write_whose_entry_has_no_fate_is_uncertain),
        cmocka_unit_test(what_one_behind_it_has_overtaken_does_not_go_again),
        cmocka_unit_test(what_an_answer_says_nothing_of_is_asked_again),
        cmocka_unit_test(messages_that_make_no_sense_are_dropped),
        cmocka_unit_test(commands_of_a_message_are_checked_as_those_of_a_client),
        cmocka_unit_test(a_client_that_closes_is_forgotten_at_once),
        cmocka_unit_test(pipelines_keep_their_order_whatever_happens_to_leaders_and_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
