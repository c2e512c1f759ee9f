/* Thawing: what a task does whose request needs values that are cold.
 *
 * Before a request runs, with its tokens held, the values of its keys are looked at. Those still in the tier's buffers come back at once. If others have to be read from disk, the task gives its
 * tokens back and goes to a reader thread, with all that is left of it; nobody waits for it but its own connection. With the values it comes back to its home worker, takes its tokens again,
 * puts each value in place whose reference is still the same, and runs. If something else has become cold meanwhile it goes once more.
 *
 * A value that is read does not always stay in memory: one that has not been used for longer than those which are being chilled now is only lent. If the request changed nothing, it gets its old reference back
 * when the request has run, and nothing is written; its access time is new, so that the next use finds it worth staying. That is what keeps a walk over all data from
 * driving everything else out.
 *
 * A value that cannot be read is the request's error; it does not run. */
#pragma once
#include "cold/tier.h"
#include "shard/engine.h"
#include "shard/task.h"

struct readers;

/* One per engine. */
struct thaws {
    struct engine *engine;
    struct tier *tier;
    struct readers *readers;
    _Atomic uint64_t hits;       /* values that requests got from the tier */
    _Atomic uint64_t lent;       /* of these, those that did not stay */
    _Atomic int64_t horizon_ms;  /* how long what is chilled now was not used: the evictor's finding */
    _Atomic uint64_t plenty_below, keep_below; /* bytes of all shards: a value that is read stays in any case; stays if it is used often enough */
    struct mail relay;           /* tells the shards what was moved */
    struct tier_moves *moves;
    uint32_t next_shard;
};

/* Keeps the engine, takes the tier and starts its thread: values of every store may be cold from now on. */
struct thaws *thaw_open(struct engine *e, struct tier *t);
void thaw_close(struct thaws *all); /* after the workers have ended */

enum thaw_state { THAW_READY, THAW_AWAY /* give the tokens back, then thaw_send */, THAW_UNREADABLE };
/* The tokens of the request at pos are held. */
enum thaw_state thaw_prepare(struct worker *w, struct task *t);
void thaw_send(struct worker *w, struct task *t); /* takes the task */
/* The request has run (changing something if ops > 0), its tokens are still held: what was lent goes back. */
void thaw_settle(struct worker *w, struct task *t, uint64_t ops);

/* Values of these keys are cold in a shard whose token is held: a reason to call thaw_prepare. */
static inline bool thaw_may_need(const struct task *t, const struct shard *s) { return unlikely(s->store->cold || t->thaw); }
