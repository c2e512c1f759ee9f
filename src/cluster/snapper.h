/* The thread that takes snapshots and fills seats from them, one job after the other, the urgent ones first. Private to cluster/snaphost.h's files. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/snapcore.h"

struct snapper;

/* The most urgent first. */
enum snapper_kind {
    SNAPPER_RECOVER, /* at a start: fills the group from its snapshot at `index` (0: with nothing), and resumes it */
    SNAPPER_REFILL,  /* fills a spoilt seat from the group's last snapshot, and rewinds the log */
    SNAPPER_INSTALL, /* fills the group from the leader's snapshot, which is in the folder */
    SNAPPER_MARK,    /* tells the log of a snapshot that is in the folder */
    SNAPPER_TAKE,
};

struct snapper_job {
    struct snapper_job *next;
    enum snapper_kind kind;
    uint32_t group;
    uint64_t index, term;
    uint64_t at_ms; /* not before */
    uint32_t tries;
    bool is_filled;    /* REFILL: it was, and the log could not be rewound then */
    bool is_trim;      /* MARK: the log knows it; it is to let go of the entries before it */
    uint32_t trailing; /* MARK: entries before it that the log keeps */
    uint64_t checksum; /* MARK: of the file */
};

struct snapper *snapper_new(struct snapcore *core);
int snapper_start(struct snapper *s); /* 0 or -errno */
void snapper_stop(struct snapper *s); /* after core->stop was set: waits for its end */
void snapper_free(struct snapper *s);

/* Any thread. Copies the job. One of the same kind and group that waits is replaced; a TAKE of a group for which something else waits, or which is just taken, is passed over: it is asked for again. */
void snapper_put(struct snapper *s, const struct snapper_job *job);
void snapper_drop(struct snapper *s, uint32_t group); /* nothing of the group is wanted any more, nor what is under way */
