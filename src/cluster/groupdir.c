#include "cluster/groupdir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "io/file.h"

/* ---- names */

void groupdir_name(char name[GROUPDIR_NAME_MAX], const struct groupdir_file *f)
{
    int n = snprintf(name, GROUPDIR_NAME_MAX, "g%" PRIu32 "-%" PRIu64 "-%" PRIu64, f->group, f->index, f->term);
    if (f->kind == GROUPDIR_PART) snprintf(name + n, GROUPDIR_NAME_MAX - (size_t)n, "-%016" PRIx64 "-%" PRIu64 ".part", f->checksum, f->bytes);
    else snprintf(name + n, GROUPDIR_NAME_MAX - (size_t)n, "%s", f->kind == GROUPDIR_SNAPSHOT ? ".snap" : ".snap.new");
}

int groupdir_path(char path[GROUPDIR_PATH_MAX], const char *dir, const struct groupdir_file *f)
{
    char name[GROUPDIR_NAME_MAX];
    groupdir_name(name, f);
    return snprintf(path, GROUPDIR_PATH_MAX, "%s/%s", dir, name) < GROUPDIR_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Reads generously and compares with what it would have written: a name has one spelling. */
bool groupdir_parse(const char *name, struct groupdir_file *f)
{
    char again[GROUPDIR_NAME_MAX];
    int n = 0;
    *f = (struct groupdir_file){.kind = GROUPDIR_SNAPSHOT};
    if (strnlen(name, GROUPDIR_NAME_MAX) == GROUPDIR_NAME_MAX) return false;
    if (sscanf(name, "g%10" SCNu32 "-%20" SCNu64 "-%20" SCNu64 "%n", &f->group, &f->index, &f->term, &n) != 3) return false;
    if (strcmp(name + n, ".snap.new") == 0) f->kind = GROUPDIR_UNFINISHED;
    else if (sscanf(name + n, "-%16" SCNx64 "-%20" SCNu64, &f->checksum, &f->bytes) == 2) f->kind = GROUPDIR_PART;
    groupdir_name(again, f);
    return strcmp(name, again) == 0;
}

/* ---- what is there */

static void add_name(void *arg, const char *name)
{
    struct groupdir_list *l = arg;
    struct groupdir_file f;
    if (!groupdir_parse(name, &f)) return;
    l->v = mem_resize(l->v, (l->n + 1) * sizeof *l->v);
    l->v[l->n++] = f;
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_group_newest_first(const void *x, const void *y)
{
    const struct groupdir_file *a = x, *b = y;
    int d = compare(a->group, b->group);
    if (d == 0) d = compare(b->index, a->index);
    if (d == 0) d = compare(b->term, a->term);
    if (d == 0) d = compare(a->kind, b->kind);
    return d ? d : compare(a->checksum, b->checksum);
}

int groupdir_list(const struct file_ops *files, const char *dir, struct groupdir_list *out)
{
    *out = (struct groupdir_list){0};
    int rc = files->list(files->ctx, dir, add_name, out);
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_group_newest_first);
    if (rc < 0 && rc != -ENOENT) {
        mem_free(out->v);
        *out = (struct groupdir_list){0};
        return rc;
    }
    return 0;
}

/* ---- deleting */

static int drop(const struct file_ops *files, const char *dir, const struct groupdir_file *f)
{
    char path[GROUPDIR_PATH_MAX];
    int rc = groupdir_path(path, dir, f);
    if (rc == 0) rc = files->unlink(files->ctx, path);
    return rc == -ENOENT ? 0 : rc;
}

struct wish {
    uint32_t group;
    uint64_t before;
    const struct groupdir_file *but;
    uint64_t whole_group; /* the group of the last whole snapshot on the way along the list; UINT64_MAX: none yet */
    const uint32_t *groups; /* that are here */
    uint32_t n_groups;
};

static int drop_those(const struct file_ops *files, const char *dir, struct wish *w, bool (*goes)(struct wish *w, const struct groupdir_file *f))
{
    struct groupdir_list l;
    uint32_t gone = 0;
    int first = groupdir_list(files, dir, &l);
    for (uint32_t i = 0; i < l.n; i++) {
        if (!goes(w, &l.v[i])) continue;
        int rc = drop(files, dir, &l.v[i]);
        if (rc && !first) first = rc;
        gone++;
    }
    mem_free(l.v);
    int rc = gone ? files->sync_dir(files->ctx, dir) : 0;
    return first ? first : rc;
}

static bool is_old(struct wish *w, const struct groupdir_file *f) { return f->group == w->group && f->kind == GROUPDIR_SNAPSHOT && f->index < w->before; }
static bool is_of_group(struct wish *w, const struct groupdir_file *f) { return f->group == w->group; }

static bool is_other_part(struct wish *w, const struct groupdir_file *f)
{
    return f->group == w->group && f->kind == GROUPDIR_PART && !(w->but && by_group_newest_first(f, w->but) == 0 && f->bytes == w->but->bytes);
}

static bool is_here(const struct wish *w, uint32_t group)
{
    uint32_t i = 0;
    while (i < w->n_groups && w->groups[i] != group) i++;
    return i < w->n_groups;
}

/* The list has a group's newest file first, so a part that is newer than every whole one comes before them. */
static bool is_leftover(struct wish *w, const struct groupdir_file *f)
{
    if (!is_here(w, f->group)) return true;
    if (f->kind == GROUPDIR_SNAPSHOT) w->whole_group = f->group;
    return f->kind == GROUPDIR_UNFINISHED || (f->kind == GROUPDIR_PART && w->whole_group == f->group);
}

int groupdir_drop_before(const struct file_ops *files, const char *dir, uint32_t group, uint64_t index)
{
    return drop_those(files, dir, &(struct wish){.group = group, .before = index}, is_old);
}

int groupdir_drop_parts(const struct file_ops *files, const char *dir, uint32_t group, const struct groupdir_file *but)
{
    return drop_those(files, dir, &(struct wish){.group = group, .but = but}, is_other_part);
}

int groupdir_drop_group(const struct file_ops *files, const char *dir, uint32_t group) { return drop_those(files, dir, &(struct wish){.group = group}, is_of_group); }

int groupdir_sweep(const struct file_ops *files, const char *dir, const uint32_t *groups, uint32_t n)
{
    return drop_those(files, dir, &(struct wish){.whole_group = UINT64_MAX, .groups = groups, .n_groups = n}, is_leftover);
}
