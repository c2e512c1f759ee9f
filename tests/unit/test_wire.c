/* Frames and messages between nodes: every one there and back, and nothing that is not one is taken for one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/crc32c.h"
#include "base/le.h"
#include "wireagain.h"
#include "wirerandom.h"

/* Exactly as long as the bytes, so that a sanitizer sees the first byte read past them. */
static char *tight(struct slice bytes)
{
    char *copy = malloc(bytes.n ? bytes.n : 1);
    if (bytes.n) memcpy(copy, bytes.p, bytes.n);
    return copy;
}

/* ---- all types */

static void every_message_encodes_to_the_same_bytes_after_it_was_decoded(void **state)
{
    struct rng r;
    rng_init(&r, 1);
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 300; i++) {
        struct buf b = {0}, again = {0};
        struct wire_frame f;
        const char *why = NULL;
        wirerandom_frame(&r, &b, wirerandom_types[i % WIRERANDOM_TYPES]);
        char *copy = tight(buf_slice(&b));
        assert_int_equal(wire_frame(slice_of(copy, b.len), &f, &why), WIRE_OK);
        assert_int_equal(f.type, wirerandom_types[i % WIRERANDOM_TYPES]);
        assert_int_equal(f.whole.n, b.len);
        assert_true(wireagain(&f, &again));
        assert_true(slice_eq(buf_slice(&again), buf_slice(&b)));
        free(copy);
        buf_fini(&again);
        buf_fini(&b);
    }
}

static void a_frame_that_is_cut_anywhere_needs_more(void **state)
{
    struct rng r;
    rng_init(&r, 2);
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 4; i++) {
        struct buf b = {0};
        wirerandom_frame(&r, &b, wirerandom_types[i % WIRERANDOM_TYPES]);
        for (size_t n = 0; n < b.len; n++) {
            struct wire_frame f;
            const char *why = NULL;
            char *copy = tight(slice_of(b.p, n));
            assert_int_equal(wire_frame(slice_of(copy, n), &f, &why), WIRE_NEED_MORE);
            free(copy);
        }
        buf_fini(&b);
    }
}

/* With a checksum that fits: the decoder alone has to see it. */
static void a_body_that_is_cut_anywhere_is_refused(void **state)
{
    struct rng r;
    rng_init(&r, 3);
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 10; i++) {
        enum wire_type type = wirerandom_types[i % WIRERANDOM_TYPES];
        struct buf b = {0}, again = {0};
        wirerandom_frame(&r, &b, type);
        for (size_t n = 0; n + WIRE_HEAD < b.len; n++) {
            char *copy = tight(slice_of(b.p + WIRE_HEAD, n));
            struct wire_frame f = {.type = type, .body = slice_of(copy, n)};
            again.len = 0;
            /* Some end with a run of bytes or a list: a shorter one is a message too, but then exactly itself. */
            if (wireagain(&f, &again)) assert_true(slice_eq(slice_of(again.p + WIRE_HEAD, again.len - WIRE_HEAD), f.body));
            bool open_end = type == WIRE_PROBE || type == WIRE_PROBE_ACK || type == WIRE_ANSWER || type == WIRE_SNAP_CHUNK || type == WIRE_STATUS || type == WIRE_PUBLISH;
            assert_true(open_end || again.len == 0);
            free(copy);
        }
        buf_fini(&again);
        buf_fini(&b);
    }
}

static void a_body_with_a_byte_too_many_is_refused(void **state)
{
    struct rng r;
    rng_init(&r, 4);
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 20; i++) {
        enum wire_type type = wirerandom_types[i % WIRERANDOM_TYPES];
        if (type == WIRE_ANSWER || type == WIRE_SNAP_CHUNK || type == WIRE_PUBLISH) continue; /* bytes to the end */
        struct buf b = {0}, again = {0};
        wirerandom_frame(&r, &b, type);
        buf_add_byte(&b, (char)rng_u64(&r));
        struct wire_frame f = {.type = type, .body = slice_of(b.p + WIRE_HEAD, b.len - WIRE_HEAD)};
        assert_false(wireagain(&f, &again));
        buf_fini(&again);
        buf_fini(&b);
    }
}

