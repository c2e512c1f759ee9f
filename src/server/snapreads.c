/* Reads of a served snapshot: GET MGET EXISTS STRLEN GETRANGE SUBSTR TYPE TTL ... SCAN KEYS RANDOMKEY DBSIZE, RANGE.GET RANGE.COUNT BUCKET.GET, SNAPSHOT.GET, SNAPSHOT.SCAN.
 * A key that the snapshot's encoding cannot have (letters where keys are numbers) is simply not there. */
#include "server/snapreads.h"

#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "route/keyspace.h"
#include "server/families.h"
#include "server/front.h"
#include "server/rangequery.h"
#include "server/snapserve.h"
#include "snapshot/reader.h"

enum {
    SCAN_COUNT = 10,    /* as Redis */
    SCAN_LIMIT = 1000,  /* rows of SNAPSHOT.SCAN unless told */
    RANDOM_AMONG = 64,  /* rows behind a random place */
    ONE_READ_MAX = 1 << 16, /* keys that a SCAN looks at, however few of them match */
};

/* ---- one or more keys */

static void answer_error(struct errands_call *c, int rc, struct buf *why)
{
    buf_add_byte(why, '\0');
    const char *hint = rc == ERR_SNAPSHOT_ROUTE ? "; SNAPSHOT.GET key column value [column value ...] brings one" : "";
    reply_errorf(c->out, "ERR %s: %s%s", err_text(rc), why->p, hint);
}

/* 1: found, 0: not there, negative: the error is answered. */
static int find(struct errands_call *c, struct slice word, const struct readstate_context *context, struct buf *value)
{
    struct reader *r = snapserve_reader(c->server);
    struct reader_lease l = reader_enter(r);
    struct buf why = {0};
    struct snapkey key;
    int rc = 0;
    if (!snapkey_parse(readstate_manifest(l.state)->key_encoding, word, &key)) rc = readstate_get(l.state, &key, context, value, &why);
    reader_leave(r, l);
    if (rc < 0) answer_error(c, rc, &why);
    buf_fini(&why);
    return rc;
}

static void get(struct errands_call *c)
{
    struct buf value = {0};
    int rc = find(c, c->argv[1], NULL, &value);
    if (rc > 0) reply_bulk(c->out, slice_of(value.p ? value.p : "", value.len));
    else if (rc == 0) reply_null(c->out);
    buf_fini(&value);
}

static void string_length(struct errands_call *c)
{
    struct buf value = {0};
    int rc = find(c, c->argv[1], NULL, &value);
    if (rc >= 0) reply_int(c->out, rc ? (int64_t)value.len : 0);
    buf_fini(&value);
}

/* As Redis has it: negative places count from the end, what lies outside is cut off. */
static struct slice cut_out(struct slice s, int64_t from, int64_t to)
{
    int64_t n = (int64_t)s.n;
    if (from < 0 && to < 0 && from > to) return SLICE("");
    if (from < 0) from = from + n < 0 ? 0 : from + n;
    if (to < 0) to = to + n < 0 ? 0 : to + n;
    if (to >= n) to = n - 1;
    return n == 0 || from > to ? SLICE("") : slice_of(s.p + from, (size_t)(to - from) + 1);
}

static void get_range(struct errands_call *c)
{
    int64_t from, to;
    struct buf value = {0};
    if (!num_parse_i64(c->argv[2], &from) || !num_parse_i64(c->argv[3], &to)) {
        reply_error(c->out, reply_notint);
        return;
    }
    int rc = find(c, c->argv[1], NULL, &value);
    if (rc >= 0) reply_bulk(c->out, rc ? cut_out(buf_slice(&value), from, to) : SLICE(""));
    buf_fini(&value);
}

static void type_of(struct errands_call *c)
{
    struct buf value = {0};
    int rc = find(c, c->argv[1], NULL, &value);
    if (rc >= 0) reply_simple(c->out, rc ? "string" : "none");
    buf_fini(&value);
}

