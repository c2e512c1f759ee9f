/* The format: a SQLite database image of at least these two tables. Other tables and columns are left to their owners.
 *
 *   build_meta   one row: run_id, created_at, num_dbs, s3_prefix, key_col, sharding, db_path_template, shard_prefix, format_version, key_encoding, custom
 *   shards       one row per shard that is not empty: db_id, db_url, attempt, row_count, db_bytes, min_key, max_key, checkpoint_id, writer_info
 *   x_shards     Sherd's own: db_id, sha256 (64 hex digits, of shard.db), bytes
 *
 * What is required of an image from outside:
 *   - the magic, and a header that does not ask for a write-ahead log (bytes 18 and 19 are 1);
 *   - both tables with all their columns, found by name; numbers are integers, texts are UTF-8 without NUL;
 *   - format_version is 4, key_encoding one of four, created_at a time, sharding as sharding.c says, custom and writer_info JSON objects (custom may be "");
 *   - 0 < num_dbs <= MANIFEST_SHARDS_MAX; db_id distinct and below num_dbs; attempt, row_count and db_bytes not negative; min_key and max_key NULL or the JSON of an integer, a text or null;
 *   - db_url not empty; NULL means an empty shard, whose row is dropped;
 *   - where x_shards tells bytes, they are db_bytes.
 *
 * Images are opened in memory, read-only, with everything off that a schema could make SQLite do, and with a budget of steps, so that a hostile one costs no more than its size. */
#include "snapshot/manifest.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "cel/utf8.h"
#include "snapshot/sharding.h"
#include "snapshot/snappath.h"

static const char schema[] =
    "CREATE TABLE build_meta (\n"
    "    run_id           TEXT    NOT NULL,\n"
    "    created_at       TEXT    NOT NULL,\n"
    "    num_dbs          INTEGER NOT NULL,\n"
    "    s3_prefix        TEXT    NOT NULL,\n"
    "    key_col          TEXT    NOT NULL,\n"
    "    sharding         TEXT    NOT NULL,\n"
    "    db_path_template TEXT    NOT NULL,\n"
    "    shard_prefix     TEXT    NOT NULL,\n"
    "    format_version   INTEGER NOT NULL,\n"
    "    key_encoding     TEXT    NOT NULL,\n"
    "    custom           TEXT    NOT NULL DEFAULT '{}'\n"
    ");\n"
    "CREATE TABLE shards (\n"
    "    db_id         INTEGER NOT NULL PRIMARY KEY,\n"
    "    db_url        TEXT,\n"
    "    attempt       INTEGER NOT NULL,\n"
    "    row_count     INTEGER NOT NULL,\n"
    "    db_bytes      INTEGER NOT NULL,\n"
    "    min_key       TEXT,\n"
    "    max_key       TEXT,\n"
    "    checkpoint_id TEXT,\n"
    "    writer_info   TEXT    NOT NULL DEFAULT '{}'\n"
    ");\n";
static const char schema_x_shards[] = "CREATE TABLE x_shards (db_id INTEGER NOT NULL PRIMARY KEY, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL)";

/* ---- memory */

struct manifest_block {
    struct manifest_block *next;
    max_align_t bytes[];
};

void *manifest_alloc(struct manifest *m, size_t bytes)
{
    struct manifest_block *b = mem_zalloc(sizeof *b + bytes);
    b->next = m->blocks;
    m->blocks = b;
    return b->bytes;
}

