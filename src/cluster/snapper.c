#include "cluster/snapper.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "cluster/courier.h"
#include "cluster/meta.h"
#include "cluster/raftthread.h"
#include "cluster/seat.h"
#include "cluster/snapfill.h"
#include "cluster/snaptake.h"
#include "cluster/snapwait.h"
#include "io/file.h"

enum {
    REST_MS = 5000,       /* after a snapshot failed, before the next one is tried */
    RETRY_MS = 100,
    RETRY_MAX_MS = 2000,
    MARK_TRIES = 200,     /* some minutes: then its index is none that this log will have */
    IDLE_MS = 10 * 1000,
    KEPT_SHARE = 4,       /* of the log at most one part in so many is kept behind a snapshot */
};

struct snapper {
    struct snapcore *core;
    pthread_t thread;
    bool started;
    atomic_bool unwanted; /* the job that is under way */
    atomic_bool hurry;    /* a job that fills waits */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t came;
    struct snapper_job *first;       /* in the order in which they came */
    const struct snapper_job *under_way;
    uint64_t take_at_ms;             /* no TAKE before */
};

/* ---- the queue; under the lock */

static bool fills(enum snapper_kind kind) { return kind <= SNAPPER_INSTALL; }

static void count_fills(struct snapper *s)
{
    uint32_t fill = s->under_way && fills(s->under_way->kind), recover = s->under_way && s->under_way->kind == SNAPPER_RECOVER;
    bool waits = false;
    for (const struct snapper_job *j = s->first; j; j = j->next) {
        fill += fills(j->kind);
        recover += j->kind == SNAPPER_RECOVER;
        waits |= fills(j->kind);
    }
    atomic_store(&s->hurry, waits);
    pthread_mutex_lock(&s->core->lock);
    s->core->info.filling = fill;
    s->core->info.recovering = recover;
    pthread_mutex_unlock(&s->core->lock);
}

static struct snapper_job *find(struct snapper *s, enum snapper_kind kind, uint32_t group)
{
    struct snapper_job *j = s->first;
    while (j && !(j->kind == kind && j->group == group)) j = j->next;
    return j;
}

/* What is being done for the group will be followed by a better moment. */
static bool is_busy_with(const struct snapper *s, uint32_t group)
{
    if (s->under_way && s->under_way->group == group) return true;
    const struct snapper_job *j = s->first;
    while (j && j->group != group) j = j->next;
    return j != NULL;
}

static void append(struct snapper *s, const struct snapper_job *job)
{
    struct snapper_job **end = &s->first;
    while (*end) end = &(*end)->next;
    *end = mem_dup(job, sizeof *job);
    (*end)->next = NULL;
}

void snapper_put(struct snapper *s, const struct snapper_job *job)
{
    pthread_mutex_lock(&s->lock);
    struct snapper_job *same = find(s, job->kind, job->group);
    if (same) {
        struct snapper_job *next = same->next;
        *same = *job;
        same->next = next;
    } else if (job->kind != SNAPPER_TAKE || !is_busy_with(s, job->group)) {
        append(s, job);
    }
    count_fills(s);
    pthread_cond_signal(&s->came);
    pthread_mutex_unlock(&s->lock);
}

static void take_back(struct snapper *s, uint32_t group, bool only_refills)
{
    for (struct snapper_job **at = &s->first, *j; (j = *at);) {
        if (j->group == group && (!only_refills || j->kind == SNAPPER_REFILL)) {
            *at = j->next;
            mem_free(j);
        } else {
            at = &j->next;
        }
    }
    count_fills(s);
}

void snapper_drop(struct snapper *s, uint32_t group)
{
    pthread_mutex_lock(&s->lock);
    take_back(s, group, false);
    if (s->under_way && s->under_way->group == group) atomic_store(&s->unwanted, true);
    pthread_mutex_unlock(&s->lock);
}

/* The seat is filled with something newer than what spoilt it. */
static void forget_refills(struct snapper *s, uint32_t group)
{
    pthread_mutex_lock(&s->lock);
    take_back(s, group, true);
    pthread_mutex_unlock(&s->lock);
}

static uint64_t due_ms(const struct snapper *s, const struct snapper_job *j) { return j->kind == SNAPPER_TAKE && j->at_ms < s->take_at_ms ? s->take_at_ms : j->at_ms; }