/* -1: it never expires; -2: it is not there. */
static void time_to_live(struct errands_call *c)
{
    struct buf value = {0};
    int rc = find(c, c->argv[1], NULL, &value);
    if (rc >= 0) reply_int(c->out, rc ? -1 : -2);
    buf_fini(&value);
}

/* Values of argv[1...] in one and the same snapshot. */
struct many {
    struct readstate_answer *answers; /* [argc - 1] */
    struct buf values;
};

static int find_all(struct errands_call *c, struct many *m)
{
    uint32_t n = c->argc - 1, known = 0;
    struct reader *r = snapserve_reader(c->server);
    struct reader_lease l = reader_enter(r);
    struct snapkey *keys = mem_alloc(n * sizeof *keys);
    struct readstate_answer *found = mem_zalloc(n * sizeof *found);
    uint32_t *places = mem_alloc(n * sizeof *places); /* of the known ones */
    struct buf why = {0};
    for (uint32_t i = 0; i < n; i++)
        if (!snapkey_parse(readstate_manifest(l.state)->key_encoding, c->argv[i + 1], &keys[known])) places[known++] = i;
    m->answers = mem_zalloc(n * sizeof *m->answers);
    int64_t rc = known ? readstate_get_many(l.state, keys, known, NULL, found, &m->values, &why) : 0;
    reader_leave(r, l);
    for (uint32_t i = 0; i < known && rc >= 0; i++) m->answers[places[i]] = found[i];
    if (rc < 0) answer_error(c, (int)rc, &why);
    buf_fini(&why);
    mem_free(keys);
    mem_free(found);
    mem_free(places);
    return rc < 0 ? (int)rc : 0;
}

static void free_many(struct many *m)
{
    mem_free(m->answers);
    buf_fini(&m->values);
}

static void get_many(struct errands_call *c)
{
    struct many m = {0};
    int rc = find_all(c, &m);
    if (rc == 0) reply_array(c->out, c->argc - 1);
    for (uint32_t i = 0; rc == 0 && i < c->argc - 1; i++) {
        if (m.answers[i].found) reply_bulk(c->out, slice_of(m.values.p ? m.values.p + m.answers[i].at : "", m.answers[i].n));
        else reply_null(c->out);
    }
    free_many(&m);
}

static void count_existing(struct errands_call *c)
{
    struct many m = {0};
    int64_t n = 0;
    int rc = find_all(c, &m);
    for (uint32_t i = 0; rc == 0 && i < c->argc - 1; i++) n += m.answers[i].found;
    if (rc == 0) reply_int(c->out, n);
    free_many(&m);
}

/* SNAPSHOT.GET key [column value ...] */
static void get_with_context(struct errands_call *c)
{
    size_t n = (c->argc - 2) / 2;
    struct buf value = {0};
    char **words = mem_alloc((2 * n + 1) * sizeof *words);
    if (c->argc % 2) {
        reply_error(c->out, reply_syntax);
        mem_free(words);
        return;
    }
    for (size_t i = 0; i < 2 * n; i++) { /* names first, then values */
        struct slice word = c->argv[2 + i];
        char *copy = words[i / 2 + (i % 2 ? n : 0)] = mem_alloc(word.n + 1);
        memcpy(copy, word.p, word.n);
        copy[word.n] = '\0';
    }
    struct readstate_context context = {(const char *const *)words, (const char *const *)words + n, n};
    int rc = find(c, c->argv[1], &context, &value);
    if (rc > 0) reply_bulk(c->out, slice_of(value.p ? value.p : "", value.len));
    else if (rc == 0) reply_null(c->out);
    buf_fini(&value);
    for (size_t i = 0; i < 2 * n; i++) mem_free(words[i]);
    mem_free(words);
}

/* ---- in order */

static void add_key(struct buf *to, enum snapkey_encoding e, struct slice stored)
{
    struct snapkey key;
    if (!snapkey_decode(e, stored, &key)) buf_add_slice(to, stored);
    else if (key.kind == SNAPKEY_INT) buf_printf(to, "%lld", (long long)key.i);
    else if (key.kind == SNAPKEY_UINT) buf_printf(to, "%llu", (unsigned long long)key.u);
    else buf_add_slice(to, key.s);
}

