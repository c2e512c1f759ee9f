#include "server/snapserve.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "object/object.h"
#include "server/front.h"
#include "snapshot/history.h"
#include "snapshot/reader.h"

enum {
    ERRAND_THREADS = 16,
    CURSORS = 16 * 1024, /* of SCAN that can be gone on with; older ones are forgotten */
};

struct scan_cursor {
    uint64_t id; /* 0: none */
    char *key;
    size_t n;
};

struct snapserve {
    struct object_store *store;
    struct reader *reader;
    struct errands *errands;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t stopped;
    bool stop;
    int told_error; /* of refreshing, that the log has been told */
    uint64_t next_cursor;
    struct scan_cursor cursors[CURSORS];
};

struct reader *snapserve_reader(const struct server *s) { return s->snapserve->reader; }

static const char *text_of(struct buf *b)
{
    buf_add_byte(b, '\0');
    b->len--;
    return b->p;
}

/* ---- opening */

static int open_reader(struct server *s, struct buf *why)
{
    struct snapserve *v = s->snapserve;
    const struct config *cfg = s->config;
    struct reader_options o;
    reader_defaults(&o);
    o.mode = (enum readstate_mode)CONFIG_NUM(cfg, snapshot_mode);
    o.open_all = true;
    if (cfg->snapshot_cache[0]) o.cache_dir = cfg->snapshot_cache;
    return reader_open(&v->reader, v->store, &o, why);
}

static void tell_state(struct server *s, const char *event)
{
    struct reader_lease l = reader_enter(s->snapserve->reader);
    const struct manifest *m = readstate_manifest(l.state);
    slog(&s->log, SLOG_NOTICE, event, "run=%s rows=%llu shards=%u reads=%s ref=%s", m->run_id, (unsigned long long)manifest_rows(m), m->num_dbs,
         readstate_mode(l.state) == READSTATE_RANGE ? "ranged" : "local", readstate_ref(l.state));
    reader_leave(s->snapserve->reader, l);
}

bool snapserve_open(struct server *s)
{
    char error[OBJECT_DETAIL_BYTES] = "";
    struct buf why = {0};
    pthread_condattr_t attr;
    struct snapserve *v = s->snapserve = mem_zalloc(sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&v->stopped, &attr);
    pthread_condattr_destroy(&attr);
    v->errands = errands_new(s, ERRAND_THREADS);
    v->next_cursor = 1;
    int rc = object_open(&v->store, s->config->snapshot, NULL, error);
    if (rc < 0) buf_add_str(&why, error);
    else rc = open_reader(s, &why);
    if (rc < 0) slog(&s->log, SLOG_WARNING, "cannot open the snapshot", "url=%s error=%s detail=%s", s->config->snapshot, err_text(rc), text_of(&why));
    else tell_state(s, "snapshot opened");
    buf_fini(&why);
    return rc >= 0;
}

/* ---- newer ones */

/* Whatever asked for it: tells the log of what has changed, once. */
static void note_refresh(struct server *s, int rc, struct buf *why)
{
    struct snapserve *v = s->snapserve;
    int error = rc < 0 ? rc : rc == READER_KEPT;
    pthread_mutex_lock(&v->lock);
    bool news = v->told_error != error;
    v->told_error = error;
    pthread_mutex_unlock(&v->lock);
    if (rc == READER_SWITCHED) tell_state(s, "snapshot switched");
    else if (error && news) slog(&s->log, SLOG_WARNING, rc < 0 ? "cannot look for a newer snapshot" : "a newer snapshot cannot be read, the old one stays", "detail=%s", text_of(why));
    else if (!error && news) slog(&s->log, SLOG_NOTICE, "the snapshot store can be read again", "");
}

/* False: the server stops. */
static bool sleep_s(struct snapserve *v, int64_t seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds > 0 ? seconds : 1;
    pthread_mutex_lock(&v->lock);
    while (!v->stop && pthread_cond_timedwait(&v->stopped, &v->lock, &until) == 0) continue;
    bool stop = v->stop;
    pthread_mutex_unlock(&v->lock);
    return !stop;
}

static void *run(void *arg)
{
    struct server *s = arg;
    while (sleep_s(s->snapserve, CONFIG_NUM(s->config, snapshot_refresh_s))) {
        if (!CONFIG_NUM(s->config, snapshot_refresh_s)) continue;
        struct buf why = {0};
        int rc = reader_refresh(s->snapserve->reader, &why);
        note_refresh(s, rc, &why);
        buf_fini(&why);
    }
    return NULL;
}

void snapserve_start(struct server *s)
{
    int rc = pthread_create(&s->snapserve->thread, NULL, run, s);
    CHECK(rc == 0);
    pthread_setname_np(s->snapserve->thread, "refresh");
    s->snapserve->running = true;
}

