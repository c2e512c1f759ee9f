#include "snapshot/build.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "snapshot/buildrows.h"
#include "snapshot/buildshards.h"
#include "snapshot/history.h"
#include "snapshot/input.h"
#include "snapshot/pagefile.h"
#include "snapshot/runrecord.h"
#include "snapshot/snappath.h"

enum { DEFAULT_MEMORY = 256 << 20, JOBS_MAX = 60 };

struct build {
    struct build_options o; /* with the defaults filled in */
    char run_id[SNAPPATH_RUN_ID_MAX + 1];
    struct publish_base base;
    struct manifest *old; /* what is current, if its shards may be used again */
    struct runrecord_keeper *record;
    struct buildrows rows;
    struct buildshards shards;
    struct build_result *result;
    struct buf *error;
};

static void enter(struct build *b, enum build_phase phase)
{
    struct build_progress *p = b->o.progress;
    if (!p) return;
    atomic_store(&p->done_bytes, 0);
    atomic_store(&p->total_bytes, 0);
    atomic_store(&p->phase, (int)phase);
}

/* ---- options */

static const char *check_options(const struct build_options *o)
{
    if (o->cel && o->max_keys_per_shard) return "a routing expression and a number of keys per shard exclude each other";
    if (!o->cel && o->infer) return "routing values are inferred from a routing expression, and there is none";
    if (o->infer && o->cel->tokens != ROUTER_TOKENS_NONE) return "routing values are given or inferred, not both";
    if (!o->cel && !o->shards == !o->max_keys_per_shard) return "either the number of shards or the number of keys per shard is needed";
    if (o->shards > BUILD_SHARDS_MAX) return "there can be 65536 shards";
    if (o->page_size && !pagefile_is_size(o->page_size)) return "the page size is 4096, 8192, 16384, 32768 or 65536";
    return NULL;
}

static uint32_t processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static int prepare(struct build *b)
{
    struct build_options *o = &b->o;
    const char *fault = check_options(o);
    if (!fault && o->run_id) fault = snappath_check_run_id(slice_str(o->run_id));
    if (fault) {
        buf_add_str(b->error, fault);
        return ERR_SNAPSHOT_OPTIONS;
    }
    if (o->run_id) memcpy(b->run_id, o->run_id, strlen(o->run_id) + 1);
    else snappath_new_id(b->run_id);
    if (!o->jobs) o->jobs = processors();
    if (o->jobs > JOBS_MAX) o->jobs = JOBS_MAX;
    if (!o->memory_bytes) o->memory_bytes = DEFAULT_MEMORY;
    if (o->memory_bytes < BUILD_MEMORY_MIN) o->memory_bytes = BUILD_MEMORY_MIN;
    b->result->run_id = mem_strdup(b->run_id);
    return 0;
}

/* ---- the start and the end of a run */

/* Shards of the snapshot that is current are used again. If it cannot be read, all are uploaded. */
static void read_old(struct build *b)
{
    if (b->o.no_reuse || !b->base.readable) return;
    if (history_manifest(b->o.store, NULL, b->base.manifest_ref, &b->old, NULL) != 0) b->old = NULL;
}

static int begin(struct build *b)
{
    struct object_call call = {.cancel = b->o.cancel};
    struct runrecord_start start = {.run_id = b->run_id, .writer_type = "sherd"};
    size_t said = b->error->len;
    int rc = publish_observe(b->o.store, &call, &b->base, b->error);
    if (rc == 0) rc = runrecord_begin(&b->record, b->o.store, &call, &start);
    if (rc) {
        if (b->error->len == said) buf_printf(b->error, "%s: %s%s%s", object_url(b->o.store), err_text(rc), *call.detail ? ": " : "", call.detail);
        return rc;
    }
    b->result->run_ref = mem_strdup(runrecord_ref(b->record));
    read_old(b);
    return 0;
}

/* The names under which the format's other writers tell of their failures, where they have one. */
static const char *failure_name(int rc)
{
    switch (rc) {
    case ERR_SNAPSHOT_OPTIONS: return "ConfigValidationError";
    case ERR_SNAPSHOT_ASSIGN: return "ShardAssignmentError";
    case ERR_SNAPSHOT_COVERAGE: return "ShardCoverageError";
    case ERR_SNAPSHOT_WRITE: return "ShardWriteError";
    case ERR_SNAPSHOT_MANIFEST:
    case ERR_SNAPSHOT_BAD_MANIFEST: return "PublishManifestError";
    case ERR_SNAPSHOT_CURRENT:
    case ERR_SNAPSHOT_RACE:
    case ERR_SNAPSHOT_UNCERTAIN: return "PublishCurrentError";
    case ERR_OBJECT_CANCELLED: return "KeyboardInterrupt";
    default: return err_name(rc);
    }
}

/* The record is written even if the build was cancelled: hence a call that cannot be. */
static void end(struct build *b, int rc)
{
    struct object_call call = {0};
    if (!b->record) return;
    if (rc == 0) {
        runrecord_succeed(b->record, &call, b->result->manifest_ref);
        return;
    }
    struct buf text = {0};
    buf_add_slice(&text, buf_slice(b->error));
    buf_add_byte(&text, '\0');
    runrecord_fail(b->record, &call, failure_name(rc), text.p);
    buf_fini(&text);
}

/* ---- publishing */

static void add_sidecar_note(const struct build *b, struct manifest *m)
{
    char json[120], size[16] = "\"auto\"";
    if (b->o.no_sidecars) return;
    if (b->o.page_size) snprintf(size, sizeof size, "%u", b->o.page_size);
    snprintf(json, sizeof json, "{\"codec\": \"zstd\", \"filename\": \"" SNAPPATH_SIDECAR_FILE "\", \"format_version\": 8, \"page_size\": %s}", size);
    manifest_add_custom(m, "sqlite_sidecar", json);
}