static void a_flipped_bit_is_never_taken_for_a_frame(void **state)
{
    struct rng r;
    rng_init(&r, 5);
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 3; i++) {
        struct buf b = {0};
        wirerandom_frame(&r, &b, wirerandom_types[i % WIRERANDOM_TYPES]);
        for (size_t bit = 0; bit < b.len * 8; bit++) {
            struct wire_frame f;
            const char *why = NULL;
            b.p[bit / 8] ^= (char)(1 << bit % 8);
            enum wire_result result = wire_frame(buf_slice(&b), &f, &why);
            assert_true(result == WIRE_BAD || (result == WIRE_NEED_MORE && bit < 32)); /* a length that became larger */
            assert_true(result != WIRE_BAD || why);
            b.p[bit / 8] ^= (char)(1 << bit % 8);
        }
        buf_fini(&b);
    }
}

static void random_changes_in_bodies_never_make_a_decoder_stumble(void **state)
{
    struct rng r;
    rng_init(&r, 6);
    unsigned refused = 0;
    for (unsigned i = 0; i < WIRERANDOM_TYPES * 500; i++) {
        enum wire_type type = wirerandom_types[i % WIRERANDOM_TYPES];
        struct buf b = {0}, again = {0};
        wirerandom_frame(&r, &b, type);
        size_t n = b.len - WIRE_HEAD;
        char *body = tight(slice_of(b.p + WIRE_HEAD, n));
        for (uint64_t k = 1 + rng_below(&r, 3); k && n; k--) body[rng_below(&r, n)] = (char)(rng_below(&r, 2) ? rng_u64(&r) : 0xff);
        struct wire_frame f = {.type = type, .body = slice_of(body, n)};
        if (!wireagain(&f, &again)) refused++;
        else assert_true(slice_eq(slice_of(again.p + WIRE_HEAD, again.len - WIRE_HEAD), f.body));
        free(body);
        buf_fini(&again);
        buf_fini(&b);
    }
    assert_true(refused > 500);
}

/* ---- frames */

static void frames_behind_each_other_are_found_and_counted(void **state)
{
    struct rng r;
    struct buf b = {0};
    rng_init(&r, 7);
    for (unsigned i = 0; i < 100; i++) wirerandom_frame(&r, &b, wirerandom_types[rng_below(&r, WIRERANDOM_TYPES)]);
    assert_int_equal(wire_count(buf_slice(&b)), 100);
    struct slice rest = buf_slice(&b);
    struct wire_frame f;
    const char *why = NULL;
    unsigned count = 0;
    for (; rest.n; count++) {
        assert_int_equal(wire_frame(rest, &f, &why), WIRE_OK);
        assert_int_equal(wire_frame_length(rest), f.whole.n);
        rest = slice_of(rest.p + f.whole.n, rest.n - f.whole.n);
    }
    assert_int_equal(count, 100);
    buf_fini(&b);
}

static void lengths_out_of_their_limits_are_refused_before_anything_else_arrives(void **state)
{
    static const uint32_t lengths[] = {0, 1, WIRE_HEAD - 1, WIRE_FRAME_MAX + 1, 0x20544547 /* "GET " */, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char bytes[4];
        struct wire_frame f;
        const char *why = NULL;
        le_set_u32(bytes, lengths[i]);
        assert_int_equal(wire_frame(slice_of(bytes, 4), &f, &why), WIRE_BAD);
        assert_int_equal(wire_frame_length(slice_of(bytes, 4)), 0);
    }
}

/* ---- Raft */

