/* The parts of `sherd cluster`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* ---- clusterinit.c */

int clusterinit_run(int argc, char **argv); /* what follows "init" */

enum { CLUSTERINIT_NODES_MAX = 16 };

struct clusterinit {
    const char *hosts[CLUSTERINIT_NODES_MAX]; /* "host" or "host:port" of the clients' port */
    uint32_t n;
    uint32_t shards, replication; /* 0: the usual */
};
/* The list of nodes for the option cluster-peers: appended. False: hosts[*bad] makes no sense, or is there twice. */
bool clusterinit_peers(const struct clusterinit *c, struct buf *out, uint32_t *bad);
/* The file of node i, from 0 on, whose peers are these: appended. */
void clusterinit_toml(const struct clusterinit *c, uint32_t i, struct slice peers, struct buf *out);
/* Its command line: appended. */
void clusterinit_command(const struct clusterinit *c, uint32_t i, struct slice peers, struct buf *out);

/* ---- clusterdemo.c */

int clusterdemo_run(int argc, char **argv); /* what follows "demo" */

/* ---- clusterpaint.c: tables of text with colours. Head lines are bold, what needs a look is red or yellow. */
void clusterpaint(struct slice text, bool colours, struct buf *out);
