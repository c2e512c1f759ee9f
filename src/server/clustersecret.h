/* The secret of a cluster as its options say it: words, or a file with one on each line. */
#pragma once
#include "base/buf.h"
#include "cluster/linksecret.h"

enum {
    CLUSTERSECRET_MIN = 16, /* characters: who listens to greetings can try guesses */
    CLUSTERSECRET_PROOF = 2 * WIRE_PROOF_BYTES, /* in hex digits */
};

/* `words` of cluster-secret, or the file of cluster-secret-file; each may be empty, both: there is none. -1 and the reason, which says nothing of the secret. */
int clustersecret_read(struct linksecret *out, const char *words, const char *path, struct buf *why);

/* A node that asks to join proves its secret by the last word of its question, so that it is told at once, and not let in only to be kept out (cluster/linksecret.h). False: there is none, and nothing to prove. */
bool clustersecret_prove(const struct linksecret *s, const struct slice *words, uint32_t n, char out[CLUSTERSECRET_PROOF + 1]);
/* proof: the word, empty if it was not there. NULL: all is well; else why not. */
const char *clustersecret_check(const struct linksecret *s, const struct slice *words, uint32_t n, struct slice proof);
