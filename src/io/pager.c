#include "io/pager.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/mem.h"

enum { WISHES_MAX = 64 };

struct pager {
    pthread_t thread;
    sem_t asked; /* once per wish */
    _Atomic(void *) wishes[WISHES_MAX]; /* NULL: free. In no order: all of them are soon served */
    _Atomic uint64_t made, served;
    atomic_bool stop;
};

/* MADV_POPULATE_WRITE touches without changing anything, and fails without harm where nothing is mapped or the kernel does not know it. */
static void serve_all(struct pager *p)
{
    for (unsigned i = 0; i < WISHES_MAX && !atomic_load(&p->stop); i++) {
        void *at = atomic_exchange(&p->wishes[i], NULL);
        if (!at) continue;
        madvise(at, PAGER_BYTES, MADV_POPULATE_WRITE);
        atomic_fetch_add(&p->served, 1);
    }
}

static void *run(void *arg)
{
    struct pager *p = arg;
    while (!atomic_load(&p->stop))
        if (sem_wait(&p->asked) == 0) serve_all(p);
    return NULL;
}

struct pager *pager_new(void)
{
    struct pager *p = mem_zalloc(sizeof *p);
    sem_init(&p->asked, 0, 0);
    int rc = pthread_create(&p->thread, NULL, run, p);
    CHECK(rc == 0);
    pthread_setname_np(p->thread, "pager");
    return p;
}

void pager_free(struct pager *p)
{
    atomic_store(&p->stop, true);
    sem_post(&p->asked);
    pthread_join(p->thread, NULL);
    sem_destroy(&p->asked);
    mem_free(p);
}

void pager_want(struct pager *p, void *at)
{
    for (unsigned i = 0; i < WISHES_MAX; i++) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&p->wishes[i], &none, at)) continue;
        atomic_fetch_add(&p->made, 1);
        sem_post(&p->asked);
        return;
    }
}

void pager_settle(struct pager *p)
{
    while (atomic_load(&p->served) < atomic_load(&p->made)) sched_yield();
}
