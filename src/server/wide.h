/* Commands of a cluster's clients that one group alone cannot answer.
 *
 * Those over all keys (DBSIZE, KEYS, RANDOMKEY, FLUSHDB, FLUSHALL, SWAPDB) ask every data group of the map by a command of its own (command/groups.c), side by side, and put the answers together. Each group answers at one
 * moment of its own. If one of them cannot be asked there is no answer but an error: never a part of one. Those that write ask first whether every group is led, so that they are rarely done in some groups and not in others;
 * if that happens all the same, the error says so.
 *
 * SCAN asks one group after the other (server/widescan.c).
 *
 * While this node's map is older than that of a group's leader they wait for the newer one.
 *
 * Those whose keys are in several groups run alone, as a barrier in the pipeline.
 *
 * A front's thread alone. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct command;
struct conn;
struct front;
struct server;
struct wides;

struct wides *wide_front_new(void);      /* kept in the front's wides; before it starts */
void wide_front_free(struct wides *all); /* after it has ended */
void wide_turn(struct front *f);         /* at the end of each turn, before the relay's; a new map is a reason for one (relay_mapped) */
int wide_wait_ms(const struct front *f); /* until something is due; -1: nothing is */
uint64_t wide_waits(const struct server *s); /* how often a command over all keys waited for a newer map; any thread */

/* Whether a command is over all keys, and what its row on a node is. */
bool wide_has(const struct command *c);
void wide_make_row(struct command *row);

/* Whether a request of the batch, which its relay would have no place for, runs here: one whose keys are in several groups. */
bool wide_wants(const struct conn *c, uint32_t request);
/* Runs the request at pos, which it wants, alone. True: done, its reply is in c->out. False: c is away on an errand (conn_errand_done). */
bool wide_run(struct conn *c);
