/* Bodies, in order of their fields; i: index, t: term.
 *
 *     VOTE           u8 version, u64 t, u64 candidate, u64 last i, u64 last t, u8 disrupt, u8 pre-vote
 *     VOTE_RESULT    u8 version, u64 t, u8 granted, u8 pre-vote, u16 features, u16 capacity
 *     APPEND         u8 version, u64 t, u64 previous i, u64 previous t, u64 commit i, u32 n, u32 bytes of data, n entries {u64 t, u32 type, u32 length},
 *                    the data of all entries
 *     APPEND_RESULT  u8 version, u64 t, u64 rejected i, u64 last i, u16 features, u16 capacity
 *     INSTALL        u8 version, u64 t, u64 last i, u64 last t, u64 i of the members, u32 n members {u64 node, u8 role, u8 length, address}, u32 length, data
 *     TIMEOUT_NOW    u8 version, u64 t, u64 last i, u64 last t
 *     PROBE, _ACK    u64 ctx, pairs {u32 group, u64 t} to the end
 *
 * Data of entries stands behind their heads so that one copy brings all of it to its place. Further rules: terms of messages are not 0; an entry's term is not
 * above the message's, nor below the entry's before it; indexes stay below 2^62, so that sums of them do not overflow. */
#include "cluster/wireraft.h"

#include "base/mem.h"
#include "cluster/wirefield.h"

enum { ENTRY_HEAD = WIRERAFT_ENTRY_OVERHEAD, APPEND_HEAD = 1 + 4 * 8 + 2 * 4, PAIR_BYTES = 12, MEMBER_ADDRESS_MAX = 255 };
static const uint64_t INDEX_MAX = 1ull << 62;

_Static_assert(WIRE_HEAD + APPEND_HEAD <= WIRERAFT_APPEND_OVERHEAD, "wireraft_append_bytes would lie");

static uint64_t read_index(struct wirefield *r)
{
    uint64_t index = wirefield_u64(r);
    wirefield_expect(r, index < INDEX_MAX);
    return index;
}

static uint64_t read_term(struct wirefield *r)
{
    uint64_t term = wirefield_u64(r);
    wirefield_expect(r, term > 0 && term < INDEX_MAX);
    return term;
}

/* ---- votes */

static void add_vote(struct buf *out, const struct raft_request_vote *m)
{
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    le_add_u64(out, m->candidate_id);
    le_add_u64(out, m->last_log_index);
    le_add_u64(out, m->last_log_term);
    wirefield_add_u8(out, m->disrupt_leader);
    wirefield_add_u8(out, m->pre_vote);
}

static void get_vote(struct wirefield *r, struct raft_request_vote *m)
{
    m->version = wirefield_u8(r);
    m->term = read_term(r);
    m->candidate_id = wirefield_u64(r);
    m->last_log_index = read_index(r);
    m->last_log_term = read_index(r);
    m->disrupt_leader = wirefield_bool(r);
    m->pre_vote = wirefield_bool(r);
    wirefield_expect(r, m->candidate_id != 0);
}

static void add_vote_result(struct buf *out, const struct raft_request_vote_result *m)
{
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    wirefield_add_u8(out, m->vote_granted);
    wirefield_add_u8(out, m->pre_vote);
    wirefield_add_u16(out, m->features);
    wirefield_add_u16(out, m->capacity);
}

static void get_vote_result(struct wirefield *r, struct raft_request_vote_result *m)
{
    m->version = wirefield_u8(r);
    m->term = read_index(r); /* a replica that never heard of anything answers with term 0 */
    m->vote_granted = wirefield_bool(r);
    m->pre_vote = wirefield_bool(r);
    m->features = wirefield_u16(r);
    m->capacity = wirefield_u16(r);
}

/* ---- entries */

size_t wireraft_append_bytes(const struct raft_entry *entries, uint32_t n)
{
    size_t bytes = WIRE_HEAD + APPEND_HEAD;
    for (uint32_t i = 0; i < n; i++) bytes += ENTRY_HEAD + entries[i].buf.len;
    return bytes;
}

