/* The distinct results of a routing expression, numbered in order of their first appearance: what an inferring writer collects on its way. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "route/router.h"

struct tokens;

struct tokens *tokens_new(void);
void tokens_free(struct tokens *t);

/* The number of the token, a new one if it is not known. Borrows it. */
uint32_t tokens_put(struct tokens *t, const struct router_token *token);
uint32_t tokens_count(const struct tokens *t);
/* Ascending: order[i] is the number of the i-th, and c gets the list as routing values; it lives as long as t, until the next put. False: integers and text are mixed, which have no order. */
bool tokens_sort(struct tokens *t, uint32_t *order, struct router_cel *c);