const char *manifest_copy(struct manifest *m, struct slice s)
{
    char *p = manifest_alloc(m, s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    return p;
}

static const char *copy_str(struct manifest *m, const char *s) { return s ? manifest_copy(m, slice_str(s)) : NULL; }

struct manifest *manifest_new(void)
{
    struct manifest *m = mem_zalloc(sizeof *m);
    m->key_col = "_key";
    m->db_path_template = SNAPPATH_DB_TEMPLATE;
    m->shard_prefix = SNAPPATH_SHARD_PREFIX;
    m->custom = "{}";
    return m;
}

void manifest_free(struct manifest *m)
{
    if (!m) return;
    for (struct manifest_block *b = m->blocks, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    mem_free(m->shards);
    mem_free(m);
}

/* ---- filling */

void manifest_set_created(struct manifest *m, int64_t unix_us)
{
    char ts[SNAPPATH_TIME_CHARS + 1];
    snappath_time(unix_us, ts);
    m->created_at = copy_str(m, ts);
    m->created_us = unix_us;
}

static struct slice copy_slice(struct manifest *m, struct slice s) { return slice_of(manifest_copy(m, s), s.n); }

void manifest_set_cel(struct manifest *m, const struct router_cel *c)
{
    struct router_column *columns = manifest_alloc(m, (c->n_columns + 1) * sizeof *columns);
    for (uint32_t i = 0; i < c->n_columns; i++) columns[i] = (struct router_column){copy_slice(m, c->columns[i].name), copy_slice(m, c->columns[i].type)};
    int64_t *ints = manifest_alloc(m, (c->n_tokens + 1) * sizeof *ints);
    struct slice *texts = manifest_alloc(m, (c->n_tokens + 1) * sizeof *texts);
    for (uint32_t i = 0; i < c->n_tokens; i++) {
        if (c->tokens == ROUTER_TOKENS_INT) ints[i] = c->ints[i];
        if (c->tokens == ROUTER_TOKENS_TEXT) texts[i] = copy_slice(m, c->texts[i]);
    }
    m->is_cel = true;
    m->cel = (struct router_cel){
        .expr = copy_slice(m, c->expr),
        .columns = columns,
        .n_columns = c->n_columns,
        .tokens = c->tokens,
        .ints = ints,
        .texts = texts,
        .n_tokens = c->tokens == ROUTER_TOKENS_NONE ? 0 : c->n_tokens,
    };
}

/* Room grows by doubling at powers of two, so that no capacity need be kept. */
static struct manifest_shard *next_shard(struct manifest *m)
{
    if ((m->n_shards & (m->n_shards - 1)) == 0) m->shards = mem_resize(m->shards, (m->n_shards ? 2 * (size_t)m->n_shards : 1) * sizeof *m->shards);
    return &m->shards[m->n_shards++];
}

struct manifest_shard *manifest_add_shard(struct manifest *m, const struct manifest_shard *s)
{
    struct manifest_shard copy = *s;
    copy.db_url = copy_str(m, s->db_url);
    copy.min_key = copy_str(m, s->min_key);
    copy.max_key = copy_str(m, s->max_key);
    copy.checkpoint_id = copy_str(m, s->checkpoint_id);
    copy.writer_info = s->writer_info ? copy_str(m, s->writer_info) : "{}";
    struct manifest_shard *last = next_shard(m);
    uint32_t at = m->n_shards - 1;
    while (at > 0 && m->shards[at - 1].db_id > copy.db_id) at--;
    memmove(&m->shards[at + 1], &m->shards[at], (size_t)(last - &m->shards[at]) * sizeof *last);
    m->shards[at] = copy;
    return &m->shards[at];
}

bool manifest_add_custom(struct manifest *m, const char *key, const char *json)
{
    json_t *custom = json_loads(m->custom, JSON_ALLOW_NUL, NULL);
    json_t *value = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool added = custom && value && !json_object_get(custom, key) && json_object_set(custom, key, value) == 0;
    char *text = added ? json_dumps(custom, JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
    if (text) m->custom = copy_str(m, text);
    free(text);
    json_decref(value);
    json_decref(custom);
    return text != NULL;
}

/* ---- asking */

const struct manifest_shard *manifest_find(const struct manifest *m, uint32_t db_id)
{
    uint32_t lo = 0, hi = m->n_shards;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->shards[mid].db_id < db_id) lo = mid + 1;
        else hi = mid;
    }
    return lo < m->n_shards && m->shards[lo].db_id == db_id ? &m->shards[lo] : NULL;
}

uint64_t manifest_rows(const struct manifest *m)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->n_shards; i++) sum += m->shards[i].row_count;
    return sum;
}

uint64_t manifest_bytes(const struct manifest *m)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->n_shards; i++) sum += m->shards[i].db_bytes;
    return sum;
}

struct router *manifest_router(const struct manifest *m, struct buf *why)
{
    return m->is_cel ? router_new_cel(&m->cel, m->num_dbs, why) : router_new_hash(m->num_dbs);
}

/* ---- errors */

