/* Shard files on the command line, for the integration tests.
 *
 *     shard_tool rows FILE             every row in order: key in hex, bytes of the value, its SHA-256. Each is also looked up, and met again on the way back; the file is checked
 *     shard_tool write FILE PAGE_SIZE  rows from standard input: u32 and u32 (little endian), the key, the value
 *
 * A failure is one line on standard error, "ERR_NAME: sentence", and exit status 1. */
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/le.h"
#include "snapshot/shardread.h"
#include "snapshot/shardwrite.h"

static int failed(int rc, const char *why)
{
    fprintf(stderr, "%s: %s\n", err_name(rc), why ? why : err_text(rc));
    return 1;
}

static void print_hex(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
}

static void print_row(struct slice key, struct slice value)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)value.p, value.n, digest);
    print_hex(key.p, key.n);
    printf(" %zu ", value.n);
    print_hex(digest, sizeof digest);
    printf("\n");
}

/* What a lookup finds is what the walk has found. */
static void look_up(const struct shardread *r, struct slice key, struct slice value, struct buf *buf)
{
    struct slice again;
    CHECK(shardread_get(r, key, buf, &again) == 1);
    CHECK(slice_eq(value, again));
}

static int rows(const struct shardread *r)
{
    struct shardread_cursor c;
    struct shardread_stats stats;
    struct buf buf = {0};
    struct slice value;
    uint64_t n = 0, back = 0;
    int rc;
    shardread_cursor_init(&c, r);
    for (rc = shardread_seek(&c, SLICE("")); rc == 1; rc = shardread_next(&c), n++) {
        rc = shardread_value(&c, &value);
        if (rc) break;
        print_row(shardread_key(&c), value);
        look_up(r, shardread_key(&c), value, &buf);
    }
    if (rc == 0)
        for (rc = shardread_seek_last(&c); rc == 1; rc = shardread_prev(&c)) back++;
    if (rc == 0) rc = shardread_check(r, &stats);
    CHECK(rc || back == n);
    shardread_cursor_fini(&c);
    buf_fini(&buf);
    return rc;
}

static int do_rows(const char *path)
{
    struct pages_file f;
    struct shardread r;
    const char *why = NULL;
    int rc = pages_file_open(&f, path, &why);
    if (rc == 0) rc = shardread_open(&r, &f.source, &why);
    if (rc == 0) rc = rows(&r);
    pages_file_close(&f);
    return rc ? failed(rc, why) : 0;
}

static int do_write(const char *path, const char *page_size)
{
    struct buf in = {0};
    struct shardwrite_result result;
    for (ssize_t n; (n = read(0, buf_room(&in, 1 << 20), 1 << 20)) > 0;) in.len += (size_t)n;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc = 0;
    CHECK(fd >= 0);
    struct shardwrite *w = shardwrite_new(fd, (uint32_t)strtoul(page_size, NULL, 10));
    for (size_t at = 0; at < in.len && rc == 0;) {
        uint32_t key_n = le_u32(in.p + at), value_n = le_u32(in.p + at + 4);
        rc = shardwrite_add(w, slice_of(in.p + at + 8, key_n), slice_of(in.p + at + 8 + key_n, value_n));
        at += 8 + (size_t)key_n + value_n;
    }
    if (rc == 0) rc = shardwrite_end(w, &result);
    shardwrite_free(w);
    close(fd);
    buf_fini(&in);
    return rc ? failed(rc, NULL) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "rows")) return do_rows(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "write")) return do_write(argv[2], argv[3]);
    fprintf(stderr, "usage: shard_tool rows FILE | write FILE PAGE_SIZE\n");
    return 2;
}
