/* The XML of stores: the pull parser, and the answers of S3 read through it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "object/s3reply.h"
#include "object/xmlpull.h"

/* ---- the parser: events written down as "+name -name 'text'", ! for an error */

static void trace(struct buf *out, struct slice source)
{
    struct xmlpull x;
    xmlpull_init(&x, source);
    for (int steps = 0; steps < 10000; steps++) {
        enum xmlpull_event e = xmlpull_step(&x);
        if (e == XMLPULL_START) buf_printf(out, "+%.*s ", (int)x.name.n, x.name.p);
        if (e == XMLPULL_END) buf_printf(out, "-%.*s ", (int)x.name.n, x.name.p);
        if (e == XMLPULL_TEXT) buf_printf(out, "'%.*s' ", (int)x.text.n, x.text.n ? x.text.p : "");
        if (e == XMLPULL_ERROR) buf_add_str(out, "!");
        if (e == XMLPULL_ERROR || e == XMLPULL_DONE) break;
    }
    buf_add_byte(out, '\0');
    xmlpull_fini(&x);
}

static void expect_trace(const char *source, const char *want)
{
    struct buf out = {0};
    trace(&out, slice_str(source));
    assert_string_equal(out.p, want);
    buf_fini(&out);
}

static void elements_and_text_come_in_order(void **state)
{
    expect_trace("<?xml version=\"1.0\"?>\n<a x='1' y=\"<>\"><b>t</b><c/></a>\n", "+a +b 't' -b +c -c -a ");
    expect_trace("<s3:a xmlns:s3=\"u\"><s3:b >1</s3:b\n></s3:a>", "+a +b '1' -b -a ");
    expect_trace("\xef\xbb\xbf<a/>", "+a -a ");
    expect_trace("<a><!-- <b> & --><![CDATA[<&]]>x</a><!-- end -->", "+a '<&' 'x' -a ");
}

static void references_are_resolved(void **state)
{
    expect_trace("<a>&lt;&gt;&amp;&quot;&apos;</a>", "+a '<>&\"'' -a ");
    expect_trace("<a>&#65;&#x42;&#xe9;&#x65e5;&#x1F600;</a>", "+a 'AB\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80' -a ");
}

static void what_is_not_well_formed_is_an_error(void **state)
{
    static const char *const bad[] = {"", " ", "x", "<", "<a", "<a>", "<a></b>", "</a>", "<a/><b/>", "<a>&nope;</a>", "<a>&lt</a>", "<a>&#0;</a>", "<a>&#xd800;</a>", "<a>&#x110000;</a>",
                                      "<a>&#;</a>", "<a>&#x;</a>", "<a x></a>", "<a x=1></a>", "<a x='1></a>", "<!DOCTYPE a><a/>", "<a><![CDATA[x</a>", "<a><!-- x</a>", "<a/>x", "<a / >", "<a>x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = {0};
        trace(&out, slice_str(bad[i]));
        if (!strchr(out.p, '!')) fail_msg("%s: %s", bad[i], out.p);
        buf_fini(&out);
    }
}

static void depth_has_a_limit(void **state)
{
    struct buf source = {0}, out = {0};
    for (int i = 0; i < XMLPULL_DEPTH_MAX; i++) buf_add_str(&source, "<a>");
    for (int i = 0; i < XMLPULL_DEPTH_MAX; i++) buf_add_str(&source, "</a>");
    trace(&out, buf_slice(&source));
    assert_null(strchr(out.p, '!'));
    out.len = source.len = 0;
    for (int i = 0; i <= XMLPULL_DEPTH_MAX; i++) buf_add_str(&source, "<a>");
    trace(&out, buf_slice(&source));
    assert_non_null(strchr(out.p, '!'));
    buf_fini(&source);
    buf_fini(&out);
}

