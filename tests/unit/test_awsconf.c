/* Where the settings of s3:// come from: options, environment, files; and which URLs there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "io/wholefile.h"
#include "object/awsconf.h"
#include "object/objurl.h"

/* ---- an environment of the test's own */

static const char *env_pairs[20];

static char *test_env(const char *name)
{
    for (size_t i = 0; env_pairs[i]; i += 2)
        if (strcmp(env_pairs[i], name) == 0) return (char *)env_pairs[i + 1];
    return NULL;
}

static void set_env(const char *const *pairs)
{
    memset(env_pairs, 0, sizeof env_pairs);
    for (size_t i = 0; pairs && pairs[i]; i++) env_pairs[i] = pairs[i];
}
#define ENV(...) set_env((const char *const[]){__VA_ARGS__, NULL})

static const char credentials[] = "# keys\n[default]\naws_access_key_id = DEFAULT\naws_secret_access_key=default/secret+=\n\n"
                                  "[other]\r\naws_access_key_id=OTHER\r\naws_secret_access_key = other secret\r\naws_session_token = tok=en\r\n"
                                  "[half]\naws_access_key_id = HALF\n";
static const char config[] = "[default]\nregion = eu-central-1\ns3 =\n    addressing_style = path\n    region = nonsense\n; comment\n"
                             "[profile other]\nregion=ap-south-1\nendpoint_url = http://127.0.0.1:9\n[other]\nregion = wrong\n";

struct fixture {
    char folder[64], credentials[100], config[100];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    strcpy(f->folder, "/tmp/sherd-awsconf-XXXXXX");
    if (!mkdtemp(f->folder)) return -1;
    snprintf(f->credentials, sizeof f->credentials, "%s/credentials", f->folder);
    snprintf(f->config, sizeof f->config, "%s/config", f->folder);
    *state = f;
    return wholefile_replace(f->credentials, slice_str(credentials), 0600) || wholefile_replace(f->config, slice_str(config), 0600);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    unlink(f->credentials);
    unlink(f->config);
    rmdir(f->folder);
    free(f);
    return 0;
}

static void expect(const struct object_options *o, const char *access_key, const char *secret_key, const char *token, const char *region, const char *endpoint)
{
    struct awsconf c;
    char error[OBJECT_DETAIL_BYTES] = "";
    int rc = awsconf_resolve(&c, o, test_env, error);
    if (rc) fail_msg("%s", error);
    assert_string_equal(c.access_key, access_key);
    assert_string_equal(c.secret_key, secret_key);
    if (token) assert_string_equal(c.session_token, token);
    else assert_null(c.session_token);
    assert_string_equal(c.region, region);
    if (endpoint) assert_string_equal(c.endpoint, endpoint);
    else assert_null(c.endpoint);
    awsconf_fini(&c);
}

static void expect_refused(const struct object_options *o, const char *word)
{
    struct awsconf c;
    char error[OBJECT_DETAIL_BYTES] = "";
    assert_int_equal(awsconf_resolve(&c, o, test_env, error), ERR_OBJECT_CREDENTIALS);
    if (!strstr(error, word)) fail_msg("\"%s\" does not say \"%s\"", error, word);
    awsconf_fini(&c);
}

static void the_files_speak_when_nobody_else_does(void **state)
{
    struct fixture *f = *state;
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_CONFIG_FILE", f->config);
    expect(&(struct object_options){0}, "DEFAULT", "default/secret+=", NULL, "eu-central-1", NULL);
    expect(&(struct object_options){.profile = "other"}, "OTHER", "other secret", "tok=en", "ap-south-1", "http://127.0.0.1:9");
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_CONFIG_FILE", f->config, "AWS_PROFILE", "other");
    expect(&(struct object_options){0}, "OTHER", "other secret", "tok=en", "ap-south-1", "http://127.0.0.1:9");
}

static void the_files_of_the_home_folder_are_the_usual_ones(void **state)
{
    struct fixture *f = *state;
    char dot[100], inside[140];
    snprintf(dot, sizeof dot, "%s/.aws", f->folder);
    snprintf(inside, sizeof inside, "%s/credentials", dot);
    assert_int_equal(mkdir(dot, 0700), 0);
    assert_int_equal(wholefile_replace(inside, slice_str(credentials), 0600), 0);
    ENV("HOME", f->folder);
    expect(&(struct object_options){0}, "DEFAULT", "default/secret+=", NULL, "us-east-1", NULL);
    unlink(inside);
    rmdir(dot);
}

static void the_environment_goes_before_the_files(void **state)
{
    struct fixture *f = *state;
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_CONFIG_FILE", f->config, "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "s", "AWS_DEFAULT_REGION", "r2", "AWS_ENDPOINT_URL", "http://e");
    expect(&(struct object_options){0}, "ENV", "s", NULL, "r2", "http://e");
    ENV("AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "s", "AWS_SESSION_TOKEN", "t", "AWS_DEFAULT_REGION", "r2", "AWS_REGION", "r1", "AWS_ENDPOINT_URL", "http://e", "AWS_ENDPOINT_URL_S3", "http://s3");
    expect(&(struct object_options){0}, "ENV", "s", "t", "r1", "http://s3");
}

