#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F64_TEXT_MAX = 1024, F80_TEXT_MAX = 5120, EXACT_POWERS = 23 };

/* Powers of ten that a double holds exactly. */
static const double pow10_exact[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* ---- integers */

bool num_parse_u64(struct slice s, uint64_t *value)
{
    if (s.n == 0 || s.n > 20) return false;
    if (s.p[0] == '0') {
        *value = 0;
        return s.n == 1;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned d = (unsigned char)s.p[i] - (unsigned)'0';
        if (d > 9) return false;
        if (i == 19 && (v > UINT64_MAX / 10 || v * 10 > UINT64_MAX - d)) return false;
        v = v * 10 + d;
    }
    *value = v;
    return true;
}

bool num_parse_i64(struct slice s, int64_t *value)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t v;
    if (!num_parse_u64(negative ? slice_of(s.p + 1, s.n - 1) : s, &v)) return false;
    if (!negative) {
        if (v > INT64_MAX) return false;
        *value = (int64_t)v;
        return true;
    }
    if (v == 0 || v > (uint64_t)INT64_MAX + 1) return false;
    *value = (int64_t)(0 - v);
    return true;
}

static unsigned digits_of(uint64_t v)
{
    unsigned n = 1;
    for (;;) {
        if (v < 10) return n;
        if (v < 100) return n + 1;
        if (v < 1000) return n + 2;
        if (v < 10000) return n + 3;
        v /= 10000;
        n += 4;
    }
}

static size_t write_u64(char *out, uint64_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    unsigned n = digits_of(v), at = n;
    while (v >= 100) {
        at -= 2;
        memcpy(out + at, pairs + v % 100 * 2, 2);
        v /= 100;
    }
    if (v >= 10)
        memcpy(out, pairs + v * 2, 2);
    else
        out[0] = (char)('0' + v);
    return n;
}

size_t num_format_u64(char out[NUM_I64_MAX_CHARS], uint64_t v) { return write_u64(out, v); }

size_t num_format_i64(char out[NUM_I64_MAX_CHARS], int64_t v)
{
    if (v >= 0) return write_u64(out, (uint64_t)v);
    out[0] = '-';
    return 1 + write_u64(out + 1, 0 - (uint64_t)v);
}

/* ---- reading floating point */

/* Plain decimals of at most 15 digits: both the digits and the power of ten are exact doubles, so one division rounds once
 * and the result is what strtod gives. */
static bool parse_plain(struct slice s, double *value)
{
    uint64_t m = 0;
    unsigned digits = 0, fraction = 0;
    bool negative = s.n > 0 && s.p[0] == '-', dot = false;
    for (size_t i = negative; i < s.n; i++) {
        unsigned d = (unsigned char)s.p[i] - (unsigned)'0';
        if (d <= 9) {
            if (++digits > 15) return false;
            m = m * 10 + d;
            fraction += dot;
        } else if (s.p[i] == '.' && !dot) {
            dot = true;
        } else {
            return false;
        }
    }
    if (digits == 0) return false;
    double v = (double)m / pow10_exact[fraction];
    *value = negative ? -v : v;
    return true;
}

bool num_parse_f64(struct slice s, double *value)
{
    if (parse_plain(s, value)) return true;
    char text[F64_TEXT_MAX];
    if (s.n == 0 || s.n >= sizeof text || isspace((unsigned char)s.p[0])) return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end != text + s.n || isnan(v)) return false;
    if (errno == ERANGE && (isinf(v) || v == 0)) return false;
    *value = v;
    return true;
}

bool num_parse_f80(struct slice s, long double *value)
{
    char text[F80_TEXT_MAX];
    if (s.n == 0 || s.n >= sizeof text || isspace((unsigned char)s.p[0])) return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    char *end;
    errno = 0;
    long double v = strtold(text, &end);
    if (end != text + s.n || isnan(v)) return false;
    if (errno == ERANGE && (isinf(v) || v == 0)) return false;
    *value = v;
    return true;
}

/* ---- writing floating point */

/* The shortest decimal digits that read back as v > 0, without trailing zeros; v = 0.d1d2d3... * 10^point. */
struct decimal {
    char digits[24];
    unsigned n;
    int point;
};

static void add_digit(struct decimal *d, unsigned digit)
{
    if (d->n == 0 && digit == 0)
        d->point--;
    else
        d->digits[d->n++] = (char)('0' + digit);
}

/* Doubles with a fraction, from about 10^-21 on, exactly in fixed point (Steele and White 1990): digits are generated until what is left is
 * within half a step to the neighbouring double, on either side; the step below a power of two is half as wide. A neighbour's half-way point reads
 * as v if v's mantissa is even. */
