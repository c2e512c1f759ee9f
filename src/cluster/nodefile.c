#include "cluster/nodefile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "io/file.h"

enum { FORMAT = 1, PATH_BYTES = 4096 };

static int path_of(char path[PATH_BYTES], const char *dir, const char *name)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    return n < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

static int fail(struct buf *error, const char *dir, const char *name, int rc, const char *what)
{
    buf_printf(error, "%s/%s: %s", dir, name, what ? what : err_text(rc));
    return rc;
}

/* ---- NODE */

static void add_cluster(struct buf *out, const uint8_t id[META_CLUSTER_ID])
{
    buf_add_str(out, "cluster ");
    for (int i = 0; i < META_CLUSTER_ID; i++) buf_printf(out, "%02x", id[i]);
    buf_add_byte(out, '\n');
}

static bool get_cluster(const char *hex, uint8_t id[META_CLUSTER_ID])
{
    if (strlen(hex) != 2 * META_CLUSTER_ID) return false;
    for (int i = 0; i < META_CLUSTER_ID; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return false;
        id[i] = (uint8_t)byte;
    }
    return true;
}

static bool get_founder(const char *line, struct nodefile *n)
{
    struct nodefile_founder *f = &n->founders[n->n_founders];
    if (n->n_founders == NODEFILE_FOUNDERS_MAX || sscanf(line, "founder %" SCNu64 " %" SCNx64 " %255s %255s", &f->id, &f->instance, f->peer, f->clients) != 4) return false;
    n->n_founders++;
    return f->id == n->n_founders;
}

/* One line; false: it makes no sense. */
static bool get_line(const char *line, struct nodefile *n)
{
    char hex[2 * META_CLUSTER_ID + 2];
    unsigned yes;
    if (sscanf(line, "cluster %33s", hex) == 1) return get_cluster(hex, n->cluster);
    if (sscanf(line, "founded %u", &yes) == 1) {
        n->founded = yes;
        return yes <= 1;
    }
    if (strncmp(line, "founder ", strlen("founder ")) == 0) return get_founder(line, n);
    if (sscanf(line, "log %u", &yes) == 1) {
        n->has_log = yes;
        return yes <= 1;
    }
    return sscanf(line, "node %" SCNu64, &n->id) == 1 || sscanf(line, "instance %" SCNx64, &n->instance) == 1 || sscanf(line, "seed %" SCNx64, &n->seed) == 1 ||
           sscanf(line, "incarnation %" SCNu64, &n->incarnation) == 1 || sscanf(line, "shards %" SCNu32, &n->shards) == 1 ||
           sscanf(line, "replication %" SCNu32, &n->replication) == 1;
}

static bool is_whole(const struct nodefile *n)
{
    static const uint8_t none[META_CLUSTER_ID];
    return n->id && n->instance && n->incarnation && memcmp(n->cluster, none, sizeof none) != 0 && n->id != 0;
}

int nodefile_read(const struct file_ops *files, const char *dir, struct nodefile *out, struct buf *error)
{
    char path[PATH_BYTES];
    struct buf text = {0};
    unsigned format = 0;
    *out = (struct nodefile){0};
    int rc = path_of(path, dir, "NODE");
    if (rc == 0) rc = file_read_whole(files, path, &text);
    if (rc < 0) {
        buf_fini(&text);
        return rc == -ENOENT ? rc : fail(error, dir, "NODE", rc, NULL);
    }
    buf_add_byte(&text, '\0');
    char *rest = text.p, *line = strsep(&rest, "\n");
    bool ok = sscanf(line, "sherd-node %u", &format) == 1 && format == FORMAT;
    const char *why = format > FORMAT ? "it was written by a later version of this program" : "it does not say who this node is: it is damaged";
    while (ok && (line = strsep(&rest, "\n")))
        if (*line) ok = get_line(line, out);
    if (!ok || !is_whole(out)) rc = fail(error, dir, "NODE", -EINVAL, why);
    buf_fini(&text);
    return rc < 0 ? rc : 0;
}

int nodefile_write(const struct file_ops *files, const char *dir, const struct nodefile *n, struct buf *error)
{
    char path[PATH_BYTES];
    struct buf text = {0};
    buf_printf(&text, "sherd-node %d\n", FORMAT);
    add_cluster(&text, n->cluster);
    buf_printf(&text, "node %" PRIu64 "\ninstance %016" PRIx64 "\nseed %016" PRIx64 "\nincarnation %" PRIu64 "\n", n->id, n->instance, n->seed, n->incarnation);
    if (n->has_log) buf_add_str(&text, "log 1\n");
    if (n->n_founders) buf_printf(&text, "shards %u\nreplication %u\nfounded %d\n", n->shards, n->replication, n->founded);
    for (uint32_t i = 0; i < n->n_founders; i++) {
        const struct nodefile_founder *f = &n->founders[i];
        buf_printf(&text, "founder %" PRIu64 " %016" PRIx64 " %s %s\n", f->id, f->instance, f->peer, f->clients);
    }
    int rc = path_of(path, dir, "NODE");
    if (rc == 0) rc = file_put_whole(files, dir, path, buf_slice(&text));
    buf_fini(&text);
    return rc < 0 ? fail(error, dir, "NODE", rc, NULL) : 0;
}

/* ---- PEERS */

void nodefile_put_peer(struct nodefile_peers *p, uint64_t id, const char *address)
{
    uint32_t i = 0;
    while (i < p->n && p->of[i].id != id) i++;
    if (i == NODEFILE_PEERS_MAX) return;
    if (i == p->n) p->n++;
    p->of[i].id = id;
    snprintf(p->of[i].address, sizeof p->of[i].address, "%s", address);
}

void nodefile_del_peer(struct nodefile_peers *p, uint64_t id)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->of[i].id != id) continue;
        p->of[i] = p->of[--p->n];
        return;
    }
}

int nodefile_read_peers(const struct file_ops *files, const char *dir, struct nodefile_peers *out, struct buf *error)
{
    char path[PATH_BYTES], address[WIRE_ADDRESS_MAX + 1];
    struct buf text = {0};
    uint64_t id;
    *out = (struct nodefile_peers){0};
    int rc = path_of(path, dir, "PEERS");
    if (rc == 0) rc = file_read_whole(files, path, &text);
    buf_add_byte(&text, '\0');
    char *rest = text.p, *line;
    while (rc >= 0 && (line = strsep(&rest, "\n"))) {
        if (!*line) continue;
        if (sscanf(line, "%" SCNu64 " %255s", &id, address) == 2) nodefile_put_peer(out, id, address);
        else rc = -EINVAL;
    }
    buf_fini(&text);
    if (rc == -ENOENT) return 0;
    return rc < 0 ? fail(error, dir, "PEERS", rc, rc == -EINVAL ? "a line is no number and address" : NULL) : 0;
}

int nodefile_write_peers(const struct file_ops *files, const char *dir, const struct nodefile_peers *p)
{
    char path[PATH_BYTES];
    struct buf text = {0};
    for (uint32_t i = 0; i < p->n; i++) buf_printf(&text, "%" PRIu64 " %s\n", p->of[i].id, p->of[i].address);
    int rc = path_of(path, dir, "PEERS");
    if (rc == 0) rc = file_put_whole(files, dir, path, buf_slice(&text));
    buf_fini(&text);
    return rc;
}
