/* Commands that take elements off lists: pops, moves between lists, and the blocking forms of both. Rows are in lists.c.
 *
 * A blocking command is its plain form with a wait in place of the empty answer. It is run again from the start when one of its keys changed, so
 * nothing is kept between the two runs. */
#pragma once
#include "command/command.h"

void listpops_lpop(struct exec *x);
void listpops_rpop(struct exec *x);
void listpops_lmpop(struct exec *x);
void listpops_lmove(struct exec *x);
void listpops_rpoplpush(struct exec *x);
void listpops_blpop(struct exec *x);
void listpops_brpop(struct exec *x);
void listpops_blmpop(struct exec *x);
void listpops_blmove(struct exec *x);
void listpops_brpoplpush(struct exec *x);

int listpops_lmpop_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max);
int listpops_blmpop_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max);