static void escaped_text_reads_back(void **state)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (int round = 0; round < 2000; round++) {
        char text[40];
        size_t n = 1 + rng_below(&rng, sizeof text - 1);
        for (size_t i = 0; i < n; i++) text[i] = (char)(1 + rng_below(&rng, 255));
        struct buf source = {0};
        buf_add_str(&source, "<k>");
        xmlpull_escape(&source, slice_of(text, n));
        buf_add_str(&source, "</k>");
        struct xmlpull x;
        xmlpull_init(&x, buf_slice(&source));
        assert_int_equal(xmlpull_step(&x), XMLPULL_START);
        assert_int_equal(xmlpull_step(&x), XMLPULL_TEXT);
        assert_true(slice_eq(x.text, slice_of(text, n)));
        xmlpull_fini(&x);
        buf_fini(&source);
    }
}

/* ---- answers */

static int add_item(void *arg, const struct object_item *item)
{
    struct buf *out = arg;
    if (item->is_prefix) buf_printf(out, "%s;", item->key);
    else buf_printf(out, "%s %llu %s %lld;", item->key, (unsigned long long)item->meta.size, item->meta.etag, (long long)item->meta.modified_ms);
    return 0;
}

static const char page[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>p</Prefix><KeyCount>2</KeyCount>"
                           "<Contents><Key>p/a%2Bb+c</Key><LastModified>2009-10-12T17:50:30.250Z</LastModified><ETag>&quot;fba9&quot;</ETag><Size>434234</Size>"
                           "<Owner><ID>Key</ID><Key>not this</Key></Owner><StorageClass>STANDARD</StorageClass></Contents>"
                           "<CommonPrefixes><Prefix>p/f%C3%A9/</Prefix></CommonPrefixes>"
                           "<IsTruncated>true</IsTruncated><NextContinuationToken>1ue+/=</NextContinuationToken><EncodingType>url</EncodingType></ListBucketResult>";

static void a_page_of_a_list_is_read(void **state)
{
    struct buf token = {0}, out = {0};
    assert_int_equal(s3reply_list(slice_str(page), &token, add_item, &out), 0);
    assert_string_equal(out.p, "p/a+b c 434234 \"fba9\" 1255369830250;p/f\xc3\xa9/;");
    assert_true(slice_eq(buf_slice(&token), SLICE("1ue+/=")));
    buf_fini(&token);
    buf_fini(&out);
}

static void keys_are_decoded_only_where_the_store_says_that_it_encoded_them(void **state)
{
    struct buf token = {0}, out = {0};
    assert_int_equal(s3reply_list(SLICE("<ListBucketResult><Contents><Key>a%2B+</Key><Size>1</Size></Contents></ListBucketResult>"), &token, add_item, &out), 0);
    assert_string_equal(out.p, "a%2B+ 1  0;");
    assert_int_equal(token.len, 0);
    buf_fini(&token);
    buf_fini(&out);
}

static void a_list_that_makes_no_sense_is_refused(void **state)
{
    static const char *const bad[] = {
        "<Error><Code>X</Code></Error>",
        "<ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a%00</Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf token = {0}, out = {0};
        assert_int_equal(s3reply_list(slice_str(bad[i]), &token, add_item, &out), -1);
        buf_fini(&token);
        buf_fini(&out);
    }
}

static void an_error_is_read_with_its_code_message_and_request(void **state)
{
    struct s3reply_error e;
    s3reply_error(&e, SLICE("<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>a\nb</Message><RequestId>4442</RequestId><Region>eu-west-1</Region></Error>"));
    assert_string_equal(e.code, "NoSuchKey");
    assert_string_equal(e.message, "a?b");
    assert_string_equal(e.request_id, "4442");
    assert_string_equal(e.region, "eu-west-1");
    s3reply_error(&e, SLICE("<html>502 Bad Gateway</html>"));
    assert_string_equal(e.code, "");
    s3reply_error(&e, SLICE("<Error><Code>Cut"));
    assert_string_equal(e.code, "");
}

static void a_completion_may_be_an_error_after_all(void **state)
{
    struct s3reply_error e;
    char etag[OBJECT_ETAG_BYTES] = "";
    assert_true(s3reply_complete(SLICE("<CompleteMultipartUploadResult><Key>k</Key><ETag>\"3858-9\"</ETag></CompleteMultipartUploadResult>"), etag, &e));
    assert_string_equal(etag, "\"3858-9\"");
    assert_false(s3reply_complete(SLICE("<Error><Code>InternalError</Code></Error>"), etag, &e));
    assert_string_equal(e.code, "InternalError");
    assert_false(s3reply_complete(SLICE(""), etag, &e));
    assert_string_equal(e.code, "");
}

static void an_upload_has_an_id(void **state)
{
    struct buf id = {0};
    assert_true(s3reply_upload_id(SLICE("<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>VX+/</UploadId></InitiateMultipartUploadResult>"), &id));
    assert_string_equal(id.p, "VX+/");
    assert_false(s3reply_upload_id(SLICE("<InitiateMultipartUploadResult><UploadId></UploadId></InitiateMultipartUploadResult>"), &id));
    buf_fini(&id);
}

static void keys_that_were_not_deleted_are_counted(void **state)
{
    struct s3reply_error e;
    assert_int_equal(s3reply_delete(SLICE("<DeleteResult xmlns='u'/>"), &e), 0);
    assert_int_equal(s3reply_delete(SLICE("<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                                          "<Deleted><Key>b</Key></Deleted><Error><Key>c</Key><Code>InternalError</Code></Error></DeleteResult>"), &e), 2);
    assert_string_equal(e.code, "AccessDenied");
    assert_string_equal(e.message, "a: no");
    assert_int_equal(s3reply_delete(SLICE("<Deleted/>"), &e), -1);
}

static void times_are_read_to_the_millisecond(void **state)
{
    assert_int_equal(s3reply_time_ms(SLICE("1970-01-01T00:00:01Z")), 1000);
    assert_int_equal(s3reply_time_ms(SLICE("2009-10-12T17:50:30.000Z")), 1255369830000);
    assert_int_equal(s3reply_time_ms(SLICE("2009-10-12T17:50:30.1234567Z")), 1255369830123);
    assert_int_equal(s3reply_time_ms(SLICE("yesterday at about noon")), 0);
    assert_int_equal(s3reply_time_ms(SLICE("")), 0);
}

/* A page with random damage is read or refused; the sanitizers watch. */
static void damaged_answers_are_read_or_refused(void **state)
{
    struct rng rng;
    rng_init(&rng, 11);
    unsigned refused = 0;
    for (int round = 0; round < 5000; round++) {
        char copy[sizeof page];
        memcpy(copy, page, sizeof page);
        for (uint64_t i = rng_below(&rng, 4) + 1; i > 0; i--) copy[rng_below(&rng, sizeof page)] = "<>/&;\"a%\0"[rng_below(&rng, 9)];
        struct buf token = {0}, out = {0};
        if (s3reply_list(slice_of(copy, sizeof page - 1 - rng_below(&rng, 20)), &token, add_item, &out) == -1) refused++;
        buf_fini(&token);
        buf_fini(&out);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_and_text_come_in_order),
        cmocka_unit_test(references_are_resolved),
        cmocka_unit_test(what_is_not_well_formed_is_an_error),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(escaped_text_reads_back),
        cmocka_unit_test(a_page_of_a_list_is_read),
        cmocka_unit_test(keys_are_decoded_only_where_the_store_says_that_it_encoded_them),
        cmocka_unit_test(a_list_that_makes_no_sense_is_refused),
        cmocka_unit_test(an_error_is_read_with_its_code_message_and_request),
        cmocka_unit_test(a_completion_may_be_an_error_after_all),
        cmocka_unit_test(an_upload_has_an_id),
        cmocka_unit_test(keys_that_were_not_deleted_are_counted),
        cmocka_unit_test(times_are_read_to_the_millisecond),
        cmocka_unit_test(damaged_answers_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
