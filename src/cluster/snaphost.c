#include "cluster/snaphost.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "cluster/courier.h"
#include "cluster/groupdir.h"
#include "cluster/raftthread.h"
#include "cluster/snapcore.h"
#include "cluster/snapper.h"
#include "cluster/snapsend.h"
#include "cluster/wiresnap.h"
#include "io/file.h"

struct snaphost {
    struct snapcore core;
};

/* ---- life */

/* Its name is durable: the log will rely on what is in it. */
static int make_folder(const struct snaphost_options *o)
{
    char parent[GROUPDIR_PATH_MAX];
    const char *slash = strrchr(o->dir, '/');
    int rc = o->files->mkdir(o->files->ctx, o->dir);
    if (rc == -EEXIST) return 0;
    if (rc) return rc;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - o->dir) : 1, slash ? o->dir : ".");
    return o->files->sync_dir(o->files->ctx, parent[0] ? parent : "/");
}

/* A node that was ended while it dropped a replica has the files of a group that its log has no more. */
static int sweep(const struct snaphost_options *o)
{
    uint32_t n = raftthread_found(o->raft, NULL, 0), *groups = mem_alloc((n + 1) * sizeof *groups);
    struct raftthread_found *found = mem_alloc((n + 1) * sizeof *found);
    raftthread_found(o->raft, found, n);
    for (uint32_t i = 0; i < n; i++) groups[i] = found[i].group;
    int rc = groupdir_sweep(o->files, o->dir, groups, n);
    mem_free(found);
    mem_free(groups);
    return rc;
}

static int prepare_folder(const struct snaphost_options *o)
{
    int rc = make_folder(o);
    return rc ? rc : sweep(o);
}

struct snaphost *snaphost_open(const struct snaphost_options *options, struct buf *error)
{
    int rc = prepare_folder(options);
    if (rc < 0) {
        buf_printf(error, "the folder of snapshots %s cannot be used: %s", options->dir, err_text(rc));
        return NULL;
    }
    struct snaphost *h = mem_zalloc(sizeof *h);
    snapcore_init(&h->core, options);
    h->core.snapper = snapper_new(&h->core);
    h->core.courier = courier_new(&h->core);
    return h;
}

int snaphost_start(struct snaphost *h)
{
    int rc = courier_start(h->core.courier);
    if (rc == 0) rc = snapper_start(h->core.snapper);
    if (rc < 0) snaphost_stop(h);
    return rc;
}

void snaphost_stop(struct snaphost *h)
{
    atomic_store(&h->core.stop, true);
    snapper_stop(h->core.snapper);
    courier_stop(h->core.courier);
}

void snaphost_close(struct snaphost *h)
{
    snaphost_stop(h);
    snapper_free(h->core.snapper);
    courier_free(h->core.courier);
    snapcore_fini(&h->core);
    mem_free(h);
}

/* ---- what the raft thread hands over */

void snaphost_recover(struct snaphost *h, const struct raftthread_found *found, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) snapper_put(h->core.snapper, &(struct snapper_job){.kind = SNAPPER_RECOVER, .group = found[i].group, .index = found[i].snapshot});
}

void snaphost_wanted(struct snaphost *h, uint32_t group, uint64_t log_bytes) { snapper_put(h->core.snapper, &(struct snapper_job){.kind = SNAPPER_TAKE, .group = group}); }

/* Without a snapshot the descriptor is empty, which the receiver refuses; it is offered the next one. */
void snaphost_describe(struct snaphost *h, uint32_t group, uint64_t index, struct buf *out)
{
    struct snapshelf_item item;
    if (snapshelf_find(&h->core.shelf, group, index, &item)) snapsend_add_offer(out, &item.file, &item.totals);
}

void snaphost_install(struct snaphost *h, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    courier_fetch(h->core.courier, from, group, index, term, descriptor);
}

void snaphost_marked(struct snaphost *h, uint32_t group, uint64_t index) { courier_marked(h->core.courier, group, index); }
void snaphost_refill(struct snaphost *h, uint32_t group) { snapper_put(h->core.snapper, &(struct snapper_job){.kind = SNAPPER_REFILL, .group = group}); }

void snaphost_drop(struct snaphost *h, uint32_t group)
{
    snapper_drop(h->core.snapper, group);
    courier_drop(h->core.courier, group);
}

static bool is_well_formed(const struct wire_frame *f)
{
    struct wiresnap_want want;
    struct wiresnap_chunk chunk;
    struct wiresnap_done done;
    switch (f->type) {
    case WIRE_SNAP_WANT: return wiresnap_get_want(f, &want) == 0;
    case WIRE_SNAP_CHUNK: return wiresnap_get_chunk(f, &chunk) == 0;
    case WIRE_SNAP_DONE: return wiresnap_get_done(f, &done) == 0;
    default: return false; /* offers come with the leader's wish */
    }
}

int snaphost_frame(struct snaphost *h, uint64_t from, const struct wire_frame *f)
{
    if (!is_well_formed(f)) return -EBADMSG;
    courier_frame(h->core.courier, from, f);
    return 0;
}

/* Whichever way came back, something may have been lost on it. */
void snaphost_up(struct snaphost *h, uint64_t peer, enum links_way way) { courier_up(h->core.courier, peer); }

/* What was asked for cannot be sent; it is asked for again when the peer finds that nothing comes. */
void snaphost_down(struct snaphost *h, uint64_t peer, enum links_way way)
{
    if (way == LINKS_OUT) courier_down(h->core.courier, peer);
}

void snaphost_look(struct snaphost *h, struct snaphost_info *out)
{
    pthread_mutex_lock(&h->core.lock);
    *out = h->core.info;
    pthread_mutex_unlock(&h->core.lock);
}
