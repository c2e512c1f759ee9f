#include "io/file_sim.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"

enum { NO_NODE = -1, FD_BASE = 1000 };

struct change { /* of a file, since its last sync */
    bool is_write, lost;
    uint64_t at; /* of a truncate: the new size */
    struct buf bytes;
};

struct node {
    bool is_dir;
    struct buf live, durable;
    struct change *changes;
    uint32_t n_changes;
};

struct name {
    char *path;
    int live, durable; /* index of a node, or NO_NODE */
};

struct dir_change { /* of the names of a directory, since its last sync */
    char *dir, *path, *from; /* from: this name is gone at the same moment (rename); or NULL */
    int node;
};

struct file_sim {
    struct file_ops ops;
    struct rng rng;
    char *root;
    struct file_sim_faults faults;
    uint64_t calls;
    struct node **nodes;
    struct name *names;
    struct dir_change *dir_changes;
    int *fds; /* node of each descriptor ever given, NO_NODE once closed */
    uint32_t n_nodes, n_names, n_dir_changes, n_fds;
};

#define GROW(array, n) ((array) = mem_resize((array), ((size_t)(n) + 1) * sizeof *(array)))

static bool coin(struct file_sim *s) { return rng_below(&s->rng, 2); }

/* --- bytes of a file --- */

static void resize(struct buf *b, uint64_t size)
{
    if (size > b->len) memset(buf_room(b, size - b->len), 0, size - b->len);
    b->len = size;
}

static void put_bytes(struct buf *b, uint64_t at, const char *p, size_t n)
{
    if (at + n > b->len) resize(b, at + n);
    if (n) memcpy(b->p + at, p, n);
}

static void apply(struct buf *b, const struct change *c)
{
    if (c->is_write) put_bytes(b, c->at, c->bytes.p, c->bytes.len);
    else resize(b, c->at);
}

/* The change as a power loss leaves it. */
static void apply_in_part(struct file_sim *s, struct buf *b, const struct change *c)
{
    unsigned fate = (unsigned)rng_below(&s->rng, 3);
    if (c->lost || fate == 0) return;
    if (fate == 1 || !c->is_write || c->bytes.len == 0) {
        apply(b, c);
        return;
    }
    size_t from = coin(s) ? 0 : rng_below(&s->rng, c->bytes.len), to = from + rng_below(&s->rng, c->bytes.len - from + 1);
    put_bytes(b, c->at + from, c->bytes.p + from, to - from);
    if (coin(s) && c->at + c->bytes.len > b->len) resize(b, c->at + c->bytes.len);
}

static void forget_changes(struct node *node)
{
    for (uint32_t i = 0; i < node->n_changes; i++) buf_fini(&node->changes[i].bytes);
    node->n_changes = 0;
}

static void note_change(struct node *node, struct change c)
{
    apply(&node->live, &c);
    GROW(node->changes, node->n_changes);
    node->changes[node->n_changes++] = c;
}

static void copy_bytes(struct buf *to, const struct buf *from)
{
    to->len = 0;
    buf_add_slice(to, buf_slice(from));
}

/* --- names --- */

static int new_node(struct file_sim *s, bool is_dir)
{
    GROW(s->nodes, s->n_nodes);
    struct node *node = mem_zalloc(sizeof *node);
    node->is_dir = is_dir;
    s->nodes[s->n_nodes] = node;
    return (int)s->n_nodes++;
}

static struct name *find_name(struct file_sim *s, const char *path)
{
    for (uint32_t i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i].path, path) == 0) return &s->names[i];
    return NULL;
}

static struct name *name_of(struct file_sim *s, const char *path)
{
    struct name *name = find_name(s, path);
    if (name) return name;
    GROW(s->names, s->n_names);
    name = &s->names[s->n_names++];
    *name = (struct name){mem_strdup(path), NO_NODE, NO_NODE};
    return name;
}

static struct node *live_node(struct file_sim *s, const char *path)
{
    const struct name *name = find_name(s, path);
    return name && name->live != NO_NODE ? s->nodes[name->live] : NULL;
}

static char *parent_of(const char *path)
{
    char *parent = mem_strdup(path), *slash = strrchr(parent, '/');
    if (slash) *slash = '\0';
    return parent;
}

