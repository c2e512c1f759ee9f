/* How it is laid out:
 *
 *   chunk   2 MiB from the kernel, 2 MiB-aligned, cut into 32 spans; mapped when the first span is needed
 *   span    64 KiB, 64 KiB-aligned: a header of 64 bytes, then blocks of one class. A block's span is its address with the lower
 *           16 bits cleared. Blocks are handed out in address order first (bump), so pages that no block needed stay untouched.
 *   large   a header of 64 bytes before the block, all chained; from the process heap below LARGE_MAP_MIN, mapped from there on
 *
 * Each class has a list of spans that may have room; allocation takes from its head and drops the head from the list when it turns out to
 * be full. A span that becomes empty serves any class again, except the head of a list: a single block that comes and goes must
 * not make its span come and go. */
#include "store/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    SPAN_BYTES = 64 << 10,
    SPAN_HEADER = 64,
    CHUNK_BYTES = 2 << 20,
    CLASS_STEP = 8,
    CLASSES = ARENA_SMALL_MAX / CLASS_STEP + 1,
    LARGE_HEADER = 64,
    LARGE_MAP_MIN = 1 << 20, /* header included */
    PAGE_BYTES = 4096,
    /* A huge page under the first chunks would cost a nearly empty database 2 MiB of real memory; under the later ones it saves TLB misses. */
    CHUNKS_WITHOUT_HUGE_PAGES = 8,
    LARGE_HUGE_MIN = 2 << 20, /* header included; tables from here on are in huge pages too: their accesses are random */
};

struct span {
    struct span *next, *prev; /* in its class's list */
    void *released;           /* chain of released blocks through their first word */
    uint32_t bump;            /* offset of the first block never handed out */
    uint32_t used;            /* live blocks */
    uint32_t block_bytes;     /* 0: the span serves no class */
    bool listed;
};
_Static_assert(sizeof(struct span) <= SPAN_HEADER, "the span's header has its fixed place");

struct large {
    struct large *next, *prev;
    size_t bytes; /* header included, as occupied */
    size_t away;  /* discarded bytes */
};
_Static_assert(sizeof(struct large) <= LARGE_HEADER, "a large block must stay 64-byte aligned");

struct arena {
    struct span *room[CLASSES]; /* by class: spans that may have room */
    size_t live_bytes;
    size_t large_bytes;   /* occupied by large blocks, headers included, less what is away */
    size_t heap_bytes;    /* of these, what is in the process heap */
    struct large larges;  /* ring head */
    char *fresh;          /* next span of the newest chunk that was never used, fresh_end: none */
    char *fresh_end;
    void **chunks;
    size_t n_chunks;
    struct span **empty;  /* spans without a class, as a stack */
    size_t n_empty, empty_cap;
    size_t n_trimmed;     /* how many at the bottom of that stack have no pages */
};

/* --- the kernel's pages --- */

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED && "out of memory");
    return p;
}

static char *map_chunk(void)
{
    char *p = map_pages(2 * CHUNK_BYTES);
    char *at = (char *)(((uintptr_t)p + CHUNK_BYTES - 1) & ~(uintptr_t)(CHUNK_BYTES - 1));
    if (at > p) munmap(p, (size_t)(at - p));
    if (at < p + CHUNK_BYTES) munmap(at + CHUNK_BYTES, (size_t)(p + CHUNK_BYTES - at));
    return at;
}