/* A walk along the keys of one snapshot. */
struct walker {
    struct errands_call *c;
    struct reader_lease lease;
    struct readscan_range range;
    struct readscan *scan;
    struct buf why, word; /* word: the key as the client knows it */
    int rc;
};

static enum snapkey_encoding encoding_of(const struct walker *w) { return readstate_manifest(w->lease.state)->key_encoding; }

static void begin(struct walker *w, struct errands_call *c)
{
    *w = (struct walker){.c = c, .lease = reader_enter(snapserve_reader(c->server))};
}

static void end(struct walker *w)
{
    readscan_close(w->scan);
    readscan_range_fini(&w->range);
    reader_leave(snapserve_reader(w->c->server), w->lease);
    if (w->rc < 0) answer_error(w->c, w->rc, &w->why);
    buf_fini(&w->why);
    buf_fini(&w->word);
}

static bool next(struct walker *w, struct slice *stored, struct slice *value)
{
    if (!w->scan) w->rc = readscan_open(&w->scan, w->lease.state, &w->range, &w->why);
    if (w->rc >= 0) w->rc = readscan_next(w->scan, stored, value, &w->why);
    if (w->rc <= 0) return false;
    w->word.len = 0;
    add_key(&w->word, encoding_of(w), *stored);
    return true;
}

/* Keys are stored as they are written. */
static bool as_written(const struct walker *w) { return encoding_of(w) == SNAPKEY_UTF8 || encoding_of(w) == SNAPKEY_RAW; }

/* What every key that matches a pattern begins with. */
static void narrow_by_pattern(struct walker *w, struct slice pattern)
{
    size_t n = 0;
    while (n < pattern.n && !strchr("*?[\\", pattern.p[n])) n++;
    if (n && as_written(w)) readscan_prefix(&w->range, slice_of(pattern.p, n));
}

struct scan_options {
    struct slice pattern; /* empty: all */
    int64_t count;
    bool no_strings; /* TYPE of something else */
};

static bool parse_scan(struct errands_call *c, struct scan_options *o)
{
    *o = (struct scan_options){.count = SCAN_COUNT};
    for (uint32_t i = 2; i < c->argc; i += 2) {
        bool has_value = i + 1 < c->argc;
        if (has_value && slice_is(c->argv[i], "match")) {
            o->pattern = c->argv[i + 1];
        } else if (has_value && slice_is(c->argv[i], "type")) {
            o->no_strings = !slice_is(c->argv[i + 1], "string");
        } else if (has_value && slice_is(c->argv[i], "count")) {
            if (!num_parse_i64(c->argv[i + 1], &o->count)) {
                reply_error(c->out, reply_notint);
                return false;
            }
            if (o->count < 1) break;
        } else {
            o->count = 0;
            break;
        }
    }
    if (o->count < 1) reply_error(c->out, reply_syntax);
    return o->count > 0;
}

/* Looks at count keys from where the cursor stands; gives the next cursor. */
static uint64_t scan_some(struct walker *w, const struct scan_options *o, struct reply *out)
{
    struct slice stored, value;
    struct buf last = {0};
    size_t n = 0, mark = reply_open(out);
    int64_t looked = 0, most = o->count < ONE_READ_MAX ? o->count : ONE_READ_MAX;
    uint64_t cursor = 0;
    if (o->pattern.n) narrow_by_pattern(w, o->pattern);
    while (!o->no_strings && looked < most && next(w, &stored, &value)) {
        looked++;
        last.len = 0;
        buf_add_slice(&last, stored);
        if (o->pattern.n && !glob_match(o->pattern, buf_slice(&w->word), false)) continue;
        reply_bulk(out, buf_slice(&w->word));
        n++;
    }
    if (looked == most) cursor = snapserve_keep_cursor(w->c->server, buf_slice(&last));
    buf_fini(&last);
    reply_close_array(out, mark, n);
    return cursor;
}

