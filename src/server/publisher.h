/* SNAPSHOT.PUBLISH: the strings of a database, as they were at one moment, built and published in the background as an immutable snapshot. One at a time.
 *
 * It works on a thread of its own: the rows come from a walk at one cut (shard/livefeed.h), so no client waits for it. Readers of the snapshot see nothing of it before the last step, and nothing at
 * all if it fails or is cancelled. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "route/snapkey.h"

struct publisher;
struct server;

enum { PUBLISHER_SHARDS_MAX = 4096, PUBLISHER_SHARDS = 8 /* unless told */ };

struct publisher_job {
    char *url;    /* of the store */
    char *run_id; /* NULL: one is made */
    uint32_t shards;
    enum snapkey_encoding encoding;
    uint16_t db;
    bool strict; /* keys of other types are an error */
};

enum publisher_state { PUBLISHER_IDLE, PUBLISHER_WAITING /* for its cut */, PUBLISHER_READING, PUBLISHER_WRITING, PUBLISHER_PUBLISHED, PUBLISHER_FAILED, PUBLISHER_CANCELLED };
const char *publisher_state_name(enum publisher_state s);

struct publisher_info { /* of the running or the last one */
    enum publisher_state state;
    uint64_t id;           /* counts those of this process; 0: there was none */
    char *url, *run_id;    /* run_id: "" until it is known */
    char *manifest_ref;    /* "" until it is published */
    char *error;           /* "" unless it failed */
    int64_t began_ms, cut_ms, ended_ms; /* unix; 0: not yet */
    uint64_t keys_done, keys_total; /* looked at, of all that the shards held at the cut */
    uint64_t rows, left_out;        /* of left_out: keys of other types */
    uint64_t bytes;                 /* of the shard files, when published */
    uint32_t shards;
    uint64_t published, failed;     /* in this process */
};

struct publisher *publisher_new(struct server *s);
void publisher_stop(struct publisher *p); /* after the workers have ended: gives up what is running. Any number of times */
void publisher_free(struct publisher *p);

/* ---- any thread */
/* Takes the job's texts. Gives the job's number, or 0: one is running. */
uint64_t publisher_ask(struct publisher *p, const struct publisher_job *job);
bool publisher_cancel(struct publisher *p); /* false: none is running */
void publisher_info(struct publisher *p, struct publisher_info *i); /* publisher_info_fini afterwards */
void publisher_info_fini(struct publisher_info *i);
