/* The cache of downloads. */
#include <dirent.h>
#include <ftw.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/faultstore.h"
#include "object/object.h"
#include "snapshot/cache.h"

enum { BYTES = 100000 };

struct fixture {
    char dir[64], cache_dir[96];
    struct object_store *store;
    char *bytes;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

static int set_up(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    char error[OBJECT_DETAIL_BYTES], url[80];
    struct object_store *inner;
    strcpy(f->dir, "/tmp/sherd-cache-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(url, sizeof url, "file://%s/store", f->dir);
    snprintf(f->cache_dir, sizeof f->cache_dir, "%s/deep/down/cache", f->dir);
    assert_int_equal(object_open(&inner, url, NULL, error), 0);
    f->store = faultstore_wrap(inner);
    f->bytes = mem_alloc(BYTES);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    object_close(f->store);
    nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mem_free(f->bytes);
    mem_free(f);
    return 0;
}

/* An object full of one letter. */
static struct cache_want put(struct fixture *f, const char *key, char letter)
{
    memset(f->bytes, letter, BYTES);
    assert_int_equal(object_put(f->store, NULL, key, slice_of(f->bytes, BYTES), NULL, NULL), 0);
    faultstore_plan(f->store, (struct faultstore_plan){0});
    return (struct cache_want){.store = f->store, .key = key, .url = key, .checkpoint_id = "1", .bytes = BYTES};
}

static void expect_letter(const struct cache_file *file, char letter)
{
    const char *p = file->map;
    assert_int_equal(file->bytes, BYTES);
    for (size_t i = 0; i < BYTES; i++) assert_int_equal(p[i], letter);
}

static uint32_t files_with(const struct fixture *f, const char *ending)
{
    uint32_t n = 0;
    DIR *d = opendir(f->cache_dir);
    for (struct dirent *e; (e = readdir(d));) n += strlen(e->d_name) > strlen(ending) && strcmp(e->d_name + strlen(e->d_name) - strlen(ending), ending) == 0;
    closedir(d);
    return n;
}

static struct cache *open_cache(struct fixture *f, uint64_t bytes_max)
{
    struct cache *c;
    assert_int_equal(cache_open(&c, f->cache_dir, bytes_max), 0);
    return c;
}

static void a_file_is_downloaded_once_and_known_by_what_it_is(void **state)
{
    struct fixture *f = *state;
    struct cache *c = open_cache(f, 1 << 30);
    struct cache_file file;
    struct cache_want a = put(f, "a", 'a');
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cache_get(c, &a, NULL, &file), 0);
        assert_int_equal(file.reused, i > 0);
        expect_letter(&file, 'a');
        cache_release(&file);
        assert_int_equal(faultstore_requests(f->store), 1);
    }
    a.checkpoint_id = "2"; /* the same place, but not the same file */
    put(f, "a", 'b');
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    expect_letter(&file, 'b');
    cache_release(&file);
    assert_int_equal(files_with(f, ".db"), 2);
    assert_int_equal(files_with(f, ".part"), 0);
    cache_close(c);
}

static void the_same_content_elsewhere_is_the_same_file(void **state)
{
    struct fixture *f = *state;
    struct cache *c = open_cache(f, 1 << 30);
    struct cache_file file;
    uint8_t sha256[32];
    struct cache_want a = put(f, "a", 'x'), b = put(f, "b", 'x');
    EVP_Digest(f->bytes, BYTES, sha256, NULL, EVP_sha256(), NULL);
    a.sha256 = b.sha256 = sha256;
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    cache_release(&file);
    assert_int_equal(cache_get(c, &b, NULL, &file), 0);
    assert_true(file.reused);
    cache_release(&file);
    cache_close(c);
}

