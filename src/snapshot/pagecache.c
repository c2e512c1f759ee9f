#include "snapshot/pagecache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/mem.h"

enum { PARTS = 16, BUCKETS_MIN = 64, TYPICAL_PAGE = 4096 };

enum state { LOADING, READY, DROPPED /* not in the table any more */ };

struct pagecache_page {
    struct pagecache_page *next;          /* in its bucket */
    struct pagecache_page *older, *newer; /* in order of use, if nobody holds it */
    uint64_t file;
    uint32_t number, bytes, holders;
    enum state state;
    int rc; /* of a load that failed */
    _Alignas(16) uint8_t data[];
};

struct part {
    pthread_mutex_t lock; /* guards the part and the heads of its pages */
    pthread_cond_t loaded;
    struct pagecache_page **buckets;
    uint32_t n_buckets; /* a power of two */
    struct pagecache_page *oldest, *newest;
    uint64_t bytes, bytes_max;
    uint64_t hits, misses, evicted;
    char apart[64]; /* from the next part, on a cache line of its own */
};

struct pagecache {
    struct part parts[PARTS];
    _Atomic uint64_t files;
};

struct pagecache *pagecache_new(uint64_t bytes_max)
{
    struct pagecache *c = mem_zalloc(sizeof *c);
    uint32_t n = BUCKETS_MIN;
    while (n < bytes_max / PARTS / TYPICAL_PAGE && n < 1u << 20) n *= 2;
    for (int i = 0; i < PARTS; i++) {
        struct part *p = &c->parts[i];
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->loaded, NULL);
        p->n_buckets = n;
        p->buckets = mem_zalloc(n * sizeof *p->buckets);
        p->bytes_max = bytes_max / PARTS;
    }
    return c;
}

uint64_t pagecache_file(struct pagecache *c) { return atomic_fetch_add(&c->files, 1); }

static uint64_t hash_of(uint64_t file, uint32_t number)
{
    uint64_t h = (file * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)number * 0xc2b2ae3d27d4eb4full);
    return h ^ h >> 29;
}

static struct part *part_of(struct pagecache *c, uint64_t hash) { return &c->parts[hash >> 60]; }

static struct pagecache_page **bucket_of(struct part *p, uint64_t hash) { return &p->buckets[hash & (p->n_buckets - 1)]; }

static struct part *home(struct pagecache *c, const struct pagecache_page *g) { return part_of(c, hash_of(g->file, g->number)); }

/* ---- order of use */

static void line_up(struct part *p, struct pagecache_page *g)
{
    g->newer = NULL;
    g->older = p->newest;
    *(p->newest ? &p->newest->newer : &p->oldest) = g;
    p->newest = g;
}

static void step_out(struct part *p, struct pagecache_page *g)
{
    *(g->older ? &g->older->newer : &p->oldest) = g->newer;
    *(g->newer ? &g->newer->older : &p->newest) = g->older;
    g->older = g->newer = NULL;
}

/* Takes a page out of the table; it is freed now, or by the last who holds it. */
static void drop(struct part *p, struct pagecache_page *g)
{
    struct pagecache_page **at = bucket_of(p, hash_of(g->file, g->number));
    while (*at != g) at = &(*at)->next;
    *at = g->next;
    p->bytes -= g->bytes;
    if (g->holders == 0) {
        step_out(p, g);
        mem_free(g);
    } else {
        g->state = DROPPED;
    }
}

static void make_room(struct part *p)
{
    while (p->bytes > p->bytes_max && p->oldest) {
        drop(p, p->oldest);
        p->evicted++;
    }
}

/* ---- */

static struct pagecache_page *find(struct part *p, uint64_t hash, uint64_t file, uint32_t number)
{
    struct pagecache_page *g = *bucket_of(p, hash);
    while (g && (g->file != file || g->number != number)) g = g->next;
    return g;
}

