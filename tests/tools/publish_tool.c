/* Publishes a small snapshot, for tests that look at what was written with other eyes.
 *
 *     publish_tool URL RUN_ID hash|cel [SHARDS]
 *
 * hash: integer keys 0..499 with values "v<key>". cel: text keys "k<n>", routed by the column region among ap, eu, us, none. One loser is left out of the manifest and deleted. Prints the
 * manifest's URL and the run record's. */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "snapshot/history.h"
#include "snapshot/publish.h"
#include "snapshot/runrecord.h"
#include "snapshot/shardwrite.h"
#include "snapshot/snappath.h"
#include "snapshot/verify.h"

enum { ROWS = 500 };

static void must(int rc, const char *what, const struct buf *why)
{
    if (rc >= 0) return;
    fprintf(stderr, "%s: %s: %.*s\n", what, err_name(rc), why ? (int)why->len : 0, why && why->p ? why->p : "");
    exit(1);
}

/* Whether row i lies in the shard, and its key and value. */
static bool get_row(bool cel, const struct router *router, uint32_t shard, int64_t i, struct snapkey *key, char text[32], struct slice *value)
{
    static char buffer[32];
    *key = snapkey_int(i);
    if (cel) *key = snapkey_text(slice_of(text, (size_t)snprintf(text, 32, "k%04lld", (long long)i)));
    *value = slice_of(buffer, (size_t)snprintf(buffer, sizeof buffer, "v%lld", (long long)i));
    if (cel) return i % 3 == shard;
    uint32_t at = 0;
    return router_shard(router, NULL, key, &at) == ROUTER_FOUND && at == shard;
}

static void build(struct object_store *store, struct manifest *m, const struct router *router, struct publish_attempt *a)
{
    char path[] = "/tmp/sherd-publish-XXXXXX", text[32], scratch[8];
    struct shardwrite_result result;
    int fd = mkostemp(path, O_CLOEXEC);
    must(fd, "mkostemp", NULL);
    unlink(path);
    struct shardwrite *w = shardwrite_new(fd, 4096);
    struct buf min = {0}, max = {0}, bytes = {0};
    for (int64_t i = 0; i < ROWS; i++) {
        struct snapkey key;
        struct slice value, stored;
        if (!get_row(m->is_cel, router, a->shard.db_id, i, &key, text, &value)) continue;
        if (min.len == 0) snapkey_json(&key, &min);
        max.len = 0;
        snapkey_json(&key, &max);
        CHECK(!snapkey_encode(m->key_encoding, &key, scratch, &stored));
        must(shardwrite_add(w, stored, value), "shardwrite_add", NULL);
    }
    must(shardwrite_end(w, &result), "shardwrite_end", NULL);
    shardwrite_free(w);
    buf_add_byte(&min, '\0');
    buf_add_byte(&max, '\0');
    CHECK(pread(fd, buf_room(&bytes, result.bytes), result.bytes, 0) == (ssize_t)result.bytes);
    a->shard.has_sha256 = EVP_Digest(bytes.p, result.bytes, a->shard.sha256, NULL, EVP_sha256(), NULL) == 1;
    a->shard.row_count = result.rows;
    a->shard.db_bytes = result.bytes;
    a->shard.min_key = manifest_copy(m, slice_of(min.p, min.len - 1));
    a->shard.max_key = manifest_copy(m, slice_of(max.p, max.len - 1));
    struct buf url = {0}, key = {0};
    snappath_attempt(&key, m->run_id, a->shard.db_id, a->shard.attempt);
    buf_printf(&url, "%s/%.*s", object_url(store), (int)key.len, key.p);
    a->shard.db_url = manifest_copy(m, buf_slice(&url));
    buf_add_str(&key, "/" SNAPPATH_SHARD_FILE);
    buf_add_byte(&key, '\0');
    must(object_put_fd(store, NULL, key.p, fd, SNAPPATH_TYPE_SQLITE, NULL), "put", NULL);
    close(fd);
    buf_fini(&min);
    buf_fini(&max);
    buf_fini(&bytes);
    buf_fini(&url);
    buf_fini(&key);
}

static struct manifest *describe(struct object_store *store, const char *run_id, bool cel, uint32_t shards)
{
    static const struct slice regions[] = {SLICE("ap"), SLICE("eu"), SLICE("us"), SLICE("n\xc3\xb6")};
    static const struct router_column column = {SLICE("region"), SLICE("string")};
    struct manifest *m = manifest_new();
    m->run_id = manifest_copy(m, slice_str(run_id));
    m->s3_prefix = manifest_copy(m, slice_str(object_url(store)));
    m->num_dbs = shards;
    m->key_encoding = cel ? SNAPKEY_UTF8 : SNAPKEY_U64BE;
    manifest_set_created(m, clock_unix_us());
    if (cel) manifest_set_cel(m, &(struct router_cel){.expr = SLICE("region"), .columns = &column, .n_columns = 1, .tokens = ROUTER_TOKENS_TEXT, .texts = regions, .n_tokens = 4});
    CHECK(manifest_add_custom(m, "owner", "\"test\""));
    return m;
}

int main(int argc, char **argv)
{
    struct object_store *store;
    struct publish_base base;
    struct publish_result result;
    struct runrecord_keeper *keeper;
    struct publish_attempt attempts[20] = {0};
    struct buf why = {0};
    char error[OBJECT_DETAIL_BYTES];
    if (argc < 4) return 2;
    bool cel = strcmp(argv[3], "cel") == 0;
    uint32_t shards = cel ? 4 : argc > 4 ? (uint32_t)atoi(argv[4]) : 3, n = 0;
    must(object_open(&store, argv[1], NULL, error), error, NULL);
    must(runrecord_begin(&keeper, store, NULL, &(struct runrecord_start){.run_id = argv[2], .writer_type = "sherd"}), "run record", NULL);
    must(publish_observe(store, NULL, &base, &why), "observe", &why);
    struct manifest *m = describe(store, argv[2], cel, shards);
    struct router *router = manifest_router(m, &why);
    CHECK(router && shards < 16);
    for (uint32_t id = 0; id < (cel ? 3 : shards); id++) {
        attempts[n] = (struct publish_attempt){.shard = {.db_id = id, .checkpoint_id = "0123"}, .task_attempt_id = PUBLISH_NO_TASK};
        build(store, m, router, &attempts[n++]);
    }
    attempts[n] = (struct publish_attempt){.shard = {.attempt = 1}, .task_attempt_id = PUBLISH_NO_TASK};
    build(store, m, router, &attempts[n++]);
    must(publish_choose(attempts, n, shards, &why), "choose", &why);
    publish_add_winners(m, attempts, n);
    must(publish_snapshot(store, NULL, m, &base, clock_unix_us(), &result, &why), "publish", &why);
    must((int)publish_delete_losers(store, NULL, m, attempts, n), "losers", NULL);
    must(verify_snapshot(store, NULL, m, &(struct verify_options){0}, NULL, NULL), "verify", NULL);
    printf("%s\n%s\n", result.manifest_ref, runrecord_ref(keeper));
    must(runrecord_succeed(keeper, NULL, result.manifest_ref), "run record", NULL);
    router_free(router);
    manifest_free(m);
    publish_result_fini(&result);
    publish_base_fini(&base);
    object_close(store);
    return 0;
}
