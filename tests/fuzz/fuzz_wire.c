/* Any bytes from another node. The first byte says as what: 0, a connection's, greeting and frames; else, a frame with these type, flags, group and body and a checksum
 * that fits, so that the decoders see it. What decodes is encoded to the same bytes again. */
#include <stdint.h>

#include "../unit/wireagain.h"
#include "base/le.h"
#include "cluster/linkcaller.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void decode(const struct wire_frame *f)
{
    struct buf again = {0};
    if (wireagain(f, &again)) CHECK(slice_eq(buf_slice(&again), f->whole));
    buf_fini(&again);
}

/* But for bytes of later versions, and what an older one did not say. */
static void greet_again(const struct wire_hello *hello)
{
    struct wire_hello back;
    struct buf again = {0};
    const char *why = NULL;
    size_t used = 0;
    CHECK(hello->version >= WIRE_VERSION_LANES || (!hello->lanes && !hello->lane));
    CHECK(hello->version >= WIRE_VERSION_SECRET || (!hello->guarded && !hello->proven));
    wire_add_hello(&again, hello);
    CHECK(wire_hello(buf_slice(&again), &back, &used, &why) == WIRE_OK && used == again.len);
    CHECK(back.version == hello->version && back.node == hello->node && back.to == hello->to && back.lanes == hello->lanes && back.lane == hello->lane && strcmp(back.address, hello->address) == 0);
    CHECK(back.guarded == hello->guarded && back.proven == hello->proven && memcmp(back.nonce, hello->nonce, WIRE_PROOF_BYTES) == 0 && memcmp(back.proof, hello->proof, WIRE_PROOF_BYTES) == 0);
    buf_fini(&again);
}

/* Whatever answers a caller with a secret, it is challenged once at most, and who does not know the secret is not welcome. */
static void answer(struct slice in)
{
    struct linksecret secret = {0};
    struct linkgreet_known known = {0};
    struct wire_hello mine = {.version = WIRE_VERSION, .oldest = WIRE_VERSION_OLDEST, .node = 4, .to = 5, .incarnation = 6, .address = "h:1"}, theirs;
    struct linkcaller c;
    struct buf out = {0};
    const char *why = NULL;
    size_t used = 0, hello;
    linksecret_add(&secret, SLICE("nobody knows that"));
    linkcaller_begin(&c, &mine, &secret, &out);
    hello = out.len;
    enum wire_result result = linkcaller_take(&c, in, &theirs, &used, &out, &why);
    CHECK(used <= in.n && out.len == hello + (c.challenged ? WIRE_HEAD + WIRE_PROOF_BYTES : 0));
    CHECK(result == WIRE_OK || result == WIRE_NEED_MORE || why);
    if (result == WIRE_OK) {
        memcpy(theirs.cluster, mine.cluster, WIRE_CLUSTER_ID);
        CHECK(linkcaller_judge(&c, &theirs, theirs.node, &known) != LINKGREET_WELCOME);
    }
    buf_fini(&out);
}

static void connection(struct slice in)
{
    answer(in);
    struct wire_hello hello;
    struct wire_frame f;
    const char *why = NULL;
    size_t used = 0;
    if (wire_hello(in, &hello, &used, &why) == WIRE_OK) {
        CHECK(used <= in.n && strlen(hello.address) <= WIRE_ADDRESS_MAX);
        greet_again(&hello);
        in = slice_of(in.p + used, in.n - used);
    }
    while (wire_frame(in, &f, &why) == WIRE_OK) {
        CHECK(f.whole.n == wire_frame_length(in));
        decode(&f);
        in = slice_of(in.p + f.whole.n, in.n - f.whole.n);
    }
}

/* type, flags, four bytes of group, body */
static void frame(struct slice in)
{
    struct wire_frame f;
    const char *why = NULL;
    struct buf b = {0};
    if (in.n < 6) return;
    size_t at = wire_begin(&b, WIRE_VOTE, 0, le_u32(in.p + 2));
    buf_add(&b, in.p + 6, in.n - 6);
    b.p[8] = in.p[0];
    b.p[9] = in.p[1];
    wire_end(&b, at);
    enum wire_result result = wire_frame(buf_slice(&b), &f, &why);
    CHECK(result == WIRE_OK || (result == WIRE_BAD && why));
    if (result == WIRE_OK) decode(&f);
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    struct slice in = slice_of(data + 1, n - 1);
    if (data[0] == 0) connection(in);
    else frame(in);
    return 0;
}
