/* file://: whole objects, exact conditions between processes, lists in key order; against a naive twin under a random walk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/rng.h"
#include "object/filestore.h"
#include "object/object.h"

struct fixture {
    char folder[64], root[100], url[120];
    struct object_store *s;
};

static int open_fixture(void **state, enum filestore_temps temps)
{
    struct fixture *f = calloc(1, sizeof *f);
    /* In memory where that is: thousands of syncs are not what is tested here. */
    strcpy(f->folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sherd-filestore-XXXXXX" : "/tmp/sherd-filestore-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->root, sizeof f->root, "%s/deep/store", f->folder);
    snprintf(f->url, sizeof f->url, "file://%s", f->root);
    f->s = filestore_new(slice_str(f->root), f->url, temps);
    *state = f;
    return 0;
}

static int set_up(void **state) { return open_fixture(state, FILESTORE_UNNAMED_TEMPS); }
static int set_up_named(void **state) { return open_fixture(state, FILESTORE_NAMED_TEMPS); }

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

static int tear_down(void **state)
{
    struct fixture *f = *state;
    object_close(f->s);
    nftw(f->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static int put(struct fixture *f, const char *key, const char *text) { return object_put(f->s, NULL, key, slice_str(text), NULL, NULL); }

static void expect_text(struct fixture *f, const char *key, const char *want)
{
    struct buf out = {0};
    assert_int_equal(object_get(f->s, NULL, key, 1000, &out, NULL), 0);
    assert_true(slice_eq(buf_slice(&out), slice_str(want)));
    buf_fini(&out);
}

static int add_key(void *arg, const struct object_item *item)
{
    buf_printf(arg, "%s ", item->key);
    return 0;
}

static void expect_list(struct fixture *f, const struct object_list_options *o, const char *want)
{
    struct buf out = {0};
    assert_int_equal(object_list(f->s, NULL, o, add_key, &out), 0);
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, want);
    buf_fini(&out);
}

static int count_entries(const char *path, const struct stat *st, int kind, struct FTW *at);
static unsigned entries;

static unsigned entries_below(const char *path)
{
    entries = 0;
    nftw(path, count_entries, 16, FTW_PHYS);
    return entries;
}

static int count_entries(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    entries++;
    return 0;
}

/* ---- reading and writing */

static void an_object_is_read_as_it_was_written(void **state)
{
    struct fixture *f = *state;
    struct object_meta put_meta, meta;
    struct buf out = {0};
    char part[4];
    buf_add_str(&out, "kept");
    assert_int_equal(object_put(f->s, NULL, "a/b", SLICE("hello"), NULL, &put_meta), 0);
    assert_int_equal(object_get(f->s, NULL, "a/b", 5, &out, &meta), 0);
    assert_true(slice_eq(buf_slice(&out), SLICE("kepthello")));
    assert_int_equal(meta.size, 5);
    assert_string_equal(meta.etag, put_meta.etag);
    assert_true(meta.etag[0] == '"' && meta.modified_ms > 1600000000000);
    assert_int_equal(object_get(f->s, NULL, "a/b", 4, &out, NULL), ERR_OBJECT_TOO_LARGE);
    assert_int_equal(out.len, 9);
    assert_int_equal(object_head(f->s, NULL, "a/b", &meta), 0);
    assert_string_equal(meta.etag, put_meta.etag);
    assert_int_equal(object_get_range(f->s, NULL, "a/b", part, 4, 3, &meta), 2);
    assert_memory_equal(part, "lo", 2);
    assert_int_equal(meta.size, 5);
    assert_int_equal(object_get_range(f->s, NULL, "a/b", part, 1, 5, NULL), ERR_OBJECT_RANGE);
    assert_int_equal(object_get_range(f->s, NULL, "a/b", part, 4, UINT64_MAX - 1, NULL), ERR_OBJECT_RANGE);
    buf_fini(&out);
}

static void an_empty_object_is_an_object(void **state)
{
    struct fixture *f = *state;
    struct object_meta meta;
    char c;
    assert_int_equal(put(f, "empty", ""), 0);
    assert_int_equal(object_head(f->s, NULL, "empty", &meta), 0);
    assert_int_equal(meta.size, 0);
    expect_text(f, "empty", "");
    assert_int_equal(object_get_range(f->s, NULL, "empty", &c, 1, 0, NULL), ERR_OBJECT_RANGE);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct fixture *f = *state;
    struct object_meta meta;
    struct object_call call = {0};
    assert_int_equal(object_head(f->s, &call, "nope", &meta), ERR_OBJECT_NOT_FOUND);
    assert_non_null(strstr(call.detail, "nope"));
    assert_int_equal(put(f, "a/b/c", "x"), 0);
    assert_int_equal(object_head(f->s, &call, "a/b", &meta), ERR_OBJECT_NOT_FOUND);     /* a folder */
    assert_int_equal(object_head(f->s, &call, "a/b/c/d", &meta), ERR_OBJECT_NOT_FOUND); /* below an object */
    expect_list(f, NULL, "a/b/c ");
}

static void keys_that_lead_elsewhere_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "../x", "a/../b", "a/./b", ".sherd-tmp", "a/.sherd-tmp-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct object_meta meta;
        assert_int_equal(put(f, bad[i], "x"), ERR_OBJECT_KEY);
        assert_int_equal(object_head(f->s, NULL, bad[i], &meta), ERR_OBJECT_KEY);
        assert_int_equal(object_delete(f->s, NULL, &bad[i], 1, NULL), ERR_OBJECT_KEY);
    }
    char *longest = calloc(1, OBJECT_KEY_MAX + 2);
    memset(longest, 'x', OBJECT_KEY_MAX + 1);
    assert_int_equal(put(f, longest, "x"), ERR_OBJECT_KEY);
    free(longest);
}