static void entries_share_one_block_that_the_engine_can_free(void **state)
{
    struct raft_entry entries[3] = {{.term = 3, .type = RAFT_BARRIER}, {.term = 4, .type = RAFT_COMMAND, .buf = {(char *)"hello", 5}}, {.term = 4, .type = RAFT_COMMAND, .buf = {(char *)"!", 1}}};
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .append_entries = {.version = 0, .term = 5, .prev_log_index = 9, .prev_log_term = 3, .leader_commit = 8, .entries = entries, .n_entries = 3}}, back;
    struct buf b = {0};
    struct wire_frame f;
    const char *why = NULL;
    assert_int_equal(wireraft_add(&b, 77, &m), 0);
    assert_int_equal(b.len, wireraft_append_bytes(entries, 3));
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(f.group, 77);
    assert_int_equal(wireraft_get(&f, 12, &back), 0);
    const struct raft_append_entries *a = &back.append_entries;
    assert_int_equal(back.server_id, 12);
    assert_int_equal(a->term, 5);
    assert_int_equal(a->prev_log_index, 9);
    assert_int_equal(a->leader_commit, 8);
    assert_int_equal(a->n_entries, 3);
    void *block = a->entries[0].batch;
    assert_non_null(block);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(a->entries[i].batch, block);
        assert_int_equal(a->entries[i].term, entries[i].term);
        assert_int_equal(a->entries[i].type, entries[i].type);
        assert_true(slice_eq(slice_of(a->entries[i].buf.base, a->entries[i].buf.len), slice_of(entries[i].buf.base, entries[i].buf.len)));
    }
    wireraft_release(&back); /* as after raft_step: the block lives on with its entries */
    raft_free(block);
    buf_fini(&b);
}

static void an_append_that_does_not_fit_in_a_frame_is_not_written(void **state)
{
    struct raft_entry entry = {.term = 1, .type = RAFT_COMMAND};
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .append_entries = {.term = 1, .entries = &entry, .n_entries = 1}};
    struct buf b = {0};
    size_t most = WIRE_FRAME_MAX - wireraft_append_bytes(&entry, 1);
    entry.buf = (struct raft_buffer){calloc(1, most + 1), most + 1};
    assert_int_equal(wireraft_add(&b, 1, &m), -EMSGSIZE);
    assert_int_equal(b.len, 0);
    entry.buf.len = most;
    assert_int_equal(wireraft_add(&b, 1, &m), 0);
    assert_int_equal(b.len, WIRE_FRAME_MAX);
    free(entry.buf.base);
    buf_fini(&b);
}

/* Gives the result of reading an APPEND after one change to the message that was written. */
static int read_append(struct raft_entry *entries, unsigned n, uint64_t term, uint64_t prev_term, uint64_t prev_index)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .append_entries = {.term = term, .prev_log_index = prev_index, .prev_log_term = prev_term, .entries = entries, .n_entries = n}}, back;
    struct buf b = {0};
    assert_int_equal(wireraft_add(&b, 1, &m), 0);
    struct wire_frame f = {.type = WIRE_APPEND, .body = slice_of(b.p + WIRE_HEAD, b.len - WIRE_HEAD)};
    int rc = wireraft_get(&f, 2, &back);
    if (rc == 0) wireraft_discard(&back);
    buf_fini(&b);
    return rc;
}

static void appends_that_no_leader_would_send_are_refused(void **state)
{
    struct raft_entry e[2] = {{.term = 4, .type = RAFT_COMMAND, .buf = {(char *)"a", 1}}, {.term = 5, .type = RAFT_COMMAND, .buf = {(char *)"b", 1}}};
    assert_int_equal(read_append(e, 2, 5, 4, 10), 0);
    assert_int_equal(read_append(e, 0, 5, 4, 10), 0);
    assert_int_equal(read_append(e, 2, 4, 4, 10), -EBADMSG); /* an entry of a later term than its leader's */
    assert_int_equal(read_append(e, 2, 5, 5, 10), -EBADMSG); /* terms that go back */
    assert_int_equal(read_append(e, 0, 0, 0, 0), -EBADMSG);  /* there is no term 0 */
    assert_int_equal(read_append(e, 2, 5, 4, 1ull << 62), -EBADMSG);
    e[1].type = 9;
    assert_int_equal(read_append(e, 2, 5, 4, 10), -EBADMSG);
}

