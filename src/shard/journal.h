/* The journal: keeps the engine's log. Ops are appended under the shards' tokens; the journal closes epochs, its thread writes and syncs them, and those who wait are told.
 *
 * Policies, as the log's promise to a client that got its answer:
 *   every write   the answer is held until its epoch is synced; one sync serves all that wait (group commit). A read's answer waits for the writes that it may show
 *   every second  written within some 50 ms, synced within a second
 *   os managed    written within some 50 ms, synced by the kernel when it likes
 *
 * An epoch is closed by a task that holds all tokens for a moment (swapping buffers, nothing else); at most one is being closed or written at a time, and what is
 * appended meanwhile goes into the next. */
#pragma once
#include "log/wal.h"
#include "shard/engine.h"

enum journal_policy { JOURNAL_EVERY_WRITE, JOURNAL_EVERY_SECOND, JOURNAL_OS_MANAGED };

struct journal;

/* Keeps engine and wal. told(ctx) is called on the journal's thread whenever the synced or written epoch has advanced or the journal's health has changed. */
struct journal *journal_new(struct engine *e, struct wal *w, enum journal_policy policy, void (*told)(void *ctx), void *ctx);
void journal_start(struct journal *j);
/* After all workers have ended: closes, writes and syncs what is left, ends the thread. 0, or what went wrong. */
int journal_stop(struct journal *j);
void journal_free(struct journal *j);

void journal_set_policy(struct journal *j, enum journal_policy policy); /* any thread */

/* May an answer whose ops went into this epoch be sent? */
bool journal_allows(const struct journal *j, uint64_t epoch);
/* May an answer that shows what was written up to this epoch be sent? While the log fails, reads go on. */
bool journal_shows(const struct journal *j, uint64_t epoch);
/* A worker has answers that wait: makes the open epoch close soon. Called with no token held. */
void journal_hurry(struct journal *j, struct worker *w);

/* ---- for dumps; any thread */

/* Called once, with all tokens held: the stores hold everything up to this epoch and nothing else, and the log goes on in new segments. Must not block. */
typedef void journal_cut(void *ctx, wal_epoch epoch);
/* Asks for the call, soon. One at a time. */
void journal_ask_cut(struct journal *j, journal_cut *cut, void *ctx);
/* True: the call will not come. False: it came, or is coming just now. */
bool journal_take_back_cut(struct journal *j);
/* Segments with nothing but epochs before this one are deleted, soon: a durable dump has them. */
void journal_drop_before(struct journal *j, wal_epoch epoch);
/* While true, answers to writes wait until their epoch is written: clients are too fast for somebody. */
void journal_hold_back(struct journal *j, bool hold);

/* 0: healthy. -ENOSPC and the like: writes fail for now and are tried again. -EIO with broken: a sync failed, the log takes nothing any more. */
int journal_error(const struct journal *j);
bool journal_broken(const struct journal *j);
/* Segments that a dump covers could not be deleted: they take room and do no other harm. 0: they could. */
int journal_drop_error(const struct journal *j);
int64_t journal_last_sync_ms(const struct journal *j);
