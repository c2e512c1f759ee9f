/* The files of the cold tier, and what is known of each: where its records begin and which of them live.
 *
 * A segment is a file DIR/NNNNNNNNNN.cold of records (cold/coldrecord.h), one after the other, and in memory a slot for every value that was ever put into it: where its record begins (4 bytes)
 * and whether it lives (1 bit). Slots are numbered as values come. Those below `written` are in the file; of the others the tier says itself where they are, and `at` is its own note.
 * A slot's record ends where the next one begins, so a value that died before it was written costs nothing but its place in the index.
 *
 * A segment is needed while it is open, something of it lives, is pinned, or waits to be written. Then it is buried: nobody finds it any more, and its file can be removed at leisure.
 *
 * Threads: none of its own. The owner's lock is held, but for coldsegment_append, coldsegment_read and coldsegment_remove, which do I/O and are called without it; the header says what keeps them safe. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "io/file.h"
#include "store/chill.h"

struct coldsegment {
    uint32_t id, n, cap;
    uint32_t written;   /* slots that are in the file */
    uint32_t *at;       /* in the file, or the tier's note */
    uint64_t *live;     /* bits */
    int fd;             /* -1: nothing written yet */
    uint64_t bytes;     /* of the file */
    uint64_t raw_bytes; /* of the values in it, unpacked */
    uint64_t put_bytes; /* raw bytes of all that was put, with their keys */
    uint64_t live_bytes, values; /* records of the file that live; all values that live */
    uint32_t pins;
    uint32_t waiting;   /* writes that are still to come */
    uint32_t clean_at;  /* the next slot that cleaning looks at */
    bool sealed;        /* takes no more values */
    bool cleaned;       /* all of it was looked at: what still lives could not be read */
    struct coldsegment *next_dead;
};

struct coldsegments {
    const struct file_ops *files;
    char *dir;
    struct coldsegment **by_id;  /* id - first_id; NULL: buried */
    uint32_t first_id, n, cap;
    uint64_t count;              /* that are not buried */
    uint64_t disk_bytes;         /* of all files, also of the dead */
    struct coldsegment *dead;    /* buried, the file not yet removed */
    _Atomic size_t index_bytes;  /* memory; written under the lock */
};

/* Makes the directory, or empties it (only files of ours are removed). Keeps files. 0 or -errno; fini it in any case. */
int coldsegment_init(struct coldsegments *all, const struct file_ops *files, const char *dir);
void coldsegment_fini(struct coldsegments *all); /* closes and removes all files */

struct coldsegment *coldsegment_new(struct coldsegments *all);
void coldsegment_seal(struct coldsegments *all, struct coldsegment *s);
/* The segment of a reference that somebody still has. */
struct coldsegment *coldsegment_of(const struct coldsegments *all, struct chill_ref ref);
void coldsegment_path(const struct coldsegments *all, const struct coldsegment *s, struct buf *path); /* with its terminator */

/* A new value, alive: its slot. */
uint32_t coldsegment_add(struct coldsegments *all, struct coldsegment *s, uint32_t at, size_t bytes);
void coldsegment_drop(struct coldsegment *s, uint32_t slot); /* a living one */
static inline bool coldsegment_lives(const struct coldsegment *s, uint32_t slot) { return s->live[slot / 64] >> slot % 64 & 1; }

/* Less than half of the file lives, and cleaning can do something about it. */
bool coldsegment_needs_cleaning(const struct coldsegment *s);
/* Called wherever one of the reasons to keep a segment has gone. True: it was the last one. */
bool coldsegment_bury_if_dead(struct coldsegments *all, struct coldsegment *s);

/* Appends records to the file, which is made if need be. By one thread at a time, without the lock, while the segment waits for it. 0 or -errno: the file is as it was, or longer by something that nobody asks for. */
int coldsegment_append(const struct coldsegments *all, struct coldsegment *s, struct slice records);
/* It was appended: the next n slots begin at these offsets of `records` bytes, which are `raw` bytes of values. */
void coldsegment_appended(struct coldsegments *all, struct coldsegment *s, const uint32_t *offsets, uint32_t n, size_t records, uint64_t raw);

struct coldsegment_span { /* of a file */
    int fd;
    uint64_t at;
    size_t n;
};
struct coldsegment_span coldsegment_span(const struct coldsegment *s, uint32_t slot); /* of one that is written */
/* Reads and checks one record, without the lock, the segment being pinned: appends the value; record is scratch. The key must be *key, unless that is null; then it is set to point into record.
 * 0, -EBADMSG (it is not what was written) or -errno. */
int coldsegment_read(const struct coldsegments *all, const struct coldsegment_span *from, struct slice *key, struct buf *record, struct buf *value);

/* Gives a dead one, or NULL; free it with coldsegment_remove, which takes it and removes its file, without the lock. */
struct coldsegment *coldsegment_take_dead(struct coldsegments *all);
void coldsegment_remove(const struct coldsegments *all, struct coldsegment *s);

uint64_t coldsegment_check(const struct coldsegments *all); /* for tests: counts everything again; gives the values that live */
