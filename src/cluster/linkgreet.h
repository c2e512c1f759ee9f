/* Whom a node lets in: what two greetings say about each other. Pure. */
#pragma once
#include <stdbool.h>

#include "cluster/wire.h"

enum linkgreet {
    LINKGREET_WELCOME,
    LINKGREET_OTHER_CLUSTER,
    LINKGREET_OTHER_PROTOCOL,
    LINKGREET_NO_SECRETS,    /* this node has a secret, the other is of a version that knows none */
    LINKGREET_HAS_NONE,      /* this node has a secret, the other none */
    LINKGREET_HAS_ONE,       /* the other way round */
    LINKGREET_OTHER_SECRET,  /* it proves none of ours */
    LINKGREET_OUR_SECRET,    /* the node that was called does not take ours for proven */
    LINKGREET_MEANT_ANOTHER, /* a caller takes us for another node */
    LINKGREET_OUR_NUMBER,
    LINKGREET_NUMBER_TWICE,  /* the node runs elsewhere under the same incarnation */
    LINKGREET_OLDER_RUN,     /* a later run of the node was met already */
    LINKGREET_STRANGER,      /* nobody that we know; the owner decides */
    LINKGREET_NO_LANE,       /* a caller wants a lane before it is connected, or there are none */
    LINKGREET_ANOTHER_ANSWERS, /* a node that was called is not the one that was meant */
    LINKGREET_TURNED_AWAY,   /* by the node that was called */
};

/* What is known of a node from earlier greetings. */
struct linkgreet_known {
    uint64_t incarnation; /* the latest that was met, 0: none */
    uint16_t version;     /* in which we speak with it */
    uint16_t lanes;       /* that this run takes */
    char address[WIRE_ADDRESS_MAX + 1]; /* that it named as its own */
};

void linkgreet_guard(struct wire_hello *mine, bool guarded); /* whether we have a secret; the nonce comes later */
/* Of either side's greeting, before anything is proven: whether the two can speak to each other at all. */
enum linkgreet linkgreet_language(const struct wire_hello *mine, const struct wire_hello *theirs);
/* A caller's greeting; known is NULL if it is no peer. */
enum linkgreet linkgreet_caller(const struct wire_hello *mine, const struct wire_hello *theirs, const struct linkgreet_known *known);
/* The answer of the node that was called as `meant`. */
enum linkgreet linkgreet_answer(const struct wire_hello *mine, const struct wire_hello *theirs, uint64_t meant, const struct linkgreet_known *known);
void linkgreet_remember(struct linkgreet_known *known, const struct wire_hello *theirs); /* it was welcome */
const char *linkgreet_text(enum linkgreet verdict); /* for log lines, said by us of the other */
bool linkgreet_is_of_secret(enum linkgreet verdict);
