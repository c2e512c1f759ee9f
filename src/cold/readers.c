#include "cold/readers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

struct readers {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct readers_job *first, **end;
    uint64_t under_way;
    pthread_t *threads;
    unsigned n;
    bool running, stop;
};

static void *run(void *arg)
{
    struct readers *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->first && !r->stop) pthread_cond_wait(&r->work, &r->lock);
        if (r->stop) break;
        struct readers_job *j = r->first;
        r->first = j->next;
        if (!r->first) r->end = &r->first;
        pthread_mutex_unlock(&r->lock);
        j->run(j);
        pthread_mutex_lock(&r->lock);
        r->under_way--;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct readers *readers_new(unsigned threads)
{
    struct readers *r = mem_zalloc(sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    r->end = &r->first;
    r->n = threads;
    r->threads = mem_zalloc(threads * sizeof *r->threads);
    return r;
}

static void start(struct readers *r)
{
    r->running = true;
    for (unsigned i = 0; i < r->n; i++) {
        char name[16];
        int rc = pthread_create(&r->threads[i], NULL, run, r);
        CHECK(rc == 0);
        snprintf(name, sizeof name, "cold-read-%u", i % 100);
        pthread_setname_np(r->threads[i], name);
    }
}

void readers_add(struct readers *r, struct readers_job *j)
{
    j->next = NULL;
    pthread_mutex_lock(&r->lock);
    if (!r->running) start(r);
    *r->end = j;
    r->end = &j->next;
    r->under_way++;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

uint64_t readers_under_way(struct readers *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t n = r->under_way;
    pthread_mutex_unlock(&r->lock);
    return n;
}

void readers_free(struct readers *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; r->running && i < r->n; i++) pthread_join(r->threads[i], NULL);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->work);
    mem_free(r->threads);
    mem_free(r);
}
