/* What a proof is made of: a word that says whose it is, and what it is about.
 *
 *     caller    "sherd caller"  HELLO of the caller, nonce of the called
 *     called    "sherd called"  HELLO of the caller, HELLO of the called
 *     a word    "sherd words"   for each: u64 length, bytes
 *
 * A HELLO is in it field by field, as below: bytes that a later version adds are not. A key is the SHA-256 of a secret's text. */
#include "cluster/linksecret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/le.h"

/* ---- secrets */

bool linksecret_add(struct linksecret *s, struct slice text)
{
    if (s->n == LINKSECRET_MAX) return false;
    CHECK(EVP_Digest(text.p, text.n, s->keys[s->n++], NULL, EVP_sha256(), NULL));
    return true;
}

bool linksecret_same(const struct linksecret *a, const struct linksecret *b) { return a->n == b->n && CRYPTO_memcmp(a->keys, b->keys, a->n * sizeof a->keys[0]) == 0; }

void linksecret_nonce(uint8_t out[WIRE_PROOF_BYTES]) { CHECK(getrandom(out, WIRE_PROOF_BYTES, 0) == WIRE_PROOF_BYTES); }

/* ---- what is proven. Every field has a length that is fixed or said, so that no two greetings read the same. */

static void add_text(struct buf *about, struct slice text)
{
    le_add_u64(about, text.n);
    buf_add_slice(about, text);
}

static void add_hello(struct buf *about, const struct wire_hello *h)
{
    le_add_u32(about, h->version);
    le_add_u32(about, h->oldest);
    buf_add(about, h->cluster, WIRE_CLUSTER_ID);
    le_add_u64(about, h->node);
    le_add_u64(about, h->to);
    le_add_u64(about, h->incarnation);
    add_text(about, slice_str(h->address));
    le_add_u32(about, h->lanes);
    le_add_u32(about, h->lane);
    buf_add(about, h->nonce, WIRE_PROOF_BYTES);
}

static void add_call(struct buf *about, const struct wire_hello *caller, const uint8_t nonce[WIRE_PROOF_BYTES])
{
    buf_add_str(about, "sherd caller");
    add_hello(about, caller);
    buf_add(about, nonce, WIRE_PROOF_BYTES);
}

static void add_answer(struct buf *about, const struct wire_hello *caller, const struct wire_hello *called)
{
    buf_add_str(about, "sherd called");
    add_hello(about, caller);
    add_hello(about, called);
}

static void add_words(struct buf *about, const struct slice *words, uint32_t n)
{
    buf_add_str(about, "sherd words");
    for (uint32_t i = 0; i < n; i++) add_text(about, words[i]);
}

/* ---- proofs */

static void hmac(const uint8_t key[WIRE_PROOF_BYTES], const struct buf *about, uint8_t out[WIRE_PROOF_BYTES])
{
    unsigned n = 0;
    CHECK(HMAC(EVP_sha256(), key, WIRE_PROOF_BYTES, (const unsigned char *)about->p, about->len, out, &n) && n == WIRE_PROOF_BYTES);
}

static void prove(const struct linksecret *s, struct buf *about, uint8_t out[WIRE_PROOF_BYTES])
{
    CHECK(s->n);
    hmac(s->keys[0], about, out);
    buf_fini(about);
}

/* Takes the same time whatever the proof says. */
static bool check(const struct linksecret *s, struct buf *about, const uint8_t proof[WIRE_PROOF_BYTES])
{
    uint8_t right[WIRE_PROOF_BYTES];
    bool found = false;
    for (uint32_t i = 0; i < s->n; i++) {
        hmac(s->keys[i], about, right);
        found |= CRYPTO_memcmp(right, proof, WIRE_PROOF_BYTES) == 0;
    }
    buf_fini(about);
    return found;
}

void linksecret_prove_caller(const struct linksecret *s, const struct wire_hello *caller, const uint8_t nonce[WIRE_PROOF_BYTES], uint8_t out[WIRE_PROOF_BYTES])
{
    struct buf about = {0};
    add_call(&about, caller, nonce);
    prove(s, &about, out);
}

bool linksecret_check_caller(const struct linksecret *s, const struct wire_hello *caller, const uint8_t nonce[WIRE_PROOF_BYTES], const uint8_t proof[WIRE_PROOF_BYTES])
{
    struct buf about = {0};
    add_call(&about, caller, nonce);
    return check(s, &about, proof);
}

void linksecret_prove_called(const struct linksecret *s, const struct wire_hello *caller, struct wire_hello *called)
{
    struct buf about = {0};
    add_answer(&about, caller, called);
    prove(s, &about, called->proof);
    called->proven = true;
}

bool linksecret_check_called(const struct linksecret *s, const struct wire_hello *caller, const struct wire_hello *called)
{
    struct buf about = {0};
    add_answer(&about, caller, called);
    return check(s, &about, called->proof) && called->proven;
}

void linksecret_prove_words(const struct linksecret *s, const struct slice *words, uint32_t n, uint8_t out[WIRE_PROOF_BYTES])
{
    struct buf about = {0};
    add_words(&about, words, n);
    prove(s, &about, out);
}

bool linksecret_check_words(const struct linksecret *s, const struct slice *words, uint32_t n, const uint8_t proof[WIRE_PROOF_BYTES])
{
    struct buf about = {0};
    add_words(&about, words, n);
    return check(s, &about, proof);
}
