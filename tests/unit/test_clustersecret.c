/* The secret of a cluster as its options say it, and how it is changed by them; and the proof of a node that asks to join. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "configrig.h"
#include "io/wholefile.h"
#include "server/clustersecret.h"

static const char one[] = "sixteen letters.", two[] = "another-of-sixteen-or-more";

static struct linksecret keys_of(const char *first, const char *second)
{
    struct linksecret s = {0};
    if (first) linksecret_add(&s, slice_str(first));
    if (second) linksecret_add(&s, slice_str(second));
    return s;
}

/* ---- reading */

static void expect(const char *words, const char *path, struct linksecret expected)
{
    struct linksecret s;
    struct buf why = {0};
    assert_int_equal(clustersecret_read(&s, words, path, &why), 0);
    assert_int_equal(why.len, 0);
    assert_true(linksecret_same(&s, &expected));
}

static void expect_refused(const char *words, const char *path, const char *says)
{
    struct linksecret s;
    struct buf why = {0};
    assert_int_equal(clustersecret_read(&s, words, path, &why), -1);
    buf_add_byte(&why, '\0');
    if (!strstr(why.p, says)) fail_msg("'%s' does not say '%s'", why.p, says);
    buf_fini(&why);
}

static void put(const char *path, const char *text) { assert_int_equal(wholefile_replace(path, slice_str(text), 0600), 0); }

