/* How nothing is deleted that somebody needs, while others build, publish and roll back
 *
 * A builder writes its run record, then shards, then its manifest, then ends its record. Cleanup looks in the opposite order: shards, then records, then manifests, then _CURRENT.
 *   - A shard that was listed has its record by then. If the record says "running" under a valid lease, everything of the run is spared. If it has ended well, the manifest was
 *     there before it ended, hence is in the list that is made afterwards.
 *   - A builder that we do not see has started since. What it reuses are shards of the snapshot that was current then: ours to keep, or one that was published after our lists
 *     were made, by a builder that we did see, or that reuses only such shards itself.
 *   - A builder that we do see may reuse shards of what was current when it started, or since: those manifests are kept.
 *   - A rollback may make a manifest current while we are deleting it. We look at _CURRENT after deleting, and put the manifest back if it is named there; a rollback looks at the
 *     manifest after its swap, and swaps back if it is gone. One of the two comes second and sees the other.
 *
 * Manifests go first, so that history never offers a snapshot whose shards are gone; then shards; then run records, so that a cleanup that was interrupted is finished by the next. */
#include "snapshot/cleanup.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/history.h"
#include "snapshot/manifest.h"
#include "snapshot/pointer.h"
#include "snapshot/runrecord.h"
#include "snapshot/snappath.h"

static const int64_t day_us = 86400ll * 1000000;
static const int64_t record_days = 7; /* how long the records of failed builds stay for people to look at, if not told otherwise */

/* An attempt's folder with its objects. */
struct folder {
    char *key, *run_id;
    struct buf objects; /* keys, each with a NUL behind it */
    uint64_t n, bytes;
    int64_t newest_us;
};

struct record {
    char *key;
    char *run_id;
    bool readable;
    struct runrecord r; /* if readable */
    bool live;
    int64_t touched_us;
    uint64_t bytes;
};

/* What is known of one run id. */
struct run {
    const char *id;
    bool live, has_record, failed, died;
    bool kept, removed; /* it has a manifest that is kept; one that is not */
};

struct plan {
    struct object_store *s;
    struct object_call *call;
    const struct cleanup_options *o;
    struct cleanup_report *report;
    struct buf *why;
    struct folder *folders;
    size_t n_folders, next_folder;
    struct record *records;
    size_t n_records;
    struct history history;
    bool *keep; /* per entry of history */
    struct run *runs; /* by id */
    size_t n_runs;
    char **needed; /* keys of folders that kept manifests name; sorted */
    size_t n_needed;
};

/* Room for one more in an array that doubles at powers of two. */
static void *grow(void *array, size_t n, size_t each) { return (n & (n - 1)) == 0 ? mem_resize(array, (n ? 2 * n : 1) * each) : array; }