/* The engine would read on behind the end of such an entry. */
static void a_change_of_members_is_refused_unless_the_engine_can_read_it(void **state)
{
    struct rng r;
    char bytes[256];
    rng_init(&r, 9);
    for (unsigned i = 0; i < 100; i++) {
        struct slice members = wirerandom_members(&r, bytes);
        struct raft_entry e = {.term = 4, .type = RAFT_CHANGE, .buf = {bytes, members.n}};
        assert_int_equal(read_append(&e, 1, 5, 4, 10), 0);
        for (e.buf.len = 0; e.buf.len < members.n; e.buf.len++) assert_int_equal(read_append(&e, 1, 5, 4, 10), -EBADMSG);
        bytes[1]++; /* one member more than there are */
        e.buf.len = members.n;
        int rc = read_append(&e, 1, 5, 4, 10);
        bytes[1]--;
        assert_int_equal(rc, -EBADMSG);
        bytes[0] = 2; /* another format */
        assert_int_equal(read_append(&e, 1, 5, 4, 10), -EBADMSG);
    }
}

static void an_install_with_a_member_twice_is_refused(void **state)
{
    struct raft_server servers[2] = {{1, (char *)"a", RAFT_VOTER}, {1, (char *)"b", RAFT_VOTER}};
    struct raft_message m = {.type = RAFT_INSTALL_SNAPSHOT, .install_snapshot = {.term = 2, .last_index = 5, .last_term = 1, .conf = {servers, 2}, .conf_index = 1}}, back;
    struct buf b = {0};
    assert_int_equal(wireraft_add(&b, 1, &m), 0);
    struct wire_frame f = {.type = WIRE_INSTALL, .body = slice_of(b.p + WIRE_HEAD, b.len - WIRE_HEAD)};
    assert_int_equal(wireraft_get(&f, 2, &back), -EBADMSG);
    b.len = 0;
    servers[1].id = 2;
    assert_int_equal(wireraft_add(&b, 1, &m), 0);
    f.body = slice_of(b.p + WIRE_HEAD, b.len - WIRE_HEAD);
    assert_int_equal(wireraft_get(&f, 2, &back), 0);
    assert_int_equal(back.install_snapshot.conf.n, 2);
    assert_string_equal(back.install_snapshot.conf.servers[1].address, "b");
    assert_non_null(back.install_snapshot.data.base);
    wireraft_discard(&back);
    buf_fini(&b);
}

/* ---- commands */

static struct slice large(size_t n, char seed)
{
    char *p = malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (char)(seed + (char)(i >> 10) + (char)i);
    return slice_of(p, n);
}

/* Feeds frames; gives how many messages came out, the last one in *message. */
static unsigned feed(struct wirecall_joiner *j, struct slice frames, struct slice *message)
{
    unsigned whole = 0;
    struct wire_frame f;
    const char *why = NULL;
    for (; frames.n; frames = slice_of(frames.p + f.whole.n, frames.n - f.whole.n)) {
        assert_int_equal(wire_frame(frames, &f, &why), WIRE_OK);
        enum wire_result result = wirecall_join(j, &f, message);
        assert_int_not_equal(result, WIRE_BAD);
        whole += result == WIRE_OK;
    }
    return whole;
}

static void a_command_larger_than_a_frame_comes_in_pieces_and_whole(void **state)
{
    struct slice argv[3] = {SLICE("SET"), SLICE("key"), large(3 * WIRE_FRAME_MAX, 1)}, *back = NULL, message;
    struct wirecall_request q = {.id = 5, .session = 6, .map = 7, .resp = 3, .argc = 3}, got;
    struct buf b = {0};
    uint32_t room = 0;
    wirecall_add_request(&b, 4, &q, argv);
    assert_true(wire_count(buf_slice(&b)) > 40);
    struct wirecall_joiner *j = wirecall_joiner_new(4 * WIRE_FRAME_MAX);
    assert_int_equal(feed(j, buf_slice(&b), &message), 1);
    assert_int_equal(wirecall_get_request(message, &got, &back, &room), 0);
    assert_int_equal(got.id, 5);
    assert_int_equal(got.session, 6);
    assert_int_equal(got.map, 7);
    assert_int_equal(got.argc, 3);
    for (int i = 0; i < 3; i++) assert_true(slice_eq(argv[i], back[i]));
    assert_int_equal(wirecall_joiner_bytes(j), 0);
    wirecall_joiner_free(j);
    mem_free(back);
    free((char *)argv[2].p);
    buf_fini(&b);
}