static void add_append(struct buf *out, const struct raft_append_entries *m)
{
    size_t data = wireraft_append_bytes(m->entries, m->n_entries) - WIRE_HEAD - APPEND_HEAD - (size_t)m->n_entries * ENTRY_HEAD;
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    le_add_u64(out, m->prev_log_index);
    le_add_u64(out, m->prev_log_term);
    le_add_u64(out, m->leader_commit);
    le_add_u32(out, m->n_entries);
    le_add_u32(out, (uint32_t)data);
    for (uint32_t i = 0; i < m->n_entries; i++) {
        le_add_u64(out, m->entries[i].term);
        le_add_u32(out, (uint32_t)m->entries[i].type);
        le_add_u32(out, (uint32_t)m->entries[i].buf.len);
    }
    for (uint32_t i = 0; i < m->n_entries; i++) buf_add(out, m->entries[i].buf.base, m->entries[i].buf.len);
}

/* Whether these are members as the engine writes them into a CHANGE entry: u8 1, u64 n, n times {u64 node, address with a zero behind it, u8 role}, zeros up to a
 * multiple of 8. The engine reads them without looking at where they end, so that is done first. */
static bool are_members(struct slice data)
{
    struct wirefield r = {data, data.n % 8 != 0};
    wirefield_expect(&r, wirefield_u8(&r) == 1);
    uint64_t n = wirefield_u64(&r);
    wirefield_expect(&r, n > 0 && n <= WIRERAFT_MEMBERS_MAX);
    for (uint64_t i = 0; i < n && !r.bad; i++) {
        wirefield_expect(&r, wirefield_u64(&r) != 0);
        const char *end = r.rest.n ? memchr(r.rest.p, 0, r.rest.n) : NULL;
        wirefield_bytes(&r, end ? (uint64_t)(end - r.rest.p) + 1 : UINT64_MAX);
        wirefield_choice(&r, RAFT_SPARE + 1);
    }
    if (r.bad || r.rest.n >= 8) return false;
    struct raft_configuration conf;
    if (raft_configuration_decode(&(struct raft_buffer){(char *)data.p, data.n}, &conf)) return false; /* somebody twice */
    raft_configuration_close(&conf);
    return true;
}

/* Reads the heads; the lengths add up to the data or the message is bad. */
static void get_entries(struct wirefield *heads, struct raft_append_entries *m, char *block, size_t bytes)
{
    size_t at = 0;
    uint64_t before = m->prev_log_term;
    for (uint32_t i = 0; i < m->n_entries && !heads->bad; i++) {
        struct raft_entry *e = &m->entries[i];
        e->term = read_term(heads);
        uint32_t type = wirefield_u32(heads), length = wirefield_u32(heads);
        wirefield_expect(heads, type >= RAFT_COMMAND && type <= RAFT_CHANGE && length <= bytes - at && e->term >= before && e->term <= m->term);
        if (heads->bad) return;
        e->type = (enum raft_entry_type)type;
        e->buf = (struct raft_buffer){block + at, length};
        wirefield_expect(heads, type != RAFT_CHANGE || are_members(slice_of(block + at, length)));
        e->batch = block;
        at += length;
        before = e->term;
    }
    wirefield_expect(heads, at == bytes);
}

static void get_append(struct wirefield *r, struct raft_append_entries *m)
{
    m->version = wirefield_u8(r);
    m->term = read_term(r);
    m->prev_log_index = read_index(r);
    m->prev_log_term = read_index(r);
    m->leader_commit = read_index(r);
    m->n_entries = wirefield_u32(r);
    uint32_t bytes = wirefield_u32(r);
    struct wirefield heads = {wirefield_bytes(r, (uint64_t)m->n_entries * ENTRY_HEAD), r->bad};
    struct slice data = wirefield_bytes(r, bytes);
    wirefield_expect(r, m->n_entries || !bytes);
    if (r->bad || !m->n_entries) {
        m->n_entries = 0;
        return;
    }
    m->entries = mem_zalloc(m->n_entries * sizeof *m->entries);
    char *block = raft_malloc(data.n ? data.n : 1);
    CHECK(block && "out of memory");
    if (data.n) memcpy(block, data.p, data.n);
    m->entries[0].batch = block;
    get_entries(&heads, m, block, data.n);
    if (heads.bad) r->bad = true;
}

static void add_append_result(struct buf *out, const struct raft_append_entries_result *m)
{
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    le_add_u64(out, m->rejected);
    le_add_u64(out, m->last_log_index);
    wirefield_add_u16(out, m->features);
    wirefield_add_u16(out, m->capacity);
}