static int refuse(struct buf *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int refuse(struct buf *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (why) buf_vprintf(why, fmt, ap);
    va_end(ap);
    return ERR_SNAPSHOT_BAD_MANIFEST;
}

static int refuse_sql(struct buf *why, sqlite3 *db) { return refuse(why, "not a usable SQLite image: %s", sqlite3_errmsg(db)); }

/* ---- writing */

static void bind_text(sqlite3_stmt *st, int i, const char *s)
{
    if (s) sqlite3_bind_text(st, i, s, -1, SQLITE_STATIC);
    else sqlite3_bind_null(st, i);
}

static bool run_once(sqlite3_stmt *st)
{
    bool done = sqlite3_step(st) == SQLITE_DONE;
    return sqlite3_reset(st) == SQLITE_OK && done;
}

static bool insert_meta(sqlite3 *db, const struct manifest *m, struct slice sharding)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, "INSERT INTO build_meta VALUES (?,?,?,?,?,?,?,?,?,?,?)", -1, &st, NULL) != SQLITE_OK) return false;
    bind_text(st, 1, m->run_id);
    bind_text(st, 2, m->created_at);
    sqlite3_bind_int64(st, 3, m->num_dbs);
    bind_text(st, 4, m->s3_prefix);
    bind_text(st, 5, m->key_col);
    sqlite3_bind_text64(st, 6, sharding.p, sharding.n, SQLITE_STATIC, SQLITE_UTF8);
    bind_text(st, 7, m->db_path_template);
    bind_text(st, 8, m->shard_prefix);
    sqlite3_bind_int64(st, 9, MANIFEST_FORMAT_VERSION);
    bind_text(st, 10, snapkey_encoding_name(m->key_encoding));
    bind_text(st, 11, m->custom);
    bool ok = run_once(st);
    sqlite3_finalize(st);
    return ok;
}

static bool insert_shard(sqlite3_stmt *st, const struct manifest_shard *s)
{
    sqlite3_bind_int64(st, 1, s->db_id);
    bind_text(st, 2, s->db_url);
    sqlite3_bind_int64(st, 3, s->attempt);
    sqlite3_bind_int64(st, 4, (int64_t)s->row_count);
    sqlite3_bind_int64(st, 5, (int64_t)s->db_bytes);
    bind_text(st, 6, s->min_key);
    bind_text(st, 7, s->max_key);
    bind_text(st, 8, s->checkpoint_id);
    bind_text(st, 9, s->writer_info);
    return run_once(st);
}

static bool insert_shards(sqlite3 *db, const struct manifest *m)
{
    sqlite3_stmt *st = NULL;
    bool ok = sqlite3_prepare_v2(db, "INSERT INTO shards VALUES (?,?,?,?,?,?,?,?,?)", -1, &st, NULL) == SQLITE_OK;
    for (uint32_t i = 0; ok && i < m->n_shards; i++) ok = insert_shard(st, &m->shards[i]);
    sqlite3_finalize(st);
    return ok;
}

static bool has_checksums(const struct manifest *m)
{
    for (uint32_t i = 0; i < m->n_shards; i++)
        if (m->shards[i].has_sha256) return true;
    return false;
}

static bool insert_checksums(sqlite3 *db, const struct manifest *m)
{
    sqlite3_stmt *st = NULL;
    if (!has_checksums(m)) return true;
    bool ok = sqlite3_exec(db, schema_x_shards, NULL, NULL, NULL) == SQLITE_OK &&
              sqlite3_prepare_v2(db, "INSERT INTO x_shards VALUES (?,?,?)", -1, &st, NULL) == SQLITE_OK;
    for (uint32_t i = 0; ok && i < m->n_shards; i++) {
        const struct manifest_shard *s = &m->shards[i];
        char hex[65];
        if (!s->has_sha256) continue;
        for (size_t b = 0; b < sizeof s->sha256; b++) snprintf(hex + 2 * b, 3, "%02x", s->sha256[b]);
        sqlite3_bind_int64(st, 1, s->db_id);
        bind_text(st, 2, hex);
        sqlite3_bind_int64(st, 3, (int64_t)s->db_bytes);
        ok = run_once(st);
    }
    sqlite3_finalize(st);
    return ok;
}

static sqlite3 *open_memory(void)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    return db;
}

static bool fill(sqlite3 *db, const struct manifest *m, struct slice sharding)
{
    return sqlite3_exec(db, "PRAGMA page_size=4096; PRAGMA encoding='UTF-8'; BEGIN", NULL, NULL, NULL) == SQLITE_OK && sqlite3_exec(db, schema, NULL, NULL, NULL) == SQLITE_OK &&
           insert_meta(db, m, sharding) && insert_shards(db, m) && insert_checksums(db, m) && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
}