void snapserve_close(struct server *s)
{
    struct snapserve *v = s->snapserve;
    pthread_mutex_lock(&v->lock);
    v->stop = true;
    pthread_cond_signal(&v->stopped);
    pthread_mutex_unlock(&v->lock);
    if (v->running) pthread_join(v->thread, NULL);
    errands_free(v->errands);
    if (v->reader) reader_close(v->reader);
    if (v->store) object_close(v->store);
    for (size_t i = 0; i < CURSORS; i++) mem_free(v->cursors[i].key);
    pthread_mutex_destroy(&v->lock);
    pthread_cond_destroy(&v->stopped);
    mem_free(v);
    s->snapserve = NULL;
}

/* ---- here or elsewhere */

/* Every shard is open and lies in a local file: no read waits for the store. */
static bool is_local(struct snapserve *v)
{
    struct reader_lease l = reader_enter(v->reader);
    bool local = readstate_mode(l.state) != READSTATE_RANGE && readstate_n_open(l.state) == readstate_manifest(l.state)->n_shards;
    reader_leave(v->reader, l);
    return local;
}

void snapserve_run(struct exec *x, errands_fn *fn, enum snapserve_length length)
{
    struct snapserve *v = conn_of(x)->front->server->snapserve;
    if (!v) reply_error(&x->out, "ERR this server serves no snapshot: it was started without --snapshot");
    else if (length == SNAPSERVE_SHORT && is_local(v)) errands_run_here(x, fn);
    else if (x->in_multi) reply_errorf(&x->out, "ERR '%s' may have to wait for the object store and cannot run inside a transaction", x->cmd->name);
    else errands_send(v->errands, x, fn);
}

/* ---- switching by command */

static void answer_refresh(struct errands_call *c, int rc, struct buf *why)
{
    static const char *const words[] = {[READER_UNCHANGED] = "unchanged", [READER_SWITCHED] = "switched"};
    note_refresh(c->server, rc, why);
    if (rc < 0) reply_errorf(c->out, "ERR %s: %s", err_text(rc), text_of(why));
    else if (rc == READER_KEPT) reply_errorf(c->out, "ERR the snapshot cannot be read, the old one stays: %s", text_of(why));
    else reply_simple(c->out, words[rc]);
}

void snapserve_refresh(struct errands_call *c)
{
    struct buf why = {0};
    int rc = reader_refresh(snapserve_reader(c->server), &why);
    answer_refresh(c, rc, &why);
    buf_fini(&why);
}

/* A number counts from the newest, which is 0; what has a slash is the URL or key of a manifest, anything else a run. Keeps word, which ends with a NUL. */
static struct history_pick pick_of(const char *word)
{
    int64_t n;
    if (num_parse_i64(slice_str(word), &n) && n >= 0 && n <= UINT32_MAX) return (struct history_pick){.by_offset = true, .offset = (uint32_t)n};
    if (strchr(word, '/')) return (struct history_pick){.ref = word};
    return (struct history_pick){.run_id = word};
}

static char *word_of(struct slice s)
{
    char *word = mem_alloc(s.n + 1);
    memcpy(word, s.p, s.n);
    word[s.n] = '\0';
    return word;
}

void snapserve_use(struct errands_call *c, struct slice which)
{
    struct buf why = {0};
    char *word = word_of(which);
    struct history_pick pick = pick_of(word);
    int rc = reader_use(snapserve_reader(c->server), slice_is(which, "latest") ? NULL : &pick, &why);
    answer_refresh(c, rc, &why);
    buf_fini(&why);
    mem_free(word);
}

void snapserve_rollback(struct errands_call *c, struct slice which)
{
    struct buf why = {0}, ref = {0};
    char *word = word_of(which);
    struct history_pick pick = pick_of(word);
    int rc = history_rollback(c->server->snapserve->store, NULL, &pick, clock_unix_us(), &ref, &why);
    if (rc < 0) reply_errorf(c->out, "ERR %s: %s", err_text(rc), text_of(&why));
    if (rc >= 0) rc = reader_refresh(snapserve_reader(c->server), &why);
    if (rc >= 0) note_refresh(c->server, rc, &why);
    if (rc >= 0) reply_bulk(c->out, buf_slice(&ref));
    else if (ref.len) reply_errorf(c->out, "ERR the pointer was moved, but cannot be read: %s", text_of(&why));
    buf_fini(&why);
    buf_fini(&ref);
    mem_free(word);
}

/* ---- looking */

static void add_time(struct reply *out, const char *name, int64_t unix_ms)
{
    reply_bulk_str(out, name);
    reply_int(out, unix_ms / 1000);
}

static void add_text(struct reply *out, const char *name, const char *text)
{
    reply_bulk_str(out, name);
    reply_bulk_str(out, text);
}

static void add_num(struct reply *out, const char *name, uint64_t n)
{
    reply_bulk_str(out, name);
    reply_int(out, (int64_t)n);
}

