#include "server/publisher.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "server/server.h"
#include "shard/livefeed.h"
#include "snapshot/build.h"

enum { MEMORY_BYTES = 128 << 20, ATTEMPTS_MAX = 4 };

struct publisher {
    struct server *server;
    pthread_t thread;
    bool running; /* the thread is there */
    atomic_bool stop;
    atomic_bool cancel;
    struct build_progress progress;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t asked;
    struct publisher_job job; /* the running or the last one */
    bool has_job;             /* it is to be done, or being done */
    struct input *feed;       /* of the running one; NULL: there is none */
    struct publisher_info info; /* but for what the feed knows */
};

const char *publisher_state_name(enum publisher_state s)
{
    static const char *const names[] = {"idle", "waiting", "reading", "writing", "published", "failed", "cancelled"};
    return names[s];
}

/* ---- the thread: one job */

static void show_feed(struct publisher *p, struct input *feed)
{
    pthread_mutex_lock(&p->lock);
    p->feed = feed;
    pthread_mutex_unlock(&p->lock);
}

static void set_text(char **to, const char *text)
{
    mem_free(*to);
    *to = mem_strdup(text ? text : "");
}

/* What the feed knew stays known. With the lock held. */
static void note_feed(struct publisher *p, struct publisher_info *i)
{
    if (!p->feed) return;
    struct livefeed_progress f = livefeed_progress(p->feed);
    i->cut_ms = f.cut_ms;
    i->rows = f.rows;
    i->left_out = f.left_out;
    i->keys_done = f.keys_done;
    i->keys_total = f.keys_total;
    if (i->state == PUBLISHER_WAITING && f.cut_ms) i->state = PUBLISHER_READING;
    if (i->state == PUBLISHER_READING && atomic_load(&p->progress.phase) > BUILD_READING) i->state = PUBLISHER_WRITING;
}

static int build_from(struct publisher *p, const struct publisher_job *job, struct object_store *store, struct build_result *r, struct buf *error)
{
    struct input *feed = livefeed_open(p->server->walk, &(struct livefeed_options){.db = job->db, .strict = job->strict, .cancel = &p->cancel});
    show_feed(p, feed);
    struct build_options o = {.store = store, .input = feed, .key_encoding = job->encoding, .shards = job->shards, .jobs = 1, .memory_bytes = MEMORY_BYTES,
                              .run_id = job->run_id, .cancel = &p->cancel, .progress = &p->progress};
    int rc = build_run(&o, r, error);
    pthread_mutex_lock(&p->lock);
    note_feed(p, &p->info);
    p->feed = NULL;
    pthread_mutex_unlock(&p->lock);
    input_free(feed);
    return rc;
}

static int run_job(struct publisher *p, const struct publisher_job *job, struct build_result *r, struct buf *error)
{
    struct object_store *store = NULL;
    char why[OBJECT_DETAIL_BYTES] = "";
    int rc = object_open(&store, job->url, &(struct object_options){.attempts_max = ATTEMPTS_MAX}, why);
    if (rc < 0) buf_add_str(error, why);
    else rc = build_from(p, job, store, r, error);
    if (store) object_close(store);
    return rc;
}

/* ---- the thread: what came of it */

static void tell(struct publisher *p, const struct build_result *r, int rc, const char *error)
{
    const struct slog *log = &p->server->log;
    if (rc == 0) slog(log, SLOG_NOTICE, "snapshot published", "ref=%s rows=%llu bytes=%llu left_out=%llu", r->manifest_ref, (unsigned long long)r->rows, (unsigned long long)r->bytes,
                      (unsigned long long)r->left_out);
    else slog(log, SLOG_WARNING, "snapshot not published, readers stay with the old one", "error=%s detail=%s", err_text(rc), error);
}

/* It may quote keys, and stands in a line of INFO. */
static void make_printable(struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->p[i] < ' ' || text->p[i] > '~') text->p[i] = '?';
}