static void pieces_of_several_messages_may_be_mixed(void **state)
{
    struct slice replies[3] = {large(3 * WIRECALL_PIECE, 1), large(2 * WIRECALL_PIECE, 2), large(5 * WIRECALL_PIECE + 17, 3)};
    struct buf b[3] = {{0}};
    size_t at[3] = {0};
    struct wirecall_joiner *j = wirecall_joiner_new(64 << 20);
    struct wirecall_answer a;
    unsigned done = 0;
    for (unsigned i = 0; i < 3; i++) wirecall_add_answer(&b[i], 1, &(struct wirecall_answer){.id = i, .status = WIRECALL_DONE, .reply = replies[i]});
    struct rng r;
    rng_init(&r, 8);
    while (at[0] < b[0].len || at[1] < b[1].len || at[2] < b[2].len) {
        size_t i = rng_below(&r, 3);
        if (at[i] == b[i].len) continue;
        struct slice message, one = slice_of(b[i].p + at[i], wire_frame_length(slice_of(b[i].p + at[i], b[i].len - at[i])));
        at[i] += one.n;
        if (!feed(j, one, &message)) continue;
        assert_int_equal(wirecall_get_answer(message, &a), 0);
        assert_int_equal(a.id, i);
        assert_true(slice_eq(a.reply, replies[i]));
        done++;
    }
    assert_int_equal(done, 3);
    wirecall_joiner_free(j);
    for (int i = 0; i < 3; i++) {
        free((char *)replies[i].p);
        buf_fini(&b[i]);
    }
}

static void a_message_of_which_a_piece_was_lost_is_forgotten(void **state)
{
    struct slice reply = large(6 * WIRECALL_PIECE, 1), message;
    struct buf b = {0};
    wirecall_add_answer(&b, 1, &(struct wirecall_answer){.id = 1, .reply = reply});
    size_t piece = wire_frame_length(buf_slice(&b));
    for (size_t lost = 0; lost < 7; lost++) {
        struct wirecall_joiner *j = wirecall_joiner_new(64 << 20);
        unsigned whole = feed(j, slice_of(b.p, lost * piece), &message);
        size_t next = (lost + 1) * piece < b.len ? (lost + 1) * piece : b.len;
        whole += feed(j, slice_of(b.p + next, b.len - next), &message);
        assert_int_equal(whole, 0);
        assert_true(lost == 6 || wirecall_joiner_bytes(j) == 0);
        assert_int_equal(feed(j, buf_slice(&b), &message), 1); /* once more, and all of it */
        assert_int_equal(wirecall_joiner_bytes(j), 0);
        wirecall_joiner_free(j);
    }
    free((char *)reply.p);
    buf_fini(&b);
}

static void a_joiner_keeps_to_its_memory(void **state)
{
    struct slice reply = large(6 * WIRECALL_PIECE, 1), message;
    struct buf b = {0}, small = {0};
    wirecall_add_answer(&b, 1, &(struct wirecall_answer){.id = 1, .reply = reply});
    wirecall_add_answer(&small, 1, &(struct wirecall_answer){.id = 2, .reply = SLICE("+OK\r\n")});
    struct wirecall_joiner *j = wirecall_joiner_new(2 * WIRECALL_PIECE + 100);
    assert_int_equal(feed(j, buf_slice(&b), &message), 0);
    assert_int_equal(wirecall_joiner_bytes(j), 0);
    assert_int_equal(feed(j, buf_slice(&small), &message), 1);
    wirecall_joiner_free(j);
    free((char *)reply.p);
    buf_fini(&small);
    buf_fini(&b);
}