static void scan(struct errands_call *c)
{
    uint64_t cursor;
    struct scan_options o;
    struct buf from = {0}, keys = {0};
    struct reply out = {.out = &keys, .resp = c->out->resp};
    struct walker w;
    if (!parse_scan(c, &o)) return;
    if (!num_parse_u64(c->argv[1], &cursor) || (cursor && !snapserve_find_cursor(c->server, cursor, &from))) {
        reply_error(c->out, "ERR invalid cursor");
        return;
    }
    begin(&w, c);
    if (cursor) readscan_from(&w.range, buf_slice(&from), true);
    cursor = scan_some(&w, &o, &out);
    if (w.rc >= 0) {
        reply_array(c->out, 2);
        reply_bulk_i64(c->out, (int64_t)cursor);
        buf_add_slice(c->out->out, buf_slice(&keys));
    }
    end(&w);
    buf_fini(&from);
    buf_fini(&keys);
}

static void keys_like(struct errands_call *c)
{
    struct slice stored, value;
    struct buf found = {0};
    struct reply out = {.out = &found, .resp = c->out->resp};
    struct walker w;
    size_t n = 0;
    begin(&w, c);
    narrow_by_pattern(&w, c->argv[1]);
    while (next(&w, &stored, &value)) {
        if (!glob_match(c->argv[1], buf_slice(&w.word), false)) continue;
        reply_bulk(&out, buf_slice(&w.word));
        n++;
    }
    if (w.rc >= 0) {
        reply_array(c->out, n);
        buf_add_slice(c->out->out, buf_slice(&found));
    }
    end(&w);
    buf_fini(&found);
}

/* ---- RANDOMKEY: a shard by its rows, a place between its first and its last key, and one of the rows from there on. Every key can come; where keys lie close together each comes more rarely. */

/* From the beginning of the range again. */
static bool restart(struct walker *w, struct buf *stored)
{
    struct slice key, value;
    readscan_close(w->scan);
    w->scan = NULL;
    stored->len = 0;
    if (!next(w, &key, &value)) return false;
    buf_add_slice(stored, key);
    return true;
}

static uint64_t eight_bytes(struct slice key, size_t at)
{
    uint64_t n = 0;
    for (size_t i = at; i < at + 8; i++) n = n << 8 | (i < key.n ? (uint8_t)key.p[i] : 0);
    return n;
}

/* A random place from first to last, which may be no key. Without zeros at its end: they would be behind a shorter key. */
static void add_place(struct buf *to, struct rng *rng, struct slice first, struct slice last)
{
    size_t same = 0;
    while (same < first.n && same < last.n && first.p[same] == last.p[same]) same++;
    uint64_t from = eight_bytes(first, same), span = eight_bytes(last, same) - from;
    uint64_t n = from + (span == UINT64_MAX ? rng_u64(rng) : rng_below(rng, span + 1));
    buf_add(to, first.p, same);
    for (; n; n <<= 8) buf_add_byte(to, (char)(n >> 56));
}

static uint32_t random_shard(const struct manifest *m, struct rng *rng)
{
    uint64_t row = rng_below(rng, manifest_rows(m));
    uint32_t i = 0;
    while (row >= m->shards[i].row_count) row -= m->shards[i++].row_count;
    return m->shards[i].db_id;
}

/* The range is one shard. False: it is empty, or w->rc. */
static bool find_random(struct walker *w, struct rng *rng, struct buf *word)
{
    struct buf first = {0}, last = {0}, place = {0};
    struct slice stored, value;
    w->range.reverse = true;
    bool found = restart(w, &last);
    w->range.reverse = false;
    found = found && restart(w, &first);
    if (found) {
        add_place(&place, rng, buf_slice(&first), buf_slice(&last));
        readscan_from(&w->range, buf_slice(&place), false);
        found = restart(w, &first);
    }
    for (uint64_t seen = 1; found && seen <= RANDOM_AMONG; seen++) { /* the n-th takes the place of those before it with a chance of 1/n: all have the same */
        if (rng_below(rng, seen) == 0) {
            word->len = 0;
            buf_add_slice(word, buf_slice(&w->word));
        }
        if (!next(w, &stored, &value)) break;
    }
    buf_fini(&first);
    buf_fini(&last);
    buf_fini(&place);
    return found && w->rc >= 0;
}

