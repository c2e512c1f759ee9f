#include "snapshot/readpool.h"

#include <pthread.h>
#include <signal.h>

#include "base/check.h"
#include "base/mem.h"

enum { POSTED_MAX = 64 };

/* One call's pieces, or one posted work. It stands in the queue as long as it has pieces that nobody has begun. */
struct job {
    struct job *next;
    void (*piece)(void *arg, uint32_t i);
    void (*work)(void *arg); /* posted */
    void *arg;
    uint32_t n, begun, done;
    pthread_cond_t finished;
};

struct readpool {
    pthread_mutex_t lock; /* guards everything, jobs too */
    pthread_cond_t wake;
    struct job *first, **last;
    pthread_t *threads;
    uint32_t width, started, idle, posted;
    bool ending;
};

struct readpool *readpool_new(uint32_t width)
{
    CHECK(width >= 1);
    struct readpool *p = mem_zalloc(sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->last = &p->first;
    p->width = width;
    p->threads = mem_zalloc(width * sizeof *p->threads);
    return p;
}

static void enqueue(struct readpool *p, struct job *j)
{
    j->next = NULL;
    *p->last = j;
    p->last = &j->next;
}

static void dequeue(struct readpool *p, struct job *j)
{
    struct job **at = &p->first;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (p->last == &j->next) p->last = at;
}

/* Runs the job's next piece; the lock is held before and after. */
static void run_next(struct readpool *p, struct job *j)
{
    uint32_t i = j->begun++;
    if (j->begun == j->n) dequeue(p, j);
    pthread_mutex_unlock(&p->lock);
    j->piece(j->arg, i);
    pthread_mutex_lock(&p->lock);
    if (++j->done == j->n) pthread_cond_signal(&j->finished);
}

static void run_posted(struct readpool *p, struct job *j)
{
    dequeue(p, j);
    pthread_mutex_unlock(&p->lock);
    j->work(j->arg);
    mem_free(j);
    pthread_mutex_lock(&p->lock);
    p->posted--;
}

static void *help(void *arg)
{
    struct readpool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (p->first || !p->ending) {
        struct job *j = p->first;
        if (!j) {
            p->idle++;
            pthread_cond_wait(&p->wake, &p->lock);
            p->idle--;
        } else if (j->work) {
            run_posted(p, j);
        } else {
            run_next(p, j);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are for the program that embeds us, not for its helpers. */
static bool start_thread(struct readpool *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool well = pthread_create(&p->threads[p->started], NULL, help, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (well) p->started++;
    return well;
}

/* Has enough threads awake for so many pieces. Fewer threads, or none, only make it slower. */
static void call_helpers(struct readpool *p, uint32_t wanted)
{
    for (uint32_t i = 0; i < wanted && i < p->idle; i++) pthread_cond_signal(&p->wake);
    while (p->idle < wanted && p->started < p->width - 1 && wanted-- > 0) {
        if (!start_thread(p)) break;
    }
}

void readpool_run(struct readpool *p, uint32_t n, void (*piece)(void *arg, uint32_t i), void *arg)
{
    if (n == 0) return;
    if (n == 1 || p->width == 1) {
        for (uint32_t i = 0; i < n; i++) piece(arg, i);
        return;
    }
    struct job j = {.piece = piece, .arg = arg, .n = n};
    pthread_cond_init(&j.finished, NULL);
    pthread_mutex_lock(&p->lock);
    enqueue(p, &j);
    call_helpers(p, n - 1 < p->width - 1 ? n - 1 : p->width - 1);
    while (j.begun < j.n) run_next(p, &j);
    while (j.done < j.n) pthread_cond_wait(&j.finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_cond_destroy(&j.finished);
}

bool readpool_post(struct readpool *p, void (*work)(void *arg), void *arg)
{
    pthread_mutex_lock(&p->lock);
    bool taken = p->posted < POSTED_MAX && p->width > 1 && (p->started > 0 || start_thread(p));
    if (taken) {
        struct job *j = mem_zalloc(sizeof *j);
        j->work = work;
        j->arg = arg;
        p->posted++;
        enqueue(p, j);
        call_helpers(p, 1);
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

void readpool_free(struct readpool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->threads);
    mem_free(p);
}
