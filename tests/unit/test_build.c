/* Builds whose store fails: at every request, in every way, readers have the old snapshot or the new one, whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ftw.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "object/faultstore.h"
#include "object/object.h"
#include "snapshot/build.h"
#include "snapshot/history.h"
#include "snapshot/input.h"
#include "snapshot/verify.h"

/* ---- rows from nowhere */

struct counting {
    struct input input;
    uint32_t at, n;
    const char *value;
    char key[16];
};

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct counting *c = (struct counting *)in;
    if (c->at == c->n) return INPUT_END;
    *row = (struct input_row){.key = slice_of(c->key, (size_t)sprintf(c->key, "%u", c->at++)), .value = slice_str(c->value)};
    return INPUT_ROW;
}

/* ---- a store in a folder */

struct fixture {
    char folder[64], url[80];
    struct object_store *real, *faulty;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char why[OBJECT_DETAIL_BYTES];
    strcpy(f->folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sherd-build-XXXXXX" : "/tmp/sherd-build-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->url, sizeof f->url, "file://%s/s", f->folder);
    struct object_store *inner;
    if (object_open(&f->real, f->url, NULL, why) || object_open(&inner, f->url, NULL, why)) return -1;
    f->faulty = faultstore_wrap(inner);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    object_close(f->faulty);
    object_close(f->real);
    nftw(f->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

enum { ROWS = 300, SHARDS = 3 };

static int build(struct object_store *s, const char *value, struct build_result *r, struct buf *error)
{
    struct counting c = {.input.next = next, .n = ROWS, .value = value};
    struct build_options o = {.store = s, .input = &c.input, .shards = SHARDS, .jobs = 2};
    error->len = 0;
    return build_run(&o, r, error);
}

/* The run that is current; its shards are all there and in order. */
static void current_run(struct fixture *f, char run_id[64])
{
    struct pointer p;
    struct manifest *m;
    assert_int_equal(history_current(f->real, NULL, &p, &m, NULL), 0);
    assert_int_equal(verify_snapshot(f->real, NULL, m, &(struct verify_options){0}, NULL, NULL), 0);
    assert_int_equal(manifest_rows(m), ROWS);
    snprintf(run_id, 64, "%s", p.run_id);
    manifest_free(m);
    pointer_fini(&p);
}

/* What a build writes. Shards go up beside each other, so which of the first kinds a number hits is chance. */
static const char *const written[] = {"/run.yaml", "/shard.db", "/shard.sidecar", "/manifest", "_CURRENT"};
enum { WRITTEN = sizeof written / sizeof *written };

struct aim {
    uint64_t at;
    unsigned hit; /* bits: kinds whose put was the planned request */
};

static void note_hit(void *arg, uint64_t number, const char *verb, const char *key)
{
    struct aim *a = arg;
    for (unsigned i = 0; i < WRITTEN; i++)
        if (number == a->at && strncmp(verb, "put", 3) == 0 && strstr(key, written[i])) a->hit |= 1u << i;
}

/* One build after the other, each failing at its next request, until one had no more to fail at. */
static void sweep(struct fixture *f, enum faultstore_kind kind, int code, bool for_good, unsigned round, struct aim *aim)
{
    struct buf error = {0};
    struct build_result r;
    char old[64], now[64], value[40];
    uint64_t k = 1;
    for (bool fired = true; fired; k++) {
        current_run(f, old);
        snprintf(value, sizeof value, "%d-%d-%u-%u", kind, for_good, round, (unsigned)k);
        aim->at = k;
        faultstore_plan(f->faulty, (struct faultstore_plan){.at = k, .kind = kind, .code = code, .for_good = for_good});
        int rc = build(f->faulty, value, &r, &error);
        fired = faultstore_fired(f->faulty);
        current_run(f, now);
        assert_true(strcmp(now, old) == 0 || (r.run_id && strcmp(now, r.run_id) == 0));
        if (rc == 0) assert_string_equal(now, r.run_id);
        else assert_true(error.len > 0);
        if (rc != 0 && rc != ERR_SNAPSHOT_UNCERTAIN) assert_string_equal(now, old);
        if (!fired) assert_int_equal(rc, 0);
        build_result_fini(&r);
        assert_true(k < 100);
    }
    buf_fini(&error);
}

static void fail_at_every_request(struct fixture *f, enum faultstore_kind kind, int code, bool for_good)
{
    struct buf error = {0};
    struct build_result r;
    struct aim aim = {0};
    assert_int_equal(build(f->real, "first", &r, &error), 0);
    build_result_fini(&r);
    buf_fini(&error);
    faultstore_on_request(f->faulty, note_hit, &aim);
    for (unsigned round = 0; aim.hit != (1u << WRITTEN) - 1; round++) {
        assert_true(round < 50);
        sweep(f, kind, code, for_good, round, &aim);
    }
}

static void a_store_that_refuses_one_request_leaves_a_whole_snapshot(void **state) { fail_at_every_request(*state, FAULTSTORE_FAIL, ERR_OBJECT_DENIED, false); }
static void a_store_that_goes_away_leaves_a_whole_snapshot(void **state) { fail_at_every_request(*state, FAULTSTORE_FAIL, ERR_OBJECT_DENIED, true); }
static void a_store_whose_answer_is_lost_leaves_a_whole_snapshot(void **state) { fail_at_every_request(*state, FAULTSTORE_LOSE, ERR_OBJECT_DENIED, false); }

static void count_shard_puts(void *arg, uint64_t number, const char *verb, const char *key)
{
    unsigned *puts = arg;
    if (strstr(key, "/shard.db") && strncmp(verb, "put", 3) == 0) ++*puts;
}

static void an_upload_that_failed_in_passing_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct buf error = {0};
    struct build_result r;
    char now[64];
    unsigned puts = 0;
    /* Which request is the first of a shard: the third, behind those of _CURRENT and the run record. */
    faultstore_plan(f->faulty, (struct faultstore_plan){.at = 3, .kind = FAULTSTORE_LOSE, .code = ERR_OBJECT_TIMEOUT});
    faultstore_on_request(f->faulty, count_shard_puts, &puts);
    assert_int_equal(build(f->faulty, "again", &r, &error), 0);
    assert_int_equal(r.retries, 1);
    assert_int_equal(puts, SHARDS + 1);
    current_run(f, now);
    build_result_fini(&r);
    struct object_meta meta;
    char key[200];
    unsigned first = 0, second = 0;
    for (unsigned i = 0; i < SHARDS; i++) {
        snprintf(key, sizeof key, "shards/run_id=%s/db=%05u/attempt=00/shard.db", now, i);
        first += object_head(f->real, NULL, key, &meta) == 0;
        snprintf(key, sizeof key, "shards/run_id=%s/db=%05u/attempt=01/shard.db", now, i);
        second += object_head(f->real, NULL, key, &meta) == 0;
    }
    assert_int_equal(first, SHARDS - 1); /* what the lost one had written is gone */
    assert_int_equal(second, 1);
    buf_fini(&error);
}

static void a_build_that_was_cancelled_says_so(void **state)
{
    struct fixture *f = *state;
    struct buf error = {0};
    struct build_result r;
    atomic_bool cancel = true;
    struct counting c = {.input.next = next, .n = ROWS, .value = "x"};
    struct build_options o = {.store = f->real, .input = &c.input, .shards = 1, .cancel = &cancel};
    assert_int_equal(build_run(&o, &r, &error), ERR_OBJECT_CANCELLED);
    struct pointer p;
    assert_int_equal(history_pointer(f->real, NULL, &p, NULL, NULL), ERR_SNAPSHOT_NO_CURRENT);
    pointer_fini(&p);
    build_result_fini(&r);
    buf_fini(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_store_that_refuses_one_request_leaves_a_whole_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_that_goes_away_leaves_a_whole_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_store_whose_answer_is_lost_leaves_a_whole_snapshot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_upload_that_failed_in_passing_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_build_that_was_cancelled_says_so, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