static void make_file(char path[32], const char *text)
{
    strcpy(path, "/tmp/sherd-secret-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    put(path, text);
}

static void secrets_are_words(void **state)
{
    expect("", "", keys_of(NULL, NULL));
    expect("sixteen-letters-", "", keys_of("sixteen-letters-", NULL));
    expect("sixteen-letters- another-of-sixteen-or-more", "", keys_of("sixteen-letters-", two));
    expect_refused("sixteen-letters", "", "cluster-secret: a secret has 16 characters or more");
    expect_refused("sixteen-letters- short", "", "16 characters or more");
    expect_refused("sixteen-letters\xc3\xa4", "", "printable characters");
    expect_refused("aaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbb cccccccccccccccc dddddddddddddddd eeeeeeeeeeeeeeee", "", "more than four");
}

static void or_they_are_lines_of_a_file(void **state)
{
    char path[32];
    make_file(path, "another-of-sixteen-or-more\n");
    expect("", path, keys_of(two, NULL));
    put(path, "\n  another-of-sixteen-or-more  \n\nsixteen-letters-");
    expect("", path, keys_of(two, "sixteen-letters-"));
    put(path, " \n\n");
    expect_refused("", path, "cluster-secret-file: there is no secret in the file");
    put(path, "");
    expect_refused("", path, "there is no secret in the file");
    put(path, "another-of-sixteen-or-more\r\n");
    expect_refused("", path, "cluster-secret-file: a secret has printable characters only");
    put(path, "short\n");
    expect_refused("", path, "cluster-secret-file: a secret has 16 characters or more");
    expect_refused("sixteen-letters-", path, "not both cluster-secret and cluster-secret-file");
    unlink(path);
    expect_refused("", path, "cannot read: No such file or directory");
}

/* ---- options */

static void assert_keys(struct loaded *l, struct linksecret expected)
{
    struct linksecret keys;
    config_secret(&l->cfg, &keys);
    assert_true(linksecret_same(&keys, &expected));
}

/* NULL: it is set. */
static void set(struct loaded *l, const char *name, const char *value, const char *refusal)
{
    const struct slice pair[] = {slice_str(name), slice_str(value)};
    struct buf error = {0};
    int rc = config_set(&l->cfg, pair, 1, &error);
    assert_int_equal(rc, refusal ? -1 : 0);
    buf_add_byte(&error, '\0');
    if (refusal && !strstr(error.p, refusal)) fail_msg("'%s' does not say '%s'", error.p, refusal);
    if (refusal && strcmp(name, "cluster-secret") == 0) assert_null(strstr(error.p, value)); /* a secret is not said */
    buf_fini(&error);
}

static void note_value(void *ctx, const char *name, struct slice value) { snprintf(ctx, 128, "%.*s", (int)value.n, value.p ? value.p : ""); }

static void assert_shown(struct loaded *l, const char *name, const char *expected)
{
    char value[128] = "";
    config_get(&l->cfg, slice_str(name), note_value, value);
    assert_string_equal(value, expected);
}

static void a_start_reads_the_secret_and_refuses_one_that_makes_no_sense(void **state)
{
    struct loaded l;
    char path[32];
    load(&l, ARGS("--cluster"));
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_keys(&l, keys_of(NULL, NULL));
    unload(&l);
    load(&l, ARGS("--cluster", "--cluster-secret", "sixteen-letters-, another-of-sixteen-or-more"));
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_keys(&l, keys_of("sixteen-letters-", two));
    unload(&l);
    make_file(path, "another-of-sixteen-or-more\n");
    load(&l, ARGS("--cluster", "--cluster-secret-file", path));
    assert_int_equal(l.outcome, CONFIG_READY);
    assert_keys(&l, keys_of(two, NULL));
    unload(&l);
    assert_bad("not both", ARGS("--cluster", "--cluster-secret-file", path, "--cluster-secret", two));
    unlink(path);
    assert_bad("cannot read", ARGS("--cluster", "--cluster-secret-file", path));
    assert_bad("cannot read", ARGS("--cluster", "--check-config", "--cluster-secret-file", path));
    assert_bad("16 characters", ARGS("--cluster", "--cluster-secret", "short"));
    assert_bad("say cluster yes", ARGS("--cluster-secret", two));
    assert_bad("say cluster yes", ARGS("--cluster-secret-file", "some"));
}

static void config_set_changes_the_secret_or_leaves_all_as_it_is(void **state)
{
    struct loaded l;
    load(&l, ARGS("--cluster"));
    assert_shown(&l, "cluster-secret", "");
    set(&l, "cluster-secret", two, NULL);
    assert_keys(&l, keys_of(two, NULL));
    assert_shown(&l, "cluster-secret", "(hidden)");
    set(&l, "cluster-secret", "too short", "16 characters or more");
    assert_keys(&l, keys_of(two, NULL));
    set(&l, "cluster-secret-file", "/no/such/file", "not both");
    set(&l, "timeout", "7", NULL); /* has nothing to do with it */
    assert_keys(&l, keys_of(two, NULL));
    set(&l, "cluster-secret", "", NULL);
    assert_keys(&l, keys_of(NULL, NULL));
    set(&l, "cluster-secret-file", "/no/such/file", "cannot read");
    assert_shown(&l, "cluster-secret-file", "");
    unload(&l);
    load(&l, ARGS("--port", "0", "--unixsocket", "s"));
    set(&l, "cluster-secret", two, "nodes of a cluster");
    unload(&l);
}

static void a_file_is_read_again_when_it_is_set_again_and_not_before(void **state)
{
    struct loaded l;
    char path[32];
    make_file(path, "another-of-sixteen-or-more\n");
    load(&l, ARGS("--cluster", "--cluster-secret-file", path));
    put(path, "sixteen-letters-\nanother-of-sixteen-or-more\n");
    set(&l, "timeout", "7", NULL);
    assert_keys(&l, keys_of(two, NULL));
    set(&l, "cluster-secret-file", path, NULL);
    assert_keys(&l, keys_of("sixteen-letters-", two));
    assert_shown(&l, "cluster-secret-file", path);
    put(path, "short");
    set(&l, "cluster-secret-file", path, "16 characters");
    assert_keys(&l, keys_of("sixteen-letters-", two));
    unlink(path);
    unload(&l);
}

/* ---- joining */

static void a_node_that_asks_to_join_proves_the_secret(void **state)
{
    struct linksecret none = {0}, a = keys_of(one, NULL), b = keys_of(two, NULL), ba = keys_of(two, one);
    const struct slice words[] = {SLICE("17"), SLICE("db4:16379"), SLICE("db4:6379"), SLICE(""), SLICE("")};
    char proof[CLUSTERSECRET_PROOF + 1] = "";
    assert_false(clustersecret_prove(&none, words, 5, proof));
    assert_null(clustersecret_check(&none, words, 5, SLICE("")));
    assert_true(clustersecret_prove(&a, words, 5, proof));
    struct slice given = slice_str(proof);
    assert_int_equal(given.n, CLUSTERSECRET_PROOF);
    assert_null(clustersecret_check(&a, words, 5, given));
    assert_null(clustersecret_check(&ba, words, 5, given));
    assert_non_null(strstr(clustersecret_check(&b, words, 5, given), "another cluster-secret"));
    assert_non_null(strstr(clustersecret_check(&none, words, 5, given), "this cluster has none"));
    assert_non_null(strstr(clustersecret_check(&a, words, 5, SLICE("")), "the node that is to join has none"));
    assert_non_null(strstr(clustersecret_check(&a, words, 4, given), "another cluster-secret"));
    assert_non_null(strstr(clustersecret_check(&a, words, 5, slice_of(proof, CLUSTERSECRET_PROOF - 1)), "another cluster-secret"));
    proof[3] = 'x';
    assert_non_null(strstr(clustersecret_check(&a, words, 5, given), "another cluster-secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_words),
        cmocka_unit_test(or_they_are_lines_of_a_file),
        cmocka_unit_test(a_start_reads_the_secret_and_refuses_one_that_makes_no_sense),
        cmocka_unit_test(config_set_changes_the_secret_or_leaves_all_as_it_is),
        cmocka_unit_test(a_file_is_read_again_when_it_is_set_again_and_not_before),
        cmocka_unit_test(a_node_that_asks_to_join_proves_the_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
