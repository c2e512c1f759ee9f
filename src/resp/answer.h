/* Replies in: what another node answered, RESP2 or RESP3, value by value. Pure. The bytes may be anything: every length is checked. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct answer {
    char type;         /* the first byte: + - : $ * and RESP3's; '_' for every kind of nothing */
    struct slice text; /* + - , ( # and the bytes of $ = ! */
    int64_t n;         /* : the number; * ~ > how many values follow; % | how many pairs */
};

/* Takes one value, or the head of an aggregate, whose values follow. False: there is none. */
bool answer_next(struct slice *in, struct answer *a);
/* Takes a whole value with all that is in it, and gives its bytes. */
bool answer_whole(struct slice *in, struct slice *value);
/* It is an array of this many. */
bool answer_array(struct slice *in, uint32_t *n);
/* It is an error with this code: "-TXNBUSY ...". */
bool answer_is_error(struct slice in, const char *code);
