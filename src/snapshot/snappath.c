#include "snapshot/snappath.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "object/object.h"

/* ---- times */

enum { DAY_S = 86400, US = 1000000 };

/* Days since 1970-01-01 of a Gregorian date, and back. Years are counted from March, so that the leap day is the last of its year; 146097 days are 400 years. */
static int64_t days_of(int64_t y, unsigned m, unsigned d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3u : 9u)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void date_of(int64_t days, int64_t *y, unsigned *m, unsigned *d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *d = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
    *m = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

static unsigned days_in_month(int64_t y, unsigned m)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    return days[m - 1] + (m == 2 && leap);
}

void snappath_time(int64_t unix_us, char out[SNAPPATH_TIME_CHARS + 1])
{
    int64_t day_us = (int64_t)DAY_S * US, days = unix_us / day_us, rest = unix_us % day_us;
    if (rest < 0) rest += day_us, days--;
    int64_t y;
    unsigned m, d;
    date_of(days, &y, &m, &d);
    CHECK(y >= 1 && y <= 9999);
    unsigned s = (unsigned)(rest / US);
    char text[64];
    int n = snprintf(text, sizeof text, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)y, m, d, s / 3600, s / 60 % 60, s % 60, (unsigned)(rest % US));
    CHECK(n == SNAPPATH_TIME_CHARS);
    memcpy(out, text, SNAPPATH_TIME_CHARS + 1);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Takes exactly n digits off the front. */
static bool take_digits(struct slice *s, unsigned n, unsigned *value)
{
    if (s->n < n) return false;
    *value = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!is_digit(s->p[i])) return false;
        *value = *value * 10 + (unsigned)(s->p[i] - '0');
    }
    s->p += n;
    s->n -= n;
    return true;
}

static bool take_char(struct slice *s, char c)
{
    if (s->n == 0 || s->p[0] != c) return false;
    s->p++;
    s->n--;
    return true;
}

/* Digits behind the dot, at least one; those behind the sixth are dropped. */
static bool take_fraction(struct slice *s, unsigned *us)
{
    unsigned n = 0;
    *us = 0;
    for (; s->n > 0 && is_digit(s->p[0]); s->p++, s->n--, n++)
        if (n < 6) *us = *us * 10 + (unsigned)(s->p[0] - '0');
    for (unsigned i = n; i < 6; i++) *us *= 10;
    return n > 0;
}

/* "Z", "+02:00", "+0200", "+02" or nothing. */
static bool take_offset(struct slice *s, int64_t *offset_s)
{
    *offset_s = 0;
    if (s->n == 0 || take_char(s, 'Z') || take_char(s, 'z')) return true;
    bool minus = s->p[0] == '-';
    if (!take_char(s, '+') && !take_char(s, '-')) return false;
    unsigned h, m = 0;
    if (!take_digits(s, 2, &h)) return false;
    bool colon = take_char(s, ':');
    if ((colon || s->n > 0) && !take_digits(s, 2, &m)) return false;
    if (h > 23 || m > 59) return false;
    *offset_s = (int64_t)(h * 3600 + m * 60) * (minus ? -1 : 1);
    return true;
}

/* The part behind the date, from its "T" on. */
static bool take_clock(struct slice *s, int64_t *seconds, unsigned *us)
{
    unsigned h, m, sec = 0;
    if (!take_char(s, 'T') && !take_char(s, 't') && !take_char(s, ' ') && !take_char(s, '_')) return false;
    if (!take_digits(s, 2, &h) || !take_char(s, ':') || !take_digits(s, 2, &m)) return false;
    if (take_char(s, ':')) {
        if (!take_digits(s, 2, &sec)) return false;
        if (take_char(s, '.') && !take_fraction(s, us)) return false;
    }
    if (h > 23 || m > 59 || sec > 59) return false;
    *seconds = h * 3600 + m * 60 + sec;
    return true;
}

/* Seconds since 1970 as a number; above 2e10 they are milliseconds, as pydantic has it. */
static bool parse_epoch(struct slice text, int64_t *unix_us)
{
    char copy[40], *end;
    if (text.n == 0 || text.n >= sizeof copy || !(is_digit(text.p[0]) || (text.p[0] == '-' && text.n > 1 && is_digit(text.p[1])))) return false;
    for (size_t i = 1; i < text.n; i++)
        if (!is_digit(text.p[i]) && text.p[i] != '.') return false;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    double v = strtod(copy, &end);
    if (*end != '\0') return false;
    if (v > 2e10 || v < -2e10) v /= 1000;
    if (v < -62135596800.0 || v >= 253402300800.0) return false; /* years 1 to 9999 */
    *unix_us = (int64_t)(v * US);
    return true;
}

bool snappath_parse_time(struct slice text, int64_t *unix_us)
{
    unsigned y, m, d, us = 0;
    struct slice s = text;
    if (!take_digits(&s, 4, &y) || !take_char(&s, '-')) return parse_epoch(text, unix_us);
    if (!take_digits(&s, 2, &m) || !take_char(&s, '-') || !take_digits(&s, 2, &d)) return false;
    if (y < 1 || m < 1 || m > 12 || d < 1 || d > days_in_month(y, m)) return false;
    int64_t clock_s = 0, offset_s = 0;
    if (s.n > 0 && (!take_clock(&s, &clock_s, &us) || !take_offset(&s, &offset_s) || s.n > 0)) return false;
    int64_t seconds = days_of(y, m, d) * DAY_S + clock_s - offset_s;
    if (seconds < -62135596800 || seconds >= 253402300800) return false;
    *unix_us = seconds * US + us;
    return true;
}

/* ---- names */