static struct pagecache_page *add(struct part *p, uint64_t hash, uint64_t file, uint32_t number, uint32_t bytes)
{
    struct pagecache_page *g = mem_alloc(sizeof *g + bytes);
    struct pagecache_page **bucket = bucket_of(p, hash);
    *g = (struct pagecache_page){.next = *bucket, .file = file, .number = number, .bytes = bytes, .state = LOADING, .holders = 1};
    *bucket = g;
    p->bytes += bytes;
    make_room(p);
    return g;
}

enum pagecache_found pagecache_take(struct pagecache *c, uint64_t file, uint32_t number, uint32_t bytes, struct pagecache_page **page)
{
    uint64_t hash = hash_of(file, number);
    struct part *p = part_of(c, hash);
    enum pagecache_found found = PAGECACHE_LOAD;
    pthread_mutex_lock(&p->lock);
    struct pagecache_page *g = find(p, hash, file, number);
    if (g) {
        found = g->state == READY ? PAGECACHE_READY : PAGECACHE_WAIT;
        if (g->holders++ == 0) step_out(p, g);
        p->hits++;
    } else {
        g = add(p, hash, file, number, bytes);
        p->misses++;
    }
    pthread_mutex_unlock(&p->lock);
    *page = g;
    return found;
}

uint8_t *pagecache_bytes(struct pagecache_page *page) { return page->data; }

struct pagecache_page *pagecache_of(const uint8_t *bytes) { return (struct pagecache_page *)(bytes - offsetof(struct pagecache_page, data)); }

void pagecache_loaded(struct pagecache *c, struct pagecache_page *g, int rc)
{
    struct part *p = home(c, g);
    pthread_mutex_lock(&p->lock);
    g->rc = rc;
    if (g->state == LOADING) {
        g->state = READY;
        if (rc < 0) drop(p, g);
    }
    pthread_cond_broadcast(&p->loaded);
    pthread_mutex_unlock(&p->lock);
}

int pagecache_wait(struct pagecache *c, struct pagecache_page *g)
{
    struct part *p = home(c, g);
    pthread_mutex_lock(&p->lock);
    while (g->state == LOADING) pthread_cond_wait(&p->loaded, &p->lock);
    int rc = g->rc;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

void pagecache_put(struct pagecache *c, struct pagecache_page *g)
{
    struct part *p = home(c, g);
    pthread_mutex_lock(&p->lock);
    CHECK(g->holders > 0);
    if (--g->holders == 0) {
        if (g->state == DROPPED) {
            mem_free(g);
        } else {
            line_up(p, g);
            make_room(p);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

/* Pages that are being fetched stay: their thread ends them, and nobody asks for them any more. */
static void forget_in(struct part *p, uint64_t file, bool all)
{
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->n_buckets; i++) {
        for (struct pagecache_page *g = p->buckets[i], *next; g; g = next) {
            next = g->next;
            if ((all || g->file == file) && g->state == READY) drop(p, g);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void pagecache_forget(struct pagecache *c, uint64_t file)
{
    for (int i = 0; i < PARTS; i++) forget_in(&c->parts[i], file, false);
}

void pagecache_free(struct pagecache *c)
{
    if (!c) return;
    for (int i = 0; i < PARTS; i++) {
        struct part *p = &c->parts[i];
        forget_in(p, 0, true);
        CHECK(p->bytes == 0);
        mem_free(p->buckets);
        pthread_cond_destroy(&p->loaded);
        pthread_mutex_destroy(&p->lock);
    }
    mem_free(c);
}

void pagecache_stats(struct pagecache *c, struct pagecache_stats *s)
{
    *s = (struct pagecache_stats){0};
    for (int i = 0; i < PARTS; i++) {
        struct part *p = &c->parts[i];
        pthread_mutex_lock(&p->lock);
        s->hits += p->hits;
        s->misses += p->misses;
        s->evicted += p->evicted;
        s->bytes += p->bytes;
        pthread_mutex_unlock(&p->lock);
    }
}
