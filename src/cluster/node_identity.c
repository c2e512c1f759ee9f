/* Who this node is: read from its directory, or made there. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "cluster/node_own.h"
#include "io/file.h"

enum { PATH_BYTES = 4096 };

static uint64_t random_number(void)
{
    uint64_t r = 0;
    while (r == 0) CHECK(getrandom(&r, sizeof r, 0) == sizeof r);
    return r;
}

static int folder(const struct node_options *o, char dir[PATH_BYTES], struct buf *error)
{
    snprintf(dir, PATH_BYTES, "%s/cluster", o->dir);
    int rc = o->files->mkdir(o->files->ctx, dir);
    if (rc == -EEXIST) return 0;
    if (rc == 0) rc = o->files->sync_dir(o->files->ctx, o->dir);
    if (rc < 0) buf_printf(error, "%s: %s", dir, strerror(-rc));
    return rc;
}

/* ---- INSTANCE */

int node_instance(const struct node_options *o, uint64_t *instance, struct buf *error)
{
    char dir[PATH_BYTES], path[PATH_BYTES + 16];
    struct buf text = {0};
    int rc = folder(o, dir, error);
    if (rc < 0) return rc;
    snprintf(path, sizeof path, "%s/INSTANCE", dir);
    rc = file_read_whole(o->files, path, &text);
    buf_add_byte(&text, '\0');
    if (rc == -ENOENT) {
        *instance = random_number();
        text.len = 0;
        buf_printf(&text, "%016" PRIx64 "\n", *instance);
        rc = file_put_whole(o->files, dir, path, buf_slice(&text));
    } else if (rc >= 0 && (sscanf(text.p, "%" SCNx64, instance) != 1 || !*instance)) {
        rc = -EINVAL;
    }
    if (rc < 0) buf_printf(error, "%s: %s", path, rc == -EINVAL ? "it has no number" : strerror(-rc));
    buf_fini(&text);
    return rc < 0 ? rc : 0;
}

bool node_is_known(const struct node_options *o)
{
    char dir[PATH_BYTES];
    struct nodefile f;
    struct buf why = {0};
    snprintf(dir, sizeof dir, "%s/cluster", o->dir);
    int rc = nodefile_read(o->files, dir, &f, &why);
    buf_fini(&why);
    return rc != -ENOENT;
}

/* ---- a new one */

static int refuse(struct buf *error, const char *why)
{
    buf_add_str(error, why);
    return -EINVAL;
}

/* One of the first: everything follows from the list that each of them was given, so that they agree without having spoken. */
static int make_founder(const struct node_options *o, struct nodefile *f, struct nodefile_peers *peers, struct buf *error)
{
    struct buf text = {0};
    if (o->n_peers > NODEFILE_FOUNDERS_MAX) return refuse(error, "a new cluster begins with at most 16 nodes");
    if (o->id < 1 || o->id > o->n_peers) return refuse(error, "this node's number is not in the list of the cluster's first nodes");
    buf_printf(&text, "shards=%u replication=%u", o->shards, o->replication);
    for (uint32_t i = 0; i < o->n_peers; i++) {
        if (o->peers[i].id != i + 1) {
            buf_fini(&text);
            return refuse(error, "the first nodes of a cluster are numbered 1, 2, ... in order");
        }
        buf_printf(&text, " %u=%s/%s", i + 1, o->peers[i].address, o->peers[i].clients);
        f->founders[i] = (struct nodefile_founder){.id = i + 1};
        snprintf(f->founders[i].peer, sizeof f->founders[i].peer, "%s", o->peers[i].address);
        snprintf(f->founders[i].clients, sizeof f->founders[i].clients, "%s", o->peers[i].clients);
        if (i + 1 != o->id) nodefile_put_peer(peers, i + 1, o->peers[i].address);
    }
    for (int i = 0; i < META_CLUSTER_ID / 8; i++) {
        uint64_t part = keyhash(buf_slice(&text), (uint64_t)i + 1);
        memcpy(f->cluster + 8 * i, &part, sizeof part);
    }
    f->seed = keyhash(buf_slice(&text), META_CLUSTER_ID);
    f->id = o->id;
    f->shards = o->shards;
    f->replication = o->replication;
    f->n_founders = o->n_peers;
    f->founders[o->id - 1].instance = f->instance;
    f->founded = o->n_peers == 1;
    buf_fini(&text);
    return 0;
}

