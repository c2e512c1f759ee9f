/* The keeper of ranges: looks once a second at what the ranges of ordered key spaces hold and how much they are used, asks the policy (shard/splitter.h) and carries out what it decides, as RANGE.SPLIT, RANGE.MOVE and
 * RANGE.MERGE would.
 *
 * A round begins in worker 0's cron and goes on by mail: each shard is visited under its token (some ranges at a time), worker 0 sums up, and every change gets the tokens that it needs. There is one round at a time, and none
 * without ordered spaces. What others may see of it (RANGE.EXPLAIN, INFO) is behind a lock that is never held under a token for longer than a look. */
#pragma once
#include "base/buf.h"
#include "server/server.h"

struct rangekeeper;

struct rangekeeper *rangekeeper_new(struct server *s); /* the engine has its topology */
void rangekeeper_free(struct rangekeeper *k);          /* after the workers have ended, before the engine */
void rangekeeper_tick(struct rangekeeper *k, struct worker *w); /* worker 0, several times a second */
void rangekeeper_info(struct rangekeeper *k, struct buf *out);  /* INFO spaces; any worker */
