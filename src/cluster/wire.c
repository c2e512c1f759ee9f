/* A frame:
 *
 *      0  u32  length of the whole frame, at least 16, at most WIRE_FRAME_MAX
 *      4  u32  CRC-32C of all other bytes of the frame
 *      8  u8   type
 *      9  u8   flags
 *     10  u16  zero
 *     12  u32  group
 *     16       body
 *
 * The greeting, which is understood across versions of everything else:
 *
 *      0  8    89 's' 'h' 'e' 'r' 'd' 0d 0a: no text, and changed by whatever takes it for text
 *      8  u32  length of the whole greeting, at most WIRE_HELLO_MAX
 *     12  u32  CRC-32C of all other bytes
 *     16  u16  version of the protocol that the speaker speaks
 *     18  u16  oldest version that it understands
 *     20  16   cluster
 *     36  u64  node of the speaker
 *     44  u64  node that it means to speak to, or 0
 *     52  u64  incarnation, not 0
 *     60  u8   n, then n bytes: address
 *     ..  u16  lanes, u16 lane; since version 4
 *     ..  u8   n, then n bytes: nonce, n is 32, or 0: no secret; u8 n, then n bytes: proof, likewise; since version 5
 *     ..       bytes of later versions, skipped
 *
 * All numbers are little endian. A frame is valid if its length is in its limits, its checksum right, its type known, the two bytes zero, and neither a flag nor
 * a group set that its type does not have. */
#include "cluster/wire.h"

#include "base/crc32c.h"
#include "cluster/wirefield.h"

enum { CRC_AT = 4, TYPE_AT = 8, HELLO_LENGTH_AT = 8, HELLO_CRC_AT = 12, HELLO_FIXED = 61 };

static const char magic[8] = {(char)0x89, 's', 'h', 'e', 'r', 'd', '\r', '\n'};

/* ---- frames */

static const char *name_of(unsigned type)
{
    switch (type) {
    case WIRE_PING: return "ping";
    case WIRE_PONG: return "pong";
    case WIRE_CHALLENGE: return "challenge";
    case WIRE_PROOF: return "proof";
    case WIRE_VOTE: return "vote";
    case WIRE_VOTE_RESULT: return "vote-result";
    case WIRE_APPEND: return "append";
    case WIRE_APPEND_RESULT: return "append-result";
    case WIRE_INSTALL: return "install";
    case WIRE_TIMEOUT_NOW: return "timeout-now";
    case WIRE_PROBE: return "probe";
    case WIRE_PROBE_ACK: return "probe-ack";
    case WIRE_REQUEST: return "request";
    case WIRE_ANSWER: return "answer";
    case WIRE_SNAP_OFFER: return "snap-offer";
    case WIRE_SNAP_WANT: return "snap-want";
    case WIRE_SNAP_CHUNK: return "snap-chunk";
    case WIRE_SNAP_DONE: return "snap-done";
    case WIRE_STATUS: return "status";
    case WIRE_PUBLISH: return "publish";
    default: return NULL;
    }
}

const char *wire_type_name(enum wire_type type)
{
    const char *name = name_of(type);
    return name ? name : "unknown";
}

static bool has_group(unsigned type)
{
    return type > WIRE_PROOF && type != WIRE_PROBE && type != WIRE_PROBE_ACK && type != WIRE_STATUS && type != WIRE_PUBLISH;
}

static uint8_t flags_of(unsigned type) { return type == WIRE_REQUEST || type == WIRE_ANSWER ? WIRE_MORE : 0; }

/* Of everything but the checksum itself. */
static uint32_t checksum(struct slice bytes, size_t crc_at)
{
    uint32_t crc = crc32c(CRC32C_START, bytes.p, crc_at);
    return crc32c(crc, bytes.p + crc_at + 4, bytes.n - crc_at - 4);
}

size_t wire_begin(struct buf *out, enum wire_type type, uint8_t flags, uint32_t group)
{
    CHECK(name_of(type) && !(flags & ~flags_of(type)) && (!group || has_group(type)));
    size_t frame = out->len;
    le_add_u64(out, 0); /* length and checksum: wire_end */
    wirefield_add_u8(out, (uint8_t)type);
    wirefield_add_u8(out, flags);
    wirefield_add_u16(out, 0);
    le_add_u32(out, group);
    return frame;
}

