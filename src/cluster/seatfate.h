/* What becomes of the entries that a leader made: which are committed, which never will be, and which nobody can tell. Pure; its owner locks.
 *
 * Entries are proposed in the order of their sequences, and stand in the log at rising indexes. A commit of another entry at such an index says that ours is lost, and all behind it with it: they stand nowhere else. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seatfate_entry {
    uint64_t index, term;
    uint64_t sequence;
    size_t bytes;
    bool last_piece; /* of its sequence */
    bool in_store;   /* its ops are in the store that this node has now */
};

enum seatfate_kind { SEATFATE_OPEN, SEATFATE_DONE, SEATFATE_LOST /* it did not happen, and never will */, SEATFATE_UNKNOWN };

enum { SEATFATE_SPANS = 16 };

struct seatfate { /* a zeroed one is empty */
    struct seatfate_entry *open; /* proposed and not settled, from `first` on */
    uint32_t first, n, cap;
    size_t open_bytes;
    uint64_t done;      /* of sequences up to this one, those outside all spans are committed */
    uint64_t forgotten; /* of those up to this one nobody knows any more */
    struct seatfate_span {
        uint64_t from, to;
        enum seatfate_kind kind; /* LOST or UNKNOWN */
    } spans[SEATFATE_SPANS]; /* a ring */
    uint32_t n_spans;
};

void seatfate_fini(struct seatfate *f);
void seatfate_add(struct seatfate *f, const struct seatfate_entry *e); /* proposed, with its ops in the store */
/* The log's entry at this index is committed. True: it is ours, a copy of it in *own. */
bool seatfate_committed(struct seatfate *f, uint64_t index, uint64_t term, struct seatfate_entry *own);
/* The log up to this index came as a snapshot: what of ours is in it is not known. */
void seatfate_passed(struct seatfate *f, uint64_t index);
/* These sequences were never proposed, or (the first of them) not with all pieces. They are behind all that are open. */
void seatfate_lose(struct seatfate *f, uint64_t from, uint64_t to);
/* The store was made anew without what is open: if that is committed after all it must be applied. */
void seatfate_not_in_store(struct seatfate *f);
enum seatfate_kind seatfate_of(const struct seatfate *f, uint64_t sequence);