static void a_name_is_an_object_or_a_folder(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(put(f, "a/b", "x"), 0);
    assert_int_equal(put(f, "a", "x"), ERR_OBJECT_KEY);
    assert_int_equal(put(f, "a/b/c", "x"), ERR_OBJECT_KEY);
    expect_text(f, "a/b", "x");
}

static void odd_names_are_names(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(put(f, "a b+c%2F=:é\n\x01/.x/..y", "odd"), 0);
    expect_text(f, "a b+c%2F=:é\n\x01/.x/..y", "odd");
    expect_list(f, NULL, "a b+c%2F=:é\n\x01/.x/..y ");
}

static void files_go_in_and_out(void **state)
{
    struct fixture *f = *state;
    enum { BYTES = 3 << 20 | 17 };
    char *bytes = malloc(BYTES), path[120];
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (char)(i * 31 >> 3);
    snprintf(path, sizeof path, "%s/local", f->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(write(fd, bytes, BYTES), BYTES);
    struct object_meta meta;
    assert_int_equal(object_put_fd(f->s, NULL, "big", fd, NULL, &meta), 0);
    assert_int_equal(meta.size, BYTES);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(object_get_fd(f->s, NULL, "big", fd, &meta), 0);
    assert_int_equal(meta.size, BYTES);
    char *back = malloc(BYTES + 1);
    assert_int_equal(pread(fd, back, BYTES + 1, 0), BYTES);
    assert_memory_equal(bytes, back, BYTES);
    close(fd);
    free(bytes);
    free(back);
}

static ssize_t breaking_source(void *arg, void *p, size_t n)
{
    int *calls = arg;
    if (++*calls > 2) return -EIO;
    memset(p, 'x', n);
    return (ssize_t)n;
}

static void a_source_that_breaks_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    int calls = 0;
    struct object_source source = {.read = breaking_source, .arg = &calls};
    assert_int_equal(object_put_stream(f->s, NULL, "a/b", &source, NULL, NULL), -EIO);
    expect_list(f, NULL, "");
    assert_int_equal(entries_below(f->root), 1);
}

struct watcher {
    atomic_bool cancel;
    uint64_t last;
};

static void cancel_at_progress(void *arg, uint64_t bytes)
{
    struct watcher *w = arg;
    w->last = bytes;
    atomic_store(&w->cancel, true);
}

static ssize_t endless_source(void *arg, void *p, size_t n)
{
    memset(p, 'x', n);
    return (ssize_t)n;
}

static void a_put_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    struct watcher w = {0};
    struct object_call call = {.cancel = &w.cancel, .progress = cancel_at_progress, .progress_arg = &w};
    struct object_source source = {.read = endless_source};
    assert_int_equal(object_put_stream(f->s, &call, "a/b", &source, NULL, NULL), ERR_OBJECT_CANCELLED);
    assert_true(w.last > 0);
    expect_list(f, NULL, "");
}

