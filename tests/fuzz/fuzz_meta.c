/* Any bytes as what the cluster knows about itself. The first byte says as what: 0 an entry; 1 and 2 snapshots of group 0 and group 1; else a run of entries, each behind its length (u8, 255: all
 * the rest), which a small cluster applies. What decodes is encoded to the same bytes again; whatever is applied leaves both states whole. */
#include <stdint.h>

#include "../unit/metakit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void entry(struct slice in)
{
    struct metacode_entry e;
    struct buf again = {0};
    if (metacode_decode(&e, in) == META_DONE) {
        metacode_encode(&e, &again);
        CHECK(slice_eq(buf_slice(&again), in));
    }
    metacode_fini(&e);
    buf_fini(&again);
}

static void nodes_snapshot(struct slice in)
{
    const char *why = NULL;
    struct metanodes *m = metanodes_restore(in, &why);
    struct buf again = {0};
    CHECK(m || why);
    if (m) {
        metanodes_snapshot(m, &again);
        CHECK(slice_eq(buf_slice(&again), in));
    }
    buf_fini(&again);
    metanodes_free(m);
}

/* The records of the map may stand in any order in the input; once written they have one. */
static void groups_snapshot(struct slice in)
{
    struct buf why = {0}, again = {0};
    struct metagroups *m = metagroups_restore(in, &why);
    CHECK(m || why.len);
    if (m) {
        metagroups_snapshot(m, &again);
        struct metagroups *copy = metagroups_restore(buf_slice(&again), &why);
        CHECK(copy && metagroups_digest(copy) == metagroups_digest(m));
        metagroups_check(copy);
        metagroups_free(copy);
    }
    buf_fini(&again);
    buf_fini(&why);
    metagroups_free(m);
}

static void run(struct slice in)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    while (in.n > 1) {
        size_t n = (uint8_t)in.p[0];
        if (n == 255 || n > in.n - 1) n = in.n - 1;
        struct slice one = slice_of(in.p + 1, n);
        metanodes_apply(k.nodes, one, &k.r);
        metagroups_apply(k.groups, one, &k.r);
        metanodes_check(k.nodes);
        metagroups_check(k.groups);
        in = slice_of(one.p + n, in.n - 1 - n);
    }
    metakit_fini(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    struct slice in = slice_of(data + 1, n - 1);
    switch (data[0]) {
    case 0: entry(in); break;
    case 1: nodes_snapshot(in); break;
    case 2: groups_snapshot(in); break;
    default: run(in);
    }
    return 0;
}