int manifest_write(const struct manifest *m, struct buf *out, struct buf *why)
{
    sqlite3 *db = open_memory();
    sqlite3_int64 n = 0;
    unsigned char *image = NULL;
    struct manifest *back = NULL;
    struct buf sharding = {0};
    int rc = 0;
    if (!db) return refuse(why, "SQLite could not be started");
    if (!sharding_write(m, &sharding)) rc = refuse(why, "an expression, a column or a routing value is not UTF-8");
    else if (fill(db, m, buf_slice(&sharding))) image = sqlite3_serialize(db, "main", &n, 0);
    if (rc == 0 && !image) rc = refuse_sql(why, db);
    sqlite3_close(db);
    buf_fini(&sharding);
    if (rc == 0) rc = manifest_parse(slice_of(image, (size_t)n), &back, why); /* what a reader would refuse is never written */
    if (rc == 0) buf_add(out, image, (size_t)n);
    manifest_free(back);
    sqlite3_free(image);
    return rc;
}

/* ---- parsing: rows */

/* One row of one table, whose columns are asked for by name. The first thing that is wrong is noted, and what is asked afterwards does not matter. */
struct row {
    sqlite3_stmt *st;
    struct manifest *m;
    const char *table;
    struct buf *why;
    bool bad;
};

static int column_of(struct row *r, const char *name)
{
    for (int i = 0; i < sqlite3_column_count(r->st); i++)
        if (strcmp(sqlite3_column_name(r->st, i), name) == 0) return i;
    if (!r->bad) refuse(r->why, "%s has no column %s", r->table, name);
    r->bad = true;
    return -1;
}

static void wrong(struct row *r, const char *name, const char *what)
{
    if (!r->bad) refuse(r->why, "%s.%s %s", r->table, name, what);
    r->bad = true;
}

static uint64_t get_number(struct row *r, const char *name, uint64_t most)
{
    int i = column_of(r, name);
    if (i < 0) return 0;
    int64_t v = sqlite3_column_int64(r->st, i);
    if (sqlite3_column_type(r->st, i) != SQLITE_INTEGER) wrong(r, name, "is no integer");
    else if (v < 0 || (uint64_t)v > most) wrong(r, name, "is out of range");
    return (uint64_t)v;
}

/* NULL where the column is NULL, if that is allowed. */
static const char *get_text(struct row *r, const char *name, bool may_be_null)
{
    int i = column_of(r, name);
    if (i < 0) return "";
    int type = sqlite3_column_type(r->st, i);
    if (type == SQLITE_NULL && may_be_null) return NULL;
    if (type != SQLITE_TEXT) return wrong(r, name, "is no text"), "";
    const void *p = sqlite3_column_text(r->st, i);
    struct slice s = slice_of(p, (size_t)sqlite3_column_bytes(r->st, i));
    if (!p || !utf8_valid(s) || memchr(s.p, '\0', s.n)) return wrong(r, name, "is not UTF-8"), "";
    return manifest_copy(r->m, s);
}