static void random_key(struct errands_call *c)
{
    struct walker w;
    struct rng rng;
    uint64_t seed = 0;
    struct buf word = {0};
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1; /* never, for so few bytes */
    rng_init(&rng, seed);
    begin(&w, c);
    const struct manifest *m = readstate_manifest(w.lease.state);
    bool found = manifest_rows(m) > 0;
    if (found) {
        w.range.one_shard = true;
        w.range.shard = random_shard(m, &rng);
        found = find_random(&w, &rng, &word);
    }
    if (found) reply_bulk(c->out, slice_of(word.p ? word.p : "", word.len));
    else if (w.rc >= 0) reply_null(c->out);
    end(&w);
    buf_fini(&word);
}

/* ---- rows in order */

/* A bound of SNAPSHOT.SCAN: a key as the encoding stores it; - and + are the ends. False: the error is answered. */
static bool narrow_by_bound(struct walker *w, struct slice word, bool is_end)
{
    char scratch[8];
    struct snapkey key;
    struct slice stored;
    if (slice_is(word, is_end ? "+" : "-")) return true;
    const char *flaw = snapkey_parse(encoding_of(w), word, &key);
    if (!flaw) flaw = snapkey_encode(encoding_of(w), &key, scratch, &stored);
    if (flaw) reply_errorf(w->c->out, "ERR %s", flaw);
    else if (is_end) readscan_to(&w->range, stored, false);
    else readscan_from(&w->range, stored, false);
    return !flaw;
}

/* [PREFIX p | RANGE start end] [LIMIT n] [REVERSE]. False: the error is answered. */
static bool parse_walk(struct walker *w, int64_t *limit)
{
    struct errands_call *c = w->c;
    *limit = SCAN_LIMIT;
    for (uint32_t i = 1; i < c->argc; i++) {
        uint32_t left = c->argc - i - 1;
        if (slice_is(c->argv[i], "reverse")) {
            w->range.reverse = true;
        } else if (left >= 1 && slice_is(c->argv[i], "prefix")) {
            readscan_prefix(&w->range, c->argv[++i]);
        } else if (left >= 2 && slice_is(c->argv[i], "range")) {
            if (!narrow_by_bound(w, c->argv[i + 1], false) || !narrow_by_bound(w, c->argv[i + 2], true)) return false;
            i += 2;
        } else if (left >= 1 && slice_is(c->argv[i], "limit") && num_parse_i64(c->argv[i + 1], limit) && *limit > 0) {
            i++;
        } else {
            reply_error(c->out, reply_syntax);
            return false;
        }
    }
    return true;
}

static void walk_rows(struct errands_call *c)
{
    int64_t limit;
    struct slice stored, value;
    struct buf found = {0};
    struct reply out = {.out = &found, .resp = c->out->resp};
    struct walker w;
    int64_t n = 0;
    begin(&w, c);
    if (parse_walk(&w, &limit)) {
        for (; n < limit && next(&w, &stored, &value); n++) {
            reply_bulk(&out, buf_slice(&w.word));
            reply_bulk(&out, value);
        }
        if (w.rc >= 0) {
            reply_array(c->out, 2 * (size_t)n);
            buf_add_slice(c->out->out, buf_slice(&found));
        }
    }
    end(&w);
    buf_fini(&found);
}

/* ---- key spaces: in a snapshot each of them is in order. A space is its own key, if there is one, and behind it what begins with its name and a slash. */

struct space_walk {
    struct walker w;
    struct rangequery q;
    unsigned part; /* of two, counted from where the walk begins */
};

static void narrow_to_part(struct space_walk *s)
{
    struct walker *w = &s->w;
    struct slice space = s->q.space;
    readscan_close(w->scan);
    w->scan = NULL;
    readscan_range_fini(&w->range);
    w->range = (struct readscan_range){.reverse = s->q.reverse};
    if (s->q.start.n) readscan_from(&w->range, s->q.start, false);
    if (s->q.end.n) readscan_to(&w->range, s->q.end, false);
    if (s->part == (s->q.reverse ? 1 : 0)) {
        readscan_from(&w->range, space, false);
        readscan_to(&w->range, space, true);
    } else {
        struct buf prefix = {0};
        buf_add_slice(&prefix, space);
        buf_add_byte(&prefix, '/');
        readscan_prefix(&w->range, buf_slice(&prefix));
        buf_fini(&prefix);
    }
}