static bool shortest_fixed(double v, struct decimal *d)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint64_t m = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    int shift = 1075 - (int)(bits >> 52 & 2047); /* v = m / 2^shift */
    if (shift < 1 || shift > 120) return false;
    uint64_t whole = shift < 53 ? m >> shift : 0;
    unsigned __int128 one = (unsigned __int128)1 << (shift + 2), rest = (unsigned __int128)m * 4 & (one - 1);
    unsigned __int128 up = 2, down = m == 1ull << 52 ? 1 : 2;
    unsigned even = (m & 1) == 0;
    d->n = whole ? (unsigned)write_u64(d->digits, whole) : 0;
    d->point = (int)d->n;
    for (;;) {
        rest *= 10, up *= 10, down *= 10;
        unsigned digit = (unsigned)(rest >> (shift + 2));
        rest &= one - 1;
        bool low = rest < down + even, high = rest + up + even > one;
        if (high && (!low || rest * 2 > one)) digit++;
        add_digit(d, digit);
        if (low || high) return true;
    }
}

static void shortest(double v, struct decimal *d)
{
    if (shortest_fixed(v, d)) return;
    char text[40];
    /* The very large and the very small. Normal doubles need 15 to 17 digits (fewer show up as zeros at the end); subnormal ones may do with less. */
    for (int precision = fpclassify(v) == FP_NORMAL ? 15 : 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, v);
        if (precision == 17 || strtod(text, NULL) == v) break;
    }
    char *e = strchr(text, 'e');
    d->point = atoi(e + 1) + 1;
    d->n = 0;
    for (char *c = text; c < e; c++)
        if (*c != '.') d->digits[d->n++] = *c;
    while (d->n > 1 && d->digits[d->n - 1] == '0') d->n--;
}

static size_t write_scientific(char *out, const struct decimal *d)
{
    char *w = out;
    *w++ = d->digits[0];
    if (d->n > 1) {
        *w++ = '.';
        memcpy(w, d->digits + 1, d->n - 1);
        w += d->n - 1;
    }
    int exponent = d->point - 1;
    *w++ = 'e';
    *w++ = exponent < 0 ? '-' : '+';
    w += write_u64(w, (uint64_t)abs(exponent));
    return (size_t)(w - out);
}

/* Where Redis 7.2 changes to the exponent: zeros behind the digits only up to seven more than there are digits, zeros before them
 * only down to 10^-6 or so. */
static size_t write_decimal(char *out, const struct decimal *d)
{
    int scale = d->point - (int)d->n, n = (int)d->n; /* v = digits * 10^scale */
    int exponent = abs(d->point - 1);
    if (scale >= 0 && exponent < n + 7) {
        memcpy(out, d->digits, d->n);
        memset(out + n, '0', (size_t)scale);
        return d->n + (size_t)scale;
    }
    if (scale >= 0 || (scale <= -7 && exponent >= 4)) return write_scientific(out, d);
    if (d->point <= 0) {
        size_t zeros = (size_t)-d->point;
        memcpy(out, "0.", 2);
        memset(out + 2, '0', zeros);
        memcpy(out + 2 + zeros, d->digits, d->n);
        return 2 + zeros + d->n;
    }
    size_t whole = (size_t)d->point;
    memcpy(out, d->digits, whole);
    out[whole] = '.';
    memcpy(out + whole + 1, d->digits + whole, d->n - whole);
    return d->n + 1;
}

static size_t format_word(char *out, const char *word)
{
    size_t n = strlen(word);
    memcpy(out, word, n);
    return n;
}

size_t num_format_f64(char out[NUM_F64_MAX_CHARS], double v)
{
    if (isnan(v)) return format_word(out, "nan");
    if (isinf(v)) return format_word(out, v > 0 ? "inf" : "-inf");
    if (v == 0) return format_word(out, signbit(v) ? "-0" : "0");
    if (fabs(v) < 4611686018427387904.0 && v == (double)(int64_t)v) return num_format_i64(out, (int64_t)v);
    struct decimal d;
    size_t sign = v < 0;
    if (sign) out[0] = '-';
    shortest(fabs(v), &d);
    return sign + write_decimal(out + sign, &d);
}

size_t num_format_f80(char *out, size_t cap, long double v)
{
    if (isnan(v)) return format_word(out, "nan");
    if (isinf(v)) return format_word(out, v > 0 ? "inf" : "-inf");
    size_t n = (size_t)snprintf(out, cap, "%.17Lf", v);
    if (n >= cap) n = cap - 1;
    if (memchr(out, '.', n)) {
        while (out[n - 1] == '0') n--;
        if (out[n - 1] == '.') n--;
    }
    return n == 2 && memcmp(out, "-0", 2) == 0 ? format_word(out, "0") : n;
}

/* ---- sizes */

bool num_parse_bytes(struct slice s, uint64_t *bytes)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"", 1},           {"b", 1},
                 {"k", 1000},       {"kb", 1024},
                 {"m", 1000000},    {"mb", 1024 * 1024},
                 {"g", 1000000000}, {"gb", 1024ull * 1024 * 1024}};
    size_t digits = 0;
    while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9') digits++;
    uint64_t v;
    if (!num_parse_u64(slice_of(s.p, digits), &v)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (slice_is(slice_of(s.p + digits, s.n - digits), units[i].unit))
            return !__builtin_mul_overflow(v, units[i].factor, bytes);
    return false;
}