static bool has_parent(struct file_sim *s, const char *path)
{
    char *parent = parent_of(path);
    const struct node *node = live_node(s, parent);
    mem_free(parent);
    return node && node->is_dir;
}

/* path now names node (NO_NODE: nothing); what `from` named, if given, is no longer under that name. */
static void link_name(struct file_sim *s, const char *path, int node, const char *from)
{
    name_of(s, path)->live = node;
    if (from) name_of(s, from)->live = NO_NODE;
    GROW(s->dir_changes, s->n_dir_changes);
    s->dir_changes[s->n_dir_changes++] = (struct dir_change){parent_of(path), mem_strdup(path), from ? mem_strdup(from) : NULL, node};
}

static void make_durable(struct file_sim *s, const struct dir_change *c)
{
    name_of(s, c->path)->durable = c->node;
    if (c->from) name_of(s, c->from)->durable = NO_NODE;
}

static void dir_change_fini(struct dir_change *c)
{
    mem_free(c->dir);
    mem_free(c->path);
    mem_free(c->from);
}

/* --- faults --- */

/* Counts a changing call; gives 0, or what it fails with. */
static int fault(struct file_sim *s)
{
    s->calls++;
    if (s->faults.power_off_at && s->calls >= s->faults.power_off_at) return -EIO;
    return s->calls == s->faults.fail_at ? -s->faults.fail_errno : 0;
}

static bool is_off(const struct file_sim *s) { return s->faults.power_off_at && s->calls >= s->faults.power_off_at; }

static uint64_t space_used(const struct file_sim *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_names; i++)
        if (s->names[i].live != NO_NODE) sum += s->nodes[s->names[i].live]->live.len;
    return sum;
}

/* --- the calls --- */

static struct node *node_of_fd(struct file_sim *s, int fd)
{
    uint32_t i = (uint32_t)(fd - FD_BASE);
    return fd >= FD_BASE && i < s->n_fds && s->fds[i] != NO_NODE ? s->nodes[s->fds[i]] : NULL;
}

static int new_fd(struct file_sim *s, int node)
{
    GROW(s->fds, s->n_fds);
    s->fds[s->n_fds] = node;
    return FD_BASE + (int)s->n_fds++;
}

static int sim_open(void *ctx, const char *path, enum file_mode mode)
{
    struct file_sim *s = ctx;
    if (mode == FILE_CREATE) {
        int rc = fault(s);
        if (rc) return rc;
        if (!has_parent(s, path)) return -ENOENT;
        if (!live_node(s, path)) link_name(s, path, new_node(s, false), NULL);
        else note_change(live_node(s, path), (struct change){.at = 0});
    }
    struct node *node = live_node(s, path);
    if (!node) return -ENOENT;
    return node->is_dir ? -EISDIR : new_fd(s, find_name(s, path)->live);
}

static void sim_close(void *ctx, int fd)
{
    struct file_sim *s = ctx;
    if (node_of_fd(s, fd)) s->fds[fd - FD_BASE] = NO_NODE;
}

static int64_t sim_size(void *ctx, int fd)
{
    const struct node *node = node_of_fd(ctx, fd);
    return node ? (int64_t)node->live.len : -EBADF;
}

static ssize_t sim_read(void *ctx, int fd, void *p, size_t n, uint64_t at)
{
    const struct node *node = node_of_fd(ctx, fd);
    if (!node) return -EBADF;
    if (at >= node->live.len) return 0;
    if (n > node->live.len - at) n = node->live.len - at;
    if (n) memcpy(p, node->live.p + at, n);
    return (ssize_t)n;
}

/* How much of a write is done, and what it then fails with. */
static size_t limit_write(struct file_sim *s, const struct node *node, size_t n, uint64_t at, int *rc)
{
    if (*rc) return n ? rng_below(&s->rng, n) : 0;
    if (s->faults.space_bytes && at + n > node->live.len) {
        uint64_t used = space_used(s), room = used < s->faults.space_bytes ? s->faults.space_bytes - used : 0;
        uint64_t end = node->live.len + room;
        if (at + n > end) {
            *rc = -ENOSPC;
            return end > at ? (size_t)(end - at) : 0;
        }
    }
    return s->faults.short_writes && n > 1 && coin(s) ? 1 + rng_below(&s->rng, n - 1) : n;
}