/* ---- messages of publishers */

static void a_published_message_has_the_bytes_of_version_2(void **state)
{
    static const char bytes[] = "\x1a\0\0\0" "\xe4\x98\x08\x43" "\x60\0\0\0" "\0\0\0\0" "\1" "\4\0\0\0" "news" "!";
    struct buf b = {0};
    struct wire_frame f;
    struct wirepub back;
    const char *why = NULL;
    wirepub_add(&b, &(struct wirepub){.kind = WIREPUB_SHARD, .channel = SLICE("news"), .message = SLICE("!")});
    assert_int_equal(b.len, sizeof bytes - 1);
    assert_memory_equal(b.p, bytes, b.len);
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(f.type, WIRE_PUBLISH);
    assert_int_equal(wirepub_get(&f, &back), 0);
    assert_int_equal(back.kind, WIREPUB_SHARD);
    assert_true(slice_eq(back.channel, SLICE("news")));
    assert_true(slice_eq(back.message, SLICE("!")));
    buf_fini(&b);
}

static void a_published_message_fills_a_frame_at_most(void **state)
{
    struct slice message = large(WIREPUB_BYTES_MAX - 4, 1);
    struct buf b = {0};
    struct wire_frame f;
    struct wirepub back;
    const char *why = NULL;
    wirepub_add(&b, &(struct wirepub){.channel = SLICE("news"), .message = message});
    assert_int_equal(b.len, WIRE_FRAME_MAX);
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(wirepub_get(&f, &back), 0);
    assert_true(slice_eq(back.message, message));
    free((char *)message.p);
    buf_fini(&b);
}

/* ---- the greeting */

static struct wire_hello greeting(void)
{
    return (struct wire_hello){.version = 3, .oldest = 2, .cluster = "0123456789abcde", .node = 4, .to = 5, .incarnation = 6, .address = "node-4.example:7001"};
}

static void a_greeting_reads_back_and_needs_all_of_its_bytes(void **state)
{
    struct wire_hello h = greeting(), back;
    struct buf b = {0};
    size_t used = 0;
    const char *why = NULL;
    wire_add_hello(&b, &h);
    buf_add_str(&b, "frames behind it");
    assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_OK);
    assert_int_equal(used, b.len - strlen("frames behind it"));
    assert_memory_equal(back.cluster, h.cluster, WIRE_CLUSTER_ID);
    assert_string_equal(back.address, h.address);
    assert_true(back.version == 3 && back.oldest == 2 && back.node == 4 && back.to == 5 && back.incarnation == 6);
    for (size_t n = 0; n < used; n++) {
        char *copy = tight(slice_of(b.p, n));
        assert_int_equal(wire_hello(slice_of(copy, n), &back, &used, &why), WIRE_NEED_MORE);
        free(copy);
    }
    buf_fini(&b);
}

static void a_greeting_says_how_many_lanes_there_are_and_which_one_it_is(void **state)
{
    struct wire_hello h = greeting(), back;
    size_t used = 0;
    const char *why = NULL;
    h.version = WIRE_VERSION_LANES;
    for (uint32_t lane = 0; lane <= UINT16_MAX; lane += 771) {
        struct buf b = {0};
        h.lanes = (uint16_t)(UINT16_MAX - lane);
        h.lane = (uint16_t)lane;
        wire_add_hello(&b, &h);
        assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_OK);
        assert_int_equal(used, b.len);
        assert_int_equal(back.lanes, UINT16_MAX - lane);
        assert_int_equal(back.lane, lane);
        assert_string_equal(back.address, h.address);
        buf_fini(&b);
    }
}

/* As if its last bytes had never been there. */
static void shorten(struct buf *hello, size_t bytes)
{
    hello->len -= bytes;
    le_set_u32(hello->p + 8, (uint32_t)hello->len);
    le_set_u32(hello->p + 12, crc32c(crc32c(CRC32C_START, hello->p, 12), hello->p + 16, hello->len - 16));
}

