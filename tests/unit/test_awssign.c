/* SigV4: the four worked examples of the S3 API reference, and the encodings that it rests on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "object/awssign.h"

static const struct awssign_key example_key = {.access_key = "AKIAIOSFODNN7EXAMPLE", .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", .region = "us-east-1"};

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void expect_signature(const struct awssign_request *r, const char *signed_names, const char *signature)
{
    struct buf got = {0}, want = {0};
    awssign_authorization(&got, r, &example_key, "20130524T000000Z");
    buf_printf(&want, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s", signed_names, signature);
    assert_string_equal(got.p, want.p);
    buf_fini(&got);
    buf_fini(&want);
}

static struct awssign_pairs usual_headers(const char *payload)
{
    struct awssign_pairs headers = {0};
    awssign_add(&headers, "x-amz-date", "20130524T000000Z");
    awssign_add(&headers, "x-amz-content-sha256", payload);
    awssign_add(&headers, "host", "examplebucket.s3.amazonaws.com");
    return headers;
}

static void a_ranged_get_is_signed_as_documented(void **state)
{
    struct awssign_pairs headers = usual_headers(EMPTY_SHA256);
    awssign_add(&headers, "range", "bytes=0-9");
    struct awssign_request r = {.method = "GET", .path = SLICE("/test.txt"), .query = SLICE(""), .headers = &headers, .payload = EMPTY_SHA256};
    expect_signature(&r, "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void a_put_is_signed_as_documented(void **state)
{
    char payload[AWSSIGN_HEX_BYTES];
    awssign_sha256_hex(payload, SLICE("Welcome to Amazon S3."));
    struct awssign_pairs headers = usual_headers(payload);
    awssign_add(&headers, "date", "Fri, 24 May 2013 00:00:00 GMT");
    awssign_add(&headers, "x-amz-storage-class", "REDUCED_REDUNDANCY");
    struct buf path = {0};
    awssign_encode(&path, SLICE("/test$file.text"), true);
    struct awssign_request r = {.method = "PUT", .path = buf_slice(&path), .query = SLICE(""), .headers = &headers, .payload = payload};
    expect_signature(&r, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    buf_fini(&path);
}

static void a_parameter_without_a_value_is_signed_as_documented(void **state)
{
    struct awssign_pairs headers = usual_headers(EMPTY_SHA256), params = {0};
    awssign_add(&params, "lifecycle", "");
    struct buf query = {0};
    awssign_query(&query, &params);
    struct awssign_request r = {.method = "GET", .path = SLICE("/"), .query = buf_slice(&query), .headers = &headers, .payload = EMPTY_SHA256};
    expect_signature(&r, "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    buf_fini(&query);
}

static void a_list_is_signed_as_documented(void **state)
{
    struct awssign_pairs headers = usual_headers(EMPTY_SHA256), params = {0};
    awssign_add(&params, "prefix", "J");
    awssign_add(&params, "max-keys", "2");
    struct buf query = {0};
    awssign_query(&query, &params);
    struct awssign_request r = {.method = "GET", .path = SLICE("/"), .query = buf_slice(&query), .headers = &headers, .payload = EMPTY_SHA256};
    expect_signature(&r, "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    buf_fini(&query);
}

static void expect_encoded(const char *text, bool keep_slashes, const char *want)
{
    struct buf out = {0};
    awssign_encode(&out, slice_str(text), keep_slashes);
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, want);
    buf_fini(&out);
}

static void only_the_unreserved_bytes_stay_as_they_are(void **state)
{
    expect_encoded("AZaz09-._~", true, "AZaz09-._~");
    expect_encoded("/a b+c%/./x=:", true, "/a%20b%2Bc%25/./x%3D%3A");
    expect_encoded("a/b", false, "a%2Fb");
    expect_encoded("é日\x01\xff", true, "%C3%A9%E6%97%A5%01%FF");
    expect_encoded("", true, "");
}

static void parameters_are_sorted_by_name_and_not_by_line(void **state)
{
    struct awssign_pairs params = {0};
    awssign_add(&params, "a-b", "1");
    awssign_add(&params, "b", "+/=");
    awssign_add(&params, "a", "2");
    awssign_add(&params, "a", "1");
    struct buf query = {0};
    awssign_query(&query, &params);
    buf_add_byte(&query, '\0');
    assert_string_equal(query.p, "a=1&a=2&a-b=1&b=%2B%2F%3D");
    buf_fini(&query);
}

/* "x-amz-meta-a:" as a line sorts behind "x-amz-meta-a-b:", as a name before it. */
static void headers_are_sorted_by_name_and_not_by_line(void **state)
{
    struct awssign_pairs headers = {0};
    awssign_add(&headers, "x-amz-meta-a-b", "1");
    awssign_add(&headers, "host", "h");
    awssign_add(&headers, "x-amz-meta-a", "2");
    struct awssign_request r = {.method = "GET", .path = SLICE("/"), .query = SLICE(""), .headers = &headers, .payload = EMPTY_SHA256};
    struct buf out = {0};
    awssign_authorization(&out, &r, &example_key, "20130524T000000Z");
    assert_non_null(strstr(out.p, "SignedHeaders=host;x-amz-meta-a;x-amz-meta-a-b,"));
    buf_fini(&out);
}

static void spaces_around_and_inside_a_value_do_not_count(void **state)
{
    struct buf out[2] = {{0}};
    const char *const values[2] = {"  a   b ", "a b"};
    for (int i = 0; i < 2; i++) {
        struct awssign_pairs headers = {0};
        awssign_add(&headers, "host", values[i]);
        struct awssign_request r = {.method = "GET", .path = SLICE("/"), .query = SLICE(""), .headers = &headers, .payload = EMPTY_SHA256};
        awssign_authorization(&out[i], &r, &example_key, "20130524T000000Z");
    }
    assert_string_equal(out[0].p, out[1].p);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

static void dates_are_written_in_basic_form(void **state)
{
    char date[AWSSIGN_DATE_BYTES];
    awssign_date(date, 1369353600000);
    assert_string_equal(date, "20130524T000000Z");
    awssign_date(date, 1794752360999);
    assert_string_equal(date, "20261115T141920Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ranged_get_is_signed_as_documented),
        cmocka_unit_test(a_put_is_signed_as_documented),
        cmocka_unit_test(a_parameter_without_a_value_is_signed_as_documented),
        cmocka_unit_test(a_list_is_signed_as_documented),
        cmocka_unit_test(only_the_unreserved_bytes_stay_as_they_are),
        cmocka_unit_test(parameters_are_sorted_by_name_and_not_by_line),
        cmocka_unit_test(headers_are_sorted_by_name_and_not_by_line),
        cmocka_unit_test(spaces_around_and_inside_a_value_do_not_count),
        cmocka_unit_test(dates_are_written_in_basic_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