/* The place of the most urgent one that is due, or NULL; then *next_ms says when one will be. */
static struct snapper_job **choose(struct snapper *s, uint64_t *next_ms)
{
    struct snapper_job **best = NULL;
    uint64_t now = snapcore_ms();
    *next_ms = now + IDLE_MS;
    for (struct snapper_job **at = &s->first; *at; at = &(*at)->next) {
        uint64_t due = due_ms(s, *at);
        if (due < *next_ms) *next_ms = due;
        if (due <= now && (!best || (*at)->kind < (*best)->kind)) best = at;
    }
    return best;
}

/* Gives NULL at the end. */
static struct snapper_job *next_job(struct snapper *s)
{
    uint64_t next_ms;
    struct snapper_job **at = NULL, *j = NULL;
    pthread_mutex_lock(&s->lock);
    s->under_way = NULL;
    count_fills(s);
    while (snapcore_goes_on(s->core) && !(at = choose(s, &next_ms))) {
        struct timespec until = {.tv_sec = (time_t)(next_ms / 1000), .tv_nsec = (long)(next_ms % 1000) * 1000000};
        pthread_cond_timedwait(&s->came, &s->lock, &until);
    }
    if (snapcore_goes_on(s->core)) {
        j = *at;
        *at = j->next;
        s->under_way = j;
        atomic_store(&s->unwanted, false);
        count_fills(s);
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

static void again(struct snapper *s, const struct snapper_job *j)
{
    struct snapper_job copy = *j;
    uint64_t wait = (uint64_t)RETRY_MS << (j->tries < 5 ? j->tries : 5);
    copy.tries++;
    copy.at_ms = snapcore_ms() + (wait < RETRY_MAX_MS ? wait : RETRY_MAX_MS);
    if (!atomic_load(&s->unwanted)) snapper_put(s, &copy);
}

/* ---- the jobs */

static struct snapwait_tether tether(const struct snapper *s) { return (struct snapwait_tether){&s->core->stop, &s->unwanted}; }

/* Nobody is there any more to whom it matters. */
static bool is_over(int rc) { return rc == -EINTR || rc == -ESHUTDOWN || rc == -EIO || rc == -ENOENT; }

/* From now on it can be had: before the log is told of it, and offers it. */
static void offer(struct snapper *s, const struct snapshelf_item *item)
{
    snapshelf_put(&s->core->shelf, &item->file, &item->totals);
    courier_put(s->core->courier, item);
}

static struct snapshelf_item item_of(const struct groupsnap_reader *r)
{
    const struct groupsnap_header *h = groupsnap_header(r);
    return (struct snapshelf_item){{.kind = GROUPDIR_SNAPSHOT, .group = h->group, .index = h->index, .term = h->term}, groupsnap_totals(r)};
}

static void offer_read(struct snapper *s, const struct groupsnap_reader *r)
{
    struct snapshelf_item item = item_of(r);
    offer(s, &item);
}

/* Fills the group with its snapshot at `index`, 0: with nothing. What goes wrong is the end of this node. */
static int fill(struct snapper *s, uint32_t group, uint64_t index)
{
    struct groupsnap_reader *r = NULL;
    struct buf why = {0};
    struct snapwait_tether t = tether(s);
    int rc = index ? snapfill_open(s->core, group, index, &r, &why) : 0;
    if (r) offer_read(s, r);
    if (rc == 0) rc = snapfill_run(s->core, group, r, &t, &why);
    if (rc < 0 && rc != -EINTR) snapcore_fail(s->core, group, "group %u cannot go on from its snapshot at index %llu: %.*s", group, (unsigned long long)index, (int)why.len, why.p);
    groupsnap_close(r);
    buf_fini(&why);
    if (rc == 0) {
        pthread_mutex_lock(&s->core->lock);
        s->core->info.filled++;
        pthread_mutex_unlock(&s->core->lock);
    }
    return rc;
}

static void do_recover(struct snapper *s, const struct snapper_job *j)
{
    struct snapwait_tether t = tether(s);
    if (fill(s, j->group, j->index) < 0) return;
    struct snapwait *resumed = snapwait_new();
    raftthread_resume(s->core->o.raft, j->group, j->index, snapwait_answer(resumed));
    int rc = snapwait_end(resumed, &t);
    if (rc < 0 && !is_over(rc)) snapcore_fail(s->core, j->group, "the log of group %u does not go on from its snapshot at index %llu: %s", j->group, (unsigned long long)j->index, err_text(rc));
}

/* A refill that came too late, when the seat was filled otherwise, must not empty it: it may lead by now. */
static bool is_spoilt(const struct snapper *s, const struct snapper_job *j)
{
    struct seat_info seat;
    if (j->group < META_FIRST_DATA_GROUP || j->is_filled) return true;
    return seats_look(s->core->o.seats, j->group, &seat) && (seat.spoilt || seat.filling);
}

static void do_refill(struct snapper *s, const struct snapper_job *j)
{
    struct snapwait_tether t = tether(s);
    struct raftnode_info info;
    int rc = snapwait_look(s->core->o.raft, j->group, &info, &t);
    if (rc < 0 || !is_spoilt(s, j)) return;
    struct snapper_job retry = *j;
    if (!info.installing) {
        if (fill(s, j->group, info.snapshot) < 0) return;
        struct snapwait *rewound = snapwait_new();
        raftthread_rewind(s->core->o.raft, j->group, info.snapshot, snapwait_answer(rewound));
        rc = snapwait_end(rewound, &t);
        if (rc == 0 || is_over(rc)) return;
        retry.is_filled = true; /* the log has a newer snapshot by now, or is offered one */
    }
    again(s, &retry);
}

static void say_installed(struct snapper *s, const struct snapper_job *j)
{
    struct snapwait_tether t = tether(s);
    struct snapwait *installed = snapwait_new();
    raftthread_installed(s->core->o.raft, j->group, j->index, 0, snapwait_answer(installed));
    int rc = snapwait_end(installed, &t);
    if (rc < 0 && !is_over(rc)) again(s, &(struct snapper_job){.kind = SNAPPER_REFILL, .group = j->group, .is_filled = true}); /* the log did not want it any more */
}

static void note_fetched(struct snapper *s, const struct snapshelf_item *item)
{
    pthread_mutex_lock(&s->core->lock);
    s->core->info.fetched++;
    s->core->info.fetched_bytes += item->totals.file_bytes;
    s->core->info.filled++;
    pthread_mutex_unlock(&s->core->lock);
    slog(s->core->o.log, SLOG_NOTICE, "a group was filled with its leader's snapshot", "group=%u index=%llu bytes=%llu", item->file.group, (unsigned long long)item->file.index,
         (unsigned long long)item->totals.file_bytes);
}

/* The seat is not touched before the file is found whole; from then on there is no way back. */
static void do_install(struct snapper *s, const struct snapper_job *j)
{
    struct groupsnap_reader *r = NULL;
    struct buf why = {0};
    struct snapwait_tether t = tether(s);
    int rc = snapfill_open(s->core, j->group, j->index, &r, &why);
    if (rc < 0) {
        slog(s->core->o.log, SLOG_WARNING, "a snapshot that was fetched is not good", "group=%u reason=%.*s", j->group, (int)why.len, why.p);
        raftthread_installed(s->core->o.raft, j->group, j->index, rc, (struct raftthread_answer){0});
    } else {
        struct snapshelf_item item = item_of(r);
        offer(s, &item);
        rc = snapfill_run(s->core, j->group, r, &t, &why);
        forget_refills(s, j->group);
        if (rc == 0) note_fetched(s, &item);
        if (rc == 0) say_installed(s, j);
        else if (rc != -EINTR) snapcore_fail(s->core, j->group, "group %u cannot be filled with its leader's snapshot: %.*s", j->group, (int)why.len, why.p);
    }
    groupsnap_close(r);
    buf_fini(&why);
}

static void delete_file(struct snapper *s, const struct snapper_job *j)
{
    struct groupdir_file f = {.kind = GROUPDIR_SNAPSHOT, .group = j->group, .index = j->index, .term = j->term};
    char path[GROUPDIR_PATH_MAX];
    if (!snapshelf_take_out(&s->core->shelf, j->group, j->index, j->checksum)) return; /* its place is another's by now */
    if (groupdir_path(path, s->core->o.dir, &f) == 0) s->core->o.files->unlink(s->core->o.files->ctx, path);
}

/* A snapshot that the log does not know is of no use to it, and nobody asks for it. */
static void do_mark(struct snapper *s, const struct snapper_job *j)
{
    struct snapwait_tether t = tether(s);
    struct snapwait *told = snapwait_new();
    raftthread_snapshotted(s->core->o.raft, j->group, j->index, j->trailing, snapwait_answer(told));
    int rc = snapwait_end(told, &t);
    if (rc == 0 || j->is_trim || rc == -EINTR || rc == -ESHUTDOWN || rc == -EIO) return;
    if (rc == -EAGAIN && j->tries < MARK_TRIES) again(s, j);
    else delete_file(s, j);
}

static void note_taken(struct snapper *s, const struct snapshelf_item *item, uint64_t took_ms)
{
    struct snaphost_info *info = &s->core->info;
    pthread_mutex_lock(&s->core->lock);
    info->taken++;
    info->taken_bytes += item->totals.file_bytes;
    info->last_ms = took_ms;
    info->last_group = item->file.group;
    pthread_mutex_unlock(&s->core->lock);
    slog(s->core->o.log, SLOG_VERBOSE, "a snapshot of a group was taken", "group=%u index=%llu entries=%llu bytes=%llu ms=%llu", item->file.group, (unsigned long long)item->file.index,
         (unsigned long long)item->totals.entries, (unsigned long long)item->totals.file_bytes, (unsigned long long)took_ms);
}

static void note_failed(struct snapper *s, uint32_t group, int rc)
{
    if (rc == -ECANCELED || rc == -EINTR || rc == -EALREADY || rc == -ESHUTDOWN) return;
    pthread_mutex_lock(&s->core->lock);
    s->core->info.failed++;
    pthread_mutex_unlock(&s->core->lock);
    pthread_mutex_lock(&s->lock);
    s->take_at_ms = snapcore_ms() + REST_MS;
    pthread_mutex_unlock(&s->lock);
    slog(s->core->o.log, SLOG_WARNING, "a snapshot of a group failed", "group=%u folder=%s reason=%s", group, s->core->o.dir, err_text(rc));
}

/* Entries are kept for followers that are a little behind; but what is kept of a log whose length is why there is a snapshot must be short. */
static uint32_t trailing(const struct snapper *s, const struct raftnode_info *info)
{
    uint64_t share = info->last >= info->first ? (info->last - info->first + 1) / KEPT_SHARE : 0;
    return share < s->core->o.trailing ? (uint32_t)share : s->core->o.trailing;
}

static void do_take(struct snapper *s, const struct snapper_job *j)
{
    struct snapwait_tether t = tether(s);
    struct raftnode_info info;
    struct snapshelf_item item;
    uint64_t began = snapcore_ms();
    if (snapwait_look(s->core->o.raft, j->group, &info, &t) < 0 || info.installing) return;
    struct snapper_job mark = {.kind = SNAPPER_MARK, .group = j->group};
    if (info.handed <= info.snapshot) { /* there is nothing new: what makes the log long is what was kept */
        mark.index = info.snapshot;
        mark.is_trim = true;
        if (info.snapshot && info.first <= info.snapshot) do_mark(s, &mark);
        return;
    }
    int rc = snaptake_run(s->core, j->group, &t, &s->hurry, &item);
    if (rc < 0) {
        note_failed(s, j->group, rc);
        return;
    }
    note_taken(s, &item, snapcore_ms() - began);
    offer(s, &item);
    mark.index = item.file.index;
    mark.term = item.file.term;
    mark.checksum = item.totals.checksum;
    mark.trailing = trailing(s, &info);
    do_mark(s, &mark);
}

static void (*const acts[])(struct snapper *s, const struct snapper_job *j) = {
    [SNAPPER_RECOVER] = do_recover, [SNAPPER_REFILL] = do_refill, [SNAPPER_INSTALL] = do_install, [SNAPPER_MARK] = do_mark, [SNAPPER_TAKE] = do_take,
};

/* ---- the thread */

static void *run(void *arg)
{
    struct snapper *s = arg;
    for (struct snapper_job *j; (j = next_job(s));) {
        acts[j->kind](s, j);
        pthread_mutex_lock(&s->lock);
        s->under_way = NULL;
        pthread_mutex_unlock(&s->lock);
        mem_free(j);
    }
    return NULL;
}

/* ---- life */

struct snapper *snapper_new(struct snapcore *core)
{
    struct snapper *s = mem_zalloc(sizeof *s);
    pthread_condattr_t attr;
    s->core = core;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->came, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

int snapper_start(struct snapper *s)
{
    int rc = -pthread_create(&s->thread, NULL, run, s);
    if (rc == 0) pthread_setname_np(s->thread, "snapper");
    s->started = rc == 0;
    return rc;
}

void snapper_stop(struct snapper *s)
{
    if (!s->started) return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_signal(&s->came);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->started = false;
}

void snapper_free(struct snapper *s)
{
    for (struct snapper_job *j = s->first, *next; j; j = next) {
        next = j->next;
        mem_free(j);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->came);
    mem_free(s);
}