static void a_greeting_of_a_node_that_knows_no_lanes_is_understood(void **state)
{
    struct wire_hello h = greeting(), back;
    struct buf b = {0};
    size_t used = 0;
    const char *why = NULL;
    h.version = WIRE_VERSION_LANES - 1;
    h.lanes = 7;
    h.lane = 8;
    wire_add_hello(&b, &h);
    shorten(&b, 4);
    memset(&back, 0xff, sizeof back);
    assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_OK);
    assert_int_equal(used, b.len);
    assert_true(back.version == WIRE_VERSION_LANES - 1 && back.node == 4 && back.incarnation == 6 && back.lanes == 0 && back.lane == 0);
    assert_string_equal(back.address, h.address);
    b.len = 0;
    h.version = WIRE_VERSION_LANES; /* but who knows them says how many there are */
    for (size_t missing = 1; missing <= 4; missing++) {
        b.len = 0;
        wire_add_hello(&b, &h);
        shorten(&b, missing);
        assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_BAD);
    }
    buf_fini(&b);
}

static void a_greeting_says_whether_there_is_a_secret_and_proves_it(void **state)
{
    struct wire_hello h = greeting(), back;
    size_t used = 0;
    const char *why = NULL;
    h.version = WIRE_VERSION_SECRET;
    memset(h.address, 'a', WIRE_ADDRESS_MAX); /* the longest there is */
    memset(h.nonce, 0x5a, sizeof h.nonce);
    memset(h.proof, 0xa5, sizeof h.proof);
    for (unsigned what = 0; what < 4; what++) {
        struct buf b = {0};
        h.guarded = what & 1;
        h.proven = what & 2;
        wire_add_hello(&b, &h);
        assert_true(b.len <= WIRE_HELLO_MAX);
        memset(&back, 0xff, sizeof back);
        assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_OK);
        assert_int_equal(used, b.len);
        assert_true(back.guarded == h.guarded && back.proven == h.proven);
        if (h.guarded) assert_memory_equal(back.nonce, h.nonce, sizeof h.nonce);
        if (h.proven) assert_memory_equal(back.proof, h.proof, sizeof h.proof);
        for (size_t missing = 1; missing <= (what & 2 ? 33u : 2u); missing++) { /* all of it or none */
            b.len = 0;
            wire_add_hello(&b, &h);
            shorten(&b, missing);
            assert_int_equal(wire_hello(buf_slice(&b), &back, &used, &why), WIRE_BAD);
        }
        buf_fini(&b);
    }
}

static void before_a_proof_nothing_else_is_waited_for(void **state)
{
    uint8_t bytes[WIRE_PROOF_BYTES] = "thirty-two bytes of some meaning", back[WIRE_PROOF_BYTES];
    struct buf b = {0}, ping = {0};
    size_t used = 0;
    const char *why = NULL;
    wire_add_proof(&b, WIRE_PROOF, bytes);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(wire_proof(slice_of(b.p, n), WIRE_PROOF, back, &used, &why), WIRE_NEED_MORE);
    assert_int_equal(wire_proof(buf_slice(&b), WIRE_CHALLENGE, back, &used, &why), WIRE_BAD);
    buf_add_str(&b, "frames behind it");
    assert_int_equal(wire_proof(buf_slice(&b), WIRE_PROOF, back, &used, &why), WIRE_OK);
    assert_int_equal(used, b.len - strlen("frames behind it"));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_false(wire_is_hello(buf_slice(&b)));
    for (uint32_t length = 0; length <= WIRE_FRAME_MAX; length = length * 2 + 1) { /* at its fourth byte, whatever it would be */
        char head[4];
        le_set_u32(head, length);
        assert_int_equal(wire_proof(slice_of(head, 4), WIRE_PROOF, back, &used, &why), WIRE_BAD);
        assert_non_null(why);
    }
    wire_add_ping(&ping, WIRE_PING, 1);
    assert_int_equal(wire_proof(buf_slice(&ping), WIRE_PROOF, back, &used, &why), WIRE_BAD);
    buf_fini(&ping);
    buf_fini(&b);
}