void snappath_new_id(char out[SNAPPATH_ID_CHARS + 1])
{
    uint8_t b[SNAPPATH_ID_CHARS / 2];
    CHECK(getrandom(b, sizeof b, 0) == (ssize_t)sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* version 4 */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80); /* the usual variant */
    for (size_t i = 0; i < sizeof b; i++) snprintf(out + 2 * i, 3, "%02x", b[i]);
}

const char *snappath_check_run_id(struct slice run_id)
{
    if (run_id.n == 0) return "a run id must not be empty";
    if (run_id.n > SNAPPATH_RUN_ID_MAX) return "a run id has at most 128 characters";
    if (run_id.p[0] == '.') return "a run id does not begin with a dot";
    for (size_t i = 0; i < run_id.n; i++) {
        char c = run_id.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
        if (!letter && (c == '\0' || !strchr("._-:=", c))) return "a run id is made of letters, digits and . _ - : =";
    }
    return NULL;
}

void snappath_manifest(struct buf *out, int64_t unix_us, const char *run_id)
{
    char ts[SNAPPATH_TIME_CHARS + 1];
    snappath_time(unix_us, ts);
    buf_printf(out, SNAPPATH_MANIFESTS "%s_run_id=%s/manifest", ts, run_id);
}

void snappath_run(struct buf *out, int64_t unix_us, const char *run_id, const char *id)
{
    char ts[SNAPPATH_TIME_CHARS + 1];
    snappath_time(unix_us, ts);
    buf_printf(out, SNAPPATH_RUNS "%s_run_id=%s_%s/run.yaml", ts, run_id, id);
}

void snappath_attempt(struct buf *out, const char *run_id, uint32_t db_id, uint32_t attempt)
{
    buf_printf(out, SNAPPATH_SHARD_PREFIX "/run_id=%s/db=%05u/attempt=%02u", run_id, db_id, attempt);
}

static bool take_word(struct slice *s, struct slice word)
{
    if (s->n < word.n || memcmp(s->p, word.p, word.n) != 0) return false;
    s->p += word.n;
    s->n -= word.n;
    return true;
}

/* Takes a segment and the slash behind it. */
static bool take_segment(struct slice *s, struct slice *segment)
{
    const char *slash = s->n ? memchr(s->p, '/', s->n) : NULL;
    if (!slash || slash == s->p) return false;
    *segment = slice_of(s->p, (size_t)(slash - s->p));
    s->n -= segment->n + 1;
    s->p = slash + 1;
    return true;
}

static bool ends_with(struct slice s, struct slice tail) { return s.n >= tail.n && memcmp(s.p + s.n - tail.n, tail.p, tail.n) == 0; }

/* "<TS>_run_id=<rest>"; the time in its one width only. */
static bool parse_stamp(struct slice segment, int64_t *unix_us, struct slice *rest)
{
    struct slice ts = slice_of(segment.p, SNAPPATH_TIME_CHARS);
    if (segment.n < SNAPPATH_TIME_CHARS || ts.p[10] != 'T' || ts.p[19] != '.' || ts.p[26] != 'Z' || !snappath_parse_time(ts, unix_us)) return false;
    *rest = slice_of(segment.p + ts.n, segment.n - ts.n);
    return take_word(rest, SLICE("_run_id=")) && rest->n > 0;
}

bool snappath_parse_manifest(struct slice key, int64_t *unix_us, struct slice *run_id)
{
    struct slice segment;
    return take_word(&key, SLICE(SNAPPATH_MANIFESTS)) && take_segment(&key, &segment) && slice_eq(key, SLICE("manifest")) && parse_stamp(segment, unix_us, run_id);
}

bool snappath_parse_run(struct slice key, int64_t *unix_us, struct slice *run_id)
{
    struct slice segment;
    if (!take_word(&key, SLICE(SNAPPATH_RUNS)) || !take_segment(&key, &segment) || !slice_eq(key, SLICE("run.yaml"))) return false;
    if (!parse_stamp(segment, unix_us, run_id) || run_id->n < SNAPPATH_ID_CHARS + 2) return false;
    run_id->n -= SNAPPATH_ID_CHARS + 1;
    return run_id->p[run_id->n] == '_';
}

bool snappath_parse_attempt(struct slice key, struct slice *run_id, struct slice *folder)
{
    struct slice rest = key, db, attempt;
    if (!take_word(&rest, SLICE(SNAPPATH_SHARD_PREFIX "/run_id=")) || !take_segment(&rest, run_id) || !take_segment(&rest, &db) || !take_segment(&rest, &attempt)) return false;
    *folder = slice_of(key.p, (size_t)(attempt.p + attempt.n - key.p));
    return take_word(&attempt, SLICE("attempt=")) && attempt.n > 0;
}

/* ---- URLs */

const char *snappath_key(const struct object_store *s, const char *prefix, const char *url)
{
    const char *key = object_key_of(s, url);
    if (key || !prefix) return key;
    size_t n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/') n--;
    return n > 0 && strncmp(url, prefix, n) == 0 && url[n] == '/' && url[n + 1] != '\0' ? url + n + 1 : NULL;
}

const char *snappath_ref_key(const struct object_store *s, const char *ref)
{
    const char *key = object_key_of(s, ref);
    if (key) return key;
    int64_t us;
    struct slice run_id, url = slice_str(ref);
    if (!ends_with(url, SLICE("/manifest"))) return NULL;
    for (const char *at = strstr(ref, "/" SNAPPATH_MANIFESTS); at; at = strstr(at + 1, "/" SNAPPATH_MANIFESTS))
        if (snappath_parse_manifest(slice_str(at + 1), &us, &run_id)) return at + 1;
    return NULL;
}
