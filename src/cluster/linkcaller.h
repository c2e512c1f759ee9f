/* The caller's side of a greeting, for nodes and for their workers alike: our HELLO, the proof of the secret if there is one, and what the other answers. Pure, but for the nonce. */
#pragma once
#include "base/buf.h"
#include "cluster/linkgreet.h"
#include "cluster/linksecret.h"

struct linkcaller {
    struct wire_hello mine;
    struct linksecret secret;
    bool challenged; /* and we have proven it */
};

/* Appends our greeting. mine, but for what is said of the secret. */
void linkcaller_begin(struct linkcaller *c, const struct wire_hello *mine, const struct linksecret *secret, struct buf *out);
/* Takes what has come, *used bytes of it, and appends what we have to say to it. WIRE_OK: the other has greeted. */
enum wire_result linkcaller_take(struct linkcaller *c, struct slice in, struct wire_hello *theirs, size_t *used, struct buf *out, const char **why);
/* Whether it is the node that was called as `meant`, and knows the secret. */
enum linkgreet linkcaller_judge(const struct linkcaller *c, const struct wire_hello *theirs, uint64_t meant, const struct linkgreet_known *known);
