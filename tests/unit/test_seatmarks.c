/* Marks of watched keys: every change of a key is another one, and nothing is counted before somebody asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "cluster/seatmarks.h"
#include "store/op.h"

enum { SEED = 11 };

static uint64_t hash_of(const char *key) { return keyhash(slice_str(key), SEED); }

static void change(struct seatmarks *m, const char *key) { seatmarks_add(m, &(struct op){.kind = OP_SET, .key = slice_str(key)}, SEED); }

static void a_change_is_another_mark(void **state)
{
    struct seatmarks m = {0};
    change(&m, "a");
    assert_null(m.changes);
    uint64_t a = seatmarks_of_key(&m, hash_of("a")), b = seatmarks_of_key(&m, hash_of("b"));
    assert_true(hash_of("a") % SEATMARKS_SLOTS != hash_of("b") % SEATMARKS_SLOTS);
    change(&m, "a");
    assert_true(seatmarks_of_key(&m, hash_of("a")) != a);
    assert_true(seatmarks_of_key(&m, hash_of("b")) == b);
    a = seatmarks_of_key(&m, hash_of("a"));
    assert_true(seatmarks_of_key(&m, hash_of("a")) == a);
    seatmarks_fini(&m);
}

static void what_changes_all_changes_each(void **state)
{
    static const enum op_kind kinds[] = {OP_FLUSH, OP_SWAP};
    struct seatmarks m = {0};
    for (int i = 0; i < 2; i++) {
        uint64_t a = seatmarks_of_key(&m, hash_of("a")), b = seatmarks_of_key(&m, hash_of("b"));
        seatmarks_add(&m, &(struct op){.kind = kinds[i]}, SEED);
        assert_true(seatmarks_of_key(&m, hash_of("a")) != a && seatmarks_of_key(&m, hash_of("b")) != b);
    }
    seatmarks_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_another_mark),
        cmocka_unit_test(what_changes_all_changes_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
