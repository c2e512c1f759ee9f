/* How it is laid out:
 *
 *   region  address space from the kernel, aligned to huge pages, cut into spans from its start on. Mapped in one call because calls wait for page faults of other threads.
 *   span    64 KiB, 64 KiB-aligned: a header of 64 bytes, then blocks of one class. A block's span is its address with the lower
 *           16 bits cleared. Blocks are handed out in address order first (bump), so pages that no block needed stay untouched.
 *   large   a header of 64 bytes before the block, all chained; from the process heap below LARGE_MAP_MIN, mapped from there on, the header in a page of
 *           its own: then a block can begin on a huge page, and nobody touches that before the block's user does
 *
 * Each class has a list of spans that may have room; allocation takes from its head and drops the head from the list when it turns out to
 * be full. A span that becomes empty serves any class again, except the head of a list: a single block that comes and goes must
 * not make its span come and go.
 *
 * Thinning out: where a class has so many holes that some of its spans could be done without, the emptiest ones are taken off its list and are leaving: nothing is allocated there, and when the
 * owner of the blocks has moved them, the span is free. */
#include "store/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/pager.h"

enum {
    SPAN_BYTES = 64 << 10,
    SPAN_HEADER = 64,
    HUGE_BYTES = PAGER_BYTES,
    /* A huge page under its first spans would cost a nearly empty database 2 MiB of real memory; under the later ones it saves TLB misses. */
    FIRST_REGION_BYTES = 16 << 20, /* without huge pages */
    REGION_BYTES = 64 << 20,
    CLASS_STEP = 8,
    CLASSES = ARENA_SMALL_MAX / CLASS_STEP + 1,
    LARGE_HEADER = 64,
    LARGE_MAP_MIN = 1 << 20, /* header included */
    PAGE_BYTES = 4096,
    LARGE_HUGE_MIN = 2 << 20, /* header included; tables from here on are in huge pages too: their accesses are random */
};

struct span {
    struct span *next, *prev; /* in its class's list */
    void *released;           /* chain of released blocks through their first word */
    uint32_t bump;            /* offset of the first block never handed out */
    uint32_t used;            /* live blocks */
    uint32_t block_bytes;     /* 0: the span serves no class */
    bool listed, leaving;
};
_Static_assert(sizeof(struct span) <= SPAN_HEADER, "the span's header has its fixed place");

struct large {
    struct large *next, *prev;
    size_t bytes; /* header included, as occupied */
    size_t away;  /* discarded bytes */
};
_Static_assert(sizeof(struct large) <= LARGE_HEADER, "a large block must stay 64-byte aligned");

struct region {
    char *at;
    size_t bytes;
};

struct arena {
    struct span *room[CLASSES]; /* by class: spans that may have room */
    size_t live_bytes;
    size_t large_bytes;   /* occupied by large blocks, headers included, less what is away */
    size_t heap_bytes;    /* of these, what is in the process heap */
    struct large larges;  /* ring head */
    char *fresh;          /* next span of the region in use that was never used, fresh_end: none */
    char *fresh_end;
    struct region *regions; /* the last may be the one after that in use, mapped ahead */
    size_t n_regions, n_used;
    struct pager *pager;  /* may be NULL */
    struct span **empty;  /* spans without a class, as a stack */
    size_t n_empty, empty_cap;
    size_t n_trimmed;     /* how many at the bottom of that stack have no pages */
    struct span **leaving; /* chosen by arena_thin_out; some may have left */
    size_t n_leaving, leaving_cap;
};

/* --- the kernel's pages --- */

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED && "out of memory");
    return p;
}

/* So many bytes that byte `lead` of them is where a huge page may begin. */
static char *map_aligned(size_t bytes, size_t lead)
{
    char *p = map_pages(bytes + HUGE_BYTES), *end = p + bytes + HUGE_BYTES;
    char *at = (char *)(((uintptr_t)p + lead + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1)) - lead;
    if (at > p) munmap(p, (size_t)(at - p));
    if (at + bytes < end) munmap(at + bytes, (size_t)(end - at) - bytes);
    return at;
}

