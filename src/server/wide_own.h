/* What the commands over several groups share. A front's thread alone. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/meta.h"

struct call;
struct conn;
struct front;
struct reply;
struct space_map;
struct txn_answer;
struct txn_request;

/* The groups that may have keys, as bits. */
struct wide_groups {
    uint64_t bits[META_GROUPS_MAX / 64];
};
void wide_note_group(struct wide_groups *g, uint32_t group);
void wide_find_groups(const struct space_map *m, struct wide_groups *out);
uint32_t wide_next_group(const struct wide_groups *g, uint32_t from); /* the first one from there on; META_GROUPS_MAX: there is none */

/* Of a group's reply, which is RESP from another node: a line ":17\r\n", or with another letter; the rest stays. False: it is something else. */
bool wide_take_number(struct slice *s, char letter, int64_t *n);
/* The beginning of an answer of command/groups.c: the version of the map, and so many more elements. */
bool wide_take_version(struct slice *s, int64_t elements, uint64_t *version);

void wide_reply_no_map(struct reply *out);
void wide_reply_nonsense(struct reply *out);

/* The errand is over: the connection gets its answer, and goes on. Frees the answer. */
void wide_finish(struct conn *c, struct buf *answer);

/* Requests of groups' own commands, and what became of them: as a call has it, and as transactions do. mem_free the answers; their replies are the call's. */
void wide_add_requests(struct call *c, const struct front *f, const struct txn_request *requests, uint32_t n);
struct txn_answer *wide_answers(const struct call *c);
