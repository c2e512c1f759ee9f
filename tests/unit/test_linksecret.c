/* The secret that nodes prove to each other: what a proof is good for, who is let in, and how a secret is changed. Every test with sockets runs on both event loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <sys/mman.h>

#include "cluster/linklanes.h"
#include "linkrig.h"
#include "looptest.h"

static const char a_text[] = "the first of secrets", b_text[] = "the second of secrets";

static struct linksecret secrets(const char *first, const char *second)
{
    struct linksecret s = {0};
    if (first) assert_true(linksecret_add(&s, slice_str(first)));
    if (second) assert_true(linksecret_add(&s, slice_str(second)));
    return s;
}

/* ---- proofs */

static struct wire_hello guarded_hello(uint64_t node, uint64_t to)
{
    struct wire_hello h = linkrig_hello(node, to);
    linkgreet_guard(&h, true);
    linksecret_nonce(h.nonce);
    return h;
}

/* The same greeting with one thing different, by number; false: there are no more. */
static bool differ(struct wire_hello *h, unsigned what)
{
    switch (what) {
    case 0: h->version++; return true;
    case 1: h->oldest--; return true;
    case 2: h->cluster[WIRE_CLUSTER_ID - 1] ^= 1; return true;
    case 3: h->node++; return true;
    case 4: h->to++; return true;
    case 5: h->incarnation++; return true;
    case 6: h->address[strlen(h->address) - 1] = '\0'; return true;
    case 7: h->lanes++; return true;
    case 8: h->lane++; return true;
    case 9: h->nonce[0] ^= 1; return true;
    case 10: h->nonce[WIRE_PROOF_BYTES - 1] ^= 0x80; return true;
    default: return false;
    }
}

static void a_proof_is_of_one_greeting_and_no_other(void **state)
{
    struct linksecret s = secrets(a_text, NULL);
    struct wire_hello caller = guarded_hello(2, 1), called = guarded_hello(1, 2), other;
    uint8_t proof[WIRE_PROOF_BYTES], nonce[WIRE_PROOF_BYTES];
    memcpy(nonce, called.nonce, sizeof nonce);
    linksecret_prove_caller(&s, &caller, nonce, proof);
    linksecret_prove_called(&s, &caller, &called);
    assert_true(called.proven && linksecret_check_called(&s, &caller, &called));
    assert_true(linksecret_check_caller(&s, &caller, nonce, proof));
    for (unsigned what = 0; other = caller, differ(&other, what); what++) {
        assert_false(linksecret_check_caller(&s, &other, nonce, proof));
        assert_false(linksecret_check_called(&s, &other, &called));
    }
    for (unsigned what = 0; other = called, differ(&other, what); what++) assert_false(linksecret_check_called(&s, &caller, &other));
    nonce[5] ^= 4;
    assert_false(linksecret_check_caller(&s, &caller, nonce, proof));
}