static void get_append_result(struct wirefield *r, struct raft_append_entries_result *m)
{
    m->version = wirefield_u8(r);
    m->term = read_index(r);
    m->rejected = read_index(r);
    m->last_log_index = read_index(r);
    m->features = wirefield_u16(r);
    m->capacity = wirefield_u16(r);
}

/* ---- snapshots */

static void add_install(struct buf *out, const struct raft_install_snapshot *m)
{
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    le_add_u64(out, m->last_index);
    le_add_u64(out, m->last_term);
    le_add_u64(out, m->conf_index);
    le_add_u32(out, m->conf.n);
    for (unsigned i = 0; i < m->conf.n; i++) {
        const struct raft_server *s = &m->conf.servers[i];
        size_t n = strlen(s->address);
        CHECK(n <= MEMBER_ADDRESS_MAX);
        le_add_u64(out, s->id);
        wirefield_add_u8(out, (uint8_t)s->role);
        wirefield_add_u8(out, (uint8_t)n);
        buf_add(out, s->address, n);
    }
    le_add_u32(out, (uint32_t)m->data.len);
    buf_add(out, m->data.base, m->data.len);
}

static void get_members(struct wirefield *r, struct raft_configuration *conf)
{
    uint32_t n = wirefield_u32(r);
    wirefield_expect(r, n <= WIRERAFT_MEMBERS_MAX);
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        char address[MEMBER_ADDRESS_MAX + 1] = {0};
        uint64_t node = wirefield_u64(r);
        int role = wirefield_choice(r, RAFT_SPARE + 1);
        struct slice text = wirefield_bytes(r, wirefield_u8(r));
        memcpy(address, text.p, text.n);
        wirefield_expect(r, node && !memchr(text.p, 0, text.n));
        if (r->bad) return;
        int rc = raft_configuration_add(conf, node, address, role);
        CHECK(rc != RAFT_NOMEM);
        wirefield_expect(r, rc == 0); /* a number or an address twice */
    }
}

static void get_install(struct wirefield *r, struct raft_install_snapshot *m)
{
    m->version = wirefield_u8(r);
    m->term = read_term(r);
    m->last_index = read_index(r);
    m->last_term = read_term(r);
    m->conf_index = read_index(r);
    wirefield_expect(r, m->last_index > 0 && m->conf_index <= m->last_index && m->last_term <= m->term);
    raft_configuration_init(&m->conf);
    get_members(r, &m->conf);
    struct slice data = wirefield_bytes(r, wirefield_u32(r));
    if (r->bad) return;
    m->data = (struct raft_buffer){raft_malloc(data.n ? data.n : 1), data.n};
    CHECK(m->data.base && "out of memory");
    if (data.n) memcpy(m->data.base, data.p, data.n);
}

static void add_timeout_now(struct buf *out, const struct raft_timeout_now *m)
{
    wirefield_add_u8(out, m->version);
    le_add_u64(out, m->term);
    le_add_u64(out, m->last_log_index);
    le_add_u64(out, m->last_log_term);
}

static void get_timeout_now(struct wirefield *r, struct raft_timeout_now *m)
{
    m->version = wirefield_u8(r);
    m->term = read_term(r);
    m->last_log_index = read_index(r);
    m->last_log_term = read_index(r);
}

/* ---- messages */

static const enum wire_type types[] = {
    [RAFT_APPEND_ENTRIES] = WIRE_APPEND,         [RAFT_APPEND_ENTRIES_RESULT] = WIRE_APPEND_RESULT,
    [RAFT_REQUEST_VOTE] = WIRE_VOTE,             [RAFT_REQUEST_VOTE_RESULT] = WIRE_VOTE_RESULT,
    [RAFT_INSTALL_SNAPSHOT] = WIRE_INSTALL,      [RAFT_TIMEOUT_NOW] = WIRE_TIMEOUT_NOW,
};

bool wireraft_is(enum wire_type type) { return type >= WIRE_VOTE && type <= WIRE_TIMEOUT_NOW; }

static bool fits(const struct raft_message *m)
{
    if (m->type == RAFT_APPEND_ENTRIES) return wireraft_append_bytes(m->append_entries.entries, m->append_entries.n_entries) <= WIRE_FRAME_MAX;
    if (m->type == RAFT_INSTALL_SNAPSHOT) return m->install_snapshot.data.len <= WIRE_FRAME_MAX - 64 * 1024; /* members need less */
    return true;
}

