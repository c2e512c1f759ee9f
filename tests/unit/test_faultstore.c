/* The store that goes wrong on purpose: it fails where it should, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "object/faultstore.h"
#include "object/object.h"

struct fixture {
    char folder[64];
    struct object_store *s;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char url[100], error[OBJECT_DETAIL_BYTES];
    struct object_store *inner;
    strcpy(f->folder, "/tmp/sherd-faultstore-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(url, sizeof url, "file://%s", f->folder);
    if (object_open(&inner, url, NULL, error) != 0) return -1;
    f->s = faultstore_wrap(inner);
    *state = f;
    return 0;
}

static int remove_item(void *arg, const struct object_item *item) { return object_delete(arg, NULL, &item->key, 1, NULL); }

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct object_store *inner = faultstore_inner(f->s);
    object_list(inner, NULL, NULL, remove_item, inner);
    object_close(f->s);
    rmdir(f->folder);
    free(f);
    return 0;
}

static int put(struct fixture *f, const char *key, const struct object_put_options *o) { return object_put(f->s, NULL, key, slice_str(key), o, NULL); }

static bool is_there(struct fixture *f, const char *key)
{
    struct object_meta meta;
    return object_head(faultstore_inner(f->s), NULL, key, &meta) == 0;
}

static int count_item(void *arg, const struct object_item *item)
{
    ++*(int *)arg;
    return 0;
}

static void without_a_plan_it_is_the_store_that_it_wraps(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    assert_int_equal(put(f, "a", NULL), 0);
    assert_int_equal(object_get(f->s, NULL, "a", 10, &out, NULL), 0);
    assert_true(slice_eq(buf_slice(&out), SLICE("a")));
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_ALL);
    assert_int_equal(faultstore_requests(f->s), 2);
    assert_false(faultstore_fired(f->s));
    assert_string_equal(object_url(f->s), object_url(faultstore_inner(f->s)));
    buf_fini(&out);
}

static void the_planned_request_fails_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct object_call call = {0};
    faultstore_plan(f->s, (struct faultstore_plan){.at = 2, .code = ERR_OBJECT_BUSY});
    assert_int_equal(put(f, "a", NULL), 0);
    assert_false(faultstore_fired(f->s));
    assert_int_equal(object_put(f->s, &call, "b", SLICE("b"), NULL, NULL), ERR_OBJECT_BUSY);
    assert_non_null(strstr(call.detail, "request 2"));
    assert_true(faultstore_fired(f->s));
    assert_int_equal(put(f, "c", NULL), 0);
    assert_true(is_there(f, "a") && !is_there(f, "b") && is_there(f, "c"));
}

static void a_failure_can_be_for_good(void **state)
{
    struct fixture *f = *state;
    faultstore_plan(f->s, (struct faultstore_plan){.at = 1, .for_good = true});
    for (int i = 0; i < 3; i++) assert_int_equal(put(f, "a", NULL), ERR_OBJECT_CONNECTION);
    assert_false(is_there(f, "a"));
}

static void a_lost_answer_hides_what_happened(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = {"a", "b"};
    struct object_put_options absent = {.condition = OBJECT_IF_ABSENT};
    struct faultstore_plan lose = {.at = 1, .kind = FAULTSTORE_LOSE, .code = ERR_OBJECT_TIMEOUT};
    faultstore_plan(f->s, lose);
    assert_int_equal(put(f, "a", NULL), ERR_OBJECT_TIMEOUT);
    assert_true(is_there(f, "a"));
    faultstore_plan(f->s, lose);
    assert_int_equal(put(f, "b", &absent), ERR_OBJECT_UNCERTAIN);
    assert_true(is_there(f, "b"));
    faultstore_plan(f->s, lose);
    assert_int_equal(put(f, "b", &absent), ERR_OBJECT_UNCERTAIN);
    faultstore_plan(f->s, lose);
    size_t failed;
    assert_int_equal(object_delete(f->s, NULL, keys, 2, &failed), ERR_OBJECT_TIMEOUT);
    assert_int_equal(failed, 2);
    assert_false(is_there(f, "a") || is_there(f, "b"));
}

static void half_of_a_request_can_happen(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) put(f, keys[i], NULL);
    struct faultstore_plan half = {.at = 1, .kind = FAULTSTORE_HALF};
    int seen = 0;
    faultstore_plan(f->s, half);
    assert_int_equal(object_list(f->s, NULL, NULL, count_item, &seen), ERR_OBJECT_CONNECTION);
    assert_int_equal(seen, 2);
    faultstore_plan(f->s, half);
    assert_int_equal(object_delete(f->s, NULL, keys, 4, NULL), ERR_OBJECT_CONNECTION);
    assert_true(!is_there(f, "a") && !is_there(f, "b") && is_there(f, "c") && is_there(f, "d"));
}

static void every_kind_of_call_can_fail(void **state)
{
    struct fixture *f = *state;
    struct object_meta meta;
    struct buf out = {0};
    char c;
    static const char *const key = "a";
    int seen = 0;
    put(f, "a", NULL);
    faultstore_plan(f->s, (struct faultstore_plan){.at = 1, .for_good = true});
    assert_int_equal(object_head(f->s, NULL, "a", &meta), ERR_OBJECT_CONNECTION);
    assert_int_equal(object_get(f->s, NULL, "a", 10, &out, NULL), ERR_OBJECT_CONNECTION);
    assert_int_equal(object_get_range(f->s, NULL, "a", &c, 1, 0, NULL), ERR_OBJECT_CONNECTION);
    assert_int_equal(object_get_fd(f->s, NULL, "a", -1, NULL), ERR_OBJECT_CONNECTION);
    assert_int_equal(object_list(f->s, NULL, NULL, count_item, &seen), ERR_OBJECT_CONNECTION);
    assert_int_equal(object_delete(f->s, NULL, &key, 1, NULL), ERR_OBJECT_CONNECTION);
    assert_int_equal(faultstore_requests(f->s), 6);
    assert_true(out.len == 0 && seen == 0 && is_there(f, "a"));
    buf_fini(&out);
}

static void conditions_can_be_ignored_or_refused_and_the_probe_finds_out(void **state)
{
    struct fixture *f = *state;
    struct object_put_options absent = {.condition = OBJECT_IF_ABSENT};
    faultstore_set_conditions(f->s, FAULTSTORE_CONDITIONS_IGNORED);
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_NONE);
    uint64_t requests = faultstore_requests(f->s);
    assert_true(requests > 3);
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_NONE);
    assert_int_equal(faultstore_requests(f->s), requests);
    put(f, "a", NULL);
    assert_int_equal(put(f, "a", &absent), 0);
    faultstore_set_conditions(f->s, FAULTSTORE_CONDITIONS_REFUSED);
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_NONE);
    assert_int_equal(put(f, "b", &absent), ERR_OBJECT_UNSUPPORTED);
    assert_false(is_there(f, "b"));
    faultstore_set_conditions(f->s, FAULTSTORE_CONDITIONS_KEPT);
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_ALL);
    int left = 0;
    object_list(f->s, NULL, &(struct object_list_options){.prefix = "_sherd_probe/"}, count_item, &left);
    assert_int_equal(left, 0);
}

static void a_probe_that_fails_says_so_and_is_made_again(void **state)
{
    struct fixture *f = *state;
    faultstore_set_conditions(f->s, FAULTSTORE_CONDITIONS_KEPT);
    for (uint64_t k = 1; k <= 5; k++) {
        faultstore_plan(f->s, (struct faultstore_plan){.at = k, .code = ERR_OBJECT_DENIED});
        assert_int_equal(object_probe_conditions(f->s, NULL), ERR_OBJECT_DENIED);
        assert_true(faultstore_fired(f->s));
    }
    faultstore_plan(f->s, (struct faultstore_plan){0});
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_ALL);
}

static void put_behind_its_back(void *arg, uint64_t number, const char *verb, const char *key)
{
    struct fixture *f = arg;
    if (strcmp(verb, "put") == 0 && strcmp(key, "a") == 0) object_put(faultstore_inner(f->s), NULL, "a", SLICE("other"), NULL, NULL);
}

static void another_writer_can_act_in_between(void **state)
{
    struct fixture *f = *state;
    struct object_put_options absent = {.condition = OBJECT_IF_ABSENT};
    faultstore_on_request(f->s, put_behind_its_back, f);
    assert_int_equal(put(f, "a", &absent), ERR_OBJECT_PRECONDITION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_plan_it_is_the_store_that_it_wraps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_planned_request_fails_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_can_be_for_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_answer_hides_what_happened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_of_a_request_can_happen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_kind_of_call_can_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conditions_can_be_ignored_or_refused_and_the_probe_finds_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_probe_that_fails_says_so_and_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_writer_can_act_in_between, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
