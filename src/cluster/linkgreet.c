#include "cluster/linkgreet.h"

const char *linkgreet_text(enum linkgreet verdict)
{
    static const char *const texts[] = {
        [LINKGREET_WELCOME] = "welcome",
        [LINKGREET_OTHER_CLUSTER] = "it belongs to another cluster",
        [LINKGREET_OTHER_PROTOCOL] = "no version of the protocol is understood by both",
        [LINKGREET_NO_SECRETS] = "this node has a cluster-secret, and it is of a version that knows none",
        [LINKGREET_HAS_NONE] = "this node has a cluster-secret, and it has none",
        [LINKGREET_HAS_ONE] = "it has a cluster-secret, and this node has none",
        [LINKGREET_OTHER_SECRET] = "it has another cluster-secret",
        [LINKGREET_OUR_SECRET] = "it does not accept this node's cluster-secret",
        [LINKGREET_MEANT_ANOTHER] = "it takes this node for another one",
        [LINKGREET_OUR_NUMBER] = "it bears this node's own number",
        [LINKGREET_NUMBER_TWICE] = "a node of this number runs at another address: is its data directory a copy?",
        [LINKGREET_OLDER_RUN] = "a later run of this node was met already: is it started twice, or from an old copy?",
        [LINKGREET_STRANGER] = "it is no member",
        [LINKGREET_NO_LANE] = "it calls a worker before its node is connected",
        [LINKGREET_ANOTHER_ANSWERS] = "another node answers at this address",
        [LINKGREET_TURNED_AWAY] = "it turns this node away; its log says why",
    };
    return texts[verdict];
}

bool linkgreet_is_of_secret(enum linkgreet verdict) { return verdict >= LINKGREET_NO_SECRETS && verdict <= LINKGREET_OUR_SECRET; }

/* Versions that know no secret are not understood then: their own log says so, too. */
void linkgreet_guard(struct wire_hello *mine, bool guarded)
{
    mine->guarded = guarded;
    mine->oldest = guarded ? WIRE_VERSION_SECRET : WIRE_VERSION_OLDEST;
}

enum linkgreet linkgreet_language(const struct wire_hello *mine, const struct wire_hello *theirs)
{
    if (memcmp(mine->cluster, theirs->cluster, WIRE_CLUSTER_ID) != 0) return LINKGREET_OTHER_CLUSTER;
    if (mine->guarded && theirs->version < WIRE_VERSION_SECRET) return LINKGREET_NO_SECRETS;
    if (!wire_version(mine, theirs)) return LINKGREET_OTHER_PROTOCOL;
    if (mine->guarded != theirs->guarded) return mine->guarded ? LINKGREET_HAS_NONE : LINKGREET_HAS_ONE;
    return LINKGREET_WELCOME;
}

/* Two processes under one number would vote twice: the later run counts, and of one run there is only one. */
static enum linkgreet only_one(const struct linkgreet_known *known, const struct wire_hello *theirs)
{
    if (theirs->incarnation < known->incarnation) return LINKGREET_OLDER_RUN;
    if (theirs->incarnation == known->incarnation && strcmp(theirs->address, known->address) != 0) return LINKGREET_NUMBER_TWICE;
    return LINKGREET_WELCOME;
}

enum linkgreet linkgreet_caller(const struct wire_hello *mine, const struct wire_hello *theirs, const struct linkgreet_known *known)
{
    enum linkgreet verdict = linkgreet_language(mine, theirs);
    if (verdict != LINKGREET_WELCOME) return verdict;
    if (theirs->node == mine->node) return LINKGREET_OUR_NUMBER;
    if (theirs->to != mine->node && (theirs->to || mine->guarded)) return LINKGREET_MEANT_ANOTHER;
    if (!known) return LINKGREET_STRANGER;
    return only_one(known, theirs);
}

enum linkgreet linkgreet_answer(const struct wire_hello *mine, const struct wire_hello *theirs, uint64_t meant, const struct linkgreet_known *known)
{
    enum linkgreet verdict = linkgreet_language(mine, theirs);
    if (verdict != LINKGREET_WELCOME) return verdict;
    if (theirs->node != meant) return LINKGREET_ANOTHER_ANSWERS;
    if (theirs->to != mine->node) return LINKGREET_TURNED_AWAY;
    return only_one(known, theirs);
}

void linkgreet_remember(struct linkgreet_known *known, const struct wire_hello *theirs)
{
    known->incarnation = theirs->incarnation;
    known->version = theirs->version < WIRE_VERSION ? theirs->version : WIRE_VERSION;
    known->lanes = theirs->lanes;
    memcpy(known->address, theirs->address, sizeof known->address);
}