static void add_chunk(struct arena *a)
{
    char *p = map_chunk();
    madvise(p, CHUNK_BYTES, a->n_chunks < CHUNKS_WITHOUT_HUGE_PAGES ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    a->chunks = mem_resize(a->chunks, (a->n_chunks + 1) * sizeof *a->chunks);
    a->chunks[a->n_chunks++] = p;
    a->fresh = p;
    a->fresh_end = p + CHUNK_BYTES;
}

/* --- spans --- */

static inline struct span *span_of(const void *block)
{
    return (struct span *)((uintptr_t)block & ~(uintptr_t)(SPAN_BYTES - 1));
}

static void span_list(struct arena *a, struct span *s)
{
    struct span **head = &a->room[s->block_bytes / CLASS_STEP];
    s->prev = NULL;
    s->next = *head;
    if (s->next) s->next->prev = s;
    *head = s;
    s->listed = true;
}

static void span_unlist(struct arena *a, struct span *s)
{
    if (s->prev) s->prev->next = s->next;
    else a->room[s->block_bytes / CLASS_STEP] = s->next;
    if (s->next) s->next->prev = s->prev;
    s->listed = false;
}

static struct span *span_take(struct arena *a)
{
    if (a->n_empty) {
        a->n_empty--;
        if (a->n_trimmed > a->n_empty) a->n_trimmed = a->n_empty;
        return a->empty[a->n_empty];
    }
    if (a->fresh == a->fresh_end) add_chunk(a);
    struct span *s = (struct span *)a->fresh;
    a->fresh += SPAN_BYTES;
    return s;
}

static void span_give_back(struct arena *a, struct span *s)
{
    span_unlist(a, s);
    s->block_bytes = 0;
    if (a->n_empty == a->empty_cap) {
        a->empty_cap = a->empty_cap ? a->empty_cap * 2 : 32;
        a->empty = mem_resize(a->empty, a->empty_cap * sizeof *a->empty);
    }
    a->empty[a->n_empty++] = s;
}

/* One block from that span, NULL if it is full. */
static inline void *span_pop(struct span *s, uint32_t block_bytes)
{
    void *p = s->released;
    if (p) memcpy(&s->released, p, sizeof p);
    else if (s->bump + block_bytes <= SPAN_BYTES) {
        p = (char *)s + s->bump;
        s->bump += block_bytes;
    } else return NULL;
    s->used++;
    return p;
}

/* The head of the class's list is full or missing. */
static __attribute__((noinline)) void *alloc_from_next(struct arena *a, uint32_t block_bytes)
{
    struct span **head = &a->room[block_bytes / CLASS_STEP];
    while (*head) {
        void *p = span_pop(*head, block_bytes);
        if (p) return p;
        span_unlist(a, *head);
    }
    struct span *s = span_take(a);
    *s = (struct span){.bump = SPAN_HEADER, .block_bytes = block_bytes};
    span_list(a, s);
    return span_pop(s, block_bytes);
}

static inline void *small_alloc(struct arena *a, size_t bytes)
{
    uint32_t block_bytes = (uint32_t)((bytes + CLASS_STEP - 1) & ~(size_t)(CLASS_STEP - 1));
    a->live_bytes += block_bytes;
    struct span *s = a->room[block_bytes / CLASS_STEP];
    if (likely(s)) {
        void *p = span_pop(s, block_bytes);
        if (likely(p)) return p;
    }
    return alloc_from_next(a, block_bytes);
}

static inline void small_release(struct arena *a, void *p, size_t bytes)
{
    struct span *s = span_of(p);
    CHECK(((bytes + CLASS_STEP - 1) & ~(size_t)(CLASS_STEP - 1)) == s->block_bytes);
    a->live_bytes -= s->block_bytes;
    memcpy(p, &s->released, sizeof p);
    s->released = p;
    s->used--;
    if (unlikely(!s->listed)) {
        struct span *head = a->room[s->block_bytes / CLASS_STEP];
        span_list(a, s);
        if (head && head->used == 0) span_give_back(a, head);
    }
    if (unlikely(s->used == 0) && s->prev) span_give_back(a, s);
}

/* --- large blocks --- */

static bool large_is_mapped(size_t occupied) { return occupied >= LARGE_MAP_MIN; }

static size_t large_round(size_t bytes)
{
    size_t n = (bytes + LARGE_HEADER + 63) & ~(size_t)63;
    return large_is_mapped(n) ? (n + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1) : n;
}

static struct large *large_of(void *block) { return (struct large *)((char *)block - LARGE_HEADER); }

static void large_link(struct arena *a, struct large *l)
{
    l->next = a->larges.next;
    l->prev = &a->larges;
    l->next->prev = l->prev->next = l;
    a->live_bytes += l->bytes - l->away;
    a->large_bytes += l->bytes - l->away;
    if (!large_is_mapped(l->bytes)) a->heap_bytes += l->bytes;
}

static void large_unlink(struct arena *a, struct large *l)
{
    l->next->prev = l->prev;
    l->prev->next = l->next;
    a->live_bytes -= l->bytes - l->away;
    a->large_bytes -= l->bytes - l->away;
    if (!large_is_mapped(l->bytes)) a->heap_bytes -= l->bytes;
}

static void *large_alloc(struct arena *a, size_t bytes, bool zeroed)
{
    size_t n = large_round(bytes);
    struct large *l = large_is_mapped(n) ? map_pages(n) : aligned_alloc(64, n);
    CHECK(l && "out of memory");
    if (n >= LARGE_HUGE_MIN) madvise(l, n, MADV_HUGEPAGE);
    l->bytes = n;
    l->away = 0;
    large_link(a, l);
    char *block = (char *)l + LARGE_HEADER;
    if (zeroed && !large_is_mapped(n)) memset(block, 0, bytes);
    return block;
}

static void large_drop(struct large *l)
{
    if (large_is_mapped(l->bytes)) munmap(l, l->bytes);
    else free(l);
}

static void large_release(struct arena *a, void *p, size_t bytes)
{
    struct large *l = large_of(p);
    CHECK(l->bytes == large_round(bytes));
    large_unlink(a, l);
    large_drop(l);
}

/* Mapped blocks move their pages instead of their bytes. */
static void *large_remap(struct arena *a, void *p, size_t new_occupied)
{
    struct large *l = large_of(p);
    CHECK(l->away == 0);
    large_unlink(a, l);
    l = mremap(l, l->bytes, new_occupied, MREMAP_MAYMOVE);
    CHECK(l != MAP_FAILED && "out of memory");
    l->bytes = new_occupied;
    large_link(a, l);
    return (char *)l + LARGE_HEADER;
}

/* --- the contract --- */

struct arena *arena_new(void)
{
    struct arena *a = mem_zalloc(sizeof *a);
    a->larges.next = a->larges.prev = &a->larges;
    return a;
}

void arena_free(struct arena *a)
{
    for (struct large *l = a->larges.next; l != &a->larges;) {
        struct large *next = l->next;
        large_drop(l);
        l = next;
    }
    for (size_t i = 0; i < a->n_chunks; i++) munmap(a->chunks[i], CHUNK_BYTES);
    mem_free(a->chunks);
    mem_free(a->empty);
    mem_free(a);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (likely(bytes <= ARENA_SMALL_MAX)) return small_alloc(a, bytes);
    return large_alloc(a, bytes, false);
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
    if (bytes > ARENA_SMALL_MAX) return large_alloc(a, bytes, true);
    return memset(small_alloc(a, bytes), 0, bytes);
}

void arena_release(struct arena *a, void *p, size_t bytes)
{
    if (likely(bytes <= ARENA_SMALL_MAX)) small_release(a, p, bytes);
    else large_release(a, p, bytes);
}

void *arena_resize(struct arena *a, void *p, size_t old_bytes, size_t new_bytes)
{
    size_t old_round = arena_round(old_bytes), new_round = arena_round(new_bytes);
    bool old_large = old_bytes > ARENA_SMALL_MAX, new_large = new_bytes > ARENA_SMALL_MAX;
    if (old_round == new_round && old_large == new_large) return p;
    if (old_large && new_large && large_is_mapped(old_round) && large_is_mapped(new_round)) return large_remap(a, p, new_round);
    void *q = arena_alloc(a, new_bytes);
    memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    arena_release(a, p, old_bytes);
    return q;
}

static void large_set_away(struct arena *a, struct large *l, size_t away)
{
    CHECK(away < l->bytes);
    a->live_bytes += l->away - away;
    a->large_bytes += l->away - away;
    l->away = away;
}

void arena_discard(struct arena *a, void *p, size_t block_bytes, size_t from, size_t to)
{
    if (block_bytes <= ARENA_SMALL_MAX || !large_is_mapped(large_round(block_bytes))) return;
    struct large *l = large_of(p);
    size_t first = (from + LARGE_HEADER + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    size_t end = (to + LARGE_HEADER) & ~(size_t)(PAGE_BYTES - 1);
    if (first >= end) return;
    madvise((char *)l + first, end - first, MADV_DONTNEED);
    large_set_away(a, l, l->away + end - first);
}

void arena_set_away(struct arena *a, void *p, size_t block_bytes, size_t bytes)
{
    if (block_bytes <= ARENA_SMALL_MAX || !large_is_mapped(large_round(block_bytes))) return;
    large_set_away(a, large_of(p), bytes & ~(size_t)(PAGE_BYTES - 1));
}

size_t arena_round(size_t bytes)
{
    return bytes <= ARENA_SMALL_MAX ? (bytes + CLASS_STEP - 1) & ~(size_t)(CLASS_STEP - 1) : large_round(bytes);
}

size_t arena_live_bytes(const struct arena *a) { return a->live_bytes; }

size_t arena_heap_bytes(const struct arena *a) { return a->heap_bytes; }

size_t arena_mapped_bytes(const struct arena *a) { return a->n_chunks * CHUNK_BYTES + a->large_bytes; }

void arena_trim(struct arena *a)
{
    for (size_t class = 1; class < CLASSES; class++) {
        struct span *s = a->room[class];
        if (s && s->used == 0) span_give_back(a, s);
    }
    for (; a->n_trimmed < a->n_empty; a->n_trimmed++) madvise(a->empty[a->n_trimmed], SPAN_BYTES, MADV_DONTNEED);
}

/* Counts one span again; gives its live bytes. */
static size_t span_check(const struct span *s)
{
    if (s->block_bytes == 0) return 0;
    CHECK(s->bump >= SPAN_HEADER && s->bump <= SPAN_BYTES && (s->bump - SPAN_HEADER) % s->block_bytes == 0);
    uint32_t handed_out = (s->bump - SPAN_HEADER) / s->block_bytes, released = 0;
    for (const void *p = s->released; p; released++) {
        CHECK(span_of(p) == s && (size_t)((const char *)p - (const char *)s - SPAN_HEADER) % s->block_bytes == 0);
        CHECK(released < handed_out);
        memcpy(&p, p, sizeof p);
    }
    CHECK(s->used + released == handed_out);
    CHECK(s->used || !s->prev); /* only the head of a list may be empty */
    CHECK(s->listed || (released == 0 && s->bump + s->block_bytes > SPAN_BYTES));
    return (size_t)s->used * s->block_bytes;
}

void arena_check(const struct arena *a)
{
    size_t live = 0, large = 0, heap = 0;
    for (size_t i = 0; i < a->n_chunks; i++)
        for (const char *p = a->chunks[i]; p < (const char *)a->chunks[i] + CHUNK_BYTES && p != a->fresh; p += SPAN_BYTES)
            live += span_check((const struct span *)p);
    for (const struct large *l = a->larges.next; l != &a->larges; l = l->next) {
        CHECK(l->next->prev == l && l->away < l->bytes);
        live += l->bytes - l->away;
        large += l->bytes - l->away;
        if (!large_is_mapped(l->bytes)) heap += l->bytes;
    }
    for (size_t class = 1; class < CLASSES; class++)
        for (const struct span *s = a->room[class]; s; s = s->next)
            CHECK(s->listed && s->block_bytes == class * CLASS_STEP);
    CHECK(live == a->live_bytes && large == a->large_bytes && heap == a->heap_bytes);
}