static void a_proof_with_any_bit_flipped_is_none(void **state)
{
    struct linksecret s = secrets(a_text, NULL);
    struct wire_hello caller = guarded_hello(2, 1);
    uint8_t proof[WIRE_PROOF_BYTES];
    linksecret_prove_caller(&s, &caller, caller.nonce, proof);
    for (unsigned bit = 0; bit < 8 * WIRE_PROOF_BYTES; bit++) {
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(linksecret_check_caller(&s, &caller, caller.nonce, proof));
        proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(linksecret_check_caller(&s, &caller, caller.nonce, proof));
}

static void the_caller_and_the_called_prove_different_things(void **state)
{
    struct linksecret s = secrets(a_text, NULL);
    struct wire_hello caller = guarded_hello(2, 1), called = caller; /* were both the same in all they say */
    uint8_t proof[WIRE_PROOF_BYTES];
    linksecret_prove_caller(&s, &caller, caller.nonce, proof);
    linksecret_prove_called(&s, &caller, &called);
    assert_memory_not_equal(proof, called.proof, WIRE_PROOF_BYTES);
    memcpy(called.proof, proof, WIRE_PROOF_BYTES);
    assert_false(linksecret_check_called(&s, &caller, &called));
}

static void the_first_secret_is_proven_and_every_one_accepted(void **state)
{
    struct linksecret a = secrets(a_text, NULL), ab = secrets(a_text, b_text), ba = secrets(b_text, a_text), b = secrets(b_text, NULL), none = {0};
    struct wire_hello h = guarded_hello(2, 1);
    uint8_t proof[WIRE_PROOF_BYTES];
    linksecret_prove_caller(&ab, &h, h.nonce, proof);
    assert_true(linksecret_check_caller(&a, &h, h.nonce, proof) && linksecret_check_caller(&ab, &h, h.nonce, proof) && linksecret_check_caller(&ba, &h, h.nonce, proof));
    assert_false(linksecret_check_caller(&b, &h, h.nonce, proof));
    assert_false(linksecret_check_caller(&none, &h, h.nonce, proof));
    linksecret_prove_caller(&ba, &h, h.nonce, proof);
    assert_true(linksecret_check_caller(&b, &h, h.nonce, proof) && linksecret_check_caller(&ab, &h, h.nonce, proof));
    assert_false(linksecret_check_caller(&a, &h, h.nonce, proof));
    assert_true(linksecret_same(&a, &a) && linksecret_same(&none, &none));
    assert_false(linksecret_same(&a, &b) || linksecret_same(&a, &ab) || linksecret_same(&ab, &ba) || linksecret_same(&a, &none));
    while (ab.n < LINKSECRET_MAX) assert_true(linksecret_add(&ab, SLICE("one more")));
    assert_false(linksecret_add(&ab, SLICE("one too many")));
}

static void words_are_proven_one_by_one(void **state)
{
    struct linksecret s = secrets(a_text, NULL), other = secrets(b_text, NULL);
    const struct slice words[] = {SLICE("17"), SLICE("db4:16379"), SLICE("")}, shifted[] = {SLICE("17db4"), SLICE(":16379"), SLICE("")};
    uint8_t proof[WIRE_PROOF_BYTES];
    linksecret_prove_words(&s, words, 3, proof);
    assert_true(linksecret_check_words(&s, words, 3, proof));
    assert_false(linksecret_check_words(&s, words, 2, proof));
    assert_false(linksecret_check_words(&s, shifted, 3, proof));
    assert_false(linksecret_check_words(&other, words, 3, proof));
}

/* ---- nodes with secrets */

static void give(struct linkrig *rig, uint64_t id, struct linksecret s)
{
    linkrig_stop(rig, id);
    rig->nodes[id].options.secret = s;
    linkrig_start(rig, id);
}

static struct linkrig *start(void **state, uint32_t n, struct linksecret s)
{
    struct linkrig *rig = linkrig_new(looptest_backend(state), n);
    for (uint64_t id = 1; id <= n; id++) give(rig, id, s);
    return rig;
}

static bool connected(struct linkrig *rig, uint64_t a, uint64_t b) { return rig->nodes[a].out_up[b] && rig->nodes[a].in_up[b] && rig->nodes[b].out_up[a] && rig->nodes[b].in_up[a]; }

static void expect_frames(struct linkrig *rig, uint64_t a, uint64_t b, uint64_t number)
{
    LINKRIG_UNTIL(rig, connected(rig, a, b));
    assert_true(linkrig_send(rig, a, b, number, 100) && linkrig_send(rig, b, a, number, 100));
    LINKRIG_UNTIL(rig, rig->nodes[b].from[a] == number && rig->nodes[a].from[b] == number);
}

static void nodes_with_the_same_secret_speak_to_each_other(void **state)
{
    struct linkrig *rig = start(state, 3, secrets(a_text, NULL));
    linkrig_meet_all(rig);
    expect_frames(rig, 1, 2, 1);
    expect_frames(rig, 1, 3, 1);
    expect_frames(rig, 2, 3, 1);
    for (uint64_t id = 1; id <= 3; id++) assert_true(linkrig_totals(rig, id).unproven == 0 && linkrig_totals(rig, id).callers == 0);
    linkrig_stop(rig, 2); /* and again after a restart */
    linkrig_start(rig, 2);
    linkrig_meet(rig, 2, 1);
    linkrig_meet(rig, 2, 3);
    expect_frames(rig, 1, 2, 2);
    linkrig_free(rig);
}

/* A log of its own, in memory. */
static void listen_to_log(struct linkrig_node *n)
{
    slog_close(&n->log);
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0);
    n->log.fd = fd;
    n->log.owns_fd = true;
}