/* ---- conditions */

static void conditions_hold_or_nothing_is_written(void **state)
{
    struct fixture *f = *state;
    struct object_meta first, second, meta;
    struct object_put_options absent = {.condition = OBJECT_IF_ABSENT}, match = {.condition = OBJECT_IF_MATCH, .etag = first.etag};
    assert_int_equal(object_put(f->s, NULL, "k", SLICE("1"), &absent, &first), 0);
    assert_int_equal(object_put(f->s, NULL, "k", SLICE("x"), &absent, &meta), ERR_OBJECT_PRECONDITION);
    assert_int_equal(object_put(f->s, NULL, "k", SLICE("2"), &match, &second), 0);
    assert_string_not_equal(first.etag, second.etag);
    assert_int_equal(object_put(f->s, NULL, "k", SLICE("x"), &match, &meta), ERR_OBJECT_PRECONDITION);
    expect_text(f, "k", "2");
    assert_int_equal(object_put(f->s, NULL, "other", SLICE("x"), &match, &meta), ERR_OBJECT_PRECONDITION);
    assert_int_equal(object_head(f->s, NULL, "other", &meta), ERR_OBJECT_NOT_FOUND);
    assert_int_equal(object_probe_conditions(f->s, NULL), OBJECT_CONDITIONS_ALL);
}

/* Also of equal bytes, at once, where inodes are used again. */
static void every_put_has_an_etag_of_its_own(void **state)
{
    struct fixture *f = *state;
    enum { PUTS = 300 };
    static struct object_meta meta[PUTS];
    for (int i = 0; i < PUTS; i++) {
        assert_int_equal(object_put(f->s, NULL, "k", SLICE("same"), NULL, &meta[i]), 0);
        for (int j = 0; j < i; j++) assert_string_not_equal(meta[i].etag, meta[j].etag);
    }
}

/* A process that adds 1 to a number in an object, so many times. */
static void count_up(const char *root, const char *url, int times)
{
    struct object_store *s = filestore_new(slice_str(root), url, FILESTORE_UNNAMED_TEMPS);
    while (times > 0) {
        struct buf now = {0};
        struct object_meta meta;
        int rc = object_get(s, NULL, "deep/counter", 100, &now, &meta);
        if (rc != 0 && rc != ERR_OBJECT_NOT_FOUND) _exit(2);
        buf_add_byte(&now, '\0');
        char next[32];
        int n = snprintf(next, sizeof next, "%d", (rc == 0 ? atoi(now.p) : 0) + 1);
        buf_fini(&now);
        struct object_put_options o = {.condition = rc == 0 ? OBJECT_IF_MATCH : OBJECT_IF_ABSENT, .etag = meta.etag};
        rc = object_put(s, NULL, "deep/counter", slice_of(next, (size_t)n), &o, NULL);
        if (rc == 0) times--;
        else if (rc != ERR_OBJECT_PRECONDITION) _exit(3);
    }
    object_close(s);
    _exit(0);
}

static void expect_all_well(const pid_t *pids, int n)
{
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void processes_that_race_by_conditions_lose_nothing(void **state)
{
    struct fixture *f = *state;
    enum { PROCESSES = 4, TIMES = 60 };
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0) count_up(f->root, f->url, TIMES);
    expect_all_well(pids, PROCESSES);
    expect_text(f, "deep/counter", "240");
}

static void one_of_many_creates_the_object(void **state)
{
    struct fixture *f = *state;
    enum { PROCESSES = 4, KEYS = 40 };
    pid_t pids[PROCESSES];
    int wins[2];
    assert_int_equal(pipe(wins), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if ((pids[i] = fork()) != 0) continue;
        for (int k = 0; k < KEYS; k++) {
            char key[32], me[16];
            snprintf(key, sizeof key, "race/%d", k);
            snprintf(me, sizeof me, "%d", i);
            struct object_put_options absent = {.condition = OBJECT_IF_ABSENT};
            int rc = object_put(f->s, NULL, key, slice_str(me), &absent, NULL);
            if (rc == 0 && write(wins[1], "w", 1) != 1) _exit(2);
            if (rc != 0 && rc != ERR_OBJECT_PRECONDITION) _exit(3);
        }
        _exit(0);
    }
    expect_all_well(pids, PROCESSES);
    char won[KEYS + 1];
    assert_int_equal(read(wins[0], won, sizeof won), KEYS);
    close(wins[0]);
    close(wins[1]);
}

