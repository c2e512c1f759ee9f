/* Calls: requests that this node itself sends to groups: the parts of a client's command over several groups, and the care for transactions. They go as waves do (server/relay.h): to whoever leads, again when they bounce, until
 * their time is over. The requests of one call go side by side; those of one group in their order.
 *
 * A front's thread alone. */
#pragma once
#include <stdint.h>

#include "base/slice.h"

struct call;
struct command;
struct front;

enum call_fate {
    CALL_ANSWERED,  /* there is a reply; it may be an error */
    CALL_NOBODY,    /* nothing happened: nobody could run it in time */
    CALL_UNCERTAIN, /* a write: it may have happened, or may yet. A read never ends so. */
};

/* done is called once, from the front's loop, never within call_send; the call is freed by it or later. */
struct call *call_new(struct front *f, uint16_t db, uint8_t resp, void (*done)(void *ctx, struct call *c), void *ctx);
/* A request to a group. cmd is a group's own (CMD_OF_GROUP), or one whose keys are all in that group. The arguments are copied. */
void call_add(struct call *c, uint32_t group, const struct command *cmd, const struct slice *argv, uint32_t argc);
void call_send(struct call *c, uint32_t timeout_ms);
/* After done: what became of request i, in the order of call_add; the reply is good until call_free. */
enum call_fate call_fate(const struct call *c, uint32_t i, struct slice *reply);
uint32_t call_size(const struct call *c);
void call_free(struct call *c);