/* The arguments, and the first part. False: the error is answered, and nothing is to be ended. */
static bool begin_space(struct space_walk *s, struct errands_call *c, unsigned parts)
{
    struct buf why = {0};
    *s = (struct space_walk){0};
    bool ok = rangequery_parse(c->argv, c->argc, parts, &s->q, &why);
    buf_add_byte(&why, '\0');
    if (!ok) reply_error(c->out, why.p);
    buf_fini(&why);
    if (!ok) return false;
    begin(&s->w, c);
    if (as_written(&s->w)) {
        narrow_to_part(s);
        return true;
    }
    reply_error(c->out, "ERR the keys of this snapshot are numbers, which have no key spaces: SNAPSHOT.SCAN RANGE start end reads them in order");
    end(&s->w);
    return false;
}

/* Keys of spaces below this one stand between its own. */
static bool next_of_space(struct space_walk *s, struct slice *value)
{
    struct slice stored;
    for (;;) {
        while (next(&s->w, &stored, value))
            if (slice_eq(space_of(buf_slice(&s->w.word)), s->q.space)) return true;
        if (s->w.rc < 0 || s->part == 1) return false;
        s->part = 1;
        narrow_to_part(s);
    }
}

static void read_space(struct errands_call *c, unsigned parts)
{
    struct space_walk s;
    struct slice value;
    struct buf page = {0}, cursor = {0}, last = {0};
    struct reply out = {.out = &page, .resp = c->out->resp};
    uint64_t n = 0;
    if (!begin_space(&s, c, parts)) return;
    while (next_of_space(&s, &value)) {
        struct slice key = buf_slice(&s.w.word);
        if (n == s.q.limit) { /* there is more */
            rangequery_cursor(&s.q, s.q.reverse ? buf_slice(&last) : key, &cursor);
            break;
        }
        reply_bulk(&out, key);
        if (!s.q.keys_only) reply_bulk(&out, value);
        last.len = 0;
        buf_add_slice(&last, key);
        n++;
    }
    if (s.w.rc >= 0) {
        reply_array(c->out, 2);
        reply_bulk(c->out, cursor.len ? buf_slice(&cursor) : slice_str("0"));
        reply_array(c->out, s.q.keys_only ? n : 2 * n);
        buf_add_slice(c->out->out, buf_slice(&page));
    }
    end(&s.w);
    buf_fini(&page);
    buf_fini(&cursor);
    buf_fini(&last);
}

static void range_get(struct errands_call *c) { read_space(c, RANGEQUERY_BOUNDS | RANGEQUERY_PAGES | RANGEQUERY_GET); }
static void bucket_get(struct errands_call *c) { read_space(c, RANGEQUERY_PAGES | RANGEQUERY_GET); }

static void range_count(struct errands_call *c)
{
    struct space_walk s;
    struct slice value;
    int64_t n = 0;
    if (!begin_space(&s, c, RANGEQUERY_BOUNDS)) return;
    while (next_of_space(&s, &value)) n++;
    if (s.w.rc >= 0) reply_int(c->out, n);
    end(&s.w);
}

/* ---- the commands */

