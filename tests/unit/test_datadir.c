/* The data directory: made once, found again, locked, and refused when it is not understood. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "io/wholefile.h"
#include "server/datadir.h"

struct fixture {
    char folder[64], data[128], identity[160];
    struct buf error;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(f->folder, "/tmp/sherd-datadir-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->data, sizeof f->data, "%s/deep/data", f->folder);
    snprintf(f->identity, sizeof f->identity, "%s/SHERD", f->data);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    int rc = system(command);
    buf_fini(&f->error);
    free(f);
    return rc;
}

static void assert_refused(struct fixture *f, const char *part)
{
    struct datadir d;
    f->error.len = 0;
    assert_int_equal(datadir_open(&d, f->data, 2, &f->error), -1);
    buf_add_byte(&f->error, '\0');
    if (!strstr(f->error.p, part)) fail_msg("'%s' does not say '%s'", f->error.p, part);
    assert_int_equal(d.lock_fd, -1);
}

static void make_one(struct fixture *f, struct datadir *d)
{
    if (datadir_open(d, f->data, 4, &f->error)) fail_msg("%.*s", (int)f->error.len, f->error.p);
}

static void a_new_directory_gets_an_identity_that_is_found_again(void **state)
{
    struct fixture *f = *state;
    struct datadir first, again;
    make_one(f, &first);
    assert_true(first.fresh);
    assert_int_equal(first.shards, 4);
    datadir_close(&first);
    assert_int_equal(datadir_open(&again, f->data, 9, &f->error), 0);
    assert_false(again.fresh);
    assert_int_equal(again.shards, 4);
    assert_true(again.seed == first.seed && again.created_s == first.created_s);
    datadir_close(&again);
}

static void two_directories_have_two_seeds(void **state)
{
    assert_true(datadir_random_seed() != datadir_random_seed());
}

static void another_shard_count_is_recorded(void **state)
{
    struct fixture *f = *state;
    struct datadir d;
    make_one(f, &d);
    uint64_t seed = d.seed;
    assert_int_equal(datadir_set_layout(&d, 2, 7, &f->error), 0);
    datadir_close(&d);
    make_one(f, &d);
    assert_int_equal(d.shards, 7);
    assert_true(d.seed == seed);
    datadir_close(&d);
}

/* A second process, not only a second call: the holder is named by its pid. */
static void a_second_process_is_refused_with_the_pid_of_the_first(void **state)
{
    struct fixture *f = *state;
    struct datadir d;
    int ready[2], done[2];
    char byte;
    assert_int_equal(pipe(ready) | pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        int rc = datadir_open(&d, f->data, 4, &f->error);
        if (write(ready[1], "x", 1) != 1 || read(done[0], &byte, 1) < 0) rc = 1;
        _exit(rc ? 1 : 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    char expected[64];
    snprintf(expected, sizeof expected, "/data is in use by pid %ld", (long)child);
    assert_refused(f, expected);
    close(done[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    make_one(f, &d);
    datadir_close(&d);
    close(done[0]);
    close(ready[0]);
    close(ready[1]);
}

static void put_identity(struct fixture *f, const char *text)
{
    assert_int_equal(wholefile_replace(f->identity, slice_str(text), 0600), 0);
}

static void a_newer_format_is_refused(void **state)
{
    struct fixture *f = *state;
    struct datadir d;
    make_one(f, &d);
    datadir_close(&d);
    put_identity(f, "format=2\nsomething=else\n");
    assert_refused(f, "has format version 2; this version of Sherd reads up to 1");
}

/* Every single changed byte is noticed, and none is repaired: the file stays as it is. */
static void a_damaged_identity_is_refused(void **state)
{
    struct fixture *f = *state;
    struct datadir d;
    struct buf good = {0}, after = {0};
    make_one(f, &d);
    datadir_close(&d);
    assert_int_equal(wholefile_read(f->identity, 4096, &good), 0);
    for (size_t i = 0; i < good.len; i++) {
        good.p[i] ^= 1;
        assert_int_equal(wholefile_replace(f->identity, buf_slice(&good), 0600), 0);
        assert_refused(f, i == 7 ? "data directory" : "damaged SHERD file");
        good.p[i] ^= 1;
    }
    put_identity(f, "");
    assert_refused(f, "damaged SHERD file");
    assert_int_equal(wholefile_read(f->identity, 4096, &after), 0);
    assert_int_equal(after.len, 0);
    assert_int_equal(wholefile_replace(f->identity, buf_slice(&good), 0600), 0);
    make_one(f, &d);
    datadir_close(&d);
    buf_fini(&good);
    buf_fini(&after);
}

static void a_directory_of_something_else_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[200];
    snprintf(path, sizeof path, "%s/deep", f->folder);
    mkdir(path, 0700);
    mkdir(f->data, 0700);
    snprintf(path, sizeof path, "%s/photo.jpg", f->data);
    assert_int_equal(wholefile_replace(path, SLICE("x"), 0600), 0);
    assert_refused(f, "has no SHERD file but is not empty (photo.jpg)");
    assert_int_equal(unlink(path), 0);
    struct datadir d;
    make_one(f, &d);
    datadir_close(&d);
}

static void a_file_in_its_place_is_refused(void **state)
{
    struct fixture *f = *state;
    strcpy(f->data, f->folder);
    strcat(f->data, "/file");
    assert_int_equal(wholefile_replace(f->data, SLICE("x"), 0600), 0);
    assert_refused(f, "is not a directory");
}

static void a_node_and_a_server_never_take_each_others_directory(void **state)
{
    struct fixture *f = *state;
    struct datadir d;
    bool in_use;
    assert_int_equal(datadir_open_node(&d, f->data, &f->error), 0);
    assert_true(d.fresh && d.layout == 0 && d.seed);
    uint64_t number = d.seed;
    datadir_close(&d);
    assert_refused(f, "is that of a node of a cluster");
    assert_int_equal(datadir_peek(&d, f->data, &in_use, &f->error), -1);
    assert_int_equal(datadir_open_node(&d, f->data, &f->error), 0);
    assert_true(!d.fresh && d.seed == number);
    datadir_close(&d);
    strcat(f->data, "2");
    make_one(f, &d);
    datadir_close(&d);
    f->error.len = 0;
    assert_int_equal(datadir_open_node(&d, f->data, &f->error), -1);
    buf_add_byte(&f->error, '\0');
    assert_non_null(strstr(f->error.p, "holds the data of a server that is no node of a cluster"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_directory_gets_an_identity_that_is_found_again),
        TEST(two_directories_have_two_seeds),
        TEST(another_shard_count_is_recorded),
        TEST(a_second_process_is_refused_with_the_pid_of_the_first),
        TEST(a_newer_format_is_refused),
        TEST(a_damaged_identity_is_refused),
        TEST(a_directory_of_something_else_is_refused),
        TEST(a_file_in_its_place_is_refused),
        TEST(a_node_and_a_server_never_take_each_others_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