static void options_go_before_all(void **state)
{
    ENV("AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "s", "AWS_SESSION_TOKEN", "t", "AWS_REGION", "r1", "AWS_ENDPOINT_URL", "http://e");
    expect(&(struct object_options){.access_key = "OPT", .secret_key = "o", .region = "r0", .endpoint = "http://o"}, "OPT", "o", NULL, "r0", "http://o");
}

static void a_profile_that_was_asked_for_goes_before_the_environment(void **state)
{
    struct fixture *f = *state;
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_CONFIG_FILE", f->config, "AWS_ACCESS_KEY_ID", "ENV", "AWS_SECRET_ACCESS_KEY", "s");
    expect(&(struct object_options){.profile = "other"}, "OTHER", "other secret", "tok=en", "ap-south-1", "http://127.0.0.1:9");
}

static void keys_of_two_places_are_never_mixed(void **state)
{
    struct fixture *f = *state;
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_ACCESS_KEY_ID", "ENV");
    expect(&(struct object_options){0}, "DEFAULT", "default/secret+=", NULL, "us-east-1", NULL);
    expect_refused(&(struct object_options){.access_key = "only"}, "together");
    expect_refused(&(struct object_options){.profile = "half"}, "half");
}

static void what_is_missing_is_said(void **state)
{
    struct fixture *f = *state;
    ENV("HOME", "/nonexistent");
    expect_refused(&(struct object_options){0}, "AWS_ACCESS_KEY_ID");
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials);
    expect_refused(&(struct object_options){.profile = "nobody"}, "no profile \"nobody\"");
    assert_int_equal(wholefile_replace(f->config, SLICE("[default]\nregion: x\n"), 0600), 0);
    ENV("AWS_SHARED_CREDENTIALS_FILE", f->credentials, "AWS_CONFIG_FILE", f->config);
    expect_refused(&(struct object_options){0}, "line 2");
    ENV("HOME", "/nonexistent");
    struct awsconf c;
    char error[OBJECT_DETAIL_BYTES];
    assert_int_equal(awsconf_resolve(&c, &(struct object_options){.anonymous = true}, test_env, error), 0);
    assert_null(c.access_key);
    awsconf_fini(&c);
}

/* ---- URLs */

static void expect_url(const char *url, enum objurl_scheme scheme, const char *bucket, const char *path)
{
    struct objurl u;
    const char *why = objurl_parse(&u, slice_str(url));
    if (why) fail_msg("%s: %s", url, why);
    assert_int_equal(u.scheme, scheme);
    if (bucket) assert_true(slice_eq(u.bucket, slice_str(bucket)));
    assert_true(slice_eq(u.path, slice_str(path)));
}

static void urls_name_a_folder_or_a_bucket_with_a_prefix(void **state)
{
    expect_url("file:///a/b/", OBJURL_FILE, NULL, "/a/b");
    expect_url("file://localhost/a b%20", OBJURL_FILE, NULL, "/a b%20");
    expect_url("FILE:///a", OBJURL_FILE, NULL, "/a");
    expect_url("s3://bucket", OBJURL_S3, "bucket", "");
    expect_url("s3://bucket/", OBJURL_S3, "bucket", "");
    expect_url("s3://my.bucket-1/a/b c/%2B//", OBJURL_S3, "my.bucket-1", "a/b c/%2B");
    expect_url("s3://Old_Bucket/x", OBJURL_S3, "Old_Bucket", "x");
}

static void other_urls_are_refused_with_a_reason(void **state)
{
    static const char *const bad[] = {"", "a", "/a", "http://a/b", "file://", "file:///", "file://a/b", "file://./a", "file:///a/../b", "file:///a//b", "file:///a/.", "s3://", "s3:///a", "s3://ab",
                                      "s3://b!cket/x", "s3://-bucket", "s3://key:secret@bucket/x", "s3://bucket//x", "s3://a..b/x", "s3://bucket/\n", "file:///a\x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct objurl u;
        if (!objurl_parse(&u, slice_str(bad[i]))) fail_msg("%s was taken", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_files_speak_when_nobody_else_does, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_files_of_the_home_folder_are_the_usual_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_environment_goes_before_the_files, set_up, tear_down),
        cmocka_unit_test(options_go_before_all),
        cmocka_unit_test_setup_teardown(a_profile_that_was_asked_for_goes_before_the_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_two_places_are_never_mixed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_missing_is_said, set_up, tear_down),
        cmocka_unit_test(urls_name_a_folder_or_a_bucket_with_a_prefix),
        cmocka_unit_test(other_urls_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
