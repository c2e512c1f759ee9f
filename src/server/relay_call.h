/* Calls: requests that this node itself sends to groups: the parts of a client's command over several groups, and the care for transactions. They go as waves do (server/relay.h): to whoever leads, again when they bounce, until
 * their time is over. The requests of one call go side by side; those of one group in their order.
 *
 *     struct call *c = call_new(f, 0, 2, counted, ctx);
 *     for (each group) call_add(c, group, dbsize, argv, 1);
 *     call_send(c, 5000);
 *     ...
 *     static void counted(void *ctx, struct call *c) { ... call_fate(c, i, &reply) ... call_free(c); }
 *
 * A front's thread alone, at any point of its turn: also while a command runs. */
#pragma once
#include <stdint.h>

#include "base/slice.h"

struct call;
struct command;
struct front;

enum call_fate {
    CALL_ANSWERED,  /* there is a reply; it may be an error */
    CALL_NOBODY,    /* nothing happened: nobody could run it in time, or not in its order any more */
    CALL_UNCERTAIN, /* a write: it may have happened, or may yet. A read never ends so. */
};

/* done is called once, from the front's loop, never within call_send; the call is freed by it or later. If the server ends first, it is freed without. */
struct call *call_new(struct front *f, uint16_t db, uint8_t resp, void (*done)(void *ctx, struct call *c), void *ctx);
/* A request to a group. cmd is a group's own (CMD_OF_GROUP), or one with keys: then it goes to the group that they are in when it goes. The arguments are copied; argv[0] may be any word, the command's name goes in its place. */
void call_add(struct call *c, uint32_t group, const struct command *cmd, const struct slice *argv, uint32_t argc);
void call_send(struct call *c, uint32_t timeout_ms);
/* After done: what became of request i, in the order of call_add; the reply is good until call_free. If it was not answered the reply is an error that a client can be told. */
enum call_fate call_fate(const struct call *c, uint32_t i, struct slice *reply);
uint32_t call_size(const struct call *c);
void call_free(struct call *c);
