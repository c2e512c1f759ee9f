/* What is true of the groups of a run: which entry stands at which index, and what clients were told. Everything that a node or a client sees is compared with it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/raftnode.h"
#include "world.h"

enum { RAFTCHECK_GROUPS = 4, RAFTCHECK_REGISTERS = 8 };

/* The state machine of a group: registers, and a hash of all commands in their order. */
struct raftcheck_state {
    uint64_t applied, hash;
    uint64_t registers[RAFTCHECK_REGISTERS];
};

/* A command: its number, which no other has, and the register that it sets to it; some bytes to fill it. */
void raftcheck_command(struct buf *out, uint64_t id, uint32_t reg, uint32_t filler);
uint64_t raftcheck_id(const struct raftnode_entry *e); /* 0: not a command */
void raftcheck_apply(struct raftcheck_state *s, uint64_t index, enum raftnode_entry_type type, struct slice data);

struct raftcheck;

struct raftcheck *raftcheck_new(struct world *w);
void raftcheck_free(struct raftcheck *c);

/* A node was handed this entry. `after` is its state then, unless it runs ahead (NULL). */
void raftcheck_committed(struct raftcheck *c, uint32_t node, uint32_t group, const struct raftnode_entry *e, const struct raftcheck_state *after);
void raftcheck_acked(struct raftcheck *c, uint32_t group, uint64_t index, uint64_t id); /* a client was told so */
uint64_t raftcheck_floor(const struct raftcheck *c, uint32_t group); /* a read that begins now must show at least the state at this index */
void raftcheck_read(struct raftcheck *c, uint32_t node, uint32_t group, uint64_t floor, const struct raftcheck_state *shown); /* a client was shown this */
/* At the end: nothing that was acknowledged is missing, nothing stands twice in a log. */
void raftcheck_end(struct raftcheck *c);
uint64_t raftcheck_last(const struct raftcheck *c, uint32_t group); /* the last entry that anybody was handed */
uint64_t raftcheck_acks(const struct raftcheck *c, uint32_t group);
uint64_t raftcheck_reads(const struct raftcheck *c);