void snapserve_history(struct errands_call *c, size_t limit)
{
    struct history h = {0};
    struct buf why = {0};
    int rc = history_load(c->server->snapserve->store, NULL, limit, &h, &why);
    if (rc < 0) reply_errorf(c->out, "ERR %s: %s", err_text(rc), text_of(&why));
    else reply_array(c->out, h.n);
    for (size_t i = 0; rc >= 0 && i < h.n; i++) {
        reply_map(c->out, 4);
        add_text(c->out, "ref", h.entries[i].ref);
        add_text(c->out, "run_id", h.entries[i].run_id);
        add_time(c->out, "published", h.entries[i].published_us / 1000);
        add_num(c->out, "current", h.entries[i].is_current);
    }
    history_fini(&h);
    buf_fini(&why);
}

void snapserve_describe(struct errands_call *c)
{
    struct reader *r = snapserve_reader(c->server);
    struct reader_report report;
    reader_report(r, &report);
    struct reader_lease l = reader_enter(r);
    const struct manifest *m = readstate_manifest(l.state);
    reply_map(c->out, 14);
    add_text(c->out, "url", c->server->config->snapshot);
    add_text(c->out, "ref", readstate_ref(l.state));
    add_text(c->out, "run_id", m->run_id);
    add_text(c->out, "created_at", m->created_at);
    add_text(c->out, "key_encoding", snapkey_encoding_name(m->key_encoding));
    add_text(c->out, "sharding", m->is_cel ? "cel" : "hash");
    add_num(c->out, "shards", m->num_dbs);
    add_num(c->out, "rows", manifest_rows(m));
    add_num(c->out, "bytes", manifest_bytes(m));
    add_text(c->out, "reads", readstate_mode(l.state) == READSTATE_RANGE ? "ranged" : "local");
    add_num(c->out, "shards_open", readstate_n_open(l.state));
    add_num(c->out, "pinned", report.pinned);
    add_time(c->out, "checked", report.checked_ms);
    add_text(c->out, "refresh_error", report.refresh_code ? report.refresh_text : "");
    reader_leave(r, l);
}

uint64_t snapserve_rows(struct server *s)
{
    struct reader_lease l = reader_enter(s->snapserve->reader);
    uint64_t rows = manifest_rows(readstate_manifest(l.state));
    reader_leave(s->snapserve->reader, l);
    return rows;
}

void snapserve_info(struct server *s, struct buf *out)
{
    struct reader_report r;
    reader_report(s->snapserve->reader, &r);
    struct reader_lease l = reader_enter(s->snapserve->reader);
    const struct manifest *m = readstate_manifest(l.state);
    buf_printf(out, "snapshot_url:%s\r\nsnapshot_ref:%s\r\nsnapshot_run_id:%s\r\n", s->config->snapshot, readstate_ref(l.state), m->run_id);
    buf_printf(out, "snapshot_created:%lld\r\nsnapshot_rows:%llu\r\nsnapshot_bytes:%llu\r\nsnapshot_shards:%u\r\n", (long long)(m->created_us / 1000000),
               (unsigned long long)manifest_rows(m), (unsigned long long)manifest_bytes(m), m->num_dbs);
    buf_printf(out, "snapshot_key_encoding:%s\r\nsnapshot_reads:%s\r\nsnapshot_pinned:%d\r\n", snapkey_encoding_name(m->key_encoding),
               readstate_mode(l.state) == READSTATE_RANGE ? "ranged" : "local", r.pinned);
    reader_leave(s->snapserve->reader, l);
    buf_printf(out, "snapshot_last_check:%lld\r\nsnapshot_refreshes:%llu\r\nsnapshot_switches:%llu\r\nsnapshot_kept:%llu\r\n", (long long)(r.checked_ms / 1000),
               (unsigned long long)r.refreshes, (unsigned long long)r.switches, (unsigned long long)r.kept);
    buf_printf(out, "snapshot_refresh_status:%s\r\nsnapshot_requests:%llu\r\nsnapshot_request_bytes:%llu\r\n", r.refresh_code ? "err" : "ok", (unsigned long long)r.requests,
               (unsigned long long)r.request_bytes);
}

/* ---- cursors of SCAN: the clients want numbers, the snapshot knows keys */

uint64_t snapserve_keep_cursor(struct server *s, struct slice key)
{
    struct snapserve *v = s->snapserve;
    pthread_mutex_lock(&v->lock);
    uint64_t id = v->next_cursor++;
    struct scan_cursor *c = &v->cursors[id % CURSORS];
    c->id = id;
    c->key = mem_resize(c->key, key.n + 1);
    c->n = key.n;
    memcpy(c->key, key.p, key.n);
    pthread_mutex_unlock(&v->lock);
    return id;
}

bool snapserve_find_cursor(struct server *s, uint64_t cursor, struct buf *key)
{
    struct snapserve *v = s->snapserve;
    pthread_mutex_lock(&v->lock);
    const struct scan_cursor *c = &v->cursors[cursor % CURSORS];
    bool found = cursor && c->id == cursor;
    if (found) buf_add(key, c->key, c->n);
    pthread_mutex_unlock(&v->lock);
    return found;
}