static bool is_json_object(const char *text)
{
    json_t *o = json_loads(text, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    bool is = json_is_object(o);
    json_decref(o);
    return is;
}

static const char *get_object(struct row *r, const char *name)
{
    const char *text = get_text(r, name, false);
    if (!r->bad && !is_json_object(text)) wrong(r, name, "is no JSON object");
    return text;
}

static bool is_json_integer(const char *s)
{
    if (*s == '-') s++;
    if (s[0] < '0' || s[0] > '9' || (s[0] == '0' && s[1] != '\0')) return false;
    return s[strspn(s, "0123456789")] == '\0';
}

/* min_key and max_key. Integers are looked at as text: keys go up to 2^64 - 1, which the JSON library has no type for. */
static const char *get_key(struct row *r, const char *name)
{
    const char *text = get_text(r, name, true);
    if (r->bad || !text || is_json_integer(text)) return text;
    json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool ok = json_is_string(j) || json_is_null(j);
    if (!ok) wrong(r, name, "is neither an integer nor a text in JSON");
    else if (json_is_null(j)) text = NULL;
    json_decref(j);
    return text;
}

/* ---- parsing: tables */

static bool is_truthy(const json_t *j)
{
    return json_is_true(j) || (json_is_number(j) && json_number_value(j) != 0) || json_string_length(j) > 0 || json_array_size(j) > 0 || json_object_size(j) > 0;
}

static bool says_vector(const char *custom)
{
    json_t *o = json_loads(custom, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    json_t *vector = json_object_get(o, "vector");
    bool says = json_is_object(vector) && !is_truthy(json_object_get(vector, "unified"));
    json_decref(o);
    return says;
}

static void parse_meta(struct row *r)
{
    struct manifest *m = r->m;
    if (get_number(r, "format_version", INT64_MAX) != MANIFEST_FORMAT_VERSION) wrong(r, "format_version", "is not 4, the only one that is known");
    m->run_id = get_text(r, "run_id", false);
    if (!r->bad && m->run_id[0] == '\0') wrong(r, "run_id", "is empty");
    m->created_at = get_text(r, "created_at", false);
    if (!r->bad && !snappath_parse_time(slice_str(m->created_at), &m->created_us)) wrong(r, "created_at", "is no time");
    m->num_dbs = (uint32_t)get_number(r, "num_dbs", MANIFEST_SHARDS_MAX);
    if (m->num_dbs == 0) wrong(r, "num_dbs", "is 0");
    m->s3_prefix = get_text(r, "s3_prefix", false);
    m->key_col = get_text(r, "key_col", false);
    m->db_path_template = get_text(r, "db_path_template", false);
    m->shard_prefix = get_text(r, "shard_prefix", false);
    if (!snapkey_encoding_parse(slice_str(get_text(r, "key_encoding", false)), &m->key_encoding)) wrong(r, "key_encoding", "is none of u64be, u32be, utf8, raw");
    m->custom = get_text(r, "custom", false);
    if (m->custom[0] == '\0') m->custom = "{}";
    if (!r->bad && !is_json_object(m->custom)) wrong(r, "custom", "is no JSON object");
    const char *sharding = get_text(r, "sharding", false);
    const char *why = r->bad ? NULL : sharding_parse(m, slice_str(sharding));
    if (why) refuse(r->why, "%s", why);
    r->bad |= why != NULL;
    m->is_vector = !r->bad && says_vector(m->custom);
}

static void parse_shard(struct row *r)
{
    struct manifest_shard s = {
        .db_id = (uint32_t)get_number(r, "db_id", r->m->num_dbs - 1),
        .db_url = get_text(r, "db_url", true),
        .attempt = (uint32_t)get_number(r, "attempt", UINT32_MAX),
        .row_count = get_number(r, "row_count", INT64_MAX),
        .db_bytes = get_number(r, "db_bytes", INT64_MAX),
        .min_key = get_key(r, "min_key"),
        .max_key = get_key(r, "max_key"),
        .checkpoint_id = get_text(r, "checkpoint_id", true),
        .writer_info = get_object(r, "writer_info"),
    };
    if (!r->bad && s.db_url && s.db_url[0] == '\0') wrong(r, "db_url", "is empty");
    if (!r->bad) *next_shard(r->m) = s;
}

static bool parse_hex(const char *hex, uint8_t out[32])
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(hex) != 64) return false;
    for (int i = 0; i < 32; i++) {
        const char *hi = strchr(digits, hex[2 * i]), *lo = strchr(digits, hex[2 * i + 1]);
        if (!hi || !lo) return false;
        out[i] = (uint8_t)((hi - digits) << 4 | (lo - digits));
    }
    return true;
}

static void parse_checksum(struct row *r)
{
    uint64_t id = get_number(r, "db_id", UINT32_MAX), bytes = get_number(r, "bytes", INT64_MAX);
    const char *hex = get_text(r, "sha256", false);
    struct manifest_shard *s = r->bad ? NULL : (struct manifest_shard *)manifest_find(r->m, (uint32_t)id);
    if (!s) return;
    s->has_sha256 = parse_hex(hex, s->sha256);
    if (!s->has_sha256) wrong(r, "sha256", "is no SHA-256");
    if (bytes != s->db_bytes) wrong(r, "bytes", "is not the size that shards tells");
}

/* Gives the number of rows, at most `most`, or the refusal. */
static int64_t parse_table(sqlite3 *db, struct manifest *m, const char *table, void (*each)(struct row *), uint32_t most, struct buf *why)
{
    struct row r = {.m = m, .table = table, .why = why};
    char sql[64];
    int64_t n = 0;
    int step;
    snprintf(sql, sizeof sql, "SELECT * FROM %s", table);
    if (sqlite3_prepare_v2(db, sql, -1, &r.st, NULL) != SQLITE_OK) return refuse_sql(why, db);
    while ((step = n < most ? sqlite3_step(r.st) : SQLITE_DONE) == SQLITE_ROW && !r.bad) {
        each(&r);
        n++;
    }
    if (!r.bad && step != SQLITE_DONE) {
        refuse_sql(why, db);
        r.bad = true;
    }
    sqlite3_finalize(r.st);
    return r.bad ? ERR_SNAPSHOT_BAD_MANIFEST : n;
}

