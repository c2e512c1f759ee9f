/* Commands about ranges that a cluster's node answers with what the leaders of their groups say: RANGE.MAP, RANGE.EXPLAIN. Every group is asked once; one that does not answer in time does not keep the others' words from the client.
 *
 * A front's thread alone. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct command;
struct exec;
struct rangeask;
struct reply;
struct space_map;
struct wide_groups;

typedef void rangeask_answer(const struct rangeask *a, const struct slice *argv, uint32_t argc, struct reply *out);

/* The command's connection is away until all groups have answered `of_group` (with the same arguments if `same`) or have been waited for; then answer makes the reply. The server is a node. */
void rangeask_send(struct exec *x, const struct space_map *m, const struct wide_groups *groups, const char *of_group, bool same, rangeask_answer *answer);

const struct space_map *rangeask_map(const struct rangeask *a); /* by which it was asked */
struct node *rangeask_node(const struct rangeask *a);
/* What a group said. False: an error, or nothing; then reply is a line about it, without its end. */
bool rangeask_reply(const struct rangeask *a, uint32_t group, struct slice *reply);

/* Whether a command is one of these, and what its row on a node is. */
bool rangeask_has(const struct command *c);
void rangeask_make_row(struct command *row);

/* For that row: they ask. */
void rangemap_command(struct exec *x);
void rangewhy_command(struct exec *x);