static bool get_hex(const char *hex, uint8_t *out, size_t n)
{
    unsigned byte;
    for (size_t i = 0; i < n; i++) {
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

/* What the cluster answered. */
static int make_joined(const struct node_options *o, struct nodefile *f, struct nodefile_peers *peers, struct buf *error)
{
    char *text = mem_strdup(o->joined), *rest = text, *line, hex[2 * META_CLUSTER_ID + 2], address[WIRE_ADDRESS_MAX + 1];
    uint64_t id;
    bool ok = true, cluster = false, seed = false;
    while (ok && (line = strsep(&rest, "\n"))) {
        if (sscanf(line, "cluster %33s", hex) == 1) ok = cluster = strlen(hex) == 2 * META_CLUSTER_ID && get_hex(hex, f->cluster, META_CLUSTER_ID);
        else if (sscanf(line, "peer %" SCNu64 " %255s", &id, address) == 2) nodefile_put_peer(peers, id, address);
        else if (sscanf(line, "node %" SCNu64, &id) == 1) f->id = id;
        else if (sscanf(line, "seed %" SCNx64, &f->seed) == 1) seed = true;
    }
    mem_free(text);
    return ok && cluster && seed && f->id ? 0 : refuse(error, "what the cluster answered to JOIN makes no sense");
}

static void note_name(void *arg, const char *name) { *(bool *)arg = true; }

/* NODE is durable before there is a log: a log without it is of a node that nobody knows. What it said, it may say again with another meaning, because it counts its lives from the beginning. */
static int refuse_log(const struct node_options *o, const char *dir, struct buf *error)
{
    char path[PATH_BYTES + 8];
    bool any = false;
    snprintf(path, sizeof path, "%s/raft", dir);
    int rc = o->files->list(o->files->ctx, path, note_name, &any);
    if (rc < 0 && rc != -ENOENT) buf_printf(error, "%s: %s", path, strerror(-rc));
    else rc = any ? refuse(error, "there is a log here, but no file NODE that says whose: the directory is damaged, or not all of it is there") : 0;
    return rc;
}

static int make(const struct node_options *o, const char *dir, struct nodefile *f, struct buf *error)
{
    struct nodefile_peers peers = {0};
    *f = (struct nodefile){0};
    int rc = refuse_log(o, dir, error);
    if (rc == 0) rc = node_instance(o, &f->instance, error);
    if (rc == 0 && !o->joined && !o->n_peers) rc = refuse(error, "this directory is new: say which nodes the cluster begins with, or which node of a cluster it shall join");
    if (rc == 0) rc = o->joined ? make_joined(o, f, &peers, error) : make_founder(o, f, &peers, error);
    if (rc == 0) {
        rc = nodefile_write_peers(o->files, dir, &peers);
        if (rc < 0) buf_printf(error, "%s/PEERS: %s", dir, strerror(-rc));
    }
    return rc;
}

int node_identify(const struct node_options *o, struct node_identity *out, struct buf *error)
{
    char dir[PATH_BYTES];
    struct nodefile f;
    int rc = folder(o, dir, error);
    if (rc < 0) return rc;
    rc = nodefile_read(o->files, dir, &f, error);
    bool fresh = rc == -ENOENT;
    if (fresh) rc = make(o, dir, &f, error);
    if (rc < 0) return rc;
    f.incarnation++;
    rc = nodefile_write(o->files, dir, &f, error);
    *out = (struct node_identity){.id = f.id, .instance = f.instance, .incarnation = f.incarnation, .seed = f.seed, .fresh = fresh};
    memcpy(out->cluster, f.cluster, META_CLUSTER_ID);
    return rc;
}
