#include "cluster/linkcaller.h"

void linkcaller_begin(struct linkcaller *c, const struct wire_hello *mine, const struct linksecret *secret, struct buf *out)
{
    *c = (struct linkcaller){.mine = *mine, .secret = *secret};
    linkgreet_guard(&c->mine, secret->n);
    if (secret->n) linksecret_nonce(c->mine.nonce);
    wire_add_hello(out, &c->mine);
}

static enum wire_result take_challenge(struct linkcaller *c, struct slice in, size_t *used, struct buf *out, const char **why)
{
    uint8_t nonce[WIRE_PROOF_BYTES], proof[WIRE_PROOF_BYTES];
    enum wire_result result = wire_proof(in, WIRE_CHALLENGE, nonce, used, why);
    if (result != WIRE_OK) return result;
    c->challenged = true;
    linksecret_prove_caller(&c->secret, &c->mine, nonce, proof);
    wire_add_proof(out, WIRE_PROOF, proof);
    return WIRE_OK;
}

/* Who does not challenge us, and greets at once, turns us away, or has no secret. */
enum wire_result linkcaller_take(struct linkcaller *c, struct slice in, struct wire_hello *theirs, size_t *used, struct buf *out, const char **why)
{
    size_t challenge = 0, hello = 0;
    *used = 0;
    if (c->secret.n && !c->challenged && in.n && !wire_is_hello(in)) {
        enum wire_result result = take_challenge(c, in, &challenge, out, why);
        if (result != WIRE_OK) return result;
    }
    enum wire_result result = wire_hello(slice_of(in.p + challenge, in.n - challenge), theirs, &hello, why);
    *used = challenge + hello;
    return result;
}

enum linkgreet linkcaller_judge(const struct linkcaller *c, const struct wire_hello *theirs, uint64_t meant, const struct linkgreet_known *known)
{
    enum linkgreet verdict = linkgreet_language(&c->mine, theirs);
    if (verdict != LINKGREET_WELCOME) return verdict;
    if (c->secret.n && !theirs->proven) return LINKGREET_OUR_SECRET;
    if (c->secret.n && !(c->challenged && linksecret_check_called(&c->secret, &c->mine, theirs))) return LINKGREET_OTHER_SECRET;
    return linkgreet_answer(&c->mine, theirs, meant, known);
}