void wire_end(struct buf *out, size_t frame)
{
    char *p = out->p + frame;
    size_t n = out->len - frame;
    CHECK(n >= WIRE_HEAD && n <= WIRE_FRAME_MAX);
    le_set_u32(p, (uint32_t)n);
    le_set_u32(p + CRC_AT, checksum(slice_of(p, n), CRC_AT));
}

static enum wire_result bad(const char **why, const char *sentence)
{
    *why = sentence;
    return WIRE_BAD;
}

enum wire_result wire_frame(struct slice in, struct wire_frame *out, const char **why)
{
    if (in.n < 4) return WIRE_NEED_MORE;
    uint32_t n = le_u32(in.p);
    if (n < WIRE_HEAD || n > WIRE_FRAME_MAX) return bad(why, "the length of a frame is out of its limits");
    if (in.n < n) return WIRE_NEED_MORE;
    struct slice whole = slice_of(in.p, n);
    if (checksum(whole, CRC_AT) != le_u32(in.p + CRC_AT)) return bad(why, "the checksum of a frame is wrong");
    struct wirefield r = {slice_of(in.p + TYPE_AT, n - TYPE_AT), false};
    uint8_t type = wirefield_u8(&r), flags = wirefield_u8(&r);
    uint16_t zero = wirefield_u16(&r);
    uint32_t group = wirefield_u32(&r);
    if (!name_of(type)) return bad(why, "a frame has an unknown type");
    if (zero || flags & ~flags_of(type) || (group && !has_group(type))) return bad(why, "a frame has unknown flags");
    *out = (struct wire_frame){.type = type, .flags = flags, .group = group, .body = r.rest, .whole = whole};
    return WIRE_OK;
}

size_t wire_frame_length(struct slice in)
{
    if (in.n < 4) return 0;
    uint32_t n = le_u32(in.p);
    return n < WIRE_HEAD || n > WIRE_FRAME_MAX ? 0 : n;
}

uint32_t wire_count(struct slice frames)
{
    uint32_t count = 0;
    for (size_t n; frames.n; frames = slice_of(frames.p + n, frames.n - n), count++) {
        n = wire_frame_length(frames);
        CHECK(n && n <= frames.n);
    }
    return count;
}

void wire_add_ping(struct buf *out, enum wire_type ping_or_pong, uint64_t token)
{
    CHECK(ping_or_pong == WIRE_PING || ping_or_pong == WIRE_PONG);
    size_t frame = wire_begin(out, ping_or_pong, 0, 0);
    le_add_u64(out, token);
    wire_end(out, frame);
}

int wire_get_ping(const struct wire_frame *f, uint64_t *token)
{
    struct wirefield r = {f->body, f->type != WIRE_PING && f->type != WIRE_PONG};
    *token = wirefield_u64(&r);
    return wirefield_end(&r);
}

void wire_add_proof(struct buf *out, enum wire_type challenge_or_proof, const uint8_t bytes[WIRE_PROOF_BYTES])
{
    CHECK(challenge_or_proof == WIRE_CHALLENGE || challenge_or_proof == WIRE_PROOF);
    size_t frame = wire_begin(out, challenge_or_proof, 0, 0);
    buf_add(out, bytes, WIRE_PROOF_BYTES);
    wire_end(out, frame);
}

enum wire_result wire_proof(struct slice in, enum wire_type challenge_or_proof, uint8_t out[WIRE_PROOF_BYTES], size_t *used, const char **why)
{
    struct wire_frame f;
    if (in.n >= 4 && le_u32(in.p) != WIRE_HEAD + WIRE_PROOF_BYTES) return bad(why, "it speaks before it has proven anything");
    enum wire_result result = wire_frame(in, &f, why);
    if (result != WIRE_OK) return result;
    if (f.type != challenge_or_proof) return bad(why, "it speaks before it has proven anything");
    memcpy(out, f.body.p, WIRE_PROOF_BYTES);
    *used = f.whole.n;
    return WIRE_OK;
}

/* ---- the greeting */

static void add_proof_field(struct buf *out, bool there, const uint8_t bytes[WIRE_PROOF_BYTES])
{
    wirefield_add_u8(out, there ? WIRE_PROOF_BYTES : 0);
    if (there) buf_add(out, bytes, WIRE_PROOF_BYTES);
}