static void map_region(struct arena *a)
{
    size_t bytes = a->n_regions ? REGION_BYTES : FIRST_REGION_BYTES;
    char *p = map_aligned(bytes, 0);
    madvise(p, bytes, a->n_regions ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    a->regions = mem_resize(a->regions, (a->n_regions + 1) * sizeof *a->regions);
    a->regions[a->n_regions++] = (struct region){p, bytes};
}

static void next_region(struct arena *a)
{
    if (a->n_used == a->n_regions) map_region(a);
    const struct region *r = &a->regions[a->n_used++];
    a->fresh = r->at;
    a->fresh_end = r->at + r->bytes;
}

static void want_huge_page(struct arena *a, char *p)
{
    if (a->pager) pager_want(a->pager, p);
}

/* In the middle of a huge page it is time to have the next one made ready. */
static void look_ahead(struct arena *a)
{
    char *next = (char *)(((uintptr_t)a->fresh | (HUGE_BYTES - 1)) + 1);
    if (next == a->fresh_end) {
        map_region(a);
        next = a->regions[a->n_used].at;
    } else if (a->n_used == 1) {
        return; /* no huge pages here */
    }
    want_huge_page(a, next);
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
    if (a->fresh == a->fresh_end) next_region(a);
    struct span *s = (struct span *)a->fresh;
    a->fresh += SPAN_BYTES;
    if (((uintptr_t)a->fresh & (HUGE_BYTES - 1)) == HUGE_BYTES / 2) look_ahead(a);
    return s;
}

static void span_give_back(struct arena *a, struct span *s)
{
    if (s->listed) span_unlist(a, s);
    s->leaving = false;
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
    if (unlikely(s->leaving)) {
        if (s->used == 0) span_give_back(a, s);
        return;
    }
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
    return large_is_mapped(n) ? (bytes + PAGE_BYTES + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1) : n;
}

/* Where the memory begins that the header is in. */
static void *large_start(struct large *l) { return (char *)l - (large_is_mapped(l->bytes) ? PAGE_BYTES - LARGE_HEADER : 0); }

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

/* n occupied bytes, the block aligned to huge pages if it has any. Advice is for the whole mapping: mremap moves no two. */
static struct large *large_map(size_t n)
{
    char *p = n < LARGE_HUGE_MIN ? map_pages(n) : map_aligned(n, PAGE_BYTES);
    if (n >= LARGE_HUGE_MIN) madvise(p, n, MADV_HUGEPAGE);
    return (struct large *)(p + PAGE_BYTES - LARGE_HEADER);
}

static void *large_alloc(struct arena *a, size_t bytes, bool zeroed)
{
    size_t n = large_round(bytes);
    struct large *l = large_is_mapped(n) ? large_map(n) : aligned_alloc(64, n);
    CHECK(l && "out of memory");
    l->bytes = n;
    l->away = 0;
    large_link(a, l);
    char *block = (char *)l + LARGE_HEADER;
    if (zeroed && !large_is_mapped(n)) memset(block, 0, bytes);
    return block;
}

static void large_drop(struct large *l)
{
    if (large_is_mapped(l->bytes)) munmap(large_start(l), l->bytes);
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
    char *start = mremap(large_start(l), l->bytes, new_occupied, MREMAP_MAYMOVE);
    CHECK(start != MAP_FAILED && "out of memory");
    l = (struct large *)(start + PAGE_BYTES - LARGE_HEADER);
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

void arena_set_pager(struct arena *a, struct pager *p) { a->pager = p; }

void arena_free(struct arena *a)
{
    for (struct large *l = a->larges.next; l != &a->larges;) {
        struct large *next = l->next;
        large_drop(l);
        l = next;
    }
    for (size_t i = 0; i < a->n_regions; i++) munmap(a->regions[i].at, a->regions[i].bytes);
    mem_free(a->regions);
    mem_free(a->empty);
    mem_free(a->leaving);
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
    size_t first = (from + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1), end = to & ~(size_t)(PAGE_BYTES - 1);
    if (first >= end) return;
    madvise((char *)p + first, end - first, MADV_DONTNEED);
    large_set_away(a, l, l->away + end - first);
}

void arena_set_away(struct arena *a, void *p, size_t block_bytes, size_t bytes)
{
    if (block_bytes <= ARENA_SMALL_MAX || !large_is_mapped(large_round(block_bytes))) return;
    large_set_away(a, large_of(p), bytes & ~(size_t)(PAGE_BYTES - 1));
}

void arena_expect(struct arena *a, void *p, size_t block_bytes, size_t from, size_t to)
{
    if (block_bytes <= ARENA_SMALL_MAX || large_round(block_bytes) < LARGE_HUGE_MIN) return;
    size_t at = (from + HUGE_BYTES - 1) & ~(size_t)(HUGE_BYTES - 1);
    for (; at < to && at + HUGE_BYTES <= block_bytes; at += HUGE_BYTES) want_huge_page(a, (char *)p + at);
}

size_t arena_round(size_t bytes)
{
    return bytes <= ARENA_SMALL_MAX ? (bytes + CLASS_STEP - 1) & ~(size_t)(CLASS_STEP - 1) : large_round(bytes);
}

size_t arena_live_bytes(const struct arena *a) { return a->live_bytes; }

size_t arena_heap_bytes(const struct arena *a) { return a->heap_bytes; }

/* The part of a region that spans were cut from. */
static size_t region_bytes(const struct arena *a, size_t i)
{
    if (i + 1 < a->n_used) return a->regions[i].bytes;
    return i + 1 == a->n_used ? (size_t)(a->fresh - a->regions[i].at) : 0;
}

size_t arena_mapped_bytes(const struct arena *a)
{
    size_t bytes = a->large_bytes;
    for (size_t i = 0; i < a->n_used; i++) bytes += (region_bytes(a, i) + HUGE_BYTES - 1) & ~(size_t)(HUGE_BYTES - 1);
    return bytes;
}

void arena_trim(struct arena *a)
{
    for (size_t class = 1; class < CLASSES; class++) {
        struct span *s = a->room[class];
        if (s && s->used == 0) span_give_back(a, s);
    }
    for (; a->n_trimmed < a->n_empty; a->n_trimmed++) madvise(a->empty[a->n_trimmed], SPAN_BYTES, MADV_DONTNEED);
}

/* --- thinning out --- */

static uint32_t span_blocks(uint32_t block_bytes) { return (SPAN_BYTES - SPAN_HEADER) / block_bytes; }

static void leave(struct arena *a, struct span *s)
{
    span_unlist(a, s);
    s->leaving = true;
    if (a->n_leaving == a->leaving_cap) {
        a->leaving_cap = a->leaving_cap * 2 + 32;
        a->leaving = mem_resize(a->leaving, a->leaving_cap * sizeof *a->leaving);
    }
    a->leaving[a->n_leaving++] = s;
}

enum { FILLS = 32 };

static unsigned fill_of(const struct span *s, uint32_t blocks) { return s->used * (FILLS - 1) / blocks; }

/* As many spans can go as the holes of the others can take the blocks of: that is the holes together, in spans. The emptiest go; between those that are about as full it does not matter. */
static void thin_out_class(struct arena *a, size_t class)
{
    uint32_t blocks = span_blocks((uint32_t)class * CLASS_STEP);
    size_t spans[FILLS] = {0}, holes = 0;
    for (const struct span *s = a->room[class]; s; s = s->next) {
        spans[fill_of(s, blocks)]++;
        holes += blocks - s->used;
    }
    size_t may_go = holes / blocks;
    if (may_go < 2) return;
    may_go--; /* room for what comes meanwhile */
    unsigned below = 0;
    for (; below < FILLS && spans[below] <= may_go; below++) may_go -= spans[below];
    for (struct span *s = a->room[class], *next; s; s = next) {
        next = s->next;
        unsigned fill = fill_of(s, blocks);
        if (fill < below) leave(a, s);
        else if (fill == below && may_go) {
            may_go--;
            leave(a, s);
        }
    }
}

size_t arena_holes(const struct arena *a)
{
    size_t spans = 0;
    for (size_t i = 0; i < a->n_used; i++) spans += region_bytes(a, i);
    return spans - a->n_trimmed * SPAN_BYTES - (a->live_bytes - a->large_bytes);
}

bool arena_thin_out(struct arena *a)
{
    CHECK(a->n_leaving == 0);
    for (size_t class = 1; class < CLASSES; class++) thin_out_class(a, class);
    return a->n_leaving > 0;
}

bool arena_is_leaving(const void *p, size_t bytes) { return bytes <= ARENA_SMALL_MAX && span_of(p)->leaving; }

void arena_thin_out_done(struct arena *a)
{
    for (size_t i = 0; i < a->n_leaving; i++) {
        struct span *s = a->leaving[i];
        if (!s->leaving) continue;
        s->leaving = false;
        span_list(a, s);
    }
    a->n_leaving = 0;
    arena_trim(a);
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
    CHECK(!s->listed || !s->leaving);
    CHECK(s->listed || s->leaving || (released == 0 && s->bump + s->block_bytes > SPAN_BYTES));
    return (size_t)s->used * s->block_bytes;
}

void arena_check(const struct arena *a)
{
    size_t live = 0, large = 0, heap = 0;
    for (size_t i = 0; i < a->n_used; i++)
        for (size_t at = 0; at < region_bytes(a, i); at += SPAN_BYTES) live += span_check((const struct span *)(a->regions[i].at + at));
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