/* A writer and a deleter, whose deletes remove the folder that the puts go to. */
static void folders_that_come_and_go_do_not_disturb_puts(void **state)
{
    struct fixture *f = *state;
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        if ((pids[i] = fork()) != 0) continue;
        for (int round = 0; round < 150; round++) {
            char key[32];
            snprintf(key, sizeof key, "x/y/z/%d", i);
            if (object_put(f->s, NULL, key, SLICE("1"), NULL, NULL) != 0) _exit(2);
            if (object_delete(f->s, NULL, (const char *const[]){key}, 1, NULL) != 0) _exit(3);
        }
        _exit(0);
    }
    expect_all_well(pids, 2);
    expect_list(f, NULL, "");
    assert_int_equal(entries_below(f->root), 1);
}

/* ---- killed */

static ssize_t slow_source(void *arg, void *p, size_t n)
{
    *(volatile char *)arg = 1;
    memset(p, 'x', n);
    usleep(1000);
    return (ssize_t)n;
}

static void a_killed_writer_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    char begun[2] = {0};
    pid_t pid = fork();
    if (pid == 0) {
        struct object_source source = {.read = slow_source, .arg = begun};
        _exit(object_put_stream(f->s, NULL, "a/b", &source, NULL, NULL) != 0);
    }
    usleep(100000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    expect_list(f, NULL, "");
    assert_int_equal(entries_below(f->root), 1);
}

/* ---- lists */