static ssize_t sim_write(void *ctx, int fd, const void *p, size_t n, uint64_t at)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    struct node *node = node_of_fd(s, fd);
    if (!node) return -EBADF;
    if (is_off(s)) return rc;
    n = limit_write(s, node, n, at, &rc);
    struct change c = {.is_write = true, .at = at};
    buf_add(&c.bytes, p, n);
    if (n) note_change(node, c);
    return rc ? rc : (ssize_t)n;
}

static int sim_truncate(void *ctx, int fd, uint64_t size)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    struct node *node = node_of_fd(s, fd);
    if (!node) return -EBADF;
    if (rc == 0) note_change(node, (struct change){.at = size});
    return rc;
}

static void lose_changes(struct file_sim *s, struct node *node)
{
    for (uint32_t i = 0; i < node->n_changes; i++) node->changes[i].lost |= coin(s);
}

static void sync_node(struct node *node)
{
    for (uint32_t i = 0; i < node->n_changes; i++)
        if (!node->changes[i].lost) apply(&node->durable, &node->changes[i]);
    forget_changes(node);
}

static int sim_sync(void *ctx, const int *fds, uint32_t n)
{
    struct file_sim *s = ctx;
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        int failed = fault(s);
        struct node *node = node_of_fd(s, fds[i]);
        if (!node) failed = -EBADF;
        else if (failed && !is_off(s)) lose_changes(s, node);
        else if (!failed) sync_node(node);
        if (failed) rc = failed;
    }
    return rc;
}

/* As a kernel that has them all at once: each file is synced as soon as it is written, whatever the others do. */
static void sim_commit(void *ctx, struct file_piece *pieces, uint32_t n)
{
    struct file_sim *s = ctx;
    uint32_t first = n ? (uint32_t)rng_below(&s->rng, n) : 0;
    for (uint32_t k = 0; k < n; k++) {
        struct file_piece *p = &pieces[(first + k) % n];
        p->write_rc = file_write_all(&s->ops, p->fd, p->bytes, p->at);
        p->sync_rc = p->write_rc ? -ECANCELED : sim_sync(s, &p->fd, 1);
    }
}

static int sim_sync_dir(void *ctx, const char *path)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    if (rc) return rc;
    if (!live_node(s, path)) return -ENOENT;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_dir_changes; i++) {
        struct dir_change *c = &s->dir_changes[i];
        if (strcmp(c->dir, path) != 0) {
            s->dir_changes[kept++] = *c;
            continue;
        }
        make_durable(s, c);
        dir_change_fini(c);
    }
    s->n_dir_changes = kept;
    return 0;
}

static int sim_rename(void *ctx, const char *from, const char *to)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    if (rc) return rc;
    const struct name *name = find_name(s, from);
    if (!name || name->live == NO_NODE || !has_parent(s, to)) return -ENOENT;
    link_name(s, to, name->live, from);
    return 0;
}

static int sim_unlink(void *ctx, const char *path)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    if (rc) return rc;
    if (!live_node(s, path)) return -ENOENT;
    link_name(s, path, NO_NODE, NULL);
    return 0;
}

static int sim_mkdir(void *ctx, const char *path)
{
    struct file_sim *s = ctx;
    int rc = fault(s);
    if (rc) return rc;
    if (live_node(s, path)) return -EEXIST;
    if (!has_parent(s, path)) return -ENOENT;
    link_name(s, path, new_node(s, true), NULL);
    return 0;
}

static int sim_list(void *ctx, const char *path, void (*each)(void *arg, const char *name), void *arg)
{
    struct file_sim *s = ctx;
    size_t n = strlen(path);
    const struct node *dir = live_node(s, path);
    if (!dir || !dir->is_dir) return -ENOENT;
    for (uint32_t i = 0; i < s->n_names; i++) {
        const char *p = s->names[i].path;
        if (s->names[i].live != NO_NODE && strncmp(p, path, n) == 0 && p[n] == '/' && !strchr(p + n + 1, '/')) each(arg, p + n + 1);
    }
    return 0;
}

/* --- crashes --- */

