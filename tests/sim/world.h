/* A world in which nodes run: clocks, a network, disks, crashes, all in one thread and by one seed. The same seed gives the same run, event for event.
 *
 * What runs on the nodes is a table of functions (struct world_program); the world knows nothing of it. It promises what real machines promise, and no more:
 *
 *   network   Frames from one node to another arrive in order or not at all; a frame may be lost, a way may be cut, in one direction only too. What is under way
 *             from or to a node that starts again is lost.
 *   disks     io/file_sim.h: at a power loss, what was not synced is there, missing or there in part. Disks become slow, and full.
 *   clocks    Each node's runs a little faster or slower than the others, and jumps ahead or back.
 *   pauses    A process stands still for a while; what was meant for it waits.
 *   crashes   A process dies and loses its memory; or its machine loses power, and what it had not synced too.
 *
 * Faults come by themselves while world_faults is set. Each has an end; one that has ended is counted as completed. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/slice.h"
#include "io/file.h"

enum { WORLD_NODES_MAX = 8, WORLD_MS = 1000 }; /* times are in microseconds, clocks of nodes in milliseconds */

struct world;

struct world_program {
    void *ctx;
    void *(*start)(void *ctx, struct world *w, uint32_t node); /* NULL: the node refuses to start, which fails the run */
    /* crash: the process dies in the middle of what it does. Memory is to be freed, nothing else. */
    void (*stop)(void *ctx, void *self, bool crash);
    void (*receive)(void *ctx, void *self, uint32_t from, struct slice bytes);
    void (*timer)(void *ctx, void *self); /* the time of world_timer has come, or the clock jumped */
    void (*task)(void *ctx, void *self, uint32_t kind, uint64_t arg); /* of world_after */
    bool (*leads)(void *ctx, void *self); /* a crash of this node is worth more than that of another */
};

/* Mean times between faults of a kind, in ms; 0: it does not happen. */
struct world_faults {
    uint32_t crash, leader_crash, power, cut, isolate, slow_disk, full_disk, jump, pause;
    uint32_t loss_permille; /* of frames */
    uint32_t delay_ms;      /* of frames, at most */
    uint32_t drift_ppm;     /* of clocks, at most */
};

struct world_counts {
    uint64_t crashes, leader_crashes, power_losses, cuts, slow_disks, full_disks, jumps, pauses, completed;
    uint64_t frames, frames_lost, events;
};

struct world *world_new(uint32_t nodes, uint64_t seed, const struct world_program *program, bool trace);
void world_free(struct world *w);

/* ---- running */
void world_run(struct world *w, uint64_t us); /* so much longer, or until it failed */
uint64_t world_now(const struct world *w);    /* true time */
void world_set_faults(struct world *w, const struct world_faults *f);
void world_heal(struct world *w); /* ends all faults, starts all nodes, no new ones */
const struct world_counts *world_counts(const struct world *w);
struct rng *world_rng(struct world *w);

/* The run failed: only the first reason is kept. */
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *world_failure(const struct world *w); /* NULL: none */
/* A line of the run's story, if it is wanted. node 0: nobody's. */
void world_trace(struct world *w, uint32_t node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A number that depends on all that was said with it: equal runs have equal ones. */
void world_note(struct world *w, uint64_t what);
uint64_t world_hash(const struct world *w);

/* ---- nodes: 1, 2, .. */
void *world_node(struct world *w, uint32_t node); /* what start gave; NULL: it is down */
void world_start(struct world *w, uint32_t node);
void world_crash(struct world *w, uint32_t node, bool power);
/* A fault of this node now, as they come by themselves: it has an end. */
enum world_strike { WORLD_CRASH, WORLD_POWER, WORLD_ISOLATE, WORLD_PAUSE, WORLD_STRIKES };
void world_strike(struct world *w, uint32_t node, enum world_strike kind);
uint64_t world_clock(const struct world *w, uint32_t node); /* ms */
void world_jump(struct world *w, uint32_t node, int64_t ms);
void world_timer(struct world *w, uint32_t node, uint64_t clock_ms); /* one per node: the last call counts */
/* A task of a node dies with it; one of node 0 is the scenario's own (self is NULL). */
void world_after(struct world *w, uint32_t node, uint64_t us, uint32_t kind, uint64_t arg);

/* ---- network */
void world_send(struct world *w, uint32_t from, uint32_t to, struct slice bytes);
void world_cut(struct world *w, uint32_t from, uint32_t to, bool cut);
bool world_reaches(const struct world *w, uint32_t from, uint32_t to); /* both are up and the way is not cut */

/* ---- disks */
const struct file_ops *world_disk(struct world *w, uint32_t node); /* its directory is "/n" */
uint64_t world_disk_us(struct world *w, uint32_t node);            /* what a write takes now */
/* For disks that lie: bytes that were synced are zeros again. After a crash, before the start. */
void world_forget_bytes(struct world *w, uint32_t node, const char *path, uint64_t at, uint64_t n);