static void note_end(struct publisher *p, const struct build_result *r, int rc, const char *error)
{
    bool cancelled = rc < 0 && atomic_load(&p->cancel);
    struct buf text = {0};
    if (rc < 0 && !cancelled) buf_printf(&text, "%s%s%s", err_text(rc), error[0] ? ": " : "", error);
    make_printable(&text);
    buf_add_byte(&text, '\0');
    pthread_mutex_lock(&p->lock);
    struct publisher_info *i = &p->info;
    i->state = rc == 0 ? PUBLISHER_PUBLISHED : cancelled ? PUBLISHER_CANCELLED : PUBLISHER_FAILED;
    i->ended_ms = clock_unix_ms();
    set_text(&i->error, text.p);
    set_text(&i->run_id, r->run_id);
    set_text(&i->manifest_ref, rc == 0 ? r->manifest_ref : "");
    i->bytes = r->bytes;
    i->published += rc == 0;
    i->failed += rc != 0;
    p->has_job = false;
    pthread_mutex_unlock(&p->lock);
    buf_fini(&text);
}

static void do_job(struct publisher *p, const struct publisher_job *job)
{
    struct build_result r = {0};
    struct buf error = {0};
    slog(&p->server->log, SLOG_NOTICE, "publishing a snapshot", "url=%s shards=%u", job->url, job->shards);
    int rc = run_job(p, job, &r, &error);
    buf_add_byte(&error, '\0');
    tell(p, &r, rc, error.p);
    note_end(p, &r, rc, error.p);
    buf_fini(&error);
    build_result_fini(&r);
}

static void *run(void *arg)
{
    struct publisher *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!atomic_load(&p->stop)) {
        if (!p->has_job) {
            pthread_cond_wait(&p->asked, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        do_job(p, &p->job); /* nobody changes it while has_job */
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- life */

struct publisher *publisher_new(struct server *s)
{
    struct publisher *p = mem_zalloc(sizeof *p);
    p->server = s;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->asked, NULL);
    return p;
}

void publisher_stop(struct publisher *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    atomic_store(&p->cancel, true);
    pthread_cond_signal(&p->asked);
    pthread_mutex_unlock(&p->lock);
    if (p->running) pthread_join(p->thread, NULL);
    p->running = false;
}

static void free_job(struct publisher_job *job)
{
    mem_free(job->url);
    mem_free(job->run_id);
}

void publisher_free(struct publisher *p)
{
    publisher_stop(p);
    free_job(&p->job);
    publisher_info_fini(&p->info);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->asked);
    mem_free(p);
}

/* ---- any thread */

/* With the lock held: the job takes the place of the last one. */
static void accept(struct publisher *p, const struct publisher_job *job)
{
    struct publisher_info *i = &p->info;
    free_job(&p->job);
    p->job = *job;
    p->has_job = true;
    set_text(&i->url, job->url);
    set_text(&i->run_id, job->run_id);
    set_text(&i->manifest_ref, "");
    set_text(&i->error, "");
    i->state = PUBLISHER_WAITING;
    i->id++;
    i->shards = job->shards;
    i->began_ms = clock_unix_ms();
    i->cut_ms = i->ended_ms = 0;
    i->keys_done = i->keys_total = i->rows = i->left_out = i->bytes = 0;
    atomic_store(&p->cancel, false);
    atomic_store(&p->progress.phase, BUILD_READING);
}

uint64_t publisher_ask(struct publisher *p, const struct publisher_job *job)
{
    struct publisher_job copy = *job;
    uint64_t id = 0;
    pthread_mutex_lock(&p->lock);
    if (p->has_job || atomic_load(&p->stop)) {
        free_job(&copy);
    } else {
        accept(p, job);
        id = p->info.id;
        if (!p->running && pthread_create(&p->thread, NULL, run, p) == 0) pthread_setname_np(p->thread, "publisher");
        p->running = true;
        pthread_cond_signal(&p->asked);
    }
    pthread_mutex_unlock(&p->lock);
    return id;
}

bool publisher_cancel(struct publisher *p)
{
    pthread_mutex_lock(&p->lock);
    bool running = p->has_job;
    if (running) atomic_store(&p->cancel, true);
    pthread_mutex_unlock(&p->lock);
    return running;
}

void publisher_info(struct publisher *p, struct publisher_info *i)
{
    pthread_mutex_lock(&p->lock);
    note_feed(p, &p->info);
    *i = p->info;
    i->url = mem_strdup(i->url ? i->url : "");
    i->run_id = mem_strdup(i->run_id ? i->run_id : "");
    i->manifest_ref = mem_strdup(i->manifest_ref ? i->manifest_ref : "");
    i->error = mem_strdup(i->error ? i->error : "");
    pthread_mutex_unlock(&p->lock);
}

void publisher_info_fini(struct publisher_info *i)
{
    mem_free(i->url);
    mem_free(i->run_id);
    mem_free(i->manifest_ref);
    mem_free(i->error);
}