static void what_is_not_as_wanted_never_becomes_visible(void **state)
{
    struct fixture *f = *state;
    struct cache *c = open_cache(f, 1 << 30);
    struct cache_file file;
    uint8_t sha256[32] = {1, 2, 3};
    struct cache_want a = put(f, "a", 'a');
    a.sha256 = sha256;
    assert_int_equal(cache_get(c, &a, NULL, &file), ERR_SNAPSHOT_SHARD);
    a.sha256 = NULL;
    a.bytes = BYTES + 1;
    assert_int_equal(cache_get(c, &a, NULL, &file), ERR_SNAPSHOT_SHARD);
    a.key = "missing";
    assert_int_equal(cache_get(c, &a, NULL, &file), ERR_OBJECT_NOT_FOUND);
    for (int kind = FAULTSTORE_FAIL; kind <= FAULTSTORE_HALF; kind++) {
        a = put(f, "a", 'a');
        faultstore_plan(f->store, (struct faultstore_plan){.at = 1, .kind = kind});
        assert_true(cache_get(c, &a, NULL, &file) < 0);
        assert_int_equal(files_with(f, ".db") + files_with(f, ".part"), 0);
    }
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    cache_release(&file);
    cache_close(c);
}

static void a_download_that_broke_off_is_begun_anew(void **state)
{
    struct fixture *f = *state;
    struct cache *c = open_cache(f, 1 << 30);
    struct cache_file file;
    struct cache_want a = put(f, "a", 'a');
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    cache_release(&file);
    DIR *d = opendir(f->cache_dir);
    char from[400], to[400];
    for (struct dirent *e; (e = readdir(d));) {
        char *dot = strstr(e->d_name, ".db");
        if (!dot) continue;
        snprintf(from, sizeof from, "%s/%s", f->cache_dir, e->d_name);
        snprintf(to, sizeof to, "%s/%.*s.part", f->cache_dir, (int)(dot - e->d_name), e->d_name);
    }
    closedir(d);
    assert_int_equal(rename(from, to), 0);
    put(f, "a", 'b');
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    expect_letter(&file, 'b');
    cache_release(&file);
    assert_int_equal(files_with(f, ".part"), 0);
    cache_close(c);
}

static void what_nobody_uses_goes_first_when_room_is_needed(void **state)
{
    struct fixture *f = *state;
    struct cache *c = open_cache(f, 3 * 110000);
    struct cache_file kept, file;
    struct cache_want a = put(f, "a", 'a');
    assert_int_equal(cache_get(c, &a, NULL, &kept), 0); /* the oldest, but in use */
    for (int i = 0; i < 10; i++) {
        char key[2] = {(char)('b' + i), 0};
        struct cache_want w = put(f, key, key[0]);
        usleep(20000); /* uses are told apart by the clock of the file system */
        assert_int_equal(cache_get(c, &w, NULL, &file), 0);
        cache_release(&file);
        assert_true(files_with(f, ".db") <= 3);
    }
    expect_letter(&kept, 'a');
    struct cache_want k = put(f, "k", 'k'); /* the last one is still there */
    assert_int_equal(cache_get(c, &k, NULL, &file), 0);
    assert_true(file.reused);
    cache_release(&file);
    a.store = f->store;
    assert_int_equal(cache_get(c, &a, NULL, &file), 0);
    assert_true(file.reused);
    cache_release(&file);
    cache_release(&kept);
    cache_close(c);
}

struct crowd {
    struct cache *c;
    struct cache_want want;
    char letter;
};

static void *fetch(void *arg)
{
    struct crowd *w = arg;
    struct cache_file file;
    assert_int_equal(cache_get(w->c, &w->want, NULL, &file), 0);
    expect_letter(&file, w->letter);
    cache_release(&file);
    return NULL;
}

static void threads_that_want_the_same_file_download_it_once(void **state)
{
    struct fixture *f = *state;
    struct crowd w = {.c = open_cache(f, 1 << 30), .want = put(f, "a", 'q'), .letter = 'q'};
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, fetch, &w), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    assert_int_equal(faultstore_requests(f->store), 1);
    cache_close(w.c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_downloaded_once_and_known_by_what_it_is),
        TEST(the_same_content_elsewhere_is_the_same_file),
        TEST(what_is_not_as_wanted_never_becomes_visible),
        TEST(a_download_that_broke_off_is_begun_anew),
        TEST(what_nobody_uses_goes_first_when_room_is_needed),
        TEST(threads_that_want_the_same_file_download_it_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