static char *copy(struct slice s)
{
    char *p = mem_alloc(s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

static int fail(struct plan *p, int rc, const char *what)
{
    if (p->why) buf_printf(p->why, "%s%s%s", what, p->call->detail[0] ? ": " : "", p->call->detail);
    return rc;
}

/* ---- looking: shards */

static int see_shard(void *arg, const struct object_item *item)
{
    struct plan *p = arg;
    struct slice run_id, key;
    if (!snappath_parse_attempt(slice_str(item->key), &run_id, &key)) return 0;
    struct folder *f = p->n_folders ? &p->folders[p->n_folders - 1] : NULL;
    if (!f || !slice_eq(slice_str(f->key), key)) { /* lists are in order: a folder's objects stand together */
        p->folders = grow(p->folders, p->n_folders, sizeof *p->folders);
        f = &p->folders[p->n_folders++];
        *f = (struct folder){.key = copy(key), .run_id = copy(run_id)};
    }
    buf_add(&f->objects, item->key, strlen(item->key) + 1);
    f->n++;
    f->bytes += item->meta.size;
    if (item->meta.modified_ms * 1000 > f->newest_us) f->newest_us = item->meta.modified_ms * 1000;
    return 0;
}

/* ---- looking: run records */

static int see_record(void *arg, const struct object_item *item)
{
    struct plan *p = arg;
    int64_t us;
    struct slice run_id;
    if (!snappath_parse_run(slice_str(item->key), &us, &run_id)) return 0;
    p->records = grow(p->records, p->n_records, sizeof *p->records);
    p->records[p->n_records++] = (struct record){.key = copy(slice_str(item->key)), .run_id = copy(run_id), .touched_us = item->meta.modified_ms * 1000, .bytes = item->meta.size};
    return 0;
}

/* A record that cannot be read may be of a builder at work, unless nobody has touched it for a day. */
static int read_record(struct plan *p, struct record *r)
{
    struct buf yaml = {0};
    int rc = object_get(p->s, p->call, r->key, RUNRECORD_BYTES_MAX, &yaml, NULL);
    if (rc == 0) r->readable = runrecord_parse(buf_slice(&yaml), &r->r, NULL) == 0;
    buf_fini(&yaml);
    if (rc != 0 && rc != ERR_OBJECT_NOT_FOUND && rc != ERR_OBJECT_TOO_LARGE) return fail(p, rc, r->key);
    r->live = r->readable ? runrecord_is_live(&r->r, p->o->now_us) : rc != ERR_OBJECT_NOT_FOUND && r->touched_us + day_us > p->o->now_us;
    return 0;
}

static int look(struct plan *p)
{
    int rc = object_list(p->s, p->call, &(struct object_list_options){.prefix = SNAPPATH_SHARD_PREFIX "/"}, see_shard, p);
    if (rc != 0) return fail(p, rc, SNAPPATH_SHARD_PREFIX "/");
    rc = object_list(p->s, p->call, &(struct object_list_options){.prefix = SNAPPATH_RUNS}, see_record, p);
    if (rc != 0) return fail(p, rc, SNAPPATH_RUNS);
    for (size_t i = 0; i < p->n_records; i++)
        if ((rc = read_record(p, &p->records[i])) != 0) return rc;
    return history_load(p->s, p->call, 0, &p->history, p->why);
}

/* ---- deciding: which snapshots are kept */

static bool is_kept_by_options(const struct plan *p, size_t i)
{
    const struct cleanup_options *o = p->o;
    if (o->keep_last == 0 && o->older_than_us == 0) return true;
    return i < o->keep_last || (o->older_than_us && p->history.entries[i].published_us + o->older_than_us > o->now_us);
}

/* What a builder at work may be reusing: everything published since it started, and the one before. */
static void keep_for_builder(struct plan *p, const struct record *r)
{
    int64_t since = r->readable ? r->r.started_us : 0;
    for (size_t i = 0; i < p->history.n; i++) {
        p->keep[i] = true;
        if (p->history.entries[i].published_us < since) return;
    }
}

static void choose_snapshots(struct plan *p)
{
    p->keep = mem_zalloc(p->history.n * sizeof *p->keep + 1);
    for (size_t i = 0; i < p->history.n; i++) p->keep[i] = p->history.entries[i].is_current || is_kept_by_options(p, i);
    for (size_t i = 0; i < p->n_records; i++)
        if (p->records[i].live) keep_for_builder(p, &p->records[i]);
}

/* ---- deciding: what is known of runs */

static int by_id(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return strcmp(x->id, y->id);
}

static struct run *find_run(const struct plan *p, const char *id)
{
    struct run key = {.id = id};
    return p->n_runs ? bsearch(&key, p->runs, p->n_runs, sizeof *p->runs, by_id) : NULL;
}

/* One entry per id, what its records and manifests say added up. */
static void merge_runs(struct plan *p)
{
    size_t n = 0;
    if (p->n_runs) qsort(p->runs, p->n_runs, sizeof *p->runs, by_id);
    for (size_t i = 0; i < p->n_runs; i++) {
        struct run *in = &p->runs[i], *last = n ? &p->runs[n - 1] : NULL;
        if (!last || strcmp(last->id, in->id) != 0) {
            p->runs[n++] = *in;
            continue;
        }
        last->live |= in->live;
        last->has_record |= in->has_record;
        last->failed |= in->failed;
        last->died |= in->died;
        last->kept |= in->kept;
        last->removed |= in->removed;
    }
    p->n_runs = n;
}

static void know_runs(struct plan *p)
{
    p->runs = mem_zalloc((p->n_records + p->history.n + 1) * sizeof *p->runs);
    for (size_t i = 0; i < p->n_records; i++) {
        const struct record *r = &p->records[i];
        bool running = r->readable && r->r.status == RUNRECORD_RUNNING;
        p->runs[p->n_runs++] = (struct run){
            .id = r->run_id,
            .has_record = true,
            .live = r->live,
            .failed = r->readable && r->r.status == RUNRECORD_FAILED,
            .died = running && !r->live,
        };
    }
    for (size_t i = 0; i < p->history.n; i++) p->runs[p->n_runs++] = (struct run){.id = p->history.entries[i].run_id, .kept = p->keep[i], .removed = !p->keep[i]};
    merge_runs(p);
}

/* ---- deciding: which folders kept snapshots need */

static int add_needed(struct plan *p, const char *ref)
{
    struct manifest *m;
    int rc = history_manifest(p->s, p->call, ref, &m, p->why);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < m->n_shards; i++) {
        const char *key = snappath_key(p->s, m->s3_prefix, m->shards[i].db_url);
        if (!key) continue; /* in another store: not ours to delete either */
        p->needed = grow(p->needed, p->n_needed, sizeof *p->needed);
        p->needed[p->n_needed++] = mem_strdup(key);
    }
    manifest_free(m);
    return 0;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int know_needed(struct plan *p)
{
    bool listed = false;
    for (size_t i = 0; i < p->history.n; i++) {
        listed |= p->history.entries[i].is_current;
        int rc = p->keep[i] ? add_needed(p, p->history.entries[i].ref) : 0;
        if (rc != 0) return rc;
    }
    int rc = p->history.has_current && !listed ? add_needed(p, p->history.current.manifest_ref) : 0; /* a manifest under an unusual name */
    if (p->n_needed) qsort(p->needed, p->n_needed, sizeof *p->needed, by_text);
    return rc;
}

static bool is_needed(const struct plan *p, const char *folder) { return p->n_needed && bsearch(&folder, p->needed, p->n_needed, sizeof *p->needed, by_text); }

/* ---- deciding: what goes */

static void add_item(struct plan *p, enum cleanup_kind kind, const char *key, const char *run_id, const char *reason, uint64_t objects, uint64_t bytes)
{
    struct cleanup_report *r = p->report;
    r->items = grow(r->items, r->n, sizeof *r->items);
    r->items[r->n++] = (struct cleanup_item){.kind = kind, .key = mem_strdup(key), .run_id = mem_strdup(run_id), .reason = reason, .objects = objects, .bytes = bytes};
}

/* Why nobody needs what a run has left; NULL if somebody may. */
static const char *run_is_over(const struct run *run)
{
    if (run->live) return NULL;
    if (run->removed && !run->kept) return "old snapshot";
    if (run->failed) return "build failed";
    if (run->died) return "builder died";
    return "snapshot is gone";
}

static const char *folder_is_over(const struct plan *p, const struct folder *f)
{
    const struct run *run = find_run(p, f->run_id);
    int64_t orphan_age = p->o->orphan_age_us ? p->o->orphan_age_us : day_us;
    if (is_needed(p, f->key)) return NULL;
    if (!run) return f->newest_us + orphan_age <= p->o->now_us ? "no run record" : NULL;
    return run->kept && !run->live ? "losing attempt" : run_is_over(run);
}

static const char *record_is_over(const struct plan *p, const struct record *r)
{
    const struct run *run = find_run(p, r->run_id);
    int64_t stays_us = p->o->older_than_us ? p->o->older_than_us : record_days * day_us;
    if (run->kept || run->live) return NULL;
    if (!run->removed && r->touched_us + stays_us > p->o->now_us) return NULL;
    return run_is_over(run);
}

static void decide(struct plan *p)
{
    for (size_t i = 0; i < p->history.n; i++) {
        const struct history_entry *e = &p->history.entries[i];
        p->report->kept_snapshots += p->keep[i];
        if (!p->keep[i]) add_item(p, CLEANUP_MANIFEST, e->key, e->run_id, "old snapshot", 1, e->bytes);
    }
    for (size_t i = 0; i < p->n_folders; i++) {
        const struct folder *f = &p->folders[i];
        const char *reason = folder_is_over(p, f);
        if (reason) add_item(p, CLEANUP_ATTEMPT, f->key, f->run_id, reason, f->n, f->bytes);
    }
    for (size_t i = 0; i < p->n_records; i++) {
        const struct record *r = &p->records[i];
        const char *reason = record_is_over(p, r);
        if (reason) add_item(p, CLEANUP_RUN_RECORD, r->key, r->run_id, reason, 1, r->bytes);
    }
    for (size_t i = 0; i < p->n_runs; i++) {
        if (!p->runs[i].live) continue;
        p->report->live_runs = grow(p->report->live_runs, p->report->n_live, sizeof *p->report->live_runs);
        p->report->live_runs[p->report->n_live++] = mem_strdup(p->runs[i].id);
    }
}

/* ---- acting */

static void count(struct plan *p, struct cleanup_item *item)
{
    item->deleted = true;
    p->report->objects_deleted += item->objects;
    p->report->bytes_deleted += item->bytes;
}

/* Deletes a manifest, and puts it back if somebody has made it current meanwhile. */
static int delete_manifest(struct plan *p, struct cleanup_item *item)
{
    struct buf image = {0};
    struct pointer now;
    const char *key = item->key;
    int rc = object_get(p->s, p->call, key, MANIFEST_BYTES_MAX, &image, NULL);
    if (rc == 0) rc = object_delete(p->s, p->call, &key, 1, NULL);
    if (rc != 0) goto out;
    rc = history_pointer(p->s, p->call, &now, NULL, p->why);
    const char *current = rc == 0 ? snappath_ref_key(p->s, now.manifest_ref) : NULL;
    bool is_current = current && strcmp(current, key) == 0;
    pointer_fini(&now);
    if (rc == 0 && !is_current) {
        count(p, item);
    } else { /* it is needed, or nobody can tell */
        int put = object_put(p->s, p->call, key, buf_slice(&image), &(struct object_put_options){.content_type = SNAPPATH_TYPE_SQLITE}, NULL);
        if (rc == 0) rc = put ? put : ERR_SNAPSHOT_RACE;
    }
out:
    buf_fini(&image);
    return rc == ERR_OBJECT_NOT_FOUND ? 0 : rc;
}

/* Items of folders stand in the order of folders. */
static int delete_folder(struct plan *p, struct cleanup_item *item)
{
    while (strcmp(p->folders[p->next_folder].key, item->key) != 0) CHECK(++p->next_folder < p->n_folders);
    const struct folder *f = &p->folders[p->next_folder];
    const char **keys = mem_alloc(f->n * sizeof *keys);
    size_t n = 0;
    for (const char *k = f->objects.p; n < f->n; k += strlen(k) + 1) keys[n++] = k;
    int rc = object_delete(p->s, p->call, keys, n, NULL);
    if (rc == 0) count(p, item);
    mem_free(keys);
    return rc;
}

static int delete_record(struct plan *p, struct cleanup_item *item)
{
    const char *key = item->key;
    int rc = object_delete(p->s, p->call, &key, 1, NULL);
    if (rc == 0) count(p, item);
    return rc;
}

/* Stops at the first failure: what comes later in the order is still needed to find what is left. */
static int act(struct plan *p)
{
    static int (*const delete[])(struct plan *, struct cleanup_item *) = {
        [CLEANUP_ATTEMPT] = delete_folder,
        [CLEANUP_MANIFEST] = delete_manifest,
        [CLEANUP_RUN_RECORD] = delete_record,
    };
    for (size_t i = 0; i < p->report->n; i++) {
        struct cleanup_item *item = &p->report->items[i];
        int rc = delete[item->kind](p, item);
        if (rc != 0) return fail(p, rc, item->key);
    }
    return 0;
}

/* ---- all of it */

static void plan_fini(struct plan *p)
{
    for (size_t i = 0; i < p->n_folders; i++) {
        mem_free(p->folders[i].key);
        mem_free(p->folders[i].run_id);
        buf_fini(&p->folders[i].objects);
    }
    for (size_t i = 0; i < p->n_records; i++) {
        mem_free(p->records[i].key);
        mem_free(p->records[i].run_id);
        runrecord_fini(&p->records[i].r);
    }
    for (size_t i = 0; i < p->n_needed; i++) mem_free(p->needed[i]);
    mem_free(p->folders);
    mem_free(p->records);
    mem_free(p->needed);
    mem_free(p->keep);
    mem_free(p->runs);
    history_fini(&p->history);
}

int cleanup_run(struct object_store *s, struct object_call *call, const struct cleanup_options *o, struct cleanup_report *r, struct buf *why)
{
    struct object_call none = {0};
    struct plan p = {.s = s, .call = call ? call : &none, .o = o, .report = r, .why = why};
    *r = (struct cleanup_report){0};
    CHECK(o->now_us > 0);
    int rc = look(&p);
    if (rc == 0 && !p.history.has_current && (o->keep_last || o->older_than_us)) rc = fail(&p, ERR_SNAPSHOT_NO_CURRENT, "old snapshots are removed only where _CURRENT tells which one counts");
    if (rc == 0) {
        choose_snapshots(&p);
        know_runs(&p);
        rc = know_needed(&p);
    }
    if (rc == 0) decide(&p);
    if (rc == 0 && !o->dry_run) rc = act(&p);
    plan_fini(&p);
    return rc;
}

void cleanup_report_fini(struct cleanup_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        mem_free(r->items[i].key);
        mem_free(r->items[i].run_id);
    }
    for (size_t i = 0; i < r->n_live; i++) mem_free(r->live_runs[i]);
    mem_free(r->items);
    mem_free(r->live_runs);
    *r = (struct cleanup_report){0};
}

const char *cleanup_kind_name(enum cleanup_kind k)
{
    static const char *const names[] = {"attempt", "manifest", "run_record"};
    return names[k];
}