static void cmd_get(struct exec *x) { snapserve_run(x, get, SNAPSERVE_SHORT); }
static void cmd_mget(struct exec *x) { snapserve_run(x, get_many, SNAPSERVE_SHORT); }
static void cmd_exists(struct exec *x) { snapserve_run(x, count_existing, SNAPSERVE_SHORT); }
static void cmd_strlen(struct exec *x) { snapserve_run(x, string_length, SNAPSERVE_SHORT); }
static void cmd_getrange(struct exec *x) { snapserve_run(x, get_range, SNAPSERVE_SHORT); }
static void cmd_type(struct exec *x) { snapserve_run(x, type_of, SNAPSERVE_SHORT); }
static void cmd_ttl(struct exec *x) { snapserve_run(x, time_to_live, SNAPSERVE_SHORT); }
static void cmd_scan(struct exec *x) { snapserve_run(x, scan, SNAPSERVE_LONG); }
static void cmd_keys(struct exec *x) { snapserve_run(x, keys_like, SNAPSERVE_LONG); }
static void cmd_randomkey(struct exec *x) { snapserve_run(x, random_key, SNAPSERVE_LONG); }
static void cmd_range_get(struct exec *x) { snapserve_run(x, range_get, SNAPSERVE_LONG); }
static void cmd_range_count(struct exec *x) { snapserve_run(x, range_count, SNAPSERVE_LONG); }
static void cmd_bucket_get(struct exec *x) { snapserve_run(x, bucket_get, SNAPSERVE_LONG); }
static void cmd_dbsize(struct exec *x) { reply_int(&x->out, (int64_t)snapserve_rows(conn_of(x)->front->server)); }
static void cmd_snapshot_get(struct exec *x) { snapserve_run(x, get_with_context, SNAPSERVE_SHORT); }
static void cmd_snapshot_scan(struct exec *x) { snapserve_run(x, walk_rows, SNAPSERVE_LONG); }

/* In place of those of a live server with these names, whose other columns stay. */
static const struct replacement {
    const char *name;
    void (*fn)(struct exec *x);
} replacements[] = {
    {"get", cmd_get}, {"mget", cmd_mget}, {"exists", cmd_exists}, {"touch", cmd_exists}, {"strlen", cmd_strlen}, {"getrange", cmd_getrange}, {"substr", cmd_getrange},
    {"type", cmd_type}, {"ttl", cmd_ttl}, {"pttl", cmd_ttl}, {"expiretime", cmd_ttl}, {"pexpiretime", cmd_ttl}, {"scan", cmd_scan}, {"keys", cmd_keys},
    {"randomkey", cmd_randomkey}, {"dbsize", cmd_dbsize}, {"range.get", cmd_range_get}, {"range.count", cmd_range_count}, {"bucket.get", cmd_bucket_get},
};

#define SNAPSHOT .class = CLASS_LOCAL, .group = "snapshot", .since = "7.2.0"

static const struct command rows[] = {
    {.name = "snapshot.get", SNAPSHOT, .fn = cmd_snapshot_get, .arity = -2, .flags = CMD_READONLY,
     .summary = "Returns the value of a key in the served snapshot; columns are for snapshots that are routed by more than the key.", .args = "key [column value ...]"},
    {.name = "snapshot.scan", SNAPSHOT, .fn = cmd_snapshot_scan, .arity = -1, .flags = CMD_READONLY | CMD_NO_MULTI,
     .summary = "Returns keys and values of the served snapshot in order; a range has its start and not its end, - and + are the first and the last.",
     .args = "[PREFIX prefix | RANGE start end] [LIMIT count] [REVERSE]"},
};

const struct command_family snapreads_family = COMMAND_FAMILY(rows);

static struct command row_of(const struct command *live)
{
    struct command row = *live;
    for (size_t i = 0; i < sizeof replacements / sizeof replacements[0]; i++) {
        if (strcmp(replacements[i].name, live->name) != 0) continue;
        row.fn = replacements[i].fn;
        row.class = CLASS_LOCAL;
    }
    return row;
}

struct command_table *snapreads_commands(void) { return server_commands_changed(row_of); }

bool snapreads_refuse(const struct command *cmd, struct reply *out)
{
    static const char *const groups[] = {"server", "stats", "connection", "transactions", "pubsub", "cluster", "snapshot"}; /* what is not about keys */
    bool fine = cmd->class == CLASS_LOCAL;
    if (cmd->flags & CMD_WRITE) {
        reply_error(out, "READONLY You can't write against a read only snapshot.");
        return true;
    }
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) fine |= strcmp(cmd->group, groups[i]) == 0;
    if (!fine) reply_errorf(out, "ERR '%s' is not available on a snapshot, which holds strings only", cmd->name);
    return !fine;
}
