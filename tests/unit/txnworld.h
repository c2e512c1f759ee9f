/* Two groups on real seats (seatrig.h) with some keys of each, and the parts of a transaction over both as commands of their own. */
#pragma once
#include "seatrig.h"

#include "log/opcode.h"

enum { A = SEATRIG_FIRST, B, GROUPS_END };

static struct seatrig r;
static char keys[GROUPS_END][4][16]; /* of each group some */

static inline void settle(void) { seatrig_settle(&r); }
static inline void pass(uint64_t ms) { seatrig_pass(&r, ms); }
static inline void lead_anew(uint32_t group) { seatrig_lead_anew(&r, group); }
static inline struct store *store_of(uint32_t group) { return seatrig_store(&r, group); }
static inline struct intents *intents_of(uint32_t group) { return seatrig_intents(&r, group); }

/* ---- life */

static inline void find_keys(void)
{
    const struct space_map *m = route_map(&r.rig->engine->route);
    uint32_t n[GROUPS_END] = {0};
    for (int i = 0; n[A] < 4 || n[B] < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        uint32_t g = spaces_shard(m, slice_str(key), keyhash(slice_str(key), r.rig->engine->route.seed));
        if (n[g] < 4) snprintf(keys[g][n[g]++], sizeof keys[g][0], "%s", key);
    }
}

static inline int set_up(void **state)
{
    seatrig_new_by(&r, seatrig_halves);
    find_keys();
    return 0;
}

static inline int tear_down(void **state)
{
    seatrig_free(&r);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* ---- asking */

/* Words at blanks; %B in their place is the next of bytes. */
static inline uint32_t split(char *text, const struct slice *bytes, struct slice argv[RIG_WORDS_MAX])
{
    uint32_t argc = 0, used = 0;
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        assert_true(argc < RIG_WORDS_MAX);
        argv[argc++] = strcmp(word, "%B") == 0 ? bytes[used++] : slice_str(word);
    }
    return argc;
}

static inline struct hold ask(uint32_t group, const struct slice *bytes, const char *text)
{
    char copy[512];
    struct slice argv[RIG_WORDS_MAX];
    snprintf(copy, sizeof copy, "%s", text);
    return seatrig_run(&r, group, 0, argv, split(copy, bytes, argv));
}

static inline void has_answer(const struct hold *h, const char *reply)
{
    assert_false(h->bounced);
    settle();
    assert_int_equal(seat_outcome(h), SEAT_DONE);
    seatrig_replied(&r, reply);
}

#define SAY(group, reply, ...) \
    do { \
        char say_text[512]; \
        snprintf(say_text, sizeof say_text, __VA_ARGS__); \
        struct hold say_hold = ask(group, NULL, say_text); \
        has_answer(&say_hold, reply); \
    } while (0)

#define BOUNCES(group, ...) \
    do { \
        char say_text[512]; \
        snprintf(say_text, sizeof say_text, __VA_ARGS__); \
        assert_true(ask(group, NULL, say_text).bounced); \
    } while (0)

#define GONE "-TXNGONE its reservations are gone\r\n"
#define BUSY "-TXNBUSY a key is taken by another transaction\r\n"

/* ---- the parts of a transaction */

static inline const char *next_line(const char *p) { return strstr(p, "\r\n") + 2; }

/* Reserves one key; the token comes into out, and the entry's bytes (borrowed until the next command; none: n is 0). */
static inline struct slice fetch(uint32_t group, const char *id, char use, const char *key, char token[TXNCMD_TOKEN_BYTES + 1])
{
    char text[128];
    snprintf(text, sizeof text, "txn.fetch %s 1 0 %c %s", id, use, key);
    struct hold h = ask(group, NULL, text);
    assert_false(h.bounced);
    settle();
    assert_int_equal(seat_outcome(&h), SEAT_DONE);
    buf_add_byte(&r.out, '\0');
    assert_memory_equal(r.out.p, "*2\r\n$16\r\n", 9);
    memcpy(token, r.out.p + 9, TXNCMD_TOKEN_BYTES);
    token[TXNCMD_TOKEN_BYTES] = 0;
    const char *entry = next_line(r.out.p + 9);
    long n = strtol(entry + 1, NULL, 10);
    return n < 0 ? SLICE("") : slice_of(next_line(entry), (size_t)n);
}

static inline void set_op(struct buf *ops, const char *key, const char *value)
{
    struct buf op = {0};
    opcode_write(&op, &(struct op){.kind = OP_SET, .key = slice_str(key), .value = slice_str(value)});
    txncmd_add_op(ops, buf_slice(&op));
    buf_fini(&op);
}

static inline void prepare(uint32_t group, const char *id, const char *token, struct slice ops, const char *reply)
{
    char text[128];
    snprintf(text, sizeof text, "txn.prepare %s %s %d %%B", id, token, B);
    struct hold h = ask(group, &ops, text);
    has_answer(&h, reply);
}

static inline void decide(uint32_t group, const char *id, const char *token, struct slice ops, const char *reply)
{
    char text[128];
    snprintf(text, sizeof text, "txn.decide %s %s 1 %d %%B", id, token, A);
    struct hold h = ask(group, &ops, text);
    has_answer(&h, reply);
}

/* Both keys are fetched for writing, and A's part is prepared; ops[A] and ops[B] are what is written. */
struct half {
    char token[GROUPS_END][TXNCMD_TOKEN_BYTES + 1];
    struct buf ops[GROUPS_END];
    const char *id, *key[GROUPS_END];
};

static inline void half_fetch(struct half *h, const char *id)
{
    *h = (struct half){.id = id};
    for (uint32_t g = A; g <= B; g++) {
        h->key[g] = keys[g][0];
        fetch(g, id, 'w', h->key[g], h->token[g]);
        set_op(&h->ops[g], h->key[g], "new");
    }
}

static inline void half_prepare(struct half *h, const char *id)
{
    half_fetch(h, id);
    prepare(A, id, h->token[A], buf_slice(&h->ops[A]), "+OK\r\n");
}

static inline void half_fini(struct half *h)
{
    for (uint32_t g = A; g <= B; g++) buf_fini(&h->ops[g]);
}
