/* The keeper of ranges: looks once a second at what the ranges of ordered key spaces hold and how much they are used, asks the policy (shard/splitter.h) and carries out what it decides, as RANGE.SPLIT, RANGE.MOVE and
 * RANGE.MERGE would.
 *
 * In a cluster every node does so for the ranges of the groups that it leads, with what the leaders of the others tell (server/rangefigures.h), and group 1 is asked to carry out what was decided.
 *
 * A round begins in worker 0's cron and goes on by mail: each shard is visited under its token (some ranges at a time), worker 0 sums up, and every change gets the tokens that it needs. There is one round at a time, and none
 * without ordered spaces. What others may see of it (RANGE.EXPLAIN, INFO) is behind a lock that is never held under a token for longer than a look. */
#pragma once
#include "base/buf.h"
#include "server/server.h"
#include "shard/splitter.h"

struct rangekeeper;

struct rangekeeper *rangekeeper_new(struct server *s); /* the engine has its topology */
void rangekeeper_free(struct rangekeeper *k);          /* after the workers have ended, before the engine */
void rangekeeper_tick(struct rangekeeper *k, struct worker *w); /* worker 0, several times a second */
void rangekeeper_info(struct rangekeeper *k, struct buf *out);  /* INFO spaces; any worker */
/* What other nodes are told (server/rangefigures.h); any worker. */
void rangekeeper_past(struct rangekeeper *k, uint64_t range, struct splitter_past *out);
double rangekeeper_shard_ops(struct rangekeeper *k, uint32_t shard); /* accesses per second, to any keys of one of the engine's shards, when it was looked at last */
