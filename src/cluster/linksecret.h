/* The secret of a cluster, and how two nodes prove to each other that they know it. Nothing here keeps state; any thread.
 *
 * A node with a secret takes connections only from nodes that prove theirs, and speaks only to such:
 *
 *     caller                     called
 *     HELLO with a nonce   ->
 *                          <-    CHALLENGE: another nonce
 *     PROOF                ->                               of the caller's HELLO and the called's nonce
 *                          <-    HELLO with a proof         of the caller's HELLO and this one
 *
 * A proof is an HMAC-SHA256, and a HELLO has the cluster, both nodes' numbers, the run, the lane and the nonce in it. So a proof is of use for nothing but this one greeting: not for another one, for
 * the other direction, another node, or a lane where the node itself was meant. The caller goes first: a stranger who calls hears nothing by which guesses at the secret could be tried.
 *
 * A node may have several secrets, so that one can be replaced while the cluster runs: it proves the first, and takes any of them for proven. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cluster/wire.h"

enum { LINKSECRET_MAX = 4 };

struct linksecret {
    uint32_t n; /* 0: there is none */
    uint8_t keys[LINKSECRET_MAX][WIRE_PROOF_BYTES];
};

bool linksecret_add(struct linksecret *s, struct slice text); /* false: there are LINKSECRET_MAX already */
bool linksecret_same(const struct linksecret *a, const struct linksecret *b);
void linksecret_nonce(uint8_t out[WIRE_PROOF_BYTES]); /* that was never there before */

/* The caller's proof: of its HELLO, and the nonce that it was challenged with. */
void linksecret_prove_caller(const struct linksecret *s, const struct wire_hello *caller, const uint8_t nonce[WIRE_PROOF_BYTES], uint8_t out[WIRE_PROOF_BYTES]);
bool linksecret_check_caller(const struct linksecret *s, const struct wire_hello *caller, const uint8_t nonce[WIRE_PROOF_BYTES], const uint8_t proof[WIRE_PROOF_BYTES]);
/* The called's proof, which goes into its HELLO: of both. */
void linksecret_prove_called(const struct linksecret *s, const struct wire_hello *caller, struct wire_hello *called);
bool linksecret_check_called(const struct linksecret *s, const struct wire_hello *caller, const struct wire_hello *called);
/* That of a node which asks to join: of its words. It says no more than that its operator knows the secret. */
void linksecret_prove_words(const struct linksecret *s, const struct slice *words, uint32_t n, uint8_t out[WIRE_PROOF_BYTES]);
bool linksecret_check_words(const struct linksecret *s, const struct slice *words, uint32_t n, const uint8_t proof[WIRE_PROOF_BYTES]);