/* Lines that say this, for this reason. */
static unsigned count_in_log(const struct linkrig_node *n, const char *what, const char *why)
{
    char bytes[65536], *rest = NULL;
    ssize_t got = pread(n->log.fd, bytes, sizeof bytes - 1, 0);
    assert_true(got >= 0);
    bytes[got] = '\0';
    unsigned found = 0;
    for (char *line = strtok_r(bytes, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) found += strstr(line, what) && strstr(line, why);
    return found;
}

/* Nodes 1 and 2 call each other for some seconds in vain, and both logs say why: says is what each says of the other as its caller, hears what it says when it called. */
static void expect_strangers(void **state, struct linksecret one, struct linksecret two, const char *const says[2], const char *const hears[2])
{
    struct linkrig *rig = linkrig_new(looptest_backend(state), 2);
    listen_to_log(&rig->nodes[1]);
    listen_to_log(&rig->nodes[2]);
    give(rig, 1, one);
    give(rig, 2, two);
    linkrig_meet_all(rig);
    linkrig_run(rig, 8000);
    for (uint64_t id = 1; id <= 2; id++) {
        struct linkrig_node *n = &rig->nodes[id];
        assert_int_equal(n->ups, 0);
        assert_true(linkrig_totals(rig, id).unproven >= 6 && linkrig_totals(rig, id).refused >= 3);
        assert_int_equal(linkrig_stats(rig, id, 3 - id).error, -ECONNREFUSED);
        unsigned told = count_in_log(n, "was turned away", says[id - 1]);
        assert_true(told > 0 && told <= 9); /* one a second, at most */
        assert_int_equal(count_in_log(n, "cannot reach a node", hears[id - 1]), 1);
    }
    linkrig_free(rig);
}

static const char has_none[] = "this node has a cluster-secret, and it has none", has_one[] = "it has a cluster-secret, and this node has none", other[] = "it has another cluster-secret",
                  ours[] = "it does not accept this node's cluster-secret";

static void nodes_with_different_secrets_do_not(void **state)
{
    expect_strangers(state, secrets(a_text, NULL), secrets(b_text, NULL), (const char *const[]){other, other}, (const char *const[]){ours, ours});
}

static void a_node_with_a_secret_and_one_without_do_not_either(void **state)
{
    expect_strangers(state, secrets(a_text, NULL), secrets(NULL, NULL), (const char *const[]){has_none, has_one}, (const char *const[]){has_none, has_one});
}

/* Node 1 is accepted by node 2, whose own proof it does not accept: nothing is sent either way. */
static void both_must_accept_what_the_other_proves(void **state)
{
    struct linkrig *rig = linkrig_new(looptest_backend(state), 2);
    give(rig, 1, secrets(a_text, NULL));
    give(rig, 2, secrets(b_text, a_text));
    linkrig_meet_all(rig);
    for (uint64_t until = rig->now + 8000; rig->now < until; linkrig_turn(rig)) assert_false(rig->nodes[1].out_up[2] || rig->nodes[2].out_up[1] || rig->nodes[1].in_up[2]);
    assert_true(linkrig_stats(rig, 1, 2).connects == 0 && linkrig_stats(rig, 2, 1).connects == 0);
    assert_true(linkrig_totals(rig, 1).unproven >= 6 && linkrig_totals(rig, 2).unproven >= 3);
    links_secret(rig->nodes[1].links, &rig->nodes[2].options.secret);
    expect_frames(rig, 1, 2, 1);
    linkrig_free(rig);
}

/* ---- a caller that is the test itself */

/* Node 1 with a secret, which knows of node 2 and does not reach it. */
static struct linkrig *start_one(void **state)
{
    struct linkrig *rig = start(state, 1, secrets(a_text, NULL));
    links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
    return rig;
}

/* The next n bytes from node 1, or as many as there are before it closes. */
static size_t hear(struct linkrig *rig, int fd, char *out, size_t n)
{
    size_t at = 0;
    for (unsigned i = 0; i < LINKRIG_ROUNDS && at < n; i++) {
        ssize_t got = recv(fd, out + at, n - at, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) break;
        if (got > 0) at += (size_t)got;
        else linkrig_turn(rig);
    }
    return at;
}

static void hear_challenge(struct linkrig *rig, int fd, char out[WIRE_HEAD + WIRE_PROOF_BYTES])
{
    uint8_t nonce[WIRE_PROOF_BYTES];
    size_t used;
    const char *why;
    assert_int_equal(hear(rig, fd, out, WIRE_HEAD + WIRE_PROOF_BYTES), WIRE_HEAD + WIRE_PROOF_BYTES);
    assert_int_equal(wire_proof(slice_of(out, WIRE_HEAD + WIRE_PROOF_BYTES), WIRE_CHALLENGE, nonce, &used, &why), WIRE_OK);
}

static struct wire_hello hear_hello(struct linkrig *rig, int fd)
{
    char bytes[WIRE_HELLO_MAX];
    struct wire_hello h;
    size_t used;
    const char *why;
    assert_int_equal(hear(rig, fd, bytes, 12), 12);
    uint32_t n = le_u32(bytes + 8);
    assert_true(n <= sizeof bytes);
    assert_int_equal(hear(rig, fd, bytes + 12, n - 12), n - 12);
    assert_int_equal(wire_hello(slice_of(bytes, n), &h, &used, &why), WIRE_OK);
    return h;
}

static void expect_turned_away(struct linkrig *rig, int fd)
{
    struct wire_hello h = hear_hello(rig, fd);
    assert_int_equal(h.to, 0);
    assert_true(h.guarded && !h.proven); /* who has proven nothing hears no proof */
    LINKRIG_UNTIL(rig, linkrig_closed(fd));
    close(fd);
}

/* Calls as the node or the worker that the hello says, and gives what it sent: HELLO in sent[0], PROOF in sent[1]. */
static int call_with(struct linkrig *rig, const struct wire_hello *h, const struct linksecret *s, struct linkcaller *c, struct buf sent[2])
{
    char challenge[WIRE_HEAD + WIRE_PROOF_BYTES];
    struct wire_hello theirs;
    size_t used;
    const char *why;
    int fd = linkrig_dial(rig->nodes[1].port);
    linkcaller_begin(c, h, s, &sent[0]);
    linkrig_write(fd, buf_slice(&sent[0]));
    hear_challenge(rig, fd, challenge);
    assert_int_equal(linkcaller_take(c, slice_of(challenge, sizeof challenge), &theirs, &used, &sent[1], &why), WIRE_NEED_MORE);
    assert_int_equal(used, sizeof challenge);
    assert_int_equal(sent[1].len, WIRE_HEAD + WIRE_PROOF_BYTES);
    linkrig_write(fd, buf_slice(&sent[1]));
    return fd;
}

static void fini(struct buf sent[2])
{
    buf_fini(&sent[0]);
    buf_fini(&sent[1]);
}

static void what_one_greeting_proved_does_not_prove_another(void **state)
{
    struct linkrig *rig = start_one(state);
    struct linksecret s = secrets(a_text, NULL);
    struct wire_hello mine = linkrig_hello(2, 1), theirs;
    struct linkgreet_known known = {0};
    struct linkcaller c;
    struct buf sent[2] = {{0}};
    char challenge[WIRE_HEAD + WIRE_PROOF_BYTES];
    int fd = call_with(rig, &mine, &s, &c, sent);
    theirs = hear_hello(rig, fd);
    assert_int_equal(linkcaller_judge(&c, &theirs, 1, &known), LINKGREET_WELCOME);
    assert_true(rig->nodes[1].in_up[2]);
    close(fd);
    LINKRIG_UNTIL(rig, !rig->nodes[1].in_up[2]);
    for (int all_at_once = 0; all_at_once < 2; all_at_once++) { /* byte for byte */
        int again = linkrig_dial(rig->nodes[1].port);
        linkrig_write(again, buf_slice(&sent[0]));
        if (all_at_once) linkrig_write(again, buf_slice(&sent[1]));
        hear_challenge(rig, again, challenge);
        if (!all_at_once) linkrig_write(again, buf_slice(&sent[1]));
        expect_turned_away(rig, again);
    }
    assert_int_equal(linkrig_totals(rig, 1).unproven, 2);
    assert_int_equal(rig->nodes[1].ups, 1);
    fini(sent);
    linkrig_free(rig);
}

/* Somebody without the secret plays node 2: node 1's own words are sent back to it. */
static void what_a_node_says_itself_proves_nothing_to_it(void **state)
{
    struct linkrig *rig = start_one(state);
    char address[32], proof[WIRE_HEAD + WIRE_PROOF_BYTES], challenge[WIRE_HEAD + WIRE_PROOF_BYTES];
    uint16_t port;
    int listener = linkrig_listener(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    for (int as_it_is = 0; as_it_is < 2; as_it_is++) {
        struct buf b = {0};
        int from = -1;
        links_peer_put(rig->nodes[1].links, 2, address);
        LINKRIG_UNTIL(rig, (from = accept(listener, NULL, NULL)) >= 0);
        struct wire_hello hello = hear_hello(rig, from);
        assert_true(hello.guarded && !hello.proven);
        if (!as_it_is) { /* or with the names changed */
            hello.node = 2;
            hello.to = 1;
            strcpy(hello.address, address);
        }
        int to = linkrig_dial(rig->nodes[1].port);
        linkrig_write_hello(to, hello);
        hear_challenge(rig, to, challenge);
        linkrig_write(from, slice_of(challenge, sizeof challenge));
        assert_int_equal(hear(rig, from, proof, sizeof proof), sizeof proof);
        linkrig_write(to, slice_of(proof, sizeof proof));
        struct wire_hello answer = hear_hello(rig, to);
        assert_int_equal(answer.to, 0);
        assert_int_equal(answer.proven, as_it_is); /* that is a proof of node 1's, as far as it goes: but nobody is itself */
        LINKRIG_UNTIL(rig, linkrig_closed(to));
        wire_add_hello(&b, &answer); /* and its answer is none to its own call */
        linkrig_write(from, buf_slice(&b));
        LINKRIG_UNTIL(rig, linkrig_closed(from));
        links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
        close(from);
        close(to);
        buf_fini(&b);
    }
    assert_int_equal(rig->nodes[1].ups, 0);
    close(listener);
    linkrig_free(rig);
}

/* An answer of the right node, recorded and played again to its next call. */
static void an_old_answer_is_none_to_a_new_call(void **state)
{
    struct linksecret s = secrets(a_text, NULL);
    struct linkrig *rig = start_one(state);
    char address[32], proof[WIRE_HEAD + WIRE_PROOF_BYTES];
    uint16_t port;
    int listener = linkrig_listener(&port), fd = -1;
    struct buf challenge = {0}, answer = {0};
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    links_peer_put(rig->nodes[1].links, 2, address);
    LINKRIG_UNTIL(rig, (fd = accept(listener, NULL, NULL)) >= 0);
    struct wire_hello caller = hear_hello(rig, fd), mine = guarded_hello(2, 1);
    strcpy(mine.address, address);
    wire_add_proof(&challenge, WIRE_CHALLENGE, mine.nonce);
    linkrig_write(fd, buf_slice(&challenge));
    assert_int_equal(hear(rig, fd, proof, sizeof proof), sizeof proof);
    linksecret_prove_called(&s, &caller, &mine);
    wire_add_hello(&answer, &mine);
    linkrig_write(fd, buf_slice(&answer));
    LINKRIG_UNTIL(rig, rig->nodes[1].out_up[2]);
    close(fd);
    LINKRIG_UNTIL(rig, !rig->nodes[1].out_up[2]);
    for (int challenges = 0; challenges < 2; challenges++) {
        LINKRIG_UNTIL(rig, (fd = accept(listener, NULL, NULL)) >= 0);
        if (challenges) linkrig_write(fd, buf_slice(&challenge));
        linkrig_write(fd, buf_slice(&answer));
        LINKRIG_UNTIL(rig, linkrig_closed(fd));
        close(fd);
    }
    assert_int_equal(linkrig_totals(rig, 1).unproven, 2);
    assert_int_equal(rig->nodes[1].ups, 1);
    close(listener);
    buf_fini(&challenge);
    buf_fini(&answer);
    linkrig_free(rig);
}

static void a_node_of_an_older_version_is_refused_by_one_with_a_secret_alone(void **state)
{
    struct wire_hello old = linkrig_hello(2, 1);
    for (old.version = WIRE_VERSION_OLDEST; old.version < WIRE_VERSION_SECRET; old.version++) {
        struct linkrig *rig = start_one(state);
        int fd = linkrig_dial(rig->nodes[1].port);
        linkrig_write_hello(fd, old);
        struct wire_hello answer = hear_hello(rig, fd);
        assert_true(answer.to == 0 && answer.oldest > old.version); /* which it understands to mean that they have no language */
        LINKRIG_UNTIL(rig, linkrig_closed(fd));
        close(fd);
        assert_int_equal(linkrig_totals(rig, 1).unproven, 1);
        assert_int_equal(rig->nodes[1].ups, 0);
        give(rig, 1, secrets(NULL, NULL));
        links_peer_put(rig->nodes[1].links, 2, "127.0.0.1:9");
        fd = linkrig_dial(rig->nodes[1].port);
        linkrig_write_hello(fd, old);
        LINKRIG_UNTIL(rig, rig->nodes[1].in_up[2]);
        close(fd);
        linkrig_free(rig);
    }
}

/* ---- what strangers can hold */

static void a_caller_that_does_not_prove_is_not_waited_for_for_ever(void **state)
{
    struct linkrig *rig = start_one(state);
    char challenge[WIRE_HEAD + WIRE_PROOF_BYTES];
    int fd = linkrig_dial(rig->nodes[1].port);
    uint64_t since = rig->now;
    linkrig_write_hello(fd, guarded_hello(2, 1));
    hear_challenge(rig, fd, challenge);
    for (size_t i = 0; i < sizeof challenge - 1 && !linkrig_closed(fd); i++) { /* drop by drop, and as if it were long */
        (void)!send(fd, i == 0 ? "\x30" : "\0", 1, MSG_NOSIGNAL);
        linkrig_run(rig, 250);
    }
    assert_true(rig->now - since >= 2900 && rig->now - since <= 4500);
    assert_true(linkrig_totals(rig, 1).refused == 1 && linkrig_totals(rig, 1).callers == 0);
    close(fd);
    linkrig_free(rig);
}

static void whatever_comes_before_a_proof_ends_the_connection_at_once(void **state)
{
    struct linkrig *rig = start_one(state);
    struct buf early[4] = {{0}};
    char challenge[WIRE_HEAD + WIRE_PROOF_BYTES];
    le_add_u32(&early[0], WIRE_FRAME_MAX); /* a length that would have to be gathered */
    linkrig_add_frame(&early[1], 1, 20);
    linkrig_add_frame(&early[2], 1, WIRE_PROOF_BYTES - 8); /* of the right length, but not of the right type */
    wire_add_proof(&early[3], WIRE_CHALLENGE, (const uint8_t *)"reflected challenges are no help");
    for (unsigned i = 0; i < 4; i++) {
        int fd = linkrig_dial(rig->nodes[1].port);
        uint64_t since = rig->now;
        linkrig_write_hello(fd, guarded_hello(2, 1));
        hear_challenge(rig, fd, challenge);
        linkrig_write(fd, buf_slice(&early[i]));
        LINKRIG_UNTIL(rig, linkrig_closed(fd));
        assert_true(rig->now - since < 1500); /* less than the time to greet */
        close(fd);
        buf_fini(&early[i]);
    }
    assert_int_equal(linkrig_totals(rig, 1).refused, 4);
    assert_int_equal(rig->nodes[1].ups + rig->nodes[1].frames, 0);
    linkrig_free(rig);
}

static void a_proof_has_no_place_behind_the_greeting(void **state)
{
    struct linkrig *rig = start_one(state);
    struct linksecret s = secrets(a_text, NULL);
    struct wire_hello mine = linkrig_hello(2, 1);
    struct linkcaller c;
    struct buf sent[2] = {{0}};
    int fd = call_with(rig, &mine, &s, &c, sent);
    LINKRIG_UNTIL(rig, rig->nodes[1].in_up[2]);
    linkrig_write(fd, buf_slice(&sent[1]));
    LINKRIG_UNTIL(rig, !rig->nodes[1].in_up[2]);
    assert_int_equal(rig->nodes[1].frames, 0);
    close(fd);
    fini(sent);
    linkrig_free(rig);
}

/* ---- lanes */

static void a_lane_proves_the_secret_for_itself(void **state)
{
    struct linksecret s = secrets(a_text, NULL), wrong = secrets(b_text, NULL);
    struct linkrig *rig = linkrig_new(looptest_backend(state), 2);
    struct links_lanes how;
    struct linkcaller c;
    struct buf sent[2] = {{0}};
    for (uint64_t id = 1; id <= 2; id++) {
        rig->nodes[id].options.lanes = 3;
        give(rig, id, s);
    }
    linkrig_meet_all(rig);
    LINKRIG_UNTIL(rig, connected(rig, 1, 2));
    assert_true(links_lanes(rig->nodes[2].links, 1, &how));
    assert_true(linksecret_same(&how.secret, &s));
    how.greeting.lane = 2;
    int fd = call_with(rig, &how.greeting, &wrong, &c, sent);
    expect_turned_away(rig, fd);
    fini(sent);
    assert_int_equal(rig->nodes[1].lanes, 0);
    sent[0] = sent[1] = (struct buf){0};
    fd = call_with(rig, &how.greeting, &how.secret, &c, sent);
    LINKRIG_UNTIL(rig, rig->nodes[1].lanes == 1);
    assert_int_equal(rig->nodes[1].lane, 1);
    assert_int_equal(linkcaller_judge(&c, &rig->nodes[1].lane_greeting, 1, &how.known), LINKGREET_WELCOME);
    close(fd);
    close(rig->nodes[1].lane_fd);
    assert_true(connected(rig, 1, 2));
    fini(sent);
    linkrig_free(rig);
}

/* ---- changing it */

static void a_secret_is_changed_node_by_node(void **state)
{
    struct linkrig *rig = start(state, 3, secrets(a_text, NULL));
    const struct linksecret steps[] = {secrets(a_text, b_text), secrets(b_text, a_text), secrets(b_text, NULL)};
    uint64_t number = 0;
    linkrig_meet_all(rig);
    for (unsigned step = 0; step < 3; step++) {
        for (uint64_t id = 1; id <= 3; id++) {
            for (uint64_t other_id = 1; other_id <= 3; other_id++)
                if (other_id != id) expect_frames(rig, id, other_id, ++number);
            unsigned downs = rig->nodes[id].downs;
            links_secret(rig->nodes[id].links, &steps[step]);
            assert_int_equal(rig->nodes[id].downs, downs + 4); /* to two nodes, both ways: all is proven anew */
            links_secret(rig->nodes[id].links, &steps[step]);  /* the same again is no change */
            assert_int_equal(rig->nodes[id].downs, downs + 4);
        }
    }
    expect_frames(rig, 1, 2, ++number);
    expect_frames(rig, 1, 3, ++number);
    expect_frames(rig, 2, 3, ++number);
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(linkrig_totals(rig, id).unproven, 0);
    linkrig_free(rig);
}

static void a_secret_that_one_node_gets_alone_keeps_it_apart_until_others_have_it(void **state)
{
    struct linkrig *rig = start(state, 3, secrets(NULL, NULL));
    const struct linksecret s = secrets(a_text, NULL);
    linkrig_meet_all(rig);
    expect_frames(rig, 1, 2, 1);
    expect_frames(rig, 1, 3, 1);
    links_secret(rig->nodes[1].links, &s);
    linkrig_run(rig, 3000);
    for (uint64_t id = 2; id <= 3; id++) assert_false(rig->nodes[1].out_up[id] || rig->nodes[1].in_up[id] || rig->nodes[id].out_up[1] || rig->nodes[id].in_up[1]);
    expect_frames(rig, 2, 3, 2);
    links_secret(rig->nodes[2].links, &s);
    expect_frames(rig, 1, 2, 3);
    links_secret(rig->nodes[3].links, &s);
    expect_frames(rig, 1, 3, 4);
    expect_frames(rig, 2, 3, 4);
    linkrig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_of_one_greeting_and_no_other),
        cmocka_unit_test(a_proof_with_any_bit_flipped_is_none),
        cmocka_unit_test(the_caller_and_the_called_prove_different_things),
        cmocka_unit_test(the_first_secret_is_proven_and_every_one_accepted),
        cmocka_unit_test(words_are_proven_one_by_one),
        LOOPTEST_ON_BOTH(nodes_with_the_same_secret_speak_to_each_other),
        LOOPTEST_ON_BOTH(nodes_with_different_secrets_do_not),
        LOOPTEST_ON_BOTH(a_node_with_a_secret_and_one_without_do_not_either),
        LOOPTEST_ON_BOTH(both_must_accept_what_the_other_proves),
        LOOPTEST_ON_BOTH(what_one_greeting_proved_does_not_prove_another),
        LOOPTEST_ON_BOTH(what_a_node_says_itself_proves_nothing_to_it),
        LOOPTEST_ON_BOTH(an_old_answer_is_none_to_a_new_call),
        LOOPTEST_ON_BOTH(a_node_of_an_older_version_is_refused_by_one_with_a_secret_alone),
        LOOPTEST_ON_BOTH(a_caller_that_does_not_prove_is_not_waited_for_for_ever),
        LOOPTEST_ON_BOTH(whatever_comes_before_a_proof_ends_the_connection_at_once),
        LOOPTEST_ON_BOTH(a_proof_has_no_place_behind_the_greeting),
        LOOPTEST_ON_BOTH(a_lane_proves_the_secret_for_itself),
        LOOPTEST_ON_BOTH(a_secret_is_changed_node_by_node),
        LOOPTEST_ON_BOTH(a_secret_that_one_node_gets_alone_keeps_it_apart_until_others_have_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
