/* Verify: whole snapshots of another writer are found whole, and every kind of damage is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <openssl/evp.h>

#include "snapdir.h"
#include "snapgolden.h"
#include "snapshot/verify.h"

struct seen {
    enum verify_state states[16];
    uint64_t rows;
    size_t n, checksums;
};

static void note(void *arg, const struct verify_shard *v)
{
    struct seen *s = arg;
    assert_int_equal(v->state == VERIFY_OK, v->detail[0] == '\0');
    s->states[s->n++] = v->state;
    s->rows += v->rows;
    s->checksums += v->checksum_known;
}

/* Copies a golden snapshot into the folder, as somebody would who moves it out of its bucket. */
static struct manifest *copy_golden(struct snapdir *d, const char *name)
{
    struct manifest *m;
    struct buf image = {0};
    snapgolden_manifest(name, &image);
    assert_int_equal(manifest_parse(buf_slice(&image), &m, NULL), 0);
    for (uint32_t i = 0; i < m->n_shards; i++) {
        char url[300], key[300];
        snprintf(url, sizeof url, "%s/shard.db", m->shards[i].db_url);
        snprintf(key, sizeof key, "%s/shard.db", snappath_key(d->s, m->s3_prefix, m->shards[i].db_url));
        image.len = 0;
        snapgolden_object(url, &image);
        assert_int_equal(object_put(d->inner, NULL, key, buf_slice(&image), NULL, NULL), 0);
        EVP_Digest(image.p, image.len, m->shards[i].sha256, NULL, EVP_sha256(), NULL);
    }
    buf_fini(&image);
    return m;
}

static int verify(struct snapdir *d, const struct manifest *m, bool shallow, struct seen *s)
{
    *s = (struct seen){0};
    return verify_snapshot(d->s, NULL, m, &(struct verify_options){.shallow = shallow}, note, s);
}

static void copies_of_golden_snapshots_are_whole(void **state)
{
    struct snapdir *d = *state;
    for (int i = 0; i < SNAPGOLDEN_COUNT; i++) {
        struct seen s;
        snapdir_clear(d);
        struct manifest *m = copy_golden(d, snapgolden_names[i]);
        assert_int_equal(verify(d, m, false, &s), 0);
        assert_int_equal(s.n, m->n_shards);
        assert_int_equal(s.rows, manifest_rows(m));
        assert_int_equal(verify(d, m, true, &s), 0);
        assert_true(s.rows == 0 && s.checksums == 0);
        for (uint32_t k = 0; k < m->n_shards; k++) m->shards[k].has_sha256 = true;
        assert_int_equal(verify(d, m, false, &s), 0);
        assert_int_equal(s.checksums, m->n_shards);
        manifest_free(m);
    }
}

static const char *shard_key(const struct snapdir *d, const struct manifest *m, uint32_t i, char key[300])
{
    snprintf(key, 300, "%s/shard.db", snappath_key(d->s, m->s3_prefix, m->shards[i].db_url));
    return key;
}

static void every_kind_of_damage_is_named(void **state)
{
    struct snapdir *d = *state;
    struct manifest *m = copy_golden(d, "hash-u64be");
    struct seen s;
    struct buf bytes = {0};
    char key[300];
    /* The rows of shard 1 in the place of shard 0, which has as many bytes. */
    assert_int_equal(m->shards[0].db_bytes, m->shards[1].db_bytes);
    assert_int_equal(object_get(d->inner, NULL, shard_key(d, m, 1, key), 1 << 20, &bytes, NULL), 0);
    assert_int_equal(object_put(d->inner, NULL, shard_key(d, m, 0, key), buf_slice(&bytes), NULL, NULL), 0);
    const char *gone = shard_key(d, m, 1, key);
    assert_int_equal(object_delete(d->inner, NULL, &gone, 1, NULL), 0);
    snapdir_put(d, shard_key(d, m, 2, key), "short");
    memset(bytes.p + 4096, 0xee, 4096);
    assert_int_equal(object_put(d->inner, NULL, shard_key(d, m, 3, key), buf_slice(&bytes), NULL, NULL), 0);
    assert_int_equal(verify(d, m, false, &s), ERR_SNAPSHOT_DAMAGED);
    assert_int_equal(s.states[0], VERIFY_STRUCTURE); /* keys that belong elsewhere */
    assert_int_equal(s.states[1], VERIFY_MISSING);
    assert_int_equal(s.states[2], VERIFY_SIZE);
    assert_int_equal(s.states[3], VERIFY_STRUCTURE);
    m->shards[3].has_sha256 = true;
    assert_int_equal(verify(d, m, false, &s), ERR_SNAPSHOT_DAMAGED);
    assert_int_equal(s.states[3], VERIFY_CHECKSUM);
    assert_int_equal(verify(d, m, true, &s), ERR_SNAPSHOT_DAMAGED);
    assert_int_equal(s.states[3], VERIFY_OK); /* a shallow look sees sizes only */
    buf_fini(&bytes);
    manifest_free(m);
}

static void a_store_that_fails_is_not_called_damage(void **state)
{
    struct snapdir *d = *state;
    struct manifest *m = copy_golden(d, "cel-direct");
    size_t reached = 0;
    for (uint64_t k = 1;; k++) {
        struct seen s;
        faultstore_plan(d->s, (struct faultstore_plan){.at = k, .code = ERR_OBJECT_DENIED});
        int rc = verify(d, m, false, &s);
        if (!faultstore_fired(d->s)) break;
        assert_int_equal(rc, ERR_OBJECT_DENIED);
        assert_int_equal(s.n, m->n_shards);
        reached++;
    }
    assert_int_equal(reached, 2 * m->n_shards);
    manifest_free(m);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, snapdir_set_up, snapdir_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(copies_of_golden_snapshots_are_whole),
        TEST(every_kind_of_damage_is_named),
        TEST(a_store_that_fails_is_not_called_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