/* Of each directory, a random number of its pending changes, the oldest ones, were made. */
static void settle_names(struct file_sim *s)
{
    for (uint32_t i = 0; i < s->n_names; i++) {
        if (s->names[i].live == NO_NODE || !s->nodes[s->names[i].live]->is_dir) continue;
        bool lost = coin(s);
        for (uint32_t k = 0; k < s->n_dir_changes && !lost; k++) {
            if (strcmp(s->dir_changes[k].dir, s->names[i].path) != 0) continue;
            make_durable(s, &s->dir_changes[k]);
            lost = rng_below(&s->rng, 4) == 0;
        }
    }
}

static bool is_reachable(struct file_sim *s, const char *path)
{
    if (strcmp(path, s->root) == 0) return true;
    char *parent = parent_of(path);
    const struct name *name = find_name(s, parent);
    bool reachable = name && name->durable != NO_NODE && is_reachable(s, parent);
    mem_free(parent);
    return reachable;
}

static void lose_power(struct file_sim *s)
{
    settle_names(s);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct node *node = s->nodes[i];
        for (uint32_t k = 0; k < node->n_changes; k++) apply_in_part(s, &node->durable, &node->changes[k]);
    }
    for (uint32_t i = 0; i < s->n_names; i++)
        if (!is_reachable(s, s->names[i].path)) s->names[i].durable = NO_NODE;
}

static void keep_everything(struct file_sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) copy_bytes(&s->nodes[i]->durable, &s->nodes[i]->live);
    for (uint32_t i = 0; i < s->n_names; i++) s->names[i].durable = s->names[i].live;
}

void file_sim_crash(struct file_sim *s, bool power)
{
    if (power) lose_power(s);
    else keep_everything(s);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        copy_bytes(&s->nodes[i]->live, &s->nodes[i]->durable);
        forget_changes(s->nodes[i]);
    }
    for (uint32_t i = 0; i < s->n_names; i++) s->names[i].live = s->names[i].durable;
    for (uint32_t i = 0; i < s->n_dir_changes; i++) dir_change_fini(&s->dir_changes[i]);
    for (uint32_t i = 0; i < s->n_fds; i++) s->fds[i] = NO_NODE;
    s->n_dir_changes = 0;
    s->faults = (struct file_sim_faults){0};
}

/* --- for the test --- */

static const struct file_ops calls = {
    .open = sim_open,
    .close = sim_close,
    .size = sim_size,
    .read = sim_read,
    .write = sim_write,
    .truncate = sim_truncate,
    .sync = sim_sync,
    .commit = sim_commit,
    .sync_dir = sim_sync_dir,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .list = sim_list,
};

struct file_sim *file_sim_new(const char *root, uint64_t seed)
{
    struct file_sim *s = mem_zalloc(sizeof *s);
    s->ops = calls;
    s->ops.ctx = s;
    s->root = mem_strdup(root);
    rng_init(&s->rng, seed * 0x9e3779b97f4a7c15ull + 1);
    struct name *name = name_of(s, root);
    name->live = name->durable = new_node(s, true);
    return s;
}

void file_sim_free(struct file_sim *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        forget_changes(s->nodes[i]);
        buf_fini(&s->nodes[i]->live);
        buf_fini(&s->nodes[i]->durable);
        mem_free(s->nodes[i]->changes);
        mem_free(s->nodes[i]);
    }
    for (uint32_t i = 0; i < s->n_names; i++) mem_free(s->names[i].path);
    for (uint32_t i = 0; i < s->n_dir_changes; i++) dir_change_fini(&s->dir_changes[i]);
    mem_free(s->nodes);
    mem_free(s->names);
    mem_free(s->dir_changes);
    mem_free(s->fds);
    mem_free(s->root);
    mem_free(s);
}

const struct file_ops *file_sim_ops(struct file_sim *s) { return &s->ops; }
void file_sim_commit_together(struct file_sim *s, bool on) { s->ops.commit = on ? sim_commit : NULL; }
uint64_t file_sim_calls(const struct file_sim *s) { return s->calls; }
void file_sim_set_faults(struct file_sim *s, struct file_sim_faults f) { s->faults = f; }

struct buf *file_sim_bytes(struct file_sim *s, const char *path)
{
    struct node *node = live_node(s, path);
    return node && !node->is_dir ? &node->live : NULL;
}