static struct manifest *make_manifest(const struct build *b)
{
    struct manifest *m = manifest_new();
    m->run_id = manifest_copy(m, slice_str(b->run_id));
    m->s3_prefix = manifest_copy(m, slice_str(object_url(b->o.store)));
    if (b->o.key_col) m->key_col = manifest_copy(m, slice_str(b->o.key_col));
    m->key_encoding = b->o.key_encoding;
    m->num_dbs = b->rows.num_dbs;
    manifest_set_created(m, clock_unix_us());
    if (b->o.cel) manifest_set_cel(m, &b->rows.cel);
    add_sidecar_note(b, m);
    publish_add_winners(m, b->shards.attempts, b->shards.n_attempts);
    return m;
}

/* A put that failed for want of an answer may have happened nevertheless. */
static void delete_failed(struct build *b)
{
    struct object_call call = {.cancel = b->o.cancel};
    for (size_t i = 0; i < b->shards.n_attempts; i++) {
        const struct manifest_shard *s = &b->shards.attempts[i].shard;
        struct buf shard = {0}, sidecar = {0};
        if (s->db_url) continue;
        snappath_attempt(&shard, b->run_id, s->db_id, s->attempt);
        buf_add_slice(&sidecar, buf_slice(&shard));
        buf_printf(&shard, "/" SNAPPATH_SHARD_FILE "%c", '\0');
        buf_printf(&sidecar, "/" SNAPPATH_SIDECAR_FILE "%c", '\0');
        object_delete(b->o.store, &call, (const char *const[]){shard.p, sidecar.p}, 2, NULL);
        buf_fini(&shard);
        buf_fini(&sidecar);
    }
}

static int publish(struct build *b)
{
    struct object_call call = {.cancel = b->o.cancel};
    struct publish_result done = {0};
    struct buildshards *s = &b->shards;
    struct buf why = {0};
    int rc = publish_choose(s->attempts, s->n_attempts, b->rows.num_dbs, b->error);
    if (rc) return rc;
    if (!runrecord_lease_holds(b->record)) {
        buf_add_str(b->error, err_text(ERR_SNAPSHOT_LEASE));
        return ERR_SNAPSHOT_LEASE;
    }
    struct manifest *m = make_manifest(b);
    rc = publish_snapshot(b->o.store, &call, m, &b->base, clock_unix_us(), &done, &why);
    if (rc) buf_printf(b->error, "%s%s%.*s", err_text(rc), why.len ? ": " : "", (int)why.len, why.p);
    if (rc == 0) {
        b->result->manifest_ref = mem_strdup(done.manifest_ref);
        b->result->guard = done.guard;
        publish_delete_losers(b->o.store, &call, m, s->attempts, s->n_attempts);
        delete_failed(b);
    }
    publish_result_fini(&done);
    manifest_free(m);
    buf_fini(&why);
    return rc;
}

/* Messages quote what the input has, and go to people and into the run record, which is UTF-8. */
static void make_printable(struct buf *error)
{
    struct buf clean = {0};
    input_add_printable(&clean, buf_slice(error));
    buf_fini(error);
    *error = clean;
}

/* ---- the whole */

static int work(struct build *b)
{
    int64_t start_us = clock_mono_us();
    enter(b, BUILD_READING);
    int rc = buildrows_read(&b->rows, &b->o, b->error);
    int64_t read_us = clock_mono_us();
    b->result->read_us = read_us - start_us;
    if (rc) return rc;
    enter(b, BUILD_WRITING);
    b->shards = (struct buildshards){.o = &b->o, .rows = &b->rows, .run_id = b->run_id, .old = b->old};
    rc = buildshards_run(&b->shards, b->error);
    int64_t written_us = clock_mono_us();
    b->result->write_us = written_us - read_us;
    if (rc) return rc;
    enter(b, BUILD_PUBLISHING);
    rc = publish(b);
    b->result->publish_us = clock_mono_us() - written_us;
    return rc;
}

static void tell(struct build *b)
{
    struct build_result *r = b->result;
    const struct buildshards *s = &b->shards;
    r->num_dbs = b->rows.num_dbs;
    r->rows = b->rows.rows;
    r->bad_rows = b->rows.bad_rows;
    r->left_out = b->o.input->left_out;
    r->shards_written = s->written;
    r->shards_reused = s->reused;
    r->keys = s->keys;
    r->bytes = s->bytes;
    r->uploaded_bytes = s->uploaded_bytes;
    for (size_t i = 0; i < s->n_attempts; i++) r->retries += s->attempts[i].shard.db_url == NULL;
}

int build_run(const struct build_options *o, struct build_result *r, struct buf *error)
{
    struct build b = {.o = *o, .result = r, .error = error};
    *r = (struct build_result){0};
    int rc = prepare(&b);
    if (rc == 0) rc = begin(&b);
    if (rc == 0) {
        rc = work(&b);
        tell(&b);
    }
    if (rc) make_printable(error);
    end(&b, rc);
    enter(&b, BUILD_DONE);
    buildshards_fini(&b.shards);
    buildrows_fini(&b.rows);
    manifest_free(b.old);
    publish_base_fini(&b.base);
    return rc;
}

void build_result_fini(struct build_result *r)
{
    mem_free(r->run_id);
    mem_free(r->manifest_ref);
    mem_free(r->run_ref);
    *r = (struct build_result){0};
}
