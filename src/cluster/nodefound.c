#include "cluster/nodefound.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cluster/wirecall.h"

void nodefound_init(struct nodefound *f, struct nodefile *who, uint64_t now) { *f = (struct nodefound){.who = who, .next_ms = now}; }

/* "new MINE 0": I have promised nothing. "founded MINE YOURS": I was founded with you, who had this instance. */
static void add_message(struct buf *frames, const char *word, uint64_t mine, uint64_t yours)
{
    char a[NUM_I64_MAX_CHARS], b[NUM_I64_MAX_CHARS];
    const struct slice argv[] = {slice_str(word), slice_of(a, num_format_u64(a, mine)), slice_of(b, num_format_u64(b, yours))};
    const struct wirecall_request r = {.id = 1, .resp = 2, .argc = 3};
    wirecall_add_request(frames, NODEFOUND_GROUP, &r, argv);
}

bool nodefound_tick(struct nodefound *f, uint64_t now, struct buf *frames)
{
    if (f->who->founded || !f->who->n_founders || now < f->next_ms) return false;
    f->next_ms = now + NODEFOUND_EVERY_MS;
    add_message(frames, "new", f->who->instance, 0);
    return true;
}

static struct nodefile_founder *founder(struct nodefile *who, uint64_t id) { return id >= 1 && id <= who->n_founders ? &who->founders[id - 1] : NULL; }

static bool all_are_met(const struct nodefile *who)
{
    for (uint32_t i = 0; i < who->n_founders; i++)
        if (!who->founders[i].instance) return false;
    return true;
}

static int hear(struct nodefound *f, struct nodefile_founder *of, struct slice word, uint64_t theirs, uint64_t mine, struct buf *frames, enum nodefound_step *step)
{
    bool is_new = slice_eq(word, SLICE("new")), was_founded = slice_eq(word, SLICE("founded"));
    if (!is_new && !was_founded) return -EBADMSG;
    if (f->who->founded) {
        if (is_new) add_message(frames, "founded", f->who->instance, of->instance);
        return 0;
    }
    if (was_founded && mine != f->who->instance) {
        *step = NODEFOUND_REFUSED;
        return 0;
    }
    of->instance = theirs;
    if (all_are_met(f->who)) *step = NODEFOUND_READY;
    return 0;
}

int nodefound_frame(struct nodefound *f, uint64_t from, const struct wire_frame *frame, struct buf *frames, enum nodefound_step *step)
{
    struct wirecall_joiner *joiner = wirecall_joiner_new(0);
    struct wirecall_request r;
    struct slice message, *argv = NULL;
    uint32_t room = 0;
    uint64_t theirs, mine;
    struct nodefile_founder *of = founder(f->who, from);
    *step = NODEFOUND_WAIT;
    int rc = -EBADMSG;
    if (wirecall_join(joiner, frame, &message) == WIRE_OK && wirecall_get_request(message, &r, &argv, &room) == 0 && r.argc == 3 && of && num_parse_u64(argv[1], &theirs) && theirs &&
        num_parse_u64(argv[2], &mine))
        rc = hear(f, of, argv[0], theirs, mine, frames, step);
    mem_free(argv);
    wirecall_joiner_free(joiner);
    return rc;
}