/* Tables only: a view or a virtual table of that name is code that the image brings along. */
static bool has_table(sqlite3 *db, const char *name)
{
    sqlite3_stmt *st = NULL;
    const char *sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql LIKE 'CREATE TABLE%' AND rootpage > 0";
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK) return false;
    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    bool has = sqlite3_step(st) == SQLITE_ROW;
    sqlite3_finalize(st);
    return has;
}

static int by_id(const void *a, const void *b)
{
    const struct manifest_shard *x = a, *y = b;
    return x->db_id < y->db_id ? -1 : x->db_id > y->db_id;
}

/* Sorts, refuses an id that is there twice, drops empty shards. */
static int settle_shards(struct manifest *m, struct buf *why)
{
    uint32_t kept = 0;
    if (m->n_shards) qsort(m->shards, m->n_shards, sizeof *m->shards, by_id);
    for (uint32_t i = 1; i < m->n_shards; i++)
        if (m->shards[i - 1].db_id == m->shards[i].db_id) return refuse(why, "shard %u is there twice", m->shards[i].db_id);
    for (uint32_t i = 0; i < m->n_shards; i++)
        if (m->shards[i].db_url) m->shards[kept++] = m->shards[i];
    m->n_shards = kept;
    return 0;
}

static int parse_tables(sqlite3 *db, struct manifest *m, struct buf *why)
{
    if (!has_table(db, "build_meta") || !has_table(db, "shards")) return sqlite3_errcode(db) ? refuse_sql(why, db) : refuse(why, "the tables build_meta and shards are not both there");
    int64_t n = parse_table(db, m, "build_meta", parse_meta, 1, why);
    if (n < 0) return (int)n;
    if (n == 0) return refuse(why, "build_meta is empty");
    n = parse_table(db, m, "shards", parse_shard, m->num_dbs + 1, why);
    if (n < 0) return (int)n;
    if (n > m->num_dbs) return refuse(why, "there are more shards than num_dbs");
    int rc = settle_shards(m, why);
    if (rc == 0 && has_table(db, "x_shards") && (n = parse_table(db, m, "x_shards", parse_checksum, m->num_dbs, why)) < 0) rc = (int)n;
    return rc;
}

/* ---- parsing: the image */

static int out_of_budget(void *steps_left) { return --*(int64_t *)steps_left < 0; }

static void lock_down(sqlite3 *db, struct slice image)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, (int)(image.n < 1024 ? 1024 : image.n)); /* nothing in it is longer than it all */
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

static const char *check_header(struct slice image)
{
    if (image.n < 512 || memcmp(image.p, "SQLite format 3", 16) != 0) return "it does not begin like a SQLite database";
    if (image.n > MANIFEST_BYTES_MAX) return "it is too large";
    if (image.p[18] != 1 || image.p[19] != 1) return "it asks for a write-ahead log, which a single object cannot have";
    return NULL;
}

int manifest_parse(struct slice image, struct manifest **out, struct buf *why)
{
    const char *bad = check_header(image);
    int64_t steps_left = 1000 + (int64_t)(image.n / 16); /* in hundreds of SQLite's instructions */
    if (bad) return refuse(why, "%s", bad);
    sqlite3 *db = open_memory();
    if (!db) return refuse(why, "SQLite could not be started");
    struct manifest *m = manifest_new();
    lock_down(db, image);
    sqlite3_progress_handler(db, 100, out_of_budget, &steps_left);
    /* READONLY, and not FREEONCLOSE: SQLite only looks at the bytes, although it does not say so in its types. */
    int rc = sqlite3_deserialize(db, "main", (unsigned char *)(uintptr_t)image.p, (sqlite3_int64)image.n, (sqlite3_int64)image.n, SQLITE_DESERIALIZE_READONLY);
    rc = rc == SQLITE_OK ? parse_tables(db, m, why) : refuse_sql(why, db);
    sqlite3_close(db);
    if (rc != 0) {
        manifest_free(m);
        return rc;
    }
    *out = m;
    return 0;
}