static void a_greeting_with_a_flipped_bit_is_refused(void **state)
{
    struct wire_hello h = greeting(), back;
    struct buf b = {0};
    size_t used = 0;
    const char *why = NULL;
    wire_add_hello(&b, &h);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.p[bit / 8] ^= (char)(1 << bit % 8);
        enum wire_result result = wire_hello(buf_slice(&b), &back, &used, &why);
        assert_true(result == WIRE_BAD || (result == WIRE_NEED_MORE && bit / 8 >= 8 && bit / 8 < 12));
        b.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    buf_fini(&b);
}

static void other_protocols_are_seen_at_their_first_byte(void **state)
{
    static const char *const callers[] = {"GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n", "\x16\x03\x01", "SSH-2.0-x\r\n", "sherd"};
    struct wire_hello h;
    size_t used;
    const char *why = NULL;
    for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++) assert_int_equal(wire_hello(slice_of(callers[i], 1), &h, &used, &why), WIRE_BAD);
}

static void two_nodes_speak_the_later_version_that_both_understand(void **state)
{
    struct wire_hello a = {.version = 5, .oldest = 3}, b = {.version = 4, .oldest = 2}, c = {.version = 2, .oldest = 1};
    assert_int_equal(wire_version(&a, &b), 4);
    assert_int_equal(wire_version(&b, &a), 4);
    assert_int_equal(wire_version(&b, &c), 2);
    assert_int_equal(wire_version(&a, &c), 0);
    assert_int_equal(wire_version(&c, &a), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_encodes_to_the_same_bytes_after_it_was_decoded),
        cmocka_unit_test(a_frame_that_is_cut_anywhere_needs_more),
        cmocka_unit_test(a_body_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(a_body_with_a_byte_too_many_is_refused),
        cmocka_unit_test(a_flipped_bit_is_never_taken_for_a_frame),
        cmocka_unit_test(random_changes_in_bodies_never_make_a_decoder_stumble),
        cmocka_unit_test(frames_behind_each_other_are_found_and_counted),
        cmocka_unit_test(lengths_out_of_their_limits_are_refused_before_anything_else_arrives),
        cmocka_unit_test(entries_share_one_block_that_the_engine_can_free),
        cmocka_unit_test(an_append_that_does_not_fit_in_a_frame_is_not_written),
        cmocka_unit_test(appends_that_no_leader_would_send_are_refused),
        cmocka_unit_test(a_change_of_members_is_refused_unless_the_engine_can_read_it),
        cmocka_unit_test(an_install_with_a_member_twice_is_refused),
        cmocka_unit_test(a_command_larger_than_a_frame_comes_in_pieces_and_whole),
        cmocka_unit_test(pieces_of_several_messages_may_be_mixed),
        cmocka_unit_test(a_message_of_which_a_piece_was_lost_is_forgotten),
        cmocka_unit_test(a_joiner_keeps_to_its_memory),
        cmocka_unit_test(a_published_message_has_the_bytes_of_version_2),
        cmocka_unit_test(a_published_message_fills_a_frame_at_most),
        cmocka_unit_test(a_greeting_reads_back_and_needs_all_of_its_bytes),
        cmocka_unit_test(a_greeting_says_how_many_lanes_there_are_and_which_one_it_is),
        cmocka_unit_test(a_greeting_of_a_node_that_knows_no_lanes_is_understood),
        cmocka_unit_test(a_greeting_says_whether_there_is_a_secret_and_proves_it),
        cmocka_unit_test(before_a_proof_nothing_else_is_waited_for),
        cmocka_unit_test(a_greeting_with_a_flipped_bit_is_refused),
        cmocka_unit_test(other_protocols_are_seen_at_their_first_byte),
        cmocka_unit_test(two_nodes_speak_the_later_version_that_both_understand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