static void lists_are_in_the_byte_order_of_keys(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = {"a/b", "a-b", "a.b", "a0", "b/c/d", "b/c0", "b/a", "é", "B"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_int_equal(put(f, keys[i], "x"), 0);
    expect_list(f, NULL, "B a-b a.b a/b a0 b/a b/c/d b/c0 é ");
    expect_list(f, &(struct object_list_options){.by_folder = true}, "B a-b a.b a/ a0 b/ é ");
    expect_list(f, &(struct object_list_options){.prefix = "b/", .by_folder = true}, "b/a b/c/ b/c0 ");
    expect_list(f, &(struct object_list_options){.prefix = "b", .by_folder = true}, "b/ ");
    expect_list(f, &(struct object_list_options){.prefix = "a"}, "a-b a.b a/b a0 ");
    expect_list(f, &(struct object_list_options){.start_after = "a.b"}, "a/b a0 b/a b/c/d b/c0 é ");
    expect_list(f, &(struct object_list_options){.start_after = "b/c/d"}, "b/c0 é ");
    expect_list(f, &(struct object_list_options){.prefix = "b/c"}, "b/c/d b/c0 ");
    expect_list(f, &(struct object_list_options){.prefix = "nope/"}, "");
}

static int stop_at_second(void *arg, const struct object_item *item) { return ++*(int *)arg == 2 ? 77 : 0; }

static void a_list_ends_when_its_reader_has_enough(void **state)
{
    struct fixture *f = *state;
    int seen = 0;
    for (int i = 0; i < 5; i++) put(f, (char[2]){(char)('a' + i), 0}, "x");
    assert_int_equal(object_list(f->s, NULL, NULL, stop_at_second, &seen), 77);
    assert_int_equal(seen, 2);
}

static void deletes_remove_empty_folders_and_are_repeatable(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = {"a/b/c", "a/b/d", "nope", "a/nope/x"};
    size_t failed = 9;
    put(f, "a/b/c", "x");
    put(f, "a/b/d", "x");
    assert_int_equal(object_delete(f->s, NULL, keys, 4, &failed), 0);
    assert_int_equal(failed, 0);
    assert_int_equal(object_delete(f->s, NULL, keys, 4, &failed), 0);
    assert_int_equal(entries_below(f->root), 1);
}

static void a_key_of_a_url_is_what_stands_behind_the_store(void **state)
{
    struct fixture *f = *state;
    char url[200];
    snprintf(url, sizeof url, "%s/a/b", f->url);
    assert_string_equal(object_key_of(f->s, url), "a/b");
    assert_null(object_key_of(f->s, f->url));
    snprintf(url, sizeof url, "%sx/a", f->url);
    assert_null(object_key_of(f->s, url));
    assert_null(object_key_of(f->s, "s3://bucket/a"));
}

/* ---- a random walk beside a naive twin: an array of values by key */

enum { WALK_KEYS = 12 };
static const char *const walk_keys[WALK_KEYS] = {"a", "a-", "b/a", "b/b", "b/c/a", "b/c/b", "b/c0", "b0", "c/x", "c/y", "z", "é/ü"};

struct twin {
    bool there;
    unsigned value;
    char etag[OBJECT_ETAG_BYTES];
};

static void walk_put(struct fixture *f, struct rng *rng, const char *key, struct twin *t, unsigned value)
{
    char text[16];
    struct object_meta meta;
    struct object_put_options o = {.condition = (enum object_condition)rng_below(rng, 3), .etag = rng_below(rng, 3) == 0 || !t->etag[0] ? "\"0\"" : t->etag};
    bool holds = o.condition == OBJECT_ALWAYS || (o.condition == OBJECT_IF_ABSENT ? !t->there : t->there && strcmp(o.etag, t->etag) == 0);
    snprintf(text, sizeof text, "%u", value);
    int rc = object_put(f->s, NULL, key, slice_str(text), &o, &meta);
    assert_int_equal(rc, holds ? 0 : ERR_OBJECT_PRECONDITION);
    if (!holds) return;
    *t = (struct twin){.there = true, .value = value};
    memcpy(t->etag, meta.etag, sizeof t->etag);
}

static void walk_check(struct fixture *f, const struct twin *twins)
{
    struct buf want = {0};
    for (int i = 0; i < WALK_KEYS; i++) {
        struct object_meta meta;
        int rc = object_head(f->s, NULL, walk_keys[i], &meta);
        assert_int_equal(rc, twins[i].there ? 0 : ERR_OBJECT_NOT_FOUND);
        if (!twins[i].there) continue;
        char text[16];
        snprintf(text, sizeof text, "%u", twins[i].value);
        expect_text(f, walk_keys[i], text);
        assert_string_equal(meta.etag, twins[i].etag);
        buf_printf(&want, "%s ", walk_keys[i]);
    }
    buf_add_byte(&want, '\0');
    expect_list(f, NULL, want.p);
    buf_fini(&want);
}

static void a_random_walk_agrees_with_its_twin(void **state)
{
    struct fixture *f = *state;
    struct rng rng;
    struct twin twins[WALK_KEYS] = {{0}};
    rng_init(&rng, 42);
    for (unsigned step = 0; step < 400; step++) {
        uint64_t i = rng_below(&rng, WALK_KEYS);
        if (rng_below(&rng, 3) > 0) {
            walk_put(f, &rng, walk_keys[i], &twins[i], step);
        } else {
            assert_int_equal(object_delete(f->s, NULL, &walk_keys[i], 1, NULL), 0);
            twins[i].there = false;
        }
        if (step % 10 == 0) walk_check(f, twins);
    }
    walk_check(f, twins);
}

#define BOTH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down), cmocka_unit_test_setup_teardown(test, set_up_named, tear_down)
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(an_object_is_read_as_it_was_written),
        WITH_STORE(an_empty_object_is_an_object),
        WITH_STORE(what_is_not_there_is_not_found),
        WITH_STORE(keys_that_lead_elsewhere_are_refused),
        WITH_STORE(a_name_is_an_object_or_a_folder),
        WITH_STORE(odd_names_are_names),
        WITH_STORE(files_go_in_and_out),
        BOTH(a_source_that_breaks_leaves_nothing),
        BOTH(a_put_can_be_cancelled),
        BOTH(conditions_hold_or_nothing_is_written),
        BOTH(every_put_has_an_etag_of_its_own),
        WITH_STORE(processes_that_race_by_conditions_lose_nothing),
        WITH_STORE(one_of_many_creates_the_object),
        BOTH(folders_that_come_and_go_do_not_disturb_puts),
        WITH_STORE(a_killed_writer_leaves_no_trace),
        WITH_STORE(lists_are_in_the_byte_order_of_keys),
        WITH_STORE(a_list_ends_when_its_reader_has_enough),
        WITH_STORE(deletes_remove_empty_folders_and_are_repeatable),
        WITH_STORE(a_key_of_a_url_is_what_stands_behind_the_store),
        BOTH(a_random_walk_agrees_with_its_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