int wireraft_add(struct buf *out, uint32_t group, const struct raft_message *m)
{
    CHECK(m->type >= RAFT_APPEND_ENTRIES && m->type <= RAFT_TIMEOUT_NOW);
    if (!fits(m)) return -EMSGSIZE;
    size_t frame = wire_begin(out, types[m->type], 0, group);
    switch (m->type) {
    case RAFT_APPEND_ENTRIES: add_append(out, &m->append_entries); break;
    case RAFT_APPEND_ENTRIES_RESULT: add_append_result(out, &m->append_entries_result); break;
    case RAFT_REQUEST_VOTE: add_vote(out, &m->request_vote); break;
    case RAFT_REQUEST_VOTE_RESULT: add_vote_result(out, &m->request_vote_result); break;
    case RAFT_INSTALL_SNAPSHOT: add_install(out, &m->install_snapshot); break;
    case RAFT_TIMEOUT_NOW: add_timeout_now(out, &m->timeout_now); break;
    }
    wire_end(out, frame);
    return 0;
}

static void get_body(struct wirefield *r, enum wire_type type, struct raft_message *m)
{
    switch (type) {
    case WIRE_APPEND: m->type = RAFT_APPEND_ENTRIES; get_append(r, &m->append_entries); break;
    case WIRE_APPEND_RESULT: m->type = RAFT_APPEND_ENTRIES_RESULT; get_append_result(r, &m->append_entries_result); break;
    case WIRE_VOTE: m->type = RAFT_REQUEST_VOTE; get_vote(r, &m->request_vote); break;
    case WIRE_VOTE_RESULT: m->type = RAFT_REQUEST_VOTE_RESULT; get_vote_result(r, &m->request_vote_result); break;
    case WIRE_INSTALL: m->type = RAFT_INSTALL_SNAPSHOT; get_install(r, &m->install_snapshot); break;
    case WIRE_TIMEOUT_NOW: m->type = RAFT_TIMEOUT_NOW; get_timeout_now(r, &m->timeout_now); break;
    default: r->bad = true;
    }
}

int wireraft_get(const struct wire_frame *f, uint64_t from, struct raft_message *m)
{
    struct wirefield r = {f->body, false};
    memset(m, 0, sizeof *m);
    m->server_id = from;
    m->server_address = "";
    get_body(&r, f->type, m);
    int rc = wirefield_end(&r);
    if (rc) wireraft_discard(m);
    return rc;
}

void wireraft_release(struct raft_message *m)
{
    if (m->type != RAFT_APPEND_ENTRIES) return;
    mem_free(m->append_entries.entries);
    m->append_entries.entries = NULL;
}

void wireraft_discard(struct raft_message *m)
{
    if (m->type == RAFT_APPEND_ENTRIES && m->append_entries.entries) raft_free(m->append_entries.entries[0].batch);
    if (m->type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&m->install_snapshot.conf);
        raft_free(m->install_snapshot.data.base);
    }
    wireraft_release(m);
}

/* ---- read probes */

size_t wireraft_probe_begin(struct buf *out, enum wire_type type, uint64_t ctx)
{
    CHECK(type == WIRE_PROBE || type == WIRE_PROBE_ACK);
    size_t frame = wire_begin(out, type, 0, 0);
    le_add_u64(out, ctx);
    return frame;
}

void wireraft_probe_add(struct buf *out, uint32_t group, uint64_t term)
{
    le_add_u32(out, group);
    le_add_u64(out, term);
}

int wireraft_probe_get(const struct wire_frame *f, struct wireraft_probe *probe)
{
    struct wirefield r = {f->body, f->type != WIRE_PROBE && f->type != WIRE_PROBE_ACK};
    probe->ctx = wirefield_u64(&r);
    size_t n = r.rest.n / PAIR_BYTES;
    wirefield_expect(&r, n <= WIRERAFT_PROBE_MAX);
    probe->n = (uint32_t)n;
    probe->pairs = wirefield_bytes(&r, n * PAIR_BYTES).p;
    return wirefield_end(&r);
}

struct wireraft_pair wireraft_probe_at(const struct wireraft_probe *probe, uint32_t i)
{
    CHECK(i < probe->n);
    const char *p = probe->pairs + (size_t)i * PAIR_BYTES;
    return (struct wireraft_pair){le_u32(p), le_u64(p + 4)};
}
