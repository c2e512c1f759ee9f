#include "cluster/raftsegs.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

enum { SPARE_MAX = 2, NAME_DIGITS = 10 };

static const char name_end[] = ".raft";

int raftsegs_init(struct raftsegs *s, const char *dir, uint64_t segment_bytes, uint32_t want_ready)
{
    *s = (struct raftsegs){.segment_bytes = segment_bytes, .want_ready = want_ready};
    return snprintf(s->dir, sizeof s->dir, "%s", dir) < (int)sizeof s->dir ? 0 : -ENAMETOOLONG;
}

void raftsegs_fini(struct raftsegs *s)
{
    mem_free(s->live.v);
    mem_free(s->ready.v);
    mem_free(s->spare.v);
}

/* --- names --- */

void raftsegs_path(const struct raftsegs *s, uint64_t number, char path[RAFTLOG_PATH_MAX])
{
    int n = snprintf(path, RAFTLOG_PATH_MAX, "%s/%0*llu%s", s->dir, NAME_DIGITS, (unsigned long long)number, name_end);
    CHECK(n > 0 && n < RAFTLOG_PATH_MAX);
}

/* Numbers fit in 32 bits, which is how entries remember them: 2^32 segments are more than will be written. */
bool raftsegs_number(const char *name, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        *number = *number * 10 + (uint64_t)(name[i] - '0');
    }
    return strcmp(name + NAME_DIGITS, name_end) == 0 && *number >= 1 && *number <= UINT32_MAX;
}

/* --- lists --- */

void raftsegs_add(struct raftsegs_list *list, struct raftsegs_file file)
{
    list->v = mem_resize(list->v, (list->n + 1) * sizeof *list->v);
    list->v[list->n++] = file;
}

static struct raftsegs_file take(struct raftsegs_list *list, uint32_t i)
{
    struct raftsegs_file file = list->v[i];
    list->n--;
    memmove(list->v + i, list->v + i + 1, (list->n - i) * sizeof *list->v);
    return file;
}

/* --- live segments --- */

struct raftsegs_file *raftsegs_live(const struct raftsegs *s, uint64_t number)
{
    CHECK(s->live.n && number >= s->live.v[0].number && number - s->live.v[0].number < s->live.n);
    return &s->live.v[number - s->live.v[0].number];
}

struct raftsegs_file *raftsegs_current(const struct raftsegs *s) { return s->live.n ? &s->live.v[s->live.n - 1] : NULL; }

void raftsegs_advance(struct raftsegs *s, uint64_t batch)
{
    CHECK(s->ready.n && (s->live.n == 0 || s->ready.v[0].number == raftsegs_current(s)->number + 1));
    struct raftsegs_file file = take(&s->ready, 0);
    file.first_batch = batch;
    file.fd = -1;
    raftsegs_add(&s->live, file);
    s->grow_to = 0;
}

void raftsegs_release(struct raftsegs *s, uint64_t number, uint64_t batch)
{
    struct raftsegs_file *file = raftsegs_live(s, number);
    CHECK(file->entries > 0);
    file->entries--;
    file->void_batch = batch;
}

/* The next segment begins with the state of all groups, so it must be begun on disk; and what made the entries void must be there too. */
bool raftsegs_retire(struct raftsegs *s, uint64_t durable, struct raftsegs_file *out)
{
    if (s->live.n < 2) return false;
    const struct raftsegs_file *oldest = &s->live.v[0], *next = &s->live.v[1];
    if (oldest->entries || oldest->void_batch > durable || next->first_batch > durable) return false;
    *out = take(&s->live, 0);
    raftsegs_add(&s->spare, (struct raftsegs_file){.number = out->number, .bytes = out->bytes, .fd = -1});
    return true;
}

/* --- chores --- */

static uint64_t next_number(const struct raftsegs *s)
{
    if (s->ready.n) return s->ready.v[s->ready.n - 1].number + 1;
    if (s->live.n) return raftsegs_current(s)->number + 1;
    uint64_t last = 0;
    for (uint32_t i = 0; i < s->spare.n; i++)
        if (s->spare.v[i].number > last) last = s->spare.v[i].number;
    return last + 1;
}

/* A spare segment of the usual size, the last of them; n: there is none. */
static uint32_t reusable(const struct raftsegs *s)
{
    for (uint32_t i = s->spare.n; i-- > 0;)
        if (s->spare.v[i].bytes == s->segment_bytes) return i;
    return s->spare.n;
}

/* Some spare segments are kept: under steady load one is let go for each that is begun, and zeroing a new file costs more than all that is written to an old one. Where space is short none is. */
static uint32_t superfluous(const struct raftsegs *s)
{
    uint32_t kept = 0;
    for (uint32_t i = s->spare.n; i-- > 0;)
        if (s->spare.v[i].bytes != s->segment_bytes || s->error || ++kept > SPARE_MAX) return i;
    return s->spare.n;
}

static void set_chore(struct raftsegs *s, enum raftlog_chore_kind kind, uint64_t number, uint64_t bytes)
{
    s->chore = (struct raftlog_chore){.kind = kind, .segment = number, .bytes = bytes};
    memcpy(s->chore.dir, s->dir, strlen(s->dir) + 1);
    raftsegs_path(s, number, s->chore.path);
    s->busy = true;
}

static void choose_chore(struct raftsegs *s)
{
    uint32_t again = reusable(s), drop = superfluous(s);
    if (s->ready.n < s->want_ready && again < s->spare.n) {
        set_chore(s, RAFTLOG_REUSE, next_number(s), s->segment_bytes);
        raftsegs_path(s, take(&s->spare, again).number, s->chore.from);
    } else if (drop < s->spare.n) {
        set_chore(s, RAFTLOG_DROP, s->spare.v[drop].number, 0);
        take(&s->spare, drop);
    } else if (s->ready.n < s->want_ready) {
        set_chore(s, RAFTLOG_MAKE, next_number(s), s->segment_bytes);
    } else if (s->grow_to > s->ready.v[0].bytes) {
        set_chore(s, RAFTLOG_GROW, s->ready.v[0].number, s->grow_to);
    }
}

bool raftsegs_begin_chore(struct raftsegs *s, struct raftlog_chore *c)
{
    if (s->busy || s->halted) return false;
    choose_chore(s);
    if (s->busy) *c = s->chore;
    return s->busy;
}

/* A reuse that failed may have happened or not, so that file is nobody's until the next start. A file that could not be deleted is there at the next start too. */
void raftsegs_chore_done(struct raftsegs *s, int rc)
{
    CHECK(s->busy);
    s->busy = false;
    s->error = rc;
    s->halted = rc != 0;
    if (rc) return;
    if (s->chore.kind == RAFTLOG_MAKE || s->chore.kind == RAFTLOG_REUSE)
        raftsegs_add(&s->ready, (struct raftsegs_file){.number = s->chore.segment, .bytes = s->chore.bytes, .fd = -1});
    if (s->chore.kind == RAFTLOG_GROW) s->ready.v[0].bytes = s->chore.bytes;
}
