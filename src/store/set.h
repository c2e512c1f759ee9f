/* Sets: sorted integers (store/intset.h) while all members are integers and few, a pack while small, a table of entries when larger.
 * Changing functions are called by store_apply only; same rules as list.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/kit.h"

struct entry *set_new(const struct kit *k, struct slice key, struct slice first_member); /* empty; encoding chosen for the first member */
void set_drop(const struct kit *k, struct entry *e);
struct entry *set_add(const struct kit *k, struct entry *e, struct slice member, bool *added);
struct entry *set_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed);

uint64_t set_len(const struct entry *e);
bool set_has(const struct entry *e, struct slice member);
size_t set_body_bytes(const struct entry *e);

/* Integers are formatted into the iterator: a member is good until the next call. */
struct set_iter {
    _Alignas(8) unsigned char state[96];
};
void set_iter_init(struct set_iter *it, const struct entry *e);
bool set_iter_next(struct set_iter *it, struct slice *member);
/* A random member; text is where an integer member is formatted. */
bool set_random(const struct entry *e, uint64_t r, char text[24], struct slice *member);
void set_scan(const struct entry *e, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct slice member), void *ctx);