static bool proof_field(struct wirefield *r, uint8_t out[WIRE_PROOF_BYTES])
{
    struct slice bytes = wirefield_bytes(r, wirefield_u8(r));
    wirefield_expect(r, !bytes.n || bytes.n == WIRE_PROOF_BYTES);
    if (r->bad || !bytes.n) return false;
    memcpy(out, bytes.p, WIRE_PROOF_BYTES);
    return true;
}

bool wire_is_hello(struct slice in) { return in.p[0] == magic[0]; }

void wire_add_hello(struct buf *out, const struct wire_hello *h)
{
    size_t at = out->len, address = strlen(h->address);
    CHECK(h->node && h->incarnation && address <= WIRE_ADDRESS_MAX && h->oldest <= h->version && h->oldest);
    buf_add(out, magic, sizeof magic);
    le_add_u64(out, 0); /* length and checksum, below */
    wirefield_add_u16(out, h->version);
    wirefield_add_u16(out, h->oldest);
    buf_add(out, h->cluster, WIRE_CLUSTER_ID);
    le_add_u64(out, h->node);
    le_add_u64(out, h->to);
    le_add_u64(out, h->incarnation);
    wirefield_add_u8(out, (uint8_t)address);
    buf_add(out, h->address, address);
    wirefield_add_u16(out, h->lanes);
    wirefield_add_u16(out, h->lane);
    if (h->version >= WIRE_VERSION_SECRET) {
        add_proof_field(out, h->guarded, h->nonce);
        add_proof_field(out, h->proven, h->proof);
    }
    char *p = out->p + at;
    le_set_u32(p + HELLO_LENGTH_AT, (uint32_t)(out->len - at));
    le_set_u32(p + HELLO_CRC_AT, checksum(slice_of(p, out->len - at), HELLO_CRC_AT));
}

/* host:port in printable characters: it goes into log lines and to the resolver. */
static bool is_address(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f) return false;
    return true;
}

enum wire_result wire_hello(struct slice in, struct wire_hello *out, size_t *used, const char **why)
{
    size_t known = in.n < sizeof magic ? in.n : sizeof magic;
    if (!known) return WIRE_NEED_MORE;
    if (memcmp(in.p, magic, known) != 0) return bad(why, "not a node of Sherd");
    if (in.n < HELLO_LENGTH_AT + 4) return WIRE_NEED_MORE;
    uint32_t n = le_u32(in.p + HELLO_LENGTH_AT);
    if (n < HELLO_FIXED || n > WIRE_HELLO_MAX) return bad(why, "the length of the greeting is out of its limits");
    if (in.n < n) return WIRE_NEED_MORE;
    if (checksum(slice_of(in.p, n), HELLO_CRC_AT) != le_u32(in.p + HELLO_CRC_AT)) return bad(why, "the checksum of the greeting is wrong");
    struct wirefield r = {slice_of(in.p + 16, n - 16), false};
    *out = (struct wire_hello){.version = wirefield_u16(&r)};
    out->oldest = wirefield_u16(&r);
    memcpy(out->cluster, wirefield_bytes(&r, WIRE_CLUSTER_ID).p, WIRE_CLUSTER_ID);
    out->node = wirefield_u64(&r);
    out->to = wirefield_u64(&r);
    out->incarnation = wirefield_u64(&r);
    struct slice address = wirefield_bytes(&r, wirefield_u8(&r));
    memcpy(out->address, address.p, address.n);
    if (out->version >= WIRE_VERSION_LANES) {
        out->lanes = wirefield_u16(&r);
        out->lane = wirefield_u16(&r);
    }
    if (out->version >= WIRE_VERSION_SECRET) {
        out->guarded = proof_field(&r, out->nonce);
        out->proven = proof_field(&r, out->proof);
    }
    if (r.bad || !out->node || !out->incarnation || !out->oldest || out->oldest > out->version || !is_address(address)) return bad(why, "the greeting makes no sense");
    *used = n;
    return WIRE_OK;
}

uint16_t wire_version(const struct wire_hello *mine, const struct wire_hello *theirs)
{
    uint16_t both = mine->version < theirs->version ? mine->version : theirs->version;
    return both >= mine->oldest && both >= theirs->oldest ? both : 0;
}
